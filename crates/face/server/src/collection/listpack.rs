//! Bytes that entries take in a listpack, the packed form of Redis: up to which size a list is packed depends on them, and
//! clients see the choice in OBJECT ENCODING.
//!
//! An entry is its head, which says its kind and length, the bytes of a text, and the length of both, so that a listpack
//! can be read from its end. An integer in its decimal form is stored as a number, in as few bytes as it needs.

use crate::number::parse_i64;

/// Bytes before the first entry, and the mark of the end.
pub(crate) const EMPTY: usize = 7;

/// Bytes of an entry.
pub(crate) fn entry_len(entry: &[u8]) -> usize {
    let len = match (entry.len() <= 20).then(|| parse_i64(entry)).flatten() {
        Some(number) => integer_len(number),
        None => match entry.len() {
            len @ ..64 => 1 + len,
            len @ 64..4096 => 2 + len,
            len => 5 + len,
        },
    };
    len + back_len(len)
}

fn integer_len(number: i64) -> usize {
    let fits = |bits: u32| number << (64 - bits) >> (64 - bits) == number;
    match number {
        0..128 => 1,
        _ if fits(13) => 2,
        _ if fits(16) => 3,
        _ if fits(24) => 4,
        _ if fits(32) => 5,
        _ => 9,
    }
}

/// Bytes of the length behind an entry: 7 bits in each.
fn back_len(len: usize) -> usize {
    match len {
        ..128 => 1,
        128..16_383 => 2,
        16_383..2_097_151 => 3,
        2_097_151..268_435_455 => 4,
        _ => 5,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_take_what_their_kind_does() {
        for (entry, len) in [
            ("", 2),
            ("0", 2),
            ("127", 2),
            ("128", 3),
            ("-1", 3),
            ("4095", 3),
            ("4096", 4),
            ("-32768", 4),
            ("32768", 5),
            ("8388608", 6),
            ("2147483648", 10),
            ("007", 5),
            ("abc", 5),
        ] {
            assert_eq!(entry_len(entry.as_bytes()), len, "{entry}");
        }
        assert_eq!(entry_len(&[b'x'; 63]), 65);
        assert_eq!(entry_len(&[b'x'; 64]), 67);
        assert_eq!(entry_len(&[b'x'; 4096]), 4096 + 5 + 2);
    }
}
