//! The kernel's syncs of one pool. After one that failed, no other is tried.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;

use crate::fence::Range;
use crate::{Error, Result};
use halite_sim::planted;
use halite_sync::Group;

/// Whether the kernel failed to sync a pool since it was opened.
///
/// The kernel reports a failure once, to the first caller that asks, and marks the pages that it could not
/// write clean: the next sync would succeed without those bytes. So a failed sync is the last one.
#[derive(Default)]
pub(crate) struct Syncs {
    asking: Mutex<()>,
    group: Group,
    waiting: Mutex<Waiting>,
    /// Read before every write, by all threads; written once.
    failed: AtomicBool,
}

/// Ranges for which memory is kept.
const RANGES_KEPT: usize = 4096;

/// Ranges that threads want durable, and that no sync was asked for yet.
#[derive(Default)]
struct Waiting {
    ranges: Vec<Range>,
    /// The buffer of the group before, for those of the group after.
    spare: Vec<Range>,
    /// The ranges that there were in all.
    count: u64,
}

impl Syncs {
    /// Makes ranges durable, with those of all threads that wait: one of them asks the kernel for all.
    pub(crate) fn sync_ranges(
        &self,
        path: &Path,
        ranges: impl Iterator<Item = Range>,
        ask: impl Fn(&[Range]) -> Result<()>,
    ) -> Result<()> {
        let end = {
            let waiting = &mut *self.waiting.lock();
            let before = waiting.ranges.len();
            waiting.ranges.extend(ranges);
            waiting.count += (waiting.ranges.len() - before) as u64;
            waiting.count
        };
        let take = || {
            let waiting = &mut *self.waiting.lock();
            let next = std::mem::take(&mut waiting.spare);
            (std::mem::replace(&mut waiting.ranges, next), waiting.count)
        };
        self.group.commit(end, take, |mut ranges| {
            let synced = self.sync(path, || ask(&ranges));
            ranges.clear();
            ranges.shrink_to(RANGES_KEPT);
            self.waiting.lock().spare = ranges;
            synced
        })
    }

    /// Asks the kernel to sync, one thread at a time.
    pub(crate) fn sync(&self, path: &Path, ask: impl Fn() -> Result<()>) -> Result<()> {
        let _asking = self.asking.lock();
        self.check(path)?;
        let answer = ask();
        let synced = planted!("pmem.failed-sync-repeated", answer.or_else(|_| ask()), answer);
        if synced.is_err() {
            self.failed.store(true, Ordering::Relaxed);
        }
        synced
    }

    /// Refuses if a sync failed.
    pub(crate) fn check(&self, path: &Path) -> Result<()> {
        // A thread that passes here while another thread's sync fails meets the failure at its own sync.
        match self.failed.load(Ordering::Relaxed) {
            true => Err(Error::SyncFailed { path: path.to_owned() }),
            false => Ok(()),
        }
    }
}
