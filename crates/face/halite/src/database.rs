//! The database.

use std::fmt;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use halite_contract::Engine;

use crate::backup;
use crate::engines::check_offer;
use crate::folder;
use crate::snapshot::NamedSnapshots;
use crate::transaction::LockTable;
use crate::{
    Batch, Builder, Changes, Domain, KeySpace, Partitioning, Progress, Result, Snapshot, Stats,
    VerifyReport, open_any, open_engine,
};

/// An open database. Cloning it is cheap; the store closes with the last clone.
#[derive(Clone)]
pub struct Database {
    pub(crate) engine: Arc<dyn Engine>,
    snapshots: Arc<NamedSnapshots>,
    pub(crate) locks: Arc<LockTable>,
    /// The engine's, which stays as it is: a server asks for the partition of every key.
    partitioning: Arc<Partitioning>,
    path: PathBuf,
}

impl Database {
    /// The name of the pool in a database's folder.
    pub const POOL_FILE: &str = "pool.halite";

    /// Opens the database in the folder `path`, and creates both if they do not exist.
    ///
    /// # Errors
    /// See [`Builder::open`].
    pub fn open(path: impl AsRef<Path>) -> Result<Self> {
        Self::builder().open(path)
    }

    /// A new, empty database without a folder: its records are memory of this process, and gone with the
    /// last clone.
    ///
    /// ```
    /// use halite::Database;
    /// let db = Database::in_memory()?;
    /// let fruit = db.key_space("fruit")?;
    /// fruit.put("apple", "green")?;
    /// assert_eq!(fruit.len()?, 1);
    /// assert!(!db.domain().survives_power_cut());
    /// # Ok::<(), halite::Error>(())
    /// ```
    ///
    /// # Errors
    /// See [`Builder::in_memory`].
    pub fn in_memory() -> Result<Self> {
        Self::builder().in_memory()
    }

    /// Options to open a database with.
    #[must_use]
    pub fn builder() -> Builder {
        Builder::default()
    }

    /// A database over an engine that this crate does not know, such as another store behind the same server.
    /// [`Database::path`] returns `path`.
    pub fn with_engine(engine: Arc<dyn Engine>, path: impl Into<PathBuf>) -> Self {
        Self::of(engine, path.into())
    }

    fn of(engine: Arc<dyn Engine>, path: PathBuf) -> Self {
        let partitioning = Arc::new(engine.partitioning());
        let (snapshots, locks) = (Arc::default(), Arc::default());
        Self { engine, snapshots, locks, partitioning, path }
    }

    pub(crate) fn open_with(builder: Builder, path: &Path) -> Result<Self> {
        if let (Some(feature), Some(name)) = (builder.needs, &builder.engine) {
            check_offer(name, feature)?;
        }
        if !builder.options.pool_options.in_memory {
            backup::finish_before_opening(path)?;
            if builder.options.create {
                make_folder(path)?;
            }
        }
        let options = builder.engine_options(path);
        let engine = match &builder.engine {
            Some(name) => open_engine(name, &options)?,
            None => open_any(&options, builder.needs)?,
        };
        Ok(Self::of(engine, path.to_owned()))
    }

