//! Fences, crashes in the midst of a group, views, unique entries that move, and a full pool.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use halite_alloc::Segments;
use halite_pmem::PoolOptions;
use tempfile::TempDir;

use super::step::Step;
use super::*;
use crate::{Change, Partition, TableSchema, Type, values};

mod crashes;

fn options(size_max: u64) -> PoolOptions {
    let mut options = PoolOptions::default();
    options.size_max = size_max;
    options
}

/// A folder with a pool in it.
struct Folder(TempDir);

impl Folder {
    fn new() -> Self {
        Self(tempfile::tempdir_in("/dev/shm").unwrap())
    }

    fn pool(&self) -> PathBuf {
        self.0.path().join("pool")
    }
}

fn open(pool: &Path, step: usize) -> (Arc<Segments>, Partition<NvmWbl>) {
    let segments = Segments::open(pool, &options(512 << 20)).unwrap();
    let method = NvmWbl::open(&segments.device(1), Options { step, ..Options::default() }).unwrap();
    (segments, Partition::new(method).unwrap())
}

fn create(size_max: u64, step: usize) -> (Folder, Arc<Segments>, Partition<NvmWbl>, Table) {
    let folder = Folder::new();
    let segments = Segments::create(&folder.pool(), &options(size_max)).unwrap();
    segments.install().unwrap();
    let options = Options { step, ..Options::default() };
    let method = NvmWbl::open(&segments.device(1), options).unwrap();
    let mut partition = Partition::new(method).unwrap();
    let builder = TableSchema::builder("t")
        .column("id", Type::Int32)
        .nullable("number", Type::Int64)
        .column("text", Type::VarChar(2_000));
    let schema = builder.primary_key(["id"]).unique_index("by_number", ["number"]).build();
    partition.create_table(schema.unwrap()).unwrap();
    let table = table(&partition);
    (folder, segments, partition, table)
}

fn table(partition: &Partition<NvmWbl>) -> Table {
    Table::clone(partition.catalog().table("t").unwrap())
}

fn row(table: &Table, id: i32, number: Option<i64>, text: &str) -> Row {
    Row::from_values(table.schema(), &values![id, number, text]).unwrap()
}

fn key(table: &Table, id: i32) -> Vec<u8> {
    table.schema().primary_key().encode(&values![id]).unwrap()
}

fn insert(
    partition: &mut Partition<NvmWbl>,
    table: &Table,
    ids: impl IntoIterator<Item = i32>,
    text: &str,
) -> Result<Ticket> {
    partition.begin().unwrap();
    for id in ids {
        partition.insert(table, &row(table, id, Some(i64::from(id) * 7), text)).unwrap();
    }
    partition.commit()
}

fn update(partition: &mut Partition<NvmWbl>, table: &Table, id: i32, change: Change<'_>) {
    partition.begin().unwrap();
    assert!(partition.update(table, &key(table, id), &[change]).unwrap());
    partition.commit().unwrap();
}

fn delete(partition: &mut Partition<NvmWbl>, table: &Table, id: i32) {
    partition.begin().unwrap();
    assert!(partition.delete(table, &key(table, id)).unwrap());
    partition.commit().unwrap();
}

/// The ids and texts of the rows of a scan.
fn texts(table: &Table, mut rows: Box<dyn Rows + '_>) -> Vec<(i64, String)> {
    let mut texts = Vec::new();
    while let Some((_, row)) = rows.next().unwrap() {
        let row = row.view(table.schema()).unwrap();
        texts.push((row.int(0).unwrap(), row.text(2).unwrap().to_owned()));
    }
    texts
}

fn texts_of_view(view: &dyn View, position: Option<usize>) -> Vec<(i64, String)> {
    let table = Table::clone(view.catalog().table("t").unwrap());
    let rows = view.scan(&table, position, &KeyRange::all(), Direction::Forward).unwrap();
    texts(&table, rows)
}

