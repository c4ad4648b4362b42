//! Reading a backup.

use std::io::Read;

use super::content::{ContentReader, Item};
use super::{BackupError, BackupInfo, BackupReport};

/// A backup that is read.
pub struct BackupReader<R> {
    info: BackupInfo,
    contents: ContentReader<R>,
}

impl<R: Read> BackupReader<R> {
    /// Reads the header of a backup. All reads are of up to 256 KiB, some of a few bytes: so pass a file through a
    /// [`std::io::BufReader`].
    ///
    /// # Errors
    /// A variant of [`BackupError`] that says how the input differs from a backup's beginning; [`BackupError::Read`].
    pub fn new(input: R) -> Result<Self, BackupError> {
        let (contents, info) = ContentReader::begin(input)?;
        Ok(Self { info, contents })
    }

    /// The identity of the backup.
    #[must_use]
    pub fn info(&self) -> &BackupInfo {
        &self.info
    }

    /// Reads it to its end, and checks every checksum.
    ///
    /// # Errors
    /// [`BackupError::Truncated`], [`BackupError::Damaged`], [`BackupError::Read`].
    pub fn verify(mut self) -> Result<BackupReport, BackupError> {
        while self.next()?.is_some() {}
        Ok(self.report())
    }

    pub(super) fn next(&mut self) -> Result<Option<Item>, BackupError> {
        self.contents.next()
    }

    pub(super) fn report(self) -> BackupReport {
        let (operations, bytes) = self.contents.read_so_far();
        BackupReport { info: self.info, operations, bytes }
    }
}
