//! Blocks that are split into slots for pieces of values: 64 of 2 KiB, 8 of 16 KiB or 2 of 64 KiB.
//!
//! A block is split when a piece finds no slot of its class, and is whole again when its last slot is free. Which
//! slots are taken is volatile, like everything that is known of values: recovery reads it from the records. Slots
//! are taken from the fullest block that has a free one, so that other blocks empty themselves; blocks that do not
//! are emptied (`collection/compact.rs`), for which the record of each piece is known.

use std::collections::BTreeSet;

use halite_alloc::SEGMENT;

use crate::BLOCK;
use crate::entry::Entry;

/// The places of pieces are counted in units of this, in bytes.
pub(crate) const UNIT: u64 = 2 << 10;

/// Units of a block.
pub(crate) const UNITS: u32 = (BLOCK / UNIT) as u32;

/// The sizes of slots in bytes. A longer piece takes whole blocks.
const SIZES: [u64; CLASSES] = [UNIT, 16 << 10, 64 << 10];

/// Blocks of a class that are examined, where some may not be emptied.
const LOOKED_AT: usize = 16;

/// How many sizes of slots there are.
pub(crate) const CLASSES: usize = 3;

/// The class of a piece of so many bytes; none if it takes whole blocks.
pub(crate) fn class_of(len: u64) -> Option<usize> {
    SIZES.iter().position(|&size| len <= size)
}

/// The most bytes that a slot of a class takes.
pub(crate) fn size_of_class(class: usize) -> u64 {
    SIZES[class]
}

/// Slots in a block of a class.
pub(crate) fn slots_of(class: usize) -> u32 {
    (BLOCK / SIZES[class]) as u32
}

/// Bytes of the pool that a piece takes.
pub(crate) fn piece_space(len: u64) -> u64 {
    class_of(len).map_or(len.next_multiple_of(BLOCK), |class| SIZES[class])
}

/// The length of the first piece of the rest of a value: as much as fills blocks of one segment, or a slot. The last
/// eighth of a block or a slot may stay empty, for the sake of fewer pieces.
pub(crate) fn first_piece(rest: u64) -> u64 {
    if rest > BLOCK - BLOCK / 8 {
        let rounded_up = rest.next_multiple_of(BLOCK);
        let fits = rounded_up <= SEGMENT && rounded_up - rest < BLOCK / 8;
        return if fits { rest } else { rest.min(SEGMENT) / BLOCK * BLOCK };
    }
    let fitting = SIZES.iter().rev().find(|&&size| rest > size - size / 8);
    fitting.map_or(rest, |&size| rest.min(size))
}

/// The lengths of the pieces of a value.
pub(crate) fn pieces(value_len: usize) -> impl Iterator<Item = u64> {
    let mut rest = value_len as u64;
    std::iter::from_fn(move || {
        let len = Some(first_piece(rest)).filter(|_| rest > 0)?;
        rest -= len;
        Some(len)
    })
}

/// A block of slots.
struct Split {
    class: usize,
    /// A bit for each slot that is taken.
    taken: u64,
    slots: Box<[Slot]>,
}

/// What is known of the piece in a slot.
#[derive(Clone, Copy, Default)]
struct Slot {
    /// Its record.
    owner: Option<Entry>,
    /// The epoch in which it was made.
    born: u64,
}

/// The split blocks.
#[derive(Default)]
pub(crate) struct Splits {
    /// By block.
    blocks: Vec<Option<Split>>,
    /// Of each class, the blocks that have a free slot, by how many are taken.
    open: [BTreeSet<(u32, u32)>; CLASSES],
    /// Free slots of each class.
    free: [u64; CLASSES],
    /// A block that gives out no slots: it is being emptied.
    closed: Option<u32>,
}

impl Splits {
    /// Splits a block.
    pub(crate) fn add(&mut self, block: u32, class: usize) {
        let slots = vec![Slot::default(); slots_of(class) as usize].into();
        let at = block as usize;
        if self.blocks.len() <= at {
            self.blocks.resize_with(at + 1, || None);
        }
        self.blocks[at] = Some(Split { class, taken: 0, slots });
        self.open[class].insert((0, block));
        self.free[class] += u64::from(slots_of(class));
    }

