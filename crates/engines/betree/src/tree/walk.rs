//! Walks through all that a tree consists of.

use std::sync::Arc;

use crate::Result;
use crate::message::LargeValue;
use crate::run::{Reads, Run, RunCursor, Source};
use crate::tree::node::{Link, Slot};
use crate::tree::pointer::NodePointer;
use crate::tree::{Context, Tree, in_run};

/// A part of a tree.
pub(crate) enum Part<'a> {
    /// A stored node.
    Node(&'a NodePointer),
    /// A run.
    Run(&'a Arc<Run>),
}

/// A visitor of parts. Of a node, it says whether to go on below it.
pub(crate) type Visitor<'a> = &'a mut dyn FnMut(Part<'_>) -> Result<bool>;

/// Visits all parts of a tree, nodes before what is below them.
pub(crate) fn walk(context: &Context, tree: &Tree, visit: Visitor<'_>) -> Result<()> {
    walk_link(context, &tree.root, visit)
}

/// Visits all parts of a slot, and of what is below it.
pub(crate) fn walk_slot(context: &Context, slot: &Slot, visit: Visitor<'_>) -> Result<()> {
    slot.runs.iter().try_for_each(|run| visit(Part::Run(run)).map(drop))?;
    walk_link(context, &slot.link, visit)
}

fn walk_link(context: &Context, link: &Link, visit: Visitor<'_>) -> Result<()> {
    match link {
        Link::Leaf(base) => return base.iter().try_for_each(|run| visit(Part::Run(run)).map(drop)),
        Link::Stored(pointer) if !visit(Part::Node(pointer))? => return Ok(()),
        Link::Stored(_) | Link::Fresh(_) => {}
    }
    let node = context.node(link)?;
    node.slots.iter().try_for_each(|slot| walk_slot(context, slot, visit))
}

/// The values in extents of their own to which a run's messages refer. A run that has none is not read.
pub(crate) fn large_values(run: &Arc<Run>) -> Result<Vec<LargeValue>> {
    Ok(large_entries(run)?.into_iter().map(|(_, value)| value).collect())
}

/// These values, and their keys.
pub(crate) fn large_entries(run: &Arc<Run>) -> Result<Vec<(Vec<u8>, LargeValue)>> {
    let mut values = Vec::new();
    if run.pointer().large_bytes > 0 {
        let mut cursor = RunCursor::new(Arc::clone(run), &[], None, Reads::Once)?;
        cursor.first()?;
        while let Some((key, message)) = cursor.entry() {
            values.extend(in_run(run, message.large())?.map(|value| (key.to_vec(), value)));
            cursor.next()?;
        }
    }
    Ok(values)
}
