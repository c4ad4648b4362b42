//! An entry that says itself whether it is whole.
//!
//! ```text
//! sum   len   payload
//!  8     4    len bytes
//! ```
//!
//! The sum is a hash of the payload, salted: mixed with a seed of the log's salt, of the life of its
//! space and of the place. So bytes from an earlier life, from another place, or from a payload that
//! imitates an entry are never taken for one, space need not be zeroed before it is used again, and one
//! fence makes an entry durable: it is whole, or it does not have its sum.

use xxhash_rust::xxh3::xxh3_64;

/// What stands before the payload, in bytes.
pub const HEADER_LEN: usize = 12;

/// What seeds the sums in one life of a space. [`place`] makes it that of one entry.
#[inline]
#[must_use]
pub fn seed(salt: u64, life: u64) -> u64 {
    salt.wrapping_add(life.wrapping_mul(0x9e37_79b9_7f4a_7c15))
}

/// What seeds the sum of the entry at an offset.
#[inline]
#[must_use]
pub fn place(seed: u64, at: u64) -> u64 {
    seed.wrapping_add(at)
}

/// The sum of a payload; never zero, so that zero says that there is none.
///
/// The seed is mixed in behind the hash and not before it: a seeded `xxh3` derives a secret of 192
/// bytes first if the payload is longer than 240.
#[inline]
fn sum(payload: &[u8], seed: u64) -> u64 {
    (xxh3_64(payload) ^ seed).max(1)
}

/// What stands before `payload` if the entry is stored where `seed` is for.
#[inline]
#[must_use]
pub fn header(payload: &[u8], seed: u64) -> [u8; HEADER_LEN] {
    let mut header = [0; HEADER_LEN];
    header[..8].copy_from_slice(&sum(payload, seed).to_le_bytes());
    header[8..].copy_from_slice(&(payload.len() as u32).to_le_bytes());
    header
}

/// The length of the payload that an entry at the start of `bytes` would have; zero if it would not fit.
#[must_use]
pub fn len(bytes: &[u8]) -> u64 {
    let len =
        bytes.get(8..).and_then(<[u8]>::first_chunk).map_or(0, |len| u32::from_le_bytes(*len));
    u64::from(len) * u64::from(len as usize + HEADER_LEN <= bytes.len())
}

/// The payload of the entry at the start of `bytes`, if there is a whole one.
#[inline]
#[must_use]
pub fn read(bytes: &[u8], seed: u64) -> Option<&[u8]> {
    let (found, rest) = bytes.split_first_chunk::<8>()?;
    let (len, rest) = rest.split_first_chunk::<4>()?;
    let payload = rest.get(..u32::from_le_bytes(*len) as usize)?;
    (u64::from_le_bytes(*found) == sum(payload, seed)).then_some(payload)
}
