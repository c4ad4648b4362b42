//! An entry's lines: a header, a payload behind it, zeros up to the end of the last line.
//!
//! Lines that are composed in memory and loaded again to be stored wait twice: a load of a line that was
//! stored in parts has to wait until the parts have left the store buffer, and there they are behind the
//! fence of the last entry. The processor can compute everything that depends on the payload and on registers
//! alone while that fence is still waiting, including the header with its sums. So whole lines are stored
//! straight from the payload, the first and the last one by words.

use crate::{LINE, Pool, stream};

const LINE_LEN: usize = LINE as usize;

/// The longest header, in bytes.
const HEADER_LEN_MAX: usize = 16;

/// The bytes of all lines of an entry.
#[inline]
pub(crate) fn len(header: usize, payload: &[u8]) -> u64 {
    ((header + payload.len()) as u64).next_multiple_of(LINE)
}

/// All lines of an entry, in memory.
pub(crate) fn compose<const N: usize>(header: [u8; N], payload: &[u8]) -> Vec<u8> {
    let mut lines = [header.as_slice(), payload].concat();
    lines.resize(len(N, payload) as usize, 0);
    lines
}

/// Stores an entry past the cache and starts its write-back, as [`stream::copy`] does. The first line is
/// stored last, and only then is `header` called: a longer payload is summed while the lines behind are on
/// their way.
///
/// # Safety
/// `address` is that of a line, and [`len`] bytes from there on are inside one region of the pool, that
/// the caller may write.
#[inline]
pub(crate) unsafe fn store<const N: usize>(
    pool: &Pool,
    address: *mut u8,
    payload: &[u8],
    header: impl FnOnce() -> [u8; N],
) {
    let (beginning, behind) = payload.split_at(payload.len().min(LINE_LEN - N));
    let (whole, last) = behind.as_chunks::<LINE_LEN>();
    let drain = DrainIfDropped(pool);
    // SAFETY: the first line, the whole lines and the last one together are as long as `len` says.
    unsafe {
        if !whole.is_empty() {
            stream::copy(pool, address.add(LINE_LEN), whole.as_flattened());
        }
        if !last.is_empty() {
            stream::line(pool, address.add((1 + whole.len()) * LINE_LEN), &line(last));
        }
        let header = header();
        // Where the compiler knows the length, it omits the search for the end.
        let words = match beginning.get(..LINE_LEN - N) {
            Some(full) => first_line(header, full),
            None => first_line(header, beginning),
        };
        stream::line(pool, address, &words);
    }
    std::mem::forget(drain);
}

/// Orders the streamed stores by a fence if the header cannot be computed.
struct DrainIfDropped<'a>(&'a Pool);

impl Drop for DrainIfDropped<'_> {
    fn drop(&mut self) {
        self.0.drain();
    }
}

/// The words of a line of bytes and zeros.
#[inline]
fn line(bytes: &[u8]) -> [u64; LINE_LEN / 8] {
    std::array::from_fn(|number| word(bytes, 8 * number))
}

/// The words of a line of a header, bytes and zeros.
#[inline]
fn first_line<const N: usize>(header: [u8; N], bytes: &[u8]) -> [u64; LINE_LEN / 8] {
    const { assert!(N <= HEADER_LEN_MAX) };
    let mut two_words = [0; HEADER_LEN_MAX];
    two_words[..N].copy_from_slice(&header);
    let behind = u128::from(word(bytes, 8)) << 64 | u128::from(word(bytes, 0));
    let behind = behind.checked_shl(8 * N as u32).unwrap_or_default();
    let two_words = u128::from_le_bytes(two_words) | behind;
    let mut words = [0; LINE_LEN / 8];
    (words[0], words[1]) = (two_words as u64, (two_words >> 64) as u64);
    for (number, word_behind) in words.iter_mut().enumerate().skip(2) {
        *word_behind = word(bytes, 8 * number - N);
    }
    words
}

/// The word at `at`, little-endian; behind the end are zeros.
#[inline]
fn word(bytes: &[u8], at: usize) -> u64 {
    if let Some(word) = bytes.get(at..).and_then(<[u8]>::first_chunk) {
        return u64::from_le_bytes(*word);
    }
    match bytes.last_chunk() {
        _ if at >= bytes.len() => 0,
        Some(word) => u64::from_le_bytes(*word) >> (8 * (at + 8 - bytes.len())),
        None => bytes[at..].iter().rev().fold(0, |word, byte| word << 8 | u64::from(*byte)),
    }
}