    fn get(&self, block: u32) -> Option<&Split> {
        self.blocks.get(block as usize)?.as_ref()
    }

    fn get_mut(&mut self, block: u32) -> Option<&mut Split> {
        self.blocks.get_mut(block as usize)?.as_mut()
    }

    /// The class of a split block.
    pub(crate) fn class(&self, block: u32) -> Option<usize> {
        Some(self.get(block)?.class)
    }

    /// Free slots of a class.
    pub(crate) fn free(&self, class: usize) -> u64 {
        self.free[class]
    }

    /// Takes a slot of a class, if there is one, and returns its place.
    pub(crate) fn take(&mut self, class: usize) -> Option<u32> {
        let is_open = |block: &u32| Some(*block) != self.closed;
        let block = self.open[class].iter().rev().map(|open| open.1).find(is_open)?;
        let slot = self.get(block)?.taken.trailing_ones();
        let place = block * UNITS + slot * (UNITS / slots_of(class));
        self.set(place, class, true).then_some(place)
    }

    /// Takes the slot at a place, which is in a block of the class. Returns whether it was free.
    pub(crate) fn take_found(&mut self, place: u32, class: usize) -> bool {
        self.set(place, class, true)
    }

    /// Frees a slot. Returns whether its block is whole again.
    pub(crate) fn give_back(&mut self, place: u32, class: usize) -> bool {
        let was_taken = self.set(place, class, false);
        assert!(was_taken, "the slot at {place} is freed once");
        let block = place / UNITS;
        let is_whole = self.get(block).is_some_and(|split| split.taken == 0);
        if is_whole {
            self.blocks[block as usize] = None;
            self.open[class].remove(&(0, block));
            self.free[class] -= u64::from(slots_of(class));
        }
        is_whole
    }

    /// Takes or frees a slot; returns whether that changed it.
    fn set(&mut self, place: u32, class: usize, takes: bool) -> bool {
        let (block, units) = (place / UNITS, UNITS / slots_of(class));
        let Some(split) = self.get_mut(block) else { return false };
        let bit = 1 << (place % UNITS / units);
        if (split.taken & bit != 0) == takes {
            return false;
        }
        let before = split.taken.count_ones();
        split.taken ^= bit;
        split.slots[(place % UNITS / units) as usize] = Slot::default();
        let after = split.taken.count_ones();
        if before < slots_of(class) {
            self.open[class].remove(&(before, block));
        }
        if after < slots_of(class) {
            self.open[class].insert((after, block));
        }
        self.free[class] = self.free[class] + u64::from(before) - u64::from(after);
        true
    }

    /// Stops giving out slots of a block; given `None`, gives out those of all blocks again.
    pub(crate) fn close(&mut self, block: Option<u32>) {
        self.closed = block;
    }

    /// Notes which record has the piece at a place, if one has.
    pub(crate) fn set_owner(&mut self, place: u32, owner: Option<Entry>) {
        if let Some(slot) = self.slot_mut(place) {
            slot.owner = owner;
        }
    }

    /// Notes the epoch in which the piece at a place was made, if it is in a slot.
    pub(crate) fn set_born(&mut self, place: u32, born: u64) {
        if let Some(slot) = self.slot_mut(place) {
            slot.born = born;
        }
    }

    fn slot_mut(&mut self, place: u32) -> Option<&mut Slot> {
        let split = self.get_mut(place / UNITS)?;
        split.slots.get_mut((place % UNITS / (UNITS / slots_of(split.class))) as usize)
    }

    /// The epoch in which the piece at a place was made, if it is in a slot.
    pub(crate) fn born(&self, place: u32) -> Option<u64> {
        let split = self.get(place / UNITS)?;
        Some(split.slots[(place % UNITS / (UNITS / slots_of(split.class))) as usize].born)
    }

