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
    /// Reads how a backup begins. Reads in pieces of up to 256 KiB, and in some of few bytes: a file is
    /// best read through a [`std::io::BufReader`].
    ///
    /// # Errors
    /// What there is does not begin like a backup, and each variant of [`BackupError`] says what else it
    /// is; [`BackupError::Read`].
    pub fn new(input: R) -> Result<Self, BackupError> {
        let (contents, info) = ContentReader::begin(input)?;
        Ok(Self { info, contents })
    }

    /// What it is.
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
