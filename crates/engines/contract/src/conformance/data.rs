//! Reproducible bytes to fill stores with.

/// A small generator of pseudo-random numbers (SplitMix64), the same on every run.
#[derive(Debug, Clone)]
pub struct Random(u64);

impl Random {
    /// The generator of a seed.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// The next 64 bits.
    pub fn next_u64(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number below `end`, which is not zero.
    pub fn below(&mut self, end: u64) -> u64 {
        self.next_u64() % end
    }
}

/// `len` bytes that only this `seed` has.
#[must_use]
pub fn value(seed: u64, len: usize) -> Vec<u8> {
    let mut random = Random::new(seed);
    let mut bytes = Vec::with_capacity(len + 8);
    while bytes.len() < len {
        bytes.extend_from_slice(&random.next_u64().to_le_bytes());
    }
    bytes.truncate(len);
    bytes
}

/// A key of 12 bytes; keys sort as their numbers.
#[must_use]
pub fn key(number: u64) -> Vec<u8> {
    format!("key-{number:08}").into_bytes()
}

/// Bytes as a message shows them: the start, and how many there are.
#[must_use]
pub fn show(bytes: &[u8]) -> String {
    const SHOWN: usize = 24;
    if bytes.len() <= SHOWN {
        format!("b\"{}\"", bytes.escape_ascii())
    } else {
        format!("b\"{}...\" ({} bytes)", bytes[..SHOWN].escape_ascii(), bytes.len())
    }
}
