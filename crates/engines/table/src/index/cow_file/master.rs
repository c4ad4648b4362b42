//! The master record: which directory is current.
//!
//! ```text
//!  checksum u64 | magic | version u32 | page length u32 | store u128 | sequence u64 | pages u32 | root u32 |
//!  level u8 | maps u64
//! ```
//!
//! There are two places of 4 KiB, of which a commit writes the one with the older record; each has the record twice,
//! half of it apart. A torn write may leave none of both copies: then it is not durable, and the other place has the
//! record before it. A damaged byte elsewhere leaves the other copy: so it never has a file fall back to an older
//! record.
//!
//! `maps` is the sum of hashes of all groups' numbers and of the sequences of their maps: so a map that is damaged, or
//! older than it should be, is found. A root of page 0 is that of a directory without trees.

use halite_codec::{Reader, Seed, check_front, put_front};
use halite_disk::PositionedFile;
use halite_sim::planted;

use super::page::{MASTERS, Pages};
use crate::index::btree::{LEVELS_MAX, Root};
use crate::index::{Error, Result};

const MAGIC: &[u8; 16] = b"halite cow trees";
const VERSION: u32 = 1;
const LEN: usize = 8 + 16 + 4 + 4 + 16 + 8 + 4 + 4 + 1 + 8;

/// Bytes of a place, and of a copy in it.
const PLACE: u64 = MASTERS / 2;
const COPY: usize = PLACE as usize / 2;

/// The seed of the checksum: the record is read before the store's id is known.
const SEED: Seed = Seed::new(0x00a5_7e12_eec0_12d5);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Master {
    pub(super) store_id: u128,
    pub(super) page_len: usize,
    pub(super) sequence: u64,
    /// Pages up to the last one that was ever used, as many as the file has at least.
    pub(super) pages: u32,
    pub(super) root: Option<Root>,
    pub(super) maps: u64,
}

impl Master {
    fn encode(&self) -> Vec<u8> {
        let mut bytes = vec![0; 8];
        bytes.extend_from_slice(MAGIC);
        bytes.extend_from_slice(&VERSION.to_le_bytes());
        bytes.extend_from_slice(&(self.page_len as u32).to_le_bytes());
        bytes.extend_from_slice(&self.store_id.to_le_bytes());
        bytes.extend_from_slice(&self.sequence.to_le_bytes());
        bytes.extend_from_slice(&self.pages.to_le_bytes());
        let root = self.root.unwrap_or(Root { id: 0, level: 0 });
        bytes.extend_from_slice(&(root.id as u32).to_le_bytes());
        bytes.push(root.level);
        bytes.extend_from_slice(&self.maps.to_le_bytes());
        put_front(&mut bytes, SEED);
        bytes
    }

    /// The bytes of a place.
    fn fill_place(&self) -> Vec<u8> {
        let record = self.encode();
        let mut place = vec![0; PLACE as usize];
        place[..LEN].copy_from_slice(&record);
        place[COPY..COPY + LEN].copy_from_slice(&record);
        place
    }

    /// A record, if these bytes are one.
    fn decode(bytes: &[u8]) -> Found {
        let record = &bytes[..LEN];
        let checked =
            planted!("table.master-not-checked", Ok(&record[8..]), check_front(record, SEED));
        let Ok(content) = checked else { return Found::Nothing };
        Self::fields(Reader(content)).unwrap_or(Found::Nothing)
    }

    fn fields(mut reader: Reader<'_>) -> halite_codec::Result<Found> {
        if reader.take(MAGIC.len())? != MAGIC {
            return Ok(Found::Nothing);
        }
        let version = reader.u32()?;
        if version != VERSION {
            return Ok(Found::Version(version));
        }
        let page_len = reader.u32()? as usize;
        let (store_id, sequence, pages) = (reader.u128()?, reader.u64()?, reader.u32()?);
        let root = Root { id: reader.u32()?.into(), level: reader.u8()? };
        let (root, maps) = ((root.id != 0).then_some(root), reader.u64()?);
        Ok(Found::Master(Self { store_id, page_len, sequence, pages, root, maps }))
    }

    fn check(self, file_len: u64) -> std::result::Result<(), &'static str> {
        if !Pages::is_len(self.page_len) {
            return Err("its pages have an impossible length");
        }
        if u64::from(self.pages) * self.page_len as u64 > file_len {
            return Err("the file is shorter than its master record says: it is truncated");
        }
        // Behind the master records are the two places of the first map.
        if u64::from(self.pages) < MASTERS.div_ceil(self.page_len as u64) + 2 {
            return Err("it has fewer pages than its first map needs");
        }
        if self.sequence == u64::MAX {
            return Err("no commit can follow its sequence");
        }
        match self.root {
            Some(root) if usize::from(root.level) >= LEVELS_MAX => Err("its root is too high"),
            Some(root) if root.id >= self.pages.into() => Err("its root is outside the file"),
            _ => Ok(()),
        }
    }

    /// Writes the record to a place, 0 or 1. It is durable after the next sync.
    pub(super) fn write(&self, file: &PositionedFile, place: u8) -> halite_disk::Result<()> {
        file.write_at(u64::from(place) * PLACE, &self.fill_place())
    }
}

enum Found {
    Master(Master),
    Version(u32),
    Nothing,
}

/// Reads the newest master record, and which place it is in.
pub(super) fn read(file: &PositionedFile) -> Result<(Master, u8)> {
    let path = || file.path().to_owned();
    if file.len() < MASTERS {
        return Err(Error::Foreign { path: path() });
    }
    let mut bytes = vec![0; MASTERS as usize];
    file.read_at(0, &mut bytes)?;
    let mut newest: Option<(Master, u8)> = None;
    let mut other_version = None;
    for (copy, bytes) in bytes.chunks_exact(COPY).enumerate() {
        match Master::decode(bytes) {
            Found::Master(master) => {
                if newest.is_none_or(|(newest, _)| newest.sequence < master.sequence) {
                    newest = Some((master, copy as u8 / 2));
                }
            }
            Found::Version(version) => other_version = Some(version),
            Found::Nothing => {}
        }
    }
    if let Some(version) = other_version {
        return Err(Error::Version { path: path(), version, known: VERSION });
    }
    let (master, place) = newest.ok_or_else(|| Error::Foreign { path: path() })?;
    let checked = master.check(file.len());
    checked.map_err(|reason| Error::Damaged { path: path(), page: 0, reason })?;
    Ok((master, place))
}
