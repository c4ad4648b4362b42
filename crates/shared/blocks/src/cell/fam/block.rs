//! A block of failure-atomic memory: one word that holds 31 bits of a value, in two versions.
//!
//! ```text
//!   63..62 version    61..31 old    30..0 new
//! ```

/// Bits of a value in a block.
pub(super) const BITS: u32 = 31;

/// The new bits, and the width of the old ones.
pub(super) const NEW: u64 = (1 << BITS) - 1;

/// The old bits.
pub(super) const OLD: u64 = NEW << BITS;

/// The version bits.
pub(super) const VERSION: u64 = !(NEW | OLD);

/// One more version, modulo 4, in a word.
pub(super) const VERSION_STEP: u64 = 1 << (2 * BITS);

/// The version of a block, 0 to 3.
pub(super) fn version(block: u64) -> u64 {
    block / VERSION_STEP
}

/// The block after an update to `bits`, of which there are 31.
#[inline(always)]
pub(super) fn updated(block: u64, bits: u64) -> u64 {
    (block.wrapping_add(VERSION_STEP) & VERSION) | ((block << BITS) & OLD) | bits
}

/// The block before its last update. Its old bits then equal the new ones, as earlier ones are lost.
pub(super) fn rolled_back(block: u64) -> u64 {
    let old = (block & OLD) >> BITS;
    (block.wrapping_sub(VERSION_STEP) & VERSION) | old << BITS | old
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rollback_takes_an_update_back_at_every_version() {
        let mut block = 0;
        for bits in (0..10).map(|number: u64| (number * 0x5bd1_e995) & NEW) {
            let next = updated(block, bits);
            assert_eq!((next & NEW, (next & OLD) >> BITS), (bits, block & NEW));
            assert_eq!(version(next), (version(block) + 1) % 4);
            let back = rolled_back(next);
            assert_eq!((back & NEW, version(back)), (block & NEW, version(block)));
            block = next;
        }
    }
}
