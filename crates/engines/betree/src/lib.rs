//! The Bε-tree engine.
#![forbid(unsafe_code)]

mod administration;
mod allocation;
mod catalogue;
mod dataset;
mod devices;
mod engine;
mod error;
mod failure;
mod home;
mod large;
mod log;
mod memtable;
mod message;
pub mod object;
mod open;
mod options;
mod pass;
mod purpose;
mod read;
mod record;
mod registration;
mod repair;
mod run;
mod scan;
mod settings;
mod snapshot;
mod status;
mod storage;
mod store;
mod tree;
mod validation;
mod verify;

pub use dataset::api::SnapshotInfo;
pub use engine::Betree;
pub use error::{Error, Result};
pub use halite_vdev::{LeafPlace, LeafState, LeafStats, LeafStatus, Position, Topology};
pub use message::MessageAction;
pub use options::BetreeOptions;
pub use pass::{LOST_MAX, Lost, ScrubReport};
pub use registration::REGISTRATION;
pub use status::{ClassStatus, PoolLeaf, PoolStatus, VdevStatus};
pub use storage::Address;