/// The fences of a sync behind so many transactions: the fewest of some rounds, and those of most.
fn fences(
    segments: &Segments,
    partition: &mut Partition<NvmWbl>,
    transactions: i32,
    run: &dyn Fn(&mut Partition<NvmWbl>, i32),
) -> (u64, u64) {
    // What earlier ones have left would go in these syncs.
    while !partition.reclaim().unwrap() {}
    let mut all: Vec<u64> = (0..20)
        .map(|round| {
            (0..transactions).for_each(|number| run(partition, round * 50 + number));
            let before = segments.pool().traffic();
            partition.sync().unwrap();
            (segments.pool().traffic() - before).fences
        })
        .collect();
    all.sort_unstable();
    (all[0], all[all.len() / 2])
}

#[test]
fn a_group_costs_one_fence_and_another_one_if_it_adds_entries() {
    let (_folder, segments, mut partition, table) = create(64 << 20, 1200);
    insert(&mut partition, &table, 0..2_000, "salt").unwrap();
    let partition = &mut partition;
    for transactions in [1, 5, 50] {
        let changed = |partition: &mut Partition<NvmWbl>, id: i32| {
            update(partition, &table, id, Change::new(2, "rock"));
        };
        let found = fences(&segments, partition, transactions, &changed);
        assert_eq!(found, (1, 1), "{transactions} updates");
    }
    // More of them divide leaves.
    for transactions in [1, 5] {
        let moved = |partition: &mut Partition<NvmWbl>, id: i32| {
            update(partition, &table, id, Change::new(1, -i64::from(transactions * 10_000 + id)));
        };
        let (fewest, _) = fences(&segments, partition, transactions, &moved);
        assert_eq!(fewest, 2, "{transactions} updates of an index");
    }
    let added = |partition: &mut Partition<NvmWbl>, id: i32| {
        insert(partition, &table, [10_000 + id], "new").unwrap();
    };
    assert_eq!(fences(&segments, partition, 1, &added), (2, 2), "an insertion");
    let removed = |partition: &mut Partition<NvmWbl>, id: i32| delete(partition, &table, id);
    assert_eq!(fences(&segments, partition, 1, &removed).0, 1, "a removal");
    let read = |partition: &mut Partition<NvmWbl>, id: i32| {
        partition.get(&table, &key(&table, id)).unwrap();
    };
    assert_eq!(fences(&segments, partition, 1, &read), (0, 0));
    partition.verify().unwrap();
}

#[test]
fn a_commit_costs_no_fence() {
    let (_folder, segments, mut partition, table) = create(64 << 20, 1200);
    insert(&mut partition, &table, 0..100, "salt").unwrap();
    partition.sync().unwrap();
    let before = segments.pool().traffic();
    for id in 0..100 {
        update(&mut partition, &table, id, Change::new(2, "rock"));
        update(&mut partition, &table, id, Change::new(1, None::<i64>));
    }
    assert_eq!((segments.pool().traffic() - before).fences, 0);
    partition.sync().unwrap();
    assert_eq!(partition.verify().unwrap(), 100);
}

#[test]
fn a_text_that_does_not_change_is_not_written_again() {
    let (_folder, segments, mut partition, table) = create(64 << 20, 1200);
    insert(&mut partition, &table, 0..10, &"t".repeat(2_000)).unwrap();
    partition.sync().unwrap();
    for round in 0..3 {
        let before = segments.pool().traffic();
        update(&mut partition, &table, 3, Change::new(1, -4_i64 - round));
        update(&mut partition, &table, 3, Change::new(1, -40_i64 - round));
        partition.sync().unwrap();
        let lines = (segments.pool().traffic() - before).lines;
        assert!(lines < 2_000 / 64, "{lines} lines, of which none is of the text");
        partition.verify().unwrap();
    }
    delete(&mut partition, &table, 3);
    assert_eq!(partition.verify().unwrap(), 9);
    while !partition.reclaim().unwrap() {}
    assert_eq!(partition.verify().unwrap(), 9);
}

