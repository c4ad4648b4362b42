//! The bytes of writes, and their places.

use std::collections::BTreeMap;

/// Distinct contents of a measurement, as in the experiments that these contenders join.
const DISTINCT: u64 = 64;

/// Random bytes that differ from one write to the next.
pub(super) struct Contents {
    bytes: Vec<u8>,
    len: usize,
}

impl Contents {
    /// Contents of `len` bytes.
    pub(super) fn new(seed: u64, len: u64) -> Self {
        let mut random = Random(seed);
        let words = (DISTINCT * len).div_ceil(8);
        let bytes = (0..words).flat_map(|_| random.next().to_le_bytes()).collect();
        Self { bytes, len: len as usize }
    }

    /// Returns the bytes of the write of this number.
    pub(super) fn of(&self, number: u64) -> &[u8] {
        let start = (number % DISTINCT) as usize * self.len;
        &self.bytes[start..start + self.len]
    }
}

/// Random numbers: SplitMix64.
pub(super) struct Random(pub(super) u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number below `end`.
    pub(super) fn below(&mut self, end: u64) -> u64 {
        ((u128::from(self.next()) * u128::from(end)) >> 64) as u64
    }
}

/// The number of the last write to each place that was written to.
pub(super) fn last_writes(places: &[u64]) -> BTreeMap<u64, u64> {
    places.iter().copied().zip(0..).collect()
}