    /// Whether there is a database in the folder `path`, of whichever engine, open or not.
    ///
    /// ```
    /// # let folder = tempfile::tempdir()?;
    /// # let path = folder.path().join("data");
    /// use halite::Database;
    /// assert!(!Database::exists(&path));
    /// drop(Database::open(&path)?);
    /// assert!(Database::exists(&path));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn exists(path: impl AsRef<Path>) -> bool {
        let path = path.as_ref();
        path.join(Self::POOL_FILE).exists() || backup::is_interrupted(path)
    }

    /// The key space called `name`, created durably if it does not exist.
    ///
    /// # Errors
    /// [`crate::EngineError::KeySpaceName`] if the name is empty or too long; the errors of a write.
    pub fn key_space(&self, name: &str) -> Result<KeySpace> {
        let id = self.engine.key_space(name)?;
        Ok(KeySpace::new(Arc::clone(&self.engine), name, id))
    }

    /// The key spaces that exist, by name.
    ///
    /// # Errors
    /// The error of the recovery of the partition that holds the names.
    pub fn key_spaces(&self) -> Result<Vec<KeySpace>> {
        let space = |(name, id): &(String, _)| KeySpace::new(Arc::clone(&self.engine), name, *id);
        Ok(self.engine.key_spaces()?.iter().map(space).collect())
    }

    /// The key space called `name` if it exists.
    ///
    /// # Errors
    /// That of [`Database::key_spaces`].
    pub fn find_key_space(&self, name: &str) -> Result<Option<KeySpace>> {
        Ok(self.key_spaces()?.into_iter().find(|space| space.name() == name))
    }

    /// Removes a key space with all its pairs, durably and atomically.
    ///
    /// # Errors
    /// [`crate::EngineError::NoSuchKeySpace`] if it was dropped before; the errors of a write.
    pub fn drop_key_space(&self, space: &KeySpace) -> Result<()> {
        Ok(self.engine.drop_key_space(space.id)?)
    }

    /// An empty batch.
    pub fn batch(&self) -> Batch {
        Batch::new(Arc::clone(&self.engine))
    }

    /// Takes a snapshot of the database as it is now, all key spaces at once. Its cost does not depend on the size of
    /// the database.
    ///
    /// # Errors
    /// [`crate::EngineError::NoSnapshots`] from an engine that takes none; [`crate::EngineError::Damaged`].
    pub fn take_snapshot(&self) -> Result<Snapshot> {
        Snapshot::take(&self.engine)
    }

    /// [`Database::take_snapshot`], under a name that all clones of this database know it by.
    ///
    /// Named snapshots are volatile: they are gone when the last clone of the database is. Until then, or
    /// until [`Database::drop_snapshot`], space that they may read is not reused.
    ///
    /// # Errors
    /// [`crate::Error::SnapshotExists`]; as [`Database::take_snapshot`].
    pub fn create_snapshot(&self, name: &str) -> Result<Snapshot> {
        self.snapshots.create(name, || self.take_snapshot())
    }

    /// The snapshot called `name`.
    ///
    /// # Errors
    /// [`crate::Error::NoSuchSnapshot`].
    pub fn snapshot(&self, name: &str) -> Result<Snapshot> {
        self.snapshots.get(name)
    }

    /// The names of the snapshots that there are.
    #[must_use]
    pub fn snapshots(&self) -> Vec<String> {
        self.snapshots.names()
    }

    /// Forgets the snapshot called `name`. Readers that still hold the snapshot may go on reading it.
    ///
    /// # Errors
    /// [`crate::Error::NoSuchSnapshot`].
    pub fn drop_snapshot(&self, name: &str) -> Result<()> {
        self.snapshots.remove(name)
    }

    /// The positions of a partition's changes that can be read from, up to the durable end.
    ///
    /// # Errors
    /// [`crate::EngineError::NoChangeLog`] if the database was made without [`Builder::change_log`].
    ///
    /// # Panics
    /// If there is no such partition.
    pub fn change_positions(&self, partition: usize) -> Result<Range<u64>> {
        Ok(self.engine.change_positions(partition)?)
    }

    /// The changes of a partition, in order, from a position on: 0, or one that a change had. The iterator ends at the
    /// durable end, and goes on when it is called again after more changes.
    ///
    /// # Errors
    /// [`crate::EngineError::NoChangeLog`]; [`crate::EngineError::ChangesReleased`], also while reading;
    /// [`crate::EngineError::NoChangePosition`]; [`crate::EngineError::Damaged`].
    ///
    /// # Panics
    /// If there is no such partition.
    pub fn changes(&self, partition: usize, from: u64) -> Result<Changes> {
        Ok(Changes::new(self.engine.changes(partition, from)?))
    }

    /// Makes every write so far durable, those with [`crate::Durability::Deferred`] included.
    ///
    /// # Errors
    /// The errors of the pool; the writes are then not durable.
    pub fn sync(&self) -> Result<()> {
        Ok(self.engine.sync()?)
    }

    /// Gives every write that has returned to the operating system: from then on only a power cut, or a crash of the
    /// machine, takes a deferred one.
    ///
    /// # Errors
    /// As [`Database::sync`].
    pub fn hand_over(&self) -> Result<()> {
        Ok(self.engine.hand_over()?)
    }

    /// Waits until all partitions of a database that was opened [on demand](crate::Builder::on_demand) are recovered.
    ///
    /// # Errors
    /// The error of a partition's recovery.
    pub fn wait_ready(&self) -> Result<()> {
        Ok(self.engine.wait_ready()?)
    }

    /// Waits up to `time` until a partition is recovered, and moves it to the front of the recovery; returns whether it
    /// is recovered.
    ///
    /// # Errors
    /// The error of the partition's recovery.
    ///
    /// # Panics
    /// If there is no such partition.
    pub fn wait_partition(&self, partition: usize, time: Duration) -> Result<bool> {
        Ok(self.engine.wait_partition(partition, time)?)
    }

    /// The number of partitions that keys are spread over.
    #[must_use]
    pub fn partitions(&self) -> usize {
        self.partitioning.count()
    }

    /// The partition that has `key`, in any key space; below [`Database::partitions`].
    #[must_use]
    pub fn partition_of(&self, key: impl AsRef<[u8]>) -> usize {
        self.partitioning.partition_of(key.as_ref())
    }

    /// [`Database::sync`] of the writes to one partition.
    ///
    /// # Errors
    /// As [`Database::sync`].
    ///
    /// # Panics
    /// If there is no such partition.
    pub fn sync_partition(&self, partition: usize) -> Result<()> {
        Ok(self.engine.sync_partition(partition)?)
    }

    /// Does a little of the garbage collection that writes to a partition would have to do later. It is for an idle
    /// thread, which calls it again as long as it returns true. It never makes the store grow.
    ///
    /// # Errors
    /// As a write; see [`halite_contract::Engine::write`].
    ///
    /// # Panics
    /// If there is no such partition.
    pub fn collect_ahead(&self, partition: usize) -> Result<bool> {
        Ok(self.engine.collect_ahead(partition)?)
    }

    /// The statistics of the store.
    #[must_use]
    pub fn stats(&self) -> Stats {
        self.engine.stats()
    }

    /// The statistics of one partition; those of the whole pool are zero.
    ///
    /// # Panics
    /// If there is no such partition.
    #[must_use]
    pub fn partition_stats(&self, partition: usize) -> Stats {
        self.engine.partition_stats(partition)
    }

    /// Bytes of the pool that a record with a key and a value of these lengths takes.
    #[must_use]
    pub fn space_of(&self, key_len: usize, value_len: usize) -> u64 {
        self.engine.space_of(key_len, value_len)
    }

    /// The meaning of durable on this database's medium.
    #[must_use]
    pub fn domain(&self) -> Domain {
        self.stats().domain
    }

    /// The name of the engine that keeps the data.
    #[must_use]
    pub fn engine_name(&self) -> &'static str {
        self.engine.name()
    }

    /// The database's folder; `in memory` for a database without one.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Reads all data with checksums and reports the damage.
    ///
    /// # Errors
    /// Only an error that keeps the verification itself from running; damage is in the report.
    pub fn verify(&self, progress: Progress<'_>) -> Result<VerifyReport> {
        Ok(self.engine.verify(progress)?)
    }
}

/// Makes the folder of a database, and those above it that are missing, durably; for stores beside [`Database`] that lie
/// in a folder as a database does.
///
/// # Errors
/// Why it cannot be made, or why `path` is no folder.
pub fn make_folder(path: &Path) -> Result<()> {
    let made = folder::make(path).and_then(|made| folder::sync_names(&made));
    made.map_err(|source| {
        let action = "use it as the database's folder";
        halite_pmem::Error::Io { path: path.to_owned(), action, source }.into()
    })
}

impl fmt::Debug for Database {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Database").field("path", &self.path).finish_non_exhaustive()
    }
}
