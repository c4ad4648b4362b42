//! The group: the transactions since the last sync, whose versions are written, and which nothing leads to yet. It has the
//! last version of each row that they changed (a "dirty tuple table"), in DRAM.

use std::collections::BTreeMap;

use halite_alloc::heap::{AnyPtr, NvPtr};

use super::head::Head;
use crate::tuple::Tuple;
use crate::{IndexId, TableId};

/// A version that no record covers.
#[derive(Debug, Clone)]
pub(super) struct Pending {
    /// The row's head; null as long as it has none.
    pub(super) head: NvPtr<Head>,
    /// Null if the row was removed.
    pub(super) tuple: NvPtr<Tuple>,
    pub(super) timestamp: u64,
    /// Slots that are only reserved.
    pub(super) slots: Vec<AnyPtr>,
    /// The head leads to it: a sync was broken off.
    pub(super) is_linked: bool,
}

/// The rows that the transactions have changed, and the entries of secondary indexes: the primary key that one leads to.
#[derive(Default)]
pub(super) struct Group {
    pub(super) rows: BTreeMap<TableId, BTreeMap<Vec<u8>, Pending>>,
    pub(super) entries: BTreeMap<IndexId, BTreeMap<Vec<u8>, Option<Vec<u8>>>>,
    /// Slots and entries that change, about.
    pub(super) changes: usize,
}

impl Group {
    pub(super) fn is_empty(&self) -> bool {
        self.rows.is_empty() && self.entries.is_empty()
    }

    pub(super) fn row(&self, table: TableId, key: &[u8]) -> Option<&Pending> {
        self.rows.get(&table)?.get(key)
    }

    pub(super) fn row_mut(&mut self, table: TableId, key: &[u8]) -> Option<&mut Pending> {
        self.rows.get_mut(&table)?.get_mut(key)
    }

    pub(super) fn entry(&self, index: IndexId, entry: &[u8]) -> Option<Option<&[u8]>> {
        self.entries.get(&index)?.get(entry).map(Option::as_deref)
    }
}
