//! Words that say which, and how many, elements of a collection a command is about.

use std::ops::Range;

use crate::failure::{NOT_AN_INTEGER, Outcome};
use crate::number::parse_i64;

/// The elements from `start` to `end`, both included, of so many; negative numbers count from the end.
pub(super) fn span(start: i64, end: i64, len: usize) -> Range<usize> {
    let from_end = |at: i64| if at < 0 { at.saturating_add(len as i64) } else { at };
    let start = from_end(start).max(0) as usize;
    let end = usize::try_from(from_end(end).saturating_add(1)).unwrap_or(0).min(len);
    if start < end { start..end } else { 0..0 }
}

/// A word as a count that is not negative.
pub(super) fn positive(word: &[u8]) -> Outcome<usize> {
    let count = parse_i64(word).ok_or(NOT_AN_INTEGER)?;
    Ok(usize::try_from(count).map_err(|_| "ERR value is out of range, must be positive")?)
}

/// A word as the number of keys that follow it.
pub(super) fn count_of_keys(word: &[u8]) -> Outcome<usize> {
    let count = parse_i64(word).and_then(|count| usize::try_from(count).ok());
    let count = count.filter(|&count| count > 0);
    count.ok_or_else(|| "ERR numkeys should be greater than 0".into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_count_from_either_end() {
        for (start, end, len, expected) in [
            (0, -1, 3, 0..3),
            (1, 1, 3, 1..2),
            (-2, 10, 3, 1..3),
            (-100, 0, 3, 0..1),
            (2, 1, 3, 0..0),
            (3, 5, 3, 0..0),
            (0, -4, 3, 0..0),
            (0, -1, 0, 0..0),
            (i64::MIN, i64::MAX, 3, 0..3),
            (i64::MAX, i64::MIN, 3, 0..0),
        ] {
            assert_eq!(span(start, end, len), expected, "{start} to {end} of {len}");
        }
    }
}
