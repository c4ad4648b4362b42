//! A frame: an entry of a log that proves itself whole.
//!
//! ```text
//! sum   len   payload
//!  8     4    len bytes
//! ```
//!
//! The sum is a hash (XXH3, 64 bits) of the payload, its length included, salted: mixed with a seed of the log's salt,
//! of the life of its space and of the place. So bytes from an earlier life, from another place, or from a payload that
//! imitates an entry are never taken for one, space need not be zeroed before it is used again, and one
//! fence makes an entry durable: it is whole, or it does not have its sum.
//!
//! The entries of a [`Log`](super::Log)`<`[`Salted`](super::Salted)`>` are frames, and an engine may have its records
//! as frames in space of its own.

use halite_sim::planted;
use xxhash_rust::xxh3::xxh3_64;

/// The length of the header in front of the payload, in bytes.
pub const HEADER_LEN: usize = 12;

/// Why there is no whole frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Torn {
    /// The readable bytes end before the frame does.
    Length,
    /// The payload does not have its sum.
    Sum,
}

/// The seed of the sums in one life of a space. [`place`] makes it that of one frame.
#[inline]
#[must_use]
pub fn seed(salt: u64, life: u64) -> u64 {
    salt.wrapping_add(life.wrapping_mul(0x9e37_79b9_7f4a_7c15))
}

/// The seed of the sum of the frame at an offset.
#[inline]
#[must_use]
pub fn place(seed: u64, at: u64) -> u64 {
    seed.wrapping_add(at)
}

/// The sum of a payload; never zero, so that zero means that there is none.
///
/// The seed is mixed in behind the hash and not before it: a seeded `xxh3` derives a secret of 192
/// bytes first if the payload is longer than 240.
///
/// Out of line: inlined, it keeps the compiler from inlining a caller that is called from two places, and
/// calls store to the stack, behind the fence of the entry before.
#[inline(never)]
fn sum(payload: &[u8], seed: u64) -> u64 {
    let summed =
        planted!("blocks.checksum-over-header", &payload[..payload.len().min(24)], payload);
    let hash = planted!(
        "blocks.sixteen-bytes-at-once",
        xxh3_64(
            &summed
                .chunks(16)
                .flat_map(|pair| &pair[..pair.len().min(8)])
                .copied()
                .collect::<Vec<_>>()
        ),
        xxh3_64(summed)
    );
    (hash ^ seed).max(1)
}

/// The header of the frame of `payload` at the place that `seed` is for.
///
/// # Panics
/// If the payload is longer than 4 GiB.
#[inline]
#[must_use]
pub fn header(payload: &[u8], seed: u64) -> [u8; HEADER_LEN] {
    let len = u32::try_from(payload.len()).expect("a payload has less than 4 GiB");
    let mut header = [0; HEADER_LEN];
    header[..8].copy_from_slice(&sum(payload, seed).to_le_bytes());
    header[8..].copy_from_slice(&len.to_le_bytes());
    header
}

/// Completes a frame whose payload stands behind [`HEADER_LEN`] bytes of any content.
///
/// # Panics
/// If it is shorter than that, or as [`header`].
#[inline]
pub fn seal(frame: &mut [u8], seed: u64) {
    let (head, payload) = frame.split_at_mut(HEADER_LEN);
    head.copy_from_slice(&header(payload, seed));
}

/// The length of the payload that a frame at the start of `bytes` would have; zero if it would not fit.
#[must_use]
pub fn len(bytes: &[u8]) -> u64 {
    let len =
        bytes.get(8..).and_then(<[u8]>::first_chunk).map_or(0, |len| u32::from_le_bytes(*len));
    u64::from(len) * u64::from(len as usize + HEADER_LEN <= bytes.len())
}

/// The payload of the frame at the start of `bytes`, which reach to the end of the readable bytes.
///
/// # Errors
/// Why there is no whole frame.
#[inline]
pub fn read(bytes: &[u8], seed: u64) -> Result<&[u8], Torn> {
    let (found, rest) = bytes.split_first_chunk::<8>().ok_or(Torn::Length)?;
    let (len, rest) = rest.split_first_chunk::<4>().ok_or(Torn::Length)?;
    let payload = rest.get(..u32::from_le_bytes(*len) as usize).ok_or(Torn::Length)?;
    if u64::from_le_bytes(*found) != sum(payload, seed) {
        return Err(Torn::Sum);
    }
    Ok(payload)
}
