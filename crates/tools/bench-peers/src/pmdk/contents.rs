//! The bytes of writes, and their places.

use std::collections::BTreeMap;

use fastrand::Rng;

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
        let mut bytes = vec![0; (DISTINCT * len) as usize];
        Rng::with_seed(seed).fill(&mut bytes);
        Self { bytes, len: len as usize }
    }

    /// Returns the bytes of the write of this number.
    pub(super) fn of(&self, number: u64) -> &[u8] {
        let start = (number % DISTINCT) as usize * self.len;
        &self.bytes[start..start + self.len]
    }
}

/// The number of the last write to each place that was written to.
pub(super) fn last_writes(places: &[u64]) -> BTreeMap<u64, u64> {
    places.iter().copied().zip(0..).collect()
}
