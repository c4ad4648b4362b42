//! Checks that show a word that was damaged, or landed at a wrong place.

use xxhash_rust::xxh3::xxh3_64_with_seed;

/// The 16 bits of a check over a word, whose own 16 low bits are zero, its place and the pool's salt.
#[inline]
pub(crate) fn of(salt: u64, place: u64, word: u64) -> u64 {
    let mut input = [0; 16];
    input[..8].copy_from_slice(&place.to_le_bytes());
    input[8..].copy_from_slice(&word.to_le_bytes());
    xxh3_64_with_seed(&input, salt) >> 48
}
