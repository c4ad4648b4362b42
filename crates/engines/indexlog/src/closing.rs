//! The mark of a store that was closed: a digest of the block maps of all its partitions, in a root of the pool. The
//! next opening notices any change that a power cut or a fault has made to the maps since.

use std::sync::Arc;

use halite_alloc::Segments;
use halite_contract::Result;
use halite_sim::locks::Mutex;

/// The root that holds the digest of a store that was closed; zero while it is open.
const ROOT: &str = "indexlog:map";

/// Gathers the digests of partitions as they close, and stores their sum when the last one has.
pub(crate) struct Closing {
    segments: Arc<Segments>,
    /// Partitions that are open, and the sum of the digests of the others. `None` if they are not the partitions of a
    /// store that can be opened.
    state: Mutex<Option<(usize, u64)>>,
}

impl Closing {
    pub(crate) fn new(segments: &Arc<Segments>, partitions: usize) -> Arc<Self> {
        let state = Mutex::new(Some((partitions, 0)));
        Arc::new(Self { segments: Arc::clone(segments), state })
    }

    /// Notes that the partitions are not those of the store, no longer or not yet.
    pub(crate) fn forget(&self) {
        *self.state.lock() = None;
    }

    /// Whether the partitions are those of the store.
    pub(crate) fn is_wanted(&self) -> bool {
        self.state.lock().is_some()
    }

    /// Adds the digest of a partition that was closed.
    pub(crate) fn add(&self, digest: u64) {
        let mut state = self.state.lock();
        let Some((open, sum)) = state.as_mut() else { return };
        *open -= 1;
        *sum = sum.wrapping_add(digest);
        if *open == 0 {
            // If this fails, the next open reads the records, as after a crash.
            let _ = self.segments.set_root(ROOT, (*sum).max(1));
        }
    }
}

/// The digest of the store, if it was closed.
pub(crate) fn closed_digest(segments: &Segments) -> Option<u64> {
    segments.root(ROOT).filter(|&digest| digest != 0)
}

/// Whether the digests of its partitions are those of a store that was closed with `digest`.
pub(crate) fn is_as_closed(digest: u64, partitions: impl Iterator<Item = u64>) -> bool {
    partitions.fold(0, u64::wrapping_add).max(1) == digest
}

/// Notes that the store is open.
pub(crate) fn reopened(segments: &Segments) -> Result<()> {
    Ok(segments.set_root(ROOT, 0)?)
}
