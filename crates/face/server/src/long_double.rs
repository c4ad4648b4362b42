//! Extended-precision numbers: a 64-bit mantissa, as x87's `long double` has.
//!
//! INCRBYFLOAT adds such numbers and answers with 17 digits behind the point, trailing zeros dropped. With the 11 bits
//! that a `double` lacks, 3.0 + 1.1 is 4.1 and not 4.10000000000000009. So the arithmetic is done here: text to
//! mantissa, sum, and mantissa to text are each exact and rounded once, to nearest, ties to even.

use std::cmp::Ordering;

use crate::natural::Natural;

/// `mantissa * 2^exponent`, negated or not; zero has mantissa 0, all others the top bit set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct LongDouble {
    negative: bool,
    mantissa: u64,
    exponent: i32,
}

/// Above, a number is infinite: `2^16384` is the first that does not fit.
const EXPONENT_MAX: i32 = 16383 - 63;
/// Below, a number has no normal form, and is taken for out of range.
const EXPONENT_MIN: i32 = -16382 - 63;
/// The longest text taken for a number, in bytes.
const TEXT_LEN_MAX: usize = 5 * 1024;
/// Decimal exponents beyond it are out of range with any digits, which are fewer.
const DECIMAL_EXPONENT_MAX: i64 = 10_100;
/// Digits behind the point in text.
const FRACTION_DIGITS: u32 = 17;

impl LongDouble {
    pub(crate) const ZERO: Self = Self { negative: false, mantissa: 0, exponent: 0 };

    /// Reads a decimal number: sign, digits with or without a point, exponent. `None` if `text` is not a number, or out
    /// of range.
    pub(crate) fn parse(text: &[u8]) -> Option<Self> {
        if text.len() >= TEXT_LEN_MAX {
            return None;
        }
        let (negative, text) = match text {
            [b'-', rest @ ..] => (true, rest),
            [b'+', rest @ ..] => (false, rest),
            rest => (false, rest),
        };
        let (digits, exponent) = match text.iter().position(|byte| matches!(byte, b'e' | b'E')) {
            Some(at) => (&text[..at], parse_exponent(&text[at + 1..])?),
            None => (text, 0),
        };
        let (whole, fraction) = match digits.iter().position(|&byte| byte == b'.') {
            Some(at) => (&digits[..at], &digits[at + 1..]),
            None => (digits, &[][..]),
        };
        if whole.is_empty() && fraction.is_empty() {
            return None;
        }
        let mut natural = Natural::zero();
        for digit in whole.iter().chain(fraction) {
            if !digit.is_ascii_digit() {
                return None;
            }
            natural.multiply_add(10, u32::from(digit - b'0'));
        }
        if natural.is_zero() {
            return Some(Self { negative, ..Self::ZERO });
        }
        let exponent = exponent - fraction.len() as i64;
        if exponent.abs() > DECIMAL_EXPONENT_MAX {
            return None;
        }
        let power = Natural::power_of_ten(exponent.unsigned_abs() as u32);
        if exponent >= 0 {
            natural.multiply(&power);
            Self::round(negative, &natural, 0, false)
        } else {
            // Shifted so that the quotient has 66 or 67 bits: a mantissa, and the bits that round it.
            let mut power = power;
            let shift = 66 + power.bits() as i32 - natural.bits() as i32;
            let shifted = if shift >= 0 { &mut natural } else { &mut power };
            shifted.shift_left(shift.unsigned_abs() as usize);
            let (quotient, inexact) = natural.divide(&power);
            Self::round(negative, &quotient, -shift, inexact)
        }
    }

    /// The sum, or `None` if it is out of range.
    pub(crate) fn add(self, other: Self) -> Option<Self> {
        if self.mantissa == 0 {
            return Some(other);
        }
        if other.mantissa == 0 {
            return Some(self);
        }
        let (high, low) =
            if self.exponent >= other.exponent { (self, other) } else { (other, self) };
        // 64 bits below the higher number's mantissa hold the lower one, or decide on which side of a tie it lies: the
        // bits that fall off their end become the last, sticky bit.
        let distance = (high.exponent - low.exponent) as u32;
        let big = u128::from(high.mantissa) << 62;
        let wide = u128::from(low.mantissa) << 62;
        let small = wide.checked_shr(distance).unwrap_or(0);
        let lost = distance > 62 && (distance >= 128 || (small << distance) != wide);
        let small = small | u128::from(lost);
        let (negative, magnitude) = if high.negative == low.negative {
            (high.negative, big + small)
        } else {
            match big.cmp(&small) {
                Ordering::Greater => (high.negative, big - small),
                Ordering::Less => (low.negative, small - big),
                Ordering::Equal => return Some(Self::ZERO),
            }
        };
        Self::round(negative, &Natural::from(magnitude), high.exponent - 62, false)
    }

    /// Returns the number with 17 digits behind the point at most, without trailing zeros.
    pub(crate) fn to_text(self) -> String {
        let (whole, fraction) = if self.exponent >= 0 {
            let mut whole = Natural::from(u128::from(self.mantissa));
            whole.shift_left(self.exponent as usize);
            (whole.to_decimal(), 0)
        } else {
            // 64 bits times 10^17 (57 bits) fit.
            let scale = 10u128.pow(FRACTION_DIGITS);
            let scaled = shift_right_rounded(
                u128::from(self.mantissa) * scale,
                self.exponent.unsigned_abs(),
            );
            ((scaled / scale).to_string(), scaled % scale)
        };
        let text = format!("{whole}.{fraction:017}");
        let text = text.trim_end_matches('0').trim_end_matches('.');
        if self.negative && text != "0" { format!("-{text}") } else { text.to_owned() }
    }

    /// `natural * 2^exponent`, a little more if `inexact`, rounded to 64 bits.
    fn round(negative: bool, natural: &Natural, exponent: i32, inexact: bool) -> Option<Self> {
        let bits = natural.bits();
        let dropped = bits.saturating_sub(64);
        let mut exponent = exponent.checked_add(i32::try_from(dropped).ok()?)?;
        let mut mantissa = natural.bits_from(dropped);
        if bits < 64 {
            mantissa <<= 64 - bits;
            exponent -= (64 - bits) as i32;
        }
        let half = dropped > 0 && natural.bit(dropped - 1);
        let below_half = inexact || (dropped > 1 && natural.any_bit_below(dropped - 1));
        if half && (below_half || mantissa & 1 == 1) {
            match mantissa.checked_add(1) {
                Some(rounded) => mantissa = rounded,
                None => (mantissa, exponent) = (1 << 63, exponent + 1),
            }
        }
        let in_range = (EXPONENT_MIN..=EXPONENT_MAX).contains(&exponent);
        in_range.then_some(Self { negative, mantissa, exponent })
    }
}

fn parse_exponent(text: &[u8]) -> Option<i64> {
    let (negative, digits) = match text {
        [b'-', rest @ ..] => (true, rest),
        [b'+', rest @ ..] => (false, rest),
        rest => (false, rest),
    };
    if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let magnitude = digits.iter().fold(0i64, |sum, digit| {
        (sum * 10 + i64::from(digit - b'0')).min(DECIMAL_EXPONENT_MAX * 2)
    });
    Some(if negative { -magnitude } else { magnitude })
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
