//! Reads several neighbouring parts of a run at once, for cursors that go from one to the next.
//!
//! The first part that is sought is read alone. The next ones in the same direction are read with what follows them in
//! the extent: 32 KiB at first, twice as much each time, up to 256 KiB. Each part's checksum is verified as if it were
//! read alone, once. Parts in place or in the cache are not read, nor are those beyond the cursor's bounds.
//!
//! ```text
//!            4 KiB      32 KiB                64 KiB
//!  parts   ┌───────┬──────────────┬─────────────────────────────┬──────────── ─ ─
//!  asked   │ by the merge, of all │ when it is needed           │ when the span before is entered
//!          │ its runs side by side│                             │
//! ```
//!
//! Where requests go on side by side (`storage/requests.rs`), a merge of several runs asks for the first parts of all
//! of them before it waits for one. From the third read on, and in merges that read all from the first on, the next
//! span is under way while the cursor is in the one before: a shorter walk would wait for bytes that it does not need.
//!
//! Memory: two spans of a run, 512 KiB.

use std::ops::Range;

use halite_codec::{Compression, Plain};
use halite_disk::AlignedBuffer;

use super::directory::{Directory, PartPlace};
use super::part::Part;
use super::reader::Run;
use crate::Result;
use crate::storage::{Check, PendingRead};

/// How a cursor came to a part.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Step {
    Sought,
    Forward,
    Backward,
}

/// How a cursor uses the cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reads {
    /// Parts come from the cache, and go there.
    Cached,
    /// Each part is read once, past the cache, and ahead from the first one on: to merge runs.
    Once,
}

/// Bytes that a walk reads at once at its second part, and at most.
const LEAST: usize = 32 << 10;
const MOST: usize = 256 << 10;

/// Stored bytes of parts that were read ahead.
pub(super) struct ReadAhead {
    reads: Reads,
    /// The parts that the cursor may come to.
    within: Range<usize>,
    current: Span<Bytes>,
    /// A span that is being read.
    next: Option<Span<PendingRead>>,
    /// How many bytes are to be read at once.
    len: usize,
}

/// Neighbouring parts.
struct Span<T> {
    parts: Range<usize>,
    /// Where the bytes begin in the extent.
    at: usize,
    bytes: T,
}

enum Bytes {
    Own(Vec<u8>),
    Asked(AlignedBuffer),
}

impl Bytes {
    fn all(&self) -> &[u8] {
        match self {
            Self::Own(bytes) => bytes,
            Self::Asked(bytes) => bytes,
        }
    }

    /// Memory of so many bytes.
    fn resized(&mut self, len: usize) -> &mut [u8] {
        let mut own = match std::mem::replace(self, Self::Own(Vec::new())) {
            Self::Own(bytes) => bytes,
            Self::Asked(_) => Vec::new(),
        };
        own.resize(len, 0);
        *self = Self::Own(own);
        match self {
            Self::Own(bytes) => bytes,
            Self::Asked(_) => unreachable!("it was replaced"),
        }
    }
}

impl ReadAhead {
    /// Nothing is read yet; the cursor stays within some parts.
    pub(super) fn new(reads: Reads, within: Range<usize>) -> Self {
        let current = Span { parts: 0..0, at: 0, bytes: Bytes::Own(Vec::new()) };
        Self { reads, within, current, next: None, len: 0 }
    }

    /// A part of a run, whose directory this is.
    pub(super) fn part(
        &mut self,
        (run, directory): (&Run, &Directory),
        number: usize,
        step: Step,
    ) -> Result<Part> {
        let (parts, part) = (&directory.parts, (number, &directory.parts[number]));
        match self.reads {
            Reads::Cached => run.part(part, || self.read((run, parts), number, step)),
            Reads::Once => run.part_once(part, || self.read((run, parts), number, step)),
        }
    }

    /// Begins to read a part that the cursor is about to seek, and goes on from in a direction.
    pub(super) fn ask(&mut self, (run, directory): (&Run, &Directory), number: usize, step: Step) {
        let is_there = self.current.parts.contains(&number)
            || self.next.as_ref().is_some_and(|next| next.parts.contains(&number))
            || self.reads == Reads::Cached && run.is_cached(number);
        if !is_there {
            let parts = &directory.parts;
            let len = if self.reads == Reads::Once { MOST } else { 0 };
            self.next = begin((run, parts), self.span(parts, number, step, len));
        }
    }

