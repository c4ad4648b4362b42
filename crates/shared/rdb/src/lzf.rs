//! LZF, the compression of strings.
//!
//! ```text
//! 000lllll                     l + 1 bytes follow as they are
//! lllooooo oooooooo            l + 2 bytes, of those o + 1 back; l is 1 to 6
//! 111ooooo llllllll oooooooo   l + 9 bytes, of those o + 1 back
//! ```

use crate::error::{Defect, defect};

/// How far back bytes are copied from, at most.
const DISTANCE_MAX: usize = 1 << 13;
/// How many bytes one reference copies, at most.
const COPY_LEN_MAX: usize = 255 + 9;
/// How many bytes follow one length as they are, at most.
const LITERALS_MAX: usize = 32;
/// The shortest copy that is worth a reference, in bytes.
const COPY_LEN_MIN: usize = 3;
/// Bits of the index of places by their next three bytes.
const INDEX_BITS: u32 = 13;
/// A reference takes three bytes and copies this many at most, so that no input is this many times longer, decompressed.
const RATIO_MAX: u64 = COPY_LEN_MAX as u64 / 3;

/// Whether `packed_len` bytes can decompress to `len` bytes.
pub(crate) fn is_possible(packed_len: u64, len: u64) -> bool {
    len <= packed_len.saturating_mul(RATIO_MAX)
}

/// The `len` bytes that `packed` decompresses to.
pub(crate) fn decompress(packed: &[u8], len: usize) -> Result<Vec<u8>, Defect> {
    let mut out = Vec::with_capacity(len);
    let mut rest = packed;
    while let Some((&control, after)) = rest.split_first() {
        rest = after;
        let control = usize::from(control);
        if control < LITERALS_MAX {
            let Some((literals, after)) = rest.split_at_checked(control + 1) else {
                return defect("its compressed bytes end too early");
            };
            rest = after;
            out.extend_from_slice(literals);
        } else {
            let mut copied = (control >> 5) + 2;
            if copied == 7 + 2 {
                let Some((&more, after)) = rest.split_first() else {
                    return defect("its compressed bytes end too early");
                };
                (copied, rest) = (copied + usize::from(more), after);
            }
            let Some((&low, after)) = rest.split_first() else {
                return defect("its compressed bytes end too early");
            };
            rest = after;
            let distance = ((control & 31) << 8 | usize::from(low)) + 1;
            let Some(from) = out.len().checked_sub(distance) else {
                return defect("its compressed bytes refer to bytes before its beginning");
            };
            if copied > len - out.len() {
                return defect("it decompresses to more bytes than it says");
            }
            copy_within(&mut out, from, copied);
        }
        if out.len() > len {
            return defect("it decompresses to more bytes than it says");
        }
    }
    if out.len() < len {
        return defect("it decompresses to fewer bytes than it says");
    }
    Ok(out)
}

/// Appends `count` bytes from `from` on; bytes that are appended are copied again if there are not enough.
fn copy_within(out: &mut Vec<u8>, from: usize, count: usize) {
    let mut left = count;
    while left > 0 {
        let step = left.min(out.len() - from);
        out.extend_from_within(from..from + step);
        left -= step;
    }
}

/// `bytes` compressed to at most `len_max` bytes, if that is possible.
pub(crate) fn compress(bytes: &[u8], len_max: usize) -> Option<Vec<u8>> {
    let mut packer = Packer { out: Vec::with_capacity(len_max), literals_from: 0, bytes };
    // The place behind the one that was last seen with these three bytes; 0 if none was.
    let mut seen = vec![0u32; 1 << INDEX_BITS];
    let mut at = 0;
    while at + COPY_LEN_MIN <= bytes.len() {
        let slot = &mut seen[slot_of(&bytes[at..at + COPY_LEN_MIN])];
        let candidate = std::mem::replace(slot, u32::try_from(at + 1).ok()?) as usize;
        let copied = match candidate.checked_sub(1) {
            Some(from) if at - from <= DISTANCE_MAX => common_len(bytes, from, at),
            _ => 0,
        };
        if copied < COPY_LEN_MIN {
            at += 1;
            continue;
        }
        packer.copy(at, at + 1 - candidate, copied);
        at += copied;
        if packer.out.len() > len_max {
            return None;
        }
    }
    packer.literals(bytes.len());
    (packer.out.len() <= len_max).then_some(packer.out)
}

