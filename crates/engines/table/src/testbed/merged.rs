//! The rows of several partitions in the order of their keys.
//!
//! ```text
//!  partition 0 ─► page ─┐
//!  partition 1 ─► page ─┼─► least key ─► row
//!  partition 2 ─► page ─┘
//! ```
//!
//! A page has some rows of one partition, and the next one begins behind its last key. Meanwhile the transaction holds the
//! partitions, so that all pages are of one state. A page costs a descent of the index; DRAM has a page a partition.
//!
//! A program may keep a copy of a table in each partition, so that no transaction needs another one for it. Rows that are equal
//! are given once.

use std::collections::VecDeque;
use std::ops::ControlFlow;
use std::sync::Arc;

use super::Transaction;
use crate::index::Direction;
use crate::{KeyRange, Result, Row, Table};

/// A page ends at so many rows, or bytes.
const PAGE_ROWS: usize = 256;
const PAGE_BYTES: usize = 1 << 20;

/// What was not yet given of a partition.
struct Source {
    partition: usize,
    table: Arc<Table>,
    /// The position of the scanned index; `None` for the primary key.
    index: Option<usize>,
    /// The keys that no page had.
    rest: KeyRange,
    page: VecDeque<(Vec<u8>, Row)>,
    has_more: bool,
}

/// The rows of a range of keys in all partitions of a transaction, one after the other.
pub struct MergedRows<'t, 'a> {
    transaction: &'t mut Transaction<'a>,
    direction: Direction,
    sources: Vec<Source>,
}

impl<'a> Transaction<'a> {
    /// The rows of a range of a table's primary key, or of a secondary index, in all partitions of the transaction, merged
    /// by their keys.
    ///
    /// # Errors
    /// [`Error::UnknownTable`](crate::Error::UnknownTable), [`Error::UnknownIndex`](crate::Error::UnknownIndex).
    pub fn merged(
        &mut self,
        table: &str,
        index: Option<&str>,
        range: &KeyRange,
        direction: Direction,
    ) -> Result<MergedRows<'_, 'a>> {
        let partitions: Vec<_> = self.parts.iter().map(|(number, _)| *number).collect();
        let sources = partitions.into_iter().map(|partition| {
            let table = self.table(partition, table)?;
            let index = index.map(|name| table.schema().index(name)).transpose()?;
            let (rest, page) = (range.clone(), VecDeque::new());
            Ok(Source { partition, table, index, rest, page, has_more: true })
        });
        let sources = sources.collect::<Result<_>>()?;
        Ok(MergedRows { transaction: self, direction, sources })
    }
}

impl MergedRows<'_, '_> {
    /// The next row. The first partition comes first where several have a key; its copies in the others are left out.
    ///
    /// # Errors
    /// Those of [`Partition::scan`](crate::Partition::scan).
    #[expect(clippy::should_implement_trait, reason = "an iterator would give results of options")]
    pub fn next(&mut self) -> Result<Option<Row>> {
        let mut next: Option<usize> = None;
        for at in 0..self.sources.len() {
            let source = &mut self.sources[at];
            if source.page.is_empty() && source.has_more {
                source.read(self.transaction, self.direction)?;
            }
            let Some((key, _)) = self.sources[at].page.front() else { continue };
            let is_before = next.is_none_or(|next| {
                let least = &self.sources[next].page[0].0;
                match self.direction {
                    Direction::Forward => key < least,
                    Direction::Reverse => key > least,
                }
            });
            if is_before {
                next = Some(at);
            }
        }
        let Some(found) = next.and_then(|at| self.sources[at].page.pop_front()) else {
            return Ok(None);
        };
        for source in &mut self.sources {
            if source.page.front() == Some(&found) {
                source.page.pop_front();
            }
        }
        Ok(Some(found.1))
    }
}

