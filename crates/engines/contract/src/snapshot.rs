//! One point in time of a store.

use std::any::Any;

use crate::{Bytes, Direction, KeyRange, KeySpaceId, Positions, Reader, Result, Scan};

/// All key spaces of a store as they were at one point in time, across all partitions: a batch is in it
/// whole or not at all.
///
/// Writes and collection go on meanwhile. Space that it may read is not reused while it lives, nor while
/// a scan of it does; a store that fills up because of that says so ([`crate::Error::Full`]).
///
/// It is as volatile as a scan: it goes with the process.
pub trait Snapshot: Any + Send + Sync {
    /// Says what reads it, so that a store that fills up can tell what keeps its space ([`crate::Holder`]). Without
    /// it, a snapshot.
    fn name_reader(&self, _reader: Reader) {}

    /// Says that nothing reads it any more but the next [`crate::Engine::write_if`] that relies on it. What only it shows
    /// need not be kept once that has looked at it, so what is written may take the space.
    fn end_reads(&self) {}

    /// Where the changes of the partitions had come to; `None` if the store has no change log.
    ///
    /// What came before is in the snapshot, also if it is not durable yet.
    fn positions(&self) -> Option<Positions> {
        None
    }

    /// The key spaces that there were, by name.
    fn key_spaces(&self) -> Vec<(String, KeySpaceId)>;

    /// The value that `key` had, or `None`.
    ///
    /// # Errors
    /// [`crate::Error::NoSuchKeySpace`] if there was none then; [`crate::Error::Damaged`] if the record
    /// fails its checksum.
    fn get(&self, space: KeySpaceId, key: &[u8]) -> Result<Option<Bytes>>;

    /// The number of keys that a key space had.
    ///
    /// # Errors
    /// [`crate::Error::NoSuchKeySpace`].
    fn len(&self, space: KeySpaceId) -> Result<u64>;

    /// The pairs of `range` that there were, in `direction`.
    ///
    /// # Errors
    /// [`crate::Error::NoSuchKeySpace`]; the scan itself yields [`crate::Error::Damaged`].
    fn scan(&self, space: KeySpaceId, range: KeyRange, direction: Direction) -> Result<Scan>;
}

impl dyn Snapshot {
    /// The snapshot as the type that an engine knows its own by, if it is one.
    #[must_use]
    pub fn downcast_ref<T: Snapshot>(&self) -> Option<&T> {
        let any: &dyn Any = self;
        any.downcast_ref()
    }
}
