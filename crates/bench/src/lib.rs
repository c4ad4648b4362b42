//! Workloads that measure key-value stores.
//!
//! [`kv`] is the first: one thread puts, gets, scans and reopens. It drives anything that is a
//! [`Store`]; [`HaliteStore`] is Halite, other adapters live beside the program that compares.
//! Stores take turns phase by phase, so that noise of the machine hits all of them alike, and what
//! they return is checked against what was put, so that a store cannot be fast by being wrong. The
//! outcome is a [`Report`]: a table by [`Display`](std::fmt::Display), or JSON.
#![forbid(unsafe_code)]

pub mod blocks;
pub mod command;
pub mod device;
mod error;
mod experiment;
mod halite_store;
pub mod html;
mod killed;
mod kv;
mod machine;
mod options;
mod peers;
mod records;
mod report;
mod row;
mod run;
mod scratch;
mod store;
mod summary;
mod table;

pub use error::{Error, Result};
pub use experiment::{BLOCKS, DEVICE, Experiment};
pub use halite_store::HaliteStore;
pub use killed::{ChildCommand, load_and_wait};
pub use kv::{Hooks, kv};
pub use options::KvOptions;
pub use peers::Peers;
pub use report::{Phase, PhaseRow, PutTraffic, Ratio, Report};
pub use row::{Params, Repeats, Row, Sample};
pub use run::{Contender, LIMIT, Run, RunOptions, Watch};
pub use scratch::Scratch;
pub use store::{Counters, Store, StoreError, StoreResult};
pub use summary::Summary;
pub use table::table;
