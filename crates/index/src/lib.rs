//! Ordered indexes in volatile memory: from byte-string keys to 8-byte values.
//!
//! [`BPlusTree`] is a copy-on-write B+tree. A clone of it is a snapshot, made in constant time: the
//! two share all nodes, and a write copies the nodes on its path that are shared. A write to a tree
//! without snapshots changes its nodes in place.
//!
//! A lookup walks `tree` → one `node` a level → `keys`, where a node's sorted keys lie as fixed-size
//! heads behind the prefix that they share: prefix truncation and poor man's normalized keys
//! (Graefe and Larson, cited in Lersch §5.6.2).
mod build;
mod cursor;
mod full_keys;
mod hash;
mod keys;
#[cfg(all(test, loom))]
mod loom_tests;
mod node;
mod node_ref;
mod partial;
mod prefetch;
mod slabs;
mod sync;
mod tree;

pub use cursor::Cursor;
pub use full_keys::FullKeys;
pub use hash::{HashCursor, HashIndex};
pub use partial::{PartialKeyCursor, PartialKeyTree, PartialLen};
pub use tree::BPlusTree;
