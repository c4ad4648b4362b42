//! Ranges of sorted sets, by ranks, by scores and by members, as the words of a command say them.

use crate::collection::sorted_set::{Bounds, Member, Scores};
use crate::double;
use crate::failure::{NOT_AN_INTEGER, Outcome};
use crate::number::parse_i64;

/// The order in which a range is taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum By {
    Rank,
    Score,
    Member,
}

/// The range between two words, of which the first is the lower one.
pub(super) fn parse<'a>(by: By, min: &'a [u8], max: &'a [u8]) -> Outcome<Bounds<'a>> {
    match by {
        By::Rank => {
            let rank = |word| parse_i64(word).ok_or(NOT_AN_INTEGER);
            Ok(Bounds::Ranks(rank(min)?, rank(max)?))
        }
        By::Score => {
            let ends = score(min).zip(score(max)).ok_or("ERR min or max is not a float")?;
            let ((min, without_min), (max, without_max)) = ends;
            Ok(Bounds::Scores(Scores { min, max, without_min, without_max }))
        }
        By::Member => {
            let ends = member(min).zip(member(max));
            let (min, max) = ends.ok_or("ERR min or max not valid string range item")?;
            Ok(Bounds::Members(min, max))
        }
    }
}

/// A score, and whether it is left out.
fn score(word: &[u8]) -> Option<(f64, bool)> {
    match word.strip_prefix(b"(") {
        Some(score) => Some((double::parse_bound(score)?, true)),
        None => Some((double::parse_bound(word)?, false)),
    }
}

/// An end of a range of members.
fn member(word: &[u8]) -> Option<Member<'_>> {
    match word {
        [b'-'] | [b'-', 0, ..] => Some(Member::Least),
        [b'+'] | [b'+', 0, ..] => Some(Member::Most),
        [b'(', member @ ..] => Some(Member::Excluded(member)),
        [b'[', member @ ..] => Some(Member::Included(member)),
        _ => None,
    }
}
