//! Many sorted sources as one, by a tournament tree of losers (Knuth, *The Art of Computer Programming* 3, §5.4.1).
//!
//! ```text
//!            winner: 2              Each source is a leaf; each inner node keeps the loser of the match that was
//!         [1]  loser: 0             played there, so the way from a leaf to the root has all that a new head of
//!        /            \             that source has to be compared with: ⌈log2 n⌉ comparisons an item, and no
//!   [2] loser: 3   [3] loser: 1     allocation. A binary heap takes up to twice as many.
//!    /    \          /    \
//!   2      3        0      1
//! ```
//!
//! [`LoserTree`] knows numbers of sources only: the caller compares their heads, wherever they are stored.
//! [`KWayMerge`] is an iterator over iterators, built on one.

/// The order of several sources, by their current heads.
#[derive(Debug, Clone)]
pub struct LoserTree {
    /// The winner, and behind it the loser of each inner node's match.
    nodes: Vec<u32>,
}

impl LoserTree {
    /// Plays all matches of `sources` sources: n - 1 comparisons. `is_before` says whether one source comes before
    /// another; it is a total order, in which sources that have ended come last.
    ///
    /// # Panics
    /// If there are 2^31 sources or more.
    #[must_use]
    pub fn new(sources: usize, mut is_before: impl FnMut(usize, usize) -> bool) -> Self {
        let count = u32::try_from(sources).expect("fewer than 2^31 sources");
        assert!(count < 1 << 31, "fewer than 2^31 sources");
        // The winner of the match at each node; leaves are behind the inner nodes.
        let mut winners = vec![0; sources];
        winners.extend(0..count);
        let mut nodes = vec![0; sources];
        for node in (1..sources).rev() {
            let (a, b) = (winners[2 * node], winners[2 * node + 1]);
            let (winner, loser) = if is_before(b as usize, a as usize) { (b, a) } else { (a, b) };
            (winners[node], nodes[node]) = (winner, loser);
        }
        if let Some(first) = nodes.first_mut() {
            *first = winners[1];
        }
        Self { nodes }
    }

    /// The source that comes first, ended or not; `None` if there are no sources.
    #[inline]
    #[must_use]
    pub fn winner(&self) -> Option<usize> {
        self.nodes.first().map(|&winner| winner as usize)
    }

    /// Finds the winner again after the winner's head has changed: ⌈log2 n⌉ comparisons.
    #[inline]
    pub fn replay(&mut self, mut is_before: impl FnMut(usize, usize) -> bool) {
        let Some(&first) = self.nodes.first() else { return };
        let (mut winner, mut node) = (first, (first as usize + self.nodes.len()) / 2);
        while node > 0 {
            if is_before(self.nodes[node] as usize, winner as usize) {
                std::mem::swap(&mut self.nodes[node], &mut winner);
            }
            node /= 2;
        }
        self.nodes[0] = winner;
    }
}

/// The items of sorted sources in one order. Of equal items, that of an earlier source comes first.
///
/// A source is asked for an item only when that item is compared: all sources for their first ones at the
/// first call, and after that one source for each item.
#[derive(Debug)]
pub struct KWayMerge<I: Iterator, F> {
    sources: Vec<I>,
    /// The next item of each source; none where it has ended, and of the winner whose item was taken.
    heads: Vec<Option<I::Item>>,
    /// None until the first item is asked for.
    tree: Option<LoserTree>,
    is_before: F,
}

impl<I: Iterator, F: Fn(&I::Item, &I::Item) -> bool> KWayMerge<I, F> {
    /// Merges sources, each in the order of `is_before`, which tells whether one item comes before another.
    pub fn new(sources: Vec<I>, is_before: F) -> Self {
        Self { sources, heads: Vec::new(), tree: None, is_before }
    }
}

impl<I: Iterator, F: Fn(&I::Item, &I::Item) -> bool> Iterator for KWayMerge<I, F> {
    type Item = I::Item;

    fn next(&mut self) -> Option<I::Item> {
        let Self { sources, heads, tree, is_before } = self;
        match tree {
            None => {
                heads.extend(sources.iter_mut().map(Iterator::next));
                let played = LoserTree::new(heads.len(), |a, b| precedes(heads, &*is_before, a, b));
                *tree = Some(played);
            }
            Some(tree) => {
                let winner = tree.winner()?;
                heads[winner] = sources[winner].next();
                tree.replay(|a, b| precedes(heads, &*is_before, a, b));
            }
        }
        let winner = tree.as_ref()?.winner()?;
        heads[winner].take()
    }
}

/// Whether the head of source `a` comes before that of source `b`.
#[inline]
fn precedes<T>(
    heads: &[Option<T>],
    is_before: impl Fn(&T, &T) -> bool,
    a: usize,
    b: usize,
) -> bool {
    match (&heads[a], &heads[b]) {
        (Some(x), Some(y)) if a < b => !is_before(y, x),
        (Some(x), Some(y)) => is_before(x, y),
        (Some(_), None) => true,
        (None, Some(_)) => false,
        (None, None) => a < b,
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_merge_is_a_stable_sort_of_all_sources(
            mut lists in vec(vec(0_u8..20, 0..12), 0..20),
        ) {
            lists.iter_mut().for_each(|list| list.sort_unstable());
            let numbered = |(source, list): (usize, &Vec<u8>)| {
                list.iter().map(|&item| (item, source)).collect::<Vec<_>>().into_iter()
            };
            let mut sorted: Vec<(u8, usize)> = lists.iter().enumerate().flat_map(numbered).collect();
            sorted.sort_by_key(|&(item, _)| item);
            let sources = lists.iter().enumerate().map(numbered).collect();
            let merged: Vec<_> = KWayMerge::new(sources, |a, b| a.0 < b.0).collect();
            prop_assert_eq!(merged, sorted);
        }
    }

    #[test]
    fn an_item_takes_as_many_comparisons_as_the_tree_is_deep() {
        for (sources, deep) in [(1, 0), (2, 1), (3, 2), (64, 6), (65, 7)] {
            let compared = Cell::new(0);
            let lists: Vec<_> =
                (0..sources).map(|source| (0..50).map(move |n| n * 7 + source)).collect();
            let merge = KWayMerge::new(lists, |a: &usize, b| {
                compared.set(compared.get() + 1);
                a < b
            });
            let items = merge.count();
            assert!(compared.get() < sources + items * deep, "{sources}: {}", compared.get());
        }
    }
}
