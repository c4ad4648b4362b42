//! Which block of records is collected next.
//!
//! Blocks whose bytes changed wait in a queue until a victim is asked for, so that a write costs nothing more. Then
//! they are ranked: by how much of them can be reclaimed, in classes that are an eighth wide, and among those of a
//! class by age. (Lersch §5.6.3 has a heap behind the queue, by bytes alone.)
//!
//! The victim is the block with the best ratio of benefit to cost, as in log-structured file systems
//! (Rosenblum and Ousterhout, TOCS 1992): the bytes that it gives, times how long they have been given up
//! slowly, by the bytes that have to move. So a block that dies fast is left to die, and one that
//! dies slowly does not keep its garbage for ever. Under uniform updates all blocks die alike, and this is
//! the block with the most to reclaim; under skewed ones a third less is moved.

use std::collections::BTreeSet;

use crate::{ALIGN, BLOCK};

/// A block with less to reclaim, in bytes, is not worth collecting for a put.
pub(crate) const WORTHWHILE: u64 = BLOCK / 32;

/// The class of a block that is not ranked.
const UNRANKED: u8 = u8::MAX;

/// The class of blocks in which nothing is alive, above all others: nothing has to move.
const DEAD: u8 = UNRANKED - 1;

/// Blocks that are examined at each end of a class, where some may not be taken. Scans keep the older blocks, so the
/// youngest tell whether the class has one that may be taken.
const LOOKED_AT: usize = 4;

/// The standing of a block among the victims.
#[derive(Clone, Copy)]
struct Standing {
    /// When it was sealed, as a number of a record.
    sealed_at: u64,
    /// Bytes that can be reclaimed of it, if that is worthwhile.
    worth: u64,
    class: u8,
    /// Whether it waits in the queue.
    queued: bool,
}

const UNKNOWN: Standing = Standing { sealed_at: 0, worth: 0, class: UNRANKED, queued: false };

/// The sealed blocks in the order of the bytes that collection gains.
#[derive(Default)]
pub(crate) struct Victims {
    /// By block.
    standings: Vec<Standing>,
    queue: Vec<u32>,
    /// Class, when it was sealed, block.
    ranked: BTreeSet<(u8, u64, u32)>,
    /// Bytes that can be reclaimed of all blocks of which that is worthwhile.
    worth: u64,
}

impl Victims {
    /// Takes a block that was sealed at the record with this number.
    pub(crate) fn sealed(&mut self, block: u32, at: u64) {
        let len = self.standings.len().max(block as usize + 1);
        self.standings.resize(len, UNKNOWN);
        let standing = &mut self.standings[block as usize];
        debug_assert_eq!(standing.class, UNRANKED);
        standing.sealed_at = at;
        self.changed(block);
    }

    /// Notes that a record of a sealed block died.
    pub(crate) fn changed(&mut self, block: u32) {
        let standing = &mut self.standings[block as usize];
        if !standing.queued {
            standing.queued = true;
            self.queue.push(block);
        }
    }

    /// Drops a block that is collected.
    pub(crate) fn condemned(&mut self, block: u32) {
        self.rank(block, UNRANKED, 0);
    }

    fn rank(&mut self, block: u32, class: u8, bytes: u64) {
        let standing = &mut self.standings[block as usize];
        let worth = if bytes >= WORTHWHILE { bytes } else { 0 };
        self.worth = self.worth - standing.worth + worth;
        standing.worth = worth;
        if standing.class == class {
            return;
        }
        if standing.class != UNRANKED {
            self.ranked.remove(&(standing.class, standing.sealed_at, block));
        }
        standing.class = class;
        if class != UNRANKED {
            self.ranked.insert((class, standing.sealed_at, block));
        }
    }

    /// Ranks the blocks that changed: `reclaimable` says how many bytes of one there are, and whether that is all, if
    /// it is sealed.
    pub(crate) fn rank_changed(&mut self, reclaimable: impl Fn(u32) -> Option<(u64, bool)>) {
        let mut queue = std::mem::take(&mut self.queue);
        for block in queue.drain(..) {
            self.standings[block as usize].queued = false;
            let (class, bytes) = match reclaimable(block) {
                None | Some((0, _)) => (UNRANKED, 0),
                Some((bytes, true)) => (DEAD, bytes),
                Some((bytes, false)) => (class_of(bytes), bytes),
            };
            self.rank(block, class, bytes);
        }
        self.queue = queue;
    }

    /// Bytes that can be reclaimed of blocks of which that is worthwhile, as they were ranked last.
    pub(crate) fn worth(&self) -> u64 {
        self.worth
    }

    /// The classes that have blocks, from the highest on.
    fn classes(&self) -> impl Iterator<Item = u8> {
        let top = self.ranked.last().map(|ranked| ranked.0);
        std::iter::successors(top, |&class| Some(self.ranked.range(..(class, 0, 0)).next_back()?.0))
    }

    /// A block of the highest class that has one which `may` be taken, as far as is looked.
    pub(crate) fn first(&self, may: impl Fn(u32) -> bool) -> Option<u32> {
        let youngest = |class: u8| {
            let of_class = self.ranked.range((class, 0, 0)..=(class, u64::MAX, u32::MAX));
            of_class.rev().map(|ranked| ranked.2).take(LOOKED_AT).find(|&block| may(block))
        };
        self.classes().find_map(youngest)
    }

