//! The indexes of a partition: ordered maps from keys to locations of tuples, or to tuples.
//!
//! | tree | where | nodes | for |
//! |---|---|---|---|
//! | [`volatile`] | DRAM | 64 B to 16 KiB, changed in place | InP, Log |
//! | [`nonvolatile`] | a heap | 256 B to 16 KiB, entries shown by one word | NVM-InP, NVM-Log, NVM-WBL |
//! | [`cow_file`] | a file | pages of 256 B to 16 KiB, copied on write | CoW |
//! | `cow_heap` | a heap | 256 B to 16 KiB, copied on write | NVM-CoW |
//!
//! `node.rs` has the format of a node, and `btree.rs` the algorithm, which all but the second share. A tree has one owner:
//! changes take `&mut self`.

mod btree;
mod error;
mod node;

pub mod cow_file;
pub(crate) mod cow_heap;
pub mod nonvolatile;
pub mod volatile;

pub use btree::scan::{Direction, Range};
pub use error::{Error, Result};

/// The longest key in bytes.
pub const KEY_LEN_MAX: usize = 3072;
