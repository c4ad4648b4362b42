//! The head of a log: its first line.
//!
//! ```text
//! word 0  life            bits 63..18 resets so far, 17 validity bit, 16 wiping, 15..0 check
//! word 1  kind            bits 63..32 zero, 31..24 layout, 23..16 algorithm, 15..0 version
//! word 2  len             of the space, in bytes
//! word 3  salt            random, of the last format
//! word 4  checksum        of words 1 to 3
//! word 5  magic           "halitLOG"
//! ```
//!
//! All numbers are little-endian. The magic is stored last, and persists after the rest ([`Fresh::order`]), so a reader
//! that finds the magic finds the rest. A life begins with one store of word 0, which never tears; its
//! check is seeded with the salt.

use halite_pmem::{Flushed, Fresh, LINE};
use xxhash_rust::xxh3::xxh3_64_with_seed;

use super::{Algorithm, Life, word};
use crate::{Error, Result};

const MAGIC: u64 = u64::from_le_bytes(*b"halitLOG");
const VERSION: u16 = 1;
const MAGIC_AT: u64 = 5 * 8;

/// The number of a life wraps at this.
const LIVES: u64 = 1 << 46;

/// How entries lie.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Layout {
    /// One behind the other, at multiples of 8 bytes: an append rewrites the line in which the last
    /// one ended, which is slow (van Renen Fig. 8, left).
    Packed,
    /// At multiples of a line: no line is written twice (Fig. 8, right).
    Lines,
}

impl Layout {
    /// `len` bytes and their padding.
    #[inline]
    #[must_use]
    pub fn pad(self, len: u64) -> u64 {
        len.next_multiple_of(match self {
            Self::Packed => 8,
            Self::Lines => LINE,
        })
    }
}

/// The contents of the head.
pub(super) struct Head {
    pub(super) layout: Layout,
    pub(super) algorithm: u8,
    pub(super) life: Life,
    /// A reset overwrites the entries.
    pub(super) is_wiping: bool,
}

impl Head {
    /// Marks the space as one without a log, until [`Head::write`].
    pub(super) fn kill(space: &mut Fresh) -> Flushed {
        space.write_words(MAGIC_AT, &[0]);
        space.flush(0..LINE)
    }

    pub(super) fn write(&self, space: &mut Fresh) -> Result<Flushed> {
        let layout = match self.layout {
            Layout::Packed => 0,
            Layout::Lines => 1,
        };
        let kind = layout << 24 | u64::from(self.algorithm) << 16 | u64::from(VERSION);
        let fixed = [kind, space.len(), self.life.salt];
        let [kind, len, salt] = fixed;
        space.write_words(0, &[self.life_word(), kind, len, salt, checksum(fixed)]);
        space.order(0..MAGIC_AT)?;
        space.write_words(MAGIC_AT, &[MAGIC]);
        Ok(space.flush(0..LINE))
    }

    /// Reads the head of a log of the algorithm `A`.
    pub(super) fn read<A: Algorithm>(space: &Fresh) -> Result<Self> {
        let offset = space.offset();
        let words = space.read(0, LINE);
        let words: [u64; 6] =
            std::array::from_fn(|at| word(words, at as u64 * 8).expect("the line has 8 words"));
        let [life, kind, len, salt, sum, magic] = words;
        if magic != MAGIC {
            return Err(Error::NotALog { offset });
        }
        let version = kind as u16;
        if version != VERSION {
            return Err(Error::LogVersion { offset, found: version, known: VERSION });
        }
        let damaged = |what| Err(Error::LogDamaged { offset, what });
        if sum != checksum([kind, len, salt]) {
            return damaged("its head does not have its checksum");
        }
        let algorithm = (kind >> 16) as u8;
        if algorithm != A::ID {
            return Err(Error::LogAlgorithm { offset, found: algorithm, asked: A::NAME });
        }
        if len != space.len() {
            return damaged("its head says another length");
        }
        if life as u16 != check(salt, life) {
            return damaged("the number of its life does not have its check");
        }
        let layout = if kind >> 24 == 0 { Layout::Packed } else { Layout::Lines };
        let is_wiping = life >> 16 & 1 != 0;
        let life = Life { salt, number: life >> 18, validity: life >> 17 & 1 != 0 };
        Ok(Self { layout, algorithm, life, is_wiping })
    }

    pub(super) fn begin_life(&mut self, validity: bool) {
        self.life = Life { number: (self.life.number + 1) % LIVES, validity, ..self.life };
        self.is_wiping = false;
    }

    pub(super) fn write_life(&self, space: &mut Fresh) -> Flushed {
        space.write_words(0, &[self.life_word()]);
        space.flush(0..LINE)
    }

    fn life_word(&self) -> u64 {
        let Life { salt, number, validity } = self.life;
        let bits = number << 18 | u64::from(validity) << 17 | u64::from(self.is_wiping) << 16;
        bits | u64::from(check(salt, bits))
    }
}

fn checksum(fixed: [u64; 3]) -> u64 {
    xxh3_64_with_seed(fixed.map(u64::to_le_bytes).as_flattened(), MAGIC)
}

/// The check of a life's word, whose lowest bits do not matter.
fn check(salt: u64, word: u64) -> u16 {
    xxh3_64_with_seed(&(word >> 16).to_le_bytes(), salt) as u16
}
