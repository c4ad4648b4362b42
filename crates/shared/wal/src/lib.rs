//! A write-ahead log in files: batches are appended in order, and made durable by one sync for all that wait.
//!
//! A log is a sequence of files `LOG-<number>`, each of batches. What a batch has in it is its writer's: bytes that the
//! log protects by a checksum and does not look into.
//!
//! ```text
//!  0  check     u64  xxh3 of all that follows, seeded with the store and the file's number
//!  8  sequence  u64  of the first record
//! 16  records   u32
//! 20  len       u32  bytes that follow
//! 24  payload
//! ```
//!
//! **Writing**: a thread appends a batch in its turn, to memory ([`Wal::append`]). A thread that needs a batch durable
//! ([`Wal::sync_to`]) becomes the leader: it writes and syncs everything that there is by then. Others that come
//! meanwhile wait, and find their batches synced, or one of them leads the next lot: group commit. Before that, space is
//! set aside in the file ([`Wal::reserve`]), so that no batch that has its place fails for lack of it.
//!
//! A new file is begun ([`Wal::roll`]) when everything before is synced, and files are removed ([`Wal::release`]) when no
//! record in them is needed any more, the oldest first.
//!
//! **After a crash** [`Found::read`] replays the batches in order, up to the first that is not whole. At the end of the
//! last file such a batch is the torn end of a crash, and [`Wal::open`] cuts it. Elsewhere, or before the end that the
//! store is known to have had ([`Known`]), it is damage: an error, until [`Found::repair`] sets the rest aside.
//!
//! | operation | writes | syncs |
//! |---|---|---|
//! | append | none: a copy into memory | none |
//! | commit of any number of threads | one | one, and one more for batches that came meanwhile |
//! | roll | none | one of the folder |
//! | release, a file | none | one of the folder |
#![forbid(unsafe_code)]

mod batch;
mod error;
mod files;
mod found;
mod wal;

pub use batch::{HEADER, Logged};
pub use error::{Error, Result};
pub use files::remove;
pub use found::{Found, Identity, Known, Stopped};
pub use wal::Wal;
