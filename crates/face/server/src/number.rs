//! Integers in decimal, as requests and values hold them.

/// The integer that `text` is the one decimal form of: no sign but `-`, no leading zero, no space.
/// So a value that is read as a number and written back is the same value.
#[inline]
pub(crate) fn parse_i64(text: &[u8]) -> Option<i64> {
    let (negative, digits) = match text {
        [b'-', digits @ ..] => (true, digits),
        digits => (false, digits),
    };
    match digits {
        [b'0'] if !negative => return Some(0),
        [b'1'..=b'9', ..] if digits.len() <= 19 => {}
        _ => return None,
    }
    let mut magnitude = 0u64;
    for digit in digits {
        if !digit.is_ascii_digit() {
            return None;
        }
        // 19 digits fit: 10^19 - 1 < 2^64.
        magnitude = magnitude * 10 + u64::from(digit - b'0');
    }
    if negative { 0i64.checked_sub_unsigned(magnitude) } else { i64::try_from(magnitude).ok() }
}

/// A decimal number on the stack.
pub(crate) struct Decimal {
    digits: [u8; 20],
    start: usize,
}

impl Decimal {
    /// `number` in decimal.
    #[inline]
    pub(crate) fn new(number: i64) -> Self {
        let mut decimal = Self::unsigned(number.unsigned_abs());
        if number < 0 {
            decimal.start -= 1;
            decimal.digits[decimal.start] = b'-';
        }
        decimal
    }

    /// `number` in decimal.
    #[inline]
    pub(crate) fn unsigned(mut number: u64) -> Self {
        let mut decimal = Self { digits: [0; 20], start: 20 };
        loop {
            decimal.start -= 1;
            decimal.digits[decimal.start] = b'0' + (number % 10) as u8;
            number /= 10;
            if number == 0 {
                return decimal;
            }
        }
    }

    #[inline]
    pub(crate) fn as_bytes(&self) -> &[u8] {
        &self.digits[self.start..]
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn only_the_canonical_form_is_a_number() {
        for text in ["", "-", "+1", "01", "-0", " 1", "1 ", "1.0", "0x1", "00", "--1"] {
            assert_eq!(parse_i64(text.as_bytes()), None, "{text:?}");
        }
        assert_eq!(parse_i64(b"9223372036854775807"), Some(i64::MAX));
        assert_eq!(parse_i64(b"9223372036854775808"), None);
        assert_eq!(parse_i64(b"-9223372036854775808"), Some(i64::MIN));
        assert_eq!(parse_i64(b"-9223372036854775809"), None);
        assert_eq!(parse_i64(b"99999999999999999999"), None);
    }

    proptest! {
        #[test]
        fn numbers_survive_their_decimal_form(number: i64, unsigned: u64) {
            prop_assert_eq!(parse_i64(Decimal::new(number).as_bytes()), Some(number));
            let (text, decimal) = (unsigned.to_string(), Decimal::unsigned(unsigned));
            prop_assert_eq!(text.as_bytes(), decimal.as_bytes());
        }
    }
}
