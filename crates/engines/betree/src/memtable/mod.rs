//! Memtables: the newest changes, in memory, with every version that a reader may still see.
//!
//! A commit appends its records to the [`arena`] of the active memtable and points the index to them, with the
//! sequences that the log has for them, too. Readers find the newest version up to the sequence that they read at. A
//! full memtable is frozen, flushed to the trees, and dropped with its last reader.
//!
//! Keys have their dataset before them, 4 bytes big-endian, so one memtable serves all datasets of a store.
//!
//! | operation | cost |
//! |---|---|
//! | [`Memtable::add`] | a copy of the record, an insert into the radix tree |
//! | [`Memtable::find`] | a lookup in the radix tree, and the record; a second lookup where ranges were deleted |

mod arena;
mod source;

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock, Weak};

use halite_contract::Result;
use halite_index::{Coverage, Direction, RadixCursor, RadixTree, RangeDelete, Records, Removals};
use halite_sim::locks::Mutex;

use crate::message::{Kind, LargeValue, Message};
use crate::record::{Batch, Change, dataset_of, end_of};
use arena::Arena;
pub(crate) use arena::{Chunks, Stored};
pub(crate) use source::{MemtableSource, message_of};

/// The part of a large value's bytes that counts until a memtable is full: values that it replaces are free only when it
/// is flushed.
const LARGE_PART: u64 = 8;

/// Changes in memory.
pub(crate) struct Memtable {
    arena: Arena,
    index: RadixTree,
    removals: Removals,
    /// The records that refer to large values, by key and sequence.
    large: Mutex<Vec<(Box<[u8]>, u64)>>,
    /// Bytes of records, and a part of those of large values.
    bytes: AtomicU64,
    /// The sequence before its first.
    pub(crate) before: u64,
    /// The last sequence that was added.
    last: AtomicU64,
    /// The first file, or segment, of the log that has records of it.
    pub(crate) first_log: u64,
    /// The memtable behind it, for the validation of older snapshots.
    next: OnceLock<Weak<Memtable>>,
    /// The dataset whose keys the last commit may all have changed, though the memtable has no change of them.
    grafted: OnceLock<u32>,
}

/// The state of a key in a memtable.
pub(crate) enum Version<'a> {
    /// Its newest change, of that sequence.
    Change(Stored<'a>),
    /// It was removed with its range.
    Removed(u64),
    /// Nothing.
    Absent,
}

impl Memtable {
    /// Bytes of memory that a batch may take: it has room behind a memtable that is almost full.
    pub(crate) const BATCH_MAX: u64 = arena::LEN_MAX / 2;

    /// Bytes of memory that the changes of a batch take at most.
    pub(crate) fn memory_of(batch: &Batch) -> u64 {
        batch.bytes().len() as u64 + u64::from(batch.changes()) * arena::RECORD_MAX
    }

    pub(crate) fn new(memory: &Arc<Chunks>, before: u64, first_log: u64) -> Result<Self> {
        Ok(Self {
            arena: Arena::new(memory)?,
            index: RadixTree::new(),
            removals: Removals::default(),
            large: Mutex::default(),
            bytes: AtomicU64::new(0),
            before,
            last: AtomicU64::new(before),
            first_log,
            next: OnceLock::new(),
            grafted: OnceLock::new(),
        })
    }

    /// Adds a change, in the turn of its commit. `key` has the dataset before it; of a removal, the payload is the key
    /// behind the range.
    pub(crate) fn add(&self, sequence: u64, change: Change<'_>) -> Result<()> {
        let Change { kind, key, payload } = change;
        if kind == crate::record::RANGE_DELETE {
            let (start, end) = (key.into(), payload.into());
            self.removals.add(RangeDelete { start, end, sequence });
        } else {
            self.arena.prepare(key.len() + payload.len())?;
            let entry = self.arena.append(Stored { sequence, kind, key, payload });
            self.index.insert(self, key, entry);
            if kind == Kind::InsertLarge as u8 {
                self.large.lock().push((key.into(), sequence));
                let large = Message { kind: Kind::InsertLarge, payload }.large();
                let len = large.ok().flatten().map_or(0, |large| large.len);
                self.bytes.fetch_add(len / LARGE_PART, Ordering::Relaxed);
            }
        }
        self.bytes.fetch_add(arena::record_len(key.len() + payload.len()), Ordering::Relaxed);
        self.last.store(sequence, Ordering::Release);
        Ok(())
    }

