//! The layers of a dataset as sources: memtables, grafts and the tree.
//!
//! A *graft* is what a commit has brought into a dataset from others without writing it: the copy of a range, or the changes
//! that were received. Until the flush of the commit's memtable materializes it, readers look through it at the state
//! that it was taken of:
//!
//! ```text
//!  layers of the destination        the state before the commit
//!  ┌───────────────────────┐
//!  │ newer memtables       │
//!  ├───────────────────────┤        ┌───────────────────────┐
//!  │ graft: keys, ranges ──┼───────▶│ layers of the source  │  its keys, each with another beginning
//!  ├───────────────────────┤        └───────────────────────┘
//!  │ the memtable that     │
//!  │ ended, older ones     │
//!  ├───────────────────────┤
//!  │ tree                  │
//!  └───────────────────────┘
//! ```
//!
//! The source's layers may have grafts in turn, as many as commits wait for their flush. A key costs a reader what it costs
//! in the source, and its copy.

use std::sync::Arc;

use crate::memtable::MemtableSource;
use crate::message::{HeldMessage, Kind, Payload, elsewhere};
use crate::record::{DATASET, end_of, full_key};
use crate::run::{DeletedRanges, MergeCursor, Source};
use crate::store::view::{Below, GraftPart, Layer, View};
use crate::tree::cursor::TreeCursor;
use crate::tree::lookup::value_of;
use crate::tree::update::BoxedSource;
use crate::tree::{Context, Tree};
use crate::{Error, Result};

/// The sources of a dataset's keys from `start` on, below `end`, as of a sequence, the newest first.
pub(crate) fn sources(
    context: &Arc<Context>,
    view: &View,
    at: u64,
    dataset: u32,
    (start, end): (&[u8], Option<&[u8]>),
) -> Vec<BoxedSource> {
    let mut sources: Vec<BoxedSource> = Vec::new();
    let action = context.actions.of(dataset);
    let mut of = (dataset, at);
    let tree = loop {
        let (dataset, at) = of;
        let lo = full_key(dataset, start);
        let hi = end.map_or_else(|| end_of(dataset).to_vec(), |end| full_key(dataset, end));
        let bounds = (&lo[..], Some(&hi[..]));
        let (layers, below) = view.of(dataset, at);
        for layer in layers {
            match layer {
                Layer::Memtable(memtable) => {
                    let (memtable, action) = (Arc::clone(memtable), action.clone());
                    let source = MemtableSource::new(memtable, bounds, DATASET, at, action);
                    sources.push(Box::new(source));
                }
                Layer::Graft(graft) => {
                    let (of, bounds) = ((&*graft.view, graft.at), (start, end));
                    let ranges = graft.of.ranges.clip(start, end);
                    graft_sources(context, of, &graft.of.parts, bounds, &ranges, &mut sources);
                }
            }
        }
        match below {
            Below::Tree(tree) => break tree.cloned().unwrap_or_else(Tree::empty),
            Below::Dataset(dataset, at) => of = (dataset, at),
        }
    };
    sources.push(Box::new(TreeCursor::new(context, tree, start, end, action)));
    sources
}

/// Adds the sources of a graft's parts, above the keys that have no value any more.
pub(crate) fn graft_sources(
    context: &Arc<Context>,
    (view, at): (&View, u64),
    parts: &[GraftPart],
    bounds: (&[u8], Option<&[u8]>),
    ranges: &DeletedRanges,
    to: &mut Vec<BoxedSource>,
) {
    for (number, part) in parts.iter().enumerate() {
        // The parts have no key in common: the ranges are below all of them if they are below the last.
        let is_last = number + 1 == parts.len();
        let ranges = if is_last { ranges.clone() } else { DeletedRanges::default() };
        let (start, end) = part.bounds(bounds);
        let of_part = sources(context, view, at, part.source, (&start, end.as_deref()));
        to.push(Box::new(GraftSource {
            context: Arc::clone(context),
            merged: MergeCursor::reader(of_part, context.actions.of(part.source)),
            part: part.clone(),
            ranges,
            key: Vec::new(),
            message: None,
        }));
    }
}

/// The keys of a part of a graft, as its destination has them.
struct GraftSource {
    context: Arc<Context>,
    merged: MergeCursor<BoxedSource>,
    part: GraftPart,
    ranges: DeletedRanges,
    key: Vec<u8>,
    message: Option<HeldMessage>,
}

/// A key of the destination, as the source sees it.
pub(crate) enum InSource {
    /// It comes before all keys of the part.
    Before,
    /// The key that becomes it.
    At(Vec<u8>),
    /// It comes behind all keys of the part.
    Behind,
}

