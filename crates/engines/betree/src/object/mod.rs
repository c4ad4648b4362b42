//! Objects: byte strings of any length with names, in datasets of the Bε-tree (Haura, §2.3 "ObjectStore").
//!
//! An object store, opened with [`Betree::objects`](crate::Betree::objects), is two datasets: `chunks` has the bytes of all
//! objects in chunks of [`CHUNK_LEN`], and `meta` has names, sizes, times and custom metadata. An indirection from the
//! name to a fixed id keeps chunk keys short, and a rename moves nothing:
//!
//! ```text
//!                 meta                                      chunks
//!  "photo" ──▶ 0, name ──▶ id 7                          7, chunk 0 ──▶ 128 KiB
//!              1, 7, 0 ──▶ size, mtime, preference ...   7, chunk 1 ──▶ 128 KiB
//!              1, 7, 1, key ──▶ custom metadata          7, chunk 3 ──▶ 4 KiB: the end; chunk 2 is a hole
//! ```
//!
//! The formats of keys are in `keys.rs`, that of the fixed metadata in `metadata.rs`. In the catalogue, the datasets are
//! `\0objects/NAME/chunks` and `\0objects/NAME/meta`; key spaces cannot have names that begin so, and users of key spaces
//! do not see these.
//!
//! **Writes are blind.** A write reads no page: a part of a chunk is an upsert that overwrites a range of what the chunk may
//! have, and a whole chunk, or the beginning of one up to the end of the object, is an insert. An insert of at least
//! `large_value_bytes` (64 KiB) goes to an extent of its own, where it stays until the chunk changes: only a
//! reference to it moves through the log and the tree. Each write replaces the object's fixed metadata, which it makes
//! in its turn of the commits from what the one before has left, in memory (`shared.rs`). So there is one rule for size
//! and time, and writers of one object share syncs of the log. The alternative, metadata messages that merge by
//! maximum, needs an action of the dataset in every read, scan, flush and leaf merge for the same result.
//!
//! | operation | changes of its commit | reads | writes and syncs, at the call |
//! |---|---|---|---|
//! | `create` | 3 | name | log |
//! | `open` of an object that is not open | none | name, metadata | none |
//! | `write_at` in a chunk | upsert or insert, metadata | none | log |
//! | `write_at` of `n` chunks | `n`, metadata | none | `n` extents, one sync of the data; log |
//! | `read_at` in a chunk | none | metadata, chunk | none |
//! | `read_at` of `n` chunks | none | metadata, a scan of those of `n` that there are | none |
//! | `truncate`, longer | metadata | none | log |
//! | `truncate`, shorter | a range, an upsert of at most a chunk of zeros, metadata | none | log |
//! | `delete` | 1, 2 ranges: however long the object is | name | log |
//! | `rename` | 2; with 2 ranges, if it replaces | names | log |
//! | `iter` | none | names; of each object, the metadata | none |
//!
//! The log is synced by operations of immediate durability only, and threads share the sync. A read of a part of a chunk
//! in an extent of its own reads the whole extent, as that has one checksum. Every operation is atomic, also in a crash;
//! of writes, those of up to [`ATOMIC_LEN_MAX`] bytes. Reads see one state, between two commits.
//!
//! An object of `size` bytes has no byte other than zero behind `size` in its last chunk, and no chunk behind that one: on
//! this rests that growing shows zeros, and that the end of an object is written by an insert.

mod change;
mod cursor;
mod erased;
mod handle;
mod keys;
pub(crate) mod limits;
mod metadata;
mod names;
mod pieces;
mod reading;
mod shared;
pub(crate) mod stores;

pub use cursor::ObjectCursor;
pub use handle::Object;
pub use limits::{ATOMIC_LEN_MAX, CHUNK_LEN, NAME_LEN_MAX, OBJECT_LEN_MAX, STORE_NAME_LEN_MAX};
pub use metadata::{AccessPattern, ObjectInfo, Preference};
pub use names::{ObjectStore, Objects};
