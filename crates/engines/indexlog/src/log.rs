//! The log of a partition: records are appended behind its tail, and large values are written beside it.
//!
//! A write's large values are written first (`overflow`), then its records (`append`); both wait for one fence
//! (`sync`). The durable numbers are kept in [`Durability`]; where there is a change log,
//! a write waits for its entry there instead.

use halite_pmem::Flushed;

use crate::change_log::ChangeLog;
use crate::durability::Durability;
use crate::entry::Entry;

mod append;
pub(crate) mod overflow;
mod sync;
pub(crate) mod tail;

use tail::Tail;

/// The log of a partition, for its writer.
///
/// - Records are numbered without gaps, in the order in which they are appended.
/// - The records of the tail's chunk are those of the write that is under way.
/// - Of the blocks that wait to be sealed the map knows all but the newest.
pub(crate) struct Log {
    tail: Tail,
    /// `None` also while the change log is replayed.
    changes: Option<ChangeLog>,
    pub(crate) durability: Durability,
    /// The record number that the map keeps, not far from the newest.
    near: u64,
    /// The places of the records that were appended last.
    entries: Vec<Entry>,
}

impl Log {
    /// An empty log; `near` is the record number that the map keeps.
    pub(crate) fn new(near: u64) -> Self {
        Self {
            tail: Tail::default(),
            changes: None,
            durability: Durability::default(),
            near,
            entries: Vec::new(),
        }
    }

    /// The record number that the map keeps.
    pub(crate) fn near(&self) -> u64 {
        self.near
    }

    /// Goes on with a change log, whose entries are all durable.
    pub(crate) fn set_changes(&mut self, changes: ChangeLog) {
        self.changes = Some(changes);
    }

    /// The change log.
    pub(crate) fn changes(&self) -> Option<&ChangeLog> {
        self.changes.as_ref()
    }

    /// The change log, to change its segments.
    pub(crate) fn changes_mut(&mut self) -> Option<&mut ChangeLog> {
        self.changes.as_mut()
    }

    /// The places of the records that were appended last, in the order of their operations.
    pub(crate) fn entries(&self) -> &[Entry] {
        &self.entries
    }

    /// Bytes that still fit the tail's block.
    pub(crate) fn remaining(&self) -> u64 {
        self.tail.remaining()
    }

    /// Writes that are not durable.
    pub(crate) fn unsynced(&self) -> u64 {
        let durable = self.changes.as_ref().map_or(self.durability.records(), ChangeLog::durable);
        self.durability.next() - 1 - durable
    }

    /// Starts the write-back of the entries of the change log that are pending.
    #[track_caller]
    pub(crate) fn flush_changes(&mut self, flushed: &mut Vec<Flushed>) {
        if let Some(changes) = &mut self.changes {
            changes.flush_pending(flushed);
        }
    }
}
