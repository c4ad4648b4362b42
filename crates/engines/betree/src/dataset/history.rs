//! The snapshots of a dataset, and where an extent goes that its live tree drops.

use std::collections::BTreeMap;

use halite_codec::{Reader, put_varint};
use halite_sim::planted;

use crate::catalogue::SnapshotId;
use crate::tree::Tree;
use crate::tree::pointer::NodePointer;

/// A snapshot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct SnapshotRoot {
    /// The root of its tree, if that has anything.
    pub(crate) root: Option<NodePointer>,
    /// The epoch that it has ended: all that it has was born then, or before.
    pub(crate) epoch: u64,
    /// The sequence of the commit that made it.
    pub(crate) sequence: u64,
}

/// The snapshot that a clone began as.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Origin {
    pub(crate) snapshot: SnapshotId,
    /// Its epoch: what was born up to then is not the clone's own.
    pub(crate) epoch: u64,
}

/// The snapshots of a dataset.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct History {
    pub(crate) origin: Option<Origin>,
    /// By number, which is the order in which they were made.
    pub(crate) snapshots: BTreeMap<u64, SnapshotRoot>,
}

/// Where an extent goes that a tree does not need any more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fate {
    /// No snapshot has it.
    Free,
    /// The snapshot of this number has it: it goes to its list.
    List(u64),
    /// It is not the dataset's own.
    Forget,
}

impl History {
    /// Whether it says no more than no history does.
    pub(crate) fn is_empty(&self) -> bool {
        self.origin.is_none() && self.snapshots.is_empty()
    }

    /// The fate of an extent that the live tree drops.
    pub(crate) fn fate(&self, birth: u64) -> Fate {
        self.fate_before(u64::MAX, birth)
    }

    /// The fate of an extent that no snapshot has from a number on.
    pub(crate) fn fate_before(&self, snapshot: u64, birth: u64) -> Fate {
        if self.origin.is_some_and(|origin| birth <= origin.epoch) {
            return Fate::Forget;
        }
        planted!("betree.snapshot-extents-freed", return Fate::Free);
        match self.snapshots.range(..snapshot).next_back() {
            Some((&number, last))
                if planted!(
                    "betree.deadlist-off-by-one-epoch",
                    birth < last.epoch,
                    birth <= last.epoch
                ) =>
            {
                Fate::List(number)
            }
            _ => Fate::Free,
        }
    }
}

impl SnapshotRoot {
    /// Its tree.
    pub(crate) fn tree(&self) -> Tree {
        self.root.map_or_else(Tree::empty, Tree::of_stored)
    }

    /// `epoch varint | sequence varint | 0, or 1 and the pointer to the root`
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut to = Vec::new();
        put_varint(&mut to, self.epoch);
        put_varint(&mut to, self.sequence);
        to.push(self.root.is_some().into());
        self.root.iter().for_each(|root| root.encode(&mut to));
        to
    }

    pub(crate) fn decode(bytes: &[u8]) -> Option<Self> {
        let mut from = Reader(bytes);
        let (epoch, sequence) = (from.varint().ok()?, from.varint().ok()?);
        let root = match from.u8().ok()? {
            0 => None,
            1 => Some(NodePointer::decode(&mut from).ok()?),
            _ => return None,
        };
        from.is_empty().then_some(Self { root, epoch, sequence })
    }
}

impl Origin {
    /// `dataset varint | snapshot varint | epoch varint`
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut to = Vec::new();
        [self.snapshot.0.into(), self.snapshot.1, self.epoch]
            .iter()
            .for_each(|number| put_varint(&mut to, *number));
        to
    }

    pub(crate) fn decode(bytes: &[u8]) -> Option<Self> {
        let mut from = Reader(bytes);
        let snapshot = (from.varint_u32().ok()?, from.varint().ok()?);
        let epoch = from.varint().ok()?;
        from.is_empty().then_some(Self { snapshot, epoch })
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;
    use proptest::sample::Index;

    use super::*;

    #[derive(Debug, Clone)]
    enum Step {
        Born(u8),
        Drop(Index),
        Epoch,
        Snapshot,
        Delete(Index),
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![
            4 => (1..6_u8).prop_map(Step::Born),
            4 => any::<Index>().prop_map(Step::Drop),
            1 => Just(Step::Epoch),
            2 => Just(Step::Snapshot),
            2 => any::<Index>().prop_map(Step::Delete),
        ]
    }

    proptest! {
        /// An extent is a pair of its birth and a number.
        #[test]
        fn what_is_allocated_is_what_the_live_tree_and_the_snapshots_have(
            inherited in 0..5_u64,
            steps in prop::collection::vec(step(), 1..80),
        ) {
            type Extents = BTreeSet<(u64, u64)>;
            let (mut epoch, mut next) = (3, inherited);
            let root = |epoch| SnapshotRoot { root: None, epoch, sequence: 0 };
            let mut history = History::default();
            if inherited > 0 {
                history.origin = Some(Origin { snapshot: (1, 1), epoch: 2 });
            }
            let from_origin: Extents = (0..inherited).map(|number| (1 + number % 2, number)).collect();
            let mut live = from_origin.clone();
            let mut snapshots: BTreeMap<u64, Extents> = BTreeMap::new();
            let mut lists: BTreeMap<u64, Extents> = BTreeMap::new();
            // The dataset's own extents that are not free.
            let mut allocated = Extents::new();
            for step in steps {
                match step {
                    Step::Born(count) => {
                        for _ in 0..count {
                            next += 1;
                            live.insert((epoch, next));
                            allocated.insert((epoch, next));
                        }
                    }
                    Step::Drop(index) => {
                        let Some(extent) = live.iter().nth(index.index(live.len().max(1))).copied() else { continue };
                        live.remove(&extent);
                        match history.fate(extent.0) {
                            Fate::Free => prop_assert!(allocated.remove(&extent)),
                            Fate::List(list) => prop_assert!(lists.entry(list).or_default().insert(extent)),
                            Fate::Forget => prop_assert!(from_origin.contains(&extent)),
                        }
                    }
                    Step::Epoch => epoch += 1,
                    Step::Snapshot => {
                        next += 1;
                        history.snapshots.insert(next, root(epoch));
                        snapshots.insert(next, live.clone());
                        epoch += 1;
                    }
                    Step::Delete(index) => {
                        let Some(&number) = snapshots.keys().nth(index.index(snapshots.len().max(1))) else { continue };
                        for extent in lists.remove(&number).unwrap_or_default() {
                            match history.fate_before(number, extent.0) {
                                Fate::Free => prop_assert!(allocated.remove(&extent)),
                                Fate::List(list) => prop_assert!(lists.entry(list).or_default().insert(extent)),
                                Fate::Forget => prop_assert!(false, "a list has an extent of the origin"),
                            }
                        }
                        history.snapshots.remove(&number);
                        snapshots.remove(&number);
                    }
                }
                let reachable: Extents = snapshots.values().flatten().chain(&live).copied().collect();
                prop_assert_eq!(&allocated, &reachable.difference(&from_origin).copied().collect());
                // A list has what its snapshot has, and its successor has not.
                for (number, list) in &lists {
                    let mut later = snapshots.range(number + 1..);
                    let successor = later.next().map_or(&live, |(_, extents)| extents);
                    prop_assert!(list.is_subset(&snapshots[number]) && list.is_disjoint(successor));
                }
            }
        }
    }
}
