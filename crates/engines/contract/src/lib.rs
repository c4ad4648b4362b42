//! The contract of a Halite engine.
//!
//! An engine keeps ordered byte-string keys in named key spaces. [`Engine`] has the guarantees of each:
//! point reads, atomic batches, range scans of one consistent state, durability on request, statistics and
//! verification. The layer above (`halite`) turns its calls into [`Op`]s and hands them to
//! [`Engine::write`]; the engine persists them through `halite-pmem`'s pool and makes them visible
//! together.
//!
//! [`Engine::capabilities`] names what an engine offers beyond that: partitions, snapshots, transactions, a change
//! feed and others, a trait each. A caller with a `dyn Engine` calls their methods on the engine itself, which
//! answers for an absent capability as an engine of one partition without any would.
//!
//! [`Model`] is the contract in its shortest form: an ordered map in memory. With the feature
//! `conformance`, the `conformance` module turns it into a suite that any engine runs against
//! itself by one line.
#![forbid(unsafe_code)]

mod bytes;
mod capabilities;
mod change;
#[cfg(feature = "conformance")]
pub mod conformance;
mod engine;
mod error;
mod expectation;
mod feature;
mod figure;
mod health;
mod holder;
pub mod lab;
mod limits;
mod made_by;
mod model;
mod object;
mod op;
mod options;
mod own_error;
mod own_options;
mod panics;
mod pool;
mod range;
mod registration;
mod sample;
mod snapshot;
mod stats;
mod tree_part;
mod verify;

pub use bytes::Bytes;
pub use capabilities::{
    Capabilities, ChangeFeed, Datasets, IndexSnapshots, MigrationReport, ObjectStores, OnDemand,
    Partitioned, Pooled, RangeCopy, SnapshotInfo, Snapshots, SpaceManagement, StreamInfo, Tiered,
    Transactional, TransferReport, Transfers, Trees,
};
pub use change::{Change, ChangeOp, Changes, Positions};
pub use engine::{Engine, Scan};
pub use error::{Error, Result, shown_key};
pub use expectation::Expectation;
pub use feature::Feature;
pub use figure::Figure;
pub use health::Health;
pub use holder::{Holder, Reader};
pub use limits::{
    KEY_LEN_MAX, KEY_SPACE_NAME_LEN_MAX, VALUE_LEN_MAX, check_key, check_key_space_name,
    check_value,
};
pub use made_by::{ENGINE_ROOT, made_by, other_engine};
pub use model::Model;
pub use object::{AccessPattern, Object, ObjectInfo, ObjectIter, ObjectStore, Preference};
pub use op::{Durability, KeySpaceId, Op, WriteBatch};
pub use options::{EngineOptions, Partitioning, ROUTED};
pub use own_error::{ErrorClass, OwnError};
pub use own_options::OwnOptions;
pub use panics::panic_message;
pub use pool::{
    BlockPlace, ClassStatus, LOST_MAX, Lost, PoolLeaf, PoolStatus, ScrubReport, VdevStatus,
};
pub use range::{Direction, KeyRange};
pub use registration::{Beside, Devices, Registration};
pub use sample::{Seek, sample_by_descent};
pub use snapshot::Snapshot;
pub use stats::{Recovery, Stats};
pub use tree_part::{StoredPart, TreePart};
pub use verify::{Damage, Progress, RepairReport, VerifyReport};
