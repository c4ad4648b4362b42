//! The state of the levels in memory, and their begin and end.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;

use parking_lot::{Condvar, Mutex, RwLock};

use super::ballast::Ballast;
use super::edit::{Place, State};
use super::error::{Error, Result};
use super::manifest::Manifest;
use super::names;
use super::options::LevelsOptions;
use super::pick::Compaction;
use super::version::{Files, TableFile, TreeVersion};
use halite_contract::Health;

/// Returns the sequence numbers of all snapshots, ascending. A snapshot that is taken after the call must not be
/// below any sequence number that the levels have.
pub type Snapshots = Arc<dyn Fn() -> Vec<u64> + Send + Sync>;

/// The word that counts the runs that came from memory.
pub(crate) const FLUSHES: &str = "flushes";

/// Changes that become durable together with new tables.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Change {
    /// The records of the tree's memtables up to this one are in the levels.
    pub memtables: Option<u64>,
    /// Numbers that the engine wants to keep, by name.
    pub words: Vec<(String, u64)>,
}

/// The levels of a store's trees.
///
/// Dropping them stops a running compaction; [`Levels::close`] also returns the error of one that failed.
pub struct Levels {
    pub(super) inner: Arc<Inner>,
    compactor: Mutex<Option<JoinHandle<()>>>,
}

pub(super) struct Inner {
    pub(super) files: Arc<Files>,
    pub(super) options: LevelsOptions,
    pub(super) snapshots: Snapshots,
    pub(super) health: Arc<Health>,
    /// The next number that no file has.
    pub(super) numbers: AtomicU64,
    pub(super) stop: AtomicBool,
    pub(super) trees: RwLock<BTreeMap<u32, Arc<TreeVersion>>>,
    pub(super) locked: Mutex<Locked>,
    /// Notified when tables are no longer busy, or when there is something to do.
    pub(super) changed: Condvar,
    /// The bits of an `f64`.
    pub(super) pressure: AtomicU64,
    pub(super) counters: Counters,
    pub(super) ballast: Ballast,
}

#[derive(Default)]
pub(super) struct Counters {
    pub(super) edits: AtomicU64,
    pub(super) bytes_added: AtomicU64,
    pub(super) bytes_written: AtomicU64,
    pub(super) bytes_compacted: AtomicU64,
    pub(super) compactions: AtomicU64,
    pub(super) moves: AtomicU64,
    pub(super) gets: AtomicU64,
    pub(super) tables_asked: AtomicU64,
}

/// The state that one thread at a time changes.
pub(super) struct Locked {
    pub(super) manifest: Manifest,
    pub(super) state: State,
    /// Tables that are being compacted, and those that cannot be.
    pub(super) busy: HashSet<u64>,
    /// Trees whose base is being merged into.
    pub(super) into_base: HashSet<u32>,
    /// Trees into the base of which a thread waits to merge.
    pub(super) base_wanted: HashSet<u32>,
    /// Tables of edits of which it is not known whether the manifest has them.
    pub(super) uncertain: Vec<u64>,
    /// The error for which the thread that compacts has stopped.
    pub(super) failure: Option<Error>,
}

impl Levels {
    /// The levels that `open` has read.
    pub(super) fn new(
        files: Arc<Files>,
        options: LevelsOptions,
        snapshots: Snapshots,
        manifest: Manifest,
        state: State,
        ballast: Ballast,
    ) -> Result<Self> {
        let mut tables: BTreeMap<u32, Vec<(Place, Arc<TableFile>)>> = BTreeMap::new();
        for (place, meta) in state.tables.values() {
            let table = TableFile::new(meta.clone(), &files);
            tables.entry(place.tree).or_default().push((*place, table));
        }
        let version = |tables: &Vec<_>| Arc::new(TreeVersion::default().changed(&[], tables));
        let trees: BTreeMap<_, _> =
            tables.iter().map(|(tree, tables)| (*tree, version(tables))).collect();
        if let Some((a, b)) = trees.values().find_map(|version| version.overlap()) {
            let why = format!("tables {a} and {b} of one level overlap");
            return Err(Error::damaged(&names::manifest(manifest.number()), "edits", why));
        }
        let inner = Arc::new(Inner {
            files,
            snapshots,
            health: Arc::default(),
            numbers: AtomicU64::new(state.next_number),
            stop: AtomicBool::new(false),
            trees: RwLock::new(trees),
            locked: Mutex::new(Locked {
                manifest,
                state,
                busy: HashSet::new(),
                into_base: HashSet::new(),
                base_wanted: HashSet::new(),
                uncertain: Vec::new(),
                failure: None,
            }),
            changed: Condvar::new(),
            pressure: AtomicU64::new(0),
            counters: Counters::default(),
            ballast,
            options,
        });
        inner.measure_pressure();
        let mut compactor = None;
        if inner.options.background {
            let inner = Arc::clone(&inner);
            let thread = std::thread::Builder::new().name("halite-levels".to_owned());
            let started = thread.spawn(move || inner.compact_guarded());
            compactor = Some(started.map_err(|source| {
                let (path, action) = ("levels".into(), "start a thread for the");
                halite_disk::Error::Io { path, action, source }
            })?);
        }
        Ok(Self { inner, compactor: Mutex::new(compactor) })
    }

