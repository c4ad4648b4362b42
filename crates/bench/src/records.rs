//! The records of a workload.

use crate::KvOptions;

/// Turns a record's number into its key and value, with the same few instructions for every store.
#[derive(Debug, Clone)]
pub(crate) struct Records {
    key: Vec<u8>,
    /// Random bytes; a value is a window of them.
    noise: Vec<u8>,
    value_len: usize,
    seed: u64,
}

const NOISE: usize = 64 << 10;

impl Records {
    pub(crate) fn new(options: &KvOptions) -> Self {
        let mut random = Random::new(options.seed);
        let words = (NOISE + options.value_len).div_ceil(8);
        let noise = (0..words).flat_map(|_| random.next_u64().to_le_bytes()).collect();
        let key = vec![b'k'; options.key_len];
        Self { key, noise, value_len: options.value_len, seed: options.seed }
    }

    /// The key. Numbers in order give keys in random order; different numbers, different keys.
    pub(crate) fn key(&mut self, number: u64) -> &[u8] {
        let mixed = mix(number ^ mix(self.seed));
        self.key[..8].copy_from_slice(&mixed.to_be_bytes());
        if let Some(second) = self.key.get_mut(8..16) {
            second.copy_from_slice(&mix(mixed).to_be_bytes());
        }
        &self.key
    }

    /// The key and the value of a record's `version`.
    pub(crate) fn pair(&mut self, number: u64, version: u64) -> (&[u8], &[u8]) {
        self.key(number);
        (&self.key, self.window(number, version))
    }

    /// The value of a record's `version`.
    fn window(&self, number: u64, version: u64) -> &[u8] {
        // An odd factor: neighbours in number lie apart, and versions of one record differ.
        let start = (number.wrapping_mul(0x9e37_79b1) ^ version) as usize % NOISE;
        &self.noise[start..start + self.value_len]
    }
}

/// A small generator of pseudo-random numbers (SplitMix64).
#[derive(Debug, Clone)]
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub(crate) fn next_u64(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        mix(self.0)
    }

    /// A number below `end`, by the high half of a product, which needs no division.
    pub(crate) fn below(&mut self, end: u64) -> u64 {
        ((u128::from(self.next_u64()) * u128::from(end)) >> 64) as u64
    }
}

/// SplitMix64's finalizer: a bijection, so distinct numbers stay distinct.
fn mix(number: u64) -> u64 {
    let mixed = (number ^ (number >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn keys_are_distinct_and_the_same_for_one_seed() {
        let options = KvOptions { key_len: 8, ..KvOptions::default() };
        let (mut records, mut again) = (Records::new(&options), Records::new(&options));
        let keys: BTreeSet<_> = (0..10_000).map(|number| records.key(number).to_vec()).collect();
        assert_eq!(keys.len(), 10_000);
        assert_eq!(records.pair(77, 0), again.pair(77, 0));
        let mut other = Records::new(&KvOptions { seed: 2, ..options });
        assert_ne!(records.pair(77, 0), other.pair(77, 0));
    }

    #[test]
    fn a_new_version_is_another_value() {
        let records = Records::new(&KvOptions::default());
        assert!((0..1_000).all(|number| records.window(number, 0) != records.window(number, 1)));
        assert_eq!(records.window(5, 0).len(), 100);
    }
}
