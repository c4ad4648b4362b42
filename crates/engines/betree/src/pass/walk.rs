//! The way of a pass through all extents.

use std::ops::ControlFlow;
use std::sync::Arc;

use super::ahead::Visit;
use super::{BEHIND_DATASETS, Flow, Pass, Stop, VIEW_BYTES};
use crate::message::{LargeValue, byte_len};
use crate::run::{Run, RunPointer, is_zero};
use crate::store::checkpoint::Checkpoints;
use crate::store::superblock::RootPiece;
use crate::store::view::View;
use crate::tree::Tree;
use crate::tree::node::{Bounds, Link, Node, Slot};
use crate::tree::pointer::seed_of;
use crate::tree::walk::large_entries;

/// In the place of a birth, where a run begins in another one's extent: that extent was visited for it.
const SHARED: u64 = u64::MAX;

impl Pass<'_> {
    /// Visits everything from where the pass is on. Where the pass is then, all below was visited.
    pub(super) fn run(&mut self, is_new: bool) -> Flow {
        let walked = self.all(is_new);
        let settled = self.settle();
        if walked.is_break() { walked } else { settled }
    }

    fn all(&mut self, is_new: bool) -> Flow {
        if is_new {
            // The memtables that could not be flushed.
            let view = self.view();
            for memtable in view.memtables() {
                for value in memtable.large_values() {
                    self.value(&value, "logged value", None)?;
                }
            }
        }
        loop {
            let view = self.view();
            match self.trees(&view) {
                ControlFlow::Continue(()) => break,
                ControlFlow::Break(Stop::Asked) => return ControlFlow::Break(Stop::Asked),
                ControlFlow::Break(Stop::View) => {
                    self.settle()?;
                    self.left = VIEW_BYTES;
                    self.store.note_pass(self.kind, self.record.clone());
                }
            }
        }
        self.of_snapshots()?;
        self.of_checkpoints()
    }

    /// A view of now, which keeps the extents that are visited from here on.
    fn view(&mut self) -> Arc<View> {
        Arc::clone(self.view.insert(self.store.view()))
    }

    /// Visits the trees of snapshots. The view keeps them, so none is deleted meanwhile.
    fn of_snapshots(&mut self) -> Flow {
        self.left = u64::MAX;
        let view = self.view();
        for (id, tree) in &*view.snapshots {
            self.snapshot = Some(*id);
            self.record.key = Vec::new();
            self.tree(tree)?;
        }
        (self.snapshot, self.record.key) = (None, Vec::new());
        ControlFlow::Continue(())
    }

    /// Visits the trees of all datasets from the current key on.
    fn trees(&mut self, view: &View) -> Flow {
        if self.record.dataset == BEHIND_DATASETS {
            return ControlFlow::Continue(());
        }
        for (dataset, tree) in view.trees.range(self.record.dataset..) {
            if *dataset > self.record.dataset {
                (self.record.dataset, self.record.key) = (*dataset, Vec::new());
            }
            self.tree(tree)?;
        }
        (self.record.dataset, self.record.key) = (BEHIND_DATASETS, Vec::new());
        ControlFlow::Continue(())
    }

    fn tree(&mut self, tree: &Tree) -> Flow {
        self.below(&tree.root, (None, None))
    }

    /// Visits the node of a link, and what is below it.
    fn below(&mut self, link: &Link, bounds: Bounds<'_>) -> Flow {
        let context = &self.store.trees;
        match link {
            Link::Leaf(base) => {
                return base.iter().try_for_each(|run| self.run_of(run, &[], bounds));
            }
            Link::Stored(pointer) => {
                let id = (pointer.extent.address.to_bits(), pointer.birth);
                // Datasets are left in the middle for a newer view, in which a node may not be any more.
                if self.snapshot.is_some() && !self.done.insert(id) {
                    return ControlFlow::Continue(());
                }
                if self.seen.insert(id) {
                    let len = pointer.len as usize;
                    let check = |bytes: &[u8]| {
                        pointer.fits(context.seed, &bytes[..len]) && is_zero(&bytes[len..])
                    };
                    // It is read for what is below it next, which would repair it.
                    let place = self.place("node", Some(bounds)).leads_on();
                    self.visit_now(&place, pointer.extent, &check)?;
                }
            }
            Link::Fresh(_) => {}
        }
        match context.node(link) {
            Ok(node) => self.slots(&node, bounds),
            // Its extent is lost, and was noted.
            Err(_) => ControlFlow::Continue(()),
        }
    }

    fn slots(&mut self, node: &Node, bounds: Bounds<'_>) -> Flow {
        for (number, slot) in node.slots.iter().enumerate() {
            let bounds = node.bounds_of(number, bounds);
            if bounds.1.is_some_and(|high| *high <= self.record.key[..]) {
                continue;
            }
            if self.left == 0 {
                return ControlFlow::Break(Stop::View);
            }
            self.slot(slot, bounds)?;
            if let Some(high) = bounds.1 {
                self.record.key = high.to_vec();
            }
        }
        ControlFlow::Continue(())
    }

    fn slot(&mut self, slot: &Slot, bounds: Bounds<'_>) -> Flow {
        // The oldest first: what newer ones have in its extents is checked with it.
        for (number, run) in slot.runs.iter().enumerate().rev() {
            self.run_of(run, &slot.runs[..number], bounds)?;
        }
        self.below(&slot.link, bounds)
    }

    /// Visits the extents of a run, and what newer ones of its buffer have in them.
    fn run_of(&mut self, run: &Arc<Run>, newer: &[Arc<Run>], bounds: Bounds<'_>) -> Flow {
        let pointer = run.pointer();
        // No two runs of a birth have the same directory: that has the checksums of all parts.
        let shared = |pointer: &RunPointer| (pointer.directory_checksums[0], SHARED);
        if !self.seen.insert((pointer.directory_checksums[0], pointer.birth)) {
            return ControlFlow::Continue(());
        }
        let has_values = pointer.large_bytes > 0;
        let mut visits = Vec::new();
        for number in run.scrub_order() {
            let is_shared = number == 0 && pointer.begins_behind_another();
            if is_shared && !self.seen.insert(shared(pointer)) {
                continue;
            }
            let extent = pointer.extents[number];
            let behind: Vec<_> = newer
                .iter()
                .filter(|newer| {
                    let pointer = newer.pointer();
                    pointer.begins_behind_another() && pointer.extents[0] == extent
                })
                .cloned()
                .collect();
            self.seen.extend(behind.iter().map(|newer| shared(newer.pointer())));
            let is_data = number < pointer.directory_extent as usize;
            let what = if is_data { "part of a run" } else { "directory of a run" };
            let place = self.place(what, Some(bounds));
            let leads_on = has_values || !is_data || !behind.is_empty();
            let place = if leads_on { place.leads_on() } else { place };
            let run = Arc::clone(run);
            let check = Box::new(move |bytes: &[u8]| {
                run.is_extent_whole(number, bytes)
                    && behind.iter().all(|newer| newer.is_extent_whole(0, bytes))
            });
            visits.push(Visit { place, extent, check });
        }
        self.visit(visits)?;
        if !has_values {
            return ControlFlow::Continue(());
        }
        // Reading the run would repair it.
        self.settle()?;
        // Where a part is lost, it was noted, and so are the values that it leads to.
        for (key, value) in large_entries(run).unwrap_or_default() {
            let behind = [&key[..], &[0]].concat();
            self.value(&value, "piece of a large value", Some((Some(&key), Some(&behind))))?;
        }
        ControlFlow::Continue(())
    }

    fn value(&mut self, value: &LargeValue, what: &'static str, keys: Option<Bounds<'_>>) -> Flow {
        let mut left = value.len;
        for piece in &value.pieces {
            let len = (byte_len(piece.extent) as u64).min(left) as usize;
            left -= len as u64;
            // A snapshot has it, too.
            if !self.seen.insert((piece.extent.address.to_bits(), value.birth)) {
                continue;
            }
            let seed = seed_of(self.store.trees.seed, piece.extent.address, value.birth);
            let (extent, checksum) = (piece.extent, piece.checksum);
            let check = Box::new(move |bytes: &[u8]| {
                seed.checksum(&bytes[..len]) == checksum && is_zero(&bytes[len..])
            });
            let place = self.place(what, keys);
            self.visit(vec![Visit { place, extent, check }])?;
        }
        ControlFlow::Continue(())
    }

    /// Visits what checkpoints write beside trees.
    fn of_checkpoints(&mut self) -> Flow {
        // No view keeps that, but the lock.
        self.view = None;
        let store = self.store;
        let places: Vec<_> = {
            let checkpoints = store.checkpoints.lock();
            // It is small, and the next checkpoint writes it anew: it is visited at once.
            self.left = u64::MAX;
            self.tree(&checkpoints.root_tree)?;
            self.record.key = Vec::new();
            self.root_record(&checkpoints)?;
            checkpoints.bitmaps.keys().copied().collect()
        };
        for place in places {
            let checkpoints = store.checkpoints.lock();
            let Some(bitmap) = checkpoints.bitmaps.get(&place) else { continue };
            let seed = seed_of(store.trees.seed, bitmap.extent.address, bitmap.birth);
            let len = bitmap.len as usize;
            let check = |bytes: &[u8]| {
                seed.checksum(&bytes[..len]) == bitmap.checksum && is_zero(&bytes[len..])
            };
            let place = self.place("bitmap", None);
            self.visit_now(&place, bitmap.extent, &check)?;
        }
        ControlFlow::Continue(())
    }

    fn root_record(&mut self, checkpoints: &Checkpoints) -> Flow {
        for (RootPiece { extent, checksum }, len) in checkpoints.root.lens() {
            let seed = RootPiece::seed(self.store.trees.seed, extent, checkpoints.since);
            let check =
                |bytes: &[u8]| seed.checksum(&bytes[..len]) == checksum && is_zero(&bytes[len..]);
            let place = self.place("root record", None);
            self.visit_now(&place, extent, &check)?;
        }
        ControlFlow::Continue(())
    }
}
