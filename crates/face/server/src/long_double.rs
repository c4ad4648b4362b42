//! Extended-precision numbers: a 64-bit mantissa, as x87's `long double` has.
//!
//! INCRBYFLOAT adds such numbers and answers with 17 digits behind the point, trailing zeros dropped. With the 11 bits
//! that a `double` lacks, 3.0 + 1.1 is 4.1 and not 4.10000000000000009. `rustc_apfloat` has the arithmetic: text to
//! number and sum are each exact and rounded once, to nearest, ties to even. Numbers are written here, since that
//! crate rounds ties of decimal digits up, and C's `printf`, whose digits Redis answers with, to even.

use std::cmp::Ordering;

use rustc_apfloat::ieee::X87DoubleExtended;
use rustc_apfloat::{Float, Round, Status, StatusAnd};

/// A number that is finite, and zero or normal.
#[derive(Debug, Clone, Copy, PartialEq, PartialOrd)]
pub(crate) struct LongDouble(X87DoubleExtended);

/// The longest text taken for a number, in bytes.
const TEXT_LEN_MAX: usize = 5 * 1024;
/// Decimal exponents beyond it are out of range with any digits, which are fewer.
const DECIMAL_EXPONENT_MAX: i64 = 10_100;
/// Digits behind the point in text.
const FRACTION_DIGITS: u32 = 17;
/// Bits of the mantissa, the highest one included.
const MANTISSA_BITS: i32 = 64;
/// More than there are digits in the largest number.
const DIGITS_MAX: usize = 5_000;

impl LongDouble {
    pub(crate) const ZERO: Self = Self(X87DoubleExtended::ZERO);

    /// The largest number.
    pub(crate) fn max() -> Self {
        Self(X87DoubleExtended::largest())
    }

    /// Reads a decimal number: sign, digits with or without a point, exponent; or a hexadecimal one, as C's `strtold`
    /// does. `None` if `text` is not a number, or out of range.
    pub(crate) fn parse(text: &[u8]) -> Option<Self> {
        if text.len() >= TEXT_LEN_MAX {
            return None;
        }
        let unsigned = text.strip_prefix(b"-").or(text.strip_prefix(b"+")).unwrap_or(text);
        if let [b'0', b'x' | b'X', digits @ ..] = unsigned {
            return Self::parse_hexadecimal(digits, text[0] == b'-');
        }
        let mut parts = unsigned.splitn(2, |byte| matches!(byte, b'e' | b'E'));
        let mut digits = parts.next()?.splitn(2, |byte| *byte == b'.');
        let (whole, fraction) = (digits.next()?, digits.next().unwrap_or_default());
        let exponent = parts.next().map_or(Some(0), parse_exponent)?;
        let mut all = whole.iter().chain(fraction);
        if whole.len() + fraction.len() == 0 || !all.all(u8::is_ascii_digit) {
            return None;
        }
        if whole.iter().chain(fraction).all(|digit| *digit == b'0') {
            let zero = Self::ZERO.0;
            return Some(Self(if text[0] == b'-' { -zero } else { zero }));
        }
        if (exponent - fraction.len() as i64).abs() > DECIMAL_EXPONENT_MAX {
            return None;
        }
        let text = str::from_utf8(text).ok()?;
        Self::finite(X87DoubleExtended::from_str_r(text, Round::NearestTiesToEven).ok()?)
    }

    /// The sum, or `None` if it is out of range.
    pub(crate) fn add(self, other: Self) -> Option<Self> {
        match (self.0.is_zero(), other.0.is_zero()) {
            (true, _) => Some(other),
            (_, true) => Some(self),
            _ => Self::finite(self.0 + other.0),
        }
    }

    /// Reads a hexadecimal number behind its `0x`: digits with or without a point, and maybe `p` and a binary exponent.
    fn parse_hexadecimal(text: &[u8], is_negative: bool) -> Option<Self> {
        let mut parts = text.splitn(2, |byte| matches!(byte, b'p' | b'P'));
        let digits = parts.next()?;
        let exponent = parts.next().map_or(Some(0), parse_exponent)?;
        let is_digit = |byte: &u8| byte.is_ascii_hexdigit() || *byte == b'.';
        let points = digits.iter().filter(|byte| **byte == b'.').count();
        if points > 1 || points == digits.len() || !digits.iter().all(is_digit) {
            return None;
        }
        let number = match digits.iter().all(|byte| matches!(byte, b'0' | b'.')) {
            true => Self::ZERO,
            false => {
                let text = format!("0x{}p{exponent}", str::from_utf8(digits).ok()?);
                let rounded = X87DoubleExtended::from_str_r(&text, Round::NearestTiesToEven);
                Self::finite(rounded.ok()?)?
            }
        };
        Some(if is_negative { number.negated() } else { number })
    }

    /// The number with the other sign.
    pub(crate) fn negated(self) -> Self {
        Self(-self.0)
    }

    fn finite(rounded: StatusAnd<X87DoubleExtended>) -> Option<Self> {
        let lost = Status::OVERFLOW | Status::UNDERFLOW;
        let is_in_range = !rounded.status.intersects(lost) && !rounded.value.is_denormal();
        is_in_range.then_some(Self(rounded.value))
    }

