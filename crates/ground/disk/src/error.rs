//! The errors of files.

use std::io;
use std::path::{Path, PathBuf};

use rustix::io::Errno;

/// A result of this crate.
pub type Result<T> = std::result::Result<T, Error>;

/// An error of a file or a folder: the thing, the reason, the way out.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The folder or the file does not exist.
    #[error("{}: there is no such file or folder; check the path, or create it", path.display())]
    Missing {
        /// The folder or the file.
        path: PathBuf,
    },

    /// The path of a file to be created is taken.
    #[error("{}: something is already here; open it, or choose another name", path.display())]
    Exists {
        /// The path that exists.
        path: PathBuf,
    },

    /// The path of the folder leads to another kind of file.
    #[error("{}: not a folder; choose another path", path.display())]
    NotAFolder {
        /// The path.
        path: PathBuf,
    },

    /// The path of a file leads to another kind of file.
    #[error("{}: not a regular file; move it away", path.display())]
    NotAFile {
        /// The path.
        path: PathBuf,
    },

    /// No file of a [`crate::Disk`] may be called so: a name is 1 to 255 bytes without `/` and NUL, and
    /// neither `.` nor `..`.
    #[error(
        "{name:?} is no name for a file: one has 1 to 255 bytes, no `/`, and is not `.` or `..`"
    )]
    Name {
        /// The name that was asked for.
        name: String,
    },

    /// The folder or the file cannot be written to.
    #[error("{}: it is read-only; make it writable for this user", path.display())]
    ReadOnly {
        /// The folder or the file.
        path: PathBuf,
    },

    /// Another process, or another [`crate::Disk`] of this one, holds the folder.
    #[error("{}: the folder is in use by another process; stop it first", path.display())]
    Locked {
        /// The folder.
        path: PathBuf,
    },

    /// The device, or the user's quota, has no room. The bytes written so far stay, and the file can be
    /// removed.
    #[error("{}: no space left on the device; make room, or raise the quota", path.display())]
    NoSpace {
        /// The file, or the folder for a new name.
        path: PathBuf,
    },

    /// The process, or the system, has as many files open as it may. No file was changed.
    #[error(
        "{}: too many open files; close connections, or raise the limit of open files (`ulimit -n`)", path.display()
    )]
    TooManyFiles {
        /// The file or the folder that was to be opened.
        path: PathBuf,
    },

    /// A file that was open has lost its name to another one.
    #[error("{}: another file has taken its place while it was in use; bring it back", path.display())]
    Replaced {
        /// The file.
        path: PathBuf,
    },

    /// The file ends before the bytes that are asked for.
    #[error(
        "{}: bytes {at}..+{len} are not in the file of {file_len} bytes: it is truncated, or an \
         offset is damaged; restore it from a copy", path.display()
    )]
    Short {
        /// The file.
        path: PathBuf,
        /// Where the bytes were to begin.
        at: u64,
        /// How many were asked for.
        len: u64,
        /// The length of the file in bytes.
        file_len: u64,
    },

    /// A place or a length in a file with direct access is no multiple of what its device asks for.
    #[error(
        "{}: bytes {at}..+{len} cannot be written past the page cache, as the device takes multiples of {alignment} \
         bytes; open the file with cached access", path.display()
    )]
    Unaligned {
        /// The file.
        path: PathBuf,
        /// Where the bytes were to begin.
        at: u64,
        /// How many there were.
        len: u64,
        /// Both have to be multiples of this, in bytes.
        alignment: u64,
    },

    /// A write or a sync failed earlier. The kernel reports a failure once, and marks the pages that it
    /// could not write clean: a later sync would succeed without those bytes.
    #[error(
        "{}: an earlier write or sync failed, and what is durable of it is not certain; open the \
         store anew", path.display()
    )]
    Failed {
        /// The file, or the folder if its names are not certain.
        path: PathBuf,
    },

    /// The power of the modelled disk is cut: [`crate::DiskModel`].
    #[error("{}: the power of the modelled disk is cut", path.display())]
    PowerCut {
        /// The file or the folder.
        path: PathBuf,
    },

    /// The operating system refused.
    #[error("{}: cannot {action}: {source}", path.display())]
    Io {
        /// The file or the folder.
        path: PathBuf,
        /// The attempted action.
        action: &'static str,
        /// The reason.
        source: io::Error,
    },
}

impl Error {
    /// Whether the file is there, and the device or the file system cannot read it: a bad sector, a checksum that is
    /// wrong. Reading other files may work.
    #[must_use]
    pub fn is_unreadable(&self) -> bool {
        const ERRNOS: [Errno; 4] = [Errno::IO, Errno::BADMSG, Errno::UCLEAN, Errno::NODATA];
        matches!(self, Self::Io { source, .. }
            if ERRNOS.iter().any(|errno| source.raw_os_error() == Some(errno.raw_os_error())))
    }

    /// The error for `errno`, which the kernel returned for `action` on `path`.
    pub(crate) fn of(errno: Errno, path: &Path, action: &'static str) -> Self {
        let path = path.to_owned();
        match errno {
            Errno::NOENT => Self::Missing { path },
            Errno::EXIST => Self::Exists { path },
            Errno::NOTDIR => Self::NotAFolder { path },
            // A symbolic link that is not to be followed, and a device that is not there.
            Errno::ISDIR | Errno::LOOP | Errno::NXIO => Self::NotAFile { path },
            Errno::ACCESS | Errno::PERM | Errno::ROFS => Self::ReadOnly { path },
            Errno::NOSPC | Errno::DQUOT => Self::NoSpace { path },
            Errno::MFILE | Errno::NFILE => Self::TooManyFiles { path },
            _ => Self::Io { path, action, source: errno.into() },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_device_and_a_full_quota_have_a_name() {
        for errno in [Errno::NOSPC, Errno::DQUOT] {
            let error = Error::of(errno, Path::new("folder/file"), "write the file");
            assert!(matches!(&error, Error::NoSpace { path } if path == Path::new("folder/file")));
            assert!(error.to_string().starts_with("folder/file: no space left"), "{error}");
        }
        let error = Error::of(Errno::IO, Path::new("folder/file"), "sync the file");
        assert!(error.to_string().starts_with("folder/file: cannot sync the file: "), "{error}");
    }
}
