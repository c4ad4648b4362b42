//! A cursor over a tree: from slot to slot, and in each the merged runs on the way to it.
//!
//! For a slot of the lowest node, the runs of the buffers on the path from the root, the leaf's own buffer and its base are
//! merged within the bounds of the slot. Behind its last key, the cursor goes to the slot that has the next. A step to
//! another slot is a descent from the root, of nodes that are in the cache.

use std::sync::Arc;

use crate::Result;
use crate::message::{Action, HeldMessage};
use crate::run::{DeletedRanges, MergeCursor, Reads, Run, RunCursor, Source};
use crate::tree::node::Link;
use crate::tree::{Context, Tree};

/// A position in a tree, at a key with a message, or at none.
pub(crate) struct TreeCursor {
    context: Arc<Context>,
    tree: Tree,
    lo: Vec<u8>,
    hi: Option<Vec<u8>>,
    action: Option<Arc<Action>>,
    slot: Option<InSlot>,
    /// A tree has nothing below it that ranges could hide.
    no_ranges: DeletedRanges,
}

/// The merged runs of a slot, within its bounds and the cursor's.
struct InSlot {
    low: Option<Vec<u8>>,
    high: Option<Vec<u8>>,
    merged: MergeCursor<RunCursor>,
}

impl TreeCursor {
    /// A cursor at no key: keys from `lo` on, below `hi`.
    pub(crate) fn new(
        context: &Arc<Context>,
        tree: Tree,
        lo: &[u8],
        hi: Option<&[u8]>,
        action: Option<Arc<Action>>,
    ) -> Self {
        Self {
            context: Arc::clone(context),
            tree,
            lo: lo.to_vec(),
            hi: hi.map(<[u8]>::to_vec),
            action,
            slot: None,
            no_ranges: DeletedRanges::default(),
        }
    }

    /// Enters the slot that has a key, or the one before it; without a key, the last one.
    fn enter(&mut self, key: Option<&[u8]>, is_before: bool) -> Result<&mut InSlot> {
        let is_inside = self.slot.as_ref().is_some_and(|slot| slot.has(key, is_before));
        if !is_inside {
            self.slot = None;
            self.slot = Some(self.open(key, is_before)?);
        }
        Ok(self.slot.as_mut().expect("it was entered"))
    }

    fn open(&self, key: Option<&[u8]>, is_before: bool) -> Result<InSlot> {
        let (mut low, mut high): (Option<Vec<u8>>, Option<Vec<u8>>) = (None, None);
        let mut runs: Vec<Arc<Run>> = Vec::new();
        let mut node = self.context.node(&self.tree.root)?;
        loop {
            let number = match key {
                None => node.slots.len() - 1,
                Some(key) if is_before => node.pivots.partition_point(|pivot| **pivot < *key),
                Some(key) => node.slot_of(key),
            };
            if let Some(before) = number.checked_sub(1) {
                low = Some(node.pivots[before].to_vec());
            }
            if let Some(pivot) = node.pivots.get(number) {
                high = Some(pivot.to_vec());
            }
            let slot = &node.slots[number];
            runs.extend(slot.runs.iter().cloned());
            let next = match &slot.link {
                Link::Leaf(base) => {
                    runs.extend(base.clone());
                    break;
                }
                link => self.context.node(link)?,
            };
            node = next;
        }
        let lo = low.as_ref().map_or(&self.lo, |low| low.max(&self.lo));
        let hi = match (&high, &self.hi) {
            (Some(high), Some(hi)) => Some(high.min(hi)),
            (high, hi) => high.as_ref().or(hi.as_ref()),
        };
        let cursor = |run| RunCursor::new(run, lo, hi.map(Vec::as_slice), Reads::Cached);
        let cursors = runs.into_iter().map(cursor).collect::<Result<_>>()?;
        let merged = MergeCursor::reader(cursors, self.action.clone());
        Ok(InSlot { low, high, merged })
    }

    /// Goes to the slots behind this one until one has a key within the bounds.
    fn settle_forward(&mut self) -> Result<()> {
        while let Some(slot) = &self.slot
            && slot.merged.entry().is_none()
            && let Some(high) = slot.high.clone()
            && self.hi.as_ref().is_none_or(|hi| high < *hi)
        {
            self.enter(Some(&high), false)?.merged.first()?;
        }
        Ok(())
    }

    /// Goes to the slots before this one until one has a key within the bounds.
    fn settle_backward(&mut self) -> Result<()> {
        while let Some(slot) = &self.slot
            && slot.merged.entry().is_none()
            && let Some(low) = slot.low.clone()
            && low > self.lo
        {
            self.enter(Some(&low), true)?.merged.last()?;
        }
        Ok(())
    }
}

impl InSlot {
    /// Whether it is the slot that has a key, or the one before it.
    fn has(&self, key: Option<&[u8]>, is_before: bool) -> bool {
        let (low, high) = (self.low.as_deref(), self.high.as_deref());
        match key {
            None => high.is_none(),
            Some(key) if is_before => {
                low.is_none_or(|low| low < key) && high.is_none_or(|high| key <= high)
            }
            Some(key) => low.is_none_or(|low| low <= key) && high.is_none_or(|high| key < high),
        }
    }
}

impl Source for TreeCursor {
    fn first(&mut self) -> Result<()> {
        let lo = self.lo.clone();
        self.seek(&lo)
    }

    fn last(&mut self) -> Result<()> {
        let hi = self.hi.clone();
        self.enter(hi.as_deref(), true)?.merged.last()?;
        self.settle_backward()
    }

    fn seek(&mut self, key: &[u8]) -> Result<()> {
        let key = key.max(&self.lo).to_vec();
        self.enter(Some(&key), false)?.merged.seek(&key)?;
        self.settle_forward()
    }

    fn seek_before(&mut self, key: &[u8]) -> Result<()> {
        let key = match &self.hi {
            Some(hi) => key.min(hi).to_vec(),
            None => key.to_vec(),
        };
        self.enter(Some(&key), true)?.merged.seek_before(&key)?;
        self.settle_backward()
    }

    fn next(&mut self) -> Result<()> {
        let Some(slot) = &mut self.slot else { return Ok(()) };
        if slot.merged.entry().is_none() {
            return Ok(());
        }
        slot.merged.next()?;
        self.settle_forward()
    }

    fn prev(&mut self) -> Result<()> {
        let Some(slot) = &mut self.slot else { return Ok(()) };
        if slot.merged.entry().is_none() {
            return Ok(());
        }
        slot.merged.prev()?;
        self.settle_backward()
    }

    fn leave(&mut self) {
        self.slot = None;
    }

    fn key(&self) -> Option<&[u8]> {
        let (key, _) = self.slot.as_ref()?.merged.entry()?;
        Some(key)
    }

    fn message(&self) -> HeldMessage {
        let held = self.slot.as_ref().and_then(|slot| slot.merged.held());
        held.cloned().expect("it is at a message")
    }

    fn deleted_ranges(&self) -> &DeletedRanges {
        &self.no_ranges
    }

    fn damaged(&self, why: &str) -> crate::Error {
        crate::Error::Message { why: why.to_owned() }
    }
}
