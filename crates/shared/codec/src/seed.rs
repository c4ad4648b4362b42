//! Seeds of checksums, which tie bytes to the store, the file and the place that they belong to.

use xxhash_rust::xxh3::{Xxh3, xxh3_64, xxh3_64_with_seed};

/// An odd multiplier: it keeps a place apart from the bits that a seed has beside it.
const PLACE: u64 = 0x9e37_79b9_7f4a_7c15;

/// Another one, for a second number beside a place.
const BESIDE: u64 = 0xc2b2_ae3d_27d4_eb4f;

/// The seed of checksums: XXH3 of 64 bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seed(u64);

impl Seed {
    /// The seed of bytes that have to be recognised without knowing to whom they belong.
    pub const NONE: Self = Self(0);

    /// A seed of these bits.
    #[must_use]
    #[inline]
    pub const fn new(bits: u64) -> Self {
        Self(bits)
    }

    /// The seed of a store's checksums, by the store's id.
    #[must_use]
    pub fn of_store(store_id: u128) -> Self {
        Self(xxh3_64(&store_id.to_le_bytes()))
    }

    /// The seed of a file's checksums, by the store's id and the file's number.
    #[must_use]
    pub fn of_file(store_id: u128, number: u64) -> Self {
        let mut bytes = [0; 24];
        bytes[..16].copy_from_slice(&store_id.to_le_bytes());
        bytes[16..].copy_from_slice(&number.to_le_bytes());
        Self(xxh3_64(&bytes))
    }

    /// Its bits.
    #[must_use]
    #[inline]
    pub const fn bits(self) -> u64 {
        self.0
    }

    /// The seed for bytes at a place: an offset, or a number of their own.
    #[must_use]
    #[inline]
    pub const fn at(self, place: u64) -> Self {
        Self(self.0 ^ place.wrapping_mul(PLACE))
    }

    /// The seed for bytes that a number beside them describes.
    #[must_use]
    #[inline]
    pub(crate) const fn with(self, number: u64) -> Self {
        Self(self.0 ^ number.wrapping_mul(BESIDE))
    }

    /// The seed with the bits of a number changed, for files that are numbered without gaps.
    #[must_use]
    #[inline]
    pub const fn numbered(self, number: u64) -> Self {
        Self(self.0 ^ number)
    }

    /// The checksum of bytes.
    #[must_use]
    #[inline]
    pub fn checksum(self, bytes: &[u8]) -> u64 {
        xxh3_64_with_seed(bytes, self.0)
    }

    /// The checksum of several byte strings, as of one that has them one behind the other.
    #[must_use]
    pub fn checksum_of(self, parts: &[&[u8]]) -> u64 {
        let mut sum = Xxh3::with_seed(self.0);
        parts.iter().for_each(|part| sum.update(part));
        sum.digest()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_have_the_checksum_of_the_whole_and_no_seed_that_of_unseeded_bytes() {
        let bytes: Vec<u8> = (0..3000_u32).map(|n| ((n * n) >> 3) as u8).collect();
        for len in (0..300).chain([1023, 1024, 1025, 3000]) {
            let (bytes, seed) = (&bytes[..len], Seed::new(len as u64 * 7));
            assert_eq!(Seed::NONE.checksum(bytes), xxh3_64(bytes));
            let (first, rest) = bytes.split_at(len / 3);
            assert_eq!(seed.checksum_of(&[first, &[], rest]), seed.checksum(bytes));
        }
    }

    /// Stored bytes have checksums of these seeds: none of them may ever change.
    #[test]
    fn seeds_are_those_of_stored_bytes() {
        let (store, bits) = (0x0123_4567_89ab_cdef_u128, 0x1122_3344_5566_7788);
        assert_eq!(Seed::of_store(store), Seed(xxh3_64_with_seed(&store.to_le_bytes(), 0)));
        let named = [&store.to_le_bytes()[..], &7_u64.to_le_bytes()].concat();
        assert_eq!(Seed::of_file(store, 7), Seed(xxh3_64(&named)));
        assert_eq!(Seed(bits).at(4096).0, bits ^ 4096_u64.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        assert_eq!(Seed(bits).with(9).0, bits ^ 9_u64.wrapping_mul(0xc2b2_ae3d_27d4_eb4f));
        assert_eq!(Seed(bits).numbered(9).0, bits ^ 9);
    }
}
