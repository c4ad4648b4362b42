//! A partition's part of a batch.

use halite_contract::Op;
use halite_sim::locks::MutexGuard;

use crate::partition::Partition;
use crate::write::Writer;

/// A partition whose writer is locked, and its part of the operations.
pub(crate) struct Part<'a> {
    pub(crate) number: usize,
    pub(crate) partition: &'a Partition,
    pub(crate) writer: MutexGuard<'a, Writer>,
    pub(super) ops: Vec<Op<'a>>,
    /// Whether it has keys or ranges to validate.
    pub(super) is_expected: bool,
}

impl Part<'_> {
    /// Takes the steps of a snapshot of the index that the last writes pay for, if one is due.
    pub(crate) fn pace_snapshot(&mut self) {
        self.partition.pace_snapshot(&mut self.writer);
    }
}
