//! The ids of a stream's entries: a time in milliseconds, and a number that tells apart what came in the same one.

use std::fmt;

use crate::number::parse_i64;

/// The id of an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub(crate) struct StreamId {
    pub(crate) ms: u64,
    pub(crate) seq: u64,
}

/// The id that an entry is to have, as XADD names it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NewId {
    /// `*`: the time, or what follows the last id.
    Auto,
    /// `ms-*`: the next id of a millisecond.
    OfTime(u64),
    Whole(StreamId),
}

/// Longer words are no ids.
const WORD_LEN_MAX: usize = 127;

impl StreamId {
    /// No entry has it, and all have larger ones.
    pub(crate) const MIN: Self = Self { ms: 0, seq: 0 };
    pub(crate) const MAX: Self = Self { ms: u64::MAX, seq: u64::MAX };

    /// The smallest larger id.
    pub(crate) fn next(self) -> Option<Self> {
        match self.seq.checked_add(1) {
            Some(seq) => Some(Self { seq, ..self }),
            None => self.ms.checked_add(1).map(|ms| Self { ms, seq: 0 }),
        }
    }

    /// The largest smaller id.
    pub(crate) fn previous(self) -> Option<Self> {
        match self.seq.checked_sub(1) {
            Some(seq) => Some(Self { seq, ..self }),
            None => self.ms.checked_sub(1).map(|ms| Self { ms, seq: u64::MAX }),
        }
    }

    /// As it is stored: the order of the bytes is that of the ids.
    pub(crate) fn to_bytes(self) -> [u8; 16] {
        (u128::from(self.ms) << 64 | u128::from(self.seq)).to_be_bytes()
    }

    pub(crate) fn from_bytes(bytes: [u8; 16]) -> Self {
        let both = u128::from_be_bytes(bytes);
        Self { ms: (both >> 64) as u64, seq: both as u64 }
    }

    /// The id that a word is; `seq` is the number of one that has none.
    pub(crate) fn parse(word: &[u8], seq: u64) -> Option<Self> {
        match read(word)? {
            (ms, None) => Some(Self { ms, seq }),
            (ms, Some(text)) => Some(Self { ms, seq: read_number(text)? }),
        }
    }

    /// [`StreamId::parse`], where `-` is the smallest and `+` the largest id.
    pub(crate) fn parse_bound(word: &[u8], seq: u64) -> Option<Self> {
        match crate::failure::shown(word) {
            _ if word.len() > WORD_LEN_MAX => None,
            b"-" => Some(Self::MIN),
            b"+" => Some(Self::MAX),
            word => Self::parse(word, seq),
        }
    }
}

impl NewId {
    /// The id that a word of XADD is.
    pub(crate) fn parse(word: &[u8]) -> Option<Self> {
        if word == b"*" {
            return Some(Self::Auto);
        }
        match read(word)? {
            (ms, None) => Some(Self::Whole(StreamId { ms, seq: 0 })),
            (ms, Some(b"*")) => Some(Self::OfTime(ms)),
            (ms, Some(text)) => Some(Self::Whole(StreamId { ms, seq: read_number(text)? })),
        }
    }
}

impl fmt::Display for StreamId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.ms, self.seq)
    }
}

/// The time of an id, and the text behind its bar. Bytes behind a zero byte are passed over, as by Redis.
fn read(word: &[u8]) -> Option<(u64, Option<&[u8]>)> {
    if word.len() > WORD_LEN_MAX {
        return None;
    }
    let word = crate::failure::shown(word);
    match word.iter().position(|&byte| byte == b'-') {
        Some(bar) => Some((read_number(&word[..bar])?, Some(&word[bar + 1..]))),
        None => Some((read_number(word)?, None)),
    }
}

/// A number as C reads it, which Redis has do so: with spaces and a sign before it, and with leading zeros. A negative
/// one is counted from 2^64 down, unless it is written as Redis itself would.
fn read_number(text: &[u8]) -> Option<u64> {
    if let Some(number) = parse_i64(text) {
        return u64::try_from(number).ok();
    }
    let is_space = |byte: &u8| matches!(byte, b' ' | b'\t'..=b'\r');
    let text = &text[text.iter().take_while(|byte| is_space(byte)).count()..];
    let (is_negative, digits) = match text {
        [b'-', digits @ ..] => (true, digits),
        [b'+', digits @ ..] => (false, digits),
        digits => (false, digits),
    };
    if digits.is_empty() {
        return None;
    }
    let number = digits.iter().try_fold(0_u64, |number, digit| {
        let digit = digit.is_ascii_digit().then(|| u64::from(digit - b'0'))?;
        number.checked_mul(10)?.checked_add(digit)
    })?;
    Some(if is_negative { number.wrapping_neg() } else { number })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn id(ms: u64, seq: u64) -> StreamId {
        StreamId { ms, seq }
    }

    proptest! {
        #[test]
        fn ids_survive_their_forms(ms: u64, seq: u64, other: (u64, u64)) {
            let one = id(ms, seq);
            let other = id(other.0, other.1);
            prop_assert_eq!(StreamId::from_bytes(one.to_bytes()), one);
            prop_assert_eq!(StreamId::parse(one.to_string().as_bytes(), 7), Some(one));
            prop_assert_eq!(one.cmp(&other), one.to_bytes().cmp(&other.to_bytes()));
            if let Some(next) = one.next() {
                prop_assert_eq!(next.previous(), Some(one));
            }
        }
    }

    #[test]
    fn words_are_read_as_by_redis() {
        for (word, expected) in [
            ("5", Some(id(5, 9))),
            ("5-3", Some(id(5, 3))),
            ("05-003", Some(id(5, 3))),
            (" 5-+3", Some(id(5, 3))),
            ("5-3\0x", Some(id(5, 3))),
            ("18446744073709551615-18446744073709551615", Some(StreamId::MAX)),
            ("18446744073709551616-0", None),
            ("5--3", None),
            ("5--03", Some(id(5, 3_u64.wrapping_neg()))),
            ("5-", None),
            ("-5", None),
            ("-", None),
            ("+", None),
            ("5-*", None),
            ("", None),
            ("x", None),
            ("5 ", None),
        ] {
            assert_eq!(StreamId::parse(word.as_bytes(), 9), expected, "{word:?}");
        }
        assert_eq!(StreamId::parse_bound(b"-", 9), Some(StreamId::MIN));
        assert_eq!(StreamId::parse_bound(b"+", 9), Some(StreamId::MAX));
        assert_eq!(StreamId::parse_bound(b"5", 9), Some(id(5, 9)));
        assert_eq!(StreamId::parse(&[b'0'; 128], 0), None);
        assert_eq!(NewId::parse(b"*"), Some(NewId::Auto));
        assert_eq!(NewId::parse(b"5-*"), Some(NewId::OfTime(5)));
        assert_eq!(NewId::parse(b"5"), Some(NewId::Whole(id(5, 0))));
        assert_eq!(NewId::parse(b"-"), None);
    }

    #[test]
    fn the_ends_have_no_neighbours() {
        assert_eq!((StreamId::MIN.previous(), StreamId::MAX.next()), (None, None));
        assert_eq!(id(4, u64::MAX).next(), Some(id(5, 0)));
    }
}
