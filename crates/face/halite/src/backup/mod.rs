//! Backups: a snapshot as a stream of bytes, and back.
//!
//! [`Database::backup`] writes everything that a snapshot has. Where the database has a change log,
//! [`Database::backup_since`] writes only what was changed between an earlier backup and a snapshot. Both go
//! on while others write: what they read, the snapshot keeps. [`Builder::restore`] makes a database from a
//! full backup and those that follow it.
//!
//! ```text
//! store ── snapshot ──► write ──► content ──► chunks ──► file        a backup
//! store ◄── restore ◄── read ◄─── content ◄── chunks ◄── file        its way back
//! ```
//!
//! `chunks` is the format's outside, with the checksums, `content` what is in it. A database is restored in a folder
//! of its own (`workshop`), and gets its names when it is complete (`naming`).

mod chunks;
mod content;
mod error;
mod naming;
mod read;
mod restore;
mod workshop;
mod write;

use std::fmt;
use std::io::Write;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use halite_contract::{Partitioning, Positions};

pub use error::BackupError;
pub(crate) use naming::{finish_before_opening, is_interrupted};
pub use read::BackupReader;
pub use restore::RestoreReport;

use crate::{Database, Reader, Snapshot};

/// What a backup is: how it begins.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BackupInfo {
    pub(crate) id: u128,
    pub(crate) parent: Option<u128>,
    /// In seconds since 1970.
    pub(crate) created: u64,
    pub(crate) partitioning: Partitioning,
    pub(crate) change_log: Option<u64>,
    pub(crate) positions: Option<Positions>,
}

impl BackupInfo {
    /// The number that names this backup.
    #[must_use]
    pub fn id(&self) -> BackupId {
        BackupId(self.id)
    }

    /// The backup that this one follows; `None` if it is a full one.
    #[must_use]
    pub fn parent(&self) -> Option<BackupId> {
        self.parent.map(BackupId)
    }

    /// Whether it has everything that the database had.
    #[must_use]
    pub fn is_full(&self) -> bool {
        self.parent.is_none()
    }

    /// When it was begun.
    #[must_use]
    pub fn created(&self) -> SystemTime {
        SystemTime::UNIX_EPOCH + Duration::from_secs(self.created)
    }

    /// How the database spread keys over partitions.
    #[must_use]
    pub fn partitioning(&self) -> &Partitioning {
        &self.partitioning
    }

    /// Whether another backup can follow it: the database had a change log.
    #[must_use]
    pub fn can_be_followed(&self) -> bool {
        self.positions.is_some()
    }
}

/// What names a backup.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct BackupId(u128);

impl fmt::Display for BackupId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

/// What is in a backup.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BackupReport {
    /// What it is.
    pub info: BackupInfo,
    /// Puts, deletes, and key spaces made and dropped.
    pub operations: u64,
    /// Its length in bytes.
    pub bytes: u64,
}

impl Database {
    /// Writes everything that a snapshot of this database has to `out`, which is flushed, and for the caller
    /// to sync. Others may write to the database meanwhile.
    ///
    /// ```
    /// # let folder = tempfile::tempdir()?;
    /// # let path = folder.path().join("data");
    /// use halite::{BackupReader, Database};
    /// let db = Database::open(&path)?;
    /// db.key_space("fruit")?.put("apple", "green")?;
    /// let mut backup = Vec::new();
    /// db.backup(&db.take_snapshot()?, &mut backup)?;
    ///
    /// let copy = folder.path().join("copy");
    /// Database::builder().restore(&copy, vec![BackupReader::new(&backup[..])?], false)?;
    /// let copy = Database::open(&copy)?;
    /// assert_eq!(copy.key_space("fruit")?.get("apple")?.as_deref(), Some(&b"green"[..]));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`BackupError::OtherDatabase`]; [`BackupError::Write`]; [`crate::Error::Damaged`]. What is in `out`
    /// then is no backup, and reading it says so.
    pub fn backup(
        &self,
        snapshot: &Snapshot,
        out: impl Write,
    ) -> Result<BackupReport, BackupError> {
        let engine = self.engine_of(snapshot)?;
        snapshot.inner.name_reader(Reader::Backup);
        write::full(&**engine, &*snapshot.inner, out)
    }

    /// Writes what was changed between `previous`, a backup of this database, and a snapshot.
    ///
    /// # Errors
    /// As [`Database::backup`]; and those for which a full backup is the way out:
    /// [`crate::Error::NoChangeLog`], [`crate::Error::ChangesReleased`], [`BackupError::NoPositions`],
    /// [`BackupError::OtherHistory`].
    pub fn backup_since(
        &self,
        previous: &BackupInfo,
        snapshot: &Snapshot,
        out: impl Write,
    ) -> Result<BackupReport, BackupError> {
        let engine = self.engine_of(snapshot)?;
        snapshot.inner.name_reader(Reader::Backup);
        write::since(&**engine, previous, &*snapshot.inner, out)
    }

    fn engine_of(
        &self,
        snapshot: &Snapshot,
    ) -> Result<&Arc<dyn halite_contract::Engine>, BackupError> {
        match Arc::ptr_eq(&self.engine, &snapshot.engine) {
            true => Ok(&self.engine),
            false => Err(BackupError::OtherDatabase),
        }
    }
}
