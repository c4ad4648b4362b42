//! The runs of a tree, slot by slot, and what of them may move.

use std::ops::ControlFlow;
use std::sync::Arc;

use crate::Result;
use crate::message::LargeValue;
use crate::run::Run;
use crate::storage::Extent;
use crate::tree::node::{Bounds, Link};
use crate::tree::{Context, Tree};

/// A run, and the slot that it lies in.
pub(super) struct Found<'a> {
    /// The level of the node that has the slot.
    pub(super) level: u8,
    /// The first key of the slot.
    pub(super) key: &'a [u8],
    pub(super) run: &'a Arc<Run>,
}

/// A visitor of runs. It says whether to go on behind the slot.
pub(super) type Visit<'a> = &'a mut dyn FnMut(Found<'_>) -> Result<ControlFlow<()>>;

/// Visits the runs of the lowest slots that have keys from `from` on, below `end`, and those of higher buffers whose slot
/// lies between these. Returns the first key of the slot behind the one where the visitor stopped; `None`: it was the
/// last, or the visitor did not stop.
pub(super) fn runs(
    context: &Context,
    tree: &Tree,
    (from, end): (&[u8], Option<&[u8]>),
    visit: Visit<'_>,
) -> Result<ControlFlow<Option<Vec<u8>>>> {
    let mut walk = Walk { context, from, end, visit, has_stopped: false };
    walk.below(&tree.root, (None, None))
}

struct Walk<'a> {
    context: &'a Context,
    from: &'a [u8],
    end: Option<&'a [u8]>,
    visit: Visit<'a>,
    has_stopped: bool,
}

impl Walk<'_> {
    fn below(&mut self, link: &Link, bounds: Bounds<'_>) -> Result<ControlFlow<Option<Vec<u8>>>> {
        let node = self.context.node(link)?;
        for (number, slot) in node.slots.iter().enumerate() {
            let (low, high) = node.bounds_of(number, bounds);
            let key = low.unwrap_or_default();
            if high.is_some_and(|high| high <= self.from) {
                continue;
            }
            if self.end.is_some_and(|end| key >= end) {
                return Ok(ControlFlow::Continue(()));
            }
            if self.has_stopped {
                return Ok(ControlFlow::Break(Some(key.to_vec())));
            }
            let ends_within = match (high, self.end) {
                (_, None) => true,
                (Some(high), Some(end)) => high <= end,
                (None, Some(_)) => false,
            };
            if node.level == 1 || key >= self.from && ends_within {
                for run in slot.runs.iter().chain(slot.base()).filter(|run| may_move(run)) {
                    let found = Found { level: node.level, key, run };
                    self.has_stopped |= (self.visit)(found)?.is_break();
                }
            }
            if node.level == 1 {
                continue;
            }
            // A buffer that stops the walk is visited again with what is below it.
            if let ControlFlow::Break(next) = self.below(&slot.link, (low, high))? {
                return Ok(ControlFlow::Break(next));
            }
        }
        Ok(ControlFlow::Continue(()))
    }
}

/// The runs of the slot of a key, in the node of a level.
pub(super) fn runs_of(
    context: &Context,
    tree: &Tree,
    level: u8,
    key: &[u8],
) -> Result<Vec<Arc<Run>>> {
    let mut node = context.node(&tree.root)?;
    while node.level > level {
        node = context.node(&node.slots[node.slot_of(key)].link)?;
    }
    let slot = &node.slots[node.slot_of(key)];
    let runs = slot.runs.iter().chain(slot.base());
    Ok(runs.filter(|run| node.level == level && may_move(run)).cloned().collect())
}

/// Whether a run may move: one that is written in steps shares extents with others.
fn may_move(run: &Arc<Run>) -> bool {
    run.pointer().base.is_none()
}

/// Whether all extents lie in a class.
pub(super) fn are_in(mut extents: impl Iterator<Item = Extent>, class: u8) -> bool {
    extents.all(|extent| extent.address.class() == class)
}

/// The extents of a value.
pub(super) fn extents_of(value: &LargeValue) -> impl Iterator<Item = Extent> + '_ {
    value.pieces.iter().map(|piece| piece.extent)
}

/// Bytes of extents.
pub(super) fn bytes_of(extents: impl Iterator<Item = Extent>) -> u64 {
    extents.map(|extent| crate::message::byte_len(extent) as u64).sum()
}
