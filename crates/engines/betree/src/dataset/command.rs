//! Commands: changes of the catalogue that change trees, too.
//!
//! A command is a key of the catalogue, in the batch of the entries that it changes. The memtable ends behind it, so the
//! flush of that memtable has all that is before the command in the trees, and nothing that is behind it.
//!
//! ```text
//! 1 | dataset u32 | snapshot u64                          create
//! 2 | dataset u32 | snapshot u64                          delete
//! 3 | dataset u32 | snapshot u64                          rollback
//! 4 | dataset u32 | origin's dataset u32 | snapshot u64   clone
//! 5 | dataset u32                                         the dataset is gone, with its snapshots
//! 6 | dataset u32 | source u32 | changes u32 | start, end  copy of a range
//!   | old prefix, new prefix                              byte strings, each behind its length as a varint; the length
//!                                                         of no end is 0, that of another one is one more than it has
//! 7 | dataset u32 | staged u32 | changes u32 | snapshot u64 the staged changes come to the dataset, and a snapshot is made
//! ```
//!
//! `changes` are those of the command's batch, with the command: what is copied is the state before them.

use halite_codec::{Reader, put_bytes, put_varint};
use halite_contract::{Error, KeyRange, Result};

use crate::catalogue::{CATALOGUE, COMMAND, SnapshotId};
use crate::memtable::{Memtable, Version};
use crate::message::Kind;
use crate::record::{Batch, full_key};
use crate::store::view::GraftPart;

/// A command to a dataset, which a flush carries out behind the changes of its memtable.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Command {
    /// The dataset's tree becomes a snapshot's.
    Create(SnapshotId),
    /// The snapshot goes.
    Delete(SnapshotId),
    /// The snapshot's tree becomes its dataset's, and newer snapshots go.
    Rollback(SnapshotId),
    /// The tree of a snapshot becomes that of a new dataset, too.
    Clone { dataset: u32, origin: SnapshotId },
    /// A dataset is gone, and so are its snapshots.
    Destroy(u32),
    /// Keys of a dataset come to another one, or elsewhere in the same one.
    Copy { dataset: u32, changes: u32, part: GraftPart },
    /// The changes that were staged for a dataset come to it, and a snapshot is made of it.
    Receive { snapshot: SnapshotId, staged: u32, changes: u32 },
}

impl Command {
    /// Adds the command to a batch.
    pub(crate) fn push(&self, batch: &mut Batch) {
        batch.push(CATALOGUE, Kind::Insert, &[COMMAND], &self.encode());
    }

    fn encode(&self) -> Vec<u8> {
        let of = |code: u8, datasets: &[u32], snapshot: Option<u64>| {
            let mut bytes = vec![code];
            datasets.iter().for_each(|number| bytes.extend_from_slice(&number.to_le_bytes()));
            snapshot.iter().for_each(|number| bytes.extend_from_slice(&number.to_le_bytes()));
            bytes
        };
        match *self {
            Self::Create((dataset, snapshot)) => of(1, &[dataset], Some(snapshot)),
            Self::Delete((dataset, snapshot)) => of(2, &[dataset], Some(snapshot)),
            Self::Rollback((dataset, snapshot)) => of(3, &[dataset], Some(snapshot)),
            Self::Clone { dataset, origin } => of(4, &[dataset, origin.0], Some(origin.1)),
            Self::Destroy(dataset) => of(5, &[dataset], None),
            Self::Copy { dataset, changes, ref part } => {
                let mut bytes = of(6, &[dataset, part.source, changes], None);
                put_bytes(&mut bytes, &part.start);
                put_varint(&mut bytes, part.end.as_ref().map_or(0, |end| end.len() as u64 + 1));
                bytes.extend_from_slice(part.end.as_deref().unwrap_or_default());
                put_bytes(&mut bytes, &part.old_prefix);
                put_bytes(&mut bytes, &part.new_prefix);
                bytes
            }
            Self::Receive { snapshot, staged, changes } => {
                of(7, &[snapshot.0, staged, changes], Some(snapshot.1))
            }
        }
    }

