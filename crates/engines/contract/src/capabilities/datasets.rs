//! Key spaces that can be kept as they are at a time, go on from there, and be copied.

use std::sync::Arc;

use crate::{Engine, KeyRange, KeySpaceId, Result, Snapshot};

/// A kept snapshot of a key space.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SnapshotInfo {
    /// Its name, unique in its key space.
    pub name: String,
    /// Its number: a later snapshot of any key space has a larger one.
    pub number: u64,
    /// A random number that the snapshot keeps when it is sent to another store.
    pub identity: u128,
    /// The key spaces that began as it, and keep it.
    pub clones: Vec<String>,
}

/// A copy of a range of keys. In each, a prefix is replaced by another one.
#[derive(Debug, Clone, Copy)]
pub struct RangeCopy<'a> {
    /// The key space that has the keys.
    pub source: KeySpaceId,
    /// The keys. Those that do not begin with `old_prefix` are left out.
    pub range: &'a KeyRange,
    /// The beginning of the keys that they do not have at the destination.
    pub old_prefix: &'a [u8],
    /// The key space that gets them; it may be the same.
    pub destination: KeySpaceId,
    /// The beginning that they have there instead.
    pub new_prefix: &'a [u8],
}

/// An engine whose key spaces are datasets: with snapshots that outlive the process, clones, rollback, and other names.
///
/// Besides the errors that a method names, all of them have [`Error::NoSuchKeySpace`](crate::Error::NoSuchKeySpace) and
/// those of [`Engine::write`].
pub trait Datasets: Engine {
    /// Gives a key space another name.
    ///
    /// # Errors
    /// There is a key space of the new name; [`Error::KeySpaceName`](crate::Error::KeySpaceName).
    fn rename_key_space(&self, old: &str, new: &str) -> Result<()>;

    /// Removes a key space together with its snapshots; [`Engine::drop_key_space`] refuses one that has some.
    ///
    /// # Errors
    /// A clone keeps a snapshot.
    fn destroy_key_space(&self, space: KeySpaceId) -> Result<()>;

    /// Keeps a key space as it is: a snapshot of all that was committed before, durable when this returns.
    ///
    /// # Errors
    /// There is a snapshot of the name; [`Error::KeySpaceName`](crate::Error::KeySpaceName).
    fn create_snapshot(&self, space: KeySpaceId, name: &str) -> Result<()>;

    /// Deletes a snapshot. Readers that have it open read on.
    ///
    /// # Errors
    /// There is no such snapshot; a clone keeps it.
    fn delete_snapshot(&self, space: KeySpaceId, name: &str) -> Result<()>;

    /// The snapshots of a key space, the oldest first.
    ///
    /// # Errors
    /// Those of the type.
    fn snapshots_of(&self, space: KeySpaceId) -> Result<Vec<SnapshotInfo>>;

    /// Opens a snapshot for reading; of all key spaces, it has this one.
    ///
    /// # Errors
    /// There is no such snapshot.
    fn open_snapshot(&self, space: KeySpaceId, name: &str) -> Result<Arc<dyn Snapshot>>;

    /// Makes a key space what it was when a snapshot of it was made. Newer snapshots go with that, if `force` allows it.
    ///
    /// # Errors
    /// There is no such snapshot; there are newer ones and `force` is false; a clone keeps a newer one.
    fn rollback(&self, space: KeySpaceId, name: &str, force: bool) -> Result<()>;

    /// Makes a key space that begins as a snapshot, and keeps it.
    ///
    /// # Errors
    /// There is no such snapshot; there is a key space of the new name;
    /// [`Error::KeySpaceName`](crate::Error::KeySpaceName).
    fn clone_snapshot(
        &self,
        space: KeySpaceId,
        snapshot: &str,
        new_name: &str,
    ) -> Result<KeySpaceId>;

    /// Copies a range of keys in one commit, durable when this returns, whatever its size. Keys that the destination had
    /// in the range of the new keys are gone then. The source is as it was before the commit, also where both overlap.
    ///
    /// # Errors
    /// The new keys would be too long.
    fn copy_range(&self, copy: &RangeCopy<'_>) -> Result<()>;
}
