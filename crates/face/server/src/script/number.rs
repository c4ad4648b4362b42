//! Numbers of Lua as text, and as integers of C.

use crate::double;

/// The shortest text that reads as this number, as Redis writes it.
pub(super) fn shortest(number: f64) -> String {
    if number.is_nan() {
        return "nan".to_owned();
    }
    let mut text = Vec::new();
    double::write(&mut text, number);
    String::from_utf8(text).expect("a number is ASCII")
}

/// A number with so many digits, as C's `%.<digits>g` writes it.
pub(super) fn general(number: f64, digits: usize) -> String {
    if !number.is_finite() {
        return shortest(number);
    }
    let digits = digits.max(1);
    let text = format!("{number:.*e}", digits - 1);
    let (mantissa, exponent) = text.split_once('e').unwrap_or((&text, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    let trimmed = |text: &str| match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.').to_owned(),
        false => text.to_owned(),
    };
    if exponent < -4 || exponent >= digits as i32 {
        let mark = if exponent < 0 { '-' } else { '+' };
        return format!("{}e{mark}{:02}", trimmed(mantissa), exponent.abs());
    }
    let decimals = (digits as i32 - 1 - exponent).max(0) as usize;
    trimmed(&format!("{number:.decimals$}"))
}

/// A number without its fraction, as a conversion of C makes it.
pub(super) fn truncated(number: f64) -> i64 {
    let is_in_range = (-9_223_372_036_854_775_808.0..9_223_372_036_854_775_808.0).contains(&number);
    if is_in_range { number as i64 } else { i64::MIN }
}

/// The bits of a number without its fraction, as C makes an integer of it that has no sign if the number has none.
pub(super) fn bits(number: f64) -> u64 {
    const HALF: f64 = (1_u64 << 63) as f64;
    match number >= HALF {
        true => truncated(number - HALF) as u64 ^ 1 << 63,
        false => truncated(number) as u64,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn conversions_are_those_of_c() {
        assert_eq!([1.9, -1.9, 1e30, f64::NAN].map(truncated), [1, -1, i64::MIN, i64::MIN]);
        let (top, nan) = (bits(18_446_744_073_709_549_568.0), bits(f64::NAN));
        assert_eq!((top, nan), (u64::MAX - 2047, 1 << 63));
        assert_eq!([-2.0, f64::INFINITY, 1e30].map(bits), [u64::MAX - 1, 0, 0]);
    }

    #[test]
    fn numbers_are_as_short_as_they_can_be() {
        for (number, text) in [
            (3.1, "3.1"),
            (-0.5, "-0.5"),
            (1e20, "1e+20"),
            (1e17, "100000000000000000"),
            (-9_223_372_036_854_775_808.0, "-9223372036854776000"),
            (1e7, "10000000"),
            (123456.789, "123456.789"),
            (1e-7, "1e-7"),
            (0.001, "0.001"),
            (1.5e-10, "1.5e-10"),
            (0.0, "0"),
            (f64::INFINITY, "inf"),
        ] {
            assert_eq!(shortest(number), text);
        }
    }

    #[test]
    fn numbers_have_so_many_digits() {
        for (number, digits, text) in [
            (3.1, 14, "3.1"),
            (100.0, 14, "100"),
            (1e20, 14, "1e+20"),
            (1e14, 14, "1e+14"),
            (12345678901234.0, 14, "12345678901234"),
            (0.00001, 14, "1e-05"),
            (0.1, 3, "0.1"),
            (2.0 / 3.0, 3, "0.667"),
            (0.0, 14, "0"),
            (-1.25, 14, "-1.25"),
        ] {
            assert_eq!(general(number, digits), text);
        }
    }
}
