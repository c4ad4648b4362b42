//! The non-volatile B+tree of NVM-InP, NVM-Log and NVM-WBL (Arulraj: indexes that persist, so that nothing is rebuilt at
//! recovery).
//!
//! Its nodes are slots of the partition's heap. Leaves have their entries in any order and a word that says which are
//! there (`leaf.rs`); inner nodes are written once, but for the words of their children (`inner.rs`). A header has the word
//! of the root and its level (`tree.rs`).
//!
//! Entries change in two steps, so that a transaction needs no fence of its own for them:
//!
//! 1. [`NonVolatileTree::prepare`] gives each leaf room for all the entries that a transaction adds to it, writes them
//!    unseen, and returns the new word of each leaf. Only a leaf without room costs fences: it is written anew as one,
//!    two or more leaves, and one publication activates them, leads to them and frees what they replace.
//! 2. The transaction stores the words, under the protection of its log, and any of them can be taken back by the word
//!    that was there before ([`Prepared`]). An entry that is removed, and the key of one that is replaced, stay as they are
//!    until then.
//!
//! Leaves that a commit has emptied, or nearly, are merged afterwards ([`NonVolatileTree::tidy`]).
//!
//! **A crash** leaves each word as it was or as it will be, and the transaction's log says which of them all of its words
//! have to be. Entries that were prepared and are not shown are not there: their places are free. A publication of `prepare` or
//! `tidy` changes the nodes, and no entry. The slots of long keys belong to the transaction that adds or removes them.
//!
//! **Costs.** A lookup reads a node a level, and in the leaf its 16-byte entries and one key; a lookup of a key that is not
//! there reads all keys of the leaf. An entry that is added writes its 16 bytes, its key and, with all others of the leaf,
//! one word; one that has another value writes no key. A leaf is divided by the publication of two leaves and a copy of
//! their parent, whose keys are cut to what tells them apart. Keys that come in order fill their leaves, others leave them
//! about two thirds full. Nodes have 1 KiB by default: with the 512 bytes of the source, more leaves are divided, and each
//! division costs fences.

mod additions;
mod descend;
mod graft;
mod inner;
mod leaf;
mod node;
mod prepare;
mod prepared;
mod rewrite;
mod scan;
mod split;
#[cfg(test)]
mod tests;
mod tidy;
mod tree;
mod verify;

pub use node::{LeafNode, LongKey, TreeHeader};
pub use prepared::{Change, KeySlot, Prepared, WordChange};
pub use scan::NonVolatileScan;
pub use tree::NonVolatileTree;

/// The length in bytes of a node by default.
pub const NODE_LEN: usize = 1024;
