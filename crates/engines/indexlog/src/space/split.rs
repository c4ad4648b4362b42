//! Blocks that are split for pieces of values: each piece has a run of units of 256 bytes.
//!
//! A block is split when a piece finds no run that is long enough, and is whole again when its last piece is gone. Which
//! units are taken is volatile, like everything that is known of values: recovery reads it from the records. A piece
//! takes the shortest run that it fits, in the block whose longest run is shortest, so that long runs stay and other
//! blocks empty themselves; blocks that do not are emptied (`collection/compact.rs`), for which the record of each piece
//! is known.
//!
//! A run of a whole value wastes less than a unit. Where a value is longer than [`CUT_FROM`], what is left of a block
//! could be a large part of it: such a value is cut, and fills that first.

use std::collections::BTreeSet;

use halite_alloc::SEGMENT;
use halite_pmem::{GRAIN, WINDOW};

use crate::BLOCK;
use crate::entry::Entry;

/// The places of pieces are counted in units of this, in bytes.
pub(crate) const UNIT: u64 = GRAIN;

/// Units of a block.
pub(crate) const UNITS: u64 = BLOCK / UNIT;

/// The least units that a piece takes.
pub(crate) const UNITS_MIN: u64 = WINDOW / UNIT;

/// A longer rest of a value is cut where no run is long enough, in bytes: shorter ones leave at most an eighth of a block
/// unused.
const CUT_FROM: u64 = BLOCK / 8;

/// Blocks that are examined, where some may not be emptied.
const LOOKED_AT: usize = 16;

const WORDS: usize = UNITS as usize / 64;

/// Whether a piece of so many bytes has whole blocks.
pub(crate) fn has_blocks(len: u64) -> bool {
    len > BLOCK - BLOCK / 8
}

/// Units that a piece takes, if it has no whole blocks.
pub(crate) fn units_of(len: u64) -> u64 {
    len.div_ceil(UNIT).max(UNITS_MIN)
}

/// Bytes of the pool that a piece takes.
pub(crate) fn piece_space(len: u64) -> u64 {
    if has_blocks(len) { len.next_multiple_of(BLOCK) } else { units_of(len) * UNIT }
}

/// The length of the first piece of the rest of a value: as much as fills blocks of one segment, or all of it. The last
/// eighth of a block may stay empty, for the sake of fewer pieces.
pub(crate) fn first_piece(rest: u64) -> u64 {
    if !has_blocks(rest) {
        return rest;
    }
    let rounded_up = rest.next_multiple_of(BLOCK);
    let fits = rounded_up <= SEGMENT && rounded_up - rest < BLOCK / 8;
    if fits { rest } else { rest.min(SEGMENT) / BLOCK * BLOCK }
}

/// The lengths of the pieces of a value, where there are runs for them.
pub(crate) fn pieces(value_len: usize) -> impl Iterator<Item = u64> {
    let mut rest = value_len as u64;
    std::iter::from_fn(move || {
        let len = Some(first_piece(rest)).filter(|_| rest > 0)?;
        rest -= len;
        Some(len)
    })
}

/// A piece in a split block.
#[derive(Clone, Copy)]
struct Slot {
    first: u16,
    units: u16,
    /// Its record.
    owner: Option<Entry>,
    /// The epoch in which it was made.
    born: u64,
}

/// A bit for each unit of a block that is taken.
#[derive(Clone, Copy, Default)]
struct Taken([u64; WORDS]);

impl Taken {
    /// The first unit from `from` on that is taken, or is not; the end of the block, if there is none.
    fn next(&self, from: u64, is_taken: bool) -> u64 {
        let mut at = from;
        while at < UNITS {
            let word = self.0[at as usize / 64];
            let bits = if is_taken { word } else { !word } >> (at % 64);
            if bits != 0 {
                return at + u64::from(bits.trailing_zeros());
            }
            at = (at / 64 + 1) * 64;
        }
        UNITS
    }

    /// The free runs: the first unit and the length of each.
    fn runs(&self) -> impl Iterator<Item = (u64, u64)> {
        let mut at = 0;
        std::iter::from_fn(move || {
            let first = self.next(at, false);
            at = self.next(first, true);
            (first < UNITS).then(|| (first, at - first))
        })
    }

    fn is_free(&self, first: u64, units: u64) -> bool {
        self.next(first, true) >= first + units
    }

