//! The histories of all datasets, as the root tree has them.
//!
//! ```text
//! key    3 | dataset u32 big-endian | snapshot u64 big-endian     its root
//!        3 | dataset u32 big-endian | 0 u64                       of a clone: its origin
//! ```

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::catalogue::SnapshotId;
use crate::dataset::deadlist::Deadlists;
use crate::dataset::history::{History, Origin, SnapshotRoot};
use crate::message::Kind;
use crate::run::Source;
use crate::tree::changes::Changes;
use crate::tree::cursor::TreeCursor;
use crate::tree::{Context, Tree};
use crate::{Error, Result};

/// The tag of snapshots in the root tree.
const TAG: u8 = 3;

/// The number of no snapshot, in the place of which an origin lies.
const ORIGIN: u64 = 0;

/// Entries of deadlists after which a checkpoint is due: a few MiB of memory.
const ENTRIES_MAX: usize = 1 << 16;

/// The trees of snapshots.
pub(crate) type SnapshotTrees = BTreeMap<SnapshotId, Tree>;

/// The snapshots and deadlists of all datasets, as the last flush has left them.
#[derive(Default)]
pub(crate) struct Histories {
    by_dataset: BTreeMap<u32, History>,
    /// Keys whose values the root tree does not have.
    changed: BTreeSet<SnapshotId>,
    pub(crate) deadlists: Deadlists,
}

fn key_of((dataset, snapshot): SnapshotId) -> Vec<u8> {
    [&[TAG], &dataset.to_be_bytes()[..], &snapshot.to_be_bytes()].concat()
}

fn id_of(key: &[u8]) -> Option<SnapshotId> {
    let (dataset, snapshot) = key.strip_prefix(&[TAG])?.split_first_chunk()?;
    Some((u32::from_be_bytes(*dataset), u64::from_be_bytes(snapshot.try_into().ok()?)))
}

impl Histories {
    /// Reads the histories from the root tree.
    ///
    /// # Errors
    /// Those of reading it; [`Error::Message`]: an entry is none.
    pub(crate) fn read(context: &Arc<Context>, root_tree: &Tree) -> Result<Self> {
        let (start, end) = ([TAG], [TAG + 1]);
        let mut cursor = TreeCursor::new(context, root_tree.clone(), &start, Some(&end), None);
        let mut histories = Self::default();
        cursor.first()?;
        while let Some(key) = cursor.key() {
            let message = cursor.message();
            if message.kind == Kind::Insert {
                let added = histories.add(key, &message.payload);
                added.ok_or_else(|| Error::Message {
                    why: "an entry is no snapshot of a dataset".into(),
                })?;
            }
            cursor.next()?;
        }
        Ok(histories)
    }

    fn add(&mut self, key: &[u8], value: &[u8]) -> Option<()> {
        let (dataset, number) = id_of(key)?;
        let history = self.by_dataset.entry(dataset).or_default();
        match number {
            ORIGIN => history.origin = Some(Origin::decode(value)?),
            _ => drop(history.snapshots.insert(number, SnapshotRoot::decode(value)?)),
        }
        Some(())
    }

    /// The history of a dataset.
    pub(crate) fn of(&self, dataset: u32) -> History {
        self.by_dataset.get(&dataset).cloned().unwrap_or_default()
    }

    /// A snapshot.
    pub(crate) fn snapshot(&self, (dataset, number): SnapshotId) -> Option<&SnapshotRoot> {
        self.by_dataset.get(&dataset)?.snapshots.get(&number)
    }

    /// Replaces the history of a dataset.
    pub(crate) fn set(&mut self, dataset: u32, history: History) {
        let before = self.by_dataset.remove(&dataset).unwrap_or_default();
        if before.origin != history.origin {
            self.changed.insert((dataset, ORIGIN));
        }
        for number in before.snapshots.keys().chain(history.snapshots.keys()) {
            if before.snapshots.get(number) != history.snapshots.get(number) {
                self.changed.insert((dataset, *number));
            }
        }
        if !history.is_empty() {
            self.by_dataset.insert(dataset, history);
        }
    }

    /// All snapshots.
    pub(crate) fn ids(&self) -> impl Iterator<Item = SnapshotId> {
        let of_dataset = |(&dataset, history): (&u32, &History)| {
            history.snapshots.keys().map(|&number| (dataset, number)).collect::<Vec<_>>()
        };
        self.by_dataset.iter().flat_map(of_dataset)
    }

    /// The trees of all snapshots.
    pub(crate) fn trees(&self) -> SnapshotTrees {
        self.ids().filter_map(|id| Some((id, self.snapshot(id)?.tree()))).collect()
    }

    /// Whether so much of them is in memory that a checkpoint is due.
    pub(crate) fn is_checkpoint_due(&self) -> bool {
        self.deadlists.len() >= ENTRIES_MAX
    }

    /// Adds what changed to the changes of the root tree.
    pub(crate) fn store(&self, changes: &mut Changes) {
        for &id @ (dataset, number) in &self.changed {
            let value = match number {
                ORIGIN => {
                    self.by_dataset.get(&dataset).and_then(|history| Some(history.origin?.encode()))
                }
                _ => self.snapshot(id).map(SnapshotRoot::encode),
            };
            match value {
                Some(value) => changes.add(key_of(id), Kind::Insert, value),
                None => changes.add(key_of(id), Kind::Delete, Vec::new()),
            }
        }
        self.deadlists.store(changes);
    }

    /// Notes that the root tree has what changed.
    pub(crate) fn stored(&mut self) {
        self.changed.clear();
        self.deadlists.stored();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_changes_say_is_read_back() {
        let mut histories = Histories::default();
        let origin = Some(Origin { snapshot: (1, 2), epoch: 3 });
        let snapshots = [(4, SnapshotRoot { root: None, epoch: 5, sequence: 6 })].into();
        let history = History { origin, snapshots };
        histories.set(7, history.clone());
        let mut read = Histories::default();
        let keys: Vec<_> = histories.changed.iter().copied().collect();
        assert_eq!(keys, [(7, ORIGIN), (7, 4)]);
        read.add(&key_of((7, ORIGIN)), &history.origin.unwrap().encode()).unwrap();
        let value = history.snapshots[&4].encode();
        read.add(&key_of((7, 4)), &value).unwrap();
        assert_eq!(read.of(7), history);
        assert!(
            read.add(&key_of((7, 4)), &value[1..]).is_none()
                && read.add(&[TAG, 1], &value).is_none()
        );
        histories.stored();
        histories.set(7, History::default());
        assert_eq!(histories.changed.len(), 2);
        assert!(
            histories.by_dataset.is_empty()
                && histories.trees().is_empty()
                && read.trees().len() == 1
        );
    }
}
