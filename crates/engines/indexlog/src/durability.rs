//! Which records of a partition are durable, by their numbers, and which bytes wait for the next fence.
//!
//! Without a change log, a write is durable with its record. With one, it is durable with its entry there, and its
//! record follows with a later fence. Recovery knows that either is durable only from a later durable statement: in the
//! next record, the next entry, or the map.

use halite_pmem::Flushed;

pub(crate) mod pending;

use pending::{Pending, PendingPiece};

/// Blocks that may wait for a sync before a write brings it about: 8 MiB. They cannot be collected before it; and the
/// map must be able to tell the numbers of their first records apart, with those of the largest batch.
pub(crate) const UNSEALED_MAX: usize = 64;

/// The numbers of durable records, and the bytes that are not durable yet.
///
/// - All records below [`Durability::next`] that are above [`Durability::records`] are in `pending`, in a tail's
///   chunk, or streamed and about to be fenced.
/// - A record that is durable is not `pending`: flushed bytes are fenced before the next record is numbered.
/// - Each block of `unsealed` is sealed behind the fence that makes its last record durable.
pub(crate) struct Durability {
    /// The number of the next record.
    next: u64,
    /// Records up to this one are durable.
    records: u64,
    /// The number up to which the last record, or the last entry of the change log, says the records to be durable.
    stated: u64,
    /// A durable record, entry or word proves to recovery that records up to this one are durable.
    proved: u64,
    /// Records that were written through the cache.
    pending: Vec<Pending>,
    /// Values that were written through the cache.
    pending_values: Vec<PendingPiece>,
    /// Blocks that the log left before all of their records were durable, with the bytes of their records.
    unsealed: Vec<(u32, u64)>,
}

impl Default for Durability {
    fn default() -> Self {
        Self {
            next: 1,
            records: 0,
            stated: 0,
            proved: 0,
            pending: Vec::new(),
            pending_values: Vec::new(),
            unsealed: Vec::new(),
        }
    }
}

impl Durability {
    /// The number of the next record.
    pub(crate) fn next(&self) -> u64 {
        self.next
    }

    /// Records up to this one are durable.
    pub(crate) fn records(&self) -> u64 {
        self.records
    }

    /// Recovery knows of records up to this one that they are durable.
    pub(crate) fn proved(&self) -> u64 {
        self.proved
    }

    /// Whether all records are durable.
    pub(crate) fn is_complete(&self) -> bool {
        self.records + 1 >= self.next
    }

    /// Goes on behind record `seq`, up to which all are durable.
    pub(crate) fn go_on_behind(&mut self, seq: u64) {
        (self.records, self.next) = (seq, seq + 1);
    }

    /// Goes on with number `next`, where the records between were dropped, or are in the change log only.
    pub(crate) fn go_on_with(&mut self, next: u64) {
        self.next = next;
    }

    /// Numbers so many records.
    pub(crate) fn number(&mut self, count: u64) {
        self.next += count;
    }

    /// Notes the number up to which the last record, or the last entry of the change log, states that all is durable.
    pub(crate) fn state(&mut self, seq: u64) {
        self.stated = seq;
    }

    /// Notes that the last record, or the last entry of the change log, is durable: this proves its statement.
    pub(crate) fn prove_stated(&mut self) {
        self.proved = self.stated;
    }

    /// Notes that the map durably states which records are durable.
    pub(crate) fn proved_by_map(&mut self) {
        self.proved = self.records;
    }

    /// Notes that all records are durable.
    pub(crate) fn complete(&mut self) {
        self.records = self.next - 1;
    }

    /// Whether records wait for a fence.
    pub(crate) fn has_pending(&self) -> bool {
        !self.pending.is_empty()
    }

    /// Adds records that were written through the cache.
    pub(crate) fn add_pending(&mut self, pending: Pending) {
        if !self.pending.last_mut().is_some_and(|last| last.extend(&pending)) {
            self.pending.push(pending);
        }
    }

    /// Adds values that were written through the cache.
    pub(crate) fn add_values(&mut self, values: Vec<PendingPiece>) {
        self.pending_values.extend(values);
    }

    /// Starts the write-back of the records that were appended and are pending. Returns whether there were any:
    /// the last of them is in the log's current block.
    #[track_caller]
    pub(crate) fn flush_pending(&mut self, flushed: &mut Vec<Flushed>) -> bool {
        let waits = !self.pending.is_empty();
        flushed.extend(self.pending.iter().map(Pending::flush));
        self.pending.clear();
        waits
    }

    /// Starts the write-back of the values that were written through the cache.
    #[track_caller]
    pub(crate) fn flush_values(&mut self, flushed: &mut Vec<Flushed>) {
        flushed.extend(self.pending_values.iter().map(PendingPiece::flush));
        self.pending_values.clear();
    }

    /// Blocks that wait to be sealed.
    pub(crate) fn unsealed(&self) -> usize {
        self.unsealed.len()
    }

    /// Notes that a block with `used` bytes of records was left before all of them were durable.
    pub(crate) fn add_unsealed(&mut self, block: u32, used: u64) {
        self.unsealed.push((block, used));
    }

    /// Takes the blocks that wait to be sealed: their records are durable.
    pub(crate) fn take_unsealed(&mut self) -> Vec<(u32, u64)> {
        std::mem::take(&mut self.unsealed)
    }
}
