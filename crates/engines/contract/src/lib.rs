//! The contract of a Halite engine.
//!
//! An engine keeps ordered byte-string keys in named key spaces. [`Engine`] is what each promises:
//! point reads, atomic batches, range scans of one consistent state, durability on request,
//! statistics and verification. A caller above (`halite`) turns its calls into [`Op`]s and hands
//! them to [`Engine::write`]; the engine persists them through `halite-pmem`'s pool and makes them
//! visible together.
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
mod index_kind;
mod limits;
mod lsm_options;
mod made_by;
mod model;
mod op;
mod options;
mod panics;
mod range;
mod snapshot;
mod stats;
mod verify;

pub use bytes::Bytes;
pub use change::{Change, ChangeOp, Changes, Positions};
pub use error::{Error, Result};
pub use expectation::Expectation;
pub use health::Health;
pub use holder::{Holder, Reader};
pub use index_kind::IndexKind;
pub use limits::{
    KEY_LEN_MAX, KEY_SPACE_NAME_LEN_MAX, VALUE_LEN_MAX, check_key, check_key_space_name,
    check_value,
};
pub use lsm_options::{CommitPoints, Compression, Durable, LsmOptions, WaitStrategy};
pub use made_by::{ENGINE_ROOT, made_by, other_engine};
pub use model::Model;
pub use op::{Durability, KeySpaceId, Op, WriteBatch};
pub use options::{EngineOptions, INDEX_SNAPSHOT, Partitioning};
pub use panics::panic_message;
pub use range::{Direction, KeyRange};
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
    /// The name by which `--engine` and a pool's root know this engine, for example `indexlog`.
    fn name(&self) -> &'static str;

    /// The key space called `name`, created durably if there is none.
    ///
    /// # Errors
    /// [`Error::KeySpaceName`] if the name is empty or too long, and what [`Engine::write`] returns.
    fn key_space(&self, name: &str) -> Result<KeySpaceId>;

    /// The key spaces that exist, by name.
    ///
    /// # Errors
    /// What the names could not be recovered for.
    fn key_spaces(&self) -> Result<Vec<(String, KeySpaceId)>>;

    /// Does a little of the collecting of garbage that writes to a partition would have to do later: for who
    /// has nothing else to do, and calls it again as long as it returns true. It never makes the store grow.
    ///
    /// # Errors
    /// What [`Engine::write`] returns.
    fn collect_ahead(&self, partition: usize) -> Result<bool> {
        let _ = partition;
        Ok(false)
    }

    /// Removes a key space and all that is in it, durably and atomically.
    ///
    /// # Errors
    /// [`Error::NoSuchKeySpace`], and what [`Engine::write`] returns.
    fn drop_key_space(&self, space: KeySpaceId) -> Result<()>;

    /// The value of `key`, or `None`.
    ///
    /// # Errors
    /// [`Error::NoSuchKeySpace`]; [`Error::Damaged`] if the record fails its checksum.
    fn get(&self, space: KeySpaceId, key: &[u8]) -> Result<Option<Bytes>>;

    /// Brings what operations on these keys, all of one partition, will read into the cache: for a caller
    /// who knows several keys ahead. Changes nothing, and never waits for a partition.
    fn prefetch(&self, _partition: usize, _space: KeySpaceId, _keys: &[&[u8]]) {}

    /// The number of keys in a key space. An engine that has to look for it takes as long as there are keys.
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
    /// [`Error::NoSuchKeySpace`], [`Error::KeyTooLong`], [`Error::ValueTooLong`],
    /// [`Error::BatchTooLarge`], [`Error::Full`], or what the pool reports. Nothing is applied then.
    fn write(&self, ops: &[Op<'_>], durability: Durability) -> Result<()>;

    /// [`Engine::write`] for bookkeeping, such as when a key expires: small values that have to be written where others
    /// are refused for want of room.
    ///
    /// A full store refuses, in this order: puts, bookkeeping, and batches of nothing but [`Op::Delete`] and
    /// [`Op::DeleteRange`], which give room back. What puts leave is bookkeeping's, up to what deletes need. An engine
    /// for which all that is one returns what [`Engine::write`] does.
    ///
    /// # Errors
    /// As [`Engine::write`].
    fn write_bookkeeping(&self, ops: &[Op<'_>], durability: Durability) -> Result<()> {
        self.write(ops, durability)
    }

    /// [`Engine::write`], if nothing of what is expected changed; nobody writes in between. Without operations,
    /// it tells whether anything did.
    ///
    /// What is expected is durable no later than the operations are: after a crash, they are not there
    /// without it. An engine that offers this offers snapshots, and returns `Ok` if it is given nothing at all.
    ///
    /// # Errors
    /// [`Error::Conflict`] if anything changed, [`Error::NoSuchKeySpace`] also for one that is expected and was
    /// dropped, [`Error::ForeignSnapshot`], [`Error::NoTransactions`] from an engine that does not offer this,
    /// and what [`Engine::write`] returns. Nothing is applied then.
    fn write_if(
        &self,
        _ops: &[Op<'_>],
        _durability: Durability,
        _expected: &[Expectation<'_>],
    ) -> Result<()> {
        Err(Error::NoTransactions)
    }

    /// The pairs of `range`, in `direction`, as they are now: later writes do not show.
    ///
    /// Space that the scan may still read is not reused while it lives.
    ///
    /// # Errors
    /// [`Error::NoSuchKeySpace`]; the scan itself yields [`Error::Damaged`].
    fn scan(&self, space: KeySpaceId, range: KeyRange, direction: Direction) -> Result<Scan>;

    /// The store as it is now, in all partitions at once.
    ///
    /// Taking it costs the same however much the store holds.
    ///
    /// # Errors
    /// [`Error::NoSnapshots`] if this engine takes none; [`Error::Damaged`].
    fn snapshot(&self) -> Result<Arc<dyn Snapshot>> {
        Err(Error::NoSnapshots)
    }

    /// Takes a snapshot of the index of each partition now, for the next opening to read. Returns whether all
    /// have one: not if this engine, or this kind of index, has none, if the pool has no room for it, or
    /// while scans hold what it would have to wait for.
    ///
    /// # Errors
    /// What the pool reports, and as a sync: everything that was written is durable then.
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
    /// What the pool reports; the writes are then not durable.
    fn sync(&self) -> Result<()>;

    /// Waits until everything can be accessed without waiting, where a store may open before
    /// ([`EngineOptions::on_demand`]).
    ///
    /// # Errors
    /// What a part of the store could not be recovered for; who accesses that part gets it too.
    fn wait_ready(&self) -> Result<()> {
        Ok(())
    }

    /// Waits up to `time` until a partition can be accessed without waiting; returns whether it can. Of
    /// those that are not recovered, it is the next one.
    ///
    /// # Errors
    /// What the partition could not be recovered for.
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

    /// Counts the keys of one partition as long as `go_on` says so. Returns how many there are, and whether these are
    /// all. An engine that knows the number asks nobody. One that has to look for it asks before each key, removed
    /// ones that still lie there included, and tells how many there are so far, and how many it has looked at.
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

    /// Visits at least `count` keys of a partition, if there are so many left, in no order, and returns where
    /// to go on, or 0 behind the last. A walk begins with 0. However the keys change between its steps, one
    /// that is there during the whole walk is visited at least once. `None`: the keys have an order, by
    /// which [`Engine::scan_partition`] finds its way as cheaply.
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

    /// What the store holds and has done.
    fn stats(&self) -> Stats;

    /// [`Engine::stats`] of one partition; what is about the whole pool is zero.
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

    /// Reads everything that has a checksum and reports what is damaged.
    ///
    /// `progress` is called now and then; when it breaks, the report so far is returned, marked
    /// incomplete.
    ///
    /// # Errors
    /// Only what keeps the verification itself from running; damage is in the report.
    fn verify(&self, progress: Progress<'_>) -> Result<VerifyReport>;
}
