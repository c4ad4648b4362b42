//! Garbage: slots that no directory leads to any more, and that are not free yet, as a snapshot reads them or no record
//! takes them all.
//!
//! ```text
//!  next u64 | check u64 | sequence u64 | slots u64 | word x slots
//! ```
//!
//! The directory leads to the oldest garbage of a queue, and that to the next. All slots of one are free at once, with its
//! own: a crash leaves the garbage whole, or nothing of it. Its sequence is that of the first directory that does without
//! the slots. The check is over what is behind it, and seeded with the pointer.

use halite_alloc::heap::{AnyPtr, Heap, NvPtr, Owner, Tag, Tagged};

use super::node::{damaged, has_check, seal, word};
use crate::index::Result;

/// Slots that one garbage names at most, and those of other steps: a record takes 4,095 changes, and an activated slot may
/// take two.
pub(super) const STEP: usize = 1200;

/// Where the word of the next garbage is.
pub(super) const NEXT_AT: u64 = 0;

const CHECK_AT: usize = 8;
const HEAD: usize = 32;

/// The slot of garbage.
#[derive(Debug)]
pub(super) enum Garbage {}

impl Tagged for Garbage {
    const TAG: Tag = Tag::new(53);
}

/// Garbage that was read.
#[derive(Debug)]
pub(super) struct Part {
    pub(super) next: NvPtr<Garbage>,
    pub(super) sequence: u64,
    pub(super) slots: Vec<AnyPtr>,
}

impl Part {
    /// Reads and checks the garbage in a slot.
    pub(super) fn read(heap: &Heap, place: NvPtr<Garbage>) -> Result<Self> {
        let slot = heap.read(place)?;
        let count = slot.get(..HEAD).map_or(0, |head| word(head, 24));
        let len =
            usize::try_from(count).ok().and_then(|count| count.checked_mul(8)?.checked_add(HEAD));
        let bytes = len
            .and_then(|len| slot.get(..len))
            .filter(|bytes| has_check(heap.salt(), place, &bytes[CHECK_AT..]));
        let bytes = bytes.ok_or_else(|| damaged(place, "garbage does not have its check"))?;
        let slots = bytes[HEAD..].chunks_exact(8).map(|bytes| AnyPtr::from_word(word(bytes, 0)));
        Ok(Self {
            next: NvPtr::from_word(word(bytes, NEXT_AT as usize)),
            sequence: word(bytes, 16),
            slots: slots.collect(),
        })
    }
}

/// Writes garbage that names these slots to slots that it reserves, in the order of the queue: each leads to the next.
pub(super) fn write(
    heap: &mut Heap,
    owner: Owner,
    sequence: u64,
    slots: &[AnyPtr],
) -> Result<Vec<NvPtr<Garbage>>> {
    let mut written: Vec<NvPtr<Garbage>> = Vec::new();
    for part in slots.chunks(STEP).rev() {
        let next = written.last().map_or(0, |next| next.word());
        match write_one(heap, owner, (sequence, next), part) {
            Ok(place) => written.push(place),
            Err(error) => {
                give_up(heap, &written)?;
                return Err(error);
            }
        }
    }
    written.reverse();
    Ok(written)
}

fn write_one(
    heap: &mut Heap,
    owner: Owner,
    (sequence, next): (u64, u64),
    slots: &[AnyPtr],
) -> Result<NvPtr<Garbage>> {
    let words = [next, 0, sequence, slots.len() as u64].into_iter();
    let words = words.chain(slots.iter().map(|slot| slot.word()));
    let mut bytes: Vec<u8> = words.flat_map(u64::to_le_bytes).collect();
    let place = heap.reserve::<Garbage>(owner, bytes.len() as u64)?;
    seal(heap.salt(), place, &mut bytes[CHECK_AT..]);
    heap.write(place, 0, &bytes)?;
    Ok(place)
}

/// Gives up garbage that is only reserved.
pub(super) fn give_up(heap: &mut Heap, written: &[NvPtr<Garbage>]) -> Result<()> {
    written.iter().try_for_each(|&place| Ok(heap.cancel(place)?))
}
