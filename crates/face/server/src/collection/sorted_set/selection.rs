//! Members that a command reads or removes: some that follow each other in the order.
//!
//! Of a small set, and of one with a tree in DRAM, they are found by their ranks. A stored order is scanned, from the first
//! of them on, or from the last, and passes those that are left out. So a request by scores, by members, or near an end reads
//! little; one for ranks that are far from both ends makes the tree, which later ones use. [`SortedSet::select_ranks`]
//! decides that.

use std::ops::{ControlFlow, Range};

use super::SortedSet;
use super::bounds::{Bounds, Scores};
use super::stored::Stretch;
use crate::collection::span;
use crate::counted_tree::{CountedTree, Scored};
use crate::failure::Outcome;
use crate::store::{Elements, Order, Store};

/// Members that a scan passes at most, if it does not read as many, before the tree is made. Tests have small sets.
const PASSED_MAX: usize = if cfg!(test) { 4 } else { 4096 };

/// Members that are read into memory at once, at most: if there are more, they are counted first, and then read again.
const READ_MAX: usize = if cfg!(test) { 4 } else { 4096 };

/// Bytes of such members, about.
const READ_BYTES_MAX: usize = 1 << 20;

/// The members that a command is about.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Wanted<'a> {
    pub(crate) bounds: Bounds<'a>,
    /// From the last to the first; ranks count from the last, too.
    pub(crate) is_reverse: bool,
    /// Members that are left out at the beginning, of other bounds than ranks.
    pub(crate) offset: usize,
    /// The most members, of other bounds than ranks.
    pub(crate) limit: usize,
}

impl<'a> Wanted<'a> {
    /// All members in a range, in order.
    pub(crate) fn all_of(bounds: Bounds<'a>) -> Self {
        Self { bounds, is_reverse: false, offset: 0, limit: usize::MAX }
    }

    /// Their ranks in an order.
    fn ranks(&self, order: &CountedTree<Scored>) -> Range<usize> {
        if let Bounds::Ranks(start, end) = self.bounds {
            let (len, ranks) = (order.len(), span(start, end, order.len()));
            return match self.is_reverse {
                true => len - ranks.end..len - ranks.start,
                false => ranks,
            };
        }
        let Range { start, end } = self.bounds.in_order(order);
        if self.offset >= end - start {
            return 0..0;
        }
        let count = self.limit.min(end - start - self.offset);
        match self.is_reverse {
            true => end - self.offset - count..end - self.offset,
            false => start + self.offset..start + self.offset + count,
        }
    }
}

/// Members that were found.
#[derive(Debug)]
pub(crate) enum Selection<'a> {
    /// Those of these ranks, from the last to the first if it is reversed.
    Ranks {
        /// Their ranks.
        ranks: Range<usize>,
        /// Whether the last one comes first.
        is_reverse: bool,
    },
    /// These.
    Read(Vec<(f64, Vec<u8>)>),
    /// So many of the stored order, behind some.
    Stored(Stored<'a>),
}

/// Members of a stored order.
#[derive(Debug)]
pub(crate) struct Stored<'a> {
    of: Elements,
    stretch: Stretch<'a>,
    order: Order,
    passed: usize,
    count: usize,
}

impl Selection<'_> {
    /// None.
    const NONE: Self = Self::Read(Vec::new());

    /// How many they are.
    pub(crate) fn len(&self) -> usize {
        match self {
            Self::Ranks { ranks, .. } => ranks.len(),
            Self::Read(members) => members.len(),
            Self::Stored(stored) => stored.count,
        }
    }

    /// Whether they are too many to be read at once.
    pub(super) fn is_long(&self) -> bool {
        matches!(self, Self::Stored(_))
    }
}

/// The direction, and the other one.
fn directions(is_reverse: bool) -> [Order; 2] {
    match is_reverse {
        true => [Order::Descending, Order::Ascending],
        false => [Order::Ascending, Order::Descending],
    }
}

