//! The runs of a leaf on persistent memory that are written in steps.
//!
//! A parcel is written at once, and kept; a run that is written in steps is a parcel in the hands of an [`Appender`]:
//! readers have its first bytes in place, up to the end of the last step, and none behind. A run that was found at an
//! opening is adopted as a whole, and never appended to.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use halite_pmem::{Appender, Domain, Flushed, Fresh, Pinned, Pool, Published};
use halite_sim::locks::{Mutex, RwLock};

use crate::Result;

/// Handles of a run that no reader has: this one, and the appender's.
const OWN_HANDLES: usize = 2;

/// Runs that are written in steps, by their first blocks.
pub(super) struct AppendedRuns {
    pool: Pool,
    all: RwLock<BTreeMap<u64, Appended>>,
    /// The bytes that were stored through the page cache since the last sync.
    unsynced: Mutex<BTreeMap<u64, Range<u64>>>,
}

struct Appended {
    published: Arc<Published>,
    appender: Mutex<Appender>,
}

impl Appended {
    /// Appends bytes if the last step ended at `at`. Returns the bytes that the next sync has to flush; `None` if it
    /// ended elsewhere.
    fn append(&self, pool: &Pool, at: u64, bytes: &[u8]) -> Result<Option<Range<u64>>> {
        let mut appender = self.appender.lock();
        if appender.tail() != at || appender.remaining() < bytes.len() as u64 {
            return Ok(None);
        }
        if bytes.is_empty() {
            return Ok(Some(at..at));
        }
        if pool.domain() == Domain::PageCache {
            let stored = appender.write(bytes);
            appender.reveal();
            return Ok(Some(stored));
        }
        let flushed = appender.write_stream(bytes);
        let [proof] = pool.fence([flushed])?;
        appender.publish(&proof);
        Ok(Some(at..at))
    }
}

impl AppendedRuns {
    pub(super) fn new(pool: Pool) -> Self {
        Self { pool, all: RwLock::default(), unsynced: Mutex::default() }
    }

    /// Begins a run with bytes.
    pub(super) fn begin(&self, block: u64, space: Fresh, bytes: &[u8]) -> Result<()> {
        let appender = space.into_appender(0);
        let published = Arc::clone(appender.published());
        let run = Appended { published, appender: Mutex::new(appender) };
        let stored = run.append(&self.pool, 0, bytes)?;
        self.note(block, stored);
        self.all.write().insert(block, run);
        Ok(())
    }

    /// Appends bytes to a run, if its last step ended at `at`, and there is room for them.
    pub(super) fn append(&self, block: u64, at: u64, bytes: &[u8]) -> Result<bool> {
        let all = self.all.read();
        let Some(run) = all.get(&block) else { return Ok(false) };
        let stored = run.append(&self.pool, at, bytes)?;
        let is_done = stored.is_some();
        self.note(block, stored);
        Ok(is_done)
    }

    fn note(&self, block: u64, stored: Option<Range<u64>>) {
        let Some(stored) = stored.filter(|stored| !stored.is_empty()) else { return };
        let mut unsynced = self.unsynced.lock();
        let of_run = unsynced.entry(block).or_insert_with(|| stored.clone());
        *of_run = of_run.start.min(stored.start)..of_run.end.max(stored.end);
    }

    /// Whether there is a run.
    pub(super) fn has(&self, block: u64) -> bool {
        self.all.read().contains_key(&block)
    }

    /// Where the last step of a run ended.
    pub(super) fn tail(&self, block: u64) -> Option<u64> {
        Some(self.all.read().get(&block)?.published.len())
    }

    /// Bytes of a run in place, if it has so many.
    pub(super) fn pin(&self, block: u64, range: Range<u64>) -> Option<Pinned> {
        self.all.read().get(&block)?.published.pin(range)
    }

    /// Reads bytes of a run, and zeros behind its end. Returns whether there is such a run.
    pub(super) fn read(&self, block: u64, at: u64, to: &mut [u8]) -> bool {
        let all = self.all.read();
        let Some(run) = all.get(&block) else { return false };
        let end = run.published.len().min(at + to.len() as u64).max(at);
        let bytes = run.published.read(at.min(end)..end).unwrap_or_default();
        to[..bytes.len()].copy_from_slice(bytes);
        to[bytes.len()..].fill(0);
        true
    }

    /// Gives up a run, if there is one. Returns whether that is done: not while a reader has bytes of it.
    pub(super) fn free(&self, block: u64) -> bool {
        let mut all = self.all.write();
        // A reader gets a handle from this map, which is locked, or from another reader.
        if all.get(&block).is_some_and(|run| Arc::strong_count(&run.published) > OWN_HANDLES) {
            return false;
        }
        self.unsynced.lock().remove(&block);
        all.remove(&block);
        true
    }

    /// Starts the write-back of all that was stored through the page cache.
    pub(super) fn flush(&self, flushed: &mut Vec<Flushed>) {
        let all = self.all.read();
        for (block, range) in std::mem::take(&mut *self.unsynced.lock()) {
            flushed.extend(all.get(&block).map(|run| run.published.flush(range)));
        }
    }
}
