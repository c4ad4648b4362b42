//! The writer: the dirty directory, and its commit.

use std::collections::BTreeMap;
use std::sync::Arc;

use halite_sim::planted;

use super::chain::Value;
use super::master::Master;
use super::page::{CHAIN, HEAD, VALUE_LEN_MAX};
use super::read::{CowScan, root_of, value_of};
use super::shared::encode_root;
use super::snapshot::Snapshot;
use super::space::Maps;
use super::verify::{Verified, verify};
use super::writer::Writer;
use crate::component::Component;
use crate::index::btree::put::put;
use crate::index::btree::remove::remove;
use crate::index::btree::scan::{Direction, Range, Scan};
use crate::index::btree::{Root, get};
use crate::index::node::Shape;
use crate::index::{Error, KEY_LEN_MAX, Result};

/// Bytes that are written at once at most.
const WRITE_MAX: usize = 1 << 20;

/// Pages behind the last one that was ever used for which the file has room. Without room on the device for them, only a
/// batch commits that frees as many pages as it takes: so entries can still be removed.
const RESERVE: u32 = 32;

/// Pages of the directory and of maps that a commit takes at most.
const COMMIT: u32 = 16;

/// A file of copy-on-write trees, and its writer.
///
/// Changes go to the dirty directory, which only this handle reads, until [`CowFile::commit`] makes it the current
/// one or [`CowFile::abort`] drops it. Dropping the handle drops the dirty directory, too.
pub struct CowFile {
    writer: Writer,
    /// The current directory, and the place of its master record.
    master: Master,
    place: u8,
    /// The last sequence that a commit tried.
    tried: u64,
    /// The dirty directory, without the roots below.
    directory: Option<Root>,
    /// The roots that the batch changed.
    roots: BTreeMap<u32, Option<Root>>,
    /// Whether a change failed.
    is_broken: bool,
    /// Whether a master record may be durable that is not the current one.
    is_unknown: bool,
}

impl CowFile {
    pub(super) fn new(writer: Writer, (master, place): (Master, u8), tried: u64) -> Self {
        Self {
            writer,
            master,
            place,
            tried,
            directory: master.root,
            roots: BTreeMap::new(),
            is_broken: false,
            is_unknown: false,
        }
    }

    /// The id of the store that the file was made for.
    #[must_use]
    pub fn store_id(&self) -> u128 {
        self.master.store_id
    }

    /// The sequence of the current directory. Each commit has a greater one.
    #[must_use]
    pub fn sequence(&self) -> u64 {
        self.master.sequence
    }

    /// The size of a page in bytes.
    #[must_use]
    pub fn page_len(&self) -> usize {
        self.master.page_len
    }

    /// Pages of the file in all, of those the free ones, and those that wait for snapshots.
    #[must_use]
    pub fn pages(&self) -> (u32, u32, u32) {
        let (free, waiting) = self.writer.space.free();
        (self.writer.space.len(), free, waiting)
    }

    /// Bytes of DRAM for pages: those that are kept, and those of the batch.
    #[must_use]
    pub fn memory_bytes(&self) -> usize {
        let kept = self.writer.shared.cache.lock().len();
        (kept + self.writer.dirty.len()) * self.master.page_len
    }

    /// The root of a tree in the dirty directory.
    fn root(&self, tree: u32) -> Result<Option<Root>> {
        match self.roots.get(&tree) {
            Some(root) => Ok(*root),
            None => root_of(&self.writer, &self.writer.shared, self.directory, tree),
        }
    }

    /// The value of a key in a tree, as the batch has it. A tree without entries need not exist.
    ///
    /// # Errors
    /// [`Error::Damaged`], [`Error::Disk`].
    pub fn get(&self, tree: u32, key: &[u8]) -> Result<Option<Vec<u8>>> {
        let _in = Component::Index.enter();
        let Writer { shared, dirty, .. } = &self.writer;
        value_of(&self.writer, shared, dirty, self.root(tree)?, key)
    }

