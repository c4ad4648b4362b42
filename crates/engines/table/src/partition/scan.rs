//! Scans: committed rows, and those of the transaction among them.

use std::cmp::Ordering;
use std::ops::ControlFlow;

use super::Partition;
use crate::index::Direction;
use crate::method::Method;
use crate::{IndexState, KeyRange, Result, Row, RowRef, Table};

/// An entry of the scanned index in the write set.
struct Own<'a> {
    key: &'a [u8],
    /// The row's primary key; `None` if the entry is no more.
    leads_to: Option<&'a [u8]>,
}

impl<M: Method> Partition<M> {
    /// Visits the rows of a range of the primary key, or of the secondary index at a position, as the transaction has them,
    /// until the visitor breaks.
    ///
    /// # Errors
    /// [`Error::UnknownIndex`](crate::Error::UnknownIndex) for a position without an index, or with one that is being
    /// built; those of [`Partition::get`], [`Method::scan`] and of the visitor.
    pub fn scan(
        &self,
        table: &Table,
        position: Option<usize>,
        range: &KeyRange,
        direction: Direction,
        mut visit: impl FnMut(&[u8], RowRef<'_>) -> Result<ControlFlow<()>>,
    ) -> Result<()> {
        self.check_table(table)?;
        if let Some(position) = position {
            match table.indexes().nth(position) {
                Some(index) if index.state == IndexState::Ready => {}
                Some(index) => return Err(table.unknown_index(index.schema.name())),
                None => return Err(table.unknown_index(&format!("#{position}"))),
            }
        }
        if range.is_empty() {
            return Ok(());
        }
        let mut rows = self.method.scan(table, position, range, direction)?;
        let mut own = self.own(table, position, range);
        if direction == Direction::Reverse {
            own.reverse();
        }
        let mut own = own.into_iter().peekable();
        let mut committed = rows.next()?;
        loop {
            let order = match (&committed, own.peek()) {
                (None, None) => return Ok(()),
                (Some(_), None) => Ordering::Less,
                (None, Some(_)) => Ordering::Greater,
                (Some((key, _)), Some(own)) => match direction {
                    Direction::Forward => key.as_slice().cmp(own.key),
                    Direction::Reverse => own.key.cmp(key),
                },
            };
            let next = if order.is_lt() {
                let next = committed.take();
                committed = rows.next()?;
                // The transaction may have changed other columns.
                next.map(|(key, row)| Ok::<_, crate::Error>((key, self.current(table, row)?)))
                    .transpose()?
            } else {
                if order.is_eq() {
                    committed = rows.next()?;
                }
                let own = own.next().expect("it was there");
                let found = own.leads_to.map(|key| self.get(table, key)).transpose()?.flatten();
                found.map(|row| (own.key.to_vec(), row))
            };
            if let Some((key, row)) = next
                && visit(&key, row.view(table.schema())?)?.is_break()
            {
                return Ok(());
            }
        }
    }

    /// What the transaction wrote to the entries of a range.
    fn own<'a>(
        &'a self,
        table: &Table,
        position: Option<usize>,
        range: &'a KeyRange,
    ) -> Vec<Own<'a>> {
        let Some(writes) = &self.writes else { return Vec::new() };
        let bounds = range.bounds();
        match position.and_then(|position| table.indexes().nth(position)) {
            None => {
                let rows = writes.of_table(table.id()).into_iter();
                let rows = rows.flat_map(|rows| rows.range::<[u8], _>(bounds));
                let own = rows.map(|(key, write)| Own {
                    key,
                    leads_to: write.after.as_ref().map(|_| key.as_slice()),
                });
                own.collect()
            }
            Some(index) => {
                let entries = writes.of_index(index.id).into_iter();
                let entries = entries.flat_map(|entries| entries.range::<[u8], _>(bounds));
                entries.map(|(key, write)| Own { key, leads_to: write.after.as_deref() }).collect()
            }
        }
    }

    /// A committed row as the transaction has it.
    fn current(&self, table: &Table, row: Row) -> Result<Row> {
        let Some(rows) = self.writes.as_ref().and_then(|writes| writes.of_table(table.id())) else {
            return Ok(row);
        };
        let key = row.view(table.schema())?.primary_key()?;
        Ok(rows.get(&key).and_then(|write| write.after.clone()).unwrap_or(row))
    }
}
