//! Fences, snapshots, a full pool, and large transactions.

use std::sync::Arc;

use halite_alloc::Segments;
use halite_pmem::PoolOptions;
use tempfile::TempDir;

use super::*;
use crate::{Change, Partition, TableSchema, Type, values};

type Medium = (Arc<Segments>, TempDir);

fn partition(size_max: u64) -> (Medium, Partition<NvmCow>, Table) {
    let folder = tempfile::tempdir_in("/dev/shm").unwrap();
    let mut options = PoolOptions::default();
    options.size_max = size_max;
    let segments = Segments::create(&folder.path().join("pool"), &options).unwrap();
    segments.install().unwrap();
    let method = NvmCow::open(&segments.device(1), Options::default()).unwrap();
    let mut partition = Partition::new(method).unwrap();
    let builder = TableSchema::builder("t")
        .column("id", Type::Int32)
        .column("number", Type::Int64)
        .column("text", Type::VarChar(2_000));
    let schema = builder.primary_key(["id"]).index("by_number", ["number"]).build().unwrap();
    partition.create_table(schema).unwrap();
    let table = Table::clone(partition.catalog().table("t").unwrap());
    ((segments, folder), partition, table)
}

fn row(table: &Table, id: i32, text: &str) -> Row {
    Row::from_values(table.schema(), &values![id, i64::from(id) * 7, text]).unwrap()
}

fn key(table: &Table, id: i32) -> Vec<u8> {
    table.schema().primary_key().encode(&values![id]).unwrap()
}

fn insert(
    partition: &mut Partition<NvmCow>,
    table: &Table,
    ids: impl IntoIterator<Item = i32>,
    text: &str,
) -> Result<Ticket> {
    partition.begin().unwrap();
    for id in ids {
        partition.insert(table, &row(table, id, text)).unwrap();
    }
    partition.commit()
}

fn update(partition: &mut Partition<NvmCow>, table: &Table, id: i32, change: Change<'_>) {
    partition.begin().unwrap();
    assert!(partition.update(table, &key(table, id), &[change]).unwrap());
    partition.commit().unwrap();
}

fn delete(partition: &mut Partition<NvmCow>, table: &Table, id: i32) {
    partition.begin().unwrap();
    assert!(partition.delete(table, &key(table, id)).unwrap());
    partition.commit().unwrap();
}

/// The ids and texts of a snapshot's rows, by an index.
fn texts(snapshot: &Snapshot, position: Option<usize>) -> Vec<(i64, String)> {
    let table = Table::clone(snapshot.catalog().table("t").unwrap());
    let mut rows = snapshot.scan(&table, position, &KeyRange::all(), Direction::Forward).unwrap();
    let mut texts = Vec::new();
    while let Some((_, row)) = rows.next().unwrap() {
        let row = row.view(table.schema()).unwrap();
        texts.push((row.int(0).unwrap(), row.text(2).unwrap().to_owned()));
    }
    texts
}

#[test]
fn a_group_costs_one_fence_whatever_its_transactions_change() {
    let ((segments, _folder), mut partition, table) = partition(64 << 20);
    insert(&mut partition, &table, 0..2_000, "salt").unwrap();
    partition.sync().unwrap();
    let mut fences = |transactions: i32, run: &dyn Fn(&mut Partition<NvmCow>, i32)| {
        let mut all: Vec<u64> = (0..20)
            .map(|round| {
                let before = segments.pool().traffic();
                (0..transactions).for_each(|number| run(&mut partition, round * 50 + number));
                partition.sync().unwrap();
                (segments.pool().traffic() - before).fences
            })
            .collect();
        all.sort_unstable();
        (all[0], all[all.len() / 2])
    };
    for transactions in [1, 5, 50] {
        let changed = |partition: &mut Partition<NvmCow>, id: i32| {
            update(partition, &table, id, Change::new(2, "rock"));
        };
        assert_eq!(fences(transactions, &changed), (1, 1), "{transactions} updates");
        let moved = |partition: &mut Partition<NvmCow>, id: i32| {
            update(partition, &table, id, Change::new(1, 5_i64));
        };
        assert_eq!(fences(transactions, &moved), (1, 1), "{transactions} updates of an index");
    }
    let added = |partition: &mut Partition<NvmCow>, id: i32| {
        insert(partition, &table, [10_000 + id], "new").unwrap();
    };
    // A slab of tuples, of texts or of nodes is made now and then, for two fences.
    assert_eq!(fences(1, &added), (1, 1), "an insertion");
    let removed = |partition: &mut Partition<NvmCow>, id: i32| delete(partition, &table, id);
    assert_eq!(fences(50, &removed), (1, 1), "50 removals");
    // Reads, and a sync without changes.
    let read = |partition: &mut Partition<NvmCow>, id: i32| {
        partition.get(&table, &key(&table, id)).unwrap();
    };
    assert_eq!(fences(1, &read), (0, 0));
    partition.verify().unwrap();
}

