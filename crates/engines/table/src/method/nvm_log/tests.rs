//! Fences, coalescing, tombstones, opening, damage and a full pool.

use std::collections::BTreeMap;
use std::sync::Arc;

use halite_alloc::Segments;
use halite_alloc::heap::Tagged;
use halite_pmem::PoolOptions;
use proptest::prelude::*;
use tempfile::TempDir;

use super::bytes::{Delta, PrimaryKey};
use super::directory::Directory;
use super::filter::FilterSlot;
use super::memtable::{Lead, TOMBSTONE, key_slot};
use super::*;
use crate::tuple::Tuple;
use crate::{Change, Partition, TableSchema, Type, values};

type Medium = (Arc<Segments>, TempDir);

fn segments(size_max: u64) -> Medium {
    let folder = tempfile::tempdir_in("/dev/shm").unwrap();
    let mut options = PoolOptions::default();
    options.size_max = size_max;
    let segments = Segments::create(&folder.path().join("pool"), &options).unwrap();
    segments.install().unwrap();
    (segments, folder)
}

fn open((segments, _): &Medium, options: Options) -> Partition<NvmLog> {
    Partition::new(NvmLog::open(&segments.device(1), options).unwrap()).unwrap()
}

/// Memtables of so many bytes, and short steps.
fn small(memtable_bytes: u64) -> Options {
    Options { memtable_bytes, fanout: 2, step_keys: 64, ..Options::default() }
}

fn create(partition: &mut Partition<NvmLog>) -> Table {
    let builder = TableSchema::builder("t")
        .column("id", Type::Int32)
        .column("number", Type::Int64)
        .column("text", Type::VarChar(2_000));
    let schema = builder.primary_key(["id"]).index("by_number", ["number"]).build().unwrap();
    partition.create_table(schema).unwrap();
    Table::clone(partition.catalog().table("t").unwrap())
}

fn key(table: &Table, id: i32) -> Vec<u8> {
    table.schema().primary_key().encode(&values![id]).unwrap()
}

fn insert(partition: &mut Partition<NvmLog>, table: &Table, ids: impl IntoIterator<Item = i32>) {
    for id in ids {
        partition.begin().unwrap();
        put(partition, table, id, "salt").unwrap();
        partition.commit().unwrap();
    }
}

fn put(partition: &mut Partition<NvmLog>, table: &Table, id: i32, text: &str) -> Result<()> {
    let row = Row::from_values(table.schema(), &values![id, i64::from(id) * 7, text])?;
    partition.insert(table, &row)
}

fn update(partition: &mut Partition<NvmLog>, table: &Table, id: i32, change: Change<'_>) {
    partition.begin().unwrap();
    assert!(partition.update(table, &key(table, id), &[change]).unwrap());
    partition.commit().unwrap();
}

fn delete(partition: &mut Partition<NvmLog>, table: &Table, id: i32) {
    partition.begin().unwrap();
    assert!(partition.delete(table, &key(table, id)).unwrap());
    partition.commit().unwrap();
}

fn reclaim(partition: &mut Partition<NvmLog>) {
    while !partition.reclaim().unwrap() {}
}

fn memtables<'a>(partition: &'a Partition<NvmLog>, table: &Table) -> &'a [Memtable] {
    &partition.method().index(table.primary()).unwrap().memtables
}

/// The word of a row's key in each memtable of the primary index.
fn words(partition: &Partition<NvmLog>, table: &Table, id: i32) -> Vec<Option<u64>> {
    let of = |memtable: &Memtable| memtable.tree.get(partition.method().heap(), &key(table, id));
    memtables(partition, table).iter().map(|memtable| of(memtable).unwrap()).collect()
}

/// The fences of transactions, in order.
fn fences(
    (segments, _): &Medium,
    partition: &mut Partition<NvmLog>,
    ids: impl IntoIterator<Item = i32>,
    mut run: impl FnMut(&mut Partition<NvmLog>, i32),
) -> Vec<u64> {
    let mut fences = Vec::new();
    for id in ids {
        let before = segments.pool().traffic();
        run(partition, id);
        partition.sync().unwrap();
        fences.push((segments.pool().traffic() - before).fences);
    }
    fences.sort_unstable();
    fences
}

