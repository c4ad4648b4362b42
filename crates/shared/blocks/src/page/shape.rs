//! How large pages are, and how many a store has.

use halite_pmem::LINE;

use crate::{Error, Result};

/// The size of a page: a power of two from 4 to 64 KiB.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PageSize(u32);

impl PageSize {
    /// The smallest, in bytes.
    pub const MIN_BYTES: u64 = 4 << 10;
    /// The largest, in bytes.
    pub const MAX_BYTES: u64 = 64 << 10;

    /// A size in bytes.
    ///
    /// # Errors
    /// [`Error::PageSize`].
    pub fn new(bytes: u64) -> Result<Self> {
        if !bytes.is_power_of_two() || !(Self::MIN_BYTES..=Self::MAX_BYTES).contains(&bytes) {
            return Err(Error::PageSize { bytes });
        }
        Ok(Self(bytes as u32))
    }

    /// Returns the size in bytes.
    #[must_use]
    pub fn bytes(self) -> u64 {
        self.0.into()
    }

    /// Returns the size in lines of 64 bytes.
    #[must_use]
    pub fn lines(self) -> u32 {
        self.0 / LINE as u32
    }
}

/// The pages of a store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shape {
    /// How large each is.
    pub page_size: PageSize,
    /// How many there are, numbered from 0.
    pub pages: u32,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_powers_of_two_in_range_are_page_sizes() {
        for bytes in [0, 64, 2048, 4095, 4097, 12_288, 131_072, 1 << 32, u64::MAX] {
            assert!(matches!(PageSize::new(bytes), Err(Error::PageSize { .. })), "{bytes}");
        }
        for bytes in [4096, 8192, 16_384, 32_768, 65_536] {
            let size = PageSize::new(bytes).unwrap();
            assert_eq!((size.bytes(), u64::from(size.lines())), (bytes, bytes / 64));
        }
    }
}
