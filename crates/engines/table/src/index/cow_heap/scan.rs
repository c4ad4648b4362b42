//! Scans: some entries at a time, so that the heap is locked for no longer than it takes to find these.

use std::collections::VecDeque;
use std::ops::Bound;

use super::batch::Dirty;
use super::node::word;
use super::read::Reader;
use super::shared::Shared;
use crate::component::Component;
use crate::index::Result;
use crate::index::btree::Root;
use crate::index::btree::scan::{Direction, Range, Scan};

/// Entries that are found at a time.
const ENTRIES: usize = 32;

/// The entries of a range of a tree, one after the other.
pub(crate) struct CowHeapScan<'a> {
    shared: &'a Shared,
    dirty: Option<&'a Dirty>,
    root: Option<Root>,
    /// The part of the range that was not looked at.
    from: Bound<Vec<u8>>,
    to: Bound<Vec<u8>>,
    direction: Direction,
    found: VecDeque<(Vec<u8>, u64)>,
    is_at_end: bool,
}

impl<'a> CowHeapScan<'a> {
    pub(super) fn new(
        shared: &'a Shared,
        dirty: Option<&'a Dirty>,
        root: Option<Root>,
        (from, to): Range<'_>,
        direction: Direction,
    ) -> Self {
        let (from, to) = (from.map(<[u8]>::to_vec), to.map(<[u8]>::to_vec));
        let found = VecDeque::new();
        Self { shared, dirty, root, from, to, direction, found, is_at_end: false }
    }

    /// The next entry.
    pub(crate) fn next(&mut self) -> Result<Option<(Vec<u8>, u64)>> {
        let _in = Component::Index.enter();
        if self.found.is_empty() && !self.is_at_end {
            self.find()?;
        }
        Ok(self.found.pop_front())
    }

    /// Finds the next entries.
    fn find(&mut self) -> Result<()> {
        let reader = Reader { heap: &self.shared.heap(), shared: self.shared, dirty: self.dirty };
        let range = (self.from.as_ref().map(Vec::as_slice), self.to.as_ref().map(Vec::as_slice));
        let mut scan = Scan::new(&reader, self.root, range, self.direction)?;
        while self.found.len() < ENTRIES && scan.advance()? {
            self.found.push_back((scan.key().to_vec(), word(scan.value(), 0)));
        }
        self.is_at_end = self.found.len() < ENTRIES;
        if let Some((last, _)) = self.found.back() {
            match self.direction {
                Direction::Forward => self.from = Bound::Excluded(last.clone()),
                Direction::Reverse => self.to = Bound::Excluded(last.clone()),
            }
        }
        Ok(())
    }
}
