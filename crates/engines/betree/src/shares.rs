//! How the memory of the cache is divided.
//!
//! ```text
//!  0         nodes and directories, as many as there are      at most 3/4                 cache_bytes
//!  ├─────────────────────────────┬──────────────────────────────┬──────────────────────────┤
//!  │ nodes │ directories of runs │ parts of runs                                           │
//! ```
//!
//! A lookup uses one node a level and a directory for each run on its way, and one part. There are some hundred bytes
//! of parts for each byte of a node, and about 30 for each of a directory, with records of 116 bytes: so nodes and
//! directories go before parts, and a part gets what they leave.

use std::sync::Arc;

use halite_cache::BlockCache;
use halite_sim::locks::Mutex;

/// The steps in which memory goes from parts to others: a part of the whole.
const STEPS: u64 = 64;

/// The memory of the cache, and what others than parts take of it.
pub(crate) struct Shares {
    parts: Arc<BlockCache>,
    total: u64,
    taken: Mutex<Taken>,
}

/// Bytes that others than parts have.
#[derive(Default)]
struct Taken {
    nodes: u64,
    directories: u64,
    /// Bytes that parts leave to them.
    left: u64,
}

impl Shares {
    /// So many bytes, of which parts have all that others do not need.
    pub(crate) fn new(parts: Arc<BlockCache>, total: u64) -> Self {
        Self { parts, total, taken: Mutex::default() }
    }

    /// Bytes that nodes may take.
    pub(crate) fn node_bytes_max(&self) -> u64 {
        self.total / 8
    }

    /// Bytes that directories may take.
    pub(crate) fn directory_bytes_max(&self) -> u64 {
        self.total / 8 * 5
    }

    /// Lets nodes have so many bytes, before they take them.
    pub(crate) fn set_nodes(&self, bytes: u64) {
        self.set(|taken| taken.nodes = bytes);
    }

    /// Lets directories have so many bytes, before they take them.
    pub(crate) fn set_directories(&self, bytes: u64) {
        self.set(|taken| taken.directories = bytes);
    }

    fn set(&self, change: impl FnOnce(&mut Taken)) {
        let mut taken = self.taken.lock();
        change(&mut taken);
        let step = (self.total / STEPS).max(1);
        let left = (taken.nodes + taken.directories).next_multiple_of(step).min(self.total);
        // A step that was taken is given back when another one is free, too: parts are not evicted to and fro.
        if left > taken.left || left + step < taken.left {
            taken.left = left;
            self.parts.set_capacity(self.total - left);
        }
    }
}