    fn decode(bytes: &[u8]) -> Option<Self> {
        let mut from = Reader(bytes);
        let code = from.u8().ok()?;
        let dataset = from.u32().ok()?;
        let command = match code {
            1..=3 => {
                let id = (dataset, from.u64().ok()?);
                [Self::Create, Self::Delete, Self::Rollback][usize::from(code - 1)](id)
            }
            4 => Self::Clone { dataset, origin: (from.u32().ok()?, from.u64().ok()?) },
            5 => Self::Destroy(dataset),
            6 => {
                let (source, changes) = (from.u32().ok()?, from.u32().ok()?);
                let start = from.bytes().ok()?.to_vec();
                let end = match from.varint().ok()? {
                    0 => None,
                    len => Some(from.take(usize::try_from(len - 1).ok()?).ok()?.to_vec()),
                };
                let old_prefix = from.bytes().ok()?.to_vec();
                let new_prefix = from.bytes().ok()?.to_vec();
                // All keys from the start to the end begin with the old prefix.
                let range = KeyRange::new(start, end);
                let part = GraftPart::of_range(source, &range, &old_prefix, &new_prefix);
                Self::Copy { dataset, changes, part }
            }
            7 => {
                let (staged, changes) = (from.u32().ok()?, from.u32().ok()?);
                Self::Receive { snapshot: (dataset, from.u64().ok()?), staged, changes }
            }
            _ => return None,
        };
        from.is_empty().then_some(command)
    }

    /// The command that a memtable ends with.
    ///
    /// # Errors
    /// [`Error::Damaged`]: it is none.
    pub(crate) fn of_memtable(memtable: &Memtable) -> Result<Option<Self>> {
        let Version::Change(stored) = memtable.find(&full_key(CATALOGUE, &[COMMAND]), u64::MAX)
        else {
            return Ok(None);
        };
        let command = Self::decode(stored.payload);
        command.map(Some).ok_or_else(|| Error::Damaged {
            what: format!("the command {} of the log", stored.sequence),
            why: "it is of no kind".into(),
        })
    }

    /// The snapshot that the command makes.
    pub(crate) fn makes(&self) -> Option<SnapshotId> {
        match *self {
            Self::Create(snapshot) | Self::Receive { snapshot, .. } => Some(snapshot),
            _ => None,
        }
    }

    /// The dataset whose tree the command replaces by that of a snapshot, which readers see behind its commit.
    pub(crate) fn replaces(&self) -> Option<(u32, SnapshotId)> {
        match *self {
            Self::Rollback(snapshot) => Some((snapshot.0, snapshot)),
            Self::Clone { dataset, origin } => Some((dataset, origin)),
            _ => None,
        }
    }

    /// The dataset that gets keys of others, and how many changes the batch of the command has.
    pub(crate) fn grafts(&self) -> Option<(u32, u32)> {
        match *self {
            Self::Copy { dataset, changes, .. } => Some((dataset, changes)),
            Self::Receive { snapshot, changes, .. } => Some((snapshot.0, changes)),
            _ => None,
        }
    }
}

/// Whether a change of this key is a command.
pub(crate) fn is_command(key: &[u8]) -> bool {
    *key == full_key(CATALOGUE, &[COMMAND])[..]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_come_back_and_others_are_refused() {
        let all = [
            Command::Create((1, 2)),
            Command::Delete((3, u64::MAX)),
            Command::Rollback((4, 5)),
            Command::Clone { dataset: 6, origin: (7, 8) },
            Command::Destroy(9),
            Command::Copy {
                dataset: 1,
                changes: 2,
                part: GraftPart::of_range(3, &KeyRange::new(*b"ab", None), b"a", b""),
            },
            Command::Receive { snapshot: (4, 5), staged: 6, changes: 7 },
        ];
        for command in all {
            let bytes = command.encode();
            assert_eq!(Command::decode(&bytes).as_ref(), Some(&command));
            assert_eq!(Command::decode(&[&bytes[..], &[0]].concat()), None);
            (0..bytes.len()).for_each(|cut| assert_eq!(Command::decode(&bytes[..cut]), None));
        }
        assert_eq!(Command::decode(&[0, 1, 0, 0, 0]), None);
    }
}
