//! A micro log whose entries prove themselves whole.
//!
//! It has room for two entries, and the entries are numbered: odd ones go to one place, even ones to the
//! other. An entry has a checksum over its number and its lines, seeded with the store's salt. So it need
//! not be invalidated before it is overwritten, and not be set valid afterwards.
//!
//! When an entry is durable, so is the flush; its lines go to their page with the next entry's fence:
//!
//! ```text
//! flush n      stream entry n, stream the lines of entry n-1 to their page; one fence
//! flush n+1    stream entry n+1, stream the lines of entry n to their page; one fence
//! ```
//!
//! Entry n+1 overwrites entry n-1, whose lines were fenced with entry n. So at any time each line that may
//! not have reached its page is in one of the two entries, and recovery applies both, in order. Recovery
//! clears an entry that is not whole.
//!
//! ```text
//! 0    8        16    20    24   32
//! sum  number   page  slot  pvn  which lines: a bit each; the header is filled up to whole lines
//! then the lines, upwards
//! ```

use halite_pmem::{LINE, Streaming};
use xxhash_rust::xxh3::xxh3_64_with_seed;

use super::buffer::{AlignedBytes, bytes_of};
use super::copy::{Overlay, put};
use super::ground::Ground;
use super::slots::Version;
use super::{DirtyLines, PageBuffer, PageSize};
use crate::{Error, Result};

const BITS_AT: usize = 32;

fn header_len(page_size: PageSize) -> usize {
    (BITS_AT + page_size.lines() as usize / 8).next_multiple_of(LINE as usize)
}

fn entry_max(page_size: PageSize) -> u64 {
    header_len(page_size) as u64 + page_size.bytes()
}

/// The bytes that a log needs.
pub(super) fn log_len(page_size: PageSize) -> u64 {
    2 * entry_max(page_size)
}

/// The lines of one flush.
pub(super) struct Entry {
    number: u64,
    /// The page, and the version that it changes.
    page: u32,
    version: Version,
    lines: DirtyLines,
    /// The entry's bytes as they are on the medium.
    bytes: AlignedBytes,
    len: usize,
    header_len: usize,
}

impl Entry {
    fn empty(page_size: PageSize) -> Self {
        Self {
            number: 0,
            page: 0,
            version: Version { slot: 0, pvn: 0 },
            lines: DirtyLines::default(),
            bytes: AlignedBytes::zeros(entry_max(page_size)),
            len: 0,
            header_len: header_len(page_size),
        }
    }

    /// Becomes the entry of a page's dirty lines.
    fn fill(&mut self, number: u64, page: u32, version: Version, buffer: &PageBuffer, salt: u64) {
        (self.number, self.page, self.version) = (number, page, version);
        self.lines = *buffer.dirty();
        let bytes = self.bytes.get_mut();
        bytes[8..16].copy_from_slice(&number.to_le_bytes());
        bytes[16..20].copy_from_slice(&page.to_le_bytes());
        bytes[20..24].copy_from_slice(&version.slot.to_le_bytes());
        bytes[24..32].copy_from_slice(&version.pvn.to_le_bytes());
        let words = self.lines.words(buffer.page_size());
        for (bytes, word) in bytes[BITS_AT..].chunks_exact_mut(8).zip(words) {
            bytes.copy_from_slice(&word.to_le_bytes());
        }
        let mut end = self.header_len;
        for run in self.lines.runs().map(bytes_of) {
            bytes[end..end + run.len()].copy_from_slice(&buffer.bytes()[run.clone()]);
            end += run.len();
        }
        self.len = end;
        let sum = xxh3_64_with_seed(&bytes[8..end], salt);
        bytes[..8].copy_from_slice(&sum.to_le_bytes());
    }

    /// The entry that `bytes` begin with, if there is a whole one.
    fn parse(bytes: &[u8], page_size: PageSize, salt: u64) -> Option<Self> {
        let word = |at: usize| {
            u64::from_le_bytes(bytes[at..at + 8].try_into().expect("8 bytes are 8 bytes"))
        };
        let (page, slot) = (word(16) as u32, (word(16) >> 32) as u32);
        let bits = BITS_AT..BITS_AT + page_size.lines() as usize / 8;
        let lines = DirtyLines::of_words(bits.step_by(8).map(word))?;
        let header_len = header_len(page_size);
        let len = header_len + lines.count() as usize * LINE as usize;
        if word(8) == 0 || xxh3_64_with_seed(bytes.get(8..len)?, salt) != word(0) {
            return None;
        }
        let mut whole = AlignedBytes::zeros(entry_max(page_size));
        whole.get_mut()[..len].copy_from_slice(&bytes[..len]);
        let version = Version { slot, pvn: word(24) };
        Some(Self { number: word(8), page, version, lines, bytes: whole, len, header_len })
    }

    /// The runs of lines, as bytes of the page, with their bytes.
    fn runs(&self) -> impl Iterator<Item = (std::ops::Range<usize>, &[u8])> {
        let mut at = self.header_len;
        self.lines.runs().map(bytes_of).map(move |run| {
            at += run.len();
            (run.clone(), &self.bytes.get()[at - run.len()..at])
        })
    }

    /// Streams the lines to the slot at `to`.
    fn apply(&self, stream: &mut Streaming<'_>, to: u64) {
        for (run, bytes) in self.runs() {
            stream.write(to + run.start as u64, bytes);
        }
    }
}

