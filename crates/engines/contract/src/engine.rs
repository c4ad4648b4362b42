//! The core of the contract: the methods that every engine has.

use crate::{
    Bytes, Capabilities, Direction, Durability, KeyRange, KeySpaceId, Op, Progress, Result, Stats,
    VerifyReport,
};

/// A scan in progress: pairs in the scan's order, each an error if its record is damaged.
pub type Scan = Box<dyn Iterator<Item = Result<(Bytes, Bytes)>> + Send>;

/// An ordered key-value store.
///
/// All methods may be called from many threads. A write is atomic: a reader sees all of a call's
/// operations or none, and so does the store after a crash at any moment.
pub trait Engine: Send + Sync {
    /// The name by which `--engine` and a pool's root know this engine.
    fn name(&self) -> &'static str;

    /// The traits that this engine has beyond this one: always the same.
    fn capabilities(&self) -> Capabilities<'_> {
        Capabilities::default()
    }

    /// The key space called `name`, created durably if there is none.
    ///
    /// # Errors
    /// [`crate::Error::KeySpaceName`] if the name is empty or too long, and the errors of
    /// [`Engine::write`].
    fn key_space(&self, name: &str) -> Result<KeySpaceId>;

    /// The key spaces that exist, by name.
    ///
    /// # Errors
    /// Why the names could not be recovered.
    fn key_spaces(&self) -> Result<Vec<(String, KeySpaceId)>>;

    /// Removes a key space and all that is in it, durably and atomically.
    ///
    /// # Errors
    /// [`crate::Error::NoSuchKeySpace`], and the errors of [`Engine::write`].
    fn drop_key_space(&self, space: KeySpaceId) -> Result<()>;

    /// The value of `key`, or `None`.
    ///
    /// # Errors
    /// [`crate::Error::NoSuchKeySpace`]; [`crate::Error::Damaged`] if the record fails its checksum.
    fn get(&self, space: KeySpaceId, key: &[u8]) -> Result<Option<Bytes>>;

    /// The number of keys in a key space. An engine that does not keep this number takes time in proportion
    /// to the keys.
    ///
    /// # Errors
    /// [`crate::Error::NoSuchKeySpace`].
    fn len(&self, space: KeySpaceId) -> Result<u64>;

    /// A key chosen by `random`, roughly uniformly if `random` is uniform; `None` if there is none.
    ///
    /// # Errors
    /// As [`Engine::get`].
    fn sample(&self, space: KeySpaceId, random: u64) -> Result<Option<Bytes>>;

    /// Applies `ops` in order, atomically.
    ///
    /// With [`Durability::Immediate`] the operations are durable in the pool's domain on return.
    /// With [`Durability::Deferred`] they are visible on return and durable after the next
    /// [`Engine::sync`]; a crash before it leaves a prefix of the deferred writes of each partition.
    /// Of a batch on several partitions, it leaves all or nothing, and an engine may make such a batch durable on return.
    ///
    /// # Errors
    /// [`crate::Error::NoSuchKeySpace`], [`crate::Error::KeyTooLong`], [`crate::Error::ValueTooLong`],
    /// [`crate::Error::BatchTooLarge`], [`crate::Error::Full`], or the pool's errors. No operation is applied
    /// then.
    fn write(&self, ops: &[Op<'_>], durability: Durability) -> Result<()>;

    /// The pairs of `range`, in `direction`, of the current state: later writes do not show.
    ///
    /// Space that the scan may still read is not reused while it lives.
    ///
    /// # Errors
    /// [`crate::Error::NoSuchKeySpace`]; the scan itself yields [`crate::Error::Damaged`].
    fn scan(&self, space: KeySpaceId, range: KeyRange, direction: Direction) -> Result<Scan>;

    /// Makes every write that has returned durable in the pool's domain.
    ///
    /// # Errors
    /// The pool's errors; the writes are then not durable.
    fn sync(&self) -> Result<()>;

    /// Gives every write that has returned to the operating system, so that the end of the process does not take it; a
    /// power cut still may. An engine whose writes go to mapped memory has nothing to do.
    ///
    /// # Errors
    /// As [`Engine::sync`].
    fn hand_over(&self) -> Result<()> {
        Ok(())
    }

    /// The statistics of the store: its contents, and its operations so far.
    fn stats(&self) -> Stats;

    /// Reads all bytes that have a checksum and reports damage.
    ///
    /// `progress` is called now and then; when it breaks, the report so far is returned, marked
    /// incomplete.
    ///
    /// # Errors
    /// Only failures that keep the verification itself from running; damage is in the report.
    fn verify(&self, progress: Progress<'_>) -> Result<VerifyReport>;
}
