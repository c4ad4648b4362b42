//! The errors of blocks.

use std::path::PathBuf;
use std::sync::Arc;

use halite_pmem::Fresh;

use crate::page::PageSize;

/// A result of this crate.
pub type Result<T> = std::result::Result<T, Error>;

/// Why a block refuses an operation.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The pool cannot.
    #[error(transparent)]
    Pool(#[from] halite_pmem::Error),

    /// A space has other contents than it was opened as, or its formatting was interrupted.
    #[error(
        "{}: no {wanted} at {offset}, but {found}; open what is there, or format the space",
        path.display()
    )]
    Foreign {
        /// The pool.
        path: PathBuf,
        /// Where the space begins in it, in bytes.
        offset: u64,
        /// The kind of block that was to be opened.
        wanted: &'static str,
        /// The contents found instead.
        found: String,
    },

    /// The stored bytes are in a state that no crash leaves: the medium lost or changed some of them.
    #[error("{}: damaged, in what begins at {offset}: {what}; restore it from a copy", path.display())]
    Damaged {
        /// The pool.
        path: PathBuf,
        /// Where the space begins in it, in bytes.
        offset: u64,
        /// Which part, and why it cannot be.
        what: String,
    },

    /// A space is too short for its intended contents.
    #[error("{what} need {needed} bytes, the space has {len}; take fewer, or a longer space")]
    DoesNotFit {
        /// The intended contents.
        what: &'static str,
        /// The space that they need, in bytes.
        needed: u64,
        /// The length of the space in bytes.
        len: u64,
    },

    /// The space has other contents than a log, or its formatting was interrupted.
    #[error("there is no log at offset {offset} of the pool; format the space as one first")]
    NotALog {
        /// In the pool.
        offset: u64,
    },

    /// The log was written by another version.
    #[error(
        "the log at offset {offset} of the pool has format {found}, and this program reads format \
         {known}; open it with the program that wrote it"
    )]
    LogVersion {
        /// In the pool.
        offset: u64,
        /// The log's.
        found: u16,
        /// This program's.
        known: u16,
    },

    /// The log was formatted for another algorithm.
    #[error(
        "the log at offset {offset} of the pool has the algorithm of number {found}, which is not \
         {asked}; open it with that one, or format the space"
    )]
    LogAlgorithm {
        /// In the pool.
        offset: u64,
        /// The number of the log's algorithm.
        found: u8,
        /// The name of the algorithm with which it was opened.
        asked: &'static str,
    },

    /// The log's metadata is damaged.
    #[error("the log at offset {offset} of the pool is damaged: {what}; restore it from a copy")]
    LogDamaged {
        /// In the pool.
        offset: u64,
        /// The damage.
        what: &'static str,
    },

    /// The space cannot be a log.
    #[error(
        "{len} bytes at offset {offset} of the pool cannot be a log: it needs {least} bytes or \
         more, and lengths and offsets that are multiples of 64"
    )]
    LogSpace {
        /// In the pool.
        offset: u64,
        /// In bytes.
        len: u64,
        /// In bytes.
        least: u64,
    },

    /// The entry is longer than the log.
    #[error("an entry of {len} bytes is longer than the log, which takes {capacity}; split it")]
    EntryTooLong {
        /// In bytes.
        len: u64,
        /// The room of the empty log, in bytes.
        capacity: u64,
    },

    /// The log is full.
    #[error(
        "the log is full: an entry of {len} bytes takes {needed}, and {remaining} are left; reset \
         the log once its entries are applied"
    )]
    LogFull {
        /// In bytes.
        len: u64,
        /// The room that the entry takes, in bytes.
        needed: u64,
        /// In bytes.
        remaining: u64,
    },

    /// An earlier append or reset failed.
    #[error(
        "an earlier write to the log at offset {offset} of the pool failed, so its end is not \
         known; open it again"
    )]
    LogFailed {
        /// In the pool.
        offset: u64,
    },

    /// An earlier write of a cell failed.
    #[error(
        "{}: an earlier write to the cells at {offset} failed, so their content is not known; open \
         them again",
        path.display()
    )]
    CellsFailed {
        /// The pool.
        path: PathBuf,
        /// Where the space begins in it, in bytes.
        offset: u64,
    },

    /// An earlier flush of a page failed.
    #[error(
        "{}: an earlier flush to the page store at {offset} failed, so its content is not known; open \
         it again",
        path.display()
    )]
    PagesFailed {
        /// The pool.
        path: PathBuf,
        /// Where the space begins in it, in bytes.
        offset: u64,
    },

    /// A fence of an earlier insert failed.
    #[error(
        "{}: an earlier insert into the leaves at {offset} failed, so their content is not known; \
         open them again",
        path.display()
    )]
    LeavesFailed {
        /// The pool.
        path: PathBuf,
        /// Where the space begins in it, in bytes.
        offset: u64,
    },

    /// There are no cells of such a length.
    #[error("a cell of {len} bytes: it must have 16 to 128, a multiple of 16")]
    CellLen {
        /// The length in bytes.
        len: u64,
    },

    /// Pages do not have such a size.
    #[error(
        "pages of {bytes} bytes: the size is a power of two from {} to {}",
        PageSize::MIN_BYTES,
        PageSize::MAX_BYTES
    )]
    PageSize {
        /// The size in bytes.
        bytes: u64,
    },

    /// A page store without a page.
    #[error("a page store has at least one page")]
    NoPages,

    /// The space is not aligned to lines.
    #[error("the space of a page store begins at {offset}; it must be a multiple of 64")]
    PageSpaceMisaligned {
        /// Of the space in its pool.
        offset: u64,
    },

    /// The page was not written whole before a crash, or was damaged since.
    #[error("damaged: page {page} is torn; flush it with all its lines, from a log or a copy")]
    TornPage {
        /// The page.
        page: u32,
    },

    /// The page store has no such page.
    #[error("there is no page {page}; the store has {pages}, from 0 on")]
    NoSuchPage {
        /// The page.
        page: u32,
        /// How many there are.
        pages: u32,
    },

    /// The buffer is for pages of another size.
    #[error("the buffer has {bytes} bytes, pages of the store have {expected}")]
    OtherPageSize {
        /// Of the buffer.
        bytes: u64,
        /// Of the store's pages.
        expected: u64,
    },

    /// The store has numbered as many flushes as it can.
    #[error("the page store has used up its {flushes} numbers of flushes; copy it to a new one")]
    FlushesExhausted {
        /// How many there are.
        flushes: u64,
    },

    /// The fence that several operations waited for together failed, so it is unknown which of them are
    /// durable. Each of them gets this error, and so do the later ones of the same group.
    #[error("a fence that several operations share: {0}")]
    SharedFence(Arc<halite_pmem::Error>),

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

impl Error {
    /// [`Error::Foreign`] about a space.
    pub(crate) fn foreign(space: &Fresh, wanted: &'static str, found: impl Into<String>) -> Self {
        let (path, offset) = (space.pool().path().to_owned(), space.offset());
        Self::Foreign { path, offset, wanted, found: found.into() }
    }

    /// [`Error::Damaged`] about a space.
    pub(crate) fn damaged(space: &Fresh, what: impl Into<String>) -> Self {
        let (path, offset) = (space.pool().path().to_owned(), space.offset());
        Self::Damaged { path, offset, what: what.into() }
    }
}
