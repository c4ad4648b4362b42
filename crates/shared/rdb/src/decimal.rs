//! Numbers as text: strings that are stored as integers, and scores.

use std::io::Write;

/// The longest text of a score, in bytes.
const SCORE_LEN_MAX: usize = 128;

/// The integer that `text` is the one decimal form of: no sign but `-`, no leading zero, no space.
pub(crate) fn parse_i64(text: &[u8]) -> Option<i64> {
    let digits = text.strip_prefix(b"-").unwrap_or(text);
    match digits {
        [b'0'] => return (text.len() == 1).then_some(0),
        [b'1'..=b'9', ..] if digits.len() <= 19 => {}
        _ => return None,
    }
    str::from_utf8(text).ok()?.parse().ok()
}

/// An integer in decimal.
pub(crate) fn integer(number: i64) -> Vec<u8> {
    number.to_string().into_bytes()
}

/// The score that a text stands for. It may be NaN.
pub(crate) fn parse_score(text: &[u8]) -> Option<f64> {
    if text.len() > SCORE_LEN_MAX {
        return None;
    }
    str::from_utf8(text).ok()?.parse().ok()
}

/// The integer that a score is, if it is stored as one in a packed sorted set.
pub(crate) fn score_as_integer(score: f64) -> Option<i64> {
    // Doubles hold all integers up to here; a zero with a sign has to keep it.
    const INTEGER_MAX: f64 = (1u64 << 52) as f64;
    let is_integer = score.abs() <= INTEGER_MAX && score.fract() == 0.0;
    (is_integer && !(score == 0.0 && score.is_sign_negative())).then_some(score as i64)
}

/// The shortest text of a score, in the form that Redis 7.2 prints.
pub(crate) fn score(score: f64) -> Vec<u8> {
    if score.is_infinite() {
        return if score > 0.0 { b"inf".to_vec() } else { b"-inf".to_vec() };
    }
    if let Some(number) = score_as_integer(score) {
        return integer(number);
    }
    if score == 0.0 {
        return b"-0".to_vec();
    }
    // As `d.ddde-dd`: the shortest digits that are this number.
    let text = format!("{:e}", score.abs());
    let (mantissa, exponent) = text.split_once('e').unwrap_or((&text, "0"));
    let digits: Vec<u8> = mantissa.bytes().filter(u8::is_ascii_digit).collect();
    let exponent: i32 = exponent.parse().unwrap_or_default();
    let mut out = if score < 0.0 { b"-".to_vec() } else { Vec::new() };
    put_digits(&mut out, &digits, exponent);
    out
}

/// Appends the number `d.ddd` times 10 to the power of `exponent`.
fn put_digits(out: &mut Vec<u8>, digits: &[u8], exponent: i32) {
    let count = digits.len() as i32;
    // The power of ten of the last digit.
    let last = exponent - (count - 1);
    if last >= 0 && exponent < count + 7 {
        out.extend_from_slice(digits);
        out.resize(out.len() + last as usize, b'0');
    } else if last < 0 && (last > -7 || exponent.abs() < 4) {
        let whole = count + last;
        if whole <= 0 {
            out.extend_from_slice(b"0.");
            out.resize(out.len() + whole.unsigned_abs() as usize, b'0');
            out.extend_from_slice(digits);
        } else {
            let (whole, fraction) = digits.split_at(whole as usize);
            out.extend([whole, b".", fraction].concat());
        }
    } else {
        let (first, others) = digits.split_at(1);
        out.extend_from_slice(first);
        if !others.is_empty() {
            out.push(b'.');
            out.extend_from_slice(others);
        }
        let sign = if exponent < 0 { '-' } else { '+' };
        // A vector takes all that is written.
        let _ = write!(out, "e{sign}{}", exponent.abs());
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn only_the_canonical_form_is_an_integer() {
        for text in ["", "-", "+1", "01", "-0", " 1", "1.0", "99999999999999999999", "--1"] {
            assert_eq!(parse_i64(text.as_bytes()), None, "{text:?}");
        }
        for number in [0, 7, -7, i64::MAX, i64::MIN] {
            assert_eq!(parse_i64(&integer(number)), Some(number));
        }
        assert_eq!(parse_i64(b"9223372036854775808"), None);
    }

    #[test]
    fn scores_have_the_form_of_redis() {
        for (number, text) in [
            (0.0, "0"),
            (-0.0, "-0"),
            (3.0, "3"),
            (-1.5, "-1.5"),
            (0.1, "0.1"),
            (0.001, "0.001"),
            (1e-7, "1e-7"),
            (1.25e-9, "1.25e-9"),
            (1e20, "1e+20"),
            (1.5e300, "1.5e+300"),
            (123456789012345680000.0, "123456789012345680000"),
            (2.5625, "2.5625"),
            (f64::INFINITY, "inf"),
            (f64::NEG_INFINITY, "-inf"),
            (f64::MAX, "1.7976931348623157e+308"),
            (5e-324, "5e-324"),
        ] {
            assert_eq!(String::from_utf8(score(number)).unwrap(), text);
        }
    }

    proptest! {
        #[test]
        fn a_score_comes_back(bits: u64) {
            let number = f64::from_bits(bits);
            prop_assume!(!number.is_nan());
            let read = parse_score(&score(number)).unwrap();
            prop_assert_eq!(read.to_bits(), number.to_bits());
        }

        #[test]
        fn any_text_is_a_score_or_none(text: Vec<u8>) {
            let _ = parse_score(&text);
        }
    }
}
