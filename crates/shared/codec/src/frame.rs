//! A log of frames, each of which says whether it is whole, and the head that other framings share with it.
//!
//! ```text
//!  0  len        u32   bytes of payload
//!  4  head sum   u32   xxh3 of the length, so that a frame's begin can be told from bytes that look like one
//!  8  checksum   u64   xxh3 of the payload
//! 16  payload
//! ```
//!
//! Both sums are seeded with the log's seed and the frame's offset: a frame of another log, or in another
//! place, is none.

use std::ops::Range;

use crate::Seed;

/// Bytes of a [`Head`].
pub const HEAD: usize = 16;

/// The 16 bytes beside a payload: two numbers, of which one mostly is a length, and a checksum. What they mean, and
/// what the checksum covers, is the format's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Head {
    /// The first number.
    pub first: u32,
    /// The second number.
    pub second: u32,
    /// The checksum.
    pub checksum: u64,
}

impl Head {
    /// Its stored form.
    #[must_use]
    #[inline]
    pub fn bytes(self) -> [u8; HEAD] {
        let mut bytes = [0; HEAD];
        bytes[..4].copy_from_slice(&self.first.to_le_bytes());
        bytes[4..8].copy_from_slice(&self.second.to_le_bytes());
        bytes[8..].copy_from_slice(&self.checksum.to_le_bytes());
        bytes
    }

    /// The head that is stored in these bytes. None of its fields is checked.
    #[must_use]
    #[inline]
    pub fn of_bytes(bytes: &[u8; HEAD]) -> Self {
        let half = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().expect("4 bytes"));
        let checksum = u64::from_le_bytes(bytes[8..].try_into().expect("8 bytes"));
        Self { first: half(0), second: half(4), checksum }
    }
}

/// The sum that tells a frame's begin: of its length alone.
fn head_sum(len: u32, seed: Seed) -> u32 {
    seed.checksum(&len.to_le_bytes()) as u32
}

/// The seed of a payload's checksum differs from that of the length's.
fn of_payload(seed: Seed) -> Seed {
    Seed::new(!seed.bits())
}

/// A frame that is to stand at an offset.
///
/// # Panics
/// If the payload has 4 GiB or more.
#[must_use]
pub fn frame(payload: &[u8], seed: Seed, offset: u64) -> Vec<u8> {
    let len = u32::try_from(payload.len()).expect("a payload is below 4 GiB");
    let seed = seed.at(offset);
    let checksum = of_payload(seed).checksum(payload);
    let mut bytes = Vec::with_capacity(HEAD + payload.len());
    bytes.extend_from_slice(&Head { first: len, second: head_sum(len, seed), checksum }.bytes());
    bytes.extend_from_slice(payload);
    bytes
}

/// The payload of the whole frame at an offset, if there is one.
fn whole(bytes: &[u8], seed: Seed, offset: usize) -> Option<Range<usize>> {
    let head = Head::of_bytes(bytes.get(offset..)?.first_chunk()?);
    let seed = seed.at(offset as u64);
    if head.second != head_sum(head.first, seed) {
        return None;
    }
    let payload = offset + HEAD..offset.checked_add(HEAD)?.checked_add(head.first as usize)?;
    let checksum = of_payload(seed).checksum(bytes.get(payload.clone())?);
    (head.checksum == checksum).then_some(payload)
}

/// The whole frames of a log: where the payload of each is, and where the last one ends. What follows is torn.
pub type Frames = (Vec<Range<usize>>, usize);

/// Reads all frames from an offset on.
///
/// # Errors
/// Where a frame is damaged, not torn: it ends before `durable`, or a whole one follows.
pub fn read_frames(bytes: &[u8], seed: Seed, start: usize, durable: u64) -> Result<Frames, usize> {
    let (mut frames, mut at) = (Vec::new(), start);
    while let Some(payload) = whole(bytes, seed, at) {
        at = payload.end;
        frames.push(payload);
    }
    let is_damaged =
        (at as u64) < durable || (at + 1..bytes.len()).any(|at| whole(bytes, seed, at).is_some());
    if is_damaged { Err(at) } else { Ok((frames, at)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SEED: Seed = Seed::new(9);

    fn read(bytes: &[u8], seed: u64, start: usize, durable: u64) -> Result<Frames, usize> {
        read_frames(bytes, Seed::new(seed), start, durable)
    }

    #[test]
    fn the_end_may_be_torn_and_nothing_before_it() {
        let payloads: [&[u8]; 4] = [b"first", b"", b"third", &[7; 300]];
        let (mut log, mut ends) = (b"head".to_vec(), vec![4]);
        for payload in payloads {
            let bytes = frame(payload, SEED, log.len() as u64);
            log.extend(bytes);
            ends.push(log.len());
        }
        let (found, end) = read(&log, 9, 4, log.len() as u64).unwrap();
        assert!(found.into_iter().map(|range| &log[range]).eq(payloads));
        assert_eq!(end, log.len());
        assert_eq!(read(&log, 8, 4, 0), Ok((vec![], 4)), "frames of another log");
        for len in 4..log.len() {
            let whole = ends.iter().filter(|end| **end <= len).count() - 1;
            let (found, end) = read(&log[..len], 9, 4, 4).unwrap();
            assert_eq!((found.len(), end), (whole, ends[whole]));
            assert_eq!(read(&log[..len], 9, 4, len as u64).is_err(), end < len);
        }
        for at in 4..log.len() {
            let mut log = log.clone();
            log[at] ^= 4;
            let is_last = at >= ends[3];
            assert_eq!(read(&log, 9, 4, 0).is_ok(), is_last, "byte {at}");
            assert!(read(&log, 9, 4, ends[4] as u64).is_err());
        }
    }

    /// Manifests of all versions have frames of these bytes.
    #[test]
    fn the_stored_form_stays() {
        use xxhash_rust::xxh3::xxh3_64_with_seed;
        let seed = 9 ^ 48_u64.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let mut bytes = 7_u32.to_le_bytes().to_vec();
        bytes.extend((xxh3_64_with_seed(&bytes, seed) as u32).to_le_bytes());
        bytes.extend(xxh3_64_with_seed(b"payload", !seed).to_le_bytes());
        bytes.extend(b"payload");
        assert_eq!(frame(b"payload", SEED, 48), bytes);
    }
}
