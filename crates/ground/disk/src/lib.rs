//! Files in one folder of a block device.
//!
//! A [`Disk`] is for files what a pool of `halite-pmem` is for memory: the one door through which they
//! change. So one place asks the kernel, counts the [`Traffic`], and lets a model see every write, sync
//! and rename. A file is written once, from its beginning or its end on, by its one [`Writer`], and read
//! at any place through a [`File`].
//!
//! **What is durable.** Bytes and length of a file, when [`Writer::sync`] has returned; a name, when
//! [`Disk::sync`] has. Neither makes the other so. A file that takes the place of another is written,
//! synced, renamed and its folder synced, in this order. After a sync that failed nothing is known about
//! what it was to make durable, and nothing is promised from there on: [`Error::Failed`].
//!
//! **The model.** A [`DiskModel`] has the files in memory of a modelled
//! [`Machine`](halite_sim::Machine), and records what happens to them in its trace, in one order
//! with what happens to the pool (`halite-lab` crashes stores with it).
//!
//! A request walks `Disk` (names), `Writer` or `File` (bytes; `handles`: which of many are open) → `folder` (the
//! kernel's calls), or `memory` (files in memory, and those of the `model`).
#![forbid(unsafe_code)]

mod disk;
mod error;
mod file;
mod folder;
mod handles;
mod memory;
mod model;
mod traffic;
mod writer;

pub use disk::Disk;
pub use error::{Error, Result};
pub use file::File;
pub use model::{DiskModel, FileEvent};
pub use traffic::Traffic;
pub use writer::Writer;
