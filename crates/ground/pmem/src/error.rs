//! The errors of a pool.

use std::io;
use std::path::PathBuf;

/// A result of this crate.
pub type Result<T> = std::result::Result<T, Error>;

/// An error of a pool: the thing, the reason, the way out.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The pool's file does not exist.
    #[error("{}: there is no pool here", path.display())]
    Missing {
        /// The pool's file.
        path: PathBuf,
    },

    /// A pool is to be created where a file already is.
    #[error("{}: a file is already here; open it, or choose another place", path.display())]
    Exists {
        /// The file.
        path: PathBuf,
    },

    /// Another process, or another handle in this one, holds the pool.
    #[error("{}: the pool is in use by another process; stop it first", path.display())]
    Locked {
        /// The pool's file.
        path: PathBuf,
    },

    /// The pool's file cannot be written to.
    #[error(
        "{}: the pool is read-only, and an opening may have to write; make it writable for this user, or, on a file \
         system that is mounted read-only, copy the database elsewhere",
        path.display()
    )]
    ReadOnly {
        /// The pool's file.
        path: PathBuf,
    },

    /// The file is too short to be a pool.
    #[error("{}: not a pool: {len} bytes, the smallest has {}", path.display(), crate::UNIT)]
    TooShort {
        /// The file.
        path: PathBuf,
        /// Its length in bytes.
        len: u64,
    },

    /// The file is not a regular file.
    #[error("{}: not a pool: it is not a regular file", path.display())]
    NotAFile {
        /// The path.
        path: PathBuf,
    },

    /// The device has no room for the pool to grow.
    #[error("{}: no space left on the device for {bytes} more bytes", path.display())]
    NoSpace {
        /// The pool's file.
        path: PathBuf,
        /// The growth asked for, in bytes.
        bytes: u64,
    },

    /// The pool has reached the largest size that its options allow.
    #[error("{}: the pool may not grow beyond {limit} bytes; raise its size limit", path.display())]
    SizeLimit {
        /// The pool's file.
        path: PathBuf,
        /// The limit in bytes.
        limit: u64,
    },

    /// A range is outside the pool: its bytes were truncated, or an offset is damaged.
    #[error("{}: bytes {offset}..+{len} are outside the pool of {pool_len} bytes", path.display())]
    OutOfBounds {
        /// The pool's file.
        path: PathBuf,
        /// Start of the range.
        offset: u64,
        /// Length of the range in bytes.
        len: u64,
        /// Length of the pool in bytes.
        pool_len: u64,
    },

    /// A range has an owner already.
    #[error("{}: bytes {offset}..+{len} already have an owner", path.display())]
    Claimed {
        /// The pool's file.
        path: PathBuf,
        /// Start of the range.
        offset: u64,
        /// Length of the range in bytes.
        len: u64,
    },

    /// The kernel could not sync the pool earlier; the contents of the pool since then are not certain.
    #[error("{}: an earlier sync of the pool failed; open it anew and check it", path.display())]
    SyncFailed {
        /// The pool's file.
        path: PathBuf,
    },

    /// The modelled medium has no power: [`halite_sim::Machine::cut_power`].
    #[error("{}: the power of the modelled medium is cut", path.display())]
    PowerCut {
        /// The pool's name.
        path: PathBuf,
    },

    /// There is no such profile, or its figures make no sense.
    #[error(
        "profile {profile:?}: {reason}; known are {}, and figures such as \
         read=300,seq-read=175,persist=150,same-line=400,read-bw=8GB,write-bw=2GB,block=256",
        crate::Profile::NAMES.join(", ")
    )]
    Profile {
        /// The profile, as it was given.
        profile: String,
        /// Why the profile is refused.
        reason: String,
    },

    /// The operating system refused.
    #[error("{}: cannot {action}: {source}", path.display())]
    Io {
        /// The pool's file.
        path: PathBuf,
        /// The attempted action.
        action: &'static str,
        /// The reason.
        source: io::Error,
    },
}