#[test]
fn a_view_stays_while_rows_tables_and_indexes_go() {
    let (_folder, _segments, mut partition, table) = create(64 << 20, 40);
    insert(&mut partition, &table, 0..300, "first").unwrap();
    // It is not synced, and no part of a view.
    let empty = partition.method().view().unwrap();
    partition.sync().unwrap();
    let view = partition.method().view().unwrap();
    assert!(texts_of_view(&*empty, None).is_empty());
    let expected: Vec<_> = (0..300).map(|id| (id, "first".to_owned())).collect();
    for round in 0..5 {
        for id in (round % 4..300).step_by(4) {
            match round {
                0 => delete(&mut partition, &table, id),
                4 => drop(insert(&mut partition, &table, [id], "again").unwrap()),
                _ => update(&mut partition, &table, id, Change::new(1, -i64::from(id) - 1)),
            }
        }
        partition.sync().unwrap();
        assert_eq!(texts_of_view(&*view, None), expected);
        assert_eq!(texts_of_view(&*view, Some(0)), expected);
        assert!(!partition.reclaim().unwrap());
    }
    assert_eq!(partition.verify().unwrap(), 300);
    partition.truncate_table("t").unwrap();
    partition.drop_index("t", "by_number").unwrap();
    let table = self::table(&partition);
    insert(&mut partition, &table, 0..1_000, "other").unwrap();
    assert_eq!(partition.verify().unwrap(), 1_000);
    assert_eq!(texts_of_view(&*view, Some(0)), expected);
    let found = view.get(view.catalog().table("t").unwrap(), &key(&table, 8)).unwrap();
    assert_eq!(found, Some(row(&table, 8, Some(56), "first")));
    drop((view, empty));
    while !partition.reclaim().unwrap() {}
    assert!(partition.catalog().dropping().is_empty());
    assert_eq!(partition.verify().unwrap(), 1_000);
}

#[test]
fn garbage_that_waited_for_a_view_spares_what_came_back_for_another() {
    let (_folder, _segments, mut partition, table) = create(64 << 20, 40);
    insert(&mut partition, &table, [1, 2], "text").unwrap();
    partition.sync().unwrap();
    let first = partition.method().view().unwrap();
    // An entry of a row, and a row, go, come back and go again.
    update(&mut partition, &table, 1, Change::new(1, 70_i64));
    delete(&mut partition, &table, 2);
    partition.sync().unwrap();
    update(&mut partition, &table, 1, Change::new(1, 7_i64));
    insert(&mut partition, &table, [2], "again").unwrap();
    partition.sync().unwrap();
    let second = partition.method().view().unwrap();
    let expected = [(1, "text".to_owned()), (2, "again".to_owned())];
    update(&mut partition, &table, 1, Change::new(1, 71_i64));
    delete(&mut partition, &table, 2);
    partition.sync().unwrap();
    drop(first);
    for id in 10..20 {
        insert(&mut partition, &table, [id], "other").unwrap();
        partition.sync().unwrap();
        partition.reclaim().unwrap();
        assert_eq!(texts_of_view(&*second, Some(0)), expected);
        assert_eq!(texts_of_view(&*second, None), expected);
    }
    drop(second);
    while !partition.reclaim().unwrap() {}
    assert_eq!(partition.verify().unwrap(), 11);
}

#[test]
fn a_row_that_a_dropped_index_of_a_view_leads_to_stays_until_the_view_goes() {
    let (_folder, _segments, mut partition, table) = create(64 << 20, 40);
    insert(&mut partition, &table, 0..20, "text").unwrap();
    partition.sync().unwrap();
    delete(&mut partition, &table, 3);
    partition.sync().unwrap();
    let view = partition.method().view().unwrap();
    let expected = texts_of_view(&*view, None);
    assert_eq!(expected.len(), 19);
    partition.drop_index("t", "by_number").unwrap();
    let table = self::table(&partition);
    for id in 100..110 {
        let row = row(&table, id, None, "other");
        partition.begin().unwrap();
        partition.insert(&table, &row).unwrap();
        partition.commit().unwrap();
        partition.sync().unwrap();
        partition.reclaim().unwrap();
        assert_eq!(texts_of_view(&*view, Some(0)), expected);
    }
    drop(view);
    while !partition.reclaim().unwrap() {}
    assert_eq!(partition.verify().unwrap(), 29);
}

