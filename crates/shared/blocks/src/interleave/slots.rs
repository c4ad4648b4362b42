//! The first line of a leaf: which slots are used, and the fingerprints of their keys.

use xxhash_rust::xxh3::xxh3_64;

/// Pairs that a leaf has room for (van Renen §3.5.1).
pub const SLOTS: u32 = 32;

/// Words of a leaf's fingerprints.
pub(super) const FINGERPRINT_WORDS: usize = 4;

/// The fingerprints of a leaf, one byte a slot; slot 0 is the lowest byte of the first word.
pub(super) type Fingerprints = [u64; FINGERPRINT_WORDS];

const ODD: u64 = 0x9e37_79b9_7f4a_7c15;

/// A hash of a key, in a byte.
#[inline]
pub(super) fn fingerprint(key: u64) -> u8 {
    (key.wrapping_mul(ODD) >> 56) as u8
}

/// The word of a leaf that has `used` slots: the bits, and above them a check that they are this
/// leaf's.
#[inline]
pub(super) fn used_word(leaf: u64, used: u32) -> u64 {
    let mixed = (leaf.wrapping_mul(ODD) ^ u64::from(used)).wrapping_add(1).wrapping_mul(ODD);
    let check = (mixed ^ (mixed >> 29)).wrapping_mul(ODD) >> 32;
    check << 32 | u64::from(used)
}

/// The used slots that a leaf's word tells; none if its check is wrong.
#[inline]
pub(super) fn used_slots(leaf: u64, word: u64) -> Option<u32> {
    let used = word as u32;
    (used_word(leaf, used) == word).then_some(used)
}

/// The seal of a header: never zero, so that it tells a header from space that was never written.
pub(super) fn seal(magic: u64, leaves: u64) -> u64 {
    let mut bytes = [0; 16];
    bytes[..8].copy_from_slice(&magic.to_le_bytes());
    bytes[8..].copy_from_slice(&leaves.to_le_bytes());
    xxh3_64(&bytes) | 1
}

/// The slots whose fingerprint is `fingerprint`, all 32 compared at once, eight in a word.
#[inline]
pub(super) fn matching(fingerprints: Fingerprints, fingerprint: u8) -> u32 {
    const LOW: u64 = 0x7f7f_7f7f_7f7f_7f7f;
    // The factor that gathers one bit of each byte in the highest byte.
    const GATHER: u64 = 0x0102_0408_1020_4080;
    let wanted = u64::from_ne_bytes([fingerprint; 8]);
    let mut slots = 0;
    for (number, word) in fingerprints.into_iter().enumerate() {
        let differs = word ^ wanted;
        // The highest bit of each byte that is zero, and of no other (Warren, Hacker's Delight, 6-1).
        let equal = !(((differs & LOW) + LOW) | differs | LOW);
        let eight = (equal >> 7).wrapping_mul(GATHER) >> 56;
        slots |= (eight as u32) << (8 * number);
    }
    slots
}

/// The slots of a set, ascending.
pub(super) fn each(mut slots: u32) -> impl Iterator<Item = u32> {
    std::iter::from_fn(move || {
        let slot = lowest(slots)?;
        slots &= slots - 1;
        Some(slot)
    })
}

/// The first slot of a set.
#[inline]
pub(super) fn lowest(slots: u32) -> Option<u32> {
    (slots != 0).then(|| slots.trailing_zeros())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn matching_finds_the_slots_with_the_byte(
            bytes in prop::collection::vec(prop_oneof![Just(0_u8), Just(1), Just(0x80), any::<u8>()], 32),
            wanted in prop_oneof![Just(0_u8), Just(1), Just(0x80), any::<u8>()],
        ) {
            let word = |at: usize| u64::from_le_bytes(bytes[8 * at..][..8].try_into().unwrap());
            let found = matching(std::array::from_fn(word), wanted);
            let slots: Vec<_> = (0..SLOTS).filter(|slot| bytes[*slot as usize] == wanted).collect();
            prop_assert_eq!(each(found).collect::<Vec<_>>(), slots);
        }

        #[test]
        fn a_word_with_another_bit_or_of_another_leaf_is_none(
            leaf in 0..1_000_000_u64, used: u32, bit in 0..64_u32, other in 1..1000_u64,
        ) {
            let word = used_word(leaf, used);
            prop_assert_eq!(used_slots(leaf, word), Some(used));
            prop_assert_eq!(used_slots(leaf, word ^ 1 << bit), None);
            prop_assert_eq!(used_slots(leaf + other, word), None);
        }
    }

    #[test]
    fn an_empty_leaf_is_no_zero_line() {
        assert!((0..10_000).all(|leaf| used_word(leaf, 0) != 0));
    }
}