#[test]
fn a_commit_costs_two_fences_and_compaction_a_part_of_one() {
    let medium = segments(64 << 20);
    let mut partition = open(&medium, small(100_000));
    let table = create(&mut partition);
    let median = |fences: &[u64]| fences[fences.len() / 2];
    let inserts = fences(&medium, &mut partition, 0..6_000, |partition, id| {
        insert(partition, &table, [id]);
    });
    let mean = inserts.iter().sum::<u64>() as f64 / inserts.len() as f64;
    println!("an insertion {mean} fences in the mean, those of splits and of compaction included");
    assert_eq!(median(&inserts), 2);
    assert!(mean < 3.5, "{mean} fences an insertion");
    reclaim(&mut partition);
    assert!(memtables(&partition, &table).len() > 1);
    let deltas = fences(&medium, &mut partition, 0..60, |partition, id| {
        update(partition, &table, id, Change::new(2, "rock"));
    });
    assert!(words(&partition, &table, 0)[0].is_some_and(|word| word >> 63 == 1));
    let again = fences(&medium, &mut partition, 0..60, |partition, id| {
        update(partition, &table, id, Change::new(1, 5_i64));
    });
    let deletes = fences(&medium, &mut partition, 60..120, |partition, id| {
        delete(partition, &table, id);
    });
    assert_eq!((median(&deltas), median(&again), median(&deletes)), (2, 2, 2));
    // A row that the mutable memtable has whole changes in its place.
    insert(&mut partition, &table, 9_000..9_020);
    let in_place = fences(&medium, &mut partition, 9_000..9_020, |partition, id| {
        update(partition, &table, id, Change::new(2, "stone"));
    });
    assert_eq!(median(&in_place), 2);
    let nothing = fences(&medium, &mut partition, [0], |partition, id| {
        assert!(partition.get(&table, &key(&table, id)).unwrap().is_some());
    });
    assert_eq!(nothing, [0]);
    assert_eq!(partition.verify().unwrap(), 6_000 - 60 + 20);
}

#[derive(Debug, Clone)]
enum Step {
    Put(i32, u8),
    Number(i32, i64),
    Text(i32, u8),
    Delete(i32),
    Reclaim,
    Reopen,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => (0..60_i32, any::<u8>()).prop_map(|(id, text)| Step::Put(id, text)),
        6 => (0..60_i32, any::<i64>()).prop_map(|(id, number)| Step::Number(id, number)),
        4 => (0..60_i32, any::<u8>()).prop_map(|(id, text)| Step::Text(id, text)),
        4 => (0..60_i32).prop_map(Step::Delete),
        1 => Just(Step::Reclaim),
        1 => Just(Step::Reopen),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(40) })]

    #[test]
    fn rows_are_put_together_from_all_memtables(steps in proptest::collection::vec(step(), 100..900)) {
        let medium = segments(64 << 20);
        let options = Options { step_keys: 8, ..small(4_000) };
        let mut partition = open(&medium, options);
        let table = create(&mut partition);
        let mut model = BTreeMap::new();
        for step in steps {
            let text = |of: u8| "t".repeat(usize::from(of) * 3);
            match step {
                Step::Put(id, of) => {
                    model.entry(id).or_insert_with(|| {
                        partition.begin().unwrap();
                        put(&mut partition, &table, id, &text(of)).unwrap();
                        partition.commit().unwrap();
                        (i64::from(id) * 7, text(of))
                    });
                }
                Step::Number(id, number) => {
                    if let Some(row) = model.get_mut(&id) {
                        update(&mut partition, &table, id, Change::new(1, number));
                        row.0 = number;
                    }
                }
                Step::Text(id, of) => {
                    if let Some(row) = model.get_mut(&id) {
                        update(&mut partition, &table, id, Change::new(2, &text(of)[..]));
                        row.1 = text(of);
                    }
                }
                Step::Delete(id) => {
                    if model.remove(&id).is_some() {
                        delete(&mut partition, &table, id);
                    }
                }
                Step::Reclaim => drop(partition.reclaim().unwrap()),
                Step::Reopen => {
                    drop(partition);
                    partition = open(&medium, options);
                }
            }
        }
        for round in 0..2 {
            for id in 0..60 {
                let row = partition.get(&table, &key(&table, id)).unwrap();
                let row = row.map(|row| {
                    let view = row.view(table.schema()).unwrap();
                    (view.int(1).unwrap(), view.text(2).unwrap().to_owned())
                });
                prop_assert_eq!(row.as_ref(), model.get(&id), "{} in round {}", id, round);
            }
            prop_assert_eq!(partition.verify().unwrap(), model.len() as u64);
            reclaim(&mut partition);
            // There is about one of each tier.
            prop_assert!(memtables(&partition, &table).len() <= 8);
            let filters = memtables(&partition, &table)[1..].iter().map(|memtable| memtable.filter.is_some());
            prop_assert!(filters.into_iter().all(|has| has));
        }
    }
}

