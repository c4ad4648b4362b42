//! A write-ahead log in files: batches are appended in order, and made durable by one sync for all that wait.
//!
//! A log is a sequence of files `LOG-<number>`, each of batches. What a batch has in it is its writer's: bytes that
//! the log protects by a checksum and does not look into.
//!
//! ```text
//!  0  check     u64  xxh3 of all that follows, seeded with the store and the file's number
//!  8  sequence  u64  of the first record
//! 16  records   u32
//! 20  len       u32  bytes that follow
//! 24  payload
//! ```
//!
//! A batch of no record is the end of its file: the log goes on in the next one. Behind the batches of a file there
//! are zeros, or what the file had when it served before, under another number: none of that has the checks of this
//! one.
//!
//! **Writing**: a thread appends a batch in its turn, to memory ([`Wal::append`]). A thread that needs a batch
//! durable ([`Wal::sync_to`]) becomes the leader: it writes everything that there is by then, past the page cache
//! where the file system has such access, and syncs the file. Others that come meanwhile form the next group
//! ([`halite_sync`]).
//!
//! **Space**: a sync after a write over blocks that were written before is a flush of the device's cache; after any
//! other write it is a commit of the file system's journal too, which takes several times as long. So the log goes on
//! in files that are there already: new ones, over which zeros are written away from the commits ([`Wal::prepare`]),
//! and those that are not needed any more, which take the next number for their name and serve again
//! ([`Wal::release`]). A batch has its place before it is appended ([`Wal::lacks`], [`Wal::grow`], [`Wal::place`]),
//! so that none fails for lack of space; the files that the log goes on in are the space that bookkeeping and
//! removals have on a full disk.
//!
//! **After a crash** [`Found::read`] replays the batches in order, up to the first that is not whole. In the file that
//! the log was written to last, such a batch is the torn end of a crash, and [`Wal::open`] cuts it and all behind it.
//! Elsewhere, or before the end that the store is known to have had ([`Known`]), it is damage: an error, until
//! [`Found::repair`] sets the rest aside. A file is written to when the one before it was ended and synced: so where a
//! file was not ended, a batch in a later one shows damage, too.
//!
//! | operation | writes | syncs |
//! |---|---|---|
//! | append | none: a copy into memory | none |
//! | commit of any number of threads | 1 of whole sectors | 1 over written blocks, and one more for batches that came meanwhile |
//! | to go on in the next file | 1, the end of this one | 1, without a commit of the journal |
//! | growth of the first file, from 256 KiB on | zeros, as many bytes again | those of its next commit, with the journal |
//! | prepare, a file | zeros, away from the commits | 1 of the file, 1 of the folder |
//! | release, a file | none | one of the folder |
//!
//! Where the store has a pool of persistent memory, the log lies there instead, and a batch is durable by one fence: see
//! [`pool_log`].
#![forbid(unsafe_code)]

mod batch;
mod error;
mod files;
mod found;
pub mod pool_log;
mod ready;
mod room;
mod segment;
mod wal;

pub use batch::{HEADER, Logged};
pub use error::{Error, Result};
pub use files::remove;
pub use found::{Found, Identity, Known, Stopped};
pub use wal::{Shape, Wal};