    /// Returns the number with 17 digits behind the point at most, without trailing zeros.
    pub(crate) fn to_text(self) -> String {
        let exponent = if self.0.is_zero() { 0 } else { self.0.ilogb() + 1 - MANTISSA_BITS };
        let magnitude = self.0.abs();
        let (whole, fraction) = if exponent >= 0 {
            // A whole number, and all of its digits.
            (format!("{magnitude:DIGITS_MAX$.DIGITS_MAX$}"), 0)
        } else {
            let mantissa = magnitude.to_bits() as u64;
            // 64 bits times 10^17 (57 bits) fit.
            let scale = 10u128.pow(FRACTION_DIGITS);
            let scaled = shift_right_rounded(u128::from(mantissa) * scale, exponent.unsigned_abs());
            ((scaled / scale).to_string(), scaled % scale)
        };
        let text = format!("{whole}.{fraction:017}");
        let text = text.trim_end_matches('0').trim_end_matches('.');
        if self.0.is_negative() && text != "0" { format!("-{text}") } else { text.to_owned() }
    }
}

fn parse_exponent(text: &[u8]) -> Option<i64> {
    let digits = text.strip_prefix(b"-").or(text.strip_prefix(b"+")).unwrap_or(text);
    if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let magnitude = digits.iter().fold(0i64, |sum, digit| {
        (sum * 10 + i64::from(digit - b'0')).min(DECIMAL_EXPONENT_MAX * 2)
    });
    Some(if text[0] == b'-' { -magnitude } else { magnitude })
}

fn shift_right_rounded(number: u128, shift: u32) -> u128 {
    let Some(kept) = number.checked_shr(shift) else { return 0 };
    let rest = number - (kept << shift);
    let half = 1u128 << (shift - 1);
    match rest.cmp(&half) {
        Ordering::Less => kept,
        Ordering::Equal => kept + (kept & 1),
        Ordering::Greater => kept + 1,
    }
}
#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn sum(a: &str, b: &str) -> String {
        let parse = |text: &str| LongDouble::parse(text.as_bytes()).unwrap();
        parse(a).add(parse(b)).unwrap().to_text()
    }

    #[test]
    fn sums_are_what_extended_precision_gives() {
        for (a, b, expected) in [
            ("3.0", "1.1", "4.1"),
            ("0", "3.0e3", "3000"),
            ("5.0e3", "2.0e2", "5200"),
            ("10.50", "0.1", "10.6"),
            ("0x1p3", "0X.8", "8.5"),
            ("0x10", "-0xAp-1", "11"),
            ("0x0.0p5", "0x1.", "1"),
            ("17179869184", "1.5", "17179869185.5"),
            ("1", "-1", "0"),
            ("-0", "-0", "0"),
            ("1", "1e-17", "1.00000000000000001"),
            ("1e-18", "0", "0"),
            ("-1.1", "0.2", "-0.9"),
            ("1e19", "1", "10000000000000000001"),
            ("1e20", "1", "100000000000000000000"),
            ("18446744073709551615", "1", "18446744073709551616"),
            ("1e30", "1", "1000000000000000000024696061952"),
            (".5", "5.", "5.5"),
            ("0.1", "0.2", "0.3"),
            ("9.99999999999999999", "0", "9.99999999999999999"),
        ] {
            assert_eq!(sum(a, b), expected, "{a} + {b}");
        }
    }

    #[test]
    fn what_is_no_number_or_out_of_range_is_refused() {
        let long = "1".repeat(TEXT_LEN_MAX);
        for text in [
            "",
            "-",
            ".",
            "e5",
            "1e",
            "1e+",
            " 1",
            "1 ",
            "1x",
            "--1",
            "nan",
            "1e5000",
            "1e-5000",
            "1e99999999999999999999",
            "1.2.3",
            &long,
        ] {
            assert_eq!(LongDouble::parse(text.as_bytes()), None, "{text:?}");
        }
        let largest = LongDouble::parse(b"1e4932").unwrap();
        assert!(largest.to_text().len() == 4933);
        assert_eq!(largest.add(largest), None);
    }

    proptest! {
        #[test]
        fn integers_add_as_integers(a: i32, b: i32) {
            prop_assert_eq!(sum(&a.to_string(), &b.to_string()),
                            (i64::from(a) + i64::from(b)).to_string());
        }

        #[test]
        fn a_double_survives_within_its_own_precision(number in -1e9..1e9f64) {
            // All digits that the double has: a shortened text may lie between two doubles, and be
            // rounded to the other one.
            let text = LongDouble::parse(format!("{number:.1074}").as_bytes()).unwrap().to_text();
            let back: f64 = text.parse().unwrap();
            prop_assert!((back - number).abs() <= 1e-17);
        }

        #[test]
        fn addition_does_not_depend_on_the_order(a in -1e18..1e18f64, b in -1e3..1e3f64) {
            let (a, b) = (a.to_string(), b.to_string());
            prop_assert_eq!(sum(&a, &b), sum(&b, &a));
        }

        #[test]
        fn any_text_is_a_number_or_refused(text in prop::collection::vec(any::<u8>(), 0..20)) {
            if let Some(number) = LongDouble::parse(&text) {
                prop_assert!(LongDouble::parse(number.to_text().as_bytes()).is_some());
            }
        }
    }
}
