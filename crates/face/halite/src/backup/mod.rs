//! Backups: a snapshot as a stream of bytes, and back.
//!
//! [`Database::backup`] writes all pairs of a snapshot. Where the database has a change log, [`Database::backup_since`]
//! writes only the changes between an earlier backup and a snapshot. Writers go on meanwhile: the snapshot keeps all
//! that the backup reads. [`Builder::restore`] makes a database from a full backup and the incremental ones that follow
//! it.
//!
//! ```text
//! store ── snapshot ──► write ──► content ──► chunks ──► file        a backup
//! store ◄── restore ◄── read ◄─── content ◄── chunks ◄── file        its way back
//! ```
//!
//! `chunks` is the outer format with the checksums; `content` is the format within the chunks. A database is restored
//! in a folder of its own (`workshop`), and gets its names when it is complete (`naming`).

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

/// The identity of a backup, which its header holds.
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

/// The identifier of a backup.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct BackupId(u128);

impl fmt::Display for BackupId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

/// A report on a backup that was written or read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BackupReport {
    /// The identity of the backup.
    pub info: BackupInfo,
    /// Puts, deletes, and key spaces made and dropped.
    pub operations: u64,
    /// Its length in bytes.
    pub bytes: u64,
}

impl Database {
    /// Writes all pairs of a snapshot of this database to `out`, and flushes it; syncing `out` is left to the caller.
    /// Other threads may write to the database meanwhile.
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
    /// [`BackupError::OtherDatabase`]; [`BackupError::Write`]; [`crate::EngineError::Damaged`]. The bytes written to `out`
    /// until then are no backup, and reading them reports so.
    pub fn backup(
        &self,
        snapshot: &Snapshot,
        out: impl Write,
    ) -> Result<BackupReport, BackupError> {
        let engine = self.engine_of(snapshot)?;
        snapshot.inner.name_reader(Reader::Backup);
        write::full(&**engine, &*snapshot.inner, out)
    }

    /// Writes the changes between `previous`, a backup of this database, and a snapshot.
    ///
    /// # Errors
    /// As [`Database::backup`]; and those for which a full backup is the way out:
    /// [`crate::EngineError::NoChangeLog`], [`crate::EngineError::ChangesReleased`], [`BackupError::NoPositions`],
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