    /// The records that have pieces in a block.
    pub(crate) fn owners(&self, block: u32) -> Vec<Entry> {
        let split = self.get(block);
        let mut owners: Vec<_> = split
            .iter()
            .flat_map(|split| split.slots.iter().filter_map(|slot| slot.owner))
            .collect();
        owners.dedup_by_key(|entry| (entry.block(), entry.offset()));
        owners
    }

    /// The sparsest block all of whose pieces were made in epoch `since` or later, among the first [`LOOKED_AT`] of each
    /// class, if less than `share` of 8 parts of it is taken and its pieces find other slots of the class. Blocks in
    /// which nothing `is_alive` are passed over: they are about to be whole.
    pub(crate) fn sparsest(
        &self,
        share: u32,
        is_alive: impl Fn(u32) -> bool,
        since: u64,
    ) -> Option<u32> {
        let is_young = |slot: &Slot| slot.born >= since;
        let may = |block: u32| {
            let slots = self.get(block).into_iter().flat_map(|split| {
                split.slots.iter().enumerate().filter(|(at, _)| split.taken >> at & 1 != 0)
            });
            slots.map(|(_, slot)| slot).all(is_young)
        };
        let of_class = |class: usize| {
            let slots = slots_of(class);
            let alive = self.open[class].iter().filter(|(_, block)| is_alive(*block));
            let &(taken, block) = alive.take(LOOKED_AT).find(|(_, block)| may(*block))?;
            let others = self.free[class] - u64::from(slots - taken);
            let is_sparse = taken * 8 < slots * share && others >= u64::from(taken);
            is_sparse.then_some((u64::from(taken) * SIZES[class], block))
        };
        (0..CLASSES).filter_map(of_class).min().map(|(_, block)| block)
    }
}

const _: () = assert!(UNITS == u64::BITS);

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
            (3, &[2, 1]),
            (15, &[15]),
            (17, &[16, 1]),
            (33, &[16, 16, 1]),
            (120, &[120]),
            (300, &[256, 16, 16, 2, 2, 2, 2, 2, 2]),
            (3 << 10, &[2 << 10, 1 << 10]),
        ] {
            assert_eq!(pieces(len << 10).collect::<Vec<_>>(), kib(cut), "{len} KiB");
        }
        assert_eq!(pieces(0).count(), 0);
    }

    proptest! {
        #[test]
        fn pieces_make_up_the_value(len in 1..5_000_000_usize) {
            let cut: Vec<_> = pieces(len).collect();
            prop_assert_eq!(cut.iter().sum::<u64>(), len as u64);
            let space: u64 = cut.iter().map(|&len| piece_space(len)).sum();
            prop_assert!(space < len as u64 + len as u64 / 7 + UNIT, "{space}");
            prop_assert!(cut.len() <= 4 + 3 + 7 + 7, "{:?}", cut);
        }

        #[test]
        fn slots_are_those_of_a_model(steps in prop::collection::vec((0..CLASSES, any::<prop::sample::Index>(), any::<bool>()), 0..400)) {
            let (mut splits, mut taken, mut next) = (Splits::default(), BTreeMap::new(), 0);
            for (class, which, frees) in steps {
                if frees && !taken.is_empty() {
                    let (&place, &class) = taken.iter().nth(which.index(taken.len())).unwrap();
                    taken.remove(&place);
                    let is_whole = splits.give_back(place, class);
                    prop_assert_eq!(is_whole, !taken.keys().any(|other| other / UNITS == place / UNITS));
                    continue;
                }
                let place = splits.take(class).unwrap_or_else(|| {
                    splits.add(next, class);
                    next += 1;
                    splits.take(class).unwrap()
                });
                let end = place + (SIZES[class] / UNIT) as u32;
                prop_assert!(taken.range(place..end).next().is_none());
                prop_assert!(taken.insert(place, class).is_none());
                prop_assert!(!splits.take_found(place, class));
            }
            for class in 0..CLASSES {
                let blocks = splits.blocks.iter().flatten().filter(|split| split.class == class).count();
                let slots = taken.values().filter(|of| **of == class).count();
                prop_assert_eq!(splits.free(class), (blocks * slots_of(class) as usize - slots) as u64);
            }
        }
    }
}
