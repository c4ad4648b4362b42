//! The LSM engine as a store under measurement: with persistent memory, and with a log.

use std::path::{Path, PathBuf};

use halite::{Database, Durable, KeySpace, LsmOptions};
use halite_lsm::experiments::{CommitPoints, WaitStrategy};
use halite_pmem::Profile;

use crate::RunOptions;
use crate::kv::{Counters, Memory, Session, SpaceSession, Store, StoreResult};

/// The subjects.
pub(crate) const XP: &str = "xp";
pub(crate) const XS: &str = "xs";

/// Memtables that a store with a log may have at once, in volatile memory.
pub(crate) const VOLATILE_BUFFERS: u64 = 4;

/// The part of a pool beside memtables, with the unused ends of memtables.
const VOLATILE_SPARE: u64 = 32 << 20;

/// The LSM engine, opened as a database.
pub(crate) struct LsmStore {
    name: &'static str,
    /// The place of the pool, if not beside the levels: the folder of all pools.
    pmem: Option<PathBuf>,
    pool_bytes: u64,
    pub(crate) options: LsmOptions,
    profile: Option<Profile>,
    open: Option<(Database, KeySpace)>,
}

impl LsmStore {
    /// The paper's XP: `pool_bytes` of persistent memory in the run's folder, no log.
    pub(crate) fn xp(run: &RunOptions, pool_bytes: u64, memory: Memory) -> Self {
        let mut store = Self {
            name: XP,
            pmem: Some(run.folder.clone()),
            pool_bytes,
            options: LsmOptions { durable: Durable::Pool, ..LsmOptions::default() },
            profile: run.profile.clone(),
            open: None,
        };
        store.set_memory(memory);
        store
    }

    /// The paper's XS: a log, volatile memtables, a tiered level zero.
    pub(crate) fn xs(run: &RunOptions, memory: Memory) -> Self {
        let mut store = Self {
            name: XS,
            pmem: None,
            options: LsmOptions { durable: Durable::Log, ..LsmOptions::default() },
            ..Self::xp(run, 0, memory)
        };
        store.set_memory(memory);
        store
    }

    /// Sets the bytes of persistent memory, and of other memory.
    pub(crate) fn set_pool(&mut self, bytes: u64, memory: Memory) {
        self.pool_bytes = bytes;
        self.set_memory(memory);
    }

    /// Gives it another name.
    pub(crate) fn named(mut self, name: &'static str) -> Self {
        self.name = name;
        self
    }

    /// Sets another way of committing.
    pub(crate) fn committing(mut self, points: CommitPoints, wait: WaitStrategy) -> Self {
        let experiments = &mut self.options.experiments;
        (experiments.commit_points, experiments.wait) = (points, wait);
        self
    }

    /// The open database.
    pub(crate) fn database(&self) -> StoreResult<&Database> {
        Ok(&self.open.as_ref().ok_or("the store is closed")?.0)
    }
}

impl Store for LsmStore {
    fn name(&self) -> &str {
        self.name
    }

    fn durability(&self) -> String {
        match (&self.options.durable, &self.open) {
            (Durable::Log, _) => "each commit followed by fdatasync of the log".to_owned(),
            (_, Some((db, _))) => format!("each commit fenced; {}", db.domain().guarantee()),
            _ => "each commit fenced".to_owned(),
        }
    }

    fn open(&mut self, folder: &Path) -> StoreResult<()> {
        let name = folder.file_name().ok_or("the folder has no name")?;
        let home = self.pmem.as_ref().map_or(folder.to_owned(), |pmem| pmem.join(name));
        let options = LsmOptions { levels: Some(folder.join("levels")), ..self.options.clone() };
        let mut builder = Database::builder().engine("lsm").lsm(options).max_size(self.pool_bytes);
        if self.pmem.is_some() {
            // Persistent memory is there from the beginning, and a file in DRAM is not before it is written.
            builder = builder.initial_size(self.pool_bytes);
        }
        if let Some(profile) = &self.profile {
            builder = builder.profile(profile.clone());
        }
        let db = builder.open(home)?;
        let space = db.key_space("bench")?;
        self.open = Some((db, space));
        Ok(())
    }

    fn close(&mut self) -> StoreResult<()> {
        self.open = None;
        Ok(())
    }

    fn session(&self) -> StoreResult<Box<dyn Session + '_>> {
        let (db, space) = self.open.as_ref().ok_or("the store is closed")?;
        Ok(Box::new(SpaceSession::new(db, space)))
    }

    fn set_memory(&mut self, memory: Memory) {
        if self.options.durable == Durable::Log {
            self.pool_bytes = VOLATILE_BUFFERS * memory.write_buffer + VOLATILE_SPARE;
        }
        self.options.memtable_bytes = Some(memory.write_buffer);
        self.options.cache_bytes = memory.cache;
    }

    fn runs(&self) -> Option<u64> {
        self.open.as_ref()?.0.stats().figure("level_zero_runs")
    }

    fn counters(&self) -> Option<Counters> {
        let stats = self.open.as_ref().map(|(db, _)| db.stats())?;
        Some(Counters::of(&stats))
    }
}
