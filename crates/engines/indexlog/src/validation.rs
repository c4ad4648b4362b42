//! Validation: whether the keys and ranges that a write depends on are unchanged since a snapshot.
//!
//! Records are numbered in the order of writes, and a snapshot knows the number behind its last record. A record with
//! that number or a higher one was written since. A record at the place that the snapshot knows is the same record:
//! space that a snapshot may read is not reused. A record that collection moved keeps its number. Where a key is
//! absent now and was absent in the snapshot, its tombstone tells whether it existed in between; tombstones that have
//! been dropped since are covered by `tombstones/dropped.rs`.
//!
//! Two kinds of false conflicts are reported: a large value that was moved out of a sparse block, which gives its
//! record a new number (`collection/compact.rs`); and an absent key that a batch deleted, or that lies in a deleted
//! range.
//!
//! Under the writers' locks of all partitions concerned, a key costs two lookups, and a range a walk over those
//! leaves of its tree that were written since. For a range, a hash index reads the keys of all its records.

use std::sync::Arc;

use halite_contract::{Error, Expectation, KeyRange, KeySpaceId, Partitioning, Result};

use crate::batch::part;
use crate::entry::Entry;
use crate::partition::Partition;
use crate::read::snapshot::{Part, StoreSnapshot};
use crate::read::view::View;
use crate::tombstones::Tombstones;

/// Keys and ranges to validate, with the snapshot's part of each partition.
pub(crate) struct Validation<'a> {
    wanted: &'a Expectation<'a>,
    snapshot: &'a StoreSnapshot,
    then: &'a [Part],
}

impl<'a> Validation<'a> {
    /// Finds the snapshot of each expectation, and its parts.
    ///
    /// # Errors
    /// [`Error::ForeignSnapshot`].
    pub(crate) fn all(
        expected: &'a [Expectation<'a>],
        partitions: &[Arc<Partition>],
    ) -> Result<Vec<Self>> {
        let of = |wanted: &'a Expectation<'a>| {
            let snapshot = wanted.snapshot.downcast_ref::<StoreSnapshot>();
            let snapshot = snapshot.ok_or(Error::ForeignSnapshot)?;
            let then = snapshot.parts_of(partitions).ok_or(Error::ForeignSnapshot)?;
            Ok(Self { wanted, snapshot, then })
        };
        expected.iter().map(of).collect()
    }

    /// Marks the partitions that hold any of the keys and ranges.
    pub(crate) fn mark(&self, partitioning: &Partitioning, concerned: &mut [bool]) {
        for (_, key) in self.wanted.keys {
            concerned[partitioning.partition_of(key)] = true;
        }
        for (_, range) in self.wanted.ranges {
            let partitions = partitioning.partitions_of(range.start(), range.end());
            partitions.for_each(|at| concerned[at] = true);
        }
    }

    /// Lets the snapshot keep no space any more, if this write is the last that relies on it.
    pub(crate) fn end(&self) {
        self.snapshot.end_if_last();
    }

    /// Refuses if any key or range changed. `parts` are those of the partitions that hold any of them.
    ///
    /// # Errors
    /// [`Error::Conflict`]; [`Error::NoSuchKeySpace`]; [`Error::Damaged`].
    pub(crate) fn check(
        &self,
        parts: &[part::Part<'_>],
        partitioning: &Partitioning,
    ) -> Result<()> {
        let views: Vec<_> = parts.iter().map(|part| part.partition.view.read()).collect();
        let state = |number: usize| {
            let at = parts.binary_search_by_key(&number, |part| part.number);
            at.ok().map(|at| {
                let (part, view, then) = (&parts[at], &views[at], &self.then[number]);
                (part.partition, State { view, tombstones: &part.writer.storage.tombstones, then })
            })
        };
        for &(space, key) in self.wanted.keys {
            let found = state(partitioning.partition_of(key));
            let Some((partition, state)) = found else { continue };
            if partition.named(state.has_changed(space, key))? {
                return Err(Error::Conflict { space, at: key.to_vec() });
            }
        }
        for (space, range) in self.wanted.ranges {
            for number in partitioning.partitions_of(range.start(), range.end()) {
                let Some((partition, state)) = state(number) else { continue };
                if partition.named(state.has_changed_in(*space, range))? {
                    return Err(Error::Conflict { space: *space, at: range.start().to_vec() });
                }
            }
        }
        Ok(())
    }
}

/// A partition's present state, while its writer and its view are locked, and its state in the snapshot.
struct State<'a> {
    view: &'a View,
    tombstones: &'a Tombstones,
    then: &'a Part,
}

impl State<'_> {
    /// Whether a key was written since the snapshot, or its value moved under a new number.
    fn has_changed(&self, space: KeySpaceId, key: &[u8]) -> Result<bool> {
        let blocks = &self.view.blocks;
        let now = self.view.user_space(space)?.index.get(key, blocks)?;
        let then = match self.then.index(space) {
            Some(index) => index.get(key, blocks)?,
            None => None,
        };
        match (now.map(Entry::from_bits), then.map(Entry::from_bits)) {
            (Some(now), Some(then)) if now.place() == then.place() => Ok(false),
            (Some(now), Some(_)) => Ok(!self.is_old(now)?),
            (None, None) => {
                let since = self.then.position;
                self.tombstones.deleted_since(space.0, key, since, blocks)
            }
            _ => Ok(true),
        }
    }

    /// Whether a range has other keys than in the snapshot, or a key that was written since.
    fn has_changed_in(&self, space: KeySpaceId, range: &KeyRange) -> Result<bool> {
        let index = &self.view.user_space(space)?.index;
        let is_old = |entry| self.is_old(entry);
        let unchanged =
            index.is_unchanged(self.then.index(space), range, &self.view.blocks, is_old)?;
        Ok(!unchanged)
    }

    /// Whether a record was written before the snapshot was taken.
    fn is_old(&self, entry: Entry) -> Result<bool> {
        self.view.blocks.with_record(entry, |record| record.seq() < self.then.position)
    }
}