    fn read(
        &mut self,
        (run, parts): (&Run, &[PartPlace]),
        number: usize,
        step: Step,
    ) -> Result<Plain> {
        let place = &parts[number];
        if !self.current.parts.contains(&number) {
            self.len = match (self.reads, step) {
                (Reads::Once, _) => MOST,
                (Reads::Cached, Step::Sought) => 0,
                (Reads::Cached, _) => (self.len * 2).clamp(LEAST, MOST),
            };
            if !self.take_next(number) {
                self.read_span((run, parts), number, step);
            }
            if self.len > LEAST {
                self.ask_behind((run, parts), step);
            }
        }
        if !self.current.parts.contains(&number) {
            return run.read_part(place);
        }
        let Span { at, bytes, .. } = &self.current;
        let stored = &bytes.all()[place.at as usize - at..place.end() - at];
        match place.compression {
            Compression::None => Ok(Plain::from(stored)),
            _ => run.unpack(place, stored),
        }
    }

    /// Waits for the span that was asked for, if it has a part. Returns whether its bytes are there.
    fn take_next(&mut self, number: usize) -> bool {
        let Some(Span { parts, at, bytes }) = self.next.take() else { return false };
        if !parts.contains(&number) {
            return false;
        }
        // The damage may be in a neighbour: the span is then read again, and the part alone.
        let Ok(bytes) = bytes.wait() else { return false };
        self.current = Span { parts, at, bytes: Bytes::Asked(bytes) };
        true
    }

    /// Begins to read the span behind the current one in a direction.
    fn ask_behind(&mut self, (run, parts): (&Run, &[PartPlace]), step: Step) {
        let behind = match step {
            Step::Backward => self.current.parts.start.checked_sub(1),
            Step::Sought | Step::Forward => Some(self.current.parts.end),
        };
        if let Some(behind) = behind.filter(|behind| self.within.contains(behind))
            && !self.current.parts.is_empty()
            && !(self.reads == Reads::Cached && run.is_cached(behind))
        {
            let len = (self.len * 2).min(MOST);
            self.next = begin((run, parts), self.span(parts, behind, step, len));
        }
    }

    /// A part with its neighbours in a direction, up to a length.
    fn span(&self, parts: &[PartPlace], number: usize, step: Step, most: usize) -> Range<usize> {
        let mut span = number..number + 1;
        let are_neighbours = |before: usize| {
            let (a, b) = (&parts[before], &parts[before + 1]);
            a.extent == b.extent && a.end() == b.at as usize
        };
        loop {
            let longer = match step {
                Step::Backward
                    if span.start > self.within.start && are_neighbours(span.start - 1) =>
                {
                    span.start - 1..span.end
                }
                Step::Sought | Step::Forward
                    if span.end < self.within.end && are_neighbours(span.end - 1) =>
                {
                    span.start..span.end + 1
                }
                _ => break,
            };
            if bytes_of(parts, &longer).len() > most {
                break;
            }
            span = longer;
        }
        span
    }

    /// Reads a part with its neighbours; none, if it has none or one of them is damaged.
    fn read_span(&mut self, (run, parts): (&Run, &[PartPlace]), number: usize, step: Step) {
        let span = self.span(parts, number, step, self.len);
        self.current.parts = 0..0;
        if span.len() == 1 {
            return;
        }
        let of = bytes_of(parts, &span);
        let (at, within) = (of.start, &parts[span.clone()]);
        let check = |bytes: &[u8]| {
            let stored = |place: &PartPlace| bytes.get(place.at as usize - at..place.end() - at);
            within.iter().all(|place| stored(place).is_some_and(|bytes| run.is_whole(place, bytes)))
        };
        let extent = run.pointer().extents[parts[number].extent as usize];
        let to = self.current.bytes.resized(of.len());
        // The damage may be in a neighbour: the part is then read alone.
        if run.store().extents.read(WHAT, extent, at, to, &check).is_ok() {
            (self.current.parts, self.current.at) = (span, at);
        }
    }
}

const WHAT: &str = "parts of a run";

/// The bytes of neighbouring parts in their extent.
fn bytes_of(parts: &[PartPlace], span: &Range<usize>) -> Range<usize> {
    parts[span.start].at as usize..parts[span.end - 1].end()
}

/// Begins to read neighbouring parts, and no other bytes: a repair writes all that was read to the other replicas.
fn begin((run, parts): (&Run, &[PartPlace]), span: Range<usize>) -> Option<Span<PendingRead>> {
    let number = parts[span.start].extent as usize;
    let extent = run.pointer().extents[number];
    let of = bytes_of(parts, &span);
    let at = of.start;
    let of_part = |place: &PartPlace| {
        let stored = place.at as usize - at..place.end() - at;
        (run.seed(number, place.at as usize), stored, place.checksum)
    };
    let all: Vec<_> = parts[span.clone()].iter().map(of_part).collect();
    let check: Check = Box::new(move |bytes| {
        all.iter().all(|(seed, stored, checksum)| {
            bytes.get(stored.clone()).is_some_and(|bytes| seed.checksum(bytes) == *checksum)
        })
    });
    let bytes = run.store().extents.begin_read(WHAT, extent, of, check)?;
    Some(Span { parts: span, at, bytes })
}