#[test]
fn a_text_that_does_not_change_is_not_written_again() {
    let ((segments, _folder), mut partition, table) = partition(64 << 20);
    insert(&mut partition, &table, 0..10, &"t".repeat(2_000)).unwrap();
    partition.sync().unwrap();
    let before = segments.pool().traffic();
    update(&mut partition, &table, 3, Change::new(1, 4_i64));
    partition.sync().unwrap();
    let lines = (segments.pool().traffic() - before).lines;
    assert!(lines < 2_000 / 64, "{lines} lines, of which none is of the text");
    delete(&mut partition, &table, 3);
    assert_eq!(partition.verify().unwrap(), 9);
}

#[test]
fn a_snapshot_stays_while_rows_tables_and_indexes_go() {
    let (_medium, mut partition, table) = partition(64 << 20);
    insert(&mut partition, &table, 0..300, "first").unwrap();
    // It is not synced, and no part of a snapshot.
    let empty = partition.method().snapshot().unwrap();
    partition.sync().unwrap();
    let snapshot = partition.method().snapshot().unwrap();
    assert!(snapshot.sequence() > empty.sequence() && texts(&empty, None).is_empty());
    let expected: Vec<_> = (0..300).map(|id| (id, "first".to_owned())).collect();
    for round in 0..4 {
        for id in (round..300).step_by(4) {
            match round {
                0 => delete(&mut partition, &table, id),
                _ => update(&mut partition, &table, id, Change::new(2, "later")),
            }
        }
        partition.sync().unwrap();
        assert_eq!(texts(&snapshot, None), expected);
        assert_eq!(texts(&snapshot, Some(0)), expected);
    }
    partition.truncate_table("t").unwrap();
    partition.drop_index("t", "by_number").unwrap();
    let table = Table::clone(partition.catalog().table("t").unwrap());
    for _ in 0..10 {
        assert!(!partition.reclaim().unwrap());
    }
    insert(&mut partition, &table, 0..1_000, "other").unwrap();
    assert_eq!(partition.verify().unwrap(), 1_000);
    let other = snapshot.clone();
    drop(snapshot);
    assert_eq!(texts(&other, Some(0)), expected);
    let found = other.get(other.catalog().table("t").unwrap(), &key(&table, 7)).unwrap();
    assert_eq!(found, Some(row(&table, 7, "first")));
    drop((other, empty));
    while !partition.reclaim().unwrap() {}
    assert!(partition.catalog().dropping().is_empty());
    assert_eq!(partition.verify().unwrap(), 1_000);
}

#[test]
fn a_full_pool_refuses_a_transaction_keeps_the_group_and_takes_removals() {
    let ((segments, _folder), mut partition, table) = partition(10 << 20);
    let text = "t".repeat(2_000);
    let mut count = 0;
    let error = loop {
        // Ten rows are one transaction, and up to seven of these a group.
        match insert(&mut partition, &table, count..count + 10, &text) {
            Ok(_) => count += 10,
            Err(error) => break error,
        }
        if count % 70 == 0 {
            partition.sync().unwrap();
        }
    };
    assert!(is_full(&error), "{error}");
    assert!(partition.get(&table, &key(&table, count)).unwrap().is_none());
    // A statement for which there is no room leaves the partition as it was.
    let create = |partition: &mut Partition<NvmCow>, number: u32| {
        let builder = TableSchema::builder(&format!("t{number}")).column("id", Type::Int32);
        partition.create_table(builder.primary_key(["id"]).build().unwrap())
    };
    let refused = (0..500).find_map(|number| create(&mut partition, number).err());
    assert!(refused.is_none_or(|error| is_full(&error)));
    assert_eq!(partition.verify().unwrap(), u64::try_from(count).unwrap());
    // Removals of rows here and there, each with its own sync, and then of all.
    for id in (0..count).step_by(3).chain((1..count).step_by(3)) {
        delete(&mut partition, &table, id);
        partition.sync().unwrap();
    }
    for id in (0..count).step_by(3) {
        insert(&mut partition, &table, [id], &text).unwrap();
    }
    let there = partition.verify().unwrap();
    drop(partition);
    let method = NvmCow::open(&segments.device(1), Options::default()).unwrap();
    assert_eq!(Partition::new(method).unwrap().verify().unwrap(), there);
}

#[test]
fn a_transaction_of_any_length_is_whole_up_to_a_limit() {
    let ((segments, _folder), mut partition, table) = partition(512 << 20);
    insert(&mut partition, &table, 0..30_000, "text").unwrap();
    // One that is too long is undone alone: the group is there.
    let error = insert(&mut partition, &table, 30_000..440_000, "text").unwrap_err();
    assert!(matches!(error, Error::TransactionTooLarge { .. }), "{error}");
    drop(partition);
    let method = NvmCow::open(&segments.device(1), Options::default()).unwrap();
    let mut partition = Partition::new(method).unwrap();
    assert_eq!(partition.verify().unwrap(), 30_000);
    partition.begin().unwrap();
    for id in 0..30_000 {
        assert!(partition.delete(&table, &key(&table, id)).unwrap());
    }
    partition.commit().unwrap();
    partition.sync().unwrap();
    let full = partition.footprint().unwrap();
    while !partition.reclaim().unwrap() {}
    assert_eq!(partition.verify().unwrap(), 0);
    let empty = partition.footprint().unwrap();
    assert!(empty.table + empty.index < (full.table + full.index) / 10, "{full:?} {empty:?}");
}
