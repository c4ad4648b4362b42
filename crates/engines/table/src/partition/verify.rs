//! Checks that tables and indexes agree, whatever the method.

use std::ops::ControlFlow;

use super::Partition;
use crate::index::Direction;
use crate::method::Method;
use crate::{Error, IndexState, KeyRange, Result, Table};

impl<M: Method> Partition<M> {
    /// Checks all that is stored: first as the method knows it, then every row, and that each index has the entry of each
    /// row and no other. Returns the number of rows.
    ///
    /// # Errors
    /// [`Error::Damaged`] for the first defect; [`Error::Transaction`] within one.
    pub fn verify(&mut self) -> Result<u64> {
        self.outside("verify")?;
        self.method.verify()?;
        let tables = self.catalog().tables().iter();
        tables.map(|table| self.verify_table(table)).sum()
    }

    fn verify_table(&self, table: &Table) -> Result<u64> {
        let damaged =
            |why: String| Error::damaged(format!("table {:?}", table.schema().name()), why);
        let mut count = 0;
        self.scan(table, None, &KeyRange::all(), Direction::Forward, |key, row| {
            count += 1;
            row.check()?;
            if row.primary_key()? != key {
                return Err(damaged(format!(
                    "a row is not where its key is: {}",
                    key.escape_ascii()
                )));
            }
            for (position, index) in table.indexes().enumerate() {
                let entry = row.index_entry(index.schema)?;
                if self.method.entry(table, position, &entry)?.as_deref() != Some(key) {
                    let (index, key) = (index.schema.name(), key.escape_ascii());
                    return Err(damaged(format!("index {index:?} does not lead to row {key}")));
                }
            }
            Ok(ControlFlow::Continue(()))
        })?;
        for (position, index) in table.indexes().enumerate() {
            if index.state == IndexState::Building {
                continue;
            }
            let mut entries = 0;
            self.scan(table, Some(position), &KeyRange::all(), Direction::Reverse, |_, _| {
                entries += 1;
                Ok(ControlFlow::Continue(()))
            })?;
            if entries != count {
                let index = index.schema.name();
                return Err(damaged(format!("index {index:?} has {entries} entries, not {count}")));
            }
        }
        Ok(count)
    }
}