    /// The entries of a range of a tree, as the batch has them.
    ///
    /// # Errors
    /// As [`CowFile::get`].
    pub fn scan(&self, tree: u32, range: Range<'_>, direction: Direction) -> Result<CowScan<'_>> {
        let scan = Scan::new(&self.writer, self.root(tree)?, range, direction)?;
        Ok(CowScan::dirty(scan, &self.writer))
    }

    /// A reader of the current directory, which stays as it is.
    #[must_use]
    pub fn snapshot(&self) -> Snapshot {
        let Master { sequence, root, .. } = self.master;
        Snapshot::new(Arc::clone(&self.writer.shared), sequence, root)
    }

    /// Sets the value of a key in a tree. Returns whether there was one.
    ///
    /// # Errors
    /// [`Error::KeyTooLong`], [`Error::ValueTooLong`]: nothing changed. [`Error::Full`], [`Error::Damaged`],
    /// [`Error::Disk`]: the batch can only be aborted. [`Error::Broken`], [`Error::Unknown`].
    pub fn put(&mut self, tree: u32, key: &[u8], value: &[u8]) -> Result<bool> {
        let _in = Component::Index.enter();
        check_lens(key, value)?;
        self.change(tree, |writer, root| {
            let max = Shape::BYTES.value_max(writer.shared.node_len(), key.len());
            let chain = (value.len() >= max).then(|| writer.keep(value)).transpose()?;
            let stored = chain.map_or(Value::Whole(value), Value::Chain).encode();
            let mut before = Vec::new();
            let was_there = put(writer, root, key, &stored, true, |bytes| {
                if !matches!(Value::decode(bytes), Ok(Value::Whole(_))) {
                    before.extend_from_slice(bytes);
                }
            })?;
            if !before.is_empty() {
                writer.release_value(&before)?;
            }
            Ok(was_there)
        })
    }

    /// Adds an entry to a tree. Returns false, and changes nothing, if the key is there.
    ///
    /// # Errors
    /// As [`CowFile::put`].
    pub fn insert(&mut self, tree: u32, key: &[u8], value: &[u8]) -> Result<bool> {
        check_lens(key, value)?;
        if get(&self.writer, self.root(tree)?, key, |_| ())?.is_some() {
            return Ok(false);
        }
        self.put(tree, key, value).map(|_| true)
    }

    /// Removes an entry of a tree. Returns whether it was there.
    ///
    /// # Errors
    /// As [`CowFile::put`].
    pub fn remove(&mut self, tree: u32, key: &[u8]) -> Result<bool> {
        let _in = Component::Index.enter();
        let Some(before) = get(&self.writer, self.root(tree)?, key, <[u8]>::to_vec)? else {
            return Ok(false);
        };
        self.change(tree, |writer, root| {
            remove(writer, root, key, |_| ())?;
            writer.release_value(&before)?;
            Ok(true)
        })
    }

    /// Removes all entries of a tree. Reads all of its pages, to give them back.
    ///
    /// # Errors
    /// As [`CowFile::put`].
    pub fn clear(&mut self, tree: u32) -> Result<()> {
        self.change(tree, |writer, root| {
            writer.release_tree(*root)?;
            *root = None;
            Ok(())
        })
    }

    /// Changes a tree in the dirty directory.
    fn change<T>(
        &mut self,
        tree: u32,
        change: impl FnOnce(&mut Writer, &mut Option<Root>) -> Result<T>,
    ) -> Result<T> {
        self.check_writable()?;
        if !self.is_dirty() {
            self.free_pages();
        }
        let mut root = self.root(tree)?;
        let before = root;
        self.is_broken = true;
        let done = change(&mut self.writer, &mut root)?;
        self.is_broken = false;
        if root != before {
            self.roots.insert(tree, root);
        }
        Ok(done)
    }

    /// Sees to it that the batch can take so many pages more, and commit. Returns false if the device has no room for them.
    ///
    /// # Errors
    /// [`Error::Disk`], but for lack of space.
    pub fn make_room(&mut self, pages: u32) -> Result<bool> {
        let Writer { shared, space, .. } = &self.writer;
        let more = pages.saturating_add(COMMIT).saturating_sub(space.free().0);
        let wanted = space.len().saturating_add(more).saturating_add(RESERVE);
        if shared.file.len() >= shared.pages.place(wanted) {
            return Ok(true);
        }
        match shared.file.preallocate(shared.pages.place(wanted.saturating_add(RESERVE))) {
            Err(halite_disk::Error::NoSpace { .. }) => Ok(false),
            grown => Ok(grown.map(|()| true)?),
        }
    }

    fn check_writable(&self) -> Result<()> {
        let path = || self.writer.shared.file.path().to_owned();
        match (self.is_unknown, self.is_broken) {
            (true, _) => Err(Error::Unknown { path: path() }),
            (false, true) => Err(Error::Broken { path: path() }),
            (false, false) => Ok(self.writer.shared.file.check()?),
        }
    }

    /// Whether the batch has changes.
    #[must_use]
    pub fn is_dirty(&self) -> bool {
        self.is_broken || !self.roots.is_empty() || !self.writer.dirty.is_empty()
    }

    /// Lets pages be allocated that no snapshot needs any more.
    fn free_pages(&mut self) {
        let oldest = self.writer.shared.oldest_snapshot().unwrap_or(u64::MAX);
        self.writer.space.free_up_to(oldest);
    }

    /// Drops the dirty directory.
    pub fn abort(&mut self) {
        self.writer.space.abort(self.writer.dirty.drain().map(|(page, _)| page));
        self.roots.clear();
        self.directory = self.master.root;
        self.is_broken = false;
    }

    /// Makes the dirty directory the current one, durably. Without changes it does nothing.
    ///
    /// # Errors
    /// [`Error::Disk`] (also for lack of space), [`Error::Full`]: the batch is aborted, and the file is as it was;
    /// after a sync that failed, it takes no more changes until it is opened again. [`Error::Broken`];
    /// [`Error::Unknown`] from then on if the master record could not be written for certain.
    pub fn commit(&mut self) -> Result<()> {
        let _in = Component::Recovery.enter();
        self.check_writable()?;
        if !self.is_dirty() {
            return Ok(());
        }
        let committed = self.write_batch();
        if committed.is_err() {
            self.abort();
        }
        committed
    }

    fn write_batch(&mut self) -> Result<()> {
        for (tree, root) in std::mem::take(&mut self.roots) {
            let (writer, key) = (&mut self.writer, tree.to_be_bytes());
            match root {
                Some(root) => {
                    put(writer, &mut self.directory, &key, &encode_root(root), true, |_| ())?;
                }
                None if get(writer, self.directory, &key, |_| ())?.is_some() => {
                    remove(writer, &mut self.directory, &key, |_| ())?;
                }
                None => {}
            }
        }
        // A sequence this high is of no commit of this program, and the master record has none above it.
        let next = self.tried.checked_add(1).filter(|next| *next < u64::MAX);
        let no_more =
            || self.writer.shared.damaged(0, "no commit can follow the sequence of a map");
        self.tried = next.ok_or_else(no_more)?;
        let maps = self.writer.space.maps(self.tried);
        let master = Master {
            sequence: self.tried,
            pages: self.writer.space.len(),
            root: self.directory,
            maps: maps.sum,
            ..self.master
        };
        if let Err(error) = self.write_pages(&maps) {
            self.writer.space.fail();
            return Err(error);
        }
        // From here on the directory may be durable.
        self.is_unknown = true;
        let (place, file) = (1 - self.place, &self.writer.shared.file);
        master.write(file, place)?;
        file.sync()?;
        self.is_unknown = false;
        (self.master, self.place) = (master, place);
        self.writer.space.commit(master.sequence, maps);
        self.keep_pages();
        self.free_pages();
        Ok(())
    }

    /// Writes the dirty pages and the maps, durably.
    fn write_pages(&mut self, maps: &Maps) -> Result<()> {
        let Writer { shared, dirty, space, .. } = &mut self.writer;
        let (needed, wanted) = (space.len(), space.len().saturating_add(RESERVE));
        let is_growing = space.freed() < dirty.len();
        if shared.file.len() < shared.pages.place(wanted) {
            let grown = shared.file.preallocate(shared.pages.place(wanted.saturating_add(RESERVE)));
            if is_growing || shared.file.len() < shared.pages.place(needed) {
                grown?;
            }
        }
        dirty.iter_mut().for_each(|(&page, bytes)| shared.pages.seal(page, bytes));
        let all = dirty.iter().map(|(&page, bytes)| (page, bytes));
        let mut all: Vec<_> =
            all.chain(maps.pages.iter().map(|(page, bytes)| (*page, bytes))).collect();
        all.sort_unstable_by_key(|(page, _)| *page);
        let mut buffer = Vec::new();
        let per_write = WRITE_MAX / shared.pages.len;
        let is_next = |one: &(u32, _), other: &(u32, _)| one.0 + 1 == other.0;
        for run in all.chunk_by(is_next).flat_map(|run| run.chunks(per_write)) {
            buffer.clear();
            run.iter().for_each(|(_, bytes)| buffer.extend_from_slice(bytes));
            shared.file.write_at(shared.pages.place(run[0].0), &buffer)?;
        }
        planted!("table.master-before-pages", return Ok(()));
        Ok(shared.file.sync()?)
    }

    /// Hands the pages of the batch to the cache.
    fn keep_pages(&mut self) {
        let mut cache = self.writer.shared.cache.lock();
        for (page, bytes) in self.writer.dirty.drain() {
            match bytes[HEAD - 1] {
                CHAIN => cache.remove(page),
                _ => cache.insert(page, bytes.into()),
            }
        }
    }

    /// Checks every page to which the current directory leads, the order of all keys, and that the maps have exactly
    /// those pages as used.
    ///
    /// # Errors
    /// [`Error::Damaged`], [`Error::Disk`]. [`Error::Broken`] if there is a batch.
    pub fn verify(&self) -> Result<Verified> {
        let path = || self.writer.shared.file.path().to_owned();
        if self.is_dirty() {
            return Err(Error::Broken { path: path() });
        }
        verify(&self.writer.shared, &self.writer.space, self.directory)
    }
}

fn check_lens(key: &[u8], value: &[u8]) -> Result<()> {
    match (key.len(), value.len()) {
        (0..=KEY_LEN_MAX, 0..=VALUE_LEN_MAX) => Ok(()),
        (0..=KEY_LEN_MAX, len) => Err(Error::ValueTooLong { len, max: VALUE_LEN_MAX }),
        (len, _) => Err(Error::KeyTooLong { len }),
    }
}

impl std::fmt::Debug for CowFile {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("CowFile").field("master", &self.master).finish_non_exhaustive()
    }
}
