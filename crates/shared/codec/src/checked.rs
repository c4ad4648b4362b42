//! Bytes with a checksum before or behind them: the framing of headers, footers and batches.
//!
//! ```text
//!  in front:  checksum u64 | bytes           behind:  bytes | checksum u64
//! ```
//!
//! The length is not part of the framing: the reader knows it, or reads it from the bytes before it believes them.

use crate::{Error, Result, Seed};

/// Bytes of a checksum.
pub const CHECKSUM: usize = 8;

/// Makes the first 8 bytes the checksum of the others.
///
/// # Panics
/// If there are less than 8.
#[inline]
pub fn put_front(bytes: &mut [u8], seed: Seed) {
    let (front, behind) = bytes.split_at_mut(CHECKSUM);
    front.copy_from_slice(&seed.checksum(behind).to_le_bytes());
}

/// The bytes behind the first 8, which have to be their checksum.
///
/// # Errors
/// [`Error::Truncated`], [`Error::Checksum`].
#[inline]
pub fn check_front(bytes: &[u8], seed: Seed) -> Result<&[u8]> {
    let (front, behind) = bytes.split_first_chunk::<CHECKSUM>().ok_or(Error::Truncated)?;
    match u64::from_le_bytes(*front) == seed.checksum(behind) {
        true => Ok(behind),
        false => Err(Error::Checksum),
    }
}

/// Appends the checksum of all bytes.
pub fn put_behind(bytes: &mut Vec<u8>, seed: Seed) {
    bytes.extend_from_slice(&seed.checksum(bytes).to_le_bytes());
}

/// The bytes before the last 8, which have to be their checksum.
///
/// # Errors
/// [`Error::Truncated`], [`Error::Checksum`].
pub fn check_behind(bytes: &[u8], seed: Seed) -> Result<&[u8]> {
    let (before, behind) = bytes.split_last_chunk::<CHECKSUM>().ok_or(Error::Truncated)?;
    match u64::from_le_bytes(*behind) == seed.checksum(before) {
        true => Ok(before),
        false => Err(Error::Checksum),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flipped_bit_another_seed_and_a_missing_byte_show() {
        let seed = Seed::new(5);
        let mut front = [&[0; CHECKSUM], &b"some bytes"[..]].concat();
        put_front(&mut front, seed);
        let mut behind = b"some bytes".to_vec();
        put_behind(&mut behind, seed);
        type Check = fn(&[u8], Seed) -> Result<&[u8]>;
        for (bytes, check) in [(front, check_front as Check), (behind, check_behind as Check)] {
            assert_eq!(check(&bytes, seed), Ok(&b"some bytes"[..]));
            assert_eq!(check(&bytes, Seed::new(6)), Err(Error::Checksum));
            assert_eq!(check(&bytes[..7], seed), Err(Error::Truncated));
            assert_eq!(check(&bytes[..17], seed), Err(Error::Checksum));
            for bit in 0..bytes.len() * 8 {
                let mut flipped = bytes.clone();
                flipped[bit / 8] ^= 1 << (bit % 8);
                assert_eq!(check(&flipped, seed), Err(Error::Checksum), "bit {bit}");
            }
        }
    }
}
