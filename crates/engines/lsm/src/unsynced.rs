//! Batches on their way: entries of the ring, and those that were committed and are not known to be durable.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;

use smallvec::SmallVec;

use crate::zones::Zones;

/// As many as a batch has fragments: mostly one, without the heap. More inline would be moved with each.
pub(crate) type Few<T> = SmallVec<[T; 1]>;

/// The part of a batch that is to be committed behind its turn.
pub(crate) struct Entry {
    pub(crate) ends: Few<End>,
    /// The last sequence.
    pub(crate) last: u64,
    /// Bytes of keys and values.
    pub(crate) user_bytes: u64,
    pub(crate) durable: bool,
    /// Up to where the log has to be durable before the batch is visible, if it is to be durable and there is a log.
    pub(crate) log_end: Option<u64>,
}

/// The lines of a batch in one memtable.
pub(crate) struct End {
    pub(crate) zones: Arc<Zones>,
    /// Lines of the memtable.
    pub(crate) lines: Range<u32>,
}

/// Batches that were committed and are not known to be durable.
#[derive(Default)]
pub(crate) struct Unsynced {
    pub(crate) ends: Vec<End>,
    pub(crate) batches: u64,
    /// Batches that were committed, in their order, and wait for a sync of the log, or for one that does.
    pub(crate) waiting: VecDeque<Unrevealed>,
}

/// A batch that is not visible yet.
pub(crate) struct Unrevealed {
    pub(crate) last: u64,
    pub(crate) log_end: Option<u64>,
}