    fn set(&mut self, first: u64, units: u64, takes: bool) {
        for unit in first..first + units {
            let bit = 1 << (unit % 64);
            match takes {
                true => self.0[unit as usize / 64] |= bit,
                false => self.0[unit as usize / 64] &= !bit,
            }
        }
    }
}

/// A split block.
#[derive(Default)]
struct Split {
    taken: Taken,
    /// Its pieces, in the order of their places.
    slots: Vec<Slot>,
    /// Units that are taken, and those of free runs that are long enough for a piece.
    taken_units: u64,
    usable: u64,
    /// Units of the longest free run.
    longest: u64,
}

impl Split {
    fn find(&self, first: u64) -> Result<usize, usize> {
        self.slots.binary_search_by_key(&first, |slot| slot.first.into())
    }
}

/// The split blocks.
#[derive(Default)]
pub(crate) struct Splits {
    /// By block.
    blocks: Vec<Option<Split>>,
    /// The blocks that have a run for a piece, by its length.
    open: BTreeSet<(u64, u32)>,
    /// The blocks, by how many units are taken.
    by_taken: BTreeSet<(u64, u32)>,
    /// Units of runs that are long enough for a piece.
    usable: u64,
    /// A block of which no runs are given out: it is being emptied.
    closed: Option<u32>,
}

impl Splits {
    /// Splits a block.
    pub(crate) fn add(&mut self, block: u32) {
        let at = block as usize;
        if self.blocks.len() <= at {
            self.blocks.resize_with(at + 1, || None);
        }
        self.blocks[at] = Some(Split { usable: UNITS, longest: UNITS, ..Split::default() });
        self.open.insert((UNITS, block));
        self.by_taken.insert((0, block));
        self.usable += UNITS;
    }

    fn get(&self, block: u32) -> Option<&Split> {
        self.blocks.get(block as usize)?.as_ref()
    }

    /// Whether a block is split.
    pub(crate) fn has(&self, block: u32) -> bool {
        self.get(block).is_some()
    }

    /// Units of the longest run that is given out.
    pub(crate) fn longest(&self) -> u64 {
        self.open_from(0).next_back().map_or(0, |(longest, _)| longest)
    }

    /// Units of all runs that are given out.
    pub(crate) fn usable(&self) -> u64 {
        let closed = self.closed.and_then(|block| self.get(block));
        self.usable - closed.map_or(0, |split| split.usable)
    }

    /// The blocks that have a run of so many units, by their longest runs.
    fn open_from(&self, units: u64) -> impl DoubleEndedIterator<Item = (u64, u32)> {
        let open = self.open.range((units, 0)..).copied();
        open.filter(|(_, block)| Some(*block) != self.closed)
    }

    /// Takes a place for a piece of so many bytes: a run that it fits, or, if it `may_be_cut` or is longer than
    /// [`CUT_FROM`], as much of the longest run as is there. Returns the place and the length that it has room for.
    pub(crate) fn take(&mut self, len: u64, may_be_cut: bool, born: u64) -> Option<(u64, u64)> {
        let wanted = units_of(len);
        let fitting = self.open_from(wanted).next();
        let (block, units) = match fitting {
            Some((_, block)) => (block, wanted),
            None => {
                let (longest, block) = self.open_from(0).next_back()?;
                let is_long = len > CUT_FROM && longest * UNIT >= CUT_FROM;
                if !(may_be_cut || is_long) {
                    return None;
                }
                (block, longest)
            }
        };
        let runs = self.get(block)?.taken.runs().filter(|(_, run)| *run >= units);
        let (first, _) = runs.min_by_key(|(first, run)| (*run, *first))?;
        let place = u64::from(block) * UNITS + first;
        self.set(place, units, Some(born));
        Some((place, len.min(units * UNIT)))
    }

    /// Takes the run at a place, which is in a split block. Returns whether it was free.
    pub(crate) fn take_found(&mut self, place: u64, units: u64) -> bool {
        let (block, first) = ((place / UNITS) as u32, place % UNITS);
        let is_free = first + units <= UNITS
            && self.get(block).is_some_and(|split| split.taken.is_free(first, units));
        if is_free {
            self.set(place, units, Some(0));
        }
        is_free
    }

    /// Frees the run of a piece. Returns whether its block is whole again.
    pub(crate) fn give_back(&mut self, place: u64, units: u64) -> bool {
        let block = (place / UNITS) as u32;
        let slot = self.slot(place).copied();
        let is_there = slot.is_some_and(|slot| u64::from(slot.units) == units);
        assert!(is_there, "the run at {place} is freed once");
        self.set(place, units, None);
        let is_whole = self.get(block).is_some_and(|split| split.slots.is_empty());
        if is_whole {
            self.blocks[block as usize] = None;
            self.open.remove(&(UNITS, block));
            self.by_taken.remove(&(0, block));
            self.usable -= UNITS;
        }
        is_whole
    }

