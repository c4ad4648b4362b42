//! RAWL: one barrier an entry; a bit in every word tells whether it arrived (Mnemosyne; van Renen
//! §3.3.1).
//!
//! ```text
//! group of up to 64 words
//! highest bits of the others     63 words: the entry's length in bytes, then its payload
//! ```
//!
//! The highest bit of every stored word is its validity bit. The payload's own bits at these places are in
//! the first word of the group: 63 bits of log a word, as in the paper, and words are moved unchanged
//! instead of being shifted.
//!
//! In blank space every validity bit is the opposite of the one that the life writes, so a word that did
//! not arrive is detected. A format makes them 0, and a first life writes 1. When a log is reset, the
//! written words have the life's bit and the rest has the other one; the next life needs them all alike. So
//! the smaller of both parts is overwritten: the written part, for another life with the same bit, or the
//! rest, for a life with the other one. If the log is full, neither is.
//!
//! An append is 1 fence, ⌈8 (w + ⌈w / 63⌉) / 64⌉ lines for w = 1 + ⌈n / 8⌉ words. The paper:
//! one barrier, 1/63 more space, and up to one line wasted by padding.

use std::borrow::Cow;
use std::ops::Range;

use halite_pmem::Fresh;

use super::staging::{self, CHUNK, Staging};
use super::{Algorithm, Layout, Life, Wipe, word};
use crate::Result;

/// The place of validity bits.
const TOP: u64 = 1 << 63;
/// Words of a group, the one with the highest bits among them.
const GROUP: usize = 64;
const GROUP_LEN: usize = GROUP * 8;

/// See the module.
pub struct Rawl {
    /// The validity bit of this life, in its place.
    valid: u64,
    layout: Layout,
}

impl Rawl {
    fn is_valid(&self, word: u64) -> bool {
        word & TOP == self.valid
    }
}

impl Algorithm for Rawl {
    const NAME: &'static str = "rawl";
    const ID: u8 = 4;
    const NEEDS_BLANK: bool = true;

    fn begin(life: &Life, layout: Layout) -> Self {
        let valid = if life.validity { TOP } else { 0 };
        Self { valid, layout }
    }

    #[inline]
    fn footprint(&self, len: u64) -> u64 {
        let words = 1 + len.div_ceil(8);
        self.layout.pad((words + words.div_ceil(GROUP as u64 - 1)) * 8)
    }

    #[inline]
    fn persist(
        &mut self,
        space: &mut Fresh,
        staging: &mut Staging,
        (at, footprint): (u64, u64),
        entry: &[u8],
    ) -> Result<()> {
        let (chunk, valid) = (staging.bytes(), self.valid);
        space.persist_stream(|streaming| {
            let (mut to, mut filled, mut rest) = (at, 0, entry);
            let mut before = 16;
            chunk[8..16].copy_from_slice(&(entry.len() as u64).to_le_bytes());
            loop {
                let group = &mut chunk[filled..filled + GROUP_LEN];
                let (now, behind) = rest.split_at(rest.len().min(GROUP_LEN - before));
                let (end, words_end) =
                    (before + now.len(), (before + now.len()).next_multiple_of(8));
                group[before..end].copy_from_slice(now);
                group[end..words_end].fill(0);
                seal(&mut group[..words_end], valid);
                (filled, rest, before) = (filled + words_end, behind, 8);
                if rest.is_empty() {
                    break;
                }
                if filled == CHUNK {
                    streaming.write(to, chunk);
                    (to, filled) = (to + CHUNK as u64, 0);
                }
            }
            let end = (footprint - (to - at)) as usize;
            for padding in chunk[filled..end].as_chunks_mut::<8>().0 {
                *padding = valid.to_le_bytes();
            }
            streaming.write(to, &chunk[..end]);
        })?;
        Ok(())
    }

    fn read<'a>(&self, space: &'a [u8], at: u64) -> Option<Cow<'a, [u8]>> {
        let (tops, len) = (word(space, at)?, word(space, at + 8)?);
        if !self.is_valid(tops) || !self.is_valid(len) {
            return None;
        }
        let len = len & !TOP | tops << 63;
        let room = space.len() as u64 - at;
        let footprint = Some(len).filter(|len| *len <= room).map(|len| self.footprint(len))?;
        let words = space[at as usize..].get(..footprint as usize)?.as_chunks::<8>().0;
        // The padding, too: a reset relies on the validity bits of all words in front of the log's end.
        if !words.iter().all(|word| self.is_valid(u64::from_le_bytes(*word))) {
            return None;
        }
        let mut entry = Vec::with_capacity(words.len() * 8);
        for group in words.chunks(GROUP) {
            let tops = u64::from_le_bytes(group[0]);
            for (number, word) in group[1..].iter().enumerate() {
                let word = u64::from_le_bytes(*word) & !TOP | (tops >> number) << 63;
                entry.extend_from_slice(&word.to_le_bytes());
            }
        }
        entry.drain(..8);
        entry.truncate(len as usize);
        Some(Cow::Owned(entry))
    }

    fn resume(&mut self, space: &mut Fresh, end: u64, _: u64) -> Result<()> {
        let behind = space.bytes()[end as usize..].as_chunks::<8>().0;
        let is_written = |word: &[u8; 8]| self.is_valid(u64::from_le_bytes(*word));
        match behind.iter().rposition(is_written) {
            Some(last) => staging::fill(space, end..end + (last as u64 + 1) * 8, self.valid ^ TOP),
            None => Ok(()),
        }
    }

    fn wipe(&self, written: Range<u64>, end: u64) -> Wipe {
        let validity = self.valid == TOP;
        if written.end - written.start <= end - written.end {
            Wipe { range: written, word: self.valid ^ TOP, validity }
        } else {
            Wipe { range: written.end..end, word: self.valid, validity: !validity }
        }
    }
}

/// Makes a group of the words behind the first.
#[inline]
fn seal(group: &mut [u8], valid: u64) {
    #[cfg(target_arch = "x86_64")]
    if is_x86_feature_detected!("avx512f") {
        // SAFETY: the processor has the instructions.
        return unsafe { seal_by_avx512(group, valid) };
    }
    seal_words(group, valid);
}

/// The baseline of x86-64 has no shifts by as many places as the lane's number.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f")]
fn seal_by_avx512(group: &mut [u8], valid: u64) {
    seal_words(group, valid);
}

#[inline(always)]
fn seal_words(group: &mut [u8], valid: u64) {
    let (tops, words) = group.split_first_chunk_mut::<8>().expect("a group has a first word");
    let mut bits = valid;
    for (number, bytes) in (0_u64..).zip(words.as_chunks_mut::<8>().0) {
        let word = u64::from_le_bytes(*bytes);
        bits |= word >> 63 << number;
        *bytes = (word & !TOP | valid).to_le_bytes();
    }
    *tops = bits.to_le_bytes();
}
