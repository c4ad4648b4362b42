//! Reproducible bytes to fill stores with.

use fastrand::Rng;

/// `len` bytes that only this `seed` has.
#[must_use]
pub fn value(seed: u64, len: usize) -> Vec<u8> {
    let mut bytes = vec![0; len];
    Rng::with_seed(seed).fill(&mut bytes);
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
