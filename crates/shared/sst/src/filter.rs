//! Which keys a part of a table has, in about 9 bits each: a binary fuse filter (Graefe and Lemire, "Binary Fuse
//! Filters", 2022) with fingerprints of 8 bits.
//!
//! A key has three places in an array, in three neighbouring segments of it; the fingerprints there give, by
//! exclusive or, the key's own. Where a Bloom filter of 10 bits a key lets 0.8 % of the keys that are not
//! there pass, and one in blocks of a cache line 1 %, this lets 1/256 = 0.4 % pass, in fewer bits. What it
//! costs is that all keys have to be known when it is built: those of a partition are, and that is small
//! enough to be built within the cache.
//!
//! ```text
//!  0  seed       u64
//!  8  segments   u32   in which a key's first place may be; two more follow
//! 12  bits       u32   a segment has 1 << bits fingerprints
//! 16  fingerprints
//! ```

use halite_codec::{Plain, Seed};

use crate::Parsed;

const HEADER: usize = 16;

/// Seeds that are tried. A seed fails for far fewer than half of all sets of keys.
const SEEDS: u64 = 100;

/// The hash of a key that filters are asked for.
#[must_use]
#[inline]
pub fn hash_key(key: &[u8]) -> u64 {
    Seed::NONE.checksum(key)
}

/// The shape of the array.
#[derive(Clone, Copy)]
struct Shape {
    seed: u64,
    segments: u32,
    bits: u32,
}

impl Shape {
    /// For so many keys: the sizes that the paper's authors found to work.
    fn of(keys: usize) -> Self {
        let keys = keys.max(2) as f64;
        let bits = ((keys.ln() / 3.33_f64.ln() + 2.25) as u32).min(18);
        let factor = (0.875 + 0.25 * 1e6_f64.ln() / keys.ln()).max(1.125);
        let segments = ((keys * factor).round() as u64).div_ceil(1 << bits).saturating_sub(2);
        Self { seed: 0, segments: segments.max(1) as u32, bits }
    }

    fn len(self) -> usize {
        (self.segments as usize + 2) << self.bits
    }

    /// The places of a key, and its fingerprint.
    #[inline]
    fn places(self, key_hash: u64) -> ([usize; 3], u8) {
        let mut hash = key_hash.wrapping_add(self.seed);
        // Murmur's finisher: another seed gives another, independent hash.
        hash = (hash ^ hash >> 33).wrapping_mul(0xff51_afd7_ed55_8ccd);
        hash = (hash ^ hash >> 33).wrapping_mul(0xc4ce_b9fe_1a85_ec53);
        hash ^= hash >> 33;
        let (len, mask) = (1 << self.bits, (1 << self.bits) - 1);
        let firsts = u128::from(self.segments) << self.bits;
        let first = ((u128::from(hash) * firsts) >> 64) as usize;
        let second = (first + len) ^ ((hash >> 18) as usize & mask);
        let third = (first + 2 * len) ^ (hash as usize & mask);
        ([first, second, third], (hash ^ hash >> 32) as u8)
    }
}

/// A filter of keys.
#[derive(Clone)]
pub struct Filter {
    bytes: Plain,
    shape: Shape,
}

impl Filter {
    /// The bytes of a filter for keys with these hashes. None, where no seed works: then every key passes.
    pub fn build(key_hashes: &mut Vec<u64>) -> Option<Vec<u8>> {
        for seed in 0..SEEDS {
            let mut shape = Shape::of(key_hashes.len());
            shape.seed = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15);
            if let Some(order) = peel(key_hashes, shape) {
                let mut bytes = Vec::with_capacity(HEADER + shape.len());
                bytes.extend_from_slice(&shape.seed.to_le_bytes());
                bytes.extend_from_slice(&shape.segments.to_le_bytes());
                bytes.extend_from_slice(&shape.bits.to_le_bytes());
                bytes.resize(HEADER + shape.len(), 0);
                assign(&mut bytes[HEADER..], &order, shape);
                return Some(bytes);
            }
            // Two keys of one hash can never be told apart: one of them stands for both.
            key_hashes.sort_unstable();
            key_hashes.dedup();
        }
        None
    }

    /// A filter of these bytes.
    ///
    /// # Errors
    /// The reason why they are no filter.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, &'static str> {
        Self::new(bytes.into())
    }

    pub(crate) fn new(bytes: Plain) -> Parsed<Self> {
        let header = bytes.first_chunk::<HEADER>().ok_or("the filter is too short")?;
        let number =
            |at: usize| u32::from_le_bytes(header[at..at + 4].try_into().expect("4 bytes"));
        let seed = u64::from_le_bytes(header[..8].try_into().expect("8 bytes"));
        let shape = Shape { seed, segments: number(8), bits: number(12) };
        if shape.bits > 18 || shape.segments == 0 || HEADER + shape.len() != bytes.len() {
            return Err("the filter does not have the length that it says");
        }
        Ok(Self { bytes, shape })
    }

    /// Whether a key may be there: yes for those that are, and for one in 256 of the others.
    #[must_use]
    #[inline]
    pub fn may_have(&self, key_hash: u64) -> bool {
        let (places, fingerprint) = self.shape.places(key_hash);
        let table = &self.bytes[HEADER..];
        places.iter().fold(fingerprint, |left, place| left ^ table[*place]) == 0
    }
}