/// The place in the index for three bytes.
fn slot_of(bytes: &[u8]) -> usize {
    let number = u32::from_be_bytes([0, bytes[0], bytes[1], bytes[2]]);
    (number.wrapping_mul(0x9e37_79b1) >> (32 - INDEX_BITS)) as usize
}

/// How many bytes are alike from the two places on, as far as a reference reaches.
fn common_len(bytes: &[u8], from: usize, at: usize) -> usize {
    let pairs = bytes[from..].iter().zip(&bytes[at..]);
    pairs.take(COPY_LEN_MAX).take_while(|(one, other)| one == other).count()
}

struct Packer<'a> {
    bytes: &'a [u8],
    out: Vec<u8>,
    /// Where the bytes begin that are not written yet.
    literals_from: usize,
}

impl Packer<'_> {
    /// Writes the bytes up to `to` as they are.
    fn literals(&mut self, to: usize) {
        for piece in self.bytes[self.literals_from..to].chunks(LITERALS_MAX) {
            self.out.push(piece.len() as u8 - 1);
            self.out.extend_from_slice(piece);
        }
        self.literals_from = to;
    }

    /// Writes the bytes up to `at`, and that the next `len` ones are those `distance` back.
    fn copy(&mut self, at: usize, distance: usize, len: usize) {
        self.literals(at);
        let (distance, len_code) = (distance - 1, len - 2);
        let high = (distance >> 8) as u8;
        if len_code < 7 {
            self.out.push((len_code as u8) << 5 | high);
        } else {
            self.out.extend([7 << 5 | high, (len_code - 7) as u8]);
        }
        self.out.push(distance as u8);
        self.literals_from = at + len;
    }
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn compressed_bytes_come_back(pieces in vec((vec(0..4u8, 1..20), 1..40usize), 0..20)) {
            let bytes: Vec<u8> = pieces.iter().flat_map(|(piece, times)| piece.repeat(*times)).collect();
            let packed = compress(&bytes, bytes.len() * 2 + 2).unwrap();
            prop_assert_eq!(decompress(&packed, bytes.len()).unwrap(), bytes);
        }

        #[test]
        fn any_bytes_decompress_or_are_refused(packed: Vec<u8>, len in 0..1000usize) {
            if let Ok(bytes) = decompress(&packed, len) {
                prop_assert_eq!(bytes.len(), len);
                prop_assert!(is_possible(packed.len() as u64, len as u64));
            }
        }
    }

    #[test]
    fn the_three_kinds_of_pieces_are_read() {
        assert_eq!(decompress(b"\x02abc", 3).unwrap(), b"abc");
        assert_eq!(decompress(b"\x02abc\x20\x02", 6).unwrap(), b"abcabc");
        assert_eq!(decompress(b"\x00a\xe0\x03\x00", 13).unwrap(), [b'a'; 13]);
    }

    #[test]
    fn wrong_bytes_are_refused_with_the_reason() {
        for (packed, len, why) in [
            (&b"\x02ab"[..], 3, "its compressed bytes end too early"),
            (b"\x20", 3, "its compressed bytes end too early"),
            (b"\xe0", 3, "its compressed bytes end too early"),
            (b"\x00a\x20\x01", 4, "its compressed bytes refer to bytes before its beginning"),
            (b"\x00a\x20\x00", 3, "it decompresses to more bytes than it says"),
            (b"\x01ab", 1, "it decompresses to more bytes than it says"),
            (b"\x01ab", 3, "it decompresses to fewer bytes than it says"),
        ] {
            assert_eq!(decompress(packed, len).unwrap_err().to_string(), why);
        }
    }

    #[test]
    fn bytes_that_do_not_get_shorter_are_not_compressed() {
        let bytes: Vec<u8> = (0..=255).collect();
        assert_eq!(compress(&bytes, 252), None);
        assert!(compress(&[7; 1 << 20], 20_000).is_some());
        assert_eq!(compress(b"", 0), Some(vec![]));
    }
}
