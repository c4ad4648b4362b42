//! Redis' files: RDB files, the payloads of DUMP and RESTORE, and append-only files.
//!
//! A value is a [`Value`], whatever form it had. A file is read by a [`Reader`], which yields one [`Event`] after the
//! other: `source` takes lengths, strings and numbers from the input and keeps offset and checksum, `decode` makes a
//! value of them, by the type's code, and `packed` takes apart the arrays into which Redis packs small collections. A
//! [`Writer`] goes the same way back: `encode` chooses the form that Redis would, by its default thresholds, and writes
//! it through `sink`. [`dump`] and [`restore`] do the same with one value, between a code and a checksum.
//! [`aof`] reads append-only files: the commands in them, and the RDB files that they begin with.
//!
//! | read | written |
//! |---|---|
//! | RDB of the versions 1 to 12 | 10 (Redis 7.0), 11 (Redis 7.2), and 12 (Redis 7.4) for hashes whose fields expire |
//! | payloads of the versions 1 to 12 | the oldest from 9 (Redis 5) on that has the value's form |
//! | all types of Redis 7.4, in all their forms | the forms of the version that is written |
//! | values of modules, as their names | – |
//!
//! Input is not trusted. A length is checked against [`Limits`] before it is followed, memory is taken as bytes arrive
//! and not by what a length promises, all that one value takes is counted, and every defect is an [`Error`] which says
//! where it is, in what, and why the bytes are refused.
#![forbid(unsafe_code)]

pub mod aof;
mod codes;
mod crc64;
mod decimal;
mod decode;
mod dump;
mod encode;
mod error;
mod limits;
mod lzf;
mod packed;
mod reader;
mod sink;
mod source;
mod stream;
mod value;
mod version;
mod writer;

pub use crc64::crc64;
pub use dump::{RestoreError, dump, dump_functions, dump_string, restore, restore_functions};
pub use encode::Unwritable;
pub use error::{Error, Result, Why};
pub use limits::Limits;
pub use reader::{Event, Key, Reader};
pub use stream::{Consumer, Entry, Group, Id, Pending, Stream};
pub use value::{HashField, Value};
pub use version::Version;
pub use writer::Writer;