    /// The newest version of a key up to a sequence.
    #[inline]
    pub(crate) fn find(&self, key: &[u8], at: u64) -> Version<'_> {
        let entry = self.index.get(self, key, at);
        let removed = self.removals.covering(key, at);
        match entry.map(|entry| self.arena.record(entry)) {
            Some(stored) if stored.sequence > removed => Version::Change(stored),
            _ if removed > 0 => Version::Removed(removed),
            _ => Version::Absent,
        }
    }

    /// Whether a key, or its range, was changed behind a sequence. Versions that no reader sees yet count.
    pub(crate) fn has_changed(&self, key: &[u8], then: u64) -> bool {
        if self.has_grafted(key, then) {
            return true;
        }
        match self.find(key, u64::MAX) {
            Version::Change(Stored { sequence, .. }) | Version::Removed(sequence) => {
                sequence > then
            }
            Version::Absent => false,
        }
    }

    /// Whether a graft behind a sequence may have changed all keys of a key's dataset.
    fn has_grafted(&self, key: &[u8], then: u64) -> bool {
        let dataset = self.grafted.get().filter(|_| self.last() > then);
        dataset.is_some_and(|dataset| key.starts_with(&dataset.to_be_bytes()))
    }

    /// Notes that the last commit may have changed all keys of a dataset.
    pub(crate) fn note_graft(&self, dataset: u32) {
        let set = self.grafted.set(dataset);
        assert!(set.is_ok(), "a memtable ends once");
    }

    /// Whether a key from `start` on, below `end`, was changed behind a sequence.
    pub(crate) fn has_range_changed(&self, start: &[u8], end: &[u8], then: u64) -> bool {
        if self.last() <= then {
            return false;
        }
        if self.has_grafted(start, then) {
            return true;
        }
        let coverage = self.removals.at(u64::MAX);
        if coverage.is_some_and(|coverage| coverage.has_since(start, end, then)) {
            return true;
        }
        let mut cursor = self.cursor((start, Some(end)), Direction::Ascending, u64::MAX);
        while let Some(entry) = cursor.next(&self.index, self) {
            if self.arena.record(entry).sequence > then {
                return true;
            }
        }
        false
    }

    /// A walk over the newest versions up to a sequence, within bounds.
    pub(crate) fn cursor(
        &self,
        (start, end): (&[u8], Option<&[u8]>),
        direction: Direction,
        at: u64,
    ) -> RadixCursor {
        let end = end.map_or(Bound::Unbounded, Bound::Excluded);
        self.index.cursor(Bound::Included(start), end, direction, at)
    }

    /// The next record of a walk.
    pub(crate) fn step(&self, cursor: &mut RadixCursor) -> Option<Stored<'_>> {
        cursor.next(&self.index, self).map(|entry| self.arena.record(entry))
    }

    /// The removals of ranges up to a sequence.
    pub(crate) fn coverage(&self, at: u64) -> Option<Coverage> {
        self.removals.at(at)
    }

    /// The datasets whose keys were changed.
    pub(crate) fn datasets(&self) -> BTreeSet<u32> {
        let mut datasets = BTreeSet::new();
        let mut cursor = self.cursor((&[], None), Direction::Ascending, u64::MAX);
        while let Some((dataset, _)) =
            self.step(&mut cursor).and_then(|stored| dataset_of(stored.key))
        {
            datasets.insert(dataset);
            cursor.seek(&end_of(dataset));
        }
        let coverage = self.removals.at(u64::MAX);
        let ranges = coverage.iter().flat_map(Coverage::ranges);
        datasets.extend(ranges.filter_map(|(start, ..)| Some(dataset_of(start)?.0)));
        datasets
    }

    /// All references to large values that were added.
    pub(crate) fn large_values(&self) -> Vec<LargeValue> {
        let large = self.large.lock();
        let values =
            large.iter().filter_map(|(key, sequence)| match self.find_exactly(key, *sequence) {
                Some(stored) => message_of(stored).large().ok().flatten(),
                None => None,
            });
        values.collect()
    }

    /// The version of a key of exactly a sequence, also if its range was removed since.
    fn find_exactly(&self, key: &[u8], sequence: u64) -> Option<Stored<'_>> {
        let entry = self.index.get(self, key, sequence)?;
        Some(self.arena.record(entry)).filter(|stored| stored.sequence == sequence)
    }

    /// The references to large values that no message of the memtable has any more, as newer ones have hidden them.
    pub(crate) fn hidden_large_values(&self) -> Vec<LargeValue> {
        let mut hidden = Vec::new();
        let mut visible_from = BTreeMap::new();
        for (key, sequence) in &*self.large.lock() {
            let from = visible_from.entry(&**key).or_insert_with(|| self.visible_from(key));
            if *sequence < *from {
                // The reference was checked when it was added.
                let stored = self.find_exactly(key, *sequence);
                hidden.extend(stored.and_then(|stored| message_of(stored).large().ok().flatten()));
            }
        }
        hidden
    }

    /// The sequence of the newest change of a key that hides all before it; 0, if there is none.
    fn visible_from(&self, key: &[u8]) -> u64 {
        let mut at = u64::MAX;
        loop {
            match self.find(key, at) {
                Version::Change(stored) if message_of(stored).kind.is_complete() => {
                    return stored.sequence;
                }
                Version::Change(stored) => at = stored.sequence - 1,
                Version::Removed(sequence) => return sequence,
                Version::Absent => return 0,
            }
        }
    }

    /// Bytes of keys and payloads, and the memory of removals: what counts until it is full.
    pub(crate) fn bytes(&self) -> u64 {
        /// About the nodes of a map that a removal copies.
        const REMOVAL: u64 = 1 << 10;
        self.bytes.load(Ordering::Relaxed) + self.removals.len() as u64 * REMOVAL
    }

    /// Bytes of memory that its index takes.
    pub(crate) fn index_len(&self) -> u64 {
        self.index.memory_len()
    }

    /// The number of keys.
    pub(crate) fn len(&self) -> u64 {
        self.index.len()
    }

    /// Whether nothing was added.
    pub(crate) fn is_empty(&self) -> bool {
        self.last() == self.before
    }

    /// The last sequence that was added.
    pub(crate) fn last(&self) -> u64 {
        self.last.load(Ordering::Acquire)
    }

    /// The memtable behind this one, if it is still kept. `None` of the active one.
    pub(crate) fn next(&self) -> Option<Weak<Self>> {
        self.next.get().cloned()
    }

    /// Notes the memtable behind this one.
    pub(crate) fn set_next(&self, next: Weak<Self>) {
        let set = self.next.set(next);
        assert!(set.is_ok(), "a memtable is frozen once");
    }
}

