//! Making a file, and opening it.

use std::sync::Arc;

use halite_disk::{Access, Disk};

use super::Options;
use super::batch::CowFile;
use super::master::{self, Master};
use super::page::{MAP, MASTERS, Pages};
use super::shared::Shared;
use super::space::{FoundMap, Group, Space};
use super::writer::Writer;
use crate::index::{Error, Result};

impl CowFile {
    /// Makes a file without entries, for a store of this id. It is there as a whole or not at all: until it is durable
    /// it has the name with `.new` behind it, and a file that a crash left under that name is removed.
    ///
    /// # Errors
    /// [`Error::PageLen`], [`Error::Disk`].
    pub fn create(disk: &Disk, name: &str, store_id: u128, options: Options) -> Result<Self> {
        if !Pages::is_len(options.page_len) {
            return Err(Error::PageLen { len: options.page_len });
        }
        if disk.list()?.iter().any(|(there, _)| there == name) {
            return Err(halite_disk::Error::Exists { path: disk.path().join(name) }.into());
        }
        let unnamed = format!("{name}.new");
        if disk.list()?.iter().any(|(there, _)| *there == unnamed) {
            disk.remove(&unnamed)?;
        }
        let file = disk.create_positioned(&unnamed, Access::Cached)?;
        let pages = Pages::of(store_id, options.page_len);
        let mut space = Space::new(pages);
        let maps = space.maps(1);
        let master = Master {
            store_id,
            page_len: options.page_len,
            sequence: 1,
            pages: space.len(),
            root: None,
            maps: maps.sum,
        };
        file.write_zeros(0..pages.place(space.len()).max(MASTERS))?;
        for (page, bytes) in maps.pages {
            file.write_at(pages.place(page), &bytes)?;
        }
        master.write(&file, 0)?;
        file.sync()?;
        drop(file);
        disk.rename(&unnamed, name)?;
        Self::open(disk, name, store_id, options)
    }

    /// Opens a file of the store of this id. Of the options only the bytes for pages in DRAM count: the size of pages is the file's.
    ///
    /// The master record may be of a process that was killed before it synced it, so it is written again and synced,
    /// with the name of the file. All that it leads to was synced before it was written.
    ///
    /// # Errors
    /// [`Error::Foreign`], [`Error::OtherStore`], [`Error::Version`], [`Error::Damaged`] (also of a truncated file),
    /// [`Error::Disk`].
    pub fn open(disk: &Disk, name: &str, store_id: u128, options: Options) -> Result<Self> {
        let file = disk.open_positioned(name, Access::Cached)?;
        let (master, place) = master::read(&file)?;
        if master.store_id != store_id {
            let (path, found) = (file.path().to_owned(), master.store_id);
            return Err(Error::OtherStore { path, found, wanted: store_id });
        }
        let pages = Pages::of(master.store_id, master.page_len);
        let shared = Shared::new(disk.clone(), file, pages, options.cache_bytes);
        let mut space = Space::new(pages);
        let tried = load_maps(&shared, &mut space, &master)?;
        master.write(&shared.file, place)?;
        shared.file.sync()?;
        disk.sync()?;
        let writer = Writer::new(Arc::new(shared), space);
        Ok(Self::new(writer, (master, place), tried))
    }
}

/// Reads the maps. Returns the newest sequence that there is, of a batch that did not commit too.
fn load_maps(shared: &Shared, space: &mut Space, master: &Master) -> Result<u64> {
    let mut tried = master.sequence;
    let mut found = Vec::new();
    let mut page = vec![0; shared.pages.len];
    let mut first_damaged = None;
    for places in space.map_places(master.pages).collect::<Vec<_>>() {
        let mut newest: Option<FoundMap> = None;
        let mut is_stale = false;
        for (place, number) in (0..).zip(places) {
            shared.read(number, &mut page)?;
            let map = match shared.pages.check(number, &page) {
                Ok((MAP, content)) => {
                    Space::decode(content).filter(|(sequence, _)| *sequence < u64::MAX)
                }
                _ => None,
            };
            let Some((sequence, bits)) = map else {
                first_damaged = first_damaged.or(Some(number));
                continue;
            };
            tried = tried.max(sequence);
            if sequence > master.sequence {
                is_stale = true;
            } else if newest.as_ref().is_none_or(|newest| newest.counts.sequence < sequence) {
                let counts = Group { sequence, place };
                newest = Some(FoundMap { counts, bits: bits.to_vec(), is_stale: false });
            }
        }
        let newest = newest
            .ok_or_else(|| shared.damaged(places[0], "both copies of the map are damaged"))?;
        found.push(FoundMap { is_stale, ..newest });
    }
    let loaded = space.load(master.pages, found);
    let sum = loaded.map_err(|reason| shared.damaged(shared.pages.first(), reason))?;
    if sum != master.maps {
        let page = first_damaged.unwrap_or(shared.pages.first());
        return Err(shared.damaged(page, "the maps are not those of the directory"));
    }
    Ok(tried)
}
