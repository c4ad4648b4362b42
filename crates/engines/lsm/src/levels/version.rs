//! A tree at one moment: its tables, level by level. Versions do not change; a reader holds one, and the files that
//! it needs stay.

use std::sync::Arc;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

use halite_cache::BlockCache;
use halite_disk::Disk;
use halite_sst::{Span, Table, TableId};
use parking_lot::Mutex;

use super::edit::{LEVELS, Place, TableMeta};
use super::error::Result;
use super::names;
use crate::values::Values;

/// The state that all tables of a store share.
pub(crate) struct Files {
    pub(crate) disk: Disk,
    pub(crate) store_id: u128,
    pub(crate) cache: Arc<BlockCache>,
    pub(crate) values: Values,
    /// Numbers of tables that no version needs any more.
    pub(crate) graveyard: Mutex<Vec<u64>>,
}

/// A table of a version: open, once a reader has read it.
pub(crate) struct TableFile {
    pub(crate) meta: TableMeta,
    files: Arc<Files>,
    table: OnceLock<Table>,
    /// Whether the manifest does not have it any more.
    is_removed: AtomicBool,
    /// Whether a compaction could not read it.
    is_unreadable: AtomicBool,
}

impl TableFile {
    pub(crate) fn new(meta: TableMeta, files: &Arc<Files>) -> Arc<Self> {
        Arc::new(Self {
            meta,
            files: Arc::clone(files),
            table: OnceLock::new(),
            is_removed: AtomicBool::new(false),
            is_unreadable: AtomicBool::new(false),
        })
    }

    /// The table, opened.
    pub(crate) fn table(&self) -> Result<&Table> {
        if let Some(table) = self.table.get() {
            return Ok(table);
        }
        let id = TableId { store_id: self.files.store_id, number: self.meta.number };
        let name = names::table(self.meta.number);
        let table = Table::open(&self.files.disk, &name, id, &self.files.cache)?;
        Ok(self.table.get_or_init(|| table))
    }

    /// No compaction tries again.
    pub(crate) fn set_unreadable(&self) {
        self.is_unreadable.store(true, Ordering::Relaxed);
    }

    pub(crate) fn is_unreadable(&self) -> bool {
        self.is_unreadable.load(Ordering::Relaxed)
    }

    /// The file is removed when the last version that has it is dropped.
    pub(crate) fn remove(&self) {
        self.is_removed.store(true, Ordering::Relaxed);
    }
}

impl Drop for TableFile {
    fn drop(&mut self) {
        if *self.is_removed.get_mut() {
            // Removing a file takes longer than a reader wants to wait.
            self.files.graveyard.lock().push(self.meta.number);
        }
    }
}

/// Tables whose spans do not overlap, in the order of their keys.
#[derive(Default)]
pub(crate) struct Run {
    /// In level 0, its number.
    pub(crate) number: u64,
    pub(crate) tables: Vec<Arc<TableFile>>,
    /// Whether any of them has.
    pub(crate) has_range_deletes: bool,
}

impl Run {
    /// The table that has a key, if one may have it.
    #[inline]
    pub(crate) fn find(&self, key: &[u8]) -> Option<&Arc<TableFile>> {
        let at = self.tables.partition_point(|table| table.meta.span.is_before(key));
        self.tables.get(at).filter(|table| table.meta.span.contains(key))
    }

    /// The tables that have keys from `from` on, below `to`.
    pub(crate) fn overlapping(&self, from: Option<&[u8]>, to: Option<&[u8]>) -> &[Arc<TableFile>] {
        let start = from
            .map_or(0, |from| self.tables.partition_point(|table| table.meta.span.is_before(from)));
        let rest = &self.tables[start..];
        let len =
            to.map_or(rest.len(), |to| rest.partition_point(|table| *table.meta.span.first < *to));
        &rest[..len]
    }

