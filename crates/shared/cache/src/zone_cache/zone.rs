//! A zone of the cache, and the items in it.
//!
//! ```text
//! item:  hash u64 | len u32 | kind u32 | bytes, up to the end of a line
//! ```

use halite_alloc::ScratchZone;
use halite_pmem::LINE;

use super::table::Word;

/// Bytes before an item's own.
const HEAD: usize = 16;

/// A zone, and its number.
pub(super) struct Numbered {
    pub(super) number: u32,
    pub(super) zone: ScratchZone,
}

/// An item where it lies.
pub(super) struct Item<'a> {
    pub(super) hash: u64,
    pub(super) kind: u32,
    pub(super) bytes: &'a [u8],
}

impl Numbered {
    /// The item at a line.
    #[inline]
    pub(super) fn item(&self, line: u64) -> Option<Item<'_>> {
        let word = |head: &[u8], at: usize| {
            u32::from_le_bytes(head[at..at + 4].try_into().expect("4 bytes"))
        };
        let len = |head: &[u8]| HEAD as u64 + u64::from(word(head, 8));
        let item = self.zone.appender().published().read_sized(line * LINE, HEAD as u64, len)?;
        let (head, bytes) = item.split_at(HEAD);
        let hash = u64::from_le_bytes(head[..8].try_into().expect("8 bytes"));
        Some(Item { hash, kind: word(head, 12), bytes })
    }

    /// Has the processor fetch the item at a line: the lines that short ones take.
    #[inline]
    pub(super) fn prefetch(&self, line: u64) {
        let published = self.zone.appender().published();
        published.prefetch(line * LINE);
        published.prefetch((line + 1) * LINE);
    }

    /// All items, and their lines.
    pub(super) fn items(&self) -> impl Iterator<Item = (u64, Item<'_>)> {
        let mut line = 0;
        std::iter::from_fn(move || {
            let item = self.item(line)?;
            let at = line;
            line += lines(item.bytes.len());
            Some((at, item))
        })
    }

    /// Appends an item, if it fits.
    pub(super) fn append(&self, kind: u32, hash: u64, parts: &[&[u8]]) -> Option<Word> {
        let len = parts.iter().map(|part| part.len()).sum();
        let mut grant = self.zone.appender().grant(lines(len) * LINE)?;
        let line = grant.at() / LINE;
        let mut head = [0; HEAD];
        head[..8].copy_from_slice(&hash.to_le_bytes());
        head[8..12].copy_from_slice(&(len as u32).to_le_bytes());
        head[12..].copy_from_slice(&kind.to_le_bytes());
        let mut at = 0;
        for part in [&head[..]].iter().chain(parts) {
            grant.write(at, part);
            at += part.len() as u64;
        }
        grant.reveal();
        Some(Word::new(hash, self.number, line))
    }
}

/// Lines of an item of so many bytes.
pub(super) fn lines(len: usize) -> u64 {
    ((HEAD + len) as u64).div_ceil(LINE)
}
