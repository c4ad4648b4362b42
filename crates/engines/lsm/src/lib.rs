//! The LSM engine: log-free commits into memtables that persist, a global index, sorted tables on an SSD.
//!
//! After Yan et al., "Revisiting the Design of LSM-tree Based OLTP Storage Engine with Persistent Memory". A write
//! walks [`Lsm`] (`engine`) → a batch is encoded (`encoded`) → the reorder ring gives it its turn (`ring`, `commit`)
//! → its fragments lie in zones of the pool (`fragment`, `zones`) → the index of a memtable points to the records
//! (`memtable`, `record`), and `group_commit` makes it visible, in order. Full memtables are merged into the global index
//! (`global_index`), and that into the levels on the SSD (`flush`, by the threads of `maintenance`), so that writers have
//! `room`. A read asks them in that order, the newest first (`read`, `scan`); records that it finds in the levels are
//! cached as rows (`rows`, `halite_cache`). Opening is `open`, with `recovery` of the memtables.
//! docs/LSM.md has the whole design.
#![forbid(unsafe_code)]

mod address;
mod batching;
mod commit;
mod concurrency_restriction;
mod cost;
mod discard;
mod emptying;
mod encoded;
mod engine;
mod error;
#[doc(hidden)]
pub mod experiments;
mod failure;
mod flush;
mod flushed;
mod fragment;
mod global_index;
mod group_commit;
mod large_values;
mod layer;
mod layout;
pub mod levels;
mod limits;
mod log_room;
mod long_scan;
mod long_scans;
mod maintenance;
mod memory;
mod memtable;
mod open;
mod options;
mod pace;
mod read;
mod record;
mod recovery;
mod refusals;
mod registration;
mod repair;
mod ring;
#[cfg(all(test, loom))]
mod ring_model;
mod room;
mod rows;
mod run;
mod sample;
mod scan;
mod signals;
mod snapshot;
mod snapshots;
mod spaces;
mod store;
mod sync;
mod tree;
mod turns;
mod unsynced;
mod validation;
mod value_file;
mod values;
mod verify;
mod version;
mod wait;
mod wal;
#[cfg(all(test, loom))]
mod weakness;
mod zones;

pub use engine::Lsm;
pub use error::Error;
pub use halite_codec::Compression;
pub use options::{Durable, LsmOptions};
pub use registration::REGISTRATION;

/// Trees, which are partitions, that a store may have.
pub const TREES_MAX: usize = 64;
