//! The kernel's syncs of one pool, of which none comes after one that failed.

use std::path::Path;

use parking_lot::Mutex;

use crate::{Error, Result, planted};

/// Whether the kernel failed to sync a pool since it was opened.
///
/// The kernel tells a failure once, to whoever asks first, and takes what it could not write for clean:
/// the next sync would succeed, and say nothing of those bytes. So one that failed is the last.
#[derive(Default)]
pub(crate) struct Syncs(Mutex<bool>);

impl Syncs {
    /// Asks the kernel to sync, one thread at a time.
    pub(crate) fn sync(&self, path: &Path, ask: impl Fn() -> Result<()>) -> Result<()> {
        let mut failed = self.0.lock();
        refuse(*failed, path)?;
        let synced = ask();
        let synced = planted!(FailedSyncRepeated, synced.or_else(|_| ask()), synced);
        *failed = synced.is_err();
        synced
    }

    /// Refuses if a sync failed.
    pub(crate) fn check(&self, path: &Path) -> Result<()> {
        refuse(*self.0.lock(), path)
    }
}

fn refuse(failed: bool, path: &Path) -> Result<()> {
    if failed { Err(Error::SyncFailed { path: path.to_owned() }) } else { Ok(()) }
}
