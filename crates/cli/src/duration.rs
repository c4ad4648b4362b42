//! Durations as people write them.

use std::time::Duration;

const UNITS: [(&str, u64); 3] = [("s", 1), ("m", 60), ("h", 3600)];

/// A duration from `60s`, `10m` or `2h`; it is not zero.
pub(crate) fn parse(text: &str) -> Result<Duration, String> {
    let digits = text.trim_end_matches(|char: char| char.is_ascii_alphabetic());
    let unit = &text[digits.len()..];
    let (_, seconds) = UNITS
        .iter()
        .find(|(name, _)| *name == unit)
        .ok_or("the units are s, m and h, as in 60s, 10m or 2h")?;
    let number: u64 = digits.parse().map_err(|_| "not a whole number".to_owned())?;
    match number.checked_mul(*seconds) {
        Some(0) => Err("no time at all; give at least 1s".to_owned()),
        Some(seconds) if seconds <= YEAR => Ok(Duration::from_secs(seconds)),
        _ => Err("more than a year".to_owned()),
    }
}

const YEAR: u64 = 365 * 24 * 3600;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_read_with_a_unit() {
        for (text, seconds) in [("1s", 1), ("60s", 60), ("10m", 600), ("2h", 7200)] {
            assert_eq!(parse(text), Ok(Duration::from_secs(seconds)), "{text}");
        }
        for text in ["", "60", "s", "0s", "0h", "-1s", "1.5h", "1 m", "60S", "1d", "9999999h"] {
            assert!(parse(text).is_err(), "{text}");
        }
    }
}
