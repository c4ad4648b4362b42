//! The redo record of a publication.
//!
//! ```text
//! 0                        8                              16
//! ┌────────────────────────┬──────────────┬──────────────┬─────────┬─────────┬─────
//! │ sequence 48 │ count 16 │ record check │ data check   │ entry 0 │ entry 1 │ ...
//! └────────────────────────┴──────────────┴──────────────┴─────────┴─────────┴─────
//!
//! entry      bits 63..60 of word 0      59..0    word 1
//!            0: a word is stored        place    the word
//!            1: a state is stored       place    the state, and above it, bytes written to a slot that it activates
//!            2: bytes are published     place    their length
//! ```
//!
//! So three entries share a line with the header. There are two areas, and records alternate between them.
//!
//! The *record check* is over the record; the *data check* over the bytes that it publishes: those written to the slots
//! that it activates, and those of entries of kind 2. Record and bytes become durable by the same fence, in any order. A
//! record whose bytes do not have their check after a crash was interrupted: its publication did not happen. Both checks
//! have 32 bits, and are seeded with the pool's salt and the area's place.
//!
//! A record without entries is a *barrier*: all that was published before it is durable in its place, and no record is
//! to be applied again.

use xxhash_rust::xxh3::xxh3_64_with_seed;

use super::class::STATE_LEN;
use super::ground::Ground;
use super::layout::{CHUNK, chunk_at, chunk_of, is_chunk_word, record_at};
use super::slab::{SlabKind, slot_at};
use super::slot::{Slot, SlotState};
use super::table::{Chunk, Table};
use crate::Result;

const HEADER: u64 = 16;
const ENTRY: u64 = 16;

/// Entries of the longest record.
pub(super) const ENTRIES_MAX: usize = ((CHUNK - HEADER) / ENTRY) as usize;

const KIND_SHIFT: u32 = 60;
const COUNT_BITS: u32 = 16;

/// A part of a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Entry {
    Word { place: u64, value: u64 },
    State { place: u64, state: u32, written: u32 },
    Published { place: u64, len: u64 },
}

/// A record that has its check.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Record {
    pub(super) sequence: u64,
    pub(super) entries: Vec<Entry>,
    data_check: u32,
}

impl Entry {
    /// The place and the length of what it stores, if it does.
    pub(super) fn stores(self) -> Option<(u64, u64)> {
        match self {
            Self::Word { place, .. } => Some((place, 8)),
            Self::State { place, .. } => Some((place, STATE_LEN)),
            Self::Published { .. } => None,
        }
    }

    fn encode(self) -> [u64; 2] {
        match self {
            Self::Word { place, value } => [place, value],
            Self::State { place, state, written } => {
                [1 << KIND_SHIFT | place, u64::from(written) << 32 | u64::from(state)]
            }
            Self::Published { place, len } => [2 << KIND_SHIFT | place, len],
        }
    }

    fn decode(head: u64, value: u64) -> Option<Self> {
        let place = head & ((1 << KIND_SHIFT) - 1);
        match head >> KIND_SHIFT {
            0 => Some(Self::Word { place, value }),
            1 => Some(Self::State { place, state: value as u32, written: (value >> 32) as u32 }),
            2 => Some(Self::Published { place, len: value }),
            _ => None,
        }
    }

    /// The bytes that it publishes: where they begin, and how many.
    pub(super) fn publishes(self, ground: &Ground, table: &Table) -> Result<Option<(u64, u64)>> {
        match self {
            Self::Published { place, len } if ground.contains(place, len) => Ok(Some((place, len))),
            Self::State { place, written, .. }
                if written > 0 && ground.contains(place, STATE_LEN) =>
            {
                let (chunk, len) = (chunk_of(place), u64::from(written));
                let Chunk::Slab(slab) = table.chunk(ground, chunk)? else {
                    return Err(self.misplaced(ground));
                };
                let SlabKind { class, .. } = slab.kind;
                let (index, shape) = ((place - chunk_at(chunk)) / STATE_LEN, class.shape());
                if index >= u64::from(shape.count) || len > u64::from(shape.len) {
                    return Err(self.misplaced(ground));
                }
                Ok(Some((slot_at(chunk, class, index as u32), len)))
            }
            Self::Word { .. } | Self::State { written: 0, .. } => Ok(None),
            Self::Published { .. } | Self::State { .. } => Err(self.misplaced(ground)),
        }
    }

    /// The error of an entry that is about bytes which the heap does not have.
    pub(super) fn misplaced(self, ground: &Ground) -> crate::Error {
        ground.damaged("publication record", format!("it is about other places: {self:x?}"))
    }
}

/// The check of the bytes that a record's entries publish.
fn data_check(ground: &Ground, table: &Table, entries: &[Entry]) -> Result<u32> {
    let mut sum = ground.salt();
    for entry in entries {
        if let Some((place, len)) = entry.publishes(ground, table)? {
            sum = xxh3_64_with_seed(ground.read(place, len), sum ^ place);
        }
    }
    Ok(sum as u32)
}

