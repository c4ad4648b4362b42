//! A log of frames, each of which says whether it is whole.
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

use xxhash_rust::xxh3::xxh3_64_with_seed;

pub(crate) const HEAD: usize = 16;

fn place(seed: u64, offset: u64) -> u64 {
    seed ^ offset.wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

/// A frame that is to stand at an offset.
pub(crate) fn frame(payload: &[u8], seed: u64, offset: u64) -> Vec<u8> {
    let len = u32::try_from(payload.len()).expect("a payload is below 4 GiB").to_le_bytes();
    let seed = place(seed, offset);
    let mut bytes = Vec::with_capacity(HEAD + payload.len());
    bytes.extend_from_slice(&len);
    bytes.extend_from_slice(&(xxh3_64_with_seed(&len, seed) as u32).to_le_bytes());
    bytes.extend_from_slice(&xxh3_64_with_seed(payload, !seed).to_le_bytes());
    bytes.extend_from_slice(payload);
    bytes
}

/// The payload of the whole frame at an offset, if there is one.
fn whole(bytes: &[u8], seed: u64, offset: usize) -> Option<Range<usize>> {
    let head = bytes.get(offset..)?.first_chunk::<HEAD>()?;
    let (len, seed) = (&head[..4], place(seed, offset as u64));
    if head[4..8] != (xxh3_64_with_seed(len, seed) as u32).to_le_bytes() {
        return None;
    }
    let len = u32::from_le_bytes(len.try_into().expect("4 bytes")) as usize;
    let payload = offset + HEAD..offset.checked_add(HEAD)?.checked_add(len)?;
    let sum = xxh3_64_with_seed(bytes.get(payload.clone())?, !seed);
    (head[8..] == sum.to_le_bytes()).then_some(payload)
}

/// Returns the payloads of all frames from an offset on, and the end of the last one: the rest is torn.
///
/// # Errors
/// Where a frame is damaged, not torn: it ends before `durable`, or a whole one follows.
pub(crate) fn read(
    bytes: &[u8],
    seed: u64,
    start: usize,
    durable: u64,
) -> Result<(Vec<Range<usize>>, usize), usize> {
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

    #[test]
    fn the_end_may_be_torn_and_nothing_before_it() {
        let payloads: [&[u8]; 4] = [b"first", b"", b"third", &[7; 300]];
        let (mut log, mut ends) = (b"head".to_vec(), vec![4]);
        for payload in payloads {
            let bytes = frame(payload, 9, log.len() as u64);
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
}
