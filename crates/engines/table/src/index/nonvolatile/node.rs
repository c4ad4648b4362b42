//! The types of the slots that a tree has in the heap, and the seeds of their checks.

use halite_alloc::heap::{NvPtr, Tag, Tagged};

/// The header of a tree.
#[derive(Debug)]
pub enum TreeHeader {}

/// A leaf.
#[derive(Debug)]
pub enum LeafNode {}

/// An inner node.
#[derive(Debug)]
pub(super) enum InnerNode {}

/// A key that is too long for a leaf.
#[derive(Debug)]
pub enum LongKey {}

impl Tagged for TreeHeader {
    const TAG: Tag = Tag::new(40);
}

impl Tagged for LeafNode {
    const TAG: Tag = Tag::new(41);
}

impl Tagged for InnerNode {
    const TAG: Tag = Tag::new(42);
}

impl Tagged for LongKey {
    const TAG: Tag = Tag::new(43);
}

/// The defect of a slot that is not as it was written.
#[derive(Debug)]
pub(super) struct Damage(pub(super) &'static str);

/// The seed of a slot's checks, so that its bytes are taken for right in no other place.
pub(super) fn seed<T>(salt: u64, pointer: NvPtr<T>) -> u64 {
    salt ^ pointer.word()
}

/// Some bytes as a number.
pub(super) fn number(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().expect("there are eight"))
}

/// Some bytes as a short number.
pub(super) fn short(bytes: &[u8], at: usize) -> u16 {
    u16::from_le_bytes([bytes[at], bytes[at + 1]])
}
