//! Statistics of the levels.

use super::edit::LEVELS;

/// A level.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LevelStats {
    /// Sorted runs, of all trees.
    pub runs: u64,
    /// Tables.
    pub tables: u64,
    /// Bytes of their files.
    pub bytes: u64,
    /// Entries.
    pub entries: u64,
}

/// The state of the levels, and their work since they were opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LevelsStats {
    /// Level by level, of all trees.
    pub levels: [LevelStats; LEVELS],
    /// Bytes of keys and values that came from above.
    pub bytes_added: u64,
    /// Bytes of tables that were written for that.
    pub bytes_written: u64,
    /// Bytes of tables that were read to be compacted.
    pub bytes_compacted: u64,
    /// Compactions that wrote tables.
    pub compactions: u64,
    /// Compactions that only moved tables.
    pub moves: u64,
    /// Gets.
    pub gets: u64,
    /// Tables that gets looked into, filters included.
    pub tables_asked: u64,
    /// Blocks that were not in the cache.
    pub block_reads: u64,
    /// Bytes in the cache.
    pub cache_bytes: u64,
    /// Bytes of files of large values, those that memory refers to included.
    pub value_bytes: u64,
    /// Bytes of DRAM that the files take, where they lie in memory.
    pub memory_bytes: u64,
    /// Tables that have a descriptor.
    pub tables_open: u64,
    /// Files opened to be read, again or for the first time.
    pub opens: u64,
    /// Syncs of files and of the folder.
    pub syncs: u64,
}

impl LevelsStats {
    /// Bytes written for each byte that came from above; 0, if none came.
    #[must_use]
    pub fn write_amplification(&self) -> f64 {
        self.bytes_written as f64 / self.bytes_added.max(1) as f64
    }

    /// Tables that a get looked into; 0, if there was none.
    #[must_use]
    pub fn read_amplification(&self) -> f64 {
        self.tables_asked as f64 / self.gets.max(1) as f64
    }
}
