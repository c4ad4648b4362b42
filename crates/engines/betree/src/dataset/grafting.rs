//! The parts that a command grafts, and how many bytes they have.
//!
//! A dataset that stages received changes has them under these keys:
//!
//! ```text
//! 1 | key      the key's new value
//! 2 | key      nothing: the key is deleted
//! 3 | key      the end of a range of deleted keys that begins with the key
//! ```

use std::sync::Arc;

use halite_contract::KeyRange;

use crate::dataset::command::Command;
use crate::layers::sources;
use crate::run::{DeletedRange, DeletedRanges, MergeCursor};
use crate::store::Store;
use crate::store::view::{Below, GraftPart, Grafting, Layer, View};
use crate::tree::lookup::value_of;
use crate::tree::node::{Bounds, Link};
use crate::tree::{Context, Tree};
use crate::{Error, Result};

/// The beginnings of a staging dataset's keys.
pub(crate) const STAGED_PUT: u8 = 1;
pub(crate) const STAGED_DELETE: u8 = 2;
pub(crate) const STAGED_RANGE: u8 = 3;

impl Grafting {
    /// The parts that a command grafts, of the state before its commit, whose turn it is.
    pub(crate) fn for_commit(
        store: &Store,
        command: &Command,
    ) -> halite_contract::Result<Option<Self>> {
        let view = store.view();
        // All commits before this one are in the view, also those that are not visible yet.
        let grafting = Self::of_command(&store.trees, (&view, u64::MAX), command)?;
        let bytes = grafting.as_ref().map_or(0, |grafting| grafting.bytes);
        match store.has_room_for(&view, bytes)? {
            true => Ok(grafting),
            false => Err(store.no_room()),
        }
    }

    /// The parts that a command grafts, of a state.
    pub(crate) fn of_command(
        context: &Arc<Context>,
        (view, at): (&View, u64),
        command: &Command,
    ) -> Result<Option<Self>> {
        let (dataset, parts, ranges) = match command {
            Command::Copy { dataset, part, .. } => {
                let ranges = DeletedRanges::new(part.destination().into_iter().collect());
                (*dataset, vec![part.clone()], ranges)
            }
            Command::Receive { snapshot, staged, .. } => {
                let part = |tag: u8| GraftPart {
                    deletes: tag == STAGED_DELETE,
                    ..GraftPart::of_range(*staged, &KeyRange::all(), &[tag], &[])
                };
                let ranges = staged_ranges(context, (view, at), *staged)?;
                (snapshot.0, vec![part(STAGED_PUT), part(STAGED_DELETE)], ranges)
            }
            _ => return Ok(None),
        };
        let mut bytes = 0;
        for part in &parts {
            bytes += bytes_of(context, view, at, part)?;
        }
        let is_noted = matches!(command, Command::Copy { .. });
        Ok(Some(Self { dataset, parts, ranges, is_noted, bytes }))
    }
}

/// The ranges of deleted keys that were staged.
fn staged_ranges(
    context: &Arc<Context>,
    (view, at): (&View, u64),
    staged: u32,
) -> Result<DeletedRanges> {
    let (start, end) = ([STAGED_RANGE], [STAGED_RANGE + 1]);
    let of = sources(context, view, at, staged, (&start, Some(&end)));
    let mut merged = MergeCursor::reader(of, None);
    let mut ranges: Vec<DeletedRange> = Vec::new();
    merged.first()?;
    while let (Some((key, _)), Some(held)) = (merged.entry(), merged.held()) {
        if let Some(end) = value_of(context, key, held.clone(), None)? {
            let range = DeletedRange { start: key[1..].into(), end: Some(end[..].into()) };
            if range.is_before(&range.start) {
                return Err(Error::Message { why: "a staged range has no key".into() });
            }
            ranges.push(range);
        }
        merged.next()?;
    }
    Ok(DeletedRanges::new(ranges))
}

/// Bytes of keys and values of a part, at the most that is expected: of runs that have some of its keys, all counts.
fn bytes_of(context: &Context, view: &View, at: u64, part: &GraftPart) -> Result<u64> {
    let mut bytes = 0;
    let mut of = (part.source, at);
    let tree = loop {
        let (layers, below) = view.of(of.0, of.1);
        for layer in layers {
            bytes += match layer {
                Layer::Graft(graft) => graft.of.bytes,
                Layer::Memtable(memtable) if memtable.before >= of.1 => 0,
                Layer::Memtable(memtable) => {
                    let large = memtable.large_values().iter().map(|large| large.len).sum::<u64>();
                    memtable.bytes() + large
                }
            };
        }
        match below {
            Below::Tree(tree) => break tree,
            Below::Dataset(dataset, at) => of = (dataset, at),
        }
    };
    let bounds = (Some(&part.start[..]), part.end.as_deref());
    Ok(bytes + tree.map_or(Ok(0), |tree| bytes_of_tree(context, tree, bounds))?)
}

/// Bytes of a tree's keys and values within bounds. Only nodes are read.
pub(crate) fn bytes_of_tree(context: &Context, tree: &Tree, bounds: Bounds<'_>) -> Result<u64> {
    bytes_of_link(context, &tree.root, bounds)
}

fn bytes_of_link(context: &Context, link: &Link, within: Bounds<'_>) -> Result<u64> {
    let of_run = |run: &crate::run::Run| run.pointer().bytes + run.pointer().large_bytes;
    if let Link::Leaf(base) = link {
        return Ok(base.as_deref().map_or(0, of_run));
    }
    let node = context.node(link)?;
    let mut bytes = 0;
    for (number, slot) in node.slots.iter().enumerate() {
        let (low, high) = node.bounds_of(number, (None, None));
        let is_behind = low.is_some_and(|low| within.1.is_some_and(|end| end <= low));
        let is_before = high.is_some_and(|high| within.0.is_some_and(|start| high <= start));
        if !is_behind && !is_before {
            bytes += slot.runs.iter().map(|run| of_run(run)).sum::<u64>();
            bytes += bytes_of_link(context, &slot.link, within)?;
        }
    }
    Ok(bytes)
}
