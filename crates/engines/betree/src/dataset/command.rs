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
//! ```

use halite_codec::Reader;
use halite_contract::{Error, Result};

use crate::catalogue::{CATALOGUE, COMMAND, SnapshotId};
use crate::memtable::{Memtable, Version};
use crate::message::Kind;
use crate::record::{Batch, full_key};

/// A command to a dataset, which a flush carries out behind the changes of its memtable.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
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
}

impl Command {
    /// Adds the command to a batch.
    pub(crate) fn push(self, batch: &mut Batch) {
        batch.push(CATALOGUE, Kind::Insert, &[COMMAND], &self.encode());
    }

    fn encode(self) -> Vec<u8> {
        let of = |code: u8, datasets: &[u32], snapshot: Option<u64>| {
            let mut bytes = vec![code];
            datasets.iter().for_each(|number| bytes.extend_from_slice(&number.to_le_bytes()));
            snapshot.iter().for_each(|number| bytes.extend_from_slice(&number.to_le_bytes()));
            bytes
        };
        match self {
            Self::Create((dataset, snapshot)) => of(1, &[dataset], Some(snapshot)),
            Self::Delete((dataset, snapshot)) => of(2, &[dataset], Some(snapshot)),
            Self::Rollback((dataset, snapshot)) => of(3, &[dataset], Some(snapshot)),
            Self::Clone { dataset, origin } => of(4, &[dataset, origin.0], Some(origin.1)),
            Self::Destroy(dataset) => of(5, &[dataset], None),
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

    /// The dataset whose tree the command replaces by that of a snapshot, which readers see behind its commit.
    pub(crate) fn replaces(self) -> Option<(u32, SnapshotId)> {
        match self {
            Self::Rollback(snapshot) => Some((snapshot.0, snapshot)),
            Self::Clone { dataset, origin } => Some((dataset, origin)),
            Self::Create(_) | Self::Delete(_) | Self::Destroy(_) => None,
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
        ];
        for command in all {
            let bytes = command.encode();
            assert_eq!(Command::decode(&bytes), Some(command));
            assert_eq!(Command::decode(&[&bytes[..], &[0]].concat()), None);
            (0..bytes.len()).for_each(|cut| assert_eq!(Command::decode(&bytes[..cut]), None));
        }
        assert_eq!(Command::decode(&[0, 1, 0, 0, 0]), None);
    }
}
