//! Calls that are refused, and what they leave as it was.

use super::*;
use crate::index::Error as IndexError;
use crate::method::Rows;
use crate::{IndexState, Table};

/// A method without room for more than some commits and catalogs.
struct Tight {
    method: Cow,
    commits: u32,
    catalogs: u32,
}

fn spend(left: &mut u32) -> Result<()> {
    let full = || Error::from(IndexError::Full { path: "partition".into() });
    *left = left.checked_sub(1).ok_or_else(full)?;
    Ok(())
}

impl Method for Tight {
    fn name(&self) -> &'static str {
        "tight"
    }

    fn catalog(&self) -> &Catalog {
        self.method.catalog()
    }

    fn get(&self, table: &Table, key: &[u8]) -> Result<Option<Row>> {
        self.method.get(table, key)
    }

    fn entry(&self, table: &Table, position: usize, entry: &[u8]) -> Result<Option<Vec<u8>>> {
        self.method.entry(table, position, entry)
    }

    fn scan<'a>(
        &'a self,
        table: &'a Table,
        position: Option<usize>,
        range: &KeyRange,
        direction: Direction,
    ) -> Result<Box<dyn Rows + 'a>> {
        self.method.scan(table, position, range, direction)
    }

    fn commit(&mut self, writes: &WriteSet) -> Result<Ticket> {
        spend(&mut self.commits)?;
        self.method.commit(writes)
    }

    fn sync(&mut self) -> Result<Ticket> {
        self.method.sync()
    }

    fn alter(&mut self, catalog: Catalog) -> Result<()> {
        spend(&mut self.catalogs)?;
        self.method.alter(catalog)
    }

    fn reclaim(&mut self) -> Result<bool> {
        self.method.reclaim()
    }

    fn footprint(&self) -> Result<Footprint> {
        self.method.footprint()
    }

    fn verify(&mut self) -> Result<()> {
        self.method.verify()
    }
}

fn table<M: Method>(partition: &Partition<M>) -> Table {
    partition.catalog().table("t").unwrap().as_ref().clone()
}

fn stored(table: &Table, content: Content) -> Row {
    Row::from_values(table.schema(), &refs(&row(content))).unwrap()
}

fn opened<T: Medium>(medium: &T) -> Partition<T::Method> {
    let mut partition = Partition::new(medium.open()).unwrap();
    partition.create_table(schema()).unwrap();
    partition
}

#[test]
fn an_index_for_which_there_is_no_room_is_no_hindrance() {
    let medium = FileMedium::<Cow>::new();
    let method = Tight { method: medium.open(), commits: 1, catalogs: 2 };
    let mut partition = Partition::new(method).unwrap();
    partition.create_table(schema()).unwrap();
    let key = table(&partition).schema().primary_key().encode(&values![1]).unwrap();
    partition.begin().unwrap();
    let old = table(&partition);
    (0..3).for_each(|id| partition.insert(&old, &stored(&old, (id, None, id as u8, 9))).unwrap());
    partition.commit().unwrap();
    // Neither are its entries committed, nor is it dropped again.
    let create = |partition: &mut Partition<Tight>| {
        partition.create_index("t", "more", &["a", "b"], false).map(drop)
    };
    assert!(matches!(create(&mut partition), Err(Error::Index(_))));
    assert_eq!(table(&partition).index("more").unwrap().state, IndexState::Building);
    let mut partition = Partition::new(partition.method).unwrap();
    assert!(partition.get(&table(&partition), &key).unwrap().is_some());
    (partition.method.commits, partition.method.catalogs) = (1, 3);
    create(&mut partition).unwrap();
    assert_eq!(table(&partition).index("more").unwrap().state, IndexState::Ready);
    assert_eq!(partition.verify().unwrap(), 3);
}

fn refuses_a_table_of_before<T: Medium>() {
    let medium = T::new();
    let mut partition = opened(&medium);
    let old = table(&partition);
    partition.create_index("t", "more", &["a", "b"], false).unwrap();
    let key = old.schema().primary_key().encode(&values![1]).unwrap();
    partition.begin().unwrap();
    let content = stored(&old, (1, Some(1), 1, 1));
    partition.insert(&table(&partition), &content).unwrap();
    let visit = |_: &[u8], _: crate::RowRef<'_>| Ok(ControlFlow::Continue(()));
    let scan = partition.scan(&old, None, &KeyRange::all(), Direction::Forward, visit);
    let refused = [
        partition.insert(&old, &stored(&old, (2, Some(1), 2, 1))),
        partition.update(&old, &key, &[Change::new(1, 3_i16)]).map(drop),
        partition.delete(&old, &key).map(drop),
        partition.get(&old, &key).map(drop),
        scan,
    ];
    for refused in refused {
        assert!(matches!(refused, Err(Error::TableChanged { .. })), "{refused:?}");
    }
    partition.commit().unwrap();
    assert_eq!(partition.verify().unwrap(), 1);
    let old = table(&partition);
    partition.truncate_table("t").unwrap();
    assert!(matches!(partition.get(&old, &key), Err(Error::UnknownTable { .. })));
    let scan =
        partition.scan(&table(&partition), Some(9), &KeyRange::all(), Direction::Forward, visit);
    assert!(matches!(scan, Err(Error::UnknownIndex { .. })), "there is no index at that position");
}

#[test]
fn a_table_that_was_changed_since_is_refused() {
    refuses_a_table_of_before::<FileMedium<Cow>>();
    refuses_a_table_of_before::<HeapMedium<NvmInP>>();
}

#[test]
fn a_savepoint_that_was_rolled_back_or_is_of_another_transaction_is_refused() {
    let medium = FileMedium::<Cow>::new();
    let mut partition = opened(&medium);
    let table = table(&partition);
    let insert = |partition: &mut Partition<Cow>, id: i32| {
        partition.insert(&table, &stored(&table, (id, Some(1), id as u8, 1))).unwrap();
    };
    partition.begin().unwrap();
    let first = partition.savepoint().unwrap();
    insert(&mut partition, 1);
    let second = partition.savepoint().unwrap();
    partition.rollback_to(first).unwrap();
    let key = table.schema().primary_key().encode(&values![5]).unwrap();
    insert(&mut partition, 5);
    partition.update(&table, &key, &[Change::new(1, 3_i16)]).unwrap();
    assert!(matches!(partition.rollback_to(second), Err(Error::Transaction { .. })));
    partition.rollback_to(first).unwrap();
    insert(&mut partition, 6);
    partition.commit().unwrap();
    partition.begin().unwrap();
    insert(&mut partition, 7);
    insert(&mut partition, 8);
    for old in [first, second] {
        assert!(matches!(partition.rollback_to(old), Err(Error::Transaction { .. })));
    }
    partition.commit().unwrap();
    assert_eq!(partition.verify().unwrap(), 3);
}
