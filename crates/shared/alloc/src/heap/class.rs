//! The size classes of slots.
//!
//! Lengths are multiples of 8 bytes from 16 on, eight to a doubling, and above 4 KiB the parts of a chunk: a sixteenth
//! down to a half. So at most an eighth of a slot of up to 8,128 bytes is wasted (or 7 bytes); of longer ones, a third,
//! because fewer of them fit into a chunk. Above that, slots are spans of whole chunks.
//!
//! ```text
//! a slab     0                      a multiple of 64
//!            ┌─────────┬─────┬─────┐┌────────┬────────┬─────
//!            │ state 0 │ ... │ pad ││ slot 0 │ slot 1 │ ...
//!            └─────────┴─────┴─────┘└────────┴────────┴─────
//! ```
//!
//! A state has 4 bytes, so the space that a slab's slots do not have is a fifth for the shortest ones, and 4 % for
//! those of 100 bytes.

use halite_pmem::LINE;

use super::layout::CHUNK;

/// How many classes there are.
pub(super) const CLASSES: usize = 69;

/// Bytes of a state.
pub(super) const STATE_LEN: u64 = 4;

/// The shortest slot, in bytes.
const LEN_MIN: u32 = 16;

/// Lengths below this are eight to a doubling.
const PARTS_FROM: u32 = 4032;

/// How a slab of one class is divided.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Shape {
    /// Bytes of a slot.
    pub(super) len: u32,
    /// Slots of a slab.
    pub(super) count: u32,
    /// Where the slots begin, in bytes from the chunk's start.
    pub(super) slots_at: u32,
}

const SHAPES: [Shape; CLASSES] = shapes();

/// The longest slot of a slab, in bytes.
pub(super) const SLAB_LEN_MAX: u64 = SHAPES[CLASSES - 1].len as u64;

/// A size class.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Class(u8);

impl Class {
    /// The class of slots of at least `len` bytes, or `None` if they are too long for a slab.
    pub(super) fn of(len: u64) -> Option<Self> {
        let class = SHAPES.partition_point(|shape| u64::from(shape.len) < len);
        (class < CLASSES).then_some(Self(class as u8))
    }

    /// The class with a number, if there is one.
    pub(super) fn numbered(number: u64) -> Option<Self> {
        (number < CLASSES as u64).then_some(Self(number as u8))
    }

    pub(super) fn number(self) -> u64 {
        u64::from(self.0)
    }

    pub(super) fn shape(self) -> Shape {
        SHAPES[usize::from(self.0)]
    }
}

impl Shape {
    const fn of(len: u32) -> Self {
        let mut count = CHUNK as u32 / (len + STATE_LEN as u32);
        while Self::slots_at(count) + count * len > CHUNK as u32 {
            count -= 1;
        }
        Self { len, count, slots_at: Self::slots_at(count) }
    }

    const fn slots_at(count: u32) -> u32 {
        (count * STATE_LEN as u32).next_multiple_of(LINE as u32)
    }

    /// The number of the slot that begins so many bytes from the chunk's start.
    pub(super) fn slot_at(self, offset: u64) -> Option<u32> {
        let behind = (offset as u32).checked_sub(self.slots_at)?;
        let index = behind / self.len;
        (index < self.count && behind.is_multiple_of(self.len)).then_some(index)
    }
}

const fn shapes() -> [Shape; CLASSES] {
    let mut shapes = [Shape { len: 0, count: 0, slots_at: 0 }; CLASSES];
    let (mut at, mut len, mut step) = (0, LEN_MIN, 8);
    while len < PARTS_FROM {
        shapes[at] = Shape::of(len);
        at += 1;
        len += step;
        if len > LINE as u32 && len.is_power_of_two() {
            step *= 2;
        }
    }
    let mut parts = 16;
    while parts > 1 {
        let len = (CHUNK as u32 - Shape::slots_at(parts)) / parts;
        shapes[at] = Shape::of(len / LINE as u32 * LINE as u32);
        at += 1;
        parts -= 1;
    }
    assert!(at == CLASSES, "the number of classes");
    shapes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_ascend_and_waste_at_most_an_eighth_of_the_shorter_slots() {
        for pair in SHAPES.windows(2) {
            let (shorter, longer) = (pair[0].len, pair[1].len);
            assert!(shorter < longer && longer.is_multiple_of(8));
            let wasted = longer - shorter - 1;
            assert!(wasted < 8 || wasted * 8 <= longer || longer > 8128, "{shorter} {longer}");
            assert!(wasted * 3 <= longer.max(24), "{shorter} {longer}");
        }
        assert_eq!((SHAPES[0].len, SLAB_LEN_MAX), (16, 32704));
    }

    #[test]
    fn slabs_are_full() {
        for shape in SHAPES {
            let Shape { len, count, slots_at } = shape;
            assert!(slots_at >= count * 4 && u64::from(slots_at + count * len) <= CHUNK);
            assert!(slots_at + (count + 1) * (len + 4) > CHUNK as u32 - 64, "{len}");
            assert_eq!(shape.slot_at(u64::from(slots_at)), Some(0));
            assert_eq!(shape.slot_at(u64::from(slots_at + (count - 1) * len)), Some(count - 1));
            for nothing in [0, slots_at - 4, slots_at + 8, slots_at + count * len] {
                assert_eq!(shape.slot_at(u64::from(nothing)), None, "{len}");
            }
        }
    }

    #[test]
    fn a_length_gets_the_shortest_slot_that_holds_it() {
        assert_eq!(Class::of(0).unwrap().shape().len, 16);
        assert_eq!(Class::of(100).unwrap().shape().len, 104);
        assert_eq!(Class::of(512).unwrap().shape().len, 512);
        assert_eq!(Class::of(513).unwrap().shape().len, 576);
        assert_eq!(Class::of(SLAB_LEN_MAX).unwrap().number(), CLASSES as u64 - 1);
        assert_eq!(Class::of(SLAB_LEN_MAX + 1), None);
        assert_eq!(Class::numbered(CLASSES as u64), None);
    }
}
