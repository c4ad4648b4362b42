//! The contract of a Halite engine.
//!
//! An engine keeps ordered byte-string keys in named key spaces. [`Engine`] has the guarantees of each:
//! point reads, atomic batches, range scans of one consistent state, durability on request, statistics and
//! verification. The layer above (`halite`) turns its calls into [`Op`]s and hands them to
//! [`Engine::write`]; the engine persists them through `halite-pmem`'s pool and makes them visible
//! together.
//!
//! [`Model`] is the contract in its shortest form: an ordered map in memory. With the feature
//! `conformance`, the `conformance` module turns it into a suite that any engine runs against
//! itself by one line.
#![forbid(unsafe_code)]

use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

mod bytes;
mod change;
#[cfg(feature = "conformance")]
pub mod conformance;
mod error;
mod expectation;
mod health;
mod holder;
pub mod lab;
mod limits;
mod made_by;
mod model;
mod op;
mod options;
mod own_options;
mod panics;
mod range;
mod registration;
mod snapshot;
mod stats;
mod verify;

pub use bytes::Bytes;
pub use change::{Change, ChangeOp, Changes, Positions};
pub use error::{Error, Result};
pub use expectation::Expectation;
pub use health::Health;
pub use holder::{Holder, Reader};
pub use limits::{
    KEY_LEN_MAX, KEY_SPACE_NAME_LEN_MAX, VALUE_LEN_MAX, check_key, check_key_space_name,
    check_value,
};
pub use made_by::{ENGINE_ROOT, made_by, other_engine};
pub use model::Model;
pub use op::{Durability, KeySpaceId, Op, WriteBatch};
pub use options::{EngineOptions, Partitioning};
pub use own_options::OwnOptions;
pub use panics::panic_message;
pub use range::{Direction, KeyRange};
pub use registration::{Beside, Registration};
pub use snapshot::Snapshot;
pub use stats::{LevelStats, Recovery, Stats};
pub use verify::{Damage, Progress, RepairReport, VerifyReport};

/// A scan in progress: pairs in the scan's order, each an error if its record is damaged.
pub type Scan = Box<dyn Iterator<Item = Result<(Bytes, Bytes)>> + Send>;

/// An ordered key-value store.
///
/// All methods may be called from many threads. A write is atomic: a reader sees all of a call's
/// operations or none, and so does the store after a crash at any moment.
pub trait Engine: Send + Sync {
    /// The name by which `--engine` and a pool's root know this engine.
    fn name(&self) -> &'static str;

    /// The key space called `name`, created durably if there is none.
    ///
    /// # Errors
    /// [`Error::KeySpaceName`] if the name is empty or too long, and the errors of [`Engine::write`].
    fn key_space(&self, name: &str) -> Result<KeySpaceId>;

    /// The key spaces that exist, by name.
    ///
    /// # Errors
    /// Why the names could not be recovered.
    fn key_spaces(&self) -> Result<Vec<(String, KeySpaceId)>>;

    /// Does a little of the garbage collection that writes to a partition would have to do later. An idle
    /// caller calls it again as long as it returns true. It never makes the store grow.
    ///
    /// # Errors
    /// The errors of [`Engine::write`].
    fn collect_ahead(&self, partition: usize) -> Result<bool> {
        let _ = partition;
        Ok(false)
    }

    /// Removes a key space and all that is in it, durably and atomically.
    ///
    /// # Errors
    /// [`Error::NoSuchKeySpace`], and the errors of [`Engine::write`].
    fn drop_key_space(&self, space: KeySpaceId) -> Result<()>;

    /// The value of `key`, or `None`.
    ///
    /// # Errors
    /// [`Error::NoSuchKeySpace`]; [`Error::Damaged`] if the record fails its checksum.
    fn get(&self, space: KeySpaceId, key: &[u8]) -> Result<Option<Bytes>>;

    /// Brings the records that operations on these keys, all of one partition, will read into the cache:
    /// for a caller that knows several keys ahead. Changes nothing, and never waits for a partition.
    fn prefetch(&self, _partition: usize, _space: KeySpaceId, _keys: &[&[u8]]) {}