impl Source {
    /// Reads the next page.
    fn read(&mut self, transaction: &mut Transaction<'_>, direction: Direction) -> Result<()> {
        let (page, mut bytes) = (&mut self.page, 0);
        self.has_more = false;
        let has_more = &mut self.has_more;
        let of = (&*self.table, self.index);
        transaction.scan(self.partition, of, &self.rest, direction, |key, row| {
            bytes += key.len() + row.bytes().len();
            page.push_back((key.to_vec(), row.with(&[])?));
            *has_more = page.len() >= PAGE_ROWS || bytes >= PAGE_BYTES;
            Ok(if *has_more { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
        })?;
        if let Some((last, _)) = self.page.back() {
            match direction {
                Direction::Forward => self.rest.from = [last.as_slice(), &[0]].concat(),
                Direction::Reverse => self.rest.to = Some(last.clone()),
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use halite_contract::{Durability, EngineOptions, Partitioning};
    use proptest::prelude::*;

    use super::*;
    use crate::{Error, Kind, TableSchema, Testbed, Type, values};

    fn store(kind: Kind) -> Testbed {
        let mut options = EngineOptions::new("pool");
        options.pool_options.in_memory = true;
        options.pool_options.size_max = 256 << 20;
        options.partitioning = Some(Partitioning::Hash(3));
        let store = Testbed::open(Some(kind), &options).unwrap();
        let schema = TableSchema::builder("t").column("id", Type::Int32);
        let schema = schema.column("group", Type::Int32).nullable("text", Type::VarChar(9000));
        let schema = schema.primary_key(["id"]).index("by_group", ["group"]).build().unwrap();
        store.create_table(&schema).unwrap();
        store
    }

    /// The ids of the rows of a range of the primary key, or of the index.
    fn ids(
        store: &Testbed,
        index: Option<&str>,
        range: &KeyRange,
        direction: Direction,
    ) -> Vec<i64> {
        store
            .transact(&[0, 1, 2], Durability::Deferred, |tx| {
                let schema = tx.table(0, "t")?.schema().clone();
                let mut rows = tx.merged("t", index, range, direction)?;
                let mut ids = Vec::new();
                while let Some(row) = rows.next()? {
                    ids.push(row.view(&schema)?.int(0)?);
                }
                Ok::<_, Error>(ids)
            })
            .unwrap()
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(12))]

        #[test]
        fn all_rows_come_in_the_order_of_their_keys(
            rows in prop::collection::btree_map(-900..900_i64, (0..5_i64, 0..3_usize), 0..900),
            from in -1000..1000_i64, to in -1000..1000_i64,
        ) {
            for &kind in Kind::ALL {
                let store = store(kind);
                let schema = store.catalog().table("t").unwrap().schema().clone();
                let rows_of_all: Vec<_> = rows.iter().collect();
                // A decision has less than 2 MiB.
                for some in rows_of_all.chunks(100) {
                    store.transact(&[0, 1, 2], Durability::Deferred, |tx| {
                        for &(&id, &(group, len)) in some {
                            let partition = store.partition_of(&schema, id.into())?;
                            // Some pages end by their bytes.
                            let text = "x".repeat(len * 4000);
                            let row = Row::from_values(&schema, &values![id, group, text.as_str()])?;
                            let table = tx.table(partition, "t")?;
                            tx.insert(partition, &table, &row)?;
                        }
                        Ok::<_, Error>(())
                    }).unwrap();
                }
                let key = schema.primary_key();
                let (from_key, to_key) = (key.encode(&values![from]).unwrap(), key.encode(&values![to]).unwrap());
                let range = KeyRange { from: from_key, to: Some(to_key) };
                let mut expected: Vec<_> = rows.keys().copied().filter(|id| (from..to).contains(id)).collect();
                prop_assert_eq!(&ids(&store, None, &range, Direction::Forward), &expected);
                expected.reverse();
                prop_assert_eq!(&ids(&store, None, &range, Direction::Reverse), &expected);
                let by_group: BTreeMap<_, _> = rows.iter().map(|(&id, &(group, _))| ((group, id), id)).collect();
                let expected: Vec<_> = by_group.into_values().collect();
                prop_assert_eq!(ids(&store, Some("by_group"), &KeyRange::all(), Direction::Forward), expected);
            }
        }
    }

    #[test]
    fn copies_of_a_row_are_given_once_and_other_rows_of_a_key_are_not_hidden() {
        let store = store(Kind::NvmInP);
        let schema = store.catalog().table("t").unwrap().schema().clone();
        let insert = |partition, id: i64, group: i64| {
            let row = Row::from_values(&schema, &values![id, group, None::<&str>]).unwrap();
            let done = store.transact(&[partition], Durability::Deferred, |tx| {
                let table = tx.table(partition, "t")?;
                tx.insert(partition, &table, &row)
            });
            done.unwrap();
        };
        // More than a page of each partition.
        (0..600).for_each(|id| (0..3).for_each(|partition| insert(partition, id, id % 5)));
        insert(0, 700, 1);
        insert(2, 700, 2);
        let all = |index, direction| ids(&store, index, &KeyRange::all(), direction);
        let expected: Vec<_> = (0..600).chain([700, 700]).collect();
        assert_eq!(all(None, Direction::Forward), expected);
        assert!(all(None, Direction::Reverse).iter().eq(expected.iter().rev()));
        assert_eq!(all(Some("by_group"), Direction::Forward).len(), 602);
    }

    #[test]
    fn unknown_names_are_refused() {
        let store = store(Kind::NvmInP);
        store
            .transact(&[0, 2], Durability::Deferred, |tx| {
                let mut asked = |table, index| {
                    tx.merged(table, index, &KeyRange::all(), Direction::Forward).map(drop)
                };
                assert!(matches!(asked("u", None), Err(Error::UnknownTable { .. })));
                assert!(matches!(asked("t", Some("by_name")), Err(Error::UnknownIndex { .. })));
                assert!(asked("t", Some("by_group")).is_ok());
                Ok::<_, Error>(())
            })
            .unwrap();
    }
}
