//! The allocation table: the owner of each physical segment.
//!
//! One 8-byte word a segment, so that a change is failure-atomic:
//!
//! ```text
//! bits 63..32    31..24         23..17          16    15..0
//!      logical   device's low   device's high   1     check
//! ```
//!
//! A free segment's word is zero. The check is over the other bits, the segment's number and the
//! pool's salt, so a word that was damaged, or that landed at a wrong place, is found.

use halite_pmem::{Flushed, Pool, Words};
use halite_sim::planted;

use crate::{Error, Result, SEGMENT, check};

/// Bytes of a table segment before the words; in segment 0 the superblock's copies.
const WORDS_AT: u64 = 64 << 10;

/// Segments that one table segment describes, itself included: 496 GiB.
pub const GROUP: u64 = (SEGMENT - WORDS_AT) / 8;

/// Numbers of devices are below this.
pub const DEVICES_MAX: u16 = 1 << 15;

/// The owner of a segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Owner {
    pub(crate) device: u16,
    pub(crate) logical: u32,
}

/// The words of all table segments.
pub(crate) struct Table {
    salt: u64,
    groups: Vec<Words>,
}

impl Table {
    pub(crate) fn new(salt: u64) -> Self {
        Self { salt, groups: Vec::new() }
    }

    /// Takes the table segments of a pool of `segments` that it does not have yet.
    pub(crate) fn extend(&mut self, pool: &Pool, segments: u64) -> Result<()> {
        while (self.groups.len() as u64) * GROUP < segments {
            let start = self.groups.len() as u64 * GROUP * SEGMENT + WORDS_AT;
            self.groups.push(pool.claim(start, GROUP * 8)?.into_words());
        }
        self.check_unused(segments)
    }

    /// Unused words must be zero: those of the table's own segments, and, in the last line, of segments
    /// that the pool does not have yet. So another line's bytes in their place are detected.
    fn check_unused(&self, segments: u64) -> Result<()> {
        let own = (0..self.groups.len() as u64).map(|group| group * GROUP);
        let line_end = segments.next_multiple_of(halite_pmem::LINE / 8);
        for segment in own.chain(segments..line_end) {
            let (words, at) = self.word(segment);
            let word = words.load(at);
            if word != 0 {
                return Err(Error::Damaged {
                    path: words.pool().path().to_owned(),
                    what: format!("allocation table, segment {segment}"),
                    why: format!("the word {word:#018x} is where none was written"),
                });
            }
        }
        Ok(())
    }

    /// Makes the words read of a pool of `segments` durable: the process that stored them may have died
    /// before its fence.
    pub(crate) fn make_durable(&self, segments: u64) -> Result<()> {
        for (words, first) in self.groups.iter().zip((0..).step_by(GROUP as usize)) {
            let end = ((segments - first) * 8).next_multiple_of(halite_pmem::LINE);
            words.pool().fence_found(&[words.flush(0..end.min(words.len()))])?;
        }
        Ok(())
    }

    /// Whether a segment holds a part of the table itself.
    pub(crate) fn is_table(segment: u64) -> bool {
        segment.is_multiple_of(GROUP)
    }

    /// The owner of a segment.
    pub(crate) fn read(&self, segment: u64) -> Result<Option<Owner>> {
        let (words, at) = self.word(segment);
        let word = words.load(at);
        if word == 0 {
            return Ok(None);
        }
        let device = (word >> 24) as u16 & 0xff | ((word >> 17) as u16 & 0x7f) << 8;
        let owner = Owner { device, logical: (word >> 32) as u32 };
        if word != self.encode(segment, owner) {
            return Err(Error::Damaged {
                path: words.pool().path().to_owned(),
                what: format!("allocation table, segment {segment}"),
                why: format!("the word {word:#018x} does not have its check"),
            });
        }
        Ok(Some(owner))
    }

    /// Sets the owner of a segment, durably. One flush, one fence.
    #[track_caller]
    pub(crate) fn write(&self, segment: u64, owner: Option<Owner>) -> Result<()> {
        let flushed = self.store(segment, owner);
        let (words, _) = self.word(segment);
        words.pool().fence([flushed])?;
        Ok(())
    }

    /// Sets the owner of a segment, and starts the write-back.
    #[track_caller]
    pub(crate) fn store(&self, segment: u64, owner: Option<Owner>) -> Flushed {
        let (words, at) = self.word(segment);
        let word = owner.map_or(0, |owner| self.encode(segment, owner));
        planted!(
            "alloc.flush-before-store",
            (words.flush(at..at + 8), words.store(at, word)).0,
            (words.store(at, word), words.flush(at..at + 8)).1
        )
    }

    fn word(&self, segment: u64) -> (&Words, u64) {
        (&self.groups[(segment / GROUP) as usize], segment % GROUP * 8)
    }

    fn encode(&self, segment: u64, owner: Owner) -> u64 {
        let device = u64::from(owner.device);
        let device = (device & 0xff) << 24 | (device >> 8) << 17;
        let word = u64::from(owner.logical) << 32 | device | 1 << 16;
        word | check::of(self.salt, segment, word)
    }
}