impl GraftPart {
    /// A key of the destination in the source.
    pub(crate) fn find(&self, key: &[u8]) -> InSource {
        match key.strip_prefix(&self.new_prefix[..]) {
            Some(rest) => InSource::At([&self.old_prefix, rest].concat()),
            None if *key < self.new_prefix[..] => InSource::Before,
            None => InSource::Behind,
        }
    }

    /// Whether a key of the source is one of the part.
    pub(crate) fn has(&self, key: &[u8]) -> bool {
        self.start[..] <= *key && self.end.as_ref().is_none_or(|end| *key < end[..])
    }

    /// The keys of the source that lie within bounds in the destination.
    fn bounds(&self, (lo, hi): (&[u8], Option<&[u8]>)) -> (Vec<u8>, Option<Vec<u8>>) {
        let none = || (self.start.clone(), Some(self.start.clone()));
        let start = match self.find(lo) {
            InSource::Before => self.start.clone(),
            InSource::At(key) => key.max(self.start.clone()),
            InSource::Behind => return none(),
        };
        let end = match hi.map(|hi| self.find(hi)) {
            None | Some(InSource::Behind) => self.end.clone(),
            Some(InSource::At(key)) => match &self.end {
                Some(end) => Some(key.min(end.clone())),
                None => Some(key),
            },
            Some(InSource::Before) => return none(),
        };
        match end.as_ref().is_some_and(|end| *end < start) {
            true => none(),
            false => (start, end),
        }
    }
}

impl GraftSource {
    /// Goes on to a key that has a value, in a direction.
    fn settle(&mut self, is_forward: bool) -> Result<()> {
        self.message = None;
        let action = self.context.actions.of(self.part.source);
        while let (Some((key, _)), Some(held)) = (self.merged.entry(), self.merged.held()) {
            let message = match held.kind {
                Kind::Delete => None,
                Kind::Insert => Some(held.clone()),
                Kind::InsertLarge => Some(HeldMessage {
                    kind: Kind::InsertLarge,
                    payload: Payload::Owned(elsewhere(&held.payload)),
                }),
                _ => value_of(&self.context, key, held.clone(), action.as_deref())?.map(|value| {
                    HeldMessage { kind: Kind::Insert, payload: Payload::Owned(value.to_vec()) }
                }),
            };
            if let Some(message) = message {
                self.key.clear();
                self.key.extend_from_slice(&self.part.new_prefix);
                self.key.extend_from_slice(&key[self.part.old_prefix.len()..]);
                self.message = Some(match self.part.deletes {
                    true => crate::message::Message::DELETE.into(),
                    false => message,
                });
                return Ok(());
            }
            match is_forward {
                true => self.merged.next()?,
                false => self.merged.prev()?,
            }
        }
        Ok(())
    }
}

impl Source for GraftSource {
    fn first(&mut self) -> Result<()> {
        self.merged.first()?;
        self.settle(true)
    }

    fn last(&mut self) -> Result<()> {
        self.merged.last()?;
        self.settle(false)
    }

    fn seek(&mut self, key: &[u8]) -> Result<()> {
        match self.part.find(key) {
            InSource::Before => self.first(),
            InSource::At(key) => {
                self.merged.seek(&key)?;
                self.settle(true)
            }
            InSource::Behind => {
                self.message = None;
                Ok(())
            }
        }
    }

    fn seek_before(&mut self, key: &[u8]) -> Result<()> {
        match self.part.find(key) {
            InSource::Before => {
                self.message = None;
                Ok(())
            }
            InSource::At(key) => {
                self.merged.seek_before(&key)?;
                self.settle(false)
            }
            InSource::Behind => self.last(),
        }
    }

    fn next(&mut self) -> Result<()> {
        if self.message.is_some() {
            self.merged.next()?;
            self.settle(true)?;
        }
        Ok(())
    }

    fn prev(&mut self) -> Result<()> {
        if self.message.is_some() {
            self.merged.prev()?;
            self.settle(false)?;
        }
        Ok(())
    }

    fn leave(&mut self) {
        self.message = None;
    }

    fn key(&self) -> Option<&[u8]> {
        self.message.as_ref().map(|_| &self.key[..])
    }

    fn message(&self) -> HeldMessage {
        self.message.clone().expect("it is at a message")
    }

    fn deleted_ranges(&self) -> &DeletedRanges {
        &self.ranges
    }

    fn damaged(&self, why: &str) -> Error {
        Error::Message { why: why.to_owned() }
    }
}
