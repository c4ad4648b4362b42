//! What can go wrong in a block.

use std::path::PathBuf;
use std::sync::Arc;

/// A result of this crate.
pub type Result<T> = std::result::Result<T, Error>;

/// Why a block cannot do what it was asked to.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The pool cannot.
    #[error(transparent)]
    Pool(#[from] halite_pmem::Error),

    /// The fence that several operations waited for together failed: of none of them is known whether
    /// it is durable. Each of them gets this error, and so do the later ones of the same group.
    #[error("a fence that several operations share: {0}")]
    SharedFence(Arc<halite_pmem::Error>),

    /// A range has no leaves: its header was never written, or is another's.
    #[error("{}: there are no leaves at offset {offset}; format them first", path.display())]
    NoLeaves {
        /// The pool's file.
        path: PathBuf,
        /// Where the leaves should begin.
        offset: u64,
    },

    /// What is stored of a leaf, or of the header of all leaves, contradicts itself.
    #[error("{}: {what} is damaged: {why}; restore it from a copy", path.display())]
    LeafDamaged {
        /// The pool's file.
        path: PathBuf,
        /// Which leaf, or the header.
        what: String,
        /// What is wrong with it.
        why: String,
    },

    /// There is no leaf of this number.
    #[error("there is no leaf {leaf}: there are {leaves}, counted from 0")]
    NoSuchLeaf {
        /// The number asked for.
        leaf: u64,
        /// How many there are.
        leaves: u64,
    },

    /// All slots of a leaf are used, or about to be.
    #[error("leaf {leaf} is full: it has {} pairs; split it", crate::interleave::SLOTS)]
    LeafFull {
        /// The leaf.
        leaf: u64,
    },

    /// The leaf has the key already.
    #[error("leaf {leaf} already has the key {key:#x}; a pair does not change")]
    KeyExists {
        /// The leaf.
        leaf: u64,
        /// The key.
        key: u64,
    },
}
