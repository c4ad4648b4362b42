//! The bytes of a heap: its segments, which bytes were stored and are not durable yet, and the checks of words.

use halite_pmem::{Flushed, Fresh, LINE, Pool};

use super::layout::CHUNKS;
use crate::{Device, Error, Result, SEGMENT, check};

/// Where the payload of a checked word begins, in bits.
const PAYLOAD_SHIFT: u32 = 24;

/// Tells a checked word from zeros.
const WRITTEN: u64 = 1 << 16;

/// The segments of a heap.
pub(super) struct Ground {
    device: Device,
    salt: u64,
    parts: Vec<Part>,
    /// Ranges of places that were stored to since the last fence.
    dirty: Vec<(u64, u64)>,
}

struct Part {
    fresh: Fresh,
    /// Lines written back since the heap was opened.
    lines: u64,
}

impl Ground {
    pub(super) fn new(device: &Device) -> Self {
        let salt = device.segments().salt();
        Self { device: device.clone(), salt, parts: Vec::new(), dirty: Vec::new() }
    }

    pub(super) fn device(&self) -> &Device {
        &self.device
    }

    pub(super) fn pool(&self) -> &Pool {
        self.device.segments().pool()
    }

    pub(super) fn salt(&self) -> u64 {
        self.salt
    }

    /// Adds the next segment, claimed as a whole.
    pub(super) fn push(&mut self, fresh: Fresh) {
        self.parts.push(Part { fresh, lines: 0 });
    }

    /// How many segments there are.
    pub(super) fn segments(&self) -> u32 {
        self.parts.len() as u32
    }

    /// Whether there are such bytes: in one segment.
    pub(super) fn contains(&self, place: u64, len: u64) -> bool {
        place / SEGMENT < self.parts.len() as u64
            && len <= SEGMENT
            && place % SEGMENT + len <= SEGMENT
    }

    /// Lines written back to each segment since the heap was opened.
    pub(super) fn lines(&self) -> impl ExactSizeIterator<Item = u64> {
        self.parts.iter().map(|part| part.lines)
    }

    #[inline]
    pub(super) fn read(&self, place: u64, len: u64) -> &[u8] {
        self.parts[(place / SEGMENT) as usize].fresh.read(place % SEGMENT, len)
    }

    /// Has the processor fetch a line, and does not wait. A place that is not there is nothing to fetch.
    #[inline]
    pub(super) fn prefetch(&self, place: u64) {
        if let Some(part) = self.parts.get((place / SEGMENT) as usize) {
            part.fresh.prefetch(place % SEGMENT);
        }
    }

    #[inline]
    pub(super) fn word(&self, place: u64) -> u64 {
        let bytes = self.read(place, 8);
        u64::from_le_bytes(*bytes.first_chunk().expect("a word has eight"))
    }

    /// Stores bytes, which the next fence does not wait for.
    #[inline]
    #[track_caller]
    pub(super) fn write(&mut self, place: u64, bytes: &[u8]) {
        self.parts[(place / SEGMENT) as usize].fresh.write(place % SEGMENT, bytes);
    }

    /// Stores a word, which the next fence does not wait for.
    #[inline]
    #[track_caller]
    pub(super) fn write_word(&mut self, place: u64, word: u64) {
        self.parts[(place / SEGMENT) as usize].fresh.write_words(place % SEGMENT, &[word]);
    }

    /// Stores a word.
    #[inline]
    #[track_caller]
    pub(super) fn store_word(&mut self, place: u64, word: u64) {
        self.write_word(place, word);
        self.note(place, 8);
    }

    /// Stores a half of a word, which is read and stored as a whole, so that it does not tear.
    #[track_caller]
    pub(super) fn store_half(&mut self, place: u64, half: u32) {
        let whole = place / 8 * 8;
        let shift = (place - whole) * 8;
        let word = self.word(whole) & !(u64::from(u32::MAX) << shift);
        self.store_word(whole, word | u64::from(half) << shift);
    }

    /// Has the next fence wait for bytes.
    #[inline]
    pub(super) fn note(&mut self, place: u64, len: u64) {
        if len > 0 {
            self.dirty.push((place, place + len));
        }
    }

    /// Whether a fence would have nothing to wait for.
    pub(super) fn is_clean(&self) -> bool {
        self.dirty.is_empty()
    }

    /// Writes back each line that was stored to, once. The noted ranges are forgotten.
    #[track_caller]
    fn flush(&mut self) -> Vec<Flushed> {
        self.dirty.sort_unstable();
        let mut flushed = Vec::with_capacity(self.dirty.len());
        let mut dirty = std::mem::take(&mut self.dirty);
        let mut ranges =
            dirty.drain(..).map(|(start, end)| (start / LINE * LINE, end.next_multiple_of(LINE)));
        let mut next = ranges.next();
        while let Some((start, mut end)) = next {
            next = ranges.next();
            while let Some((more, more_end)) = next
                && more <= end
                && more / SEGMENT == start / SEGMENT
            {
                end = end.max(more_end);
                next = ranges.next();
            }
            let part = &mut self.parts[(start / SEGMENT) as usize];
            part.lines += (end - start) / LINE;
            let at = start % SEGMENT;
            flushed.push(part.fresh.flush(at..at + (end - start)));
        }
        drop(ranges);
        self.dirty = dirty;
        flushed
    }

    /// Makes all noted bytes durable. One fence, if there are any.
    #[track_caller]
    pub(super) fn fence(&mut self) -> Result<()> {
        if !self.is_clean() {
            let flushed = self.flush();
            self.pool().fence_all(&flushed)?;
        }
        Ok(())
    }

    /// Does as [`Ground::fence`], also for bytes that the caller wrote back.
    #[track_caller]
    pub(super) fn fence_with(&mut self, written: Flushed) -> Result<()> {
        let mut flushed = self.flush();
        flushed.push(written);
        self.pool().fence_all(&flushed)?;
        Ok(())
    }

    /// Does as [`Ground::fence`] for bytes that were found: their process may have died before its fence.
    #[track_caller]
    pub(super) fn fence_found(&mut self) -> Result<()> {
        if !self.is_clean() {
            let flushed = self.flush();
            self.pool().fence_found(&flushed)?;
        }
        Ok(())
    }

    /// The check of a word at a place; its own 16 low bits are zero.
    #[inline]
    pub(super) fn check(&self, place: u64, word: u64) -> u64 {
        check::of(self.salt, u64::from(self.device.id()) << 48 | place, word)
    }

    /// A word with its check for a place: 40 bits that are not the check's.
    pub(super) fn checked(&self, place: u64, payload: u64) -> u64 {
        let word = payload << PAYLOAD_SHIFT | WRITTEN;
        word | self.check(place, word)
    }

    /// The payload of the checked word at a place.
    pub(super) fn read_checked(&self, place: u64, what: &str) -> Result<u64> {
        let word = self.word(place);
        let payload = word >> PAYLOAD_SHIFT;
        if word != self.checked(place, payload) {
            let why = format!("the word {word:#018x} does not have its check");
            return Err(self.damaged(what, why));
        }
        Ok(payload)
    }

    pub(super) fn damaged(&self, what: impl std::fmt::Display, why: impl Into<String>) -> Error {
        Error::Damaged {
            path: self.pool().path().to_owned(),
            what: format!("heap of device {}, {what}", self.device.id()),
            why: why.into(),
        }
    }

    /// The name of a chunk in messages.
    pub(super) fn chunk_name(id: u32) -> String {
        format!("chunk {} of segment {}", id % CHUNKS, id / CHUNKS)
    }
}