    /// Takes a run for a piece that was made in an epoch, or frees it.
    fn set(&mut self, place: u64, units: u64, born: Option<u64>) {
        let (block, first) = ((place / UNITS) as u32, place % UNITS);
        let Some(split) = self.blocks.get_mut(block as usize).and_then(Option::as_mut) else {
            return;
        };
        self.open.remove(&(split.longest, block));
        self.by_taken.remove(&(split.taken_units, block));
        self.usable -= split.usable;
        split.taken.set(first, units, born.is_some());
        match (born, split.find(first)) {
            (Some(born), Err(at)) => {
                let slot = Slot { first: first as u16, units: units as u16, owner: None, born };
                split.slots.insert(at, slot);
                split.taken_units += units;
            }
            (None, Ok(at)) => {
                split.slots.remove(at);
                split.taken_units -= units;
            }
            _ => unreachable!("a run has one piece"),
        }
        let runs = || split.taken.runs().map(|(_, run)| run).filter(|run| *run >= UNITS_MIN);
        (split.longest, split.usable) = (runs().max().unwrap_or(0), runs().sum());
        if split.longest > 0 {
            self.open.insert((split.longest, block));
        }
        self.by_taken.insert((split.taken_units, block));
        self.usable += split.usable;
    }

    /// Stops giving out runs of a block; given `None`, gives out those of all blocks again.
    pub(crate) fn close(&mut self, block: Option<u32>) {
        self.closed = block;
    }

    fn slot(&self, place: u64) -> Option<&Slot> {
        let split = self.get((place / UNITS) as u32)?;
        split.find(place % UNITS).ok().map(|at| &split.slots[at])
    }

    /// Notes which record has the piece at a place, if one has.
    pub(crate) fn set_owner(&mut self, place: u64, owner: Option<Entry>) {
        let split = self.blocks.get_mut((place / UNITS) as usize).and_then(Option::as_mut);
        if let Some(split) = split
            && let Ok(at) = split.find(place % UNITS)
        {
            split.slots[at].owner = owner;
        }
    }

    /// The epoch in which the piece at a place was made, if it is in a split block.
    pub(crate) fn born(&self, place: u64) -> Option<u64> {
        self.slot(place).map(|slot| slot.born)
    }

    /// The records that have pieces in a block.
    pub(crate) fn owners(&self, block: u32) -> Vec<Entry> {
        let slots = self.get(block).into_iter().flat_map(|split| &split.slots);
        let mut owners: Vec<_> = slots.filter_map(|slot| slot.owner).collect();
        owners.dedup_by_key(|entry| entry.place());
        owners
    }

    /// The sparsest block all of whose pieces were made in epoch `since` or later, among the first [`LOOKED_AT`], if
    /// less than `share` of 8 parts of it is taken and there are as many units in other blocks. Blocks in which nothing
    /// `is_alive` are passed over: they are about to be whole.
    pub(crate) fn sparsest(
        &self,
        share: u32,
        is_alive: impl Fn(u32) -> bool,
        since: u64,
    ) -> Option<u32> {
        let alive = self.by_taken.iter().filter(|(_, block)| is_alive(*block));
        let are_young = |block: &u32| {
            let mut slots = self.get(*block).into_iter().flat_map(|split| &split.slots);
            slots.all(|slot| slot.born >= since)
        };
        let &(taken, block) = alive.take(LOOKED_AT).find(|(_, block)| are_young(block))?;
        let others = self.usable - self.get(block)?.usable;
        (taken * 8 < UNITS * u64::from(share) && others >= taken).then_some(block)
    }
}

