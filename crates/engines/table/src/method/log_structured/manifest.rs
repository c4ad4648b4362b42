//! The manifest: which runs are in which level, the catalog, and how much of the log they have.
//!
//! ```text
//!  MANIFEST:  checksum u64 | magic | format u32 | store u128 | next number u64 | place in the log: 3 u64
//!           | catalog: length, bytes | count, level..
//!  level    = count, run..
//!  run      = number | file length | count, part..
//!  part     = id of the index | entries | bytes
//! ```
//!
//! Numbers behind the fixed ones are varints. Each change is a new file that takes the name of the old one: so there is
//! the old state or the new one, whole. Names that the new state needs are made durable before: a change costs a sync of
//! the file and two of the folder's names.

use halite_codec::{CHECKSUM, Reader, Seed, check_front, put_bytes, put_front, put_varint};
use halite_disk::Disk;
use halite_sim::planted;

use super::run::{Meta, Part};
use crate::method::redo_log::Position;
use crate::{Catalog, Error, IndexId, Result};

pub(super) const MANIFEST: &str = "MANIFEST";

/// The name of a manifest that is being written.
pub(super) const UNFINISHED: &str = "MANIFEST.new";

const MAGIC: &[u8; 16] = b"halite log runs ";
const FORMAT: u32 = 1;

/// The seed of the checksum: the manifest is read before the store's id is known.
const SEED: Seed = Seed::new(0x10c5_7ac7_0a2d_0b17);

/// The longest manifest that is read.
const LEN_MAX: u64 = 1 << 30;

/// The state of a partition as the manifest has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct State {
    pub(super) store_id: u128,
    /// The number of the next run.
    pub(super) next_number: u64,
    /// The place in the log up to which the runs have all commits.
    pub(super) log: Position,
    pub(super) catalog: Catalog,
    pub(super) levels: Vec<Vec<Meta>>,
}

/// A manifest that could not be made the partition's.
pub(super) struct Unnamed {
    pub(super) error: Error,
    /// Whether it may be the partition's after the next opening.
    pub(super) may_count: bool,
}

impl State {
    fn encode(&self) -> Vec<u8> {
        let mut bytes = vec![0; CHECKSUM];
        bytes.extend_from_slice(MAGIC);
        bytes.extend_from_slice(&FORMAT.to_le_bytes());
        bytes.extend_from_slice(&self.store_id.to_le_bytes());
        let Position { sequence, file, len } = self.log;
        for number in [self.next_number, sequence, file, len] {
            bytes.extend_from_slice(&number.to_le_bytes());
        }
        put_bytes(&mut bytes, &self.catalog.encode(Seed::of_store(self.store_id)));
        put_varint(&mut bytes, self.levels.len() as u64);
        for level in &self.levels {
            put_varint(&mut bytes, level.len() as u64);
            for Meta { number, file_len, parts } in level {
                for number in [*number, *file_len, parts.len() as u64] {
                    put_varint(&mut bytes, number);
                }
                for Part { index: IndexId(index), entries, bytes: len } in parts {
                    for number in [u64::from(*index), *entries, *len] {
                        put_varint(&mut bytes, number);
                    }
                }
            }
        }
        put_front(&mut bytes, SEED);
        bytes
    }

    fn decode(bytes: &[u8]) -> Result<Self> {
        let wrong = |error: halite_codec::Error| damaged(error.reason());
        if bytes.get(CHECKSUM..CHECKSUM + MAGIC.len()).is_some_and(|magic| magic != MAGIC) {
            return Err(foreign());
        }
        let mut reader = Reader(check_front(bytes, SEED).map_err(wrong)?);
        reader.take(MAGIC.len()).map_err(wrong)?;
        let format = reader.u32().map_err(wrong)?;
        if format != FORMAT {
            return Err(Error::Version { what: MANIFEST.into(), version: format, known: FORMAT });
        }
        let mut state = || {
            let store_id = reader.u128()?;
            let next_number = reader.u64()?;
            let log = Position { sequence: reader.u64()?, file: reader.u64()?, len: reader.u64()? };
            let catalog = reader.bytes()?;
            let mut levels = Vec::new();
            for _ in 0..reader.varint()? {
                let mut level = Vec::new();
                for _ in 0..reader.varint()? {
                    level.push(meta(&mut reader)?);
                }
                levels.push(level);
            }
            Ok((store_id, next_number, log, catalog, levels, reader.is_empty()))
        };
        let (store_id, next_number, log, catalog, levels, is_whole) = state().map_err(wrong)?;
        let mut numbers: Vec<u64> = levels.iter().flatten().map(|run| run.number).collect();
        numbers.sort_unstable();
        let is_twice = numbers.windows(2).any(|pair| pair[0] == pair[1]);
        if !is_whole || is_twice || numbers.last().is_some_and(|last| *last >= next_number) {
            return Err(damaged("its runs are not those of a partition"));
        }
        let catalog = Catalog::decode(catalog, Seed::of_store(store_id))?;
        Ok(Self { store_id, next_number, log, catalog, levels })
    }

    /// Reads the state of a partition.
    pub(super) fn read(disk: &Disk) -> Result<Self> {
        let file = disk.open(MANIFEST).map_err(|error| match error {
            halite_disk::Error::Missing { .. } => damaged("it is missing"),
            error => error.into(),
        })?;
        if file.len() > LEN_MAX {
            return Err(damaged("it is too long"));
        }
        let mut bytes = vec![0; file.len() as usize];
        file.read_at(0, &mut bytes)?;
        Self::decode(&bytes)
    }

    /// Makes it the state of the partition, durably, with all names of files that there are.
    pub(super) fn write(&self, disk: &Disk) -> Result<(), Unnamed> {
        let _ = disk.remove(UNFINISHED);
        let write = || {
            let mut writer = disk.create(UNFINISHED)?;
            writer.write(&self.encode())?;
            planted!("table.log-manifest-not-synced", writer.flush(), writer.sync())
        };
        write().map_err(|error| unnamed(disk, error, false))?;
        disk.sync().map_err(|error| unnamed(disk, error, false))?;
        disk.rename(UNFINISHED, MANIFEST).map_err(|error| unnamed(disk, error, false))?;
        disk.sync().map_err(|error| unnamed(disk, error, true))
    }
}

fn unnamed(disk: &Disk, error: halite_disk::Error, may_count: bool) -> Unnamed {
    if !may_count {
        // If it stays, the next opening removes it.
        let _ = disk.remove(UNFINISHED);
    }
    // After a failed sync of the names none of them can be changed any more.
    let may_count = may_count || disk.check_synced().is_err();
    Unnamed { error: error.into(), may_count }
}

fn meta(reader: &mut Reader<'_>) -> halite_codec::Result<Meta> {
    let (number, file_len) = (reader.varint()?, reader.varint()?);
    let mut parts = Vec::new();
    for _ in 0..reader.varint()? {
        let index = IndexId(reader.varint_u32()?);
        parts.push(Part { index, entries: reader.varint()?, bytes: reader.varint()? });
    }
    Ok(Meta { number, file_len, parts })
}

#[cold]
fn foreign() -> Error {
    Error::Foreign { what: MANIFEST.into(), why: "it is no manifest of sorted runs".into() }
}

#[cold]
fn damaged(why: &str) -> Error {
    Error::damaged(MANIFEST, why)
}
