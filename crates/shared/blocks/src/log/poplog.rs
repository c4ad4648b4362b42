//! PopLog: one barrier an entry; the number of set bits tells whether it is whole (van Renen §3.3.1).
//!
//! ```text
//! word: len + 1 in bits 63..32, set bits of the payload in 31..0    payload
//!  8                                                                len bytes
//! ```
//!
//! Space is zero before an entry is written to it. A word that did not arrive is then zero, and the payload
//! has fewer set bits than the count says, unless the missing words are zeros themselves. The first word
//! does not tear; without it there is no entry.
//!
//! An append is 1 fence, ⌈(8 + n) / 64⌉ lines. The paper: one barrier, and up to one line wasted by
//! padding. The paper does not count the zeroing: every line is written once more, before its first use and
//! before each reuse, and the whole space behind the end of a log that is opened has to be zero.

use std::borrow::Cow;
use std::ops::Range;

use halite_pmem::Fresh;

use super::staging::{self, Staging};
use super::{Algorithm, Layout, Life, Wipe, payload, word};
use crate::Result;

const HEADER: u64 = 8;

/// See the module.
pub struct PopLog {
    layout: Layout,
}

impl Algorithm for PopLog {
    const NAME: &'static str = "poplog";
    const ID: u8 = 5;
    const NEEDS_BLANK: bool = true;
    /// The count of its bits has room in 32.
    const ENTRY_LEN_MAX: u64 = (1 << 29) - 1;

    fn begin(_: &Life, layout: Layout) -> Self {
        Self { layout }
    }

    #[inline]
    fn footprint(&self, len: u64) -> u64 {
        self.layout.pad(HEADER + len)
    }

    #[inline]
    fn persist(
        &mut self,
        space: &mut Fresh,
        staging: &mut Staging,
        (at, footprint): (u64, u64),
        entry: &[u8],
    ) -> Result<()> {
        staging.persist(space, (at, footprint), entry, || {
            ((entry.len() as u64 + 1) << 32 | population::count(entry)).to_le_bytes()
        })
    }

    fn read<'a>(&self, space: &'a [u8], at: u64) -> Option<Cow<'a, [u8]>> {
        let header = word(space, at)?;
        let entry = payload(self, space, at, HEADER, (header >> 32).checked_sub(1)?)?;
        let is_whole = population::count(entry) == header & u64::from(u32::MAX);
        is_whole.then_some(Cow::Borrowed(entry))
    }

    fn resume(&mut self, space: &mut Fresh, end: u64, _: u64) -> Result<()> {
        let behind = space.bytes()[end as usize..].as_chunks::<8>().0;
        match behind.iter().rposition(|word| *word != [0; 8]) {
            Some(last) => staging::fill(space, end..end + (last as u64 + 1) * 8, 0),
            None => Ok(()),
        }
    }

    fn wipe(&self, written: Range<u64>, _: u64) -> Wipe {
        Wipe { range: written, word: 0, validity: true }
    }
}

/// Counting set bits.
mod population {
    /// The set bits of `bytes`.
    #[inline]
    pub(super) fn count(bytes: &[u8]) -> u64 {
        #[cfg(target_arch = "x86_64")]
        if is_x86_feature_detected!("avx512vpopcntdq") {
            // SAFETY: the processor has the instructions.
            return unsafe { by_vectors(bytes) };
        } else if is_x86_feature_detected!("popcnt") {
            // SAFETY: as above.
            return unsafe { by_instruction(bytes) };
        }
        by_words(bytes)
    }

    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "avx512vpopcntdq")]
    fn by_vectors(bytes: &[u8]) -> u64 {
        by_words(bytes)
    }

    /// The baseline of x86-64 lacks the instruction, and its substitute takes 12 instructions.
    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "popcnt")]
    fn by_instruction(bytes: &[u8]) -> u64 {
        by_words(bytes)
    }

    #[inline(always)]
    fn by_words(bytes: &[u8]) -> u64 {
        let (words, rest) = bytes.as_chunks::<8>();
        let mut last = [0; 8];
        last[..rest.len()].copy_from_slice(rest);
        let ones = |word: &[u8; 8]| u64::from(u64::from_ne_bytes(*word).count_ones());
        words.iter().map(ones).sum::<u64>() + ones(&last)
    }
}
