//! The update and the read of a cell, in plain words.

use super::block::{self, BITS, NEW};
use super::{Blocks, high, store_high};

/// Fills `blocks` with the blocks of `stored` after an update to `value`.
pub(super) fn update(stored: &[u8], value: &[u8], blocks: &mut Blocks) {
    let (units, _) = value.as_chunks::<4>();
    let (words, _) = stored.as_chunks::<8>();
    let mut high = 0;
    for (number, ((unit, word), block)) in units.iter().zip(words).zip(&mut *blocks).enumerate() {
        let unit = u32::from_le_bytes(*unit);
        high |= (unit >> BITS) << number;
        *block = block::updated(u64::from_le_bytes(*word), u64::from(unit) & NEW);
    }
    store_high(words, units.len(), high, blocks);
}

/// Takes the value out of `stored`.
pub(super) fn read(stored: &[u8], value: &mut [u8]) {
    let (units, _) = value.as_chunks_mut::<4>();
    let (words, _) = stored.as_chunks::<8>();
    let high = high(words, units.len());
    for (number, (unit, word)) in units.iter_mut().zip(words).enumerate() {
        let low = u64::from_le_bytes(*word) & NEW;
        *unit = (low as u32 | ((high >> number) & 1) << BITS).to_le_bytes();
    }
}
