//! The entry of an index: the place of a record.

use crate::{ALIGN, BLOCK};

/// Where a record lies and how many older versions of its key are still on the medium.
///
/// ```text
/// bits 63..53   52        51..26   25..13         12..0
///      stale    overflow  block    offset / 16    footprint / 16
/// ```
///
/// The footprint is the record with the padding behind it: the bytes that its death frees. The stale count
/// saturates; see [`Entry::STALE_MAX`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Entry(u64);

const FIELD: u64 = (1 << 13) - 1;

impl Entry {
    /// A count that is not exact any more: this or higher. It is never lowered, just as a count that a snapshot of
    /// the index has made too high is never corrected; a tombstone with either is kept until an opening reads all
    /// records and counts afresh.
    pub(crate) const STALE_MAX: u32 = (1 << 11) - 1;

    /// The highest number of blocks, given the width of their numbers.
    pub(crate) const BLOCKS_MAX: u64 = 1 << 26;

    pub(crate) fn new(block: u32, offset: u64, footprint: u64, overflow: bool) -> Self {
        debug_assert!(u64::from(block) < Self::BLOCKS_MAX);
        debug_assert!(offset + footprint <= BLOCK && footprint / ALIGN <= FIELD);
        debug_assert!((offset | footprint).is_multiple_of(ALIGN));
        Self(
            (u64::from(overflow) << 52)
                | (u64::from(block) << 26)
                | ((offset / ALIGN) << 13)
                | (footprint / ALIGN),
        )
    }

    pub(crate) fn from_bits(bits: u64) -> Self {
        Self(bits)
    }

    pub(crate) fn bits(self) -> u64 {
        self.0
    }

    pub(crate) fn block(self) -> u32 {
        (self.0 >> 26) as u32 & (Self::BLOCKS_MAX - 1) as u32
    }

    /// Returns the record's offset, in bytes from the block's start.
    pub(crate) fn offset(self) -> u64 {
        (self.0 >> 13 & FIELD) * ALIGN
    }

    /// Block and offset: which record it is, while nothing is reused.
    pub(crate) fn place(self) -> (u32, u64) {
        (self.block(), self.offset())
    }

    /// Returns the footprint in bytes.
    pub(crate) fn footprint(self) -> u64 {
        (self.0 & FIELD) * ALIGN
    }

    /// Whether the value lies in blocks of its own.
    pub(crate) fn has_overflow(self) -> bool {
        self.0 >> 52 & 1 != 0
    }

    /// Older versions on the medium.
    pub(crate) fn stale(self) -> u32 {
        (self.0 >> 53) as u32
    }

    pub(crate) fn with_stale(self, stale: u32) -> Self {
        Self(self.0 & ((1 << 53) - 1) | u64::from(stale.min(Self::STALE_MAX)) << 53)
    }

    /// Returns the entry with one stale version less, if the count is exact.
    pub(crate) fn with_one_stale_less(self) -> Self {
        match self.stale() {
            Self::STALE_MAX => self,
            stale => {
                debug_assert!(stale > 0, "every dead record is counted once");
                self.with_stale(stale.saturating_sub(1))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_field_keeps_to_its_bits() {
        let block = (Entry::BLOCKS_MAX - 1) as u32;
        let entry = Entry::new(block, 16, BLOCK - 16, true).with_stale(5);
        assert_eq!(
            (entry.block(), entry.offset(), entry.footprint(), entry.has_overflow(), entry.stale()),
            (block, 16, BLOCK - 16, true, 5)
        );
        let entry = Entry::new(0, BLOCK - 16, 16, false);
        assert_eq!((entry.block(), entry.offset(), entry.footprint()), (0, BLOCK - 16, 16));
        assert!(!entry.has_overflow() && entry.stale() == 0);
        let many = entry.with_stale(Entry::STALE_MAX + 7);
        assert_eq!(many.with_one_stale_less().stale(), Entry::STALE_MAX);
        assert!(Entry::from_bits(entry.bits()) == entry);
    }
}
