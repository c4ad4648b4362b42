//! A slab in DRAM: the states of its slots, read when the slab is first used, and which of them are in use.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use super::class::{Class, STATE_LEN};
use super::ground::Ground;
use super::layout::{ChunkId, chunk_at, chunk_word_at};
use super::owner::Owner;
use super::pointer::{GENERATION_MAX, Tag};
use super::slot::{Slot, SlotState};
use crate::Result;

/// The place of the state of a slot.
pub(super) fn state_at(id: ChunkId, index: u32) -> u64 {
    chunk_at(id) + u64::from(index) * STATE_LEN
}

/// The place of a slot.
pub(super) fn slot_at(id: ChunkId, class: Class, index: u32) -> u64 {
    let shape = class.shape();
    chunk_at(id) + u64::from(shape.slots_at) + u64::from(index) * u64::from(shape.len)
}

/// The owner and the class of a slab's slots.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct SlabKind {
    pub(super) owner: Owner,
    pub(super) class: Class,
}

/// The slots of a slab.
pub(super) struct Slots {
    slots: Box<[Slot]>,
    /// A bit for each slot that may not be reserved: it is not free, or not durably so.
    used: Box<[u64]>,
    /// A bit for each slot whose bytes were proven since they last changed ([`super::base::Heap::read_proven`]).
    proven: Box<[AtomicU64]>,
    free: u32,
    /// Where the search for a free slot goes on.
    cursor: u32,
}

impl Slots {
    /// The slots of a slab without any in use, and the bytes of their states. Generations begin anywhere, so that a
    /// pointer to a slot of an earlier slab at the same place is not taken for one of this slab's.
    pub(super) fn unused(
        ground: &Ground,
        id: ChunkId,
        class: Class,
        generation: u16,
    ) -> (Self, Vec<u8>) {
        let begin = ground.check(chunk_word_at(id), u64::from(generation) << 16) as u16;
        let slot = Slot::free(begin & GENERATION_MAX);
        let count = class.shape().count;
        let states = (0..count).map(|index| slot.encode(ground, state_at(id, index)));
        let mut bytes: Vec<u8> = states.flat_map(u32::to_le_bytes).collect();
        bytes.resize(bytes.len().next_multiple_of(8), 0);
        (Self::of(vec![slot; count as usize].into()), bytes)
    }

    /// Reads the states of a slab.
    pub(super) fn read(ground: &Ground, id: ChunkId, class: Class) -> Result<Self> {
        let count = class.shape().count;
        let (states, _) = ground.read(chunk_at(id), u64::from(count) * STATE_LEN).as_chunks();
        let slot = |(index, state): (u32, &[u8; 4])| {
            let word = u32::from_le_bytes(*state);
            Slot::decode(ground, state_at(id, index), word).ok_or_else(|| {
                let what = format!("{}, slot {index}", Ground::chunk_name(id));
                ground.damaged(what, format!("the state {word:#010x} does not have its check"))
            })
        };
        let slots: Vec<Slot> = (0..).zip(states).map(slot).collect::<Result<_>>()?;
        Ok(Self::of(slots.into()))
    }

    fn of(slots: Box<[Slot]>) -> Self {
        let mut used = vec![0; slots.len().div_ceil(64)];
        for (index, _) in slots.iter().enumerate().filter(|(_, slot)| slot.state != SlotState::Free)
        {
            used[index / 64] |= 1 << (index % 64);
        }
        // The bits behind the last slot are never free.
        if !slots.len().is_multiple_of(64) {
            used[slots.len() / 64] |= u64::MAX << (slots.len() % 64);
        }
        let free = slots.iter().filter(|slot| slot.state == SlotState::Free).count() as u32;
        let proven = used.iter().map(|_| AtomicU64::new(0)).collect();
        Self { slots, used: used.into(), proven, free, cursor: 0 }
    }

    /// How many there are.
    pub(super) fn len(&self) -> u32 {
        self.slots.len() as u32
    }

    /// Slots that may be reserved.
    pub(super) fn free(&self) -> u32 {
        self.free
    }

    pub(super) fn slot(&self, index: u32) -> Slot {
        self.slots[index as usize]
    }

    /// The slot, to be changed: its bytes are not proven any more.
    pub(super) fn slot_mut(&mut self, index: u32) -> &mut Slot {
        *self.proven[index as usize / 64].get_mut() &= !(1 << (index % 64));
        &mut self.slots[index as usize]
    }

    #[inline]
    pub(super) fn is_proven(&self, index: u32) -> bool {
        self.proven[index as usize / 64].load(Relaxed) >> (index % 64) & 1 != 0
    }

    pub(super) fn set_proven(&self, index: u32) {
        self.proven[index as usize / 64].fetch_or(1 << (index % 64), Relaxed);
    }

    pub(super) fn forget_proofs(&mut self) {
        self.proven.iter_mut().for_each(|proven| *proven.get_mut() = 0);
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = Slot> {
        self.slots.iter().copied()
    }

    /// Reserves the next free slot behind the one reserved before. At the end of the slab there is none, and the search
    /// begins again.
    pub(super) fn reserve(&mut self, tag: Tag) -> Option<u32> {
        let (mut at, mut mask) = (self.cursor / 64, u64::MAX << (self.cursor % 64));
        while let Some(used) = self.used.get(at as usize) {
            let free = !used & mask;
            if free != 0 {
                let index = at * 64 + free.trailing_zeros();
                self.used[at as usize] |= 1 << (index % 64);
                self.free -= 1;
                self.cursor = index + 1;
                let slot = self.slot_mut(index);
                *slot = slot.reserved(tag);
                return Some(index);
            }
            (at, mask) = (at + 1, u64::MAX);
        }
        self.cursor = 0;
        None
    }

    /// Lets a slot not be reserved.
    pub(super) fn occupy(&mut self, index: u32) {
        let bit = 1 << (index % 64);
        if self.used[index as usize / 64] & bit == 0 {
            self.used[index as usize / 64] |= bit;
            self.free -= 1;
        }
    }

    /// Lets a slot be reserved again.
    pub(super) fn release(&mut self, index: u32) {
        let bit = 1 << (index % 64);
        assert!(self.used[index as usize / 64] & bit != 0, "a slot is released once");
        self.used[index as usize / 64] &= !bit;
        self.free += 1;
        let slot = self.slot_mut(index);
        *slot = slot.released();
    }
}
