//! A log on a pool as it is found when a store opens: its batches are read, and nothing is changed yet.

use std::borrow::Cow;

use halite_alloc::Device;
use halite_pmem::Fresh;

use super::PoolShape;
use super::frame::{self, Frame, LINE, Life, footprint};
use super::place::Place;
use crate::{Error, Identity, Result, Stopped};

/// The largest number that is taken for a segment's: there is always another one behind it.
const NUMBER_MAX: u32 = 1 << 31;

/// The knowledge that a store has of its log, at the least.
#[derive(Clone, Copy, Debug, Default)]
pub struct PoolKnown {
    /// The first segment that is needed; 0: there may be no log yet.
    pub first: u32,
    /// No record below this sequence is needed any more.
    pub sequence: u64,
    /// Where the log ended at the last checkpoint, or when it was opened or closed since, all of it durable
    /// ([`PoolLog::end`](super::PoolLog::end)): it never ends before that again. 0: that is not known.
    pub end: (u32, u64),
}

/// A batch that was read.
#[derive(Debug)]
pub struct Replayed<'a> {
    /// The sequence of the first record.
    pub sequence: u64,
    /// How many records it has: sequences that it takes.
    pub records: u32,
    /// The bytes that its writer gave it.
    pub payload: Cow<'a, [u8]>,
    /// Where these lie in the log.
    pub place: Place,
}

/// A log that was read, and not resumed yet.
pub struct PoolFound {
    pub(super) device: Device,
    pub(super) store_id: u128,
    pub(super) shape: PoolShape,
    /// The needed segments, numbered without a gap.
    pub(super) segments: Vec<Segment>,
    /// Segments that are not needed any more.
    pub(super) stale: Vec<u32>,
    /// Where the batches end; none, if there is no log yet.
    pub(super) end: Option<End>,
    pub(super) next: u64,
    /// The error behind the last batch, where it cannot be the torn end of a crash.
    pub(super) broken: Option<Error>,
}

/// A segment of the log, claimed.
pub(super) struct Segment {
    pub(super) number: u32,
    pub(super) space: Fresh,
}

/// The place behind the last whole batch.
#[derive(Clone, Copy, Debug)]
pub(super) struct End {
    /// The segment, by its place among the found ones.
    pub(super) index: usize,
    pub(super) at: usize,
    pub(super) life: Life,
    /// Whether the segment has its header; the first frame of a segment is durable with its header.
    pub(super) has_header: bool,
}

impl PoolFound {
    /// Reads the batches, in order, up to one that is torn or damaged. Changes nothing.
    ///
    /// # Errors
    /// The error of `replay`; an error of the pool. A log that is damaged or lacks a segment is found all the same, up
    /// to there: it does not open ([`PoolLog::open`](super::PoolLog::open)).
    pub fn read<E>(
        device: &Device,
        identity: Identity,
        known: PoolKnown,
        shape: PoolShape,
        mut replay: impl FnMut(&Replayed<'_>) -> std::result::Result<(), E>,
    ) -> std::result::Result<Self, Stopped<E>> {
        let store_id = identity.store_id;
        let mut found = Self::claim(device, store_id, known, shape).map_err(Stopped::Log)?;
        if found.broken.is_some() || found.segments.is_empty() {
            return Ok(found);
        }
        let begun = Walk::begin(&found.segments, identity, shape);
        let mut walk = match begun {
            Ok(walk) => walk,
            Err(error) => {
                found.broken = Some(error);
                return Ok(found);
            }
        };
        let broken = loop {
            match walk.next_batch() {
                Ok(Some(batch)) => replay(&batch).map_err(Stopped::Replay)?,
                Ok(None) => break walk.check_end(known),
                Err(error) => break Err(error),
            }
        };
        let (end, next) = (walk.end, walk.next.max(known.sequence));
        (found.end, found.next) = (Some(end), next);
        found.broken = broken.err().or(found.broken);
        Ok(found)
    }

    /// Claims the needed segments that lie behind each other.
    fn claim(device: &Device, store_id: u128, known: PoolKnown, shape: PoolShape) -> Result<Self> {
        let numbers = device.logical_segments();
        let (stale, numbers) = numbers.split_at(numbers.partition_point(|&n| n < known.first));
        let mut found = Self {
            device: device.clone(),
            store_id,
            shape,
            segments: Vec::new(),
            stale: stale.to_vec(),
            end: None,
            next: known.sequence,
            broken: None,
        };
        let first = numbers.first().copied().filter(|_| known.first == 0).unwrap_or(known.first);
        if known.first > 0 && numbers.is_empty() {
            found.broken = Some(missing(known.first));
        }
        for (expected, &number) in (first..).zip(numbers) {
            if number != expected {
                found.broken = Some(missing(expected));
                break;
            }
            if number > NUMBER_MAX {
                found.broken = Some(damaged(number, "number", "it is too large"));
                break;
            }
            let space = device.claim(number, 0, shape.segment_bytes)?;
            space.read_ahead();
            found.segments.push(Segment { number, space });
        }
        Ok(found)
    }

    /// The sequence behind the last batch, or that below which none is needed; 0, if there is neither.
    #[must_use]
    pub fn next(&self) -> u64 {
        self.next
    }

    /// The reason why it cannot be opened, if there is one.
    #[must_use]
    pub fn broken(&self) -> Option<&Error> {
        self.broken.as_ref()
    }

    /// Accepts that the log ends where its whole batches do, and gives up all that is behind. Returns the reason why it
    /// could not be opened, if there was one.
    pub fn accept_end(&mut self) -> Option<Error> {
        let error = self.broken.take()?;
        self.segments.truncate(self.end.map_or(0, |end| end.index + 1));
        let kept = |number: &u32| self.segments.iter().any(|segment| segment.number == *number);
        self.stale = self.device.logical_segments();
        self.stale.retain(|number| !kept(number));
        Some(error)
    }
}

/// The evidence that the whole frames of a segment give of those that are not whole.
#[derive(Default)]
struct Searched {
    /// The offset of the first frame that proves that something was lost.
    proof: Option<usize>,
    /// The salt of the next segment.
    next_salt: Option<u64>,
}

/// A walk over the frames of the log.
#[derive(Clone)]
struct Walk<'a> {
    segments: &'a [Segment],
    identity: Identity,
    segment_bytes: usize,
    end: End,
    /// The sequence of the next batch; 0: any.
    next: u64,
}

