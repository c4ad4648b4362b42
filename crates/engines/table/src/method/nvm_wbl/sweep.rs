//! The sweep behind a crash: a walk through all indexes, in steps after commits and in reclamation, that finds the versions of
//! gaps, and the garbage whose queue the crash has ended. Readers do without it, and opening does not wait for it.
//!
//! It walks the secondary indexes first, for entries that no row has, and then the primary ones, for rows that
//! were removed or never covered, and for versions of gaps beside covered ones. No row goes while secondary indexes are
//! walked: an entry that is not found yet may lead to its head.

use std::collections::VecDeque;
use std::ops::Bound;
use std::sync::Arc;

use halite_alloc::heap::{Heap, NvPtr};
use halite_sim::planted;

use super::NvmWbl;
use super::garbage::Item;
use super::head::{Head, Versions};
use super::shared::State;
use crate::index::Direction;
use crate::{Catalog, IndexId, Result, Table, TableId};

/// Where the walk is.
pub(super) struct Sweep {
    /// The indexes that are left, and whether they are primary: these are the last.
    left: VecDeque<(TableId, IndexId, bool)>,
    /// The keys of the first one that are left.
    from: Bound<Vec<u8>>,
    /// Rows that transactions have removed while secondary indexes are walked.
    rows: Vec<(u64, Item)>,
    /// When the walk is over: the items that carry out what it has found.
    items: Option<u64>,
}

impl Sweep {
    pub(super) fn of(catalog: &Catalog) -> Self {
        let tables = catalog.tables();
        let secondary = tables.iter().flat_map(|table| {
            table.indexes().map(|index| (table.id(), index.id, false)).collect::<Vec<_>>()
        });
        let primary = tables.iter().map(|table| (table.id(), table.primary(), true));
        let left = secondary.chain(primary).collect();
        Self { left, from: Bound::Unbounded, rows: Vec::new(), items: None }
    }

    fn is_among_secondary(&self) -> bool {
        self.left.front().is_some_and(|&(_, _, is_primary)| !is_primary)
    }
}

impl NvmWbl {
    /// Puts what a transaction has made superfluous into the queue, or has rows wait until all stale entries are before them.
    pub(super) fn discard(&mut self, item: Item) {
        match (&mut self.sweep, &item) {
            (Some(sweep), Item::Row { .. }) if sweep.is_among_secondary() => {
                sweep.rows.push((self.last, item));
            }
            _ => self.garbage.push(self.last, item),
        }
    }

    /// Walks on by some keys.
    pub(super) fn walk(&mut self, mut keys: usize) -> Result<()> {
        let shared = Arc::clone(&self.shared);
        let state = shared.state.read();
        while keys > 0 {
            let Some(sweep) = &self.sweep else { return Ok(()) };
            let Some(&(table, index, is_primary)) = sweep.left.front() else { break };
            let mut last = None;
            // An index that was dropped has nothing to be found; but a view that has it may follow its entries to heads.
            if self.tree(index).is_err() && self.is_dropped_viewed() {
                return Ok(());
            }
            if let Ok(table) = self.catalog.table_by_id(table).cloned()
                && let Ok(tree) = self.tree(index)
            {
                let from = sweep.from.as_ref().map(Vec::as_slice);
                let mut scan =
                    tree.scan(&state.heap, (from, Bound::Unbounded), Direction::Forward)?;
                while keys > 0
                    && let Some((key, word)) = scan.next()?
                {
                    keys -= 1;
                    last = (keys == 0).then(|| key.to_vec());
                    if let Some(item) = self.look(&state, &table, (index, is_primary), key, word)? {
                        self.garbage.push(self.commits.covered, item);
                    }
                }
            }
            let sweep = self.sweep.as_mut().expect("it is there");
            sweep.from = match last {
                Some(last) => Bound::Excluded(last),
                None => {
                    sweep.left.pop_front();
                    Bound::Unbounded
                }
            };
            if !sweep.is_among_secondary() {
                sweep.rows.drain(..).for_each(|(from, item)| self.garbage.push(from, item));
            }
        }
        if let Some(sweep) = &mut self.sweep
            && sweep.left.is_empty()
        {
            sweep.items.get_or_insert(self.garbage.pushed());
        }
        Ok(())
    }

    /// Looks at an entry of an index.
    fn look(
        &self,
        state: &State,
        table: &Table,
        (index, is_primary): (IndexId, bool),
        key: &[u8],
        word: u64,
    ) -> Result<Option<Item>> {
        let (head, key) = (NvPtr::<Head>::from_word(word), key.to_vec());
        if is_primary {
            let is_garbage = self.is_garbage(&state.heap, head)?;
            return Ok(is_garbage.then(|| Item::Row { table: table.id(), key }));
        }
        let is_stale = self.is_stale(state, table, index, &key, head)?;
        Ok(is_stale.then_some(Item::Entry { index, key }))
    }

    /// Whether a head is of no row, or has a version that a crash left.
    fn is_garbage(&self, heap: &Heap, head: NvPtr<Head>) -> Result<bool> {
        let versions = Versions::read(heap, head)?;
        let current = versions.covered(head, &self.commits.sight())?;
        let is_left = self.commits.is_lost(versions.0[1 - current].timestamp);
        Ok(versions.0[current].tuple.is_null()
            || planted!("table.nvm-wbl-sweep-passes-versions", false, is_left))
    }

    /// Whether the sweep is over, and all that it has found is carried out.
    pub(super) fn is_swept(&self) -> bool {
        let items = self.sweep.as_ref().and_then(|sweep| sweep.items);
        items.is_some_and(|items| self.garbage.done() >= items)
    }

    /// Forgets the gaps when nothing of them is left. One fence then.
    pub(super) fn end_sweep(&mut self) -> Result<()> {
        if !self.is_swept() {
            return Ok(());
        }
        let shared = Arc::clone(&self.shared);
        let forgotten = self.commits.forget_gaps(&mut shared.state.write().heap);
        self.failing(forgotten)?;
        self.sweep = None;
        Ok(())
    }
}
