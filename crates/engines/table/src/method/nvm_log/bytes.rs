//! Byte strings in slots of their own: deltas of rows, and the primary keys that entries of secondary indexes lead to.
//!
//! ```text
//! len u32 | check u32 | bytes          the check is seeded with the heap's salt and the slot's word
//! ```

use halite_alloc::heap::{Heap, NvPtr, Owner, Tag, Tagged};
use xxhash_rust::xxh3::xxh3_64_with_seed;

use crate::{Error, Result};

/// The slot of a delta.
#[derive(Debug)]
pub(super) enum Delta {}

/// The slot of a primary key.
#[derive(Debug)]
pub(super) enum PrimaryKey {}

impl Tagged for Delta {
    const TAG: Tag = Tag::new(20);
}

impl Tagged for PrimaryKey {
    const TAG: Tag = Tag::new(21);
}

/// Bytes before the string.
const HEAD: usize = 8;

/// Writes a string to a slot that it reserves.
pub(super) fn write<T: Tagged>(heap: &mut Heap, owner: Owner, bytes: &[u8]) -> Result<NvPtr<T>> {
    let slot = heap.reserve::<T>(owner, (HEAD + bytes.len()) as u64)?;
    let (len, check) = (bytes.len() as u32, check(heap, slot, bytes));
    heap.write(slot, 0, &[&len.to_le_bytes(), &check.to_le_bytes(), bytes].concat())?;
    Ok(slot)
}

/// Reads a string.
pub(super) fn read<T: Tagged>(heap: &Heap, slot: NvPtr<T>) -> Result<&[u8]> {
    let bytes = heap.read(slot)?;
    let (len, rest) = bytes.split_first_chunk::<4>().expect("a slot has 16 bytes or more");
    let (stored, rest) = rest.split_first_chunk::<4>().expect("a slot has 16 bytes or more");
    let bytes = rest.get(..u32::from_le_bytes(*len) as usize);
    bytes.filter(|bytes| check(heap, slot, bytes) == u32::from_le_bytes(*stored)).ok_or_else(|| {
        let what = format!("the slot at {:#018x}", slot.word());
        Error::damaged(what, "it does not have its check")
    })
}

fn check<T>(heap: &Heap, slot: NvPtr<T>, bytes: &[u8]) -> u32 {
    xxh3_64_with_seed(bytes, heap.salt() ^ slot.word()) as u32
}
