//! Double-precision numbers as text: scores, weights and coordinates, as requests and replies hold them.
//!
//! Texts are read as C's `strtod` reads them, and written in the shortest form that is read back as the same number, with
//! the choice of plain and scientific notation that Redis 7.2 makes.

use rustc_apfloat::ieee::Double;
use rustc_apfloat::{Float, Round, Status};

use crate::number::Decimal;

/// The number that all of a text is, as a value or a score: no space before it, and no number beyond the range of doubles.
pub(crate) fn parse(text: &[u8]) -> Option<f64> {
    if text.first().is_none_or(|&byte| is_space(byte)) {
        return None;
    }
    let read = read(text);
    (read.len == text.len() && read.is_in_range && !read.number.is_nan()).then_some(read.number)
}

/// The number that a text is which ends at its first zero byte, as an end of a range. Nothing is 0 there, spaces may come
/// first, and a number beyond the range of doubles is infinite.
pub(crate) fn parse_bound(text: &[u8]) -> Option<f64> {
    let text = text.split(|&byte| byte == 0).next().unwrap_or_default();
    let read = read(text);
    (read.len == text.len() && !read.number.is_nan()).then_some(read.number)
}

/// The number by which SORT orders a text: [`parse_bound`] of one within the range of doubles.
pub(crate) fn parse_weight(text: &[u8]) -> Option<f64> {
    let text = text.split(|&byte| byte == 0).next().unwrap_or_default();
    let read = read(text);
    (read.len == text.len() && read.is_in_range && !read.number.is_nan()).then_some(read.number)
}

/// The number with which a text begins, and its length: what C's `strtod` makes of it, whatever follows and however large it
/// is.
pub(crate) fn prefix(text: &[u8]) -> Option<(f64, usize)> {
    let read = read(text);
    (read.len > 0).then_some((read.number, read.len))
}

fn is_space(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t'..=b'\r')
}

/// The number with which a text begins.
struct Read {
    /// 0 if there is none.
    number: f64,
    /// Bytes of it, with the spaces before it; 0 if there is none.
    len: usize,
    /// Whether it is neither too large for a double nor too small.
    is_in_range: bool,
}

fn read(text: &[u8]) -> Read {
    let none = Read { number: 0.0, len: 0, is_in_range: true };
    let mut at = text.iter().take_while(|&&byte| is_space(byte)).count();
    let is_negative = text.get(at) == Some(&b'-');
    if matches!(text.get(at), Some(b'+' | b'-')) {
        at += 1;
    }
    let rest = &text[at..];
    let begins = |word: &str| {
        rest.get(..word.len()).is_some_and(|start| start.eq_ignore_ascii_case(word.as_bytes()))
    };
    let signed = |number: f64| if is_negative { -number } else { number };
    if begins("infinity") || begins("inf") {
        let len = at + if begins("infinity") { 8 } else { 3 };
        return Read { number: signed(f64::INFINITY), len, is_in_range: true };
    }
    if begins("nan") {
        return Read { number: f64::NAN, len: at + 3, is_in_range: true };
    }
    let is_hexadecimal = begins("0x") && mantissa(&rest[2..], true).1;
    let start = if is_hexadecimal { 2 } else { 0 };
    let (digits, has_digits) = mantissa(&rest[start..], is_hexadecimal);
    if !has_digits {
        return none;
    }
    let mantissa_end = start + digits;
    let len = mantissa_end + exponent(&rest[mantissa_end..], is_hexadecimal);
    let Ok(number_text) = std::str::from_utf8(&rest[..len]) else { return none };
    let is_zero = !rest[start..mantissa_end].iter().any(|byte| !matches!(byte, b'0' | b'.'));
    let number = match is_hexadecimal {
        true => hexadecimal(number_text, len > mantissa_end),
        false => number_text.parse().unwrap_or(0.0),
    };
    let is_in_range = number.is_finite() && (is_zero || number != 0.0);
    Read { number: signed(number), len: at + len, is_in_range }
}

/// Bytes of digits with at most one point, and whether there is a digit.
fn mantissa(text: &[u8], is_hexadecimal: bool) -> (usize, bool) {
    let is_digit = |byte: &u8| match is_hexadecimal {
        true => byte.is_ascii_hexdigit(),
        false => byte.is_ascii_digit(),
    };
    let whole = text.iter().take_while(|byte| is_digit(byte)).count();
    if text.get(whole) != Some(&b'.') {
        return (whole, whole > 0);
    }
    let part = text[whole + 1..].iter().take_while(|byte| is_digit(byte)).count();
    (whole + 1 + part, whole + part > 0)
}

