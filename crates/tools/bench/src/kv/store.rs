//! The interface of a store under a workload: the adapter for every engine and every peer.

use std::path::Path;

/// A store's own error.
pub type StoreError = Box<dyn std::error::Error + Send + Sync>;

/// A result of a store.
pub type StoreResult<T> = std::result::Result<T, StoreError>;

/// A key-value store under measurement. It is opened before sessions are requested, and has none when it is closed.
pub trait Store: Send + Sync {
    /// A short name, one word.
    fn name(&self) -> &str;

    /// The durability of an acknowledged put, and the setting by which the store was given it. Known once the store has
    /// been open.
    fn durability(&self) -> String;

    /// Opens the store in `folder`, and creates it if the folder is empty or absent. When this
    /// returns, every record can be read.
    ///
    /// # Errors
    /// The store's own.
    fn open(&mut self, folder: &Path) -> StoreResult<()>;

    /// Closes the store cleanly, if it is open.
    ///
    /// # Errors
    /// The store's own.
    fn close(&mut self) -> StoreResult<()>;

    /// The session of one thread. Each thread requests its own.
    ///
    /// # Errors
    /// The store's own.
    fn session(&self) -> StoreResult<Box<dyn Session + '_>>;

    /// Lets it have so much memory from the next opening on. A store that has no such option keeps its own.
    fn set_memory(&mut self, _memory: Memory) {}

    /// Sorted runs of its level zero, if it has one and says so.
    fn runs(&self) -> Option<u64> {
        None
    }

    /// Keys in it, if it can tell.
    fn count(&self) -> StoreResult<Option<u64>> {
        Ok(None)
    }

    /// The store's counters since it was opened, if it counts.
    fn counters(&self) -> Option<Counters> {
        None
    }
}

/// Memory that a store may take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Memory {
    /// Bytes of one buffer of writes, of which a store may have a second one that is being written out.
    pub write_buffer: u64,
    /// Bytes of its cache of files.
    pub cache: u64,
}

/// A key and its value.
pub type Pair = (Vec<u8>, Vec<u8>);

/// A store as one thread sees it.
pub trait Session {
    /// Puts a record, durably.
    ///
    /// # Errors
    /// The store's own.
    fn put(&mut self, key: &[u8], value: &[u8]) -> StoreResult<()>;

    /// Puts records, durably, where the store can: together.
    ///
    /// # Errors
    /// The store's own.
    fn put_all(&mut self, pairs: &[Pair]) -> StoreResult<()> {
        pairs.iter().try_for_each(|(key, value)| self.put(key, value))
    }

    /// Calls `read` with the present value of `key`, if it has one.
    ///
    /// # Errors
    /// The store's own.
    fn get(&mut self, key: &[u8], read: &mut dyn FnMut(&[u8])) -> StoreResult<()>;

    /// Deletes `key`, durably, whether it is there or not.
    ///
    /// # Errors
    /// The store's own.
    fn delete(&mut self, key: &[u8]) -> StoreResult<()>;

    /// Calls `read` with up to `limit` pairs from `start` on, ascending.
    ///
    /// # Errors
    /// The store's own.
    fn scan(
        &mut self,
        start: &[u8],
        limit: u64,
        read: &mut dyn FnMut(&[u8], &[u8]),
    ) -> StoreResult<()>;
}

/// The counters of a store.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counters {
    /// Traffic to its medium.
    pub traffic: halite::Traffic,
    /// Bytes of DRAM that its index takes.
    pub index_bytes: u64,
    /// Records in it.
    pub records: u64,
    /// Syncs of its files, if it has some and counts them.
    pub syncs: Option<u64>,
}

impl Counters {
    /// Those of a store of Halite.
    #[must_use]
    pub fn of(stats: &halite::Stats) -> Self {
        Self {
            traffic: stats.traffic,
            index_bytes: stats.index_bytes,
            records: stats.records,
            syncs: stats.figure("disk_syncs"),
        }
    }

    /// Bytes that went to its pool: those of whole lines.
    #[must_use]
    pub fn pool_bytes(&self) -> u64 {
        const LINE: u64 = 64;
        self.traffic.lines * LINE
    }
}
