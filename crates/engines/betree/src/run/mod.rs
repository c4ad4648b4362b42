//! Runs: immutable sorted sequences of messages, at most one a key, above deleted ranges that are older than all of
//! them.
//!
//! ```text
//! extent 0                   extent 1                            ...  last extent
//! ┌──────┬──────┬─── ─┬───┐  ┌──────┬──────┬─── ─┬────────────┐       ┌──────┬───────────┬───┐
//! │ part │ part │ ... │ 0 │  │ part │ part │ ... │     0      │       │ part │ directory │ 0 │
//! └──────┴──────┴─── ─┴───┘  └──────┴──────┴─── ─┴────────────┘       └──────┴───────────┴───┘
//! ```
//!
//! A part (`part`) is what is read at once: some 4 KiB of messages, compressed unless that saves less than an eighth.
//! No part straddles two extents. The directory (`directory`) has the place and the checksum of each part, the deleted
//! ranges, and a filter of the keys. It lies behind the last part if it fits into that extent, else in as many extents
//! of its own as it needs. The parent of the run keeps the pointer to it (`pointer`), with the directory's checksums:
//! so every byte is checked by what refers to it.
//!
//! Or the extents are written in steps (`extent_writer`): a run then begins behind another one, and has a part of an extent.
//! The readers of a run see no difference.
//!
//! Writing: `writer` collects messages in parts and parts in extents, and writes each extent once, whole. Reading:
//! `reader` finds a key, `cursor` walks in both directions and reads ahead (`read_ahead`), and `merge_cursor` merges
//! runs and other sources (`source`), newer ones above older ones.
//!
//! | operation | I/Os | bytes | hash computations | copies of a payload |
//! |---|---|---|---|---|
//! | open | none | none | none | none |
//! | first use, and after an eviction of the directory | 1, and 1 for each further MiB of directory | the directory: 1 to 2 % of the run | 1 of these bytes | none |
//! | find, the filter excludes the key (255 of 256) | none | none | 1 of the key, for all runs | none |
//! | find, part in the cache | none | none | 1 of the key | none |
//! | find, part in place | none | those that the search touches | 1 of the key; 1 of the part, once | none |
//! | find otherwise | 1 | the stored part | 1 of the key, 1 of these bytes | none, beside decompressing |
//! | cursor, sequential | 1 for each 32 KiB, growing to 256 KiB | the stored parts | 1 of these bytes | 1, into the part |
//! | merge, each message | those of the cursors | none | none | none, unless two messages become a third |
//! | write, each message | 1 for each MiB | the stored parts, the directory | 1 of the key, 1 of the stored bytes | 2 |
//!
//! A part is in place if it lies in persistent memory and is not compressed. A run whose filter is left out reads a
//! part for each key between its first and its last one.

mod cursor;
mod deleted_ranges;
mod directories;
mod directory;
mod extent_writer;
mod merge_cursor;
mod part;
mod pointer;
mod read_ahead;
mod reader;
mod source;
mod store;
#[cfg(test)]
mod test_storage;
#[cfg(test)]
mod tests;
mod whole;
mod writer;
mod writer_options;

pub(crate) use cursor::RunCursor;
pub(crate) use deleted_ranges::{DeletedRange, DeletedRanges};
pub(crate) use directories::Directories;
#[cfg(test)]
use halite_sst::hash_key;
pub(crate) use merge_cursor::MergeCursor;
pub(crate) use pointer::RunPointer;
pub(crate) use read_ahead::Reads;
pub(crate) use reader::{Found, Run};
pub(crate) use source::Source;
pub(crate) use store::RunStore;
pub(crate) use whole::is_zero;
pub(crate) use writer::{ENTRY_BYTES_MAX, RunWriter, Scratch};
pub(crate) use writer_options::{RunOptions, RunPlace};
