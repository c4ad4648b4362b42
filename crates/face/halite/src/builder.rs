//! How to open a database.

use std::any::Any;
use std::fmt::Debug;
use std::path::Path;

use halite_contract::{EngineOptions, Feature};
use halite_indexlog::IndexLogOptions;
use halite_pmem::Profile;
use halite_sim::Failures;

use crate::{BetreeOptions, Database, Domain, IndexKind, LsmOptions, Partitioning, Result};

/// Options of a database, and the ways to open one.
///
/// ```
/// # let folder = tempfile::tempdir()?;
/// # let path = folder.path().join("data");
/// let db = halite::Database::builder().max_size(64 << 20).open(&path)?;
/// assert!(db.stats().pool_bytes <= 64 << 20);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone)]
pub struct Builder {
    /// `None`: the engine of the existing database, or that which suits the options and the medium.
    pub(crate) engine: Option<String>,
    /// The options of the engine; the pool's path comes when the database opens.
    pub(crate) options: EngineOptions,
    /// The feature that the engine of a new database has to have.
    pub(crate) needs: Option<Feature>,
}

impl Default for Builder {
    fn default() -> Self {
        Self { engine: None, options: EngineOptions::new(""), needs: None }
    }
}

impl Builder {
    /// The engine by its name, one of [`ENGINES`](crate::ENGINES). Without it, a database that exists is opened by the
    /// engine that made it, and a new one is made by the engine that alone has what the other options ask for; failing
    /// that, by `lsm` on an ordinary file ([`Domain::PageCache`]) and by `indexlog` on all other media.
    #[must_use]
    pub fn engine(mut self, name: impl Into<String>) -> Self {
        self.engine = Some(name.into());
        self
    }