    /// Has the thread that compacts go on after a failure.
    pub fn retry(&self) {
        let mut locked = self.inner.locked.lock();
        locked.failure = None;
        self.inner.changed.notify_all();
    }

    /// The error for which the thread that compacts has stopped; [`Levels::retry`] has it go on.
    #[must_use]
    pub fn failure(&self) -> Option<Error> {
        self.inner.locked.lock().failure.clone()
    }

    /// Stops compacting and notes that the manifest is whole, so that later damage to it is noticed. The levels can
    /// be read from then on.
    ///
    /// # Errors
    /// An error of the disk.
    pub fn close(&self) -> Result<()> {
        self.stop();
        let closed = self.inner.locked.lock().manifest.close();
        self.inner.bury();
        closed
    }

    /// The health of the store, which says whether the levels may be written to.
    pub(crate) fn health(&self) -> &Arc<Health> {
        &self.inner.health
    }

    fn stop(&self) {
        {
            let _locked = self.inner.locked.lock();
            self.inner.stop.store(true, Ordering::Relaxed);
            self.inner.changed.notify_all();
        }
        let compactor = self.compactor.lock().take();
        if let Some(compactor) = compactor {
            // A panic of it is in `health`.
            let _ = compactor.join();
        }
    }
}

impl Drop for Levels {
    fn drop(&mut self) {
        self.stop();
    }
}

impl Locked {
    pub(super) fn take(&mut self, compaction: &Compaction) {
        self.busy.extend(compaction.tables().map(|(_, table)| table.meta.number));
    }

    /// Returns the busy tables that stay busy, as they could not be read.
    pub(super) fn unreadable(&self, version: &TreeVersion) -> HashSet<u64> {
        let tables = version.runs().flat_map(|(_, run)| &run.tables);
        let numbers = tables.filter(|table| table.is_unreadable()).map(|table| table.meta.number);
        numbers.filter(|number| self.busy.contains(number)).collect()
    }
}

impl Inner {
    pub(super) fn version(&self, tree: u32) -> Option<Arc<TreeVersion>> {
        self.trees.read().get(&tree).cloned()
    }

    /// Refuses a change of the levels after a failure that ended all changes.
    pub(super) fn check_healthy(&self) -> Result<()> {
        match self.health.failure() {
            Some(why) => Err(Error::Stopped { why: why.to_owned() }),
            None => Ok(()),
        }
    }

    /// Runs work that other threads wait for: a panic in it wakes them with an error. Without a background thread,
    /// the panic is the caller's.
    pub(super) fn guard<T>(&self, what: &str, run: impl FnOnce() -> Result<T>) -> Result<T> {
        if !self.options.background {
            return run();
        }
        self.health.guard(what, run).unwrap_or_else(|| {
            // Under the lock, so that no thread begins to wait in between.
            drop(self.locked.lock());
            self.changed.notify_all();
            Err(self.check_healthy().expect_err("a panic is a failure"))
        })
    }

    pub(super) fn versions(&self) -> Vec<(u32, Arc<TreeVersion>)> {
        self.trees.read().iter().map(|(tree, version)| (*tree, Arc::clone(version))).collect()
    }
}