impl<'a> Walk<'a> {
    /// A walk from the first segment on.
    fn begin(segments: &'a [Segment], identity: Identity, shape: PoolShape) -> Result<Self> {
        let Segment { number, space } = &segments[0];
        // It was durable before the log had a batch in it, or got one before this segment was known as the first.
        let salt = frame::salt(space.bytes(), identity.store_id, *number)
            .ok_or_else(|| damaged(*number, "header", "it is not that of this segment"))?;
        let life = Life::new(identity.store_id, *number, salt);
        let end = End { index: 0, at: LINE, life, has_header: true };
        let segment_bytes = shape.segment_bytes as usize;
        Ok(Self { segments, identity, segment_bytes, end, next: 0 })
    }

    fn number(&self) -> u32 {
        self.segments[self.end.index].number
    }

    fn bytes(&self) -> &'a [u8] {
        self.segments[self.end.index].space.bytes()
    }

    /// The whole frame at the end.
    fn frame(&self) -> Option<Frame<'a>> {
        let End { at, life, has_header, .. } = self.end;
        frame::read(self.bytes(), life, at as u64).filter(|_| has_header)
    }

    /// The next whole batch; none: the log ends here.
    fn next_batch(&mut self) -> Result<Option<Replayed<'a>>> {
        loop {
            match self.frame() {
                None => return Ok(None),
                Some(Frame::Resumption { sequence }) => {
                    if sequence < self.next || sequence > self.identity.sequence_max {
                        return Err(self.wrong(format!("it resumes with {sequence}")));
                    }
                    self.next = sequence;
                    self.end.life = self.end.life.resumed(self.end.at as u64);
                    self.end.at += LINE;
                }
                Some(Frame::End { sequence, salt }) => {
                    self.expect(sequence, 0)?;
                    self.go_on(salt)?;
                }
                Some(Frame::Part(part)) => return self.batch(part),
            }
        }
    }

    /// The batch that begins with this frame.
    fn batch(&mut self, first: frame::Part<'a>) -> Result<Option<Replayed<'a>>> {
        let frame::Batch { sequence, records, .. } = first.batch;
        self.expect(sequence, records)?;
        let mut ahead = self.clone();
        let (mut part, mut payload) = (first, Cow::Borrowed(first.payload));
        while let Some((left, salt)) = part.goes_on {
            ahead.go_on(salt)?;
            let Some(frame) = ahead.frame() else { return Ok(None) };
            part = match frame {
                Frame::Part(next)
                    if (next.batch.sequence, next.batch.records) == (sequence, records)
                        && next.payload.len() as u64
                            + next.goes_on.map_or(0, |(left, _)| u64::from(left))
                            == u64::from(left) =>
                {
                    next
                }
                _ => return Err(ahead.wrong(format!("it does not go on with batch {sequence}"))),
            };
            payload.to_mut().extend_from_slice(part.payload);
        }
        let len = payload.len() as u32;
        let place = Place { segment: self.number(), at: self.end.at as u32, len };
        self.end = ahead.end;
        self.end.at += footprint(part.payload.len());
        self.next = sequence + u64::from(records);
        Ok(Some(Replayed { sequence, records, payload, place }))
    }

    /// Refuses a batch, or a mark of a batch to come, that is not the next one.
    fn expect(&mut self, sequence: u64, records: u32) -> Result<()> {
        let is_next = self.next == 0 || sequence == self.next;
        let last = sequence.checked_add(records.into());
        if !is_next || last.is_none_or(|last| last > self.identity.sequence_max) {
            let next = self.next;
            return Err(self.wrong(format!("batch {sequence} follows, where {next} should")));
        }
        self.next = sequence;
        Ok(())
    }

    /// Goes on in the next segment, of this salt, which was there before its predecessor was ended.
    fn go_on(&mut self, salt: u64) -> Result<()> {
        let number = self.number() + 1;
        let index = self.end.index + 1;
        let next = self.segments.get(index).ok_or_else(|| missing(number))?;
        let store_id = self.identity.store_id;
        let has_header = frame::salt(next.space.bytes(), store_id, number) == Some(salt);
        self.end = End { index, at: LINE, life: Life::new(store_id, number, salt), has_header };
        Ok(())
    }

    /// Finds whether the log may end where the whole batches do: refuses an end before the known one, and one behind
    /// which a frame proves that needed records were durable.
    fn check_end(&self, known: PoolKnown) -> Result<()> {
        if (self.number(), self.end.at as u64) < known.end {
            let (number, at) = known.end;
            return Err(self.wrong(format!(
                "the log ended in segment {number} at {at} when the store was closed"
            )));
        }
        let needed = if self.next > 0 { self.next } else { known.sequence };
        let End { index, at, life, .. } = self.end;
        let mut lives = vec![life, life.resumed(at as u64)];
        let mut from = at;
        for Segment { number, space } in &self.segments[index..] {
            let life = |salt| Life::new(self.identity.store_id, *number, salt);
            if *number > self.number() {
                let salt = frame::salt(space.bytes(), self.identity.store_id, *number);
                lives.extend(salt.map(life));
                from = LINE;
            }
            let searched = self.search(space.bytes(), from, lives, needed);
            if let Some(at) = searched.proof {
                return Err(self.wrong(format!(
                    "it is not whole, though the one in segment {number} at {at} was written when it was durable"
                )));
            }
            // The next segment may have lost its header.
            let next = |salt| Life::new(self.identity.store_id, number + 1, salt);
            lives = searched.next_salt.map(next).into_iter().collect();
        }
        Ok(())
    }

    /// Searches a segment from an offset on for a frame that was written when records from `needed` on were durable: a
    /// batch that says so, or a resumption behind them.
    ///
    /// Forged lengths can make each place cost as much as the segment, so the search stops when it has read four
    /// times that.
    fn search(&self, bytes: &[u8], from: usize, mut lives: Vec<Life>, needed: u64) -> Searched {
        let mut searched = Searched::default();
        let mut budget = 4 * self.segment_bytes;
        for at in (from..self.segment_bytes).step_by(LINE) {
            let cost = lives.len() * frame::len(bytes, at as u64).unwrap_or(0);
            budget = budget.saturating_sub(cost);
            if budget == 0 {
                break;
            }
            let read = |&life: &Life| Some((life, frame::read(bytes, life, at as u64)?));
            match lives.iter().find_map(read) {
                Some((_, Frame::Part(part))) if part.batch.durable > needed => {
                    searched.proof = Some(at);
                    break;
                }
                Some((_, Frame::Resumption { sequence })) if sequence > needed => {
                    searched.proof = Some(at);
                    break;
                }
                Some((_, Frame::Part(part))) => {
                    searched.next_salt = part.goes_on.map(|(_, salt)| salt);
                }
                Some((_, Frame::End { salt, .. })) => searched.next_salt = Some(salt),
                Some((life, Frame::Resumption { .. })) => lives = vec![life.resumed(at as u64)],
                None => {}
            }
        }
        searched
    }

    /// The error of what is at the end.
    fn wrong(&self, why: String) -> Error {
        damaged(self.number(), format!("the batch at {}", self.end.at), why)
    }
}

/// The name of a segment in messages.
fn name(number: u32) -> String {
    format!("segment {number} of the log")
}

fn missing(number: u32) -> Error {
    Error::Missing { file: name(number) }
}

fn damaged(number: u32, what: impl Into<String>, why: impl Into<String>) -> Error {
    Error::damaged(&name(number), what, why)
}