/// Bytes of an exponent, if there is one.
fn exponent(text: &[u8], is_hexadecimal: bool) -> usize {
    let mark = if is_hexadecimal { b'p' } else { b'e' };
    if text.first().map(u8::to_ascii_lowercase) != Some(mark) {
        return 0;
    }
    let sign = usize::from(matches!(text.get(1), Some(b'+' | b'-')));
    match text[1 + sign..].iter().take_while(|byte| byte.is_ascii_digit()).count() {
        0 => 0,
        digits => 1 + sign + digits,
    }
}

fn hexadecimal(text: &str, has_exponent: bool) -> f64 {
    let text = if has_exponent { text.to_owned() } else { format!("{text}p0") };
    let read = Double::from_str_r(&text, Round::NearestTiesToEven);
    match read {
        Ok(read) if read.status.contains(Status::OVERFLOW) => f64::INFINITY,
        Ok(read) => f64::from_bits(read.value.to_bits() as u64),
        Err(_) => 0.0,
    }
}

/// Appends a number, which is no NaN, in the shortest form.
pub(crate) fn write(out: &mut Vec<u8>, number: f64) {
    if let Some(integer) = integer(number) {
        return out.extend_from_slice(Decimal::new(integer).as_bytes());
    }
    if number.is_infinite() {
        return out.extend_from_slice(if number > 0.0 { b"inf" } else { b"-inf" });
    }
    if number == 0.0 {
        return out.extend_from_slice(b"-0");
    }
    let (digits, power) = digits(&format!("{number:e}"));
    if number < 0.0 {
        out.push(b'-');
    }
    // The number is its digits, as an integer, times this power of ten; the magnitude is that of its first digit.
    let last = power - (digits.len() as i32 - 1);
    let magnitude = power.abs();
    let count = digits.len() as i32;
    if last >= 0 && magnitude < count + 7 {
        out.extend_from_slice(&digits);
        out.resize(out.len() + last as usize, b'0');
    } else if last < 0 && (last > -7 || magnitude < 4) {
        write_plain(out, &digits, count + last);
    } else {
        write_scientific(out, &digits, power, 1);
    }
}

/// A number as an integer, if it is one in the middle half of their range, and no negative zero.
fn integer(number: f64) -> Option<i64> {
    const HALF: f64 = (1_u64 << 62) as f64;
    let is_one = (-HALF..=HALF).contains(&number) && number.fract() == 0.0;
    (is_one && !(number == 0.0 && number.is_sign_negative())).then_some(number as i64)
}

/// The digits of a number in scientific notation, without its sign, and the power of ten of the first one.
fn digits(scientific: &str) -> (Vec<u8>, i32) {
    let (mantissa, power) = scientific.split_once('e').unwrap_or((scientific, "0"));
    let digits = mantissa.bytes().filter(u8::is_ascii_digit).collect();
    (digits, power.parse().unwrap_or(0))
}

/// Writes digits with a point behind the first `whole` ones; if that is not positive, with zeros first.
fn write_plain(out: &mut Vec<u8>, digits: &[u8], whole: i32) {
    match usize::try_from(whole) {
        Ok(whole @ 1..) => {
            out.extend_from_slice(&digits[..whole]);
            out.push(b'.');
            out.extend_from_slice(&digits[whole..]);
        }
        _ => {
            out.extend_from_slice(b"0.");
            out.resize(out.len() + whole.unsigned_abs() as usize, b'0');
            out.extend_from_slice(digits);
        }
    }
}

/// Writes digits with a point behind the first one, and a power of ten with at least so many digits.
fn write_scientific(out: &mut Vec<u8>, digits: &[u8], power: i32, power_digits: usize) {
    out.push(digits[0]);
    if digits.len() > 1 {
        out.push(b'.');
        out.extend_from_slice(&digits[1..]);
    }
    out.extend_from_slice(if power < 0 { b"e-" } else { b"e+" });
    out.extend_from_slice(format!("{:0power_digits$}", power.unsigned_abs()).as_bytes());
}

/// Appends a number, which is no NaN, with 17 significant digits, as C's `%.17g` does.
pub(crate) fn write_17_digits(out: &mut Vec<u8>, number: f64) {
    if number == 0.0 || number.is_infinite() {
        return write(out, number);
    }
    let (mut digits, power) = digits(&format!("{number:.16e}"));
    digits.truncate(digits.iter().rposition(|&digit| digit != b'0').map_or(1, |last| last + 1));
    if number < 0.0 {
        out.push(b'-');
    }
    match power {
        -4..17 if power + 1 < digits.len() as i32 => write_plain(out, &digits, power + 1),
        0..17 => {
            out.extend_from_slice(&digits);
            out.resize(out.len() + (power + 1) as usize - digits.len(), b'0');
        }
        _ => write_scientific(out, &digits, power, 2),
    }
}

