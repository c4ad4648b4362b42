//! One point in time of a store.

use std::any::Any;

use crate::{Bytes, Direction, KeyRange, KeySpaceId, Positions, Reader, Result, Scan};

/// All key spaces of a store at one point in time, across all partitions: a batch is in it whole or not at
/// all.
///
/// Writes and collection go on meanwhile. Space that the snapshot may read is not reused while it lives,
/// nor while a scan of it does; a store that fills up because of that reports it ([`crate::Error::Full`]).
///
/// It is as volatile as a scan: it ends with the process.
pub trait Snapshot: Any + Send + Sync {
    /// Names the kind of reader that the snapshot serves, so that a store that fills up can report which
    /// reader keeps its space ([`crate::Holder`]). Without this call, it is a snapshot.
    fn name_reader(&self, _reader: Reader) {}

    /// Announces that only the next [`crate::Transactional::write_if`] that relies on the snapshot still reads it.
    /// Records that only the snapshot shows need not be kept once that call has checked them, so its own
    /// writes may take their space.
    fn end_reads(&self) {}

    /// The ends of the partitions' changes at the time of the snapshot; `None` if the store has no change
    /// log.
    ///
    /// Earlier changes are in the snapshot, even if they are not durable yet.
    fn positions(&self) -> Option<Positions> {
        None
    }

    /// The key spaces at that time, by name.
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

    /// The pairs of `range` at that time, in `direction`.
    ///
    /// # Errors
    /// [`crate::Error::NoSuchKeySpace`]; the scan itself yields [`crate::Error::Damaged`].
    fn scan(&self, space: KeySpaceId, range: KeyRange, direction: Direction) -> Result<Scan>;
}

impl dyn Snapshot {
    /// The snapshot as an engine's own type, if it is one.
    #[must_use]
    pub fn downcast_ref<T: Snapshot>(&self) -> Option<&T> {
        let any: &dyn Any = self;
        any.downcast_ref()
    }
}
