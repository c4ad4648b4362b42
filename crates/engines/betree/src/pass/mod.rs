//! Passes over all extents: a scrub reads every replica and repairs what is wrong, a resilver brings what they missed to
//! the leaves that were away.
//!
//! A pass goes through the trees in the order of their keys, and reads space in use only. It holds a view, whose extents
//! are not written again, and takes a newer one every 256 MiB, at a key: everything below that is done. So it needs no lock, and space
//! that is freed meanwhile is kept for a while only. The trees of snapshots come next, of which only what the others do not
//! have is read; this part is not resumed in its middle. The root tree, the bitmaps and the root record, which checkpoints replace,
//! come last, with the lock of these.
//!
//! The key is noted in the superblock by every checkpoint, so a pass that was stopped, or whose process was, goes on from there. It
//! needs not read again what was written below its key since: that went to all leaves that were there. When a leaf comes back, or
//! another one takes its place, a resilver begins anew.

mod ahead;
#[cfg(test)]
mod tests;
mod walk;

use std::collections::{HashSet, VecDeque};
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::SystemTime;

use halite_contract::{Lost, Progress, Result, ScrubReport};
use halite_vdev::{BLOCK, LeafState};

use self::ahead::{Ahead, Memory};
use crate::Error;
use crate::catalogue::SnapshotId;
use crate::storage::Storage;
use crate::store::Store;
use crate::store::pool_record::{PassRecord, PassState};
use crate::store::view::View;

/// Bytes of extents after which a newer view is taken.
const VIEW_BYTES: u64 = 256 << 20;

/// The dataset that a pass is at when it has all trees.
const BEHIND_DATASETS: u32 = u32::MAX;

/// The kind of a pass.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Scrub,
    Resilver,
}

/// The results of passes that are kept in memory.
#[derive(Default)]
pub(crate) struct Passes {
    /// The extents that the last scrub and the last resilver found lost.
    scrub: Vec<Lost>,
    resilver: Vec<Lost>,
}

impl Passes {
    fn of(&mut self, kind: Kind) -> &mut Vec<Lost> {
        match kind {
            Kind::Scrub => &mut self.scrub,
            Kind::Resilver => &mut self.resilver,
        }
    }
}

/// Why a pass does not go on.
enum Stop {
    /// A newer view is due.
    View,
    /// The caller does not want it to.
    Asked,
}

type Flow = ControlFlow<Stop>;

/// A pass that is under way.
struct Pass<'a> {
    store: &'a Store,
    kind: Kind,
    record: PassRecord,
    errors: Vec<Lost>,
    /// Nodes that were visited, by address and birth; runs, by the directory's checksum and birth.
    seen: HashSet<(u64, u64)>,
    /// Nodes of snapshots below which everything was visited.
    done: HashSet<(u64, u64)>,
    /// The snapshot whose tree is visited.
    snapshot: Option<SnapshotId>,
    /// The view that keeps the extents that are visited.
    view: Option<Arc<View>>,
    /// The requests that were submitted and are not counted yet: the earliest first.
    ahead: VecDeque<Ahead>,
    memory: Memory,
    /// Bytes until a newer view is taken.
    left: u64,
    /// Bytes of all space in use.
    all: u64,
    progress: Progress<'a>,
    /// Whether something is lost that leads to other extents, or a leaf did not take what it lacks.
    is_partial: bool,
}

impl Store {
    /// Begins a pass, or goes on with the one that was stopped.
    pub(crate) fn pass(&self, kind: Kind, progress: Progress<'_>) -> Result<ScrubReport> {
        if self.is_passing.swap(true, Ordering::AcqRel) {
            return Err(Error::PassUnderWay.into());
        }
        let report = self.run_pass(kind, progress);
        self.is_passing.store(false, Ordering::Release);
        report
    }

