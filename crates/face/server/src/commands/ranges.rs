//! Words that say which, and how many, elements of a collection a command is about.

pub(super) use crate::collection::span;

use crate::call::is;
use crate::failure::{Outcome, SYNTAX};
use crate::number::parse_i64;
use crate::resp::Args;

/// A word as a count that is not negative.
pub(super) fn positive(word: &[u8]) -> Outcome<usize> {
    let count = parse_i64(word).and_then(|count| usize::try_from(count).ok());
    count.ok_or_else(|| "ERR value is out of range, must be positive".into())
}

/// A word as the number of keys that follow it.
pub(super) fn count_of_keys(word: &[u8]) -> Outcome<usize> {
    let count = parse_i64(word).and_then(|count| usize::try_from(count).ok());
    let count = count.filter(|&count| count > 0);
    count.ok_or_else(|| "ERR numkeys should be greater than 0".into())
}

/// Words that are nothing, or COUNT and how many elements are taken at most; 1 if they do not say it.
pub(super) fn count_option(words: Args<'_>) -> Outcome<usize> {
    let Some(word) = words.get(0) else { return Ok(1) };
    if !is(word, "COUNT") || words.len() < 2 {
        return Err(SYNTAX.into());
    }
    let count = parse_i64(&words[1]).and_then(|count| usize::try_from(count).ok());
    let count = count.filter(|&count| count > 0).ok_or("ERR count should be greater than 0")?;
    if words.len() > 2 { Err(SYNTAX.into()) } else { Ok(count) }
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