/// A number with 17 digits behind the point, as long as they are not zero.
pub(crate) fn human(number: f64) -> String {
    let text = format!("{number:.17}");
    let text = text.trim_end_matches('0').trim_end_matches('.');
    if text == "-0" { "0".to_owned() } else { text.to_owned() }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn shortest(number: f64) -> String {
        let mut out = Vec::new();
        write(&mut out, number);
        String::from_utf8(out).unwrap()
    }

    fn long(number: f64) -> String {
        let mut out = Vec::new();
        write_17_digits(&mut out, number);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn numbers_are_written_as_redis_writes_them() {
        for (number, expected) in [
            (0.0, "0"),
            (-0.0, "-0"),
            (3.0, "3"),
            (-1.5, "-1.5"),
            (0.1, "0.1"),
            (1e-6, "0.000001"),
            (1e-7, "1e-7"),
            (1.5e-7, "1.5e-7"),
            (0.000123456, "1.23456e-4"),
            (0.000125, "0.000125"),
            (1e17, "100000000000000000"),
            (1e20, "1e+20"),
            (123e20, "1.23e+22"),
            (1.7976931348623157e308, "1.7976931348623157e+308"),
            (5e-324, "5e-324"),
            (1e300, "1e+300"),
            (9007199254740993.0, "9007199254740992"),
            (3.0000000000000004, "3.0000000000000004"),
            (f64::INFINITY, "inf"),
            (f64::NEG_INFINITY, "-inf"),
        ] {
            assert_eq!(shortest(number), expected);
        }
    }

    #[test]
    fn seventeen_digits_are_written_as_c_does() {
        for (number, expected) in [
            (0.1, "0.10000000000000001"),
            (3.0, "3"),
            (300.0, "300"),
            (-1.5, "-1.5"),
            (1e-5, "1.0000000000000001e-05"),
            (0.0001, "0.0001"),
            (1e17, "1e+17"),
            (1e16, "10000000000000000"),
            (1e300, "1.0000000000000001e+300"),
            (0.0, "0"),
            (f64::NEG_INFINITY, "-inf"),
        ] {
            assert_eq!(long(number), expected);
        }
    }

    #[test]
    fn texts_are_read_as_c_reads_them() {
        for (text, expected) in [
            ("1", Some(1.0)),
            ("+1.5e1", Some(15.0)),
            (".5", Some(0.5)),
            ("5.", Some(5.0)),
            ("-inf", Some(f64::NEG_INFINITY)),
            ("+Infinity", Some(f64::INFINITY)),
            ("0x10", Some(16.0)),
            ("0x1.8p1", Some(3.0)),
            ("-0x.8", Some(-0.5)),
            ("1e400", None),
            ("1e-400", None),
            ("0e400", Some(0.0)),
            ("4e-324", Some(5e-324)),
            ("nan", None),
            ("", None),
            (" 1", None),
            ("1 ", None),
            ("1e", None),
            ("0x", None),
            (".", None),
            ("infinit", None),
            ("1\0", None),
        ] {
            assert_eq!(parse(text.as_bytes()), expected, "{text:?}");
        }
        for (text, expected) in [
            ("", Some(0.0)),
            (" 1", Some(1.0)),
            (" ", None),
            ("1e400", Some(f64::INFINITY)),
            ("1e-400", Some(0.0)),
            ("2\0x", Some(2.0)),
            ("2x", None),
            ("nan", None),
        ] {
            assert_eq!(parse_bound(text.as_bytes()), expected, "{text:?}");
        }
    }

    proptest! {
        #[test]
        fn what_is_written_is_read_again(bits: u64) {
            let number = f64::from_bits(bits);
            if !number.is_nan() {
                prop_assert_eq!(parse(shortest(number).as_bytes()).map(f64::to_bits), Some(bits));
                prop_assert_eq!(parse(long(number).as_bytes()).map(f64::to_bits), Some(bits));
            }
        }

        #[test]
        fn any_text_is_a_number_or_refused(text in "[ +\\-0-9.xXeEpPaFinfINFty]{0,12}") {
            if let Some(number) = parse(text.as_bytes()) {
                prop_assert_eq!(parse_bound(text.as_bytes()), Some(number));
            }
        }
    }
}
