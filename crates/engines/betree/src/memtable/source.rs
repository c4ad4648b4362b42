//! A memtable as a source of messages: of each key what its versions up to a sequence merge to.

use std::sync::Arc;

use halite_index::{Coverage, Direction, RadixCursor};

use super::arena::Stored;
use super::{Memtable, Version};
use crate::message::{Action, HeldMessage, Kind, Message, Parsed, Payload};
use crate::run::{DeletedRange, DeletedRanges, Source};
use crate::tree::lookup::Search;
use crate::{Error, Result};

/// A position in a memtable's messages, at one or at none.
pub(crate) struct MemtableSource {
    memtable: Arc<Memtable>,
    /// The bounds, with the dataset before the keys.
    lo: Vec<u8>,
    hi: Option<Vec<u8>>,
    /// Bytes of the dataset before keys, which are left out.
    strip: usize,
    at: u64,
    coverage: Option<Coverage>,
    ranges: DeletedRanges,
    action: Option<Arc<Action>>,
    cursor: Option<(Direction, RadixCursor)>,
    key: Vec<u8>,
    message: Option<HeldMessage>,
}

/// The message of a record, whose kind was checked when it was added.
pub(crate) fn message_of(stored: Stored<'_>) -> Message<'_> {
    let kind = Kind::of_code(stored.kind).expect("a record's kind was checked");
    Message { kind, payload: stored.payload }
}

impl Memtable {
    /// Searches for a key. It ends at the first message that does not depend on older ones.
    pub(crate) fn search(
        &self,
        key: &[u8],
        strip: usize,
        at: u64,
        search: &mut Search,
        action: Option<&Action>,
    ) -> Parsed<()> {
        let mut at = at;
        while !search.is_over() {
            match self.find(key, at) {
                Version::Absent => break,
                Version::Removed(_) => search.end(),
                Version::Change(stored) => {
                    search.add(&key[strip..], message_of(stored).into(), action)?;
                    at = stored.sequence - 1;
                }
            }
        }
        Ok(())
    }
}

impl MemtableSource {
    /// A source at no message: keys from `lo` on, below `hi`, of which `strip` bytes are left out, as of a sequence.
    pub(crate) fn new(
        memtable: Arc<Memtable>,
        (lo, hi): (&[u8], Option<&[u8]>),
        strip: usize,
        at: u64,
        action: Option<Arc<Action>>,
    ) -> Self {
        let coverage = memtable.coverage(at);
        let cut = |key: &[u8]| -> Box<[u8]> { key.get(strip..).unwrap_or_default().into() };
        let mut ranges = Vec::new();
        for (start, end, _) in coverage.iter().flat_map(Coverage::ranges) {
            if hi.is_some_and(|hi| **start >= *hi) || **end <= *lo {
                continue;
            }
            let start = if **start <= *lo { lo } else { start };
            // A range that goes on behind the dataset has no end in it.
            let ends = hi.is_none_or(|hi| **end < *hi);
            ranges.push(DeletedRange { start: cut(start), end: ends.then(|| cut(end)) });
        }
        Self {
            lo: lo.to_vec(),
            hi: hi.map(<[u8]>::to_vec),
            strip,
            at,
            coverage,
            ranges: DeletedRanges::new(ranges),
            action,
            cursor: None,
            key: Vec::new(),
            message: None,
            memtable,
        }
    }

    /// Begins a walk at a bound.
    fn walk(&mut self, direction: Direction, lo: &[u8], hi: Option<&[u8]>) -> Result<()> {
        let cursor = self.memtable.cursor((lo, hi), direction, self.at);
        self.cursor = Some((direction, cursor));
        self.step()
    }

    /// Goes to the next key of the walk that was not removed since.
    fn step(&mut self) -> Result<()> {
        self.message = None;
        let Some((_, cursor)) = &mut self.cursor else { return Ok(()) };
        while let Some(stored) = self.memtable.step(cursor) {
            let removed = self.coverage.as_ref().map_or(0, |coverage| coverage.of(stored.key));
            if stored.sequence <= removed {
                continue;
            }
            self.key.clear();
            self.key.extend_from_slice(&stored.key[self.strip..]);
            let message = message_of(stored);
            if message.kind.is_complete() {
                self.message = Some(message.into());
                return Ok(());
            }
            let mut search = Search::default();
            let action = self.action.as_deref();
            let found = self.memtable.search(stored.key, self.strip, self.at, &mut search, action);
            let merged = found.and_then(|()| search.into_message(&self.key, action));
            self.message = merged.map_err(|why| self.damaged(why))?;
            return Ok(());
        }
        Ok(())
    }

    fn full(&self, key: &[u8]) -> Vec<u8> {
        [&self.lo[..self.strip], key].concat()
    }

    /// Goes on from the key that it is at, in a direction.
    fn go_on(&mut self, direction: Direction) -> Result<()> {
        if self.message.is_none() {
            return Ok(());
        }
        if self.cursor.as_ref().is_some_and(|(of, _)| *of == direction) {
            return self.step();
        }
        let key = self.full(&self.key);
        match direction {
            Direction::Descending => {
                let lo = self.lo.clone();
                self.walk(direction, &lo, Some(&key))
            }
            Direction::Ascending => {
                let hi = self.hi.clone();
                self.walk(direction, &[&key[..], &[0]].concat(), hi.as_deref())
            }
        }
    }
}

impl Source for MemtableSource {
    fn first(&mut self) -> Result<()> {
        let (lo, hi) = (self.lo.clone(), self.hi.clone());
        self.walk(Direction::Ascending, &lo, hi.as_deref())
    }

    fn last(&mut self) -> Result<()> {
        let (lo, hi) = (self.lo.clone(), self.hi.clone());
        self.walk(Direction::Descending, &lo, hi.as_deref())
    }

    fn seek(&mut self, key: &[u8]) -> Result<()> {
        let (full, hi) = (self.full(key), self.hi.clone());
        let lo = full.max(self.lo.clone());
        self.walk(Direction::Ascending, &lo, hi.as_deref())
    }

    fn seek_before(&mut self, key: &[u8]) -> Result<()> {
        let (full, lo) = (self.full(key), self.lo.clone());
        let hi = match &self.hi {
            Some(hi) => full.min(hi.clone()),
            None => full,
        };
        self.walk(Direction::Descending, &lo, Some(&hi))
    }

    fn next(&mut self) -> Result<()> {
        self.go_on(Direction::Ascending)
    }

    fn prev(&mut self) -> Result<()> {
        self.go_on(Direction::Descending)
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

    fn take_message(&mut self) -> HeldMessage {
        let message = self.message.as_mut().expect("it is at a message");
        // It stays at the key.
        let payload = std::mem::replace(&mut message.payload, Payload::Owned(Vec::new()));
        HeldMessage { kind: message.kind, payload }
    }

    fn deleted_ranges(&self) -> &DeletedRanges {
        &self.ranges
    }

    fn damaged(&self, why: &str) -> Error {
        Error::Message { why: why.to_owned() }
    }
}