#[test]
fn a_tombstone_stays_as_long_as_an_older_memtable_has_its_key() {
    let medium = segments(64 << 20);
    let mut partition = open(&medium, small(20_000));
    let table = create(&mut partition);
    // The mutable memtable has the row alone, and nothing is left of it.
    insert(&mut partition, &table, [1]);
    delete(&mut partition, &table, 1);
    assert_eq!(words(&partition, &table, 1), [None]);
    // One large old memtable, and small ones that are merged above it.
    let mut id = 0;
    while id < 3_000 || memtables(&partition, &table).len() != 2 {
        insert(&mut partition, &table, id..id + 100);
        reclaim(&mut partition);
        id += 100;
        assert!(id < 60_000, "they are never one");
    }
    delete(&mut partition, &table, 7);
    assert_eq!(words(&partition, &table, 7)[0], Some(TOMBSTONE));
    insert(&mut partition, &table, id..id + 700);
    id += 700;
    reclaim(&mut partition);
    let there = words(&partition, &table, 7);
    let [None, Some(TOMBSTONE), Some(row)] = there[..] else { panic!("{there:?}") };
    assert_ne!(row, TOMBSTONE);
    assert!(memtables(&partition, &table)[1].bytes > 25_000, "nothing was merged");
    assert!(partition.get(&table, &key(&table, 7)).unwrap().is_none());
    drop(partition);
    let mut partition = open(&medium, small(20_000));
    assert!(partition.get(&table, &key(&table, 7)).unwrap().is_none());
    // Once all are merged, neither is left.
    while words(&partition, &table, 7).iter().any(Option::is_some) {
        insert(&mut partition, &table, id..id + 500);
        reclaim(&mut partition);
        id += 500;
        assert!(id < 60_000, "the tombstone never goes");
    }
    assert_eq!(partition.verify().unwrap(), u64::try_from(id - 1).unwrap());
}

#[test]
fn opening_reads_no_rows() {
    let cost = |rows: i32| {
        let medium = segments(256 << 20);
        let mut partition = open(&medium, Options::default());
        let table = create(&mut partition);
        for from in (0..rows).step_by(500) {
            partition.begin().unwrap();
            for id in from..from + 500 {
                put(&mut partition, &table, id, "salt").unwrap();
            }
            partition.commit().unwrap();
        }
        drop(partition);
        let before = medium.0.pool().traffic();
        let method = NvmLog::open(&medium.0.device(1), Options::default()).unwrap();
        let loads = (medium.0.pool().traffic() - before).loads;
        let partition = Partition::new(method).unwrap();
        assert!(partition.get(&table, &key(&table, rows - 1)).unwrap().is_some());
        loads
    };
    let (few, many) = (cost(500), cost(50_000));
    println!("{few} loads to open 500 rows, {many} to open 50,000");
    // A transaction's log is longer or shorter, and the heap has more segments.
    assert!(many < few + 200, "{few} loads, {many} loads");
}

/// Inverts a bit of the byte at a place of a slot.
fn invert<T: Tagged>(heap: &mut Heap, slot: NvPtr<T>, at: u64) {
    let byte = heap.read_at(slot, at, 1).unwrap()[0];
    heap.write(slot, at, &[byte ^ 16]).unwrap();
}