    fn run_pass(&self, kind: Kind, progress: Progress<'_>) -> Result<ScrubReport> {
        self.health.check()?;
        let returns = self.returns.load(Ordering::Acquire);
        let storage = &self.trees.storage;
        if kind == Kind::Resilver && !storage.vdevs().any(|vdev| has_stale_leaf(vdev)) {
            return Ok(ScrubReport { is_complete: true, second: now(), ..ScrubReport::default() });
        }
        let last = self.last_pass(kind).filter(|last| last.state == PassState::Begun);
        let is_new = last.is_none();
        if is_new {
            // Every write from before a leaf came back is in a tree, or at least in a memtable.
            drop(self.writing_large.write());
            if self.freeze().is_ok() {
                while self.flush_oldest().is_ok_and(|flushed| flushed) {}
            }
        }
        let mut pass = Pass {
            store: self,
            kind,
            record: last.unwrap_or_default(),
            errors: if is_new { Vec::new() } else { self.passes.lock().of(kind).clone() },
            seen: HashSet::new(),
            done: HashSet::new(),
            snapshot: None,
            view: None,
            ahead: VecDeque::new(),
            memory: Memory::default(),
            left: VIEW_BYTES,
            all: used_bytes(storage),
            progress,
            is_partial: false,
        };
        let is_through = pass.run(is_new).is_continue();
        let Pass { mut record, errors, is_partial, .. } = pass;
        let is_current = returns == self.returns.load(Ordering::Acquire);
        let mut is_complete = is_through;
        if kind == Kind::Resilver && is_through {
            is_complete = is_current && !is_partial && self.declare_current()?;
        }
        record.second = now();
        record.state = if is_through { PassState::Complete } else { PassState::Begun };
        let report = ScrubReport {
            is_complete,
            bytes: record.bytes,
            extents: record.extents,
            damaged: record.damaged,
            repaired: record.repaired,
            lost: record.lost,
            errors: errors.clone(),
            second: record.second,
        };
        *self.passes.lock().of(kind) = errors;
        if is_current {
            self.note_pass(kind, record);
        }
        if is_through {
            // Repairs are durable, and so is the report.
            self.checkpoint()?;
        }
        Ok(report)
    }

    /// Declares the leaves that missed writes to have all of them. Returns whether all of them took what they lacked.
    fn declare_current(&self) -> Result<bool> {
        let storage = &self.trees.storage;
        storage.sync()?;
        let mut is_complete = true;
        for vdev in storage.vdevs() {
            for (leaf, status) in vdev.leaves().into_iter().enumerate() {
                match (status.is_stale, status.state) {
                    (true, LeafState::Online) => is_complete &= vdev.set_current(leaf).is_ok(),
                    (true, LeafState::Faulted) => is_complete = false,
                    _ => {}
                }
            }
        }
        Ok(is_complete)
    }

    fn last_pass(&self, kind: Kind) -> Option<PassRecord> {
        let record = self.labels.record();
        match kind {
            Kind::Scrub => record.scrub,
            Kind::Resilver => record.resilver,
        }
    }

    fn note_pass(&self, kind: Kind, pass: PassRecord) {
        self.labels.change(|record| match kind {
            Kind::Scrub => record.scrub = Some(pass),
            Kind::Resilver => record.resilver = Some(pass),
        });
    }

    /// The report of the last pass of a kind.
    pub(crate) fn last_report(&self, kind: Kind) -> Option<ScrubReport> {
        let record = self.last_pass(kind)?;
        Some(ScrubReport {
            is_complete: record.state == PassState::Complete,
            bytes: record.bytes,
            extents: record.extents,
            damaged: record.damaged,
            repaired: record.repaired,
            lost: record.lost,
            errors: self.passes.lock().of(kind).clone(),
            second: record.second,
        })
    }

    /// Takes note that a leaf takes part again, or another one does: a resilver has to begin anew.
    pub(crate) fn leaf_returned(&self) {
        self.returns.fetch_add(1, Ordering::AcqRel);
        self.labels.change(|record| record.resilver = None);
    }
}

/// Whether a leaf takes writes, and missed some.
fn has_stale_leaf(vdev: &halite_vdev::Vdev) -> bool {
    vdev.leaves().iter().any(|leaf| leaf.is_stale && leaf.state == LeafState::Online)
}

/// Bytes of all space in use.
fn used_bytes(storage: &Storage) -> u64 {
    let classes = storage.space(|space| space.blocks());
    classes.iter().map(|class| class.blocks.used).sum::<u64>() * BLOCK as u64
}

fn now() -> u64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    since.map_or(0, |since| since.as_secs())
}
