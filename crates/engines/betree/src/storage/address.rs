//! The place of an extent: class, vdev and block in one word (Haura's `DiskOffset`).
//!
//! ```text
//! bits 63..62  61..52  51..0
//!      class   vdev    block
//! ```

use std::fmt;

/// Storage classes that a pool has at most.
pub(crate) const CLASSES_MAX: u8 = 4;

/// Vdevs that a class has at most.
pub(crate) const VDEVS_MAX: u16 = 1 << VDEV_BITS;

const BLOCK_BITS: u32 = 52;
const VDEV_BITS: u32 = 10;

/// The place of a block in a storage pool.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Address(u64);

impl Address {
    /// The place of a block.
    ///
    /// # Panics
    /// If one of the numbers is out of range.
    pub(crate) fn new(class: u8, vdev: u16, block: u64) -> Self {
        assert!(class < CLASSES_MAX && vdev < VDEVS_MAX && block < 1 << BLOCK_BITS);
        Self(u64::from(class) << (BLOCK_BITS + VDEV_BITS) | u64::from(vdev) << BLOCK_BITS | block)
    }

    /// The place that is stored in a word. Any word is one: whether there is such a vdev, its reader checks.
    pub(crate) fn from_bits(bits: u64) -> Self {
        Self(bits)
    }

    /// The word that it is stored as.
    pub(crate) fn to_bits(self) -> u64 {
        self.0
    }

    /// The storage class.
    #[must_use]
    pub fn class(self) -> u8 {
        (self.0 >> (BLOCK_BITS + VDEV_BITS)) as u8
    }

    /// The vdev's number in its class.
    #[must_use]
    pub fn vdev(self) -> u16 {
        (self.0 >> BLOCK_BITS) as u16 % VDEVS_MAX
    }

    /// The block's number on the vdev.
    #[must_use]
    pub fn block(self) -> u64 {
        self.0 & ((1 << BLOCK_BITS) - 1)
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "class {}, vdev {}, block {}", self.class(), self.vdev(), self.block())
    }
}

impl fmt::Debug for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}:{}", self.class(), self.vdev(), self.block())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn an_address_has_the_parts_that_it_was_made_of(
            class in 0..CLASSES_MAX,
            vdev in 0..VDEVS_MAX,
            block in 0..1_u64 << BLOCK_BITS,
        ) {
            let address = Address::new(class, vdev, block);
            prop_assert_eq!((address.class(), address.vdev(), address.block()), (class, vdev, block));
            prop_assert_eq!(Address::from_bits(address.to_bits()), address);
        }
    }
}
