//! How levels are kept.

use halite_sst::TableOptions;

/// How levels are kept.
#[derive(Clone, Debug)]
pub struct LevelsOptions {
    /// How tables are written.
    pub table: TableOptions,
    /// How long a table gets, in bytes.
    pub table_bytes: u64,
    /// How much the first level below level 0 may have before another one is begun above it, in bytes: about
    /// [`LevelsOptions::ratio`] times the bytes that are merged into it at once.
    pub base_bytes: u64,
    /// How many times as much as a level the level below it may have.
    pub ratio: u64,
    /// Sorted runs of level 0 from which on they are merged into the level below.
    pub runs_min: usize,
    /// Sorted runs of level 0 at which the pressure is 1.
    pub runs_max: usize,
    /// Bytes beyond the levels' targets at which the pressure is 1.
    pub debt_bytes_max: u64,
    /// Bytes that the cache of blocks may take.
    pub cache_bytes: u64,
    /// Threads that work on one compaction.
    pub threads: usize,
    /// Length of a manifest from which on a new one is begun, in bytes.
    pub manifest_bytes_max: u64,
    /// Bytes of the disk that are set aside for compactions of removed data, at the least.
    pub ballast_bytes_min: u64,
    /// The most bytes of the ballast; 0: there is none.
    pub ballast_bytes_max: u64,
    /// Runs that the levels took, at the least, as far as the caller knows: levels with fewer are an older copy.
    pub flushes: u64,
    /// Whether a background thread runs compactions; otherwise [`super::Levels::compact`] does.
    pub background: bool,
}

impl Default for LevelsOptions {
    fn default() -> Self {
        Self {
            table: TableOptions::default(),
            table_bytes: 64 << 20,
            base_bytes: 1 << 30,
            ratio: 10,
            runs_min: 4,
            runs_max: 24,
            debt_bytes_max: 4 << 30,
            cache_bytes: 256 << 20,
            threads: 2,
            manifest_bytes_max: 4 << 20,
            ballast_bytes_min: 0,
            ballast_bytes_max: 0,
            flushes: 0,
            background: true,
        }
    }
}
