//! Reads several neighbouring parts of a run at once, for cursors that go from one to the next.
//!
//! The first part that is sought is read alone. The next ones in the same direction are read with what follows them in
//! the extent: 32 KiB at first, twice as much each time, up to 256 KiB. Each part's checksum is verified as if it were
//! read alone, once. Parts in place or in the cache are not read.

use std::ops::Range;

use halite_codec::{Compression, Plain};

use super::directory::{Directory, PartPlace};
use super::part::Part;
use super::reader::Run;
use crate::Result;

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
    bytes: Vec<u8>,
    /// The parts that they are of, and the first one's offset in its extent.
    parts: Range<usize>,
    at: usize,
    /// How many bytes are to be read at once.
    len: usize,
}

impl ReadAhead {
    pub(super) fn new(reads: Reads) -> Self {
        Self { reads, bytes: Vec::new(), parts: 0..0, at: 0, len: 0 }
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

    fn read(
        &mut self,
        (run, parts): (&Run, &[PartPlace]),
        number: usize,
        step: Step,
    ) -> Result<Plain> {
        let place = &parts[number];
        if !self.parts.contains(&number) {
            self.len = match (self.reads, step) {
                (Reads::Once, _) => MOST,
                (Reads::Cached, Step::Sought) => 0,
                (Reads::Cached, _) => (self.len * 2).clamp(LEAST, MOST),
            };
            self.read_span((run, parts), number, step);
        }
        if !self.parts.contains(&number) {
            return run.read_part(place);
        }
        let stored = &self.bytes[place.at as usize - self.at..place.end() - self.at];
        match place.compression {
            Compression::None => Ok(Plain::from(stored)),
            _ => run.unpack(place, stored),
        }
    }

    /// Reads a part with its neighbours; none, if it has none or one of them is damaged.
    fn read_span(&mut self, (run, parts): (&Run, &[PartPlace]), number: usize, step: Step) {
        let mut span = number..number + 1;
        let len = |span: &Range<usize>| parts[span.end - 1].end() - parts[span.start].at as usize;
        let are_neighbours = |before: usize| {
            let (a, b) = (&parts[before], &parts[before + 1]);
            a.extent == b.extent && a.end() == b.at as usize
        };
        loop {
            let longer = match step {
                Step::Backward if span.start > 0 && are_neighbours(span.start - 1) => {
                    span.start - 1..span.end
                }
                Step::Sought | Step::Forward
                    if span.end < parts.len() && are_neighbours(span.end - 1) =>
                {
                    span.start..span.end + 1
                }
                _ => break,
            };
            if len(&longer) > self.len {
                break;
            }
            span = longer;
        }
        self.parts = 0..0;
        if span.len() == 1 {
            return;
        }
        self.at = parts[span.start].at as usize;
        self.bytes.resize(len(&span), 0);
        let (at, within) = (self.at, &parts[span.clone()]);
        let check = |bytes: &[u8]| {
            let stored = |place: &PartPlace| bytes.get(place.at as usize - at..place.end() - at);
            within.iter().all(|place| stored(place).is_some_and(|bytes| run.is_whole(place, bytes)))
        };
        let extent = run.pointer().extents[parts[number].extent as usize];
        let read = run.store().extents.read("parts of a run", extent, at, &mut self.bytes, &check);
        // The damage may be in a neighbour: the part is then read alone.
        if read.is_ok() {
            self.parts = span;
        }
    }
}
