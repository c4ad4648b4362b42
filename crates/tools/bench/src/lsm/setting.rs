//! The common setting of the experiments with stores: sizes, times, contenders.

use std::io;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use serde_json::json;

use super::LsmBenchOptions;
use super::stores::{LsmStore, VOLATILE_BUFFERS};
use crate::kv::records::{KeyForm, Records};
use crate::kv::{ChildCommand, Memory, Store};
use crate::tenant::{Lodging, Tenant, tenants};
use crate::{Params, Peers, Result, Run, RunOptions};

/// Bytes of a key and of a value (Yan §4.1).
pub(super) const KEY_LEN: usize = 8;
pub(super) const VALUE_LEN: usize = 500;

/// Bytes of persistent memory that the paper's store has.
const PAPER_PMEM: f64 = 200e9;

const MIB: u64 = 1 << 20;
const GIB: u64 = 1 << 30;

/// The contenders of the experiments with stores, and their settings.
pub struct Setting<'a> {
    pub(super) options: LsmBenchOptions,
    built: &'a dyn Peers,
    peers: Vec<String>,
    child: ChildCommand<'a>,
    pub(super) pmem: u64,
    pub(super) time: Duration,
    pub(super) stability: Duration,
    pub(super) recovery_bytes: u64,
}

impl<'a> Setting<'a> {
    /// With the peers of these names, of those that are built in. `child` makes the command of the process
    /// that is killed: [`super::load_and_wait`] for a store in a folder.
    ///
    /// # Errors
    /// [`crate::Error::Wrong`] of an option that makes no sense.
    pub fn new(
        options: LsmBenchOptions,
        run: &RunOptions,
        (built, peers): (&'a dyn Peers, Vec<String>),
        child: ChildCommand<'a>,
    ) -> Result<Self> {
        options.check()?;
        let sized =
            |asked: Option<u64>, full, quick| asked.unwrap_or(if run.quick { quick } else { full });
        let long = |asked: Option<Duration>, full, quick| {
            asked.unwrap_or(Duration::from_millis(if run.quick { quick } else { full }))
        };
        Ok(Self {
            pmem: sized(options.pmem, GIB, 64 * MIB),
            time: long(options.seconds, 10_000, 300),
            stability: long(options.stability, 600_000, 2_000),
            recovery_bytes: sized(options.recovery_bytes, 4 * GIB, 8 * MIB),
            options,
            built,
            peers,
            child,
        })
    }

    /// Where stores live.
    pub(super) fn lodging(&self, run: &RunOptions) -> Lodging {
        Lodging {
            disk: self.options.disk.clone(),
            pmem: run.folder.clone(),
            threads: self.options.threads,
            page_cache: self.options.page_cache,
            seed: run.seed,
        }
    }

    /// A store in a place of its own, for values of that length.
    pub(super) fn tenant<'r>(
        &self,
        store: Box<dyn Store>,
        value_len: usize,
        run: &RunOptions,
        interrupted: &'r AtomicBool,
    ) -> Result<Tenant<'r>> {
        Tenant::new(store, records(value_len, run.seed), &self.lodging(run), interrupted)
    }

    /// Stores, each in a place of its own.
    pub(super) fn tenants<'r>(
        &self,
        stores: Vec<Box<dyn Store>>,
        value_len: usize,
        run: &Run<'r>,
    ) -> Result<Vec<Tenant<'r>>> {
        let values = records(value_len, run.options.seed);
        tenants(stores, &values, &self.lodging(&run.options), run)
    }

    /// The stores of an experiment in which there are so many bytes of persistent memory: the engine with it
    /// and with a log, and the peers among `peers` that take part.
    pub(super) fn stores(
        &self,
        pmem: u64,
        peers: &[&str],
        run: &RunOptions,
    ) -> Vec<Box<dyn Store>> {
        let buffer = write_buffer(pmem);
        let mut stores: Vec<Box<dyn Store>> =
            vec![Box::new(xp(pmem, run)), Box::new(xs(pmem, run))];
        for name in peers {
            if let Some(mut store) = self.peer(name) {
                let cache = memory(pmem) - 2 * buffer;
                store.set_memory(Memory { write_buffer: buffer, cache });
                stores.push(store);
            }
        }
        stores
    }

    /// A peer that takes part.
    pub(super) fn peer(&self, name: &str) -> Option<Box<dyn Store>> {
        let takes_part = self.peers.iter().any(|peer| peer == name);
        takes_part.then(|| self.built.store(name)).flatten()
    }

    /// How many of `peers` take part.
    pub(super) fn peers_of(&self, peers: &[&str]) -> u64 {
        peers.iter().filter(|name| self.peer(name).is_some()).count() as u64
    }

    /// The process that loads a store and is killed.
    pub(super) fn child(&self, store: &str, folder: &Path) -> io::Result<Command> {
        (self.child)(store, folder)
    }

    /// The parameters of an experiment's rows, with `pmem` bytes of persistent memory.
    pub(super) fn params<const N: usize>(
        &self,
        pmem: u64,
        more: [(&str, serde_json::Value); N],
    ) -> Params {
        let scale = PAPER_PMEM / pmem as f64;
        let digits = if scale < 10.0 { 1 } else { 0 };
        let mut params = Params::new();
        params.insert("pmem".to_owned(), json!(pmem));
        params.insert("memory".to_owned(), json!(memory(pmem)));
        params.insert("scale".to_owned(), json!(format!("1/{scale:.digits$} of the paper's")));
        params.insert("page-cache".to_owned(), json!(self.options.page_cache));
        params.extend(more.into_iter().map(|(name, value)| (name.to_owned(), value)));
        params
    }
}

/// The engine with so many bytes of persistent memory.
pub(super) fn xp(pmem: u64, run: &RunOptions) -> LsmStore {
    LsmStore::xp(run, pmem, Memory { write_buffer: write_buffer(pmem), cache: pmem / 8 })
}

/// The engine with a log, and with as much memory.
pub(super) fn xs(pmem: u64, run: &RunOptions) -> LsmStore {
    let write_buffer = write_buffer(pmem);
    let cache = memory(pmem) - VOLATILE_BUFFERS * write_buffer;
    LsmStore::xs(run, Memory { write_buffer, cache })
}

/// The memory that every store may take, of one kind or the other.
fn memory(pmem: u64) -> u64 {
    pmem + pmem / 8
}

/// A memtable: the paper's has 256 MB where there are 200 GB of persistent memory in 16 trees.
fn write_buffer(pmem: u64) -> u64 {
    (pmem / 16).clamp(2 * MIB, 256 * MIB)
}

/// Records of 8-byte keys and values of that length that make so many bytes.
pub(super) fn records_of(bytes: f64, value_len: usize) -> u64 {
    (bytes / (KEY_LEN + value_len) as f64).max(1.0) as u64
}

/// The records of the stores.
pub(super) fn records(value_len: usize, seed: u64) -> Records {
    Records::new(KeyForm::Mixed { len: KEY_LEN }, value_len, seed)
}
