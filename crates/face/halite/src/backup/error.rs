//! The errors of taking, reading and restoring backups.

use std::io;
use std::path::PathBuf;

/// Why a backup could not be written, read or restored.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BackupError {
    /// An error of the database.
    #[error(transparent)]
    Database(#[from] crate::Error),
    /// The backup cannot be written.
    #[error("it cannot be written: {0}{hint}", hint = hint(.0))]
    Write(#[source] io::Error),
    /// The backup cannot be read.
    #[error("it cannot be read: {0}")]
    Read(#[source] io::Error),
    /// The file is empty.
    #[error("it is empty, and so no backup; take another one, or copy it again")]
    Empty,
    /// The file is not a backup.
    #[error("it is no backup of Halite: it does not begin like one; name another file")]
    Foreign,
    /// A newer version wrote it.
    #[error(
        "it has format {found}, and this version reads {known}; restore it with a newer `halite`"
    )]
    Version {
        /// The format's number.
        found: u32,
        /// The number that this version knows.
        known: u32,
    },
    /// The end is missing.
    #[error(
        "it ends within chunk {chunk}, before its end: writing or copying it was interrupted; \
         copy it again, or use another one"
    )]
    Truncated {
        /// The number of the chunk in which it ends; the first is 0.
        chunk: u64,
    },
    /// Its bytes are not those that were written.
    #[error("it is damaged: {why} (chunk {chunk}); copy it again, or use another one")]
    Damaged {
        /// The number of the chunk; the first is 0.
        chunk: u64,
        /// The defect.
        why: &'static str,
    },
    /// The snapshot is of another database than the one that is backed up.
    #[error("the snapshot is of another database; take one of this")]
    OtherDatabase,
    /// The previous backup is of a database without a change log, so no incremental one can follow it.
    #[error(
        "the previous backup has no positions, for the database had no change log; take a full backup, \
         and make databases with a change log to have others follow it"
    )]
    NoPositions,
    /// The positions of the previous backup belong to another history of the database.
    #[error(
        "the previous backup is of another database, or of this one before its partitions were changed; \
         take a full backup"
    )]
    OtherHistory,
    /// The previous backup holds changes that the snapshot does not have yet.
    #[error("the previous backup is newer than the snapshot; take another snapshot")]
    PreviousIsNewer,
    /// There is no backup to restore from.
    #[error("there is no backup to restore from; name a full one, and those that follow it")]
    NoBackup,
    /// The first backup is not a full one.
    #[error(
        "it has only what was changed since backup {parent}; name the full backup first, \
         and then all that follow it, in order"
    )]
    NotFull {
        /// The backup that it follows.
        parent: super::BackupId,
    },
    /// A backup that is not the first one is full.
    #[error("it is a full backup and follows none; name it first, or alone")]
    FullAgain,
    /// A backup does not follow the one before it.
    #[error(
        "it follows backup {parent}, and not {before}, which is named before it; \
         name every backup from the full one on, in order"
    )]
    Gap {
        /// The backup that it follows.
        parent: super::BackupId,
        /// The one that is named before it.
        before: super::BackupId,
    },
    /// A backup of several has an error.
    #[error("backup {} of {of}: {source}", .nth + 1)]
    InBackup {
        /// Which of them, from 0 on.
        nth: usize,
        /// How many there are.
        of: usize,
        /// The error.
        source: Box<BackupError>,
    },
    /// There is a database where one is to be restored.
    #[error(
        "there is a database in `{}`; restore to another folder, or have it replaced (--force)",
        path.display()
    )]
    Exists {
        /// Its folder.
        path: PathBuf,
    },
    /// There are levels where a database is to be restored, of one whose pool is not there.
    #[error(
        "there is `{}`, of a database that has lost its pool; restore to another folder, or have it replaced \
         (--force)",
        path.display()
    )]
    LevelsExist {
        /// Their folder, or the link to it.
        path: PathBuf,
    },
    /// The new database would have its levels in the folder of those that it replaces.
    #[error(
        "the levels of the database that is to be replaced are in `{}`; name another folder for the new ones, \
         or none",
        path.display()
    )]
    SameLevels {
        /// The folder.
        path: PathBuf,
    },
    /// A process has the database open that is to be replaced.
    #[error("another process has the database in `{}` open; stop it first", path.display())]
    InUse {
        /// Its folder.
        path: PathBuf,
    },
    /// Another process restores a database there.
    #[error("another process is restoring a database in `{}`; wait for it", path.display())]
    Restoring {
        /// The folder.
        path: PathBuf,
    },
    /// A folder or file cannot be made, named or removed.
    #[error("cannot {action} `{}`: {source}", path.display())]
    Folder {
        /// The action that failed, after "cannot".
        action: &'static str,
        /// The folder or file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
}

fn hint(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
            "; make room there, or write it elsewhere"
        }
        _ => "",
    }
}

impl From<halite_contract::Error> for BackupError {
    fn from(error: halite_contract::Error) -> Self {
        Self::Database(error.into())
    }
}
