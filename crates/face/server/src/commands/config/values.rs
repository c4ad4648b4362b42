//! The values of settings, as operators write them.

use std::path::PathBuf;
use std::time::Duration;

use crate::number::parse_i64;

pub(super) fn integer(value: &[u8], range: std::ops::RangeInclusive<i64>) -> Result<i64, String> {
    let number = parse_i64(value).ok_or("argument couldn't be parsed into an integer")?;
    if range.contains(&number) {
        Ok(number)
    } else {
        Err(format!("argument must be between {} and {} inclusive", range.start(), range.end()))
    }
}

pub(super) fn yes_no(value: bool) -> String {
    if value { "yes" } else { "no" }.to_owned()
}

pub(super) fn boolean(value: &[u8]) -> Result<bool, String> {
    match value.to_ascii_lowercase().as_slice() {
        b"yes" => Ok(true),
        b"no" => Ok(false),
        _ => Err("argument must be 'yes' or 'no'".to_owned()),
    }
}

pub(super) fn text(value: &[u8]) -> Result<&str, String> {
    std::str::from_utf8(value).map_err(|_| "argument is not UTF-8".to_owned())
}

/// The path of a file; an empty one is none.
pub(super) fn path(value: &[u8]) -> Result<Option<PathBuf>, String> {
    Ok(Some(text(value)?).filter(|path| !path.is_empty()).map(PathBuf::from))
}

pub(super) fn shown(path: &Option<PathBuf>) -> String {
    path.as_ref().map_or_else(String::new, |path| path.display().to_string())
}

/// Milliseconds; 0: no limit.
pub(super) fn milliseconds(value: &[u8]) -> Result<Duration, String> {
    Ok(Duration::from_millis(integer(value, 0..=i64::MAX)? as u64))
}

/// Seconds; 0: for ever.
pub(super) fn duration(value: &[u8]) -> Result<Option<Duration>, String> {
    let seconds = integer(value, 0..=i64::from(i32::MAX))? as u64;
    Ok(Some(Duration::from_secs(seconds)).filter(|time| !time.is_zero()))
}

pub(super) fn seconds(time: Option<Duration>) -> String {
    time.map_or(0, |time| time.as_secs()).to_string()
}

/// A size in bytes, or with one of Redis' units: `k` is 1000, `kb` is 1024.
pub(super) fn bytes(value: &[u8], range: std::ops::RangeInclusive<usize>) -> Result<usize, String> {
    let digits = value.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let unit = match value[digits..].to_ascii_lowercase().as_slice() {
        b"" | b"b" => 1,
        b"k" => 1000,
        b"kb" => 1 << 10,
        b"m" => 1_000_000,
        b"mb" => 1 << 20,
        b"g" => 1_000_000_000,
        b"gb" => 1 << 30,
        _ => 0,
    };
    // Zeros in front are no part of the number, as in C.
    let number = std::str::from_utf8(&value[..digits]).ok().and_then(|text| text.parse().ok());
    let number: Option<usize> = number.filter(|&number| i64::try_from(number).is_ok());
    let bytes = number.and_then(|number| number.checked_mul(unit)).filter(|_| unit > 0);
    let bytes = bytes.ok_or("argument must be a memory value")?;
    if range.contains(&bytes) {
        Ok(bytes)
    } else {
        Err(format!("argument must be between {} and {} inclusive", range.start(), range.end()))
    }
}

/// A part of something else, in hundredths; `None`: it is none of `5%`.
pub(super) fn percent(value: &[u8]) -> Result<Option<u32>, String> {
    let Some(digits) = value.strip_suffix(b"%") else { return Ok(None) };
    let number = parse_i64(digits).and_then(|number| u32::try_from(number).ok());
    match number.ok_or("argument must be a memory or percent value")? {
        percent @ 0..=100 => Ok(Some(percent)),
        _ => Err("percentage argument must be less or equal to 100".to_owned()),
    }
}

/// Percentiles, from 0 to 100, a few of them.
pub(super) fn percentiles(value: &[u8]) -> Result<Vec<f64>, String> {
    const COUNT_MAX: usize = 16;
    let words: Vec<_> = text(value)?.split_ascii_whitespace().collect();
    if words.len() > COUNT_MAX {
        return Err(format!("there can be {COUNT_MAX} percentiles at most"));
    }
    let number = |word: &&str| word.parse().ok().filter(|number| (0.0..=100.0).contains(number));
    let numbers: Option<_> = words.iter().map(number).collect();
    numbers.ok_or_else(|| {
        "latency-tracking-info-percentiles should consist of numbers between 0.0 and 100.0"
            .to_owned()
    })
}

/// Refuses another value than a setting has, which stays as it was at the start.
pub(super) fn stays(now: &str, value: &[u8]) -> Result<(), String> {
    match value.eq_ignore_ascii_case(now.as_bytes()) {
        true => Ok(()),
        false => Err("can't set immutable config".to_owned()),
    }
}

/// Pairs of seconds and changes.
pub(super) fn save_points(value: &[u8]) -> Option<String> {
    let text = std::str::from_utf8(value).ok()?;
    let numbers: Vec<_> = text.split_ascii_whitespace().collect();
    let pairs = numbers.chunks(2).all(|pair| {
        matches!(pair, [seconds, changes]
            if parse_i64(seconds.as_bytes()).is_some_and(|seconds| seconds > 0)
                && parse_i64(changes.as_bytes()).is_some_and(|changes| changes >= 0))
    });
    pairs.then(|| numbers.join(" "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_units() {
        let parse = |text: &str| bytes(text.as_bytes(), 1..=1 << 40);
        assert_eq!(parse("512mb"), Ok(512 << 20));
        assert_eq!(parse("1K"), Ok(1000));
        assert_eq!(parse("7"), Ok(7));
        assert_eq!(parse("007kb"), Ok(7 << 10));
        for text in ["", "mb", "1tb", "-1", "1 mb", "0", "99999999999gb"] {
            assert!(parse(text).is_err(), "{text:?}");
        }
    }

    #[test]
    fn percents_and_percentiles_are_read() {
        assert_eq!(percent(b"5%"), Ok(Some(5)));
        assert_eq!(percent(b"5"), Ok(None));
        assert!(percent(b"101%").unwrap_err().starts_with("percentage"));
        assert!(percent(b"x%").is_err() && percent(b"-1%").is_err());
        assert_eq!(percentiles(b"0.0 50 99.9").unwrap(), [0.0, 50.0, 99.9]);
        assert_eq!(percentiles(b"").unwrap(), [0.0; 0]);
        assert!(["a", "101", "-1", "nan"].iter().all(|text| percentiles(text.as_bytes()).is_err()));
    }

    #[test]
    fn save_points_are_pairs() {
        assert_eq!(save_points(b"3600 1  300 100").as_deref(), Some("3600 1 300 100"));
        assert_eq!(save_points(b"").as_deref(), Some(""));
        for text in ["100", "0 1", "1 -1", "a b", "1 2 3"] {
            assert_eq!(save_points(text.as_bytes()), None, "{text:?}");
        }
    }
}
