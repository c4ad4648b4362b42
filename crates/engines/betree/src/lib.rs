//! The Bε-tree engine.
#![forbid(unsafe_code)]

mod actions;
mod administration;
mod allocation;
mod capabilities;
mod catalogue;
mod dataset;
mod devices;
mod engine;
mod error;
mod failure;
#[doc(hidden)]
pub mod fuzzed;
mod heat;
mod home;
mod large;
mod layers;
mod log;
mod memtable;
mod message;
mod messages;
mod migration;
pub mod object;
mod open;
mod options;
mod pass;
mod placement;
mod purpose;
mod read;
mod record;
mod registration;
mod repair;
mod run;
mod scan;
mod settings;
mod shares;
mod snapshot;
mod storage;
mod store;
mod transfer;
mod tree;
mod validation;
mod verify;

pub use actions::MessageActions;
pub use engine::Betree;
pub use error::{Error, Result};
pub use halite_contract::{
    BlockPlace, ClassStatus, LOST_MAX, Lost, MigrationReport, PoolLeaf, PoolStatus, Preference,
    RangeCopy, ScrubReport, SnapshotInfo, StreamInfo, TransferReport, VdevStatus,
};
pub use halite_vdev::{LeafPlace, LeafState, LeafStats, LeafStatus, Position, Topology};
pub use message::MessageAction;
pub use messages::{Change, MESSAGE_LEN_MAX, Upsert};
pub use migration::MigrationRound;
pub use options::{BetreeOptions, Buffers, Migration, Policy};
pub use placement::Placement;
pub use registration::REGISTRATION;
pub use storage::Address;
pub use transfer::{ReceiveOptions, ReceiveToken, StreamError};