    /// A feature that the engine of the database has to have: with the name of an engine that lacks it, opening fails
    /// before anything is made. Without a name, a new database is made by an engine that has the feature.
    ///
    /// ```
    /// # let folder = tempfile::tempdir()?;
    /// # let path = folder.path().join("data");
    /// use halite::{Database, Error, Feature};
    /// let refused = Database::builder().engine("lsm").needs(Feature::Objects).open(&path);
    /// assert!(matches!(refused, Err(Error::Lacks { engine: "lsm", having, .. }) if having == ["betree"]));
    /// assert!(!path.exists());
    /// Database::builder().needs(Feature::Objects).open(&path)?.objects("photos")?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn needs(mut self, feature: Feature) -> Self {
        self.needs = Some(feature);
        self
    }

    /// Options that only one engine has, of that engine's own type; other engines do not read them.
    #[must_use]
    pub fn own<T>(mut self, options: T) -> Self
    where
        T: Any + Clone + Debug + Default + Send + Sync,
    {
        *self.options.own.get_mut() = options;
        self
    }

    /// Options of the engine `lsm` alone: where its levels are, for example, and how large a memtable gets.
    ///
    /// ```
    /// # let folder = tempfile::tempdir()?;
    /// # let path = folder.path().join("data");
    /// use halite::{Database, LsmOptions};
    /// let options = LsmOptions { memtable_bytes: Some(16 << 20), ..LsmOptions::default() };
    /// let db = Database::builder().engine("lsm").lsm(options).open(&path)?;
    /// assert_eq!(db.engine_name(), "lsm");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn lsm(self, options: LsmOptions) -> Self {
        self.own(options)
    }

    /// Options of the engine `betree` alone: the sizes of its memtables, buffers and leaves, for example.
    ///
    /// ```
    /// # let folder = tempfile::tempdir()?;
    /// # let path = folder.path().join("data");
    /// use halite::{BetreeOptions, Database};
    /// let options = BetreeOptions { leaf_bytes: Some(1 << 20), ..BetreeOptions::default() };
    /// let db = Database::builder().engine("betree").betree(options).open(&path)?;
    /// assert_eq!(db.engine_name(), "betree");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn betree(self, options: BetreeOptions) -> Self {
        self.own(options)
    }

    /// The size in bytes to which the pool may grow; at it, writes return [`crate::EngineError::Full`].
    #[must_use]
    pub fn max_size(mut self, bytes: u64) -> Self {
        self.options.pool_options.size_max = bytes;
        self
    }

    /// Bytes that a new database's pool takes at once, out of those that it may take. The pool grows by itself, while
    /// the writer that needs the room waits: on a machine with enough memory, it may take all of them at once.
    #[must_use]
    pub fn initial_size(mut self, bytes: u64) -> Self {
        self.options.pool_options.size_initial = bytes;
        self
    }

    /// Whether to create the database if there is none (the default), or to return an error.
    #[must_use]
    pub fn create(mut self, create: bool) -> Self {
        self.options.create = create;
        self
    }

    /// How keys are spread over partitions, each with an index, a log and a collector of its own: by hash
    /// over so many of them, or by ranges. Writes to different partitions do not wait for each other.
    ///
    /// Without it a new database has one partition, and an existing one keeps its partitions. A database of
    /// `indexlog` with other partitions is repartitioned while it opens: that needs twice the room of its live records. One
    /// of `lsm` keeps its own, and refuses others.
    ///
    /// ```
    /// # let folder = tempfile::tempdir()?;
    /// # let path = folder.path().join("data");
    /// use halite::{Database, Partitioning};
    /// let db = Database::builder().partitioning(Partitioning::Hash(4)).open(&path)?;
    /// assert_eq!(db.partitions(), 4);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn partitioning(mut self, partitioning: Partitioning) -> Self {
        self.options.partitioning = Some(partitioning);
        self
    }

    /// The index of the keys: ordered, the default, or by hash, for point operations. It is built anew by
    /// each opening, and may be another each time.
    ///
    /// ```
    /// # let folder = tempfile::tempdir()?;
    /// # let path = folder.path().join("data");
    /// use halite::{Database, IndexKind};
    /// let db = Database::builder().index(IndexKind::Ordered { key_bytes: 4 }).open(&path)?;
    /// # drop(db);
    /// let db = Database::builder().index(IndexKind::Hash).open(&path)?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn index(mut self, index: IndexKind) -> Self {
        self.options.own.get_mut::<IndexLogOptions>().index = index;
        self
    }

    /// Whether to open the database as soon as its contents are known, and to recover its partitions in the background.
    /// An access to a partition that is not recovered yet waits for it; damage is then an error of these accesses, not
    /// of opening. [`Database::wait_ready`] waits for all partitions.
    #[must_use]
    pub fn on_demand(mut self, on_demand: bool) -> Self {
        self.options.on_demand = on_demand;
        self
    }

    /// Makes the database with a change log, and retains so many bytes of it for
    /// [`Database::changes`](crate::Database::changes).
    ///
    /// A durable put then waits for its entry in the change log only, and its record follows by the
    /// cache. A database that was made without one cannot be given one; the bytes may change.
    ///
    /// ```
    /// # let folder = tempfile::tempdir()?;
    /// # let path = folder.path().join("data");
    /// use halite::{ChangeOp, Database};
    /// let db = Database::builder().change_log(16 << 20).open(&path)?;
    /// db.key_space("fruit")?.put("apple", "green")?;
    /// let changes = db.changes(0, 0)?.collect::<Result<Vec<_>, _>>()?;
    /// assert!(matches!(&changes[1].ops[..], [ChangeOp::Put { key, .. }] if key == b"apple"));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn change_log(mut self, retain_bytes: u64) -> Self {
        self.options.change_log = Some(retain_bytes);
        self
    }

    /// How many bytes are written between two snapshots of the index; without this, 128 MiB.
    ///
    /// An opening reads the newest snapshot and the records written after it, instead of all records. Each snapshot
    /// takes about 17 bytes a record, and at least four times its size is written between two of them. `None`: no
    /// snapshot is taken, an existing one is discarded, and an opening reads and checks every record, as
    /// [`Database::verify`] always does.
    ///
    /// ```
    /// # let folder = tempfile::tempdir()?;
    /// # let path = folder.path().join("data");
    /// use halite::Database;
    /// let db = Database::builder().index_snapshot(Some(16 << 20)).open(&path)?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn index_snapshot(mut self, bytes: Option<u64>) -> Self {
        self.options.own.get_mut::<IndexLogOptions>().index_snapshot = bytes;
        self
    }

    /// For measurements only: makes the database as slow as another medium.
    #[must_use]
    pub fn profile(mut self, profile: Profile) -> Self {
        self.options.pool_options.profile = Some(profile);
        self
    }

    /// For tests only: assumes `domain` instead of detecting the guarantees of the medium.
    #[must_use]
    pub fn assume_domain(mut self, domain: Domain) -> Self {
        self.options.pool_options.assume_domain = Some(domain);
        self
    }

    /// For tests only: lets calls of the kernel about the database's files fail.
    #[must_use]
    pub fn failures(mut self, failures: Failures) -> Self {
        self.options.pool_options.failures = Some(failures);
        self
    }

    /// Opens the database in the folder `path`, and creates both if they do not exist. If the naming of a restored
    /// database was interrupted, it is finished first.
    ///
    /// # Errors
    /// Why the store cannot be opened: it is missing ([`Builder::create`]), held by another process, not a Halite
    /// store, of a newer format, of another engine, or damaged, or there is no room for it;
    /// [`crate::Error::Restoring`].
    pub fn open(self, path: impl AsRef<Path>) -> Result<Database> {
        Database::open_with(self, path.as_ref())
    }

    /// Opens a new, empty database without a folder ([`Database::in_memory`]): [`Domain::Volatile`].
    ///
    /// Give it a [`Builder::max_size`] that the machine has: the kernel promises more, and then ends
    /// processes when it is used.
    ///
    /// ```
    /// use halite::{Database, Domain};
    /// let db = Database::builder().max_size(64 << 20).in_memory()?;
    /// assert_eq!(db.domain(), Domain::Volatile);
    /// # Ok::<(), halite::Error>(())
    /// ```
    ///
    /// # Errors
    /// If there are no addresses or no memory for it; of partitions, as [`Builder::open`];
    /// [`crate::Error::UnknownEngine`].
    pub fn in_memory(mut self) -> Result<Database> {
        self.options.pool_options.in_memory = true;
        self.options.create = true;
        Database::open_with(self, Path::new("in memory"))
    }

    pub(crate) fn engine_options(&self, path: &Path) -> EngineOptions {
        let is_in_memory = self.options.pool_options.in_memory;
        let pool = if is_in_memory { path.to_owned() } else { path.join(Database::POOL_FILE) };
        EngineOptions { pool, ..self.options.clone() }
    }
}
