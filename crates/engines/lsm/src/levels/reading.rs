//! Reads of the levels.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use halite_cache::SecondTier;
use halite_disk::Writer;
use halite_sst::{Found, RANGE_DELETE, Value, hash_key};

use super::error::Result;
use super::inner::{FLUSHES, Levels};
use super::iter::LevelsIter;
use super::source::Direction;
use super::stats::LevelsStats;
use crate::values::{Values, Written};

impl Levels {
    /// The newest version of a key in a tree that is not above a sequence number. A version that a range delete
    /// covers is returned as that: of kind [`RANGE_DELETE`], without a value.
    ///
    /// # Errors
    /// [`super::Error::Damaged`], [`super::Error::Missing`] or others of a table that may have it; what the
    /// disk says.
    pub fn get(&self, tree: u32, key: &[u8], at: u64) -> Result<Option<Found>> {
        let Some(version) = self.inner.version(tree) else { return Ok(None) };
        let counters = &self.inner.counters;
        counters.gets.fetch_add(1, Ordering::Relaxed);
        let key_hash = hash_key(key);
        let mut asked = 0;
        let mut find = || {
            for (_, run) in version.runs() {
                let Some(table) = run.find(key) else { continue };
                if table.meta.sequence_min > at {
                    continue;
                }
                asked += 1;
                let table_file = table.table()?;
                let found = table_file.get_hashed(key, key_hash, at)?;
                if table.meta.range_deletes > 0
                    && let Some(sequence) = table_file.range_deletes().covering(key, at)
                    && found.as_ref().is_none_or(|found| found.sequence < sequence)
                {
                    return Ok(Some(Found { sequence, kind: RANGE_DELETE, value: Value::empty() }));
                }
                if found.is_some() {
                    return Ok(found);
                }
            }
            Ok(None)
        };
        let found = find();
        counters.tables_asked.fetch_add(asked, Ordering::Relaxed);
        found
    }

    /// A scan of the keys of a tree from `from` on that are below `to`, with the versions that are not above `at`.
    ///
    /// # Errors
    /// As [`Levels::get`].
    pub fn iter(
        &self,
        tree: u32,
        (from, to): (Option<&[u8]>, Option<&[u8]>),
        direction: Direction,
        at: u64,
    ) -> Result<LevelsIter> {
        let version = self.inner.version(tree).unwrap_or_default();
        LevelsIter::new(&version, (from, to), direction, at)
    }

    /// Lets blocks be sought in another cache, too, and moved there when this one evicts them.
    pub(crate) fn set_second_cache(&self, second: Arc<dyn SecondTier>) {
        self.inner.files.cache.set_second(second);
    }

    /// The files of large values.
    pub(crate) fn values(&self) -> &Values {
        &self.inner.files.values
    }

    /// Writes a large value, durably, which no version refers to yet. `visible` is below the version that will.
    pub(crate) fn write_value(&self, value: &[u8], visible: u64) -> Result<Written<'_>> {
        let number = self.inner.numbers.fetch_add(1, Ordering::Relaxed);
        let reserve =
            |writer: &mut Writer, len| self.reserve_beside_ballast(|| writer.reserve(len));
        self.values().write(number, value, visible, &reserve)
    }

    /// Makes all later numbers of files larger than this one.
    pub(crate) fn pass_number(&self, number: u64) {
        self.inner.numbers.fetch_max(number + 1, Ordering::Relaxed);
    }

    /// Removes the files of tables that no reader uses any more.
    pub(crate) fn bury(&self) {
        self.inner.bury();
    }

    /// How often they were changed since they were opened.
    pub(crate) fn edits(&self) -> u64 {
        self.inner.counters.edits.load(Ordering::Relaxed)
    }

    /// How far behind compaction is: 0 if it keeps up, 1 if writers should wait for it.
    #[must_use]
    pub fn pressure(&self) -> f64 {
        f64::from_bits(self.inner.pressure.load(Ordering::Relaxed))
    }

    /// The id up to which the memtables of a tree are in the levels.
    #[must_use]
    pub fn memtables(&self, tree: u32) -> Option<u64> {
        self.inner.locked.lock().state.memtables.get(&tree).copied()
    }

    /// A number that the engine keeps here.
    #[must_use]
    pub fn word(&self, name: &str) -> Option<u64> {
        self.inner.locked.lock().state.words.get(name).copied()
    }

    /// The runs that came from memory, as far as changes count them.
    #[must_use]
    pub(crate) fn flushes(&self) -> u64 {
        self.word(FLUSHES).unwrap_or(0)
    }

    /// The trees that have tables.
    #[must_use]
    pub fn trees(&self) -> Vec<u32> {
        self.inner.trees.read().keys().copied().collect()
    }

    /// The largest sequence number that a tree's tables have.
    #[must_use]
    pub fn sequence_max(&self, tree: u32) -> Option<u64> {
        let version = self.inner.version(tree)?;
        let tables = version.runs().flat_map(|(_, run)| &run.tables);
        tables.map(|table| table.meta.sequence_max).max()
    }

    /// Statistics of the levels.
    #[must_use]
    pub fn stats(&self) -> LevelsStats {
        let inner = &*self.inner;
        let mut stats = LevelsStats::default();
        for version in inner.trees.read().values() {
            for (level, run) in version.runs() {
                let level = &mut stats.levels[level];
                level.runs += 1;
                level.tables += run.tables.len() as u64;
                level.bytes += run.bytes();
                level.entries += run.tables.iter().map(|table| table.meta.entries).sum::<u64>();
            }
        }
        let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let counters = &inner.counters;
        stats.bytes_added = count(&counters.bytes_added);
        stats.bytes_written = count(&counters.bytes_written);
        stats.bytes_compacted = count(&counters.bytes_compacted);
        stats.compactions = count(&counters.compactions);
        stats.moves = count(&counters.moves);
        stats.gets = count(&counters.gets);
        stats.tables_asked = count(&counters.tables_asked);
        stats.block_reads = inner.files.cache.reads();
        stats.cache_bytes = inner.files.cache.used_bytes();
        stats.value_bytes = inner.files.values.bytes();
        stats.memory_bytes = inner.files.disk.memory_bytes();
        stats.tables_open = inner.files.disk.kept_open().1 as u64;
        let traffic = inner.files.disk.traffic();
        (stats.opens, stats.syncs) = (traffic.opens, traffic.syncs);
        stats
    }

    /// Descriptors of the folder that may be open at once: tables that are read; those that are written, by two
    /// compactions; one for each thread that reads a table which was closed behind it; and for some time the folder
    /// itself, its list, two manifests and `CURRENT`, and two files of the log.
    #[must_use]
    pub fn descriptors_max(&self) -> u64 {
        const FILES: u64 = 8;
        const READERS: u64 = 16;
        let tables = self.inner.files.disk.kept_open().0 as u64;
        tables + 2 * self.inner.options.threads as u64 + READERS + FILES
    }
}