    /// The number of keys in a key space. An engine that does not keep this number takes time in proportion
    /// to the keys.
    ///
    /// # Errors
    /// [`Error::NoSuchKeySpace`].
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
    /// A batch on several partitions is durable on return in any case.
    ///
    /// # Errors
    /// [`Error::NoSuchKeySpace`], [`Error::KeyTooLong`], [`Error::ValueTooLong`], [`Error::BatchTooLarge`],
    /// [`Error::Full`], or the pool's errors. No operation is applied then.
    fn write(&self, ops: &[Op<'_>], durability: Durability) -> Result<()>;

    /// [`Engine::write`] for bookkeeping, such as when a key expires: small values that have to be written
    /// where other writes are refused for lack of room.
    ///
    /// A full store refuses, in this order: puts, bookkeeping, and batches of nothing but [`Op::Delete`]
    /// and [`Op::DeleteRange`], which give room back. Bookkeeping may use the room that puts must leave,
    /// except for the part that deletes need. An engine that does not distinguish them returns the same as
    /// [`Engine::write`].
    ///
    /// # Errors
    /// As [`Engine::write`].
    fn write_bookkeeping(&self, ops: &[Op<'_>], durability: Durability) -> Result<()> {
        self.write(ops, durability)
    }

    /// [`Engine::write`], if no expected key or range has changed; no other write comes in between. Without
    /// operations, it only checks whether one has changed.
    ///
    /// The expected state is durable no later than the operations are: after a crash, they are not there
    /// without it. An engine that offers this offers snapshots, and returns `Ok` if it is given neither
    /// operations nor expectations.
    ///
    /// # Errors
    /// [`Error::Conflict`] if an expected key or range changed, [`Error::NoSuchKeySpace`] also for an
    /// expected key space that was dropped, [`Error::ForeignSnapshot`], [`Error::NoTransactions`] from an
    /// engine that does not offer this, and the errors of [`Engine::write`]. No operation is applied then.
    fn write_if(
        &self,
        _ops: &[Op<'_>],
        _durability: Durability,
        _expected: &[Expectation<'_>],
    ) -> Result<()> {
        Err(Error::NoTransactions)
    }

    /// The pairs of `range`, in `direction`, of the current state: later writes do not show.
    ///
    /// Space that the scan may still read is not reused while it lives.
    ///
    /// # Errors
    /// [`Error::NoSuchKeySpace`]; the scan itself yields [`Error::Damaged`].
    fn scan(&self, space: KeySpaceId, range: KeyRange, direction: Direction) -> Result<Scan>;

    /// The current state of the store, in all partitions at once.
    ///
    /// Taking it costs the same for a store of any size.
    ///
    /// # Errors
    /// [`Error::NoSnapshots`] if this engine takes none; [`Error::Damaged`].
    fn snapshot(&self) -> Result<Arc<dyn Snapshot>> {
        Err(Error::NoSnapshots)
    }

    /// Takes a snapshot of the index of each partition now, for the next opening to read. Returns whether
    /// all have one: not if this engine, or this kind of index, takes none, if the pool has no room for it,
    /// or while scans hold space that it would have to wait for.
    ///
    /// # Errors
    /// The pool's errors, and those of a sync: all earlier writes are durable then.
    fn snapshot_index(&self) -> Result<bool> {
        Ok(false)
    }

    /// Bytes of its change log that the store retains; `None` if it has none.
    fn change_log(&self) -> Option<u64> {
        None
    }

    /// The positions of a partition's change log that can be read from, up to the durable end.
    ///
    /// # Errors
    /// [`Error::NoChangeLog`] if the store was made without one.
    ///
    /// # Panics
    /// If there is no such partition.
    fn change_positions(&self, _partition: usize) -> Result<Range<u64>> {
        Err(Error::NoChangeLog)
    }

    /// The changes of a partition from a position on: 0, the position of a change that was read, or one
    /// of the bounds of [`Engine::change_positions`]. Positions mean the same after the store was opened
    /// again, but not after its partitions were changed.
    ///
    /// # Errors
    /// [`Error::NoChangeLog`]; [`Error::ChangesReleased`], also while reading;
    /// [`Error::NoChangePosition`]; [`Error::Damaged`].
    ///
    /// # Panics
    /// If there is no such partition.
    fn changes(&self, _partition: usize, _from: u64) -> Result<Changes> {
        Err(Error::NoChangeLog)
    }

    /// Makes every write that has returned durable in the pool's domain.
    ///
    /// # Errors
    /// The pool's errors; the writes are then not durable.
    fn sync(&self) -> Result<()>;

    /// Waits until the whole store can be accessed without waiting, where a store may open before
    /// ([`EngineOptions::on_demand`]).
    ///
    /// # Errors
    /// Why a part of the store could not be recovered; an access to that part returns the same error.
    fn wait_ready(&self) -> Result<()> {
        Ok(())
    }

    /// Waits up to `time` until a partition can be accessed without waiting; returns whether it can. This
    /// partition is the next one to be recovered.
    ///
    /// # Errors
    /// Why the partition could not be recovered.
    ///
    /// # Panics
    /// If there is no such partition.
    fn wait_partition(&self, _partition: usize, _time: Duration) -> Result<bool> {
        self.wait_ready().map(|()| true)
    }

    /// How keys are spread over partitions.
    fn partitioning(&self) -> Partitioning {
        Partitioning::Hash(1)
    }

    /// The number of partitions; they are named by their numbers, from zero.
    fn partitions(&self) -> usize {
        1
    }

    /// The partition that has `key`.
    fn partition_of(&self, _key: &[u8]) -> usize {
        0
    }

    /// [`Engine::scan`] of one partition's keys.
    ///
    /// # Errors
    /// As [`Engine::scan`].
    ///
    /// # Panics
    /// If there is no such partition.
    fn scan_partition(
        &self,
        _partition: usize,
        space: KeySpaceId,
        range: KeyRange,
        direction: Direction,
    ) -> Result<Scan> {
        self.scan(space, range, direction)
    }

    /// The number of keys of one partition.
    ///
    /// # Errors
    /// As [`Engine::len`].
    ///
    /// # Panics
    /// If there is no such partition.
    fn len_of_partition(&self, _partition: usize, space: KeySpaceId) -> Result<u64> {
        self.len(space)
    }

    /// Counts the keys of one partition as long as `go_on` returns true. Returns how many there are, and
    /// whether these are all. An engine that knows the number never calls `go_on`. Another one calls it
    /// before each key, including removed ones that are still stored, with the number of keys found so far
    /// and of keys looked at.
    ///
    /// # Errors
    /// As [`Engine::len`].
    ///
    /// # Panics
    /// If there is no such partition.
    fn count_partition(
        &self,
        partition: usize,
        space: KeySpaceId,
        _go_on: &mut dyn FnMut(u64, u64) -> bool,
    ) -> Result<(u64, bool)> {
        Ok((self.len_of_partition(partition, space)?, true))
    }

    /// Visits at least `count` keys of a partition, if there are so many left, in no order, and returns
    /// where to go on, or 0 behind the last. A walk begins with 0. Even if the keys change between its
    /// steps, a key that is there during the whole walk is visited at least once. `None`: the keys have an
    /// order, by which [`Engine::scan_partition`] finds its way as cheaply.
    ///
    /// # Errors
    /// As [`Engine::scan`]; [`Error::Damaged`].
    ///
    /// # Panics
    /// If there is no such partition.
    fn visit_partition(
        &self,
        _partition: usize,
        _space: KeySpaceId,
        _position: u64,
        _count: usize,
        _visit: &mut dyn FnMut(&[u8]),
    ) -> Result<Option<u64>> {
        Ok(None)
    }

    /// [`Engine::sync`] of one partition's writes.
    ///
    /// # Errors
    /// As [`Engine::sync`].
    ///
    /// # Panics
    /// If there is no such partition.
    fn sync_partition(&self, _partition: usize) -> Result<()> {
        self.sync()
    }

    /// The statistics of the store: its contents, and its operations so far.
    fn stats(&self) -> Stats;

    /// [`Engine::stats`] of one partition; figures of the whole pool are zero.
    ///
    /// # Panics
    /// If there is no such partition.
    fn partition_stats(&self, _partition: usize) -> Stats {
        self.stats()
    }

    /// Bytes of the pool that a record with a key and a value of these lengths takes.
    fn space_of(&self, key_len: usize, value_len: usize) -> u64 {
        (key_len + value_len) as u64
    }

    /// Reads all bytes that have a checksum and reports damage.
    ///
    /// `progress` is called now and then; when it breaks, the report so far is returned, marked
    /// incomplete.
    ///
    /// # Errors
    /// Only failures that keep the verification itself from running; damage is in the report.
    fn verify(&self, progress: Progress<'_>) -> Result<VerifyReport>;
}
