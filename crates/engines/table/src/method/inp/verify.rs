//! The use of memory and files, and their check.

use super::checkpoint::{files, read::CheckpointReader};
use super::tables::Tables;
use super::{InP, seed};
use crate::index::Direction;
use crate::method::Footprint;
use crate::method::catalog_slot::owner;
use crate::method::redo_log::Logged;
use crate::{Error, IndexState, KeyRange, Result, Table};
use halite_alloc::heap::{AnyPtr, NvPtr};

impl InP {
    pub(super) fn used(&self) -> Result<Footprint> {
        let usage = self.tables.heap.usage()?;
        let tables = self.tables.catalog().tables().iter();
        let of = |table: &std::sync::Arc<Table>| usage.owners.get(&owner(table.id().0));
        let table = tables.filter_map(of).map(|usage| usage.persisted).sum();
        let (index, taken) = self.tables.tree_bytes();
        Ok(Footprint {
            table,
            index,
            log: self.log.bytes(),
            checkpoint: files::bytes(&self.disk)?,
            other: usage.total - table + taken - index,
        })
    }

    /// Reads the last checkpoint, and the log behind its begin.
    pub(super) fn check_files(&self) -> Result<()> {
        let (number, begin) = self.checkpoints.last();
        let name = files::name_of(number);
        let mut reader = CheckpointReader::open(&self.disk, self.store_id, &name, number)?;
        while reader.next()?.is_some() {}
        let mut catalog = reader.catalog().clone();
        self.log.check_files(&self.disk, self.store_id, begin, |_, payload| {
            if let Logged::Catalog(next) = Logged::read(payload, &catalog, seed(self.store_id))? {
                catalog = next;
            }
            Ok(())
        })
    }
}

impl Tables {
    /// Checks all tuples, that each persisted slot is reached, and that the trees agree with the rows.
    pub(super) fn check(&self) -> Result<()> {
        let mut reachable = Vec::new();
        for table in self.catalog().tables() {
            self.check_table(table, &mut reachable)?;
        }
        self.heap.check(reachable)?;
        Ok(())
    }

    fn check_table(&self, table: &Table, reachable: &mut Vec<AnyPtr>) -> Result<()> {
        let damaged = |why: &str| {
            Err(Error::damaged(format!("an index of table {:?}", table.schema().name()), why))
        };
        let (tuples, primary) = (self.tuples(table), self.tree(table.primary())?);
        let mut scan = primary.scan(KeyRange::all().bounds(), Direction::Forward);
        while let Some((key, word)) = scan.next() {
            let row = tuples.row(&self.heap, NvPtr::from_word(word))?;
            let row = row.view(table.schema())?;
            if row.primary_key()? != key {
                return damaged("a row is not where its key is");
            }
            for index in table.indexes().filter(|index| index.state == IndexState::Ready) {
                let entry = row.index_entry(index.schema)?;
                if self.tree(index.id)?.get(&entry) != Some(word) {
                    return damaged("it does not lead to a row");
                }
            }
            reachable.extend(tuples.slots(&self.heap, NvPtr::from_word(word))?);
        }
        for index in table.indexes().filter(|index| index.state == IndexState::Ready) {
            if self.tree(index.id)?.len() != primary.len() {
                return damaged("it has more entries than there are rows");
            }
        }
        Ok(())
    }
}
