//! Append-only files: commands as clients sent them, in the order in which they were carried out.
//!
//! [`Files::find`] says which files a path stands for: one file, or the files that a manifest names, a base and
//! increments. A [`Replay`] goes through them in their order and yields one [`LogEvent`] after the other; with
//! [`LogReader`] it reads each file, which is commands, or an RDB file and commands behind it.
//!
//! A crash may leave the last command of the last file unfinished. That is an error with the length up to which the file
//! is whole ([`crate::Why::Truncated`]), so that a program can go on without it, as Redis does.

mod command;
mod files;
mod log_reader;
mod manifest;
mod replay;

pub use files::{Files, FilesError};
pub use log_reader::{LogEvent, LogReader};
pub use manifest::{FileKind, ListedFile, Manifest, ManifestError};
pub use replay::{Replay, ReplayError};
