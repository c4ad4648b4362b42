//! The stores of rows under measurement.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use halite::{Database, Durability};
use halite_contract::{EngineOptions, Partitioning};
use halite_pmem::Profile;
use halite_table::{Kind, TableOptions, TableSchema, Testbed};
use halite_workload::store::{KvOptions, KvStore, Store, TestbedStore};

use crate::{Error, Peers, Result, Sample};

/// A store that takes part.
#[derive(Debug, Clone)]
pub(super) enum Subject {
    Method(Kind),
    /// The engine `lsm` through its face, with a key space for each table and index.
    Lsm,
    Peer(String),
}

/// How stores are opened.
#[derive(Clone)]
pub(super) struct Shape<'a> {
    pub(super) schemas: &'a [TableSchema],
    pub(super) partitions: usize,
    pub(super) durability: Durability,
    pub(super) profile: Option<Profile>,
    pub(super) own: TableOptions,
    pub(super) built: &'a dyn Peers,
}

/// An open store.
pub(super) struct Opened {
    pub(super) store: Box<dyn Store>,
    /// It itself, if it is a testbed.
    pub(super) testbed: Option<Arc<Testbed>>,
    /// Its database, if it is one of the house's.
    database: Option<Database>,
    runs: AtomicU64,
}

impl Subject {
    pub(super) fn name(&self) -> &str {
        match self {
            Self::Method(kind) => kind.name(),
            Self::Lsm => "lsm",
            Self::Peer(name) => name,
        }
    }

    /// Opens the store in a folder, or makes it there.
    pub(super) fn open(&self, folder: &Path, shape: &Shape<'_>) -> Result<Opened> {
        let name = self.name();
        let failed = |error: halite_workload::Error| Error::Store {
            store: name.to_owned(),
            action: "open",
            source: error.into(),
        };
        match self {
            Self::Method(kind) => {
                let testbed = testbed(*kind, folder, shape)?;
                let store = TestbedStore::create(testbed.clone(), shape.schemas, shape.durability);
                let store = Box::new(store.map_err(failed)?);
                Ok(Opened {
                    store,
                    testbed: Some(testbed),
                    database: None,
                    runs: AtomicU64::new(0),
                })
            }
            Self::Lsm => {
                let mut builder = Database::builder().engine("lsm");
                if let Some(profile) = &shape.profile {
                    builder = builder.profile(profile.clone());
                }
                let opened = builder.open(folder.join("db"));
                let database = opened.map_err(|error| Error::Store {
                    store: name.to_owned(),
                    action: "open",
                    source: error.into(),
                })?;
                let options = KvOptions { durability: shape.durability, ..KvOptions::default() };
                let store = KvStore::create(&database, shape.schemas, options).map_err(failed)?;
                Ok(Opened {
                    store: Box::new(store),
                    testbed: None,
                    database: Some(database),
                    runs: AtomicU64::new(0),
                })
            }
            Self::Peer(name) => {
                let found = shape.built.rows(name, shape.schemas, folder, shape.durability);
                let store = found.ok_or_else(|| Error::unknown("store of rows", name, []))??;
                Ok(Opened { store, testbed: None, database: None, runs: AtomicU64::new(0) })
            }
        }
    }
}

/// Opens a testbed in a folder, or makes it there.
pub(super) fn testbed(kind: Kind, folder: &Path, shape: &Shape<'_>) -> Result<Arc<Testbed>> {
    let mut options = EngineOptions::new(folder.join("pool"));
    options.pool_options.profile.clone_from(&shape.profile);
    options.partitioning = Some(Partitioning::Hash(shape.partitions));
    options.own = halite_contract::OwnOptions::of(shape.own.clone());
    let opened = Testbed::open(Some(kind), &options);
    opened.map(Arc::new).map_err(|error| of_table(kind.name(), "open", error))
}

/// The error of a testbed.
pub(super) fn of_table(store: &str, action: &'static str, error: halite_table::Error) -> Error {
    Error::Store { store: store.to_owned(), action, source: error.into() }
}

/// What a store has written so far.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Written {
    fences: u64,
    lines: u64,
    media_blocks: u64,
    file_bytes: u64,
    file_syncs: u64,
    file_bytes_read: u64,
}

impl Opened {
    /// A number that no run on the store had before: a row that is to be what it is already changes nothing, so each run
    /// writes other values.
    pub(super) fn next_run(&self) -> u64 {
        self.runs.fetch_add(1, Ordering::Relaxed)
    }

    /// `None` of a peer, whose writes nobody counts.
    pub(super) fn written(&self) -> Option<Written> {
        if let Some(testbed) = &self.testbed {
            let (pool, files) = (testbed.pool().traffic(), testbed.file_traffic());
            return Some(Written {
                fences: pool.fences,
                lines: pool.lines,
                media_blocks: pool.media_blocks,
                file_bytes: files.bytes_written,
                file_syncs: files.syncs,
                file_bytes_read: files.bytes_read,
            });
        }
        let traffic = self.database.as_ref()?.stats().traffic;
        let (fences, lines, media_blocks) = (traffic.fences, traffic.lines, traffic.media_blocks);
        Some(Written { fences, lines, media_blocks, ..Written::default() })
    }

    /// What was written since `before`, for each of so many transactions.
    pub(super) fn samples_since(&self, before: Option<Written>, transactions: u64) -> Vec<Sample> {
        let Some((before, after)) = before.zip(self.written()) else { return Vec::new() };
        let of = |name: &str, unit: &str, before: u64, after: u64| {
            Sample::new(name, unit, (after - before) as f64 / transactions.max(1) as f64)
        };
        let mut samples = vec![
            of("fences", "1/txn", before.fences, after.fences),
            of("lines", "1/txn", before.lines, after.lines),
            of("media-bytes", "B/txn", 256 * before.media_blocks, 256 * after.media_blocks),
        ];
        if self.testbed.is_some() {
            samples.push(of("file-bytes", "B/txn", before.file_bytes, after.file_bytes));
            samples.push(of("file-syncs", "1/txn", before.file_syncs, after.file_syncs));
            let (before, after) = (before.file_bytes_read, after.file_bytes_read);
            samples.push(of("file-bytes-read", "B/txn", before, after));
        }
        samples
    }
}
