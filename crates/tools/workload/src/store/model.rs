//! Rows in memory, for tests: transactions run one after the other, behind a lock.

use std::collections::BTreeMap;
use std::ops::Bound;

use halite_contract::Direction;
use halite_sim::locks::Mutex;
use halite_table::{KeyRange, TableSchema};

use super::keyed::{Keyed, Pairs, Tables, VisitPair};
use super::{Body, Ended, Homes, Outcome, Store};
use crate::Result;

type Space = BTreeMap<Vec<u8>, Vec<u8>>;

/// A store in memory. A transaction that does not commit is undone.
#[derive(Debug)]
pub struct ModelStore {
    tables: Tables,
    spaces: Mutex<Vec<Space>>,
}

impl ModelStore {
    /// An empty store of these tables.
    #[must_use]
    pub fn new(schemas: &[TableSchema]) -> Self {
        let tables = Tables::new(schemas);
        let spaces = vec![Space::new(); tables.names().len()];
        Self { tables, spaces: Mutex::new(spaces) }
    }

    /// Pairs and bytes of a table or index called `table` or `table.index`, for each.
    #[must_use]
    pub fn sizes(&self) -> Vec<(String, u64, u64)> {
        let spaces = self.spaces.lock();
        let sizes = self.tables.names().into_iter().zip(&*spaces).map(|(name, space)| {
            let bytes = space.iter().map(|(key, value)| key.len() + value.len()).sum::<usize>();
            (name, space.len() as u64, bytes as u64)
        });
        sizes.collect()
    }

    /// The store's whole content, to compare it with that of another moment.
    #[cfg(test)]
    pub(crate) fn content(&self) -> Vec<Space> {
        self.spaces.lock().clone()
    }
}

impl Store for ModelStore {
    fn run(&self, _homes: Homes<'_>, body: &mut Body<'_>) -> Result<Ended> {
        let mut spaces = self.spaces.lock();
        let pairs = Undoable { spaces: &mut spaces, undo: Vec::new() };
        let mut transaction = Keyed { tables: &self.tables, pairs };
        let done = body(&mut transaction);
        if !matches!(done, Ok(Outcome::Commit)) {
            transaction.pairs.roll_back();
        }
        Ok(Ended { outcome: done?, retries: 0 })
    }
}

/// The spaces, and the pairs as they were before the transaction, the latest change last.
struct Undoable<'a> {
    spaces: &'a mut Vec<Space>,
    undo: Vec<(usize, Vec<u8>, Option<Vec<u8>>)>,
}

impl Undoable<'_> {
    fn roll_back(&mut self) {
        while let Some((space, key, before)) = self.undo.pop() {
            match before {
                Some(value) => self.spaces[space].insert(key, value),
                None => self.spaces[space].remove(&key),
            };
        }
    }
}

impl Pairs for Undoable<'_> {
    type Value = Vec<u8>;

    fn get(&self, space: usize, key: &[u8], _for_update: bool) -> Result<Option<Vec<u8>>> {
        Ok(self.spaces[space].get(key).cloned())
    }

    fn put(&mut self, space: usize, key: &[u8], value: &[u8]) -> Result<()> {
        let before = self.spaces[space].insert(key.to_vec(), value.to_vec());
        self.undo.push((space, key.to_vec(), before));
        Ok(())
    }

    fn delete(&mut self, space: usize, key: &[u8]) -> Result<()> {
        let before = self.spaces[space].remove(key);
        self.undo.push((space, key.to_vec(), before));
        Ok(())
    }

    fn scan(
        &self,
        space: usize,
        range: KeyRange,
        direction: Direction,
        visit: &mut VisitPair<'_>,
    ) -> Result<()> {
        if range.is_empty() {
            return Ok(());
        }
        let to = range.to.map_or(Bound::Unbounded, Bound::Excluded);
        let mut pairs = self.spaces[space].range((Bound::Included(range.from), to));
        while let Some((key, value)) = match direction {
            Direction::Forward => pairs.next(),
            Direction::Reverse => pairs.next_back(),
        } {
            if visit(key, value)?.is_break() {
                break;
            }
        }
        Ok(())
    }
}