/// Stores the record with a sequence number, so that the next fence makes it durable; its bytes are in the slots already.
pub(super) fn write(
    ground: &mut Ground,
    table: &Table,
    sequence: u64,
    entries: &[Entry],
) -> Result<()> {
    assert!(entries.len() <= ENTRIES_MAX, "a record fits into its area");
    let data = data_check(ground, table, entries)?;
    let mut bytes = Vec::with_capacity(HEADER as usize + entries.len() * ENTRY as usize);
    bytes.extend_from_slice(&(sequence << COUNT_BITS | entries.len() as u64).to_le_bytes());
    bytes.extend_from_slice(&(u64::from(data) << 32).to_le_bytes());
    bytes.extend(entries.iter().flat_map(|entry| entry.encode()).flat_map(u64::to_le_bytes));
    let at = record_at(sequence);
    let sum = xxh3_64_with_seed(&bytes, ground.salt() ^ at) as u32;
    bytes[8..12].copy_from_slice(&sum.to_le_bytes());
    ground.write(at, &bytes);
    ground.note(at, bytes.len() as u64);
    Ok(())
}

/// Stores zeros over the header of a record, so that the next fence makes it invalid.
pub(super) fn erase(ground: &mut Ground, sequence: u64) {
    for place in [record_at(sequence), record_at(sequence) + 8] {
        ground.store_word(place, 0);
    }
}

impl Record {
    /// Reads the record in the area for a sequence number, whichever number it has; `None` if none is whole there.
    pub(super) fn read(ground: &Ground, area: u64) -> Option<Self> {
        let at = record_at(area);
        let head = ground.word(at);
        let (sequence, count) = (head >> COUNT_BITS, head & ((1 << COUNT_BITS) - 1));
        if count > ENTRIES_MAX as u64 || sequence % 2 != area % 2 {
            return None;
        }
        let mut bytes = ground.read(at, HEADER + count * ENTRY).to_vec();
        let check = u32::from_le_bytes(*bytes[8..12].first_chunk()?);
        let data_check = u32::from_le_bytes(*bytes[12..16].first_chunk()?);
        bytes[8..12].fill(0);
        if xxh3_64_with_seed(&bytes, ground.salt() ^ at) as u32 != check {
            return None;
        }
        let (words, _) = bytes[HEADER as usize..].as_chunks::<{ ENTRY as usize }>();
        let entries = words.iter().map(|words| {
            let words = u128::from_le_bytes(*words);
            Entry::decode(words as u64, (words >> 64) as u64)
        });
        Some(Self { sequence, entries: entries.collect::<Option<_>>()?, data_check })
    }

    pub(super) fn is_barrier(&self) -> bool {
        self.entries.is_empty()
    }

    /// Has the next fence wait for the record and the bytes that it publishes.
    pub(super) fn note(&self, ground: &mut Ground, table: &Table) -> Result<()> {
        ground.note(record_at(self.sequence), HEADER + self.entries.len() as u64 * ENTRY);
        for entry in &self.entries {
            if let Some((place, len)) = entry.publishes(ground, table)? {
                ground.note(place, len);
            }
        }
        Ok(())
    }

    /// Whether a state that it stores is in its place.
    pub(super) fn was_applied(&self, ground: &Ground) -> bool {
        self.entries.iter().any(|&entry| match entry {
            Entry::State { place, state, .. } => {
                let is_there = place.is_multiple_of(STATE_LEN) && ground.contains(place, STATE_LEN);
                is_there && ground.read(place, STATE_LEN) == state.to_le_bytes()
            }
            Entry::Word { place, value } if is_chunk_word(place) && ground.contains(place, 8) => {
                ground.word(place) == value
            }
            Entry::Word { .. } | Entry::Published { .. } => false,
        })
    }

    /// Whether a slot that it is about was changed after it: freed if it was activated, or activated again. Only another
    /// publication does that, as long as the record is to be applied.
    pub(super) fn was_followed(&self, ground: &Ground) -> bool {
        self.entries.iter().any(|&entry| {
            let Entry::State { place, state, .. } = entry else { return false };
            if !place.is_multiple_of(STATE_LEN) || !ground.contains(place, STATE_LEN) {
                return false;
            }
            let bytes = ground.read(place, STATE_LEN).first_chunk().copied();
            let now = bytes.and_then(|now| Slot::decode(ground, place, u32::from_le_bytes(now)));
            let then = Slot::decode(ground, place, state);
            now.zip(then).is_some_and(|(now, then)| match then.state {
                SlotState::Persisted => now == then.released(),
                _ => now.generation == then.pointer_generation(),
            })
        })
    }

    /// Whether the bytes that it publishes have their check.
    pub(super) fn has_its_bytes(&self, ground: &Ground, table: &Table) -> Result<bool> {
        Ok(data_check(ground, table, &self.entries)? == self.data_check)
    }
}