    /// The block with the best ratio of benefit to cost among those of which at least `bytes` can be
    /// reclaimed, or which have the most, and which `may` be taken. `now` is the number of the next record, the last
    /// argument says how much of a block lives and how much of it can be reclaimed.
    pub(crate) fn best(
        &self,
        bytes: u64,
        now: u64,
        may: impl Fn(u32) -> bool,
        cost_and_benefit: impl Fn(u32) -> (u64, u64),
    ) -> Option<u32> {
        let top = self.ranked.last()?.0;
        let least = class_of(bytes).min(top);
        let oldest = |class: u8| {
            let of_class = || self.ranked.range((class, 0, 0)..=(class, u64::MAX, u32::MAX));
            let old = of_class().take(LOOKED_AT);
            let mut looked_at = old.chain(of_class().rev().take(LOOKED_AT));
            looked_at.find(|ranked| may(ranked.2)).map(|&(_, at, block)| (at, block))
        };
        let ratio = |(at, block): (u64, u32)| {
            let (cost, benefit) = cost_and_benefit(block);
            let age = now.saturating_sub(at) + 1;
            (benefit as f64 * age as f64 / (cost + 1) as f64, block)
        };
        self.classes()
            .take_while(|class| *class >= least)
            .filter_map(oldest)
            .map(ratio)
            .max_by(|(one, _), (other, _)| one.total_cmp(other))
            .map(|(_, block)| block)
    }
}

/// The class of a block of which so many bytes can be reclaimed: the exponent, and three bits behind the
/// first.
fn class_of(bytes: u64) -> u8 {
    let units = bytes / ALIGN;
    let exponent = units.max(8).ilog2() - 3;
    (u64::from(exponent) * 8 + (units >> exponent)) as u8
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::BLOCK;

    #[test]
    fn classes_are_in_the_order_of_bytes() {
        let classes: Vec<_> = (0..=BLOCK / ALIGN).map(|units| class_of(units * ALIGN)).collect();
        assert!(classes.is_sorted() && classes[0] == 0 && *classes.last().unwrap() < UNRANKED);
        assert!(classes.windows(2).all(|pair| pair[1] - pair[0] <= 1), "no class is empty");
    }

    #[test]
    fn what_dies_slowly_is_collected_before_what_dies_fast() {
        let mut victims = Victims::default();
        let dead = [BLOCK / 2, BLOCK / 4, BLOCK / 4, 0];
        // The first has the most to reclaim, and the second has given it up for longer.
        for (block, at) in [(0, 900), (1, 100), (2, 950), (3, 0)] {
            victims.sealed(block, at);
        }
        victims.rank_changed(|block| Some((dead[block as usize], false)));
        let best = |victims: &Victims, bytes| {
            victims.best(
                bytes,
                1000,
                |_| true,
                |block| {
                    let dead = dead[block as usize];
                    (BLOCK - dead, dead)
                },
            )
        };
        assert_eq!((victims.first(|_| true), best(&victims, 1)), (Some(0), Some(1)));
        assert_eq!(best(&victims, BLOCK / 2), Some(0));
        assert_eq!(best(&victims, BLOCK), Some(0), "nothing has as much: the one with the most");
        victims.condemned(1);
        assert_eq!(best(&victims, 1), Some(0));
        victims.condemned(0);
        victims.condemned(2);
        assert_eq!((victims.first(|_| true), best(&victims, 1)), (None, None));
    }

    #[test]
    fn a_block_in_which_nothing_lives_is_the_first_that_may_be_taken() {
        let mut victims = Victims::default();
        for block in 0..10 {
            victims.sealed(block, u64::from(block));
        }
        victims.rank_changed(|block| Some((BLOCK / 2 + 1, block == 0)));
        let best = |may: fn(u32) -> bool| victims.best(1, 1000, may, |_| (1, 1));
        assert_eq!((victims.first(|_| true), best(|_| true)), (Some(0), Some(0)));
        assert_eq!((victims.first(|block| block > 0), best(|block| block > 0)), (Some(9), Some(1)));
        assert_eq!((victims.first(|_| false), best(|_| false)), (None, None));
    }

    proptest! {
        #[test]
        fn the_victim_is_as_good_as_any_but_for_the_width_of_a_class(
            blocks in prop::collection::vec((0..1000u64, 0..=BLOCK), 1..40),
            changes in prop::collection::vec((any::<prop::sample::Index>(), 0..=BLOCK), 0..40),
            least in 0..BLOCK,
        ) {
            let mut victims = Victims::default();
            let mut dead: Vec<u64> = blocks.iter().map(|&(_, dead)| dead).collect();
            for (block, &(at, _)) in blocks.iter().enumerate() {
                victims.sealed(block as u32, at);
            }
            victims.rank_changed(|block| Some((dead[block as usize], false)));
            for (which, now_dead) in changes {
                let block = which.index(dead.len());
                dead[block] = now_dead;
                victims.changed(block as u32);
            }
            victims.rank_changed(|block| Some((dead[block as usize], false)));
            let of = |block: u32| (BLOCK - dead[block as usize], dead[block as usize]);
            let found = victims.best(least, 1000, |_| true, of);
            let top = dead.iter().copied().max().unwrap_or(0);
            prop_assert_eq!(found.is_some(), top > 0);
            if let Some(found) = found {
                prop_assert!(class_of(dead[found as usize]) >= class_of(least.min(top)));
                // None that is as old, and has a class more, is passed over.
                for (block, &(at, _)) in blocks.iter().enumerate() {
                    let better = class_of(dead[block]) > class_of(dead[found as usize]);
                    prop_assert!(!(better && at <= blocks[found as usize].0));
                }
                let first = victims.first(|_| true).unwrap();
                prop_assert_eq!(class_of(dead[first as usize]), class_of(top));
            }
        }
    }
}
