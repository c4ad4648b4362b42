//! Measurements of Halite: of the medium, of the building blocks, and of whole stores.
//!
//! [`command`] is the command line, which the `halite` command and the program with the peer stores share. It makes a
//! [`Run`] and passes it to experiments: those of [`device`] and [`blocks`], the workloads of [`kv`], those of [`lsm`],
//! [`betree`] and [`arulraj`], or those of [`rstore`], which drive servers over sockets; [`soak`] lets one server run long and ends it again and
//! again. An experiment is a number of comparisons ([`Run::compare`]): in each repeat its [`Contender`]s take turns, so
//! that disturbances of the machine affect all alike. The results are [`Row`]s, which go into a [`table()`] and into
//! JSON.
#![forbid(unsafe_code)]

pub mod arulraj;
pub mod betree;
pub mod blocks;
mod child;
pub mod command;
pub mod device;
mod error;
mod experiment;
pub mod html;
pub mod kv;
pub mod lsm;
mod machine;
mod mix;
mod peers;
mod row;
pub mod rstore;
mod run;
mod scratch;
pub mod soak;
mod summary;
mod table;
mod tenant;
mod topics;

pub use error::{Error, Result};
pub use experiment::{BLOCKS, DEVICE, Experiment};
pub use lsm::LSM;
pub use peers::Peers;
pub use row::{Params, Repeats, Row, Sample};
pub use rstore::RSTORE;
pub use run::{Contender, LIMIT, Run, RunOptions, Watch};
pub use scratch::{Scratch, remove_scratch};
pub use summary::Summary;
pub use table::table;