    /// The tables that have a key in common with a span.
    pub(crate) fn overlapping_span(&self, span: &Span) -> &[Arc<TableFile>] {
        let start = self.tables.partition_point(|table| table.meta.span.is_before(&span.first));
        let rest = &self.tables[start..];
        &rest[..rest.partition_point(|table| !span.is_before(&table.meta.span.first))]
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.tables.iter().map(|table| table.meta.file_len).sum()
    }
}

/// A tree at one moment.
#[derive(Clone, Default)]
pub(crate) struct TreeVersion {
    /// Level 0 has any number of runs, the newest first; others have one or none.
    pub(crate) levels: [Vec<Arc<Run>>; LEVELS],
}

impl TreeVersion {
    /// The version in which some tables are removed and others added.
    pub(crate) fn changed(
        &self,
        removed: &[(usize, u64)],
        added: &[(Place, Arc<TableFile>)],
    ) -> Self {
        let mut next = self.clone();
        for (level, runs) in next.levels.iter_mut().enumerate() {
            let is_touched = removed.iter().any(|(from, _)| *from == level)
                || added.iter().any(|(place, _)| place.level == level);
            if !is_touched {
                continue;
            }
            let mut changed: Vec<Run> = Vec::new();
            for run in runs.iter() {
                let stays =
                    |table: &&Arc<TableFile>| !removed.contains(&(level, table.meta.number));
                let tables = run.tables.iter().filter(stays).cloned().collect();
                changed.push(Run { number: run.number, tables, ..Run::default() });
            }
            for (place, table) in added.iter().filter(|(place, _)| place.level == level) {
                let at =
                    changed.iter().position(|run| run.number == place.run).unwrap_or_else(|| {
                        changed.push(Run { number: place.run, ..Run::default() });
                        changed.len() - 1
                    });
                changed[at].tables.push(Arc::clone(table));
            }
            changed.retain(|run| !run.tables.is_empty());
            changed.sort_by_key(|run| std::cmp::Reverse(run.number));
            for run in &mut changed {
                run.tables.sort_by(|a, b| a.meta.span.first.cmp(&b.meta.span.first));
                run.has_range_deletes = run.tables.iter().any(|table| table.meta.range_deletes > 0);
            }
            *runs = changed.into_iter().map(Arc::new).collect();
        }
        next
    }

    /// All runs, the newer before the older, and their levels.
    pub(crate) fn runs(&self) -> impl Iterator<Item = (usize, &Arc<Run>)> {
        self.levels
            .iter()
            .enumerate()
            .flat_map(|(level, runs)| runs.iter().map(move |run| (level, run)))
    }

    /// The table with a number, and where it is; its tree is not known here.
    pub(crate) fn place_of(&self, number: u64) -> Option<(Place, Arc<TableFile>)> {
        self.runs().find_map(|(level, run)| {
            let table = run.tables.iter().find(|table| table.meta.number == number)?;
            let run = if level == 0 { run.number } else { 0 };
            Some((Place { tree: 0, level, run }, Arc::clone(table)))
        })
    }

    /// Whether a level below `level` may have keys from `from` on, below `to`.
    pub(crate) fn is_below(&self, level: usize, from: &[u8], to: Option<&[u8]>) -> bool {
        self.levels[level + 1..].iter().flatten().any(|run| match to {
            Some(to) => !run.overlapping(Some(from), Some(to)).is_empty(),
            None => run.find(from).is_some(),
        })
    }

    pub(crate) fn level_bytes(&self) -> [u64; LEVELS] {
        std::array::from_fn(|level| self.levels[level].iter().map(|run| run.bytes()).sum())
    }

    /// Two neighbours of a run that overlap, if there are any: tables' numbers.
    pub(crate) fn overlap(&self) -> Option<(u64, u64)> {
        let mut pairs = self.runs().flat_map(|(_, run)| run.tables.windows(2));
        let pair = pairs.find(|pair| !pair[0].meta.span.is_before(&pair[1].meta.span.first))?;
        Some((pair[0].meta.number, pair[1].meta.number))
    }
}