const _: () = assert!(UNITS <= u16::MAX as u64 && UNITS.is_multiple_of(64));

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn values_are_cut_into_few_pieces_that_waste_little() {
        let kib = |lens: &[u64]| lens.iter().map(|len| len << 10).collect::<Vec<_>>();
        for (len, cut) in [
            (2, &[2][..]),
            (3, &[3]),
            (14, &[14]),
            (44, &[44]),
            (112, &[112]),
            (120, &[120]),
            (300, &[256, 44]),
            (3 << 10, &[2 << 10, 1 << 10]),
        ] {
            assert_eq!(pieces(len << 10).collect::<Vec<_>>(), kib(cut), "{len} KiB");
        }
        assert_eq!(pieces(0).count(), 0);
        for len in [2048 + 65, 3073, 4097, 8193, 14_337] {
            let waste = piece_space(len) as f64 / len as f64 - 1.0;
            assert!(waste < 0.1, "{len} bytes waste {waste}");
        }
    }

    #[test]
    fn a_piece_takes_the_shortest_run_and_only_long_ones_are_cut() {
        let mut splits = Splits::default();
        splits.add(0);
        let lens = [4 << 10, 6 << 10, 100 << 10, 12 << 10];
        let places = lens.map(|len| splits.take(len, false, 1).unwrap().0);
        assert_eq!(places.map(|place| (place * UNIT) >> 10), [0, 4, 10, 110]);
        assert!(!splits.give_back(places[0], 16) && !splits.give_back(places[1], 24));
        // 10 KiB are free at the start, 6 KiB at the end.
        assert_eq!(splits.take(5 << 10, false, 1), Some((122 * 4, 5 << 10)));
        assert_eq!((splits.take(11 << 10, false, 1), splits.longest()), (None, 40));
        assert_eq!(splits.take(11 << 10, true, 1), Some((0, 10 << 10)));
        assert_eq!((splits.take(1, true, 1), splits.usable()), (None, 0));
        assert!(
            !splits.take_found(0, 8) && !splits.take_found(508, 8) && !splits.take_found(600, 8)
        );
        assert!(!splits.give_back(places[2], 400));
        splits.close(Some(0));
        assert_eq!((splits.take(3000, true, 1), splits.usable(), splits.longest()), (None, 0, 0));
        splits.close(None);
        assert_eq!(splits.take(110 << 10, false, 1), Some((10 * 4, 100 << 10)), "it is cut");
    }

    proptest! {
        #[test]
        fn pieces_make_up_the_value(len in 1..5_000_000_usize) {
            let cut: Vec<_> = pieces(len).collect();
            prop_assert_eq!(cut.iter().sum::<u64>(), len as u64);
            let space: u64 = cut.iter().map(|&len| piece_space(len)).sum();
            prop_assert!(space < len as u64 + len as u64 / 7 + WINDOW, "{space}");
            prop_assert!(cut.len() <= 4, "{:?}", cut);
        }

        #[test]
        fn runs_are_those_of_a_model(steps in prop::collection::vec((1..120_000_u64, any::<prop::sample::Index>(), any::<bool>(), any::<bool>()), 0..300)) {
            let (mut splits, mut taken, mut next) = (Splits::default(), BTreeMap::new(), 0);
            for (len, which, frees, may_be_cut) in steps {
                if frees && !taken.is_empty() {
                    let (&place, &units) = taken.iter().nth(which.index(taken.len())).unwrap();
                    taken.remove(&place);
                    let is_whole = splits.give_back(place, units);
                    prop_assert_eq!(is_whole, !taken.keys().any(|other| other / UNITS == place / UNITS));
                    continue;
                }
                let len = len.min(BLOCK - BLOCK / 8);
                let (place, taken_len) = splits.take(len, may_be_cut, 1).unwrap_or_else(|| {
                    splits.add(next);
                    next += 1;
                    splits.take(len, false, 1).unwrap()
                });
                prop_assert!(taken_len == len || (taken_len < len && (may_be_cut || len > CUT_FROM)));
                let units = units_of(taken_len);
                prop_assert_eq!(place / UNITS, (place + units - 1) / UNITS);
                let before = taken.range(..place + units).next_back();
                prop_assert!(before.is_none_or(|(other, units)| other + units <= place));
                prop_assert!(!splits.take_found(place, units));
                taken.insert(place, units);
            }
            let mut usable = 0;
            for (block, split) in splits.blocks.iter().enumerate() {
                let Some(split) = split else { continue };
                let first = block as u64 * UNITS;
                let (mut at, mut longest) = (first, 0);
                let ends = taken.range(first..first + UNITS).map(|(place, units)| (*place, *units));
                for (place, units) in ends.chain([(first + UNITS, 0)]) {
                    let run = if place - at >= UNITS_MIN { place - at } else { 0 };
                    (usable, longest, at) = (usable + run, longest.max(run), place + units);
                }
                prop_assert_eq!(split.longest, longest);
            }
            prop_assert_eq!(splits.usable(), usable);
        }
    }
}
