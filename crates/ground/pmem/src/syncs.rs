//! The kernel's syncs of one pool, of which none comes after one that failed.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;

use crate::{Error, Result};
use halite_sim::planted;

/// Whether the kernel failed to sync a pool since it was opened.
///
/// The kernel tells a failure once, to whoever asks first, and takes what it could not write for clean:
/// the next sync would succeed, and say nothing of those bytes. So one that failed is the last.
#[derive(Default)]
pub(crate) struct Syncs {
    asking: Mutex<()>,
    /// Read before every write, by all threads; written once.
    failed: AtomicBool,
}

impl Syncs {
    /// Asks the kernel to sync, one thread at a time.
    pub(crate) fn sync(&self, path: &Path, ask: impl Fn() -> Result<()>) -> Result<()> {
        let _asking = self.asking.lock();
        self.check(path)?;
        let answer = ask();
        let synced = planted!(FailedSyncRepeated, answer.or_else(|_| ask()), answer);
        if synced.is_err() {
            self.failed.store(true, Ordering::Relaxed);
        }
        synced
    }

    /// Refuses if a sync failed.
    pub(crate) fn check(&self, path: &Path) -> Result<()> {
        // Who is on its way while another thread's sync fails meets the failure at its own.
        match self.failed.load(Ordering::Relaxed) {
            true => Err(Error::SyncFailed { path: path.to_owned() }),
            false => Ok(()),
        }
    }
}