impl Overlay for Entry {
    fn put_over(&self, at: usize, bytes: &mut [u8]) {
        self.runs().for_each(|(run, lines)| put(bytes, at, &run, lines));
    }
}

/// The log, and its entry that is not in its page yet.
pub(super) struct SealedLog {
    at: u64,
    /// Odd entries and even ones.
    entries: [Entry; 2],
    number: u64,
    is_pending: bool,
}

impl SealedLog {
    /// A log without an entry.
    pub(super) fn new(ground: &Ground) -> Self {
        let entries = [(); 2].map(|()| Entry::empty(ground.shape.page_size));
        Self { at: ground.log_at(), entries, number: 0, is_pending: false }
    }

    /// Reads the log, and applies its entries to the versions that `is_newest` confirms.
    pub(super) fn recover(
        ground: &mut Ground,
        is_newest: impl Fn(u32, Version) -> bool,
    ) -> Result<Self> {
        let (mut log, page_size, salt) = (Self::new(ground), ground.shape.page_size, ground.salt);
        // A killed process may have stored an entry without waiting; once the page has a part of it, the
        // entry must not be lost.
        let found = ground.space.flush(log.at..log.at + log_len(page_size));
        ground.space.pool().fence_found(&[found])?;
        let mut torn = Vec::new();
        for (place, entry) in (0..).zip(&mut log.entries) {
            let stored =
                ground.space.read(log.at + place * entry_max(page_size), entry_max(page_size));
            if let Some(whole) = Entry::parse(stored, page_size, salt) {
                if whole.number % 2 != place {
                    return Err(ground.damaged(format!("entry {} of the micro log", whole.number)));
                }
                *entry = whole;
            } else {
                torn.push(log.at + place * entry_max(page_size));
            }
        }
        // The next entry goes there. If a crash left only its lines, they could complete the torn entry
        // where both have the same bytes, and so bring back a flush that had not happened.
        ground.space.persist_stream(|stream| {
            torn.iter().for_each(|at| stream.write(*at, &[0; LINE as usize]));
        })?;
        let [even, odd] = &log.entries;
        if even.number > 0 && odd.number > 0 && even.number.abs_diff(odd.number) != 1 {
            let (even, odd) = (even.number, odd.number);
            return Err(ground.damaged(format!("the micro log has the entries {even} and {odd}")));
        }
        log.number = even.number.max(odd.number);
        let mut entries = [even, odd];
        entries.sort_by_key(|entry| entry.number);
        let applied = entries.into_iter().filter(|entry| entry.number > 0);
        for entry in applied.clone() {
            if entry.page >= ground.shape.pages || entry.version.slot >= ground.slots {
                let (page, slot) = (entry.page, entry.version.slot);
                return Err(
                    ground.damaged(format!("the micro log is for page {page} in slot {slot}"))
                );
            }
        }
        let applied = applied
            .filter(|entry| is_newest(entry.page, entry.version))
            .map(|entry| (entry, ground.slot_at(entry.version.slot)))
            .collect::<Vec<_>>();
        for (entry, to) in applied {
            ground.space.persist_stream(|stream| entry.apply(stream, to))?;
        }
        Ok(log)
    }

    /// The entry that is not in its page yet.
    #[inline]
    pub(super) fn pending(&self) -> Option<&Entry> {
        self.is_pending.then(|| &self.entries[(self.number % 2) as usize])
    }

    /// The entry that is not in its page yet, if it is of this page.
    #[inline]
    pub(super) fn pending_of(&self, page: u32) -> Option<&Entry> {
        self.pending().filter(|entry| entry.page == page)
    }

    /// Puts the lines that are not in the page yet over `bytes`, the page's current bytes.
    pub(super) fn put_over(&self, page: u32, bytes: &mut [u8]) {
        if let Some(entry) = self.pending_of(page) {
            entry.put_over(0, bytes);
        }
    }

    /// Drops a pending entry of a page that has a newer version.
    pub(super) fn forget(&mut self, page: u32) {
        self.is_pending = self.pending().is_some_and(|entry| entry.page != page);
    }

    /// Makes the dirty lines of a page durable. One fence.
    pub(super) fn flush(
        &mut self,
        ground: &mut Ground,
        page: u32,
        version: Version,
        buffer: &PageBuffer,
    ) -> Result<()> {
        let exhausted = Error::FlushesExhausted { flushes: u64::MAX };
        let number = self.number.checked_add(1).ok_or(exhausted)?;
        ground.begin_flush()?;
        let Self { at, entries: [even, odd], is_pending, .. } = self;
        let (entry, older) = if number.is_multiple_of(2) { (even, &*odd) } else { (odd, &*even) };
        entry.fill(number, page, version, buffer, ground.salt);
        let to = *at + number % 2 * entry_max(ground.shape.page_size);
        let older = is_pending.then(|| (older, ground.slot_at(older.version.slot)));
        // The lines follow with the next entry.
        ground.expect(version.slot, buffer.dirty());
        ground.space.persist_stream(|stream| {
            stream.write(to, &entry.bytes.get()[..entry.len]);
            if let Some((older, page_at)) = older {
                older.apply(stream, page_at);
            }
        })?;
        ground.end_flush();
        (self.number, self.is_pending) = (number, true);
        Ok(())
    }
}
