//! Files in one folder of a block device.
//!
//! A [`Disk`] is to files as a pool of `halite-pmem` is to memory: the only interface through which
//! they change. So one place calls the kernel, counts the [`Traffic`], and lets a model see every write,
//! sync and rename. A file is either written once, from its beginning or its end on, by its one [`Writer`], and
//! read at any place through a [`File`]; or it is a [`PositionedFile`], which threads write and read at any place,
//! through the page cache or past it, in space that was set aside and written before.
//!
//! **Durability.** The bytes and the length of a file are durable when [`Writer::sync`] or
//! [`PositionedFile::sync`] has returned; a name, when [`Disk::sync`] has. Neither sync implies the other. A file that replaces another is written,
//! synced, renamed and its folder synced, in this order. After a failed sync the state of the bytes or
//! names that it covered is unknown, and all later changes are refused: [`Error::Failed`].
//!
//! **The model.** A [`DiskModel`] keeps its files in the memory of a modelled
//! [`Machine`](halite_sim::Machine), and records every event of them in its trace, in one order with the
//! events of the pool (`halite-lab` crashes stores with it).
//!
//! A request walks `Disk` (names), `Writer`, `File` (`handles`: which of many are open) or `PositionedFile`
//! (`aligned`: buffers for direct access) for bytes → `folder` (the kernel's calls), or `memory` (files in memory, and those of the `model`).
#![forbid(unsafe_code)]

mod aligned;
mod disk;
mod error;
mod file;
mod folder;
mod handles;
mod memory;
mod model;
mod positioned;
mod traffic;
mod writer;

pub use aligned::{AlignedBuffer, Alignment};
pub use disk::Disk;
pub use error::{Error, Result};
pub use file::File;
pub use model::{DiskModel, FileEvent};
pub use positioned::{Access, PositionedFile};
pub use traffic::Traffic;
pub use writer::Writer;
