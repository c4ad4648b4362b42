//! A walk over a range in steps, which holds no reference into the tree between them.

use std::cmp::Ordering::Less;
use std::ops::{Bound, ControlFlow};

use super::reclaim::Pin;
use super::walk::{End, Span, Visitor};
use super::word::Leaf;
use super::{RadixTree, Records, until_done};

/// Keys that are fetched at once: first few, for callers that want few, then more and more.
const BATCH_MIN: usize = 16;
const BATCH_MAX: usize = 128;

/// Entries whose records are asked for before they are yielded.
const AHEAD: usize = 16;

/// Which way a cursor goes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Direction {
    /// From small keys to great ones.
    Ascending,
    /// From great keys to small ones.
    Descending,
}

/// Which versions of a key a cursor yields.
#[derive(Clone, Copy)]
enum Wanted {
    NewestUpTo(u64),
    All,
}

/// A walk over the keys of a range. It holds no reference into a tree between its steps. It sees every key
/// that is there during the whole walk; it may see a key that is added meanwhile.
///
/// It fetches up to 128 keys at once. So an entry that it yields may have been dropped from the tree since,
/// and the records of dropped versions have to stay readable as long as there are cursors that may yield
/// them.
pub struct RadixCursor {
    start: Bound<Vec<u8>>,
    end: Bound<Vec<u8>>,
    direction: Direction,
    wanted: Wanted,
    /// Where the walk goes on, in place of the bound where it began.
    position: Option<Bound<Vec<u8>>>,
    batch: Vec<u64>,
    /// Entries of the batch that were yielded.
    yielded: usize,
    batch_len: usize,
    is_done: bool,
}

impl RadixCursor {
    fn new(start: Bound<&[u8]>, end: Bound<&[u8]>, direction: Direction, wanted: Wanted) -> Self {
        Self {
            start: start.map(<[u8]>::to_vec),
            end: end.map(<[u8]>::to_vec),
            direction,
            wanted,
            position: None,
            batch: Vec::new(),
            yielded: 0,
            batch_len: BATCH_MIN,
            is_done: false,
        }
    }

    /// The next entry. It must always be the same tree that is given.
    pub fn next(&mut self, tree: &RadixTree, records: &impl Records) -> Option<u64> {
        loop {
            let Some(&entry) = self.batch.get(self.yielded) else {
                if self.is_done {
                    return None;
                }
                self.fetch(tree, records);
                continue;
            };
            self.yielded += 1;
            if let Some(&ahead) = self.batch.get(self.yielded + AHEAD - 1) {
                records.prefetch(ahead);
            }
            let is_wanted = match self.wanted {
                Wanted::NewestUpTo(at) => at == u64::MAX || records.version(entry) <= at,
                Wanted::All => true,
            };
            if is_wanted {
                return Some(entry);
            }
        }
    }

    /// Goes on, forward or back, with `key` or the first key behind it in the cursor's direction, within
    /// its range.
    pub fn seek(&mut self, key: &[u8]) {
        let bound = match self.direction {
            Direction::Ascending => &self.start,
            Direction::Descending => &self.end,
        };
        let is_outside = match bound {
            Bound::Unbounded => false,
            Bound::Included(limit) | Bound::Excluded(limit) => {
                let side = key.cmp(limit);
                side.is_eq() || (side == Less) == (self.direction == Direction::Ascending)
            }
        };
        self.position = (!is_outside).then(|| Bound::Included(key.to_vec()));
        self.batch.clear();
        (self.yielded, self.batch_len, self.is_done) = (0, BATCH_MIN, false);
    }

    fn fetch(&mut self, tree: &RadixTree, records: &impl Records) {
        self.batch.clear();
        self.batch.reserve(self.batch_len);
        self.yielded = 0;
        let pin = Pin::new();
        // A walk that met a change ends early; the entries that it has taken are valid.
        let (last, end) = until_done(|| {
            let bounds = (self.start.as_ref(), self.end.as_ref());
            let position = self.position.as_ref().map(Bound::as_ref);
            let (low, high) = match self.direction {
                Direction::Ascending => (position.unwrap_or(bounds.0), bounds.1),
                Direction::Descending => (bounds.0, position.unwrap_or(bounds.1)),
            };
            let span = Span { low: low.map(Vec::as_slice), high: high.map(Vec::as_slice) };
            let mut taker = Taker {
                records,
                wanted: self.wanted,
                batch: &mut self.batch,
                confirmed: 0,
                keys_left: self.batch_len,
                taken: None,
                last: None,
            };
            let end = tree.walk(&pin, records, &span, self.direction, &mut taker);
            let (confirmed, last) = (taker.confirmed, taker.last);
            self.batch.truncate(confirmed);
            match end {
                Err(restart) if last.is_none() => Err(restart),
                Err(_) => Ok((last, End::Visitor)),
                Ok(end) => Ok((last, end)),
            }
        });
        self.batch_len = (2 * self.batch_len).min(BATCH_MAX);
        self.is_done = end == End::Range;
        if let Some(last) = last.filter(|_| !self.is_done) {
            let mut key = match self.position.take() {
                Some(Bound::Included(key) | Bound::Excluded(key)) => key,
                _ => Vec::new(),
            };
            key.clear();
            key.extend_from_slice(records.key(last));
            self.position = Some(Bound::Excluded(key));
        }
        self.batch.iter().take(AHEAD).for_each(|&entry| records.prefetch(entry));
    }
}

/// Takes entries of leaves into a batch.
struct Taker<'b, R> {
    records: &'b R,
    wanted: Wanted,
    batch: &'b mut Vec<u64>,
    confirmed: usize,
    keys_left: usize,
    /// An entry of the leaf that was taken from last, and of the last one that was confirmed.
    taken: Option<u64>,
    last: Option<u64>,
}

impl<R: Records> Visitor for Taker<'_, R> {
    #[inline]
    fn take(&mut self, leaf: Leaf) -> ControlFlow<()> {
        self.taken = Some(leaf.newest());
        match (leaf, self.wanted) {
            // Whether its version is wanted is looked at when it is yielded.
            (Leaf::One(entry), _) => self.batch.push(entry),
            (leaf, Wanted::NewestUpTo(at)) => {
                self.batch.extend(leaf.newest_up_to(at, self.records));
            }
            (Leaf::Several(view), Wanted::All) => self.batch.extend(view.entries().rev()),
        }
        self.keys_left -= 1;
        if self.keys_left == 0 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }

    #[inline]
    fn confirm(&mut self) {
        (self.confirmed, self.last) = (self.batch.len(), self.taken);
    }
}

impl RadixTree {
    /// A cursor over the keys of a range that yields of each the newest entry whose version is at most
    /// `at`; keys that have none are skipped.
    #[must_use]
    pub fn cursor(
        &self,
        start: Bound<&[u8]>,
        end: Bound<&[u8]>,
        direction: Direction,
        at: u64,
    ) -> RadixCursor {
        RadixCursor::new(start, end, direction, Wanted::NewestUpTo(at))
    }

    /// A cursor over the keys of a range that yields all entries of each, the newest first.
    #[must_use]
    pub fn cursor_of_versions(
        &self,
        start: Bound<&[u8]>,
        end: Bound<&[u8]>,
        direction: Direction,
    ) -> RadixCursor {
        RadixCursor::new(start, end, direction, Wanted::All)
    }
}
