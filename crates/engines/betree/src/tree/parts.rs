//! The parts of a tree, as they are shown to its engineers.
//!
//! Only nodes are read, and no run: what is told of a run is in the pointer to it.

use std::ops::ControlFlow;

use halite_contract::{BlockPlace, StoredPart, TreePart};

use crate::Result;
use crate::run::RunPointer;
use crate::storage::{Address, Extent};
use crate::tree::node::{Bounds, Link, Slot};
use crate::tree::{Context, Tree};

/// A visitor of parts; it may end the walk.
type Visit<'a> = &'a mut dyn FnMut(TreePart) -> ControlFlow<()>;

/// A way through parts: it ends early by the visitor's will, or by damage.
type Walk = Result<ControlFlow<()>>;

impl From<Address> for BlockPlace {
    fn from(address: Address) -> Self {
        Self { class: address.class(), vdev: address.vdev(), block: address.block() }
    }
}

/// Visits the parts of a tree, each node before what is below it.
pub(crate) fn visit_parts(context: &Context, tree: &Tree, visit: Visit<'_>) -> Result<()> {
    visit_link(context, &tree.root, (None, None), visit).map(drop)
}

fn visit_link(context: &Context, link: &Link, bounds: Bounds<'_>, visit: Visit<'_>) -> Walk {
    let stored = match link {
        Link::Leaf(_) => return Ok(ControlFlow::Continue(())),
        Link::Stored(pointer) => Some(stored_part(pointer.birth, &[pointer.extent])),
        Link::Fresh(_) => None,
    };
    let node = context.node(link)?;
    let level = node.level;
    if visit(TreePart::Node { level, slots: node.slots.len(), stored }).is_break() {
        return Ok(ControlFlow::Break(()));
    }
    for (number, slot) in node.slots.iter().enumerate() {
        let (low, high) = node.bounds_of(number, bounds);
        let part = TreePart::Slot {
            level,
            number,
            low: low.map(<[u8]>::to_vec),
            high: high.map(<[u8]>::to_vec),
            runs: slot.runs.len(),
        };
        if visit(part).is_break()
            || visit_runs(slot, level, visit).is_break()
            || visit_link(context, &slot.link, (low, high), visit)?.is_break()
        {
            return Ok(ControlFlow::Break(()));
        }
    }
    Ok(ControlFlow::Continue(()))
}

/// Visits the runs of a slot's buffer, and its leaf.
fn visit_runs(slot: &Slot, level: u8, visit: Visit<'_>) -> ControlFlow<()> {
    for run in &slot.runs {
        visit(run_part(run.pointer(), level, false))?;
    }
    match &slot.link {
        Link::Leaf(Some(base)) => visit(run_part(base.pointer(), level, true)),
        _ => ControlFlow::Continue(()),
    }
}

fn run_part(pointer: &RunPointer, level: u8, is_base: bool) -> TreePart {
    TreePart::Run {
        level,
        is_base,
        messages: pointer.messages,
        deleted_ranges: pointer.deleted_ranges.into(),
        bytes: pointer.bytes,
        large_bytes: pointer.large_bytes,
        stored: stored_part(pointer.birth, pointer.own_extents()),
    }
}

fn stored_part(birth: u64, extents: &[Extent]) -> StoredPart {
    let extents = extents.iter().map(|extent| (extent.address.into(), extent.blocks));
    StoredPart { birth, extents: extents.collect() }
}
