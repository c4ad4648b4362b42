//! The slots of nodes and of long keys.
//!
//! ```text
//!  node:      check u64 | level u8 | node as of `node.rs`
//!  long key:  check u64 | bytes
//! ```
//!
//! The checks are seeded with the slot's pointer, so that bytes of another slot, or of another life of it, are not taken
//! for its own.

use halite_alloc::heap::{NvPtr, Tag, Tagged};
use xxhash_rust::xxh3::xxh3_64_with_seed;

use crate::index::Error;

/// A node.
#[derive(Debug)]
pub(super) enum CowNode {}

/// A key that is too long for nodes.
#[derive(Debug)]
pub(super) enum CowKey {}

impl Tagged for CowNode {
    const TAG: Tag = Tag::new(50);
}

impl Tagged for CowKey {
    const TAG: Tag = Tag::new(51);
}

/// Bytes of a check.
pub(super) const CHECK: usize = 8;

/// Bytes before a node.
pub(super) const HEAD: usize = CHECK + 1;

/// Whether nodes may have so many bytes.
pub(super) fn is_node_len(node_len: usize) -> bool {
    node_len.is_power_of_two() && (256..=16 << 10).contains(&node_len)
}

/// The check of the bytes of a slot.
pub(super) fn check_of<T>(salt: u64, pointer: NvPtr<T>, bytes: &[u8]) -> u64 {
    xxh3_64_with_seed(bytes, salt ^ pointer.word())
}

/// Whether a slot begins with the check of the bytes behind it.
pub(super) fn has_check<T>(salt: u64, pointer: NvPtr<T>, slot: &[u8]) -> bool {
    slot.split_first_chunk()
        .is_some_and(|(check, bytes)| u64::from_le_bytes(*check) == check_of(salt, pointer, bytes))
}

/// Writes the check of a slot's bytes before them.
pub(super) fn seal<T>(salt: u64, pointer: NvPtr<T>, slot: &mut [u8]) {
    let check = check_of(salt, pointer, &slot[CHECK..]);
    slot[..CHECK].copy_from_slice(&check.to_le_bytes());
}

/// A word among bytes.
pub(super) fn word(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(*bytes[at..].first_chunk().expect("there are eight"))
}

/// The error of a damaged slot.
pub(super) fn damaged<T>(pointer: NvPtr<T>, reason: &'static str) -> Error {
    Error::DamagedNode { pointer: pointer.word(), reason }
}