impl SortedSet {
    /// Finds members.
    pub(crate) fn select<'a>(
        &self,
        store: &mut Store,
        wanted: Wanted<'a>,
    ) -> Outcome<Selection<'a>> {
        let Wanted { bounds, is_reverse, offset, limit } = wanted;
        if let Some(of) = self.stored_order(store) {
            if let Bounds::Ranks(start, end) = bounds {
                if let Some(found) = self.select_ranks(store, &of, start, end, is_reverse)? {
                    return Ok(found);
                }
            } else if let Some(stretch) = self.stretch_of(store, &of, bounds)? {
                let [order, _] = directions(is_reverse);
                return self.read(store, &of, stretch, order, offset..offset.saturating_add(limit));
            }
        }
        let ranks = self.with_order(store, |order| wanted.ranks(order))?;
        Ok(Selection::Ranks { ranks, is_reverse })
    }

    /// The part of the stored order that is in a range, if a scan follows it: members with several scores are not in the
    /// order of their bytes.
    fn stretch_of<'a>(
        &self,
        store: &mut Store,
        of: &Elements,
        bounds: Bounds<'a>,
    ) -> Outcome<Option<Stretch<'a>>> {
        Ok(match bounds {
            Bounds::Members(..) => {
                self.one_score(store, of)?.map(|score| Stretch::of(bounds, score))
            }
            Bounds::Scores(_) | Bounds::Ranks(..) => Some(Stretch::of(bounds, 0.0)),
        })
    }

    /// Up to `count` members from an end on: the first, or the last.
    pub(crate) fn select_end(
        &self,
        store: &mut Store,
        count: usize,
        is_reverse: bool,
    ) -> Outcome<Selection<'static>> {
        let Some(last) = count.checked_sub(1) else { return Ok(Selection::NONE) };
        let bounds = Bounds::Ranks(0, i64::try_from(last).unwrap_or(i64::MAX));
        self.select(store, Wanted { bounds, is_reverse, offset: 0, limit: usize::MAX })
    }

    /// Members by their ranks in a direction, negative ones from its end, where a scan serves as well as the tree:
    /// near an end, or if it passes fewer than it reads. `None`: the tree is needed.
    fn select_ranks(
        &self,
        store: &mut Store,
        of: &Elements,
        start: i64,
        end: i64,
        is_reverse: bool,
    ) -> Outcome<Option<Selection<'static>>> {
        let [order, back] = directions(is_reverse);
        let at = |rank: i64| usize::try_from(rank).ok().filter(|&passed| passed <= PASSED_MAX);
        if start >= 0 && end >= 0 && (end < start || at(start).is_some()) {
            let ranks = start as usize..(end as usize).saturating_add(1);
            return self.read(store, of, Stretch::whole(), order, ranks).map(Some);
        }
        if start < 0 && end < start {
            return Ok(Some(Selection::NONE));
        }
        if start < 0
            && end < 0
            && let (Some(passed), count) = (at(-1 - end), end.abs_diff(start) as usize)
            && count < READ_MAX
        {
            return self.read_back(store, of, back, passed..passed + count + 1).map(Some);
        }
        let len = self.len(store)?;
        let ranks = span(start, end, len);
        if ranks.is_empty() {
            return Ok(Some(Selection::NONE));
        }
        if ranks.start <= PASSED_MAX.max(ranks.len()) {
            return self.read(store, of, Stretch::whole(), order, ranks).map(Some);
        }
        if len - ranks.end <= PASSED_MAX && ranks.len() <= READ_MAX {
            let from_back = len - ranks.end..len - ranks.start;
            return self.read_back(store, of, back, from_back).map(Some);
        }
        Ok(None)
    }

    /// The members of a part with these numbers in its direction; if they are many, they are counted only.
    fn read<'a>(
        &self,
        store: &mut Store,
        of: &Elements,
        stretch: Stretch<'a>,
        order: Order,
        numbers: Range<usize>,
    ) -> Outcome<Selection<'a>> {
        if numbers.is_empty() {
            return Ok(Selection::NONE);
        }
        let (mut number, mut count, mut bytes) = (0, 0, 0);
        let mut members = Vec::new();
        self.walk(store, of, &stretch, order, |score, member| {
            if numbers.contains(&number) {
                if members.len() == count && count < READ_MAX && bytes < READ_BYTES_MAX {
                    bytes += member.len();
                    members.push((score, member.to_vec()));
                }
                count += 1;
            }
            number += 1;
            Ok(match number < numbers.end {
                true => ControlFlow::Continue(()),
                false => ControlFlow::Break(()),
            })
        })?;
        if members.len() == count {
            return Ok(Selection::Read(members));
        }
        let passed = numbers.start;
        Ok(Selection::Stored(Stored { of: *of, stretch, order, passed, count }))
    }

    /// The members with these numbers from the other end, which are few, in the direction from this end.
    fn read_back(
        &self,
        store: &mut Store,
        of: &Elements,
        back: Order,
        numbers: Range<usize>,
    ) -> Outcome<Selection<'static>> {
        let (mut number, mut members) = (0, Vec::new());
        self.walk(store, of, &Stretch::whole(), back, |score, member| {
            if numbers.contains(&number) {
                members.push((score, member.to_vec()));
            }
            number += 1;
            Ok(match number < numbers.end {
                true => ControlFlow::Continue(()),
                false => ControlFlow::Break(()),
            })
        })?;
        members.reverse();
        Ok(Selection::Read(members))
    }

    /// How many members are in a range of scores or of members.
    pub(crate) fn count(&self, store: &mut Store, bounds: Bounds<'_>) -> Outcome<usize> {
        if matches!(bounds, Bounds::Scores(scores) if scores == Scores::ALL) {
            return self.len(store);
        }
        if let Some(of) = self.stored_order(store)
            && let Some(stretch) = self.stretch_of(store, &of, bounds)?
        {
            let mut count = 0;
            self.walk(store, &of, &stretch, Order::Ascending, |_, _| {
                count += 1;
                Ok(ControlFlow::Continue(()))
            })?;
            return Ok(count);
        }
        self.with_order(store, |order| bounds.in_order(order).len())
    }

    /// Visits the members in some ranges of scores, in the order within each, until `visit` breaks or fails.
    pub(crate) fn visit_in(
        &self,
        store: &mut Store,
        ranges: &[Scores],
        mut visit: impl FnMut(f64, &[u8]) -> Outcome<ControlFlow<()>>,
    ) -> Outcome {
        if let Some(of) = self.stored_order(store) {
            let mut is_over = false;
            for range in ranges {
                let stretch = Stretch::of(Bounds::Scores(*range), 0.0);
                self.walk(store, &of, &stretch, Order::Ascending, |score, member| {
                    let go_on = visit(score, member)?;
                    is_over = go_on.is_break();
                    Ok(go_on)
                })?;
                if is_over {
                    break;
                }
            }
            return Ok(());
        }
        self.with_order(store, |order| {
            for range in ranges {
                let ranks = Bounds::Scores(*range).in_order(order);
                if visit_ranks(order, ranks, false, &mut visit)?.is_break() {
                    break;
                }
            }
            Ok(())
        })?
    }

    /// Visits the members that were found, until `visit` breaks or fails.
    pub(crate) fn visit(
        &self,
        store: &mut Store,
        selection: &Selection<'_>,
        mut visit: impl FnMut(f64, &[u8]) -> Outcome<ControlFlow<()>>,
    ) -> Outcome {
        match selection {
            Selection::Ranks { ranks, is_reverse } => {
                let visited = self.with_order(store, |order| {
                    visit_ranks(order, ranks.clone(), *is_reverse, &mut visit)
                })?;
                return visited.map(drop);
            }
            Selection::Read(members) => {
                for (score, member) in members {
                    if visit(*score, member)?.is_break() {
                        break;
                    }
                }
            }
            Selection::Stored(Stored { of, stretch, order, passed, count }) => {
                let (numbers, mut number) = (*passed..passed + count, 0);
                self.walk(store, of, stretch, *order, |score, member| {
                    let is_wanted = numbers.contains(&number);
                    number += 1;
                    if is_wanted && visit(score, member)?.is_break() || number >= numbers.end {
                        return Ok(ControlFlow::Break(()));
                    }
                    Ok(ControlFlow::Continue(()))
                })?;
            }
        }
        Ok(())
    }

    /// The members that were found, with their scores.
    pub(crate) fn members(
        &self,
        store: &mut Store,
        selection: Selection<'_>,
    ) -> Outcome<Vec<(f64, Vec<u8>)>> {
        if let Selection::Read(members) = selection {
            return Ok(members);
        }
        let mut members = Vec::new();
        self.visit(store, &selection, |score, member| {
            members.push((score, member.to_vec()));
            Ok(ControlFlow::Continue(()))
        })?;
        Ok(members)
    }
}

/// Visits the members of some ranks, until `visit` breaks or fails.
fn visit_ranks(
    order: &CountedTree<Scored>,
    ranks: Range<usize>,
    is_reverse: bool,
    visit: &mut impl FnMut(f64, &[u8]) -> Outcome<ControlFlow<()>>,
) -> Outcome<ControlFlow<()>> {
    let mut left = ranks.len();
    if left == 0 {
        return Ok(ControlFlow::Continue(()));
    }
    let visit = |(score, member): (f64, &[u8])| {
        left -= 1;
        match visit(score, member) {
            Ok(ControlFlow::Continue(())) if left > 0 => ControlFlow::Continue(()),
            visited => ControlFlow::Break(visited),
        }
    };
    let visited = match is_reverse {
        true => order.visit_back(ranks.end - 1, visit),
        false => order.visit(ranks.start, visit),
    };
    match visited {
        ControlFlow::Break(visited) => visited,
        ControlFlow::Continue(()) => Ok(ControlFlow::Continue(())),
    }
}
