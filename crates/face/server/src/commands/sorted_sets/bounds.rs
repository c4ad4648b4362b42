//! Ranges of sorted sets, by ranks, by scores and by members, as the words of a command say them.

use std::ops::Range;

use crate::collection::sorted_set::SortedSet;
use crate::counted_tree::{CountedTree, Scored};
use crate::double;
use crate::failure::{NOT_AN_INTEGER, Outcome};
use crate::number::parse_i64;
use crate::store::Store;

use crate::commands::ranges::span;

/// The order in which a range is taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum By {
    Rank,
    Score,
    Member,
}

/// A range.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Bounds<'a> {
    /// The first and the last rank; negative ones count from the end.
    Ranks(i64, i64),
    Scores(Scores),
    Members(Member<'a>, Member<'a>),
}

/// Scores between two, of which each may be left out.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Scores {
    pub(crate) min: f64,
    pub(crate) max: f64,
    pub(crate) without_min: bool,
    pub(crate) without_max: bool,
}

/// An end of a range of members.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Member<'a> {
    /// Before all members.
    Least,
    /// Behind all members.
    Most,
    Included(&'a [u8]),
    Excluded(&'a [u8]),
}

impl<'a> Bounds<'a> {
    /// The range between two words, of which the first is the lower one.
    pub(super) fn parse(by: By, min: &'a [u8], max: &'a [u8]) -> Outcome<Self> {
        match by {
            By::Rank => {
                let rank = |word| parse_i64(word).ok_or(NOT_AN_INTEGER);
                Ok(Self::Ranks(rank(min)?, rank(max)?))
            }
            By::Score => {
                let ends = score(min).zip(score(max)).ok_or("ERR min or max is not a float")?;
                let ((min, without_min), (max, without_max)) = ends;
                Ok(Self::Scores(Scores { min, max, without_min, without_max }))
            }
            By::Member => {
                let ends = Member::parse(min).zip(Member::parse(max));
                let (min, max) = ends.ok_or("ERR min or max not valid string range item")?;
                Ok(Self::Members(min, max))
            }
        }
    }

    /// The ranks of the members in the range.
    pub(super) fn ranks(self, store: &mut Store, set: &SortedSet) -> Outcome<Range<usize>> {
        set.with_order(store, |order| self.in_order(order))
    }

    /// [`Bounds::ranks`] in an order.
    pub(crate) fn in_order(self, order: &CountedTree<Scored>) -> Range<usize> {
        let (start, end) = match self {
            Self::Ranks(start, end) => return span(start, end, order.len()),
            Self::Scores(Scores { min, max, without_min, without_max }) => (
                order.partition_point(|(score, _)| score < min || without_min && score <= min),
                order.partition_point(|(score, _)| score < max || !without_max && score <= max),
            ),
            Self::Members(min, max) => {
                (Self::before(order, min, false), Self::before(order, max, true))
            }
        };
        start..end.max(start)
    }

    /// How many members are before an end of a range, which is its last one, or its first.
    fn before(order: &CountedTree<Scored>, end: Member<'_>, is_last: bool) -> usize {
        match end {
            Member::Least => 0,
            Member::Most => order.len(),
            Member::Included(bytes) if is_last => order.partition_point(|(_, m)| m <= bytes),
            Member::Included(bytes) => order.partition_point(|(_, member)| member < bytes),
            Member::Excluded(bytes) if is_last => order.partition_point(|(_, m)| m < bytes),
            Member::Excluded(bytes) => order.partition_point(|(_, member)| member <= bytes),
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

impl<'a> Member<'a> {
    fn parse(word: &'a [u8]) -> Option<Self> {
        match word {
            [b'-'] | [b'-', 0, ..] => Some(Self::Least),
            [b'+'] | [b'+', 0, ..] => Some(Self::Most),
            [b'(', member @ ..] => Some(Self::Excluded(member)),
            [b'[', member @ ..] => Some(Self::Included(member)),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::collection::btree_set;
    use proptest::prelude::*;

    use super::*;

    fn order(members: &[(f64, Vec<u8>)]) -> CountedTree<Scored> {
        let mut order = CountedTree::default();
        members.iter().for_each(|(score, member)| {
            order.insert((*score, &member[..]));
        });
        order
    }

    fn member<'a>(kind: u8, bytes: &'a [u8]) -> Member<'a> {
        match kind {
            0 => Member::Least,
            1 => Member::Most,
            2 => Member::Included(bytes),
            _ => Member::Excluded(bytes),
        }
    }

    proptest! {
        #[test]
        fn scores_are_between_their_ends(
            members in btree_set((-5..5_i32, "[a-c]{0,2}"), 0..200),
            min in -6..6_i32, max in -6..6_i32, without_min: bool, without_max: bool,
        ) {
            let members: Vec<(f64, Vec<u8>)> = members.into_iter()
                .map(|(score, member)| (score.into(), member.into_bytes())).collect();
            let (min, max) = (f64::from(min), f64::from(max));
            let scores = Scores { min, max, without_min, without_max };
            let found = Bounds::Scores(scores).in_order(&order(&members));
            let is_in = |score: f64| {
                (score > min || !without_min && score == min)
                    && (score < max || !without_max && score == max)
            };
            for (rank, (score, _)) in members.iter().enumerate() {
                prop_assert_eq!(found.contains(&rank), is_in(*score));
            }
        }

        #[test]
        fn members_are_between_their_ends(
            members in btree_set("[a-c]{0,3}", 0..60),
            min in (0..4_u8, "[a-c]{0,3}"), max in (0..4_u8, "[a-c]{0,3}"),
        ) {
            let members: Vec<(f64, Vec<u8>)> =
                members.into_iter().map(|member| (0.0, member.into_bytes())).collect();
            let min = member(min.0, min.1.as_bytes());
            let max = member(max.0, max.1.as_bytes());
            let found = Bounds::Members(min, max).in_order(&order(&members));
            for (rank, (_, member)) in members.iter().enumerate() {
                let is_behind = match min {
                    Member::Least => true,
                    Member::Most => false,
                    Member::Included(min) => &member[..] >= min,
                    Member::Excluded(min) => &member[..] > min,
                };
                let is_before = match max {
                    Member::Least => false,
                    Member::Most => true,
                    Member::Included(max) => &member[..] <= max,
                    Member::Excluded(max) => &member[..] < max,
                };
                prop_assert_eq!(found.contains(&rank), is_behind && is_before);
            }
        }
    }
}
