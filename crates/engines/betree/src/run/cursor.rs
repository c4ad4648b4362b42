//! A cursor over the messages of a run, in both directions, within bounds.

use std::sync::Arc;

use super::deleted_ranges::DeletedRanges;
use super::directory::{Directory, PartPlace};
use super::part::{EntryRange, Part};
use super::read_ahead::{ReadAhead, Reads, Step};
use super::reader::Run;
use super::source::{Move, Source};
use crate::message::{HeldMessage, Message};
use crate::{Error, Result};

/// A position in a run, at a message whose key is in `lo..hi`, or at none.
pub(crate) struct RunCursor {
    run: Arc<Run>,
    /// The cursor keeps it, also if the run loses it.
    directory: Arc<Directory>,
    lo: Vec<u8>,
    hi: Option<Vec<u8>>,
    deleted_ranges: DeletedRanges,
    ahead: ReadAhead,
    /// The part that it is in, and that part's number.
    part: Option<Part>,
    number: usize,
    /// The entry's number there.
    at: usize,
    entry: Option<EntryRange>,
    key: Vec<u8>,
}

/// The order in which an entry's key has to be. Its bytes have passed their checksum; and yet no caller may see keys that
/// do not ascend, or seek the same place for ever.
#[derive(Clone, Copy)]
enum Order<'a> {
    Any,
    /// Not below a key, and below a key.
    From(&'a [u8]),
    Below(&'a [u8]),
    /// Above the key that the cursor was at, and below it.
    Next,
    Before,
}

impl RunCursor {
    /// A cursor at no message. Reads the run's directory if it is not in memory.
    pub(crate) fn new(run: Arc<Run>, lo: &[u8], hi: Option<&[u8]>, reads: Reads) -> Result<Self> {
        let directory = run.directory()?.share();
        let last = hi.and_then(|hi| directory.part_of(hi));
        let end = last.map_or(directory.parts.len(), |last| last + 1);
        let start = directory.part_of(lo).unwrap_or(end).min(end);
        let deleted_ranges = directory.ranges.clip(lo, hi);
        Ok(Self {
            run,
            directory,
            lo: lo.to_vec(),
            hi: hi.map(<[u8]>::to_vec),
            deleted_ranges,
            ahead: ReadAhead::new(reads, start..end),
            part: None,
            number: 0,
            at: 0,
            entry: None,
            key: Vec::new(),
        })
    }

    /// The message that it is at, without a copy.
    pub(crate) fn entry(&self) -> Option<(&[u8], Message<'_>)> {
        let (entry, part) = (self.entry.as_ref()?, self.part.as_ref()?);
        Some((&self.key, part.message(entry)))
    }

    /// Enters a part.
    fn enter(&mut self, number: usize, step: Step) -> Result<&Part> {
        if self.part.is_none() || self.number != number {
            self.part = None;
            self.part = Some(self.ahead.part((&self.run, &self.directory), number, step)?);
            self.number = number;
        }
        Ok(self.part.as_ref().expect("it is there"))
    }

    /// How many entries of the part are below a key.
    fn below(&self, key: &[u8]) -> Result<usize> {
        let part = self.part.as_ref().expect("a part was entered");
        let found = part.search(key).map(|(below, _)| below);
        found.map_err(|why| self.damaged(why))
    }

    fn parts(&self) -> usize {
        self.directory.parts.len()
    }

    /// Goes to an entry of the part; behind its last one to the next part's first.
    fn settle_forward(&mut self, mut at: usize, order: Order<'_>) -> Result<()> {
        let part = self.part.as_ref().expect("a part was entered");
        if at == part.len() {
            let next = self.number + 1;
            if next == self.parts() {
                return Ok(());
            }
            self.enter(next, Step::Forward)?;
            at = 0;
        }
        self.read(at, order)?;
        if self.hi.as_ref().is_some_and(|hi| *hi <= self.key) {
            self.entry = None;
        }
        Ok(())
    }

    /// Goes to the entry before one of the part; from its first one to the last of the part before.
    fn settle_backward(&mut self, mut at: usize, order: Order<'_>) -> Result<()> {
        if at == 0 {
            let Some(before) = self.number.checked_sub(1) else { return Ok(()) };
            at = self.enter(before, Step::Backward)?.len();
        }
        self.read(at - 1, order)?;
        if self.key < self.lo {
            self.entry = None;
        }
        Ok(())
    }

    fn read(&mut self, at: usize, order: Order<'_>) -> Result<()> {
        let part = self.part.as_ref().expect("a part was entered");
        let entry = part.entry(at).map_err(|why| self.damaged(why))?;
        let is_in_order = match order {
            Order::Any => true,
            Order::From(key) => part.compare(&entry, key).is_ge(),
            Order::Below(key) => part.compare(&entry, key).is_lt(),
            Order::Next => part.compare(&entry, &self.key).is_gt(),
            Order::Before => part.compare(&entry, &self.key).is_lt(),
        };
        if !is_in_order {
            return Err(self.damaged("its keys are not in order"));
        }
        part.read_key(&entry, &mut self.key);
        (self.at, self.entry) = (at, Some(entry));
        Ok(())
    }
}

impl Source for RunCursor {
    fn ask(&mut self, place: Move<'_>) {
        let last = self.parts().checked_sub(1);
        let (key, step) = match place {
            Move::First => (Some(&self.lo[..]), Step::Forward),
            Move::Seek(key) => (Some(key.max(&self.lo)), Step::Forward),
            Move::Last => (self.hi.as_deref(), Step::Backward),
            Move::SeekBefore(key) => {
                (Some(self.hi.as_deref().map_or(key, |hi| key.min(hi))), Step::Backward)
            }
        };
        let number = match (key.map(|key| self.directory.part_of(key)), step) {
            (Some(None), Step::Forward) => None,
            (Some(None) | None, _) => last,
            (Some(number), _) => number,
        };
        if let Some(number) = number
            && (self.part.is_none() || self.number != number)
        {
            self.ahead.ask((&self.run, &self.directory), number, step);
        }
    }

    fn first(&mut self) -> Result<()> {
        self.seek(&[])
    }

    fn last(&mut self) -> Result<()> {
        if let Some(hi) = self.hi.take() {
            let moved = self.seek_before(&hi);
            self.hi = Some(hi);
            return moved;
        }
        self.entry = None;
        let Some(last) = self.parts().checked_sub(1) else { return Ok(()) };
        let entries = self.enter(last, Step::Sought)?.len();
        self.settle_backward(entries, Order::Any)
    }

    fn seek(&mut self, key: &[u8]) -> Result<()> {
        self.entry = None;
        if self.hi.as_ref().is_some_and(|hi| **hi <= *key) {
            return Ok(());
        }
        let is_below = *key < *self.lo;
        let lo = std::mem::take(&mut self.lo);
        let moved = self.seek_from(if is_below { &lo } else { key });
        self.lo = lo;
        moved
    }

    fn seek_before(&mut self, key: &[u8]) -> Result<()> {
        self.entry = None;
        if *key <= *self.lo {
            return Ok(());
        }
        let Some(last) = self.parts().checked_sub(1) else { return Ok(()) };
        if self.hi.as_ref().is_some_and(|hi| **hi < *key) {
            return self.last();
        }
        let number = self.directory.part_of(key).unwrap_or(last);
        self.enter(number, Step::Sought)?;
        let below = self.below(key)?;
        self.settle_backward(below, Order::Below(key))
    }

    fn next(&mut self) -> Result<()> {
        match self.entry.take() {
            Some(_) => self.settle_forward(self.at + 1, Order::Next),
            None => Ok(()),
        }
    }

    fn prev(&mut self) -> Result<()> {
        match self.entry.take() {
            Some(_) => self.settle_backward(self.at, Order::Before),
            None => Ok(()),
        }
    }

    fn leave(&mut self) {
        self.entry = None;
    }

    fn key(&self) -> Option<&[u8]> {
        self.entry.as_ref().map(|_| &self.key[..])
    }

    fn message(&self) -> HeldMessage {
        let (entry, part) = (self.entry.as_ref(), self.part.as_ref());
        part.zip(entry).map(|(part, entry)| part.held(entry)).expect("it is at a message")
    }

    fn deleted_ranges(&self) -> &DeletedRanges {
        &self.deleted_ranges
    }

    fn damaged(&self, why: &str) -> Error {
        // A run without parts has deleted ranges only.
        let place: Option<&PartPlace> = self.directory.parts.get(self.number);
        self.run.damaged_part(place, why)
    }
}

impl RunCursor {
    /// Goes to the first message from a key within the bounds on.
    fn seek_from(&mut self, key: &[u8]) -> Result<()> {
        let Some(number) = self.directory.part_of(key) else { return Ok(()) };
        self.enter(number, Step::Sought)?;
        let below = self.below(key)?;
        self.settle_forward(below, Order::From(key))
    }
}
