//! Storage classes that data is placed in.

use crate::{Engine, KeyRange, KeySpaceId, Preference, Progress, Result};

/// The outcome of a migration.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct MigrationReport {
    /// Bytes of extents that moved.
    pub moved_bytes: u64,
    /// Bytes that flushes have replaced again and again meanwhile; they lie where their placement says.
    pub skipped_bytes: u64,
    /// Whether it came to the end, and was not stopped.
    pub is_complete: bool,
}

/// An engine with storage classes, of which each key space and each object may prefer one.
///
/// Class 0 is the fastest. A migration reports the bytes that were looked at, and about all of them, and may be stopped:
/// moved data stays moved. Besides the errors that a method names, all of them have those of reads and writes.
pub trait Tiered: Engine {
    /// The storage class that a key space prefers.
    ///
    /// # Errors
    /// [`Error::NoSuchKeySpace`](crate::Error::NoSuchKeySpace).
    fn preference(&self, space: KeySpaceId) -> Result<Preference>;

    /// Sets the storage class that a key space prefers, durably, for all that is written from then on.
    ///
    /// # Errors
    /// [`Error::NoSuchKeySpace`](crate::Error::NoSuchKeySpace).
    fn set_preference(&self, space: KeySpaceId, preference: Preference) -> Result<()>;

    /// Moves a range of keys to a class, beside reads and writes. Snapshots keep their data where it is.
    ///
    /// # Errors
    /// [`Error::NoSuchKeySpace`](crate::Error::NoSuchKeySpace); there is no such class, or it is full.
    fn migrate(
        &self,
        space: KeySpaceId,
        range: &KeyRange,
        class: u8,
        progress: Progress<'_>,
    ) -> Result<MigrationReport>;

    /// Moves an object of an object store to a class.
    ///
    /// # Errors
    /// There is no such object store, object or class; the class is full.
    fn migrate_object(
        &self,
        store: &str,
        name: &[u8],
        class: u8,
        progress: Progress<'_>,
    ) -> Result<MigrationReport>;
}
