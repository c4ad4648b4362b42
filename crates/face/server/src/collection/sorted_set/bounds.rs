//! Ranges of sorted sets: by ranks, by scores and by members.

use std::ops::Range;

use crate::collection::span;
use crate::counted_tree::{CountedTree, Scored};

/// A range.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Bounds<'a> {
    /// The first and the last rank; negative ones count from the end.
    Ranks(i64, i64),
    Scores(Scores),
    Members(Member<'a>, Member<'a>),
}

/// Scores between two, of which each may be left out.
#[derive(Debug, Clone, Copy, PartialEq)]
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

impl Scores {
    /// Those of all members.
    pub(crate) const ALL: Self =
        Self { min: f64::NEG_INFINITY, max: f64::INFINITY, without_min: false, without_max: false };
}

impl Bounds<'_> {
    /// The ranks of the members in the range, in an order.
    pub(super) fn in_order(self, order: &CountedTree<Scored>) -> Range<usize> {
        let (start, end) = match self {
            Self::Ranks(start, end) => return span(start, end, order.len()),
            _ => (
                order.partition_point(|(score, member)| self.is_before(score, member)),
                order.partition_point(|(score, member)| !self.is_behind(score, member)),
            ),
        };
        start..end.max(start)
    }

    /// Whether a member is before the range. Ranks say that of none.
    pub(super) fn is_before(&self, score: f64, member: &[u8]) -> bool {
        match *self {
            Self::Ranks(..) | Self::Members(Member::Least, _) => false,
            Self::Scores(Scores { min, without_min, .. }) => {
                score < min || without_min && score <= min
            }
            Self::Members(Member::Most, _) => true,
            Self::Members(Member::Included(min), _) => member < min,
            Self::Members(Member::Excluded(min), _) => member <= min,
        }
    }

    /// Whether a member is behind the range. Ranks say that of none.
    pub(super) fn is_behind(&self, score: f64, member: &[u8]) -> bool {
        match *self {
            Self::Ranks(..) | Self::Members(_, Member::Most) => false,
            Self::Scores(Scores { max, without_max, .. }) => {
                score > max || without_max && score >= max
            }
            Self::Members(_, Member::Least) => true,
            Self::Members(_, Member::Included(max)) => member > max,
            Self::Members(_, Member::Excluded(max)) => member >= max,
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
