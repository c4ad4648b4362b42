//! The head of a row: its two newest versions, each with the timestamp of the transaction that made it.
//!
//! ```text
//!  tuple u64 | timestamp u48, check u16 | tuple u64 | timestamp u48, check u16
//! ```
//!
//! Indexes lead to heads, which stay while their rows change. A version without a tuple says that the row was removed; one
//! with the timestamp zero, that there was none. A new version takes the place of the one that is not the newest covered
//! version, so that this stays until a record covers the new one: a crash leaves it to be read.

use halite_alloc::heap::{Heap, NvPtr, Publication, Tag, Tagged};

use super::record::{Sight, opened, sealed};
use crate::tuple::Tuple;
use crate::{Error, Result};

/// Bytes of a head.
pub(super) const LEN: u64 = 32;

/// The slot of a head.
#[derive(Debug)]
pub(super) enum Head {}

impl Tagged for Head {
    const TAG: Tag = Tag::new(31);
}

/// A version of a row.
#[derive(Debug, Clone, Copy)]
pub(super) struct Version {
    /// Its tuple; null if there is no row.
    pub(super) tuple: NvPtr<Tuple>,
    pub(super) timestamp: u64,
}

impl Version {
    /// The version before a row's first one.
    pub(super) const NONE: Self = Self { tuple: NvPtr::NULL, timestamp: 0 };

    fn words(self, head: NvPtr<Head>, place: usize, salt: u64) -> [u64; 2] {
        let tuple = self.tuple.word();
        [tuple, sealed(self.timestamp, &[tuple, place as u64], salt ^ head.word())]
    }

    /// Has a publication store it in a place of a head.
    pub(super) fn store(
        self,
        head: NvPtr<Head>,
        place: usize,
        salt: u64,
        publication: &mut Publication,
    ) {
        for (at, word) in (16 * place as u64..).step_by(8).zip(self.words(head, place, salt)) {
            publication.store(head, at, word);
        }
    }
}

/// The versions that a head has.
#[derive(Debug, Clone, Copy)]
pub(super) struct Versions(pub(super) [Version; 2]);

impl Versions {
    /// Writes the head of a new row, which is reserved.
    pub(super) fn write(self, heap: &mut Heap, head: NvPtr<Head>) -> Result<()> {
        let salt = heap.salt();
        let words = [0, 1].map(|place| self.0[place].words(head, place, salt));
        let bytes: Vec<u8> = words.iter().flatten().flat_map(|word| word.to_le_bytes()).collect();
        Ok(heap.write(head, 0, &bytes)?)
    }

    /// Reads a head.
    pub(super) fn read(heap: &Heap, head: NvPtr<Head>) -> Result<Self> {
        let bytes = heap.read_at(head, 0, LEN)?;
        let (words, _) = bytes.as_chunks::<8>();
        let seed = heap.salt() ^ head.word();
        let version = |place: usize| {
            let [tuple, stamp] = [0, 1].map(|word| u64::from_le_bytes(words[2 * place + word]));
            let timestamp = opened(stamp, &[tuple, place as u64], seed)?;
            Some(Version { tuple: NvPtr::from_word(tuple), timestamp })
        };
        let versions = version(0).zip(version(1)).map(|(one, other)| Self([one, other]));
        versions.ok_or_else(|| damaged(head, "a version does not have its check"))
    }

    /// The place of the newest version that a reader sees.
    pub(super) fn seen(self, sight: &Sight) -> Option<usize> {
        let seen = [0, 1].into_iter().filter(|&place| sight.sees(self.0[place].timestamp));
        seen.max_by_key(|&place| self.0[place].timestamp)
    }

    /// The place of the newest covered version.
    pub(super) fn covered(self, head: NvPtr<Head>, sight: &Sight) -> Result<usize> {
        self.seen(sight).ok_or_else(|| damaged(head, "it has no version that is covered"))
    }
}

fn damaged(head: NvPtr<Head>, why: &str) -> Error {
    Error::damaged(format!("the head {:#x} of a row", head.word()), why)
}
