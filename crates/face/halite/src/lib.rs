//! Halite: an ordered key-value database for memory that persists.
//!
//! A [`Database`] is a folder with one pool in it, on persistent memory (DAX), on tmpfs or on an
//! ordinary file. It holds named [`KeySpace`]s of ordered byte-string keys. Every write is atomic
//! and, unless it asks otherwise, durable when it returns; [`Database::domain`] tells the meaning of durable
//! on the medium at hand.
//!
//! ```
//! # let folder = tempfile::tempdir()?;
//! # let path = folder.path().join("data");
//! use halite::Database;
//!
//! let db = Database::open(&path)?;
//! let fruit = db.key_space("fruit")?;
//! fruit.put("apple", "green")?;
//! fruit.put("banana", "yellow")?;
//! assert_eq!(fruit.get("apple")?.as_deref(), Some(&b"green"[..]));
//!
//! // All of a batch happens, or none of it.
//! let mut batch = db.batch();
//! batch.put(&fruit, "cherry", "red");
//! batch.delete(&fruit, "banana");
//! batch.commit()?;
//!
//! // A transaction commits only if its reads still hold; if not, it runs again.
//! db.transaction(|tx| {
//!     let colour = tx.get(&fruit, "apple")?.map(|value| value.to_vec());
//!     tx.put(&fruit, "apple", colour.unwrap_or_default())
//! })?;
//!
//! // A scan sees the state at its start, however long it takes.
//! let keys: Vec<_> = fruit.iter()?.map(|pair| pair.map(|(key, _)| key.to_vec())).collect();
//! assert_eq!(keys.into_iter().collect::<Result<Vec<_>, _>>()?, [b"apple".to_vec(), b"cherry".to_vec()]);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! A request goes from here through the engine's contract (`halite-contract`) to an engine (`halite-indexlog`,
//! `halite-lsm`, `halite-betree`, or a recovery method of `halite-table`), which reaches the medium through the pool of
//! `halite-pmem`; the levels of `halite-lsm` are files of `halite-disk`.
#![forbid(unsafe_code)]

mod backup;
mod batch;
mod builder;
mod changes;
mod database;
mod datasets;
mod engines;
mod error;
mod folder;
mod key_space;
mod objects;
mod pool;
mod repair;
mod snapshot;
mod tiers;
mod transaction;
mod transfers;

pub use backup::{BackupError, BackupId, BackupInfo, BackupReader, BackupReport, RestoreReport};
pub use batch::Batch;
pub use builder::Builder;
pub use changes::Changes;
pub use database::{Database, make_folder};
use engines::open_any;
pub use engines::{
    ENGINES, TESTBED, engine_with, engines, find_engine, open_engine, register_engine,
};
pub use error::{Error, Result};
pub use halite_betree::{BetreeOptions, Error as BetreeError};
pub use halite_contract::{
    AccessPattern, BlockPlace, Bytes, Change, ChangeOp, ClassStatus, Damage, Durability, Engine,
    Error as EngineError, Feature, Figure, Holder, KEY_LEN_MAX, KeyRange, KeySpaceId, Lost,
    MigrationReport, ObjectInfo, Partitioning, PoolLeaf, PoolStatus, Preference, Progress, ROUTED,
    Reader, Recovery, Registration, RepairReport, ScrubReport, SnapshotInfo, Stats, StoredPart,
    StreamInfo, TransferReport, TreePart, VALUE_LEN_MAX, VdevStatus, VerifyReport,
};
pub use halite_indexlog::{Error as IndexLogError, IndexKind, PARTITIONS_MAX};
pub use halite_lsm::{Compression, Durable, Error as LsmError, LsmOptions};
pub use halite_pmem::{Domain, Traffic};
pub use halite_vdev::{
    Arrangement, LeafPlace, LeafState, LeafStats, LeafStatus, Position, Topology, TopologyError,
};
pub use key_space::{Iter, KeySpace};
pub use objects::{Object, ObjectCursor, ObjectStore, Objects};
pub use snapshot::{Snapshot, SnapshotSpace};
pub use transaction::{
    Isolation, Locking, Savepoint, Transaction, TransactionIter, TransactionOptions,
};