impl Records for Memtable {
    #[inline]
    fn key(&self, entry: u64) -> &[u8] {
        self.arena.record(entry).key
    }

    #[inline]
    fn version(&self, entry: u64) -> u64 {
        self.arena.record(entry).sequence
    }

    #[inline]
    fn prefetch(&self, entry: u64) {
        self.arena.prefetch(entry);
    }
}

#[cfg(test)]
mod tests {
    use halite_pmem::PoolOptions;
    use proptest::prelude::*;

    use super::*;
    use crate::message::{NOT_ENTERED, Piece, UpsertBuilder};
    use crate::record::{RANGE_DELETE, full_key};
    use crate::storage::{Address, Extent};

    /// A large value that is known by its block.
    fn large(block: u64) -> Vec<u8> {
        let extent = Extent { address: Address::new(0, 0, block), blocks: 1 };
        let pieces = vec![Piece { extent, checksum: 0 }];
        let mut payload = Vec::new();
        LargeValue { entered: NOT_ENTERED, len: 9, birth: 1, pieces }.encode(&mut payload);
        payload
    }

    proptest! {
        #[test]
        fn large_values_are_hidden_by_newer_values_and_removals_and_by_nothing_else(
            changes in prop::collection::vec((0_u8..5, 0_u8..3), 0..20),
        ) {
            let memory = Chunks::new(&PoolOptions::default()).unwrap();
            let memtable = Memtable::new(&memory, 0, 0).unwrap();
            // The values that each key's reader needs, and those that none does.
            let (mut needed, mut hidden) = ([const { Vec::new() }; 3], Vec::new());
            for (sequence, (kind, key)) in (1..).zip(changes) {
                let full = full_key(1, &[key]);
                let mut upsert = UpsertBuilder::default();
                upsert.overwrite(0, b"u");
                let (kind, payload) = match kind {
                    0 | 1 => (Kind::InsertLarge as u8, large(sequence)),
                    2 => (Kind::Insert as u8, b"small".to_vec()),
                    3 => (Kind::Upsert as u8, upsert.finish()),
                    _ => (RANGE_DELETE, full_key(1, &[key + 1])),
                };
                if kind != Kind::Upsert as u8 {
                    hidden.append(&mut needed[usize::from(key)]);
                }
                if kind == Kind::InsertLarge as u8 {
                    needed[usize::from(key)].push(sequence);
                }
                memtable.add(sequence, Change { kind, key: &full, payload: &payload }).unwrap();
            }
            let found = memtable.hidden_large_values();
            let mut found: Vec<u64> =
                found.iter().map(|value| value.pieces[0].extent.address.block()).collect();
            found.sort_unstable();
            hidden.sort_unstable();
            prop_assert_eq!(found, hidden);
        }
    }
}
