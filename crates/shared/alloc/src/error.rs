//! The errors of allocation.

use std::path::PathBuf;

/// A result of this crate.
pub type Result<T> = std::result::Result<T, Error>;

/// An error of space management: the thing, the reason, the way out.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The file is not a pool.
    #[error("{}: not a Halite pool; choose another place, or move this file away", path.display())]
    Foreign {
        /// The file.
        path: PathBuf,
    },

    /// The pool was written by a newer Halite.
    #[error(
        "{}: the pool has format version {found}, this program reads up to {supported}; \
         use a newer Halite", path.display()
    )]
    FutureVersion {
        /// The pool's file.
        path: PathBuf,
        /// The version in the file.
        found: u32,
        /// The newest version that this program knows.
        supported: u32,
    },

    /// The file is shorter than the pool in it.
    #[error(
        "{}: the pool has {says} bytes, but its file only {is}: it was truncated; \
         restore it from a copy", path.display()
    )]
    Truncated {
        /// The pool's file.
        path: PathBuf,
        /// Bytes that the superblock says.
        says: u64,
        /// Bytes that the file has.
        is: u64,
    },

    /// The platform lost its caches while the pool was in use.
    #[error(
        "{}: the platform failed to save its caches at a power cut while the pool was in use \
         (its count of unsafe shutdowns was {before}, now it is {now}): what was durable may be \
         missing; restore the pool from a copy", path.display()
    )]
    UnsafeShutdown {
        /// The pool's file.
        path: PathBuf,
        /// The device's count when the pool was opened last.
        before: u64,
        /// Its count now.
        now: u64,
    },

    /// Stored bytes do not have their checksum, or contradict each other.
    #[error("{}: damaged: {what}: {why}; restore it from a copy", path.display())]
    Damaged {
        /// The pool's file.
        path: PathBuf,
        /// Which part.
        what: String,
        /// A description of the damage.
        why: String,
    },

    /// A segment that is opened as a part of an object pool or a heap, or as a zone, has other contents.
    #[error(
        "{}: {what}: not the object pool, heap or zone that it is opened as: {why}; \
         open it as what it is", path.display()
    )]
    NotObjects {
        /// The pool's file.
        path: PathBuf,
        /// Which segment.
        what: String,
        /// How its contents differ.
        why: String,
    },

    /// There is no free segment, and the pool cannot grow.
    #[error("no free segment: {reason}")]
    Full {
        /// Why the pool cannot grow.
        reason: halite_pmem::Error,
    },

    /// There are more named roots than a superblock holds, or a name is too long.
    #[error(
        "no room for the root `{name}`: at most {} of {} bytes",
        crate::ROOTS_MAX,
        crate::ROOT_NAME_LEN_MAX
    )]
    Root {
        /// The root's name.
        name: String,
    },

    /// A request for a slot that is longer than a heap's slots may be.
    #[error("a slot of {len} bytes: a heap's have at most {max}; divide the value")]
    TooLong {
        /// Bytes that were asked for.
        len: u64,
        /// Bytes of the longest slot.
        max: u64,
    },

    /// A request for space for an owner that was dropped.
    #[error("owner {owner} was dropped; its number is free once its space is reclaimed")]
    OwnerDropped {
        /// The owner's number.
        owner: u32,
    },

    /// A publication whose changes cannot happen together.
    #[error("a heap's publication cannot happen: {why}; divide it, or leave the change out")]
    Publication {
        /// The reason.
        why: String,
    },

    /// An error of the pool.
    #[error(transparent)]
    Pool(#[from] halite_pmem::Error),
}