/// Keys in an order in which each has a place that no later one has, and which of its places that is.
fn peel(key_hashes: &[u64], shape: Shape) -> Option<Vec<(u64, u8)>> {
    // How many keys have a place, and which, by exclusive or: so the last one is known.
    let mut counts = vec![0_u32; shape.len()];
    let mut keys = vec![0_u64; shape.len()];
    let mut which = vec![0_u8; shape.len()];
    for &key in key_hashes {
        for (number, place) in shape.places(key).0.into_iter().enumerate() {
            counts[place] += 1;
            keys[place] ^= key;
            which[place] ^= number as u8;
        }
    }
    let mut single: Vec<usize> = (0..shape.len()).filter(|&place| counts[place] == 1).collect();
    let mut order = Vec::with_capacity(key_hashes.len());
    while let Some(place) = single.pop() {
        if counts[place] != 1 {
            continue;
        }
        let key = keys[place];
        order.push((key, which[place]));
        for (number, place) in shape.places(key).0.into_iter().enumerate() {
            counts[place] -= 1;
            keys[place] ^= key;
            which[place] ^= number as u8;
            if counts[place] == 1 {
                single.push(place);
            }
        }
    }
    (order.len() == key_hashes.len()).then_some(order)
}

/// Gives each key's own place what the other two leave of its fingerprint, the last peeled first.
fn assign(table: &mut [u8], order: &[(u64, u8)], shape: Shape) {
    for &(key, own) in order.iter().rev() {
        let (places, fingerprint) = shape.places(key);
        let own = places[usize::from(own)];
        table[own] = 0;
        table[own] = places.iter().fold(fingerprint, |left, place| left ^ table[*place]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_key_that_is_there_passes_and_few_others_do() {
        for keys in [0_u64, 1, 2, 3, 10, 100, 1000, 20_000] {
            let hash = |n: u64| hash_key(&n.to_le_bytes());
            // Some twice: hashes that are equal are one.
            let mut hashes: Vec<u64> = (0..keys).chain(0..keys / 3).map(hash).collect();
            let filter = Filter::from_bytes(&Filter::build(&mut hashes).unwrap()).unwrap();
            assert!((0..keys).all(|n| filter.may_have(hash(n))));
            let passed = (0..100_000).filter(|n| filter.may_have(hash(n + keys))).count();
            assert!(passed < 600, "{passed} of 100000 passed a filter of {keys} keys");
            let bits = filter.bytes.len() as f64 * 8.0 / keys as f64;
            assert!(keys < 20_000 || bits < 10.0, "{bits} bits for each of {keys} keys");
        }
    }

    #[test]
    fn a_filter_of_wrong_length_is_refused() {
        let bytes =
            Filter::build(&mut (0..50).map(|n: u64| hash_key(&[n as u8])).collect()).unwrap();
        assert!(Filter::from_bytes(&bytes[..bytes.len() - 1]).is_err());
        assert!(Filter::from_bytes(&bytes[..15]).is_err());
        for (at, byte) in [(8, 0), (8, 255), (12, 0), (12, 19), (15, 255)] {
            let mut bytes = bytes.clone();
            bytes[at] = byte;
            assert!(Filter::from_bytes(&bytes).is_err(), "{byte} at {at}");
        }
    }
}