#[test]
fn damage_is_named() {
    let medium = segments(64 << 20);
    let mut partition = open(&medium, small(20_000));
    let table = create(&mut partition);
    insert(&mut partition, &table, 0..1_000);
    reclaim(&mut partition);
    update(&mut partition, &table, 3, Change::new(1, 9_i64));
    insert(&mut partition, &table, [2_000]);
    let of_delta = words(&partition, &table, 3)[0].unwrap();
    let of_tuple = words(&partition, &table, 2_000)[0].unwrap();
    drop(partition);
    let mut log = NvmLog::open(&medium.0.device(1), small(20_000)).unwrap();
    let damaged = |result: Result<()>, what: &str| match result {
        Err(Error::Damaged { what: named, .. }) => assert!(named.contains(what), "{named}"),
        other => panic!("{what}: {other:?}"),
    };
    let get = |log: &NvmLog, id: i32| log.get(&table, &key(&table, id)).map(drop);
    let Lead::Delta(delta) = Lead::of(of_delta) else { panic!("no delta") };
    invert::<Delta>(&mut log.heap, delta, 9);
    damaged(get(&log, 3), "slot");
    damaged(log.verify(), "slot");
    invert::<Delta>(&mut log.heap, delta, 9);
    let Lead::Whole(tuple) = Lead::of(of_tuple) else { panic!("no tuple") };
    invert::<Tuple>(&mut log.heap, tuple, 20);
    damaged(get(&log, 2_000), "tuple");
    invert::<Tuple>(&mut log.heap, tuple, 20);
    let filter = log.indexes[&table.primary()].memtables.last().unwrap().filter.clone().unwrap();
    let slot = NvPtr::<FilterSlot>::from_word(filter.slots().next().unwrap().word());
    invert::<FilterSlot>(&mut log.heap, slot, 100);
    damaged(log.verify(), "filter");
    assert!((0..1_000).any(|id| get(&log, id).is_err()), "no lookup reads the block");
    invert::<FilterSlot>(&mut log.heap, slot, 100);
    // An entry of the secondary index leads to the key of another row.
    let index = table.indexes().next().unwrap();
    let row = log.get(&table, &key(&table, 2_000)).unwrap().unwrap();
    let entry = row.view(table.schema()).unwrap().index_entry(index.schema).unwrap();
    let tree = log.indexes[&index.id].mutable().tree;
    let word = tree.get(&log.heap, &entry).unwrap().unwrap();
    let slot = key_slot(word).unwrap();
    invert::<PrimaryKey>(&mut log.heap, slot, 8);
    damaged(log.entry(&table, 0, &entry).map(drop), "slot");
    invert::<PrimaryKey>(&mut log.heap, slot, 8);
    log.verify().unwrap();
    // A delta of a row that is in no memtable.
    let (heap, primary) = (&mut log.heap, table.primary());
    let tree = log.indexes[&primary].mutable().tree;
    let orphan = crate::index::nonvolatile::Change::Put(&key(&table, -1), of_delta);
    let prepared = tree.prepare(heap, &[orphan]).unwrap();
    prepared.show(heap).unwrap();
    damaged(get(&log, -1), "table");
    prepared.take_back(&mut log.heap, tree.owner()).unwrap();
    log.verify().unwrap();
    // A directory.
    let directory: NvPtr<Directory> = log.indexes[&primary].directory();
    for at in [0, 8, 24, 32, 40, 50] {
        invert::<Directory>(&mut log.heap, directory, at);
        damaged(LogIndex::read(&log.heap, primary, directory.word()).map(drop), "directory");
        invert::<Directory>(&mut log.heap, directory, at);
    }
    LogIndex::read(&log.heap, primary, directory.word()).unwrap();
}

#[test]
fn a_full_pool_refuses_a_transaction_and_takes_rows_again_when_a_table_is_dropped() {
    let medium = segments(16 << 20);
    let mut partition = open(&medium, Options { step_keys: 64, ..small(1 << 20) });
    let table = create(&mut partition);
    let text = "t".repeat(2_000);
    let mut count = 0;
    let fill = |partition: &mut Partition<NvmLog>, table: &Table, count: &mut i32| {
        loop {
            partition.begin().unwrap();
            for id in *count..*count + 10 {
                put(partition, table, id, &text).unwrap();
            }
            if let Err(error) = partition.commit() {
                return error;
            }
            *count += 10;
        }
    };
    let error = fill(&mut partition, &table, &mut count);
    assert!(error.is_refusal(), "{error}");
    assert!(count > 2_000, "{count} rows fill the pool");
    assert_eq!(partition.verify().unwrap(), u64::try_from(count).unwrap());
    assert!(partition.get(&table, &key(&table, count)).unwrap().is_none());
    drop(partition);
    let mut partition = open(&medium, small(1 << 20));
    assert_eq!(partition.verify().unwrap(), u64::try_from(count).unwrap());
    partition.drop_table("t").unwrap();
    reclaim(&mut partition);
    let table = create(&mut partition);
    let before = std::mem::take(&mut count);
    let error = fill(&mut partition, &table, &mut count);
    assert!(error.is_refusal(), "{error}");
    assert!(count > before / 4 * 3, "{count} rows, and {before} before");
    assert_eq!(partition.verify().unwrap(), u64::try_from(count).unwrap());
}
