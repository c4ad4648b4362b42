//! Sorted tables in files: written once, by one thread, and read by many.
//!
//! An *entry* is one version of a key (`entry`). A table has entries in the order of their keys, and of
//! a key the newest first:
//!
//! ```text
//! ┌────────────┬────────────┬─── ─┬─────────────────┬────────┬─── ─┬───────────────┬──────┬────────────┬────────┐
//! │ data block │ data block │ ... │ index partition │ filter │ ... │ range deletes │ root │ properties │ footer │
//! └────────────┴────────────┴─── ─┴─────────────────┴────────┴─── ─┴───────────────┴──────┴────────────┴────────┘
//! ```
//!
//! **Writing** (`table_builder`): entries fill a block (`block_builder`); a full one is compressed, sealed with a
//! checksum ([`halite_codec::seal`]) and streamed to the file. The index (`index`) has a separator and a handle for each
//! block; every few hundred of them are a partition, which has a filter of its keys (`filter`); the root has all
//! partitions. Properties (`properties`) describe the content of the table, and the footer (`footer`) says which
//! store and table it is and where the properties are.
//!
//! **Reading** (`table`): footer, properties, root and range deletes are read when a table opens. A get
//! asks the root for the partition, its filter whether the key may be there, the partition for the
//! block, and the block (`block`) for the entry: all through one cache ([`halite_cache`]), which has blocks
//! checked and decompressed. Cursors (`table_cursor`) go both ways, and read ahead (`read_ahead`).
//!
//! Every byte that is read is untrusted: lengths and offsets are checked before they are followed, and each error has
//! a name (`error`).
//!
//! | operation | blocks, of which the cache may have some | copies of a value |
//! |---|---|---|
//! | open | the footer, properties, root, range deletes | none |
//! | get of a key that the filter excludes | a filter | none |
//! | get | a filter, a partition, a data block | none: it is shared with its block |
//! | cursor, each block | one; read ahead up to 256 KiB at once | none |
//! | build, each block | one write; one sync at the end | one, into the block |
#![forbid(unsafe_code)]

mod block;
mod block_builder;
mod entry;
mod error;
mod filter;
mod footer;
mod index;
mod properties;
mod range_deletes;
mod read_ahead;
mod table;
mod table_builder;
mod table_cursor;
mod value_ref;

pub use block::{Block, BlockCursor};
pub use block_builder::BlockBuilder;
pub use entry::{DELETE, Entry, Found, PUT, PUT_FILE, RANGE_DELETE, SEQUENCE_MAX, Value, order};
pub use error::{Error, Result};
pub use filter::{Filter, hash_key};
pub use halite_index::RangeDelete;
pub use properties::{Properties, Span, put_values, read_values};
pub use range_deletes::RangeDeletes;
pub use table::{Check, Table, TableId};
pub use table_builder::{TableBuilder, TableOptions};
pub use table_cursor::{Reads, TableCursor};
pub use value_ref::ValueRef;

/// The outcome of parsing bytes whose origin the caller knows: the error is only what is wrong with them.
pub type Parsed<T> = std::result::Result<T, &'static str>;