#[test]
fn unique_entries_that_move_are_found_in_every_range() {
    let (_folder, _segments, mut partition, table) = create(64 << 20, 10);
    let mut model = std::collections::BTreeMap::new();
    partition.begin().unwrap();
    for id in 0..12 {
        let number = (id % 3 > 0).then_some(i64::from(id));
        partition.insert(&table, &row(&table, id, number, "t")).unwrap();
        model.insert(id, number);
    }
    partition.commit().unwrap();
    let index = table.indexes().next().unwrap().schema;
    let check = |partition: &mut Partition<NvmWbl>, model: &std::collections::BTreeMap<_, _>| {
        let entry = |(&id, &number): (&i32, &Option<i64>)| {
            row(&table, id, number, "t").view(table.schema()).unwrap().index_entry(index).unwrap()
        };
        let mut entries: Vec<_> = model.iter().map(entry).collect();
        entries.sort_unstable();
        let above = entries.iter().map(|entry| [&entry[..], &[0]].concat());
        let bounds: Vec<_> = entries.iter().cloned().chain(above).collect();
        for (from, to) in bounds.iter().flat_map(|from| bounds.iter().map(move |to| (from, to))) {
            let range = KeyRange { from: from.clone(), to: Some(to.clone()) };
            let inside = entries.iter().filter(|entry| range.contains(entry));
            let expected: Vec<_> = inside.cloned().collect();
            for direction in [Direction::Forward, Direction::Reverse] {
                let mut found = Vec::new();
                let mut rows = partition.method().scan(&table, Some(0), &range, direction).unwrap();
                while let Some((entry, _)) = rows.next().unwrap() {
                    found.push(entry);
                }
                if direction == Direction::Reverse {
                    found.reverse();
                }
                assert_eq!(found, expected, "{range:?}");
            }
        }
        partition.verify().unwrap();
    };
    check(&mut partition, &model);
    // Each takes the number of the one before it, in one transaction, that of the last one is free at first.
    for _ in 0..3 {
        let numbers: Vec<_> = model.values().copied().collect();
        partition.begin().unwrap();
        for id in 0..12 {
            let free = Change::new(1, 1_000 + i64::from(id));
            assert!(partition.update(&table, &key(&table, id), &[free]).unwrap());
        }
        for id in 0..12 {
            let number = numbers[(id as usize + 1) % 12];
            let change = Change::new(1, number);
            assert!(partition.update(&table, &key(&table, id), &[change]).unwrap());
            model.insert(id, number);
        }
        partition.commit().unwrap();
        check(&mut partition, &model);
    }
}

#[test]
fn a_full_pool_refuses_a_transaction_keeps_the_group_and_takes_removals() {
    let (_folder, segments, mut partition, table) = create(10 << 20, 1200);
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
    let create = |partition: &mut Partition<NvmWbl>, number: u32| {
        let builder = TableSchema::builder(&format!("t{number}")).column("id", Type::Int32);
        partition.create_table(builder.primary_key(["id"]).build().unwrap())
    };
    let refused = (0..500).find_map(|number| create(&mut partition, number).err());
    assert!(refused.is_none_or(|error| is_full(&error)));
    assert_eq!(partition.verify().unwrap(), u64::try_from(count).unwrap());
    // Removals of rows here and there, each with its own sync, and then others.
    for id in (0..count).step_by(3).chain((1..count).step_by(3)) {
        delete(&mut partition, &table, id);
        partition.sync().unwrap();
    }
    for id in (0..count).step_by(3) {
        insert(&mut partition, &table, [id], &text).unwrap();
    }
    let there = partition.verify().unwrap();
    drop(partition);
    let method = NvmWbl::open(&segments.device(1), Options::default()).unwrap();
    assert_eq!(Partition::new(method).unwrap().verify().unwrap(), there);
}

#[test]
fn a_transaction_of_any_length_is_whole() {
    let (folder, segments, mut partition, table) = create(512 << 20, 1200);
    insert(&mut partition, &table, 0..30_000, "text").unwrap();
    drop((partition, segments));
    let (segments, mut partition) = open(&folder.pool(), 1200);
    assert!(partition.method().commits.gaps.is_empty(), "it was closed");
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
    drop(segments);
}
