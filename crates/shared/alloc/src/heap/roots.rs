//! Named roots: names that lead to words.
//!
//! ```text
//! a root's slot    0        8        16        17
//!                  ┌────────┬────────┬─────────┬──────┐
//!                  │ value  │ check  │ name's  │ name │
//!                  │        │        │ length  │      │
//!                  └────────┴────────┴─────────┴──────┘
//! ```
//!
//! The directory in segment 0 has a checked word for each root that there may be: the place of its slot, in 8 bytes, or
//! zero. The check is over all other bytes, seeded with the pool's salt and the place. A publication changes the value and
//! the check together. The map of the names is in DRAM, and is read when the heap is opened.

use std::collections::{BTreeMap, BTreeSet};

use xxhash_rust::xxh3::xxh3_64_with_seed;

use super::ground::Ground;
use super::layout::{HEAP_ROOTS_MAX, root_word_at};
use super::pointer::{AnyPtr, Tag};
use super::slot::SlotState;
use super::table::Table;
use crate::Result;

/// Bytes before the name.
const NAME_AT: usize = 17;

/// Where the check is.
pub(super) const CHECK_AT: u64 = 8;

/// A root.
#[derive(Debug, Clone, Copy)]
pub(super) struct Root {
    /// The number of its word.
    pub(super) index: usize,
    pub(super) pointer: AnyPtr,
    pub(super) value: u64,
}

/// The named roots.
pub(super) struct Roots {
    pub(super) by_name: BTreeMap<String, Root>,
    /// The numbers of words that have no root.
    pub(super) free: BTreeSet<usize>,
}

/// The contents of a root's slot at a place.
pub(super) fn encode(ground: &Ground, place: u64, name: &str, value: u64) -> Vec<u8> {
    let mut bytes = value.to_le_bytes().to_vec();
    bytes.extend_from_slice(&[0; 8]);
    bytes.push(u8::try_from(name.len()).expect("names are short"));
    bytes.extend_from_slice(name.as_bytes());
    let check = xxh3_64_with_seed(&bytes, ground.salt() ^ place);
    bytes[CHECK_AT as usize..NAME_AT - 1].copy_from_slice(&check.to_le_bytes());
    bytes
}

/// The name and the value in a root's slot.
fn decode(ground: &Ground, place: u64, bytes: &[u8]) -> Option<(String, u64)> {
    let value = u64::from_le_bytes(*bytes.first_chunk()?);
    let name = bytes.get(NAME_AT..NAME_AT + usize::from(*bytes.get(NAME_AT - 1)?))?;
    let name = str::from_utf8(name).ok().filter(|name| !name.is_empty())?;
    bytes.starts_with(&encode(ground, place, name, value)).then(|| (name.to_owned(), value))
}

impl Roots {
    /// Reads the roots of a heap.
    pub(super) fn read(ground: &Ground, table: &Table) -> Result<Self> {
        let mut roots = Self { by_name: BTreeMap::new(), free: BTreeSet::new() };
        for index in 0..HEAP_ROOTS_MAX {
            let what = format!("root {index}");
            let place = ground.read_checked(root_word_at(index), &what)? * 8;
            if place == 0 {
                roots.free.insert(index);
                continue;
            }
            let slot = if ground.contains(place, 8) { table.slot_at(ground, place)? } else { None };
            let slot = slot.filter(|found| {
                found.slot.state == SlotState::Persisted && found.slot.tag == Some(Tag::ROOT)
            });
            let Some(found) = slot else {
                return Err(ground.damaged(what, "its word leads to no root's slot"));
            };
            let Some((name, value)) = decode(ground, place, ground.read(place, found.len)) else {
                return Err(ground.damaged(what, "its slot does not have its check"));
            };
            let root = Root { index, pointer: found.pointer(), value };
            if roots.by_name.insert(name, root).is_some() {
                return Err(ground.damaged(what, "another one has its name"));
            }
        }
        Ok(roots)
    }
}
