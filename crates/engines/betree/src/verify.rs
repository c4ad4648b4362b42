//! Verification: everything that the trees lead to is read and checked, and compared with the bitmaps.
//!
//! Snapshots and clones share nodes, runs and large values with other trees: what one tree has led to is not read again
//! for another, but no tree leads to an extent twice.

use std::collections::BTreeSet;
use std::sync::Arc;

use halite_contract::{Damage, Progress, Result, VerifyReport};

use crate::large::read_large;
use crate::run::{Reads, Run, RunCursor, Source};
use crate::storage::Extent;
use crate::store::Store;
use crate::store::checkpoint::Checkpoints;
use crate::tree::walk::{Part, large_values, walk};

/// Reads all trees.
pub(crate) fn verify(store: &Store, progress: Progress<'_>) -> Result<VerifyReport> {
    // The memtables are flushed to the trees: one that cannot be, for lack of room, is not read.
    if store.freeze().is_ok() {
        while store.flush_oldest().is_ok_and(|flushed| flushed) {}
    }
    // No flush changes the trees meanwhile, and the bitmaps are theirs.
    let checkpoints = store.checkpoints.lock();
    let view = store.view();
    let all = store.trees.storage.space(|space| space.blocks());
    let all = all.iter().map(|class| class.blocks.used).sum::<u64>() * halite_vdev::BLOCK as u64;
    let mut walk_of = Walk {
        store,
        report: VerifyReport::default(),
        found: BTreeSet::new(),
        of_tree: BTreeSet::new(),
        behind: BTreeSet::new(),
    };
    let mut is_complete = true;
    let trees = view.trees.values().chain([&checkpoints.root_tree]).chain(view.snapshots.values());
    for tree in trees {
        walk_of.of_tree.clear();
        let walked = walk(&store.trees, tree, &mut |part| {
            if !is_complete {
                return Ok(false);
            }
            let is_new = match part {
                Part::Node(pointer) => walk_of.extent(pointer.extent),
                Part::Run(run) => walk_of.run(run),
            };
            is_complete = progress(walk_of.report.bytes.min(all), all).is_continue();
            Ok(is_new)
        });
        if let Err(error) = walked {
            walk_of.damaged(error);
        }
    }
    let bitmaps = checkpoints.bitmaps.values().map(|bitmap| bitmap.extent);
    for extent in bitmaps.chain(checkpoints.root.extents()) {
        walk_of.extent(extent);
    }
    if is_complete {
        walk_of.deadlists(&checkpoints);
    }
    if is_complete && walk_of.report.damage.is_empty() {
        walk_of.compare();
    }
    walk_of.report.complete = is_complete;
    Ok(walk_of.report)
}

struct Walk<'a> {
    store: &'a Store,
    report: VerifyReport,
    /// The extents that are reachable.
    found: BTreeSet<Extent>,
    /// Those of them that the tree has led to that is walked.
    of_tree: BTreeSet<Extent>,
    /// The runs that begin behind others: their first extents, and where they begin there.
    behind: BTreeSet<(Extent, u32)>,
}

impl Walk<'_> {
    /// Notes an extent. Returns whether no tree before has led to it.
    fn extent(&mut self, extent: Extent) -> bool {
        if !self.of_tree.insert(extent) {
            let what = format!("the extent at {}", extent.address);
            self.report.damage.push(Damage { what, why: "two pointers lead to it".into() });
            return false;
        }
        let is_new = self.found.insert(extent);
        if is_new {
            self.report.bytes += u64::from(extent.blocks) * halite_vdev::BLOCK as u64;
        }
        is_new
    }

    fn run(&mut self, run: &Arc<Run>) -> bool {
        let pointer = run.pointer();
        let mut is_new = false;
        for extent in pointer.own_extents() {
            is_new |= self.extent(*extent);
        }
        if let Some(base) = pointer.base.filter(|base| *base > 0) {
            // It goes with the run that has it, which a tree has too that shares this one.
            is_new |= self.behind.insert((pointer.extents[0], base));
        }
        if is_new && let Err(error) = self.messages(run) {
            self.damaged(error);
        }
        is_new
    }

    /// Checks that all entries of deadlists are in some snapshot.
    fn deadlists(&mut self, checkpoints: &Checkpoints) {
        let (trees, histories) = (&self.store.trees, &checkpoints.histories);
        for snapshot in histories.ids() {
            match histories.deadlists.read(trees, &checkpoints.root_tree, snapshot) {
                Err(error) => self.damaged(error),
                Ok(list) => {
                    for dropped in
                        list.iter().filter(|dropped| !self.found.contains(&dropped.extent))
                    {
                        let what = format!("the extent at {}", dropped.extent.address);
                        let why = "a deadlist has it, and no snapshot leads to it".into();
                        self.report.damage.push(Damage { what, why });
                    }
                }
            }
        }
    }

    fn messages(&mut self, run: &Arc<Run>) -> crate::Result<()> {
        let mut cursor = RunCursor::new(Arc::clone(run), &[], None, Reads::Once)?;
        cursor.first()?;
        while cursor.key().is_some() {
            self.report.records += 1;
            cursor.next()?;
        }
        for value in large_values(run)? {
            let mut is_new = false;
            for piece in &value.pieces {
                is_new |= self.extent(piece.extent);
            }
            if is_new {
                read_large(&self.store.trees, &value)?;
            }
        }
        Ok(())
    }

    fn damaged(&mut self, error: crate::Error) {
        let error = halite_contract::Error::from(error);
        let damage = error.damage();
        let damage =
            damage.unwrap_or_else(|| Damage { what: "tree".into(), why: error.to_string() });
        self.report.damage.push(damage);
    }

    /// Compares what is reachable with the bitmaps.
    fn compare(&mut self) {
        let space = &self.store.trees.storage;
        let (lacks, used) = space.space(|space| {
            let lacks = self.found.iter().find(|extent| !space.is_allocated(**extent)).copied();
            (lacks, space.blocks().iter().map(|class| class.blocks.used).sum::<u64>())
        });
        if let Some(extent) = lacks {
            let what = format!("the extent at {}", extent.address);
            self.report.damage.push(Damage { what, why: "the bitmaps have it as free".into() });
        }
        let reachable: u64 = self.found.iter().map(|extent| space.actual_blocks(*extent)).sum();
        if used != reachable {
            let why = format!("they have {used} blocks in use, and {reachable} are reachable");
            self.report.damage.push(Damage { what: "the bitmaps".into(), why });
        }
    }
}
