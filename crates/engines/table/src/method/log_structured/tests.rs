//! Runs, levels and files of one table, with the rows where the test wants them.

use std::ops::ControlFlow;

use halite_disk::Access;
use halite_sim::Failures;

use super::*;
use crate::{Change, Partition, TableSchema, Type, ValueRef, values};

/// Flushes come by checkpoints alone.
fn quiet() -> Options {
    Options {
        table_bytes: 4_000,
        level0_max: 100,
        log: Shape { file_bytes: 16 << 10, kept_bytes: 16 << 10 },
        ..Options::default()
    }
}

/// Flushes and compactions come by themselves.
fn busy() -> Options {
    Options { memtable_bytes: 4_000, fanout: 3, level0_max: 2, step_bytes: 4_000, ..quiet() }
}

fn create(disk: &Disk, options: Options) -> Partition<LogStructured> {
    let schema = TableSchema::builder("t")
        .column("id", Type::Int32)
        .column("a", Type::Int32)
        .nullable("b", Type::VarChar(100))
        .column("c", Type::Bytes(1_000))
        .primary_key(["id"])
        .unique_index("by_a", ["a"])
        .build()
        .unwrap();
    let method = LogStructured::create(disk, 7, options).unwrap();
    let mut partition = Partition::new(method).unwrap();
    partition.create_table(schema).unwrap();
    partition
}

fn open(disk: &Disk, options: Options) -> Result<Partition<LogStructured>> {
    Partition::new(LogStructured::open(disk, 7, options)?)
}

fn table(partition: &Partition<LogStructured>) -> Table {
    Table::clone(partition.catalog().table("t").unwrap())
}

fn key(table: &Table, id: i32) -> Vec<u8> {
    table.schema().primary_key().encode(&values![id]).unwrap()
}

fn insert(partition: &mut Partition<LogStructured>, ids: impl IntoIterator<Item = i32>) {
    let table = table(partition);
    partition.begin().unwrap();
    for id in ids {
        let values = values![id, id, "b", &[7; 300][..]];
        let row = Row::from_values(table.schema(), &values).unwrap();
        partition.insert(&table, &row).unwrap();
    }
    partition.commit().unwrap();
}

fn update(partition: &mut Partition<LogStructured>, id: i32, column: usize, value: ValueRef<'_>) {
    let table = table(partition);
    partition.begin().unwrap();
    assert!(partition.update(&table, &key(&table, id), &[Change { column, value }]).unwrap());
    partition.commit().unwrap();
}

fn delete(partition: &mut Partition<LogStructured>, ids: impl IntoIterator<Item = i32>) {
    let table = table(partition);
    partition.begin().unwrap();
    for id in ids {
        assert!(partition.delete(&table, &key(&table, id)).unwrap());
    }
    partition.commit().unwrap();
}

/// Ids, `a` and `b` of all rows.
fn rows(partition: &Partition<LogStructured>, direction: Direction) -> Vec<(i64, i64, String)> {
    let (table, mut rows) = (table(partition), Vec::new());
    let visit = |_: &[u8], row: crate::RowRef<'_>| {
        assert_eq!(row.long_bytes(3)?.unwrap(), [7; 300]);
        rows.push((row.int(0)?, row.int(1)?, row.text(2)?.to_owned()));
        Ok(ControlFlow::Continue(()))
    };
    partition.scan(&table, None, &KeyRange::all(), direction, visit).unwrap();
    rows
}

fn entries(partition: &Partition<LogStructured>) -> u64 {
    let runs = partition.method().levels.runs();
    runs.flat_map(|(_, run)| run.meta.parts.iter().map(|part| part.entries)).sum()
}

#[test]
fn the_deltas_of_several_runs_and_of_the_memtable_make_one_row() {
    let disk = Disk::in_memory();
    let mut partition = create(&disk, quiet());
    insert(&mut partition, 0..3);
    partition.checkpoint().unwrap();
    for (column, value) in [(1, 10.into()), (2, "first".into()), (2, "second".into())] {
        update(&mut partition, 1, column, value);
        partition.checkpoint().unwrap();
    }
    update(&mut partition, 1, 1, 11.into());
    assert_eq!(partition.method().runs(), [4]);
    // Long values that do not change are not written again.
    let lens: Vec<u64> =
        partition.method().levels.level(0).iter().map(|run| run.meta.file_len).collect();
    assert!(lens[..3].iter().all(|len| *len + 800 < lens[3]), "{lens:?}");
    let expected = vec![(0, 0, "b".into()), (1, 11, "second".into()), (2, 2, "b".to_owned())];
    let check = |partition: &mut Partition<LogStructured>| {
        assert_eq!(rows(partition, Direction::Forward), expected);
        let reversed: Vec<_> = expected.iter().cloned().rev().collect();
        assert_eq!(rows(partition, Direction::Reverse), reversed);
        let table = table(partition);
        let row = partition.get(&table, &key(&table, 1)).unwrap().unwrap();
        assert_eq!(row.view(table.schema()).unwrap().text(2).unwrap(), "second");
        let entry = |a: i32| table.schema().indexes()[0].key().encode(&values![a]).unwrap();
        let leads_to = |a: i32| partition.method().entry(&table, 0, &entry(a)).unwrap();
        assert_eq!([1, 10, 11].map(leads_to), [None, None, Some(key(&table, 1))]);
        assert_eq!(partition.verify().unwrap(), 3);
    };
    check(&mut partition);
    drop(partition);
    let merging = Options { level0_max: 2, ..quiet() };
    let mut partition = open(&disk, merging).unwrap();
    check(&mut partition);
    partition.checkpoint().unwrap();
    partition.reclaim().unwrap();
    assert_eq!(partition.method().runs(), [0, 1]);
    // Three rows and their entries: neither deltas nor tombstones.
    assert_eq!(entries(&partition), 6);
    check(&mut partition);
}

#[test]
fn a_tombstone_stays_while_a_run_below_has_its_key() {
    let disk = Disk::in_memory();
    // A level may have any run but for the last ones.
    let options = Options { level0_max: 1, memtable_bytes: 1, fanout: 1, ..quiet() };
    let mut partition = create(&disk, quiet());
    insert(&mut partition, 0..4);
    partition.checkpoint().unwrap();
    drop(partition);
    let mut partition = open(&disk, options).unwrap();
    partition.reclaim().unwrap();
    let below = partition.method().runs().len() - 1;
    assert!(below > 2, "{below}");
    drop(partition);
    let mut partition = open(&disk, quiet()).unwrap();
    delete(&mut partition, [1, 2]);
    partition.checkpoint().unwrap();
    let mut merged = false;
    let mut method = partition;
    for _ in 0..below {
        assert_eq!(rows(&method, Direction::Forward).len(), 2);
        assert_eq!(method.verify().unwrap(), 2);
        let (all, runs) = (entries(&method), method.method().runs());
        drop(method);
        let opened = LogStructured::open(&disk, 7, quiet()).unwrap();
        method = Partition::new(down(opened)).unwrap();
        merged |= method.method().runs() != runs;
        assert!(entries(&method) == all || method.method().runs().iter().sum::<usize>() == 1);
    }
    assert!(merged);
    // The tombstones have met the rows.
    assert_eq!(entries(&method), 4);
    assert_eq!(method.verify().unwrap(), 2);
    // Without a row below, they go with the next compaction.
    delete(&mut method, [0, 3]);
    method.checkpoint().unwrap();
    drop(method);
    let mut method = open(&disk, options).unwrap();
    method.reclaim().unwrap();
    assert_eq!((entries(&method), method.verify().unwrap()), (0, 0));
}

/// Merges the uppermost level that has runs into the next.
fn down(mut method: LogStructured) -> LogStructured {
    let level = method.levels.0.iter().position(|level| !level.is_empty()).unwrap();
    let task = method.levels.down(level, method.levels.level(level).to_vec());
    method.compaction = Some(Compaction::begin(task, 4_000).unwrap());
    method.compact_all().unwrap();
    method
}

#[test]
fn damaged_missing_foreign_and_cut_files_are_named() {
    let disk = Disk::in_memory();
    let mut partition = create(&disk, quiet());
    insert(&mut partition, 0..50);
    partition.checkpoint().unwrap();
    drop(partition);
    let run = "RUN-000001";
    let whole = contents(&disk, run);
    let manifest = contents(&disk, MANIFEST);
    let check = |name: &str| {
        let checked = open(&disk, quiet()).and_then(|mut partition| partition.verify());
        let error = checked.expect_err("the file is not what it was").to_string();
        assert!(error.contains(name), "{error}");
    };
    for at in (0..whole.len()).step_by(97) {
        let mut damaged = whole.clone();
        damaged[at] ^= 1;
        replace(&disk, run, &damaged);
        check(run);
    }
    for len in [0, 10, whole.len() / 2, whole.len() - 1] {
        replace(&disk, run, &whole[..len]);
        check(run);
    }
    disk.remove(run).unwrap();
    check(run);
    // The run of another store, under the name of this one's.
    let other = Disk::in_memory();
    let mut method = LogStructured::create(&other, 8, quiet()).unwrap();
    method.memtable.set(IndexId(17), b"key", Entry::Tombstone);
    let catalog = partition_catalog(&disk, &manifest);
    method.flush(catalog).unwrap();
    drop(method);
    replace(&disk, run, &contents(&other, run));
    check(run);
    replace(&disk, run, &whole);
    assert_eq!(open(&disk, quiet()).unwrap().verify().unwrap(), 50);
    // One that the manifest does not name, and another store's.
    replace(&disk, "RUN-000009", &contents(&other, run));
    check("RUN-000009");
    disk.remove("RUN-000009").unwrap();
    for at in 0..manifest.len() {
        let mut damaged = manifest.clone();
        damaged[at] ^= 4;
        replace(&disk, MANIFEST, &damaged);
        check(MANIFEST);
    }
    for len in 0..manifest.len() {
        replace(&disk, MANIFEST, &manifest[..len]);
        check(MANIFEST);
    }
    disk.remove(MANIFEST).unwrap();
    check(MANIFEST);
    replace(&disk, MANIFEST, b"a text of another program, of some length");
    assert!(matches!(open(&disk, quiet()), Err(Error::Foreign { .. })));
    let created = LogStructured::create(&disk, 7, quiet());
    assert!(matches!(created, Err(Error::Exists { .. })));
}

fn partition_catalog(disk: &Disk, manifest: &[u8]) -> Catalog {
    assert_eq!(contents(disk, MANIFEST), manifest);
    State::read(disk).unwrap().catalog
}

fn contents(disk: &Disk, name: &str) -> Vec<u8> {
    let file = disk.open(name).unwrap();
    let mut bytes = vec![0; file.len() as usize];
    file.read_at(0, &mut bytes).unwrap();
    bytes
}

fn replace(disk: &Disk, name: &str, bytes: &[u8]) {
    let _ = disk.remove(name);
    let mut writer = disk.create(name).unwrap();
    writer.write(bytes).unwrap();
    writer.finish().unwrap();
}

#[test]
fn damage_in_a_run_stops_compaction_and_no_commit() {
    let disk = Disk::in_memory();
    let mut partition = create(&disk, quiet());
    insert(&mut partition, 0..50);
    partition.checkpoint().unwrap();
    drop(partition);
    let mut damaged = contents(&disk, "RUN-000001");
    damaged[9_000] ^= 1;
    replace(&disk, "RUN-000001", &damaged);
    let mut partition = open(&disk, busy()).unwrap();
    (50..150).for_each(|id| insert(&mut partition, [id]));
    assert!(partition.method().runs()[0] > 4, "{:?}", partition.method().runs());
    let table = table(&partition);
    assert!(partition.get(&table, &key(&table, 60)).unwrap().is_some());
    let found = partition.get(&table, &key(&table, 25));
    assert!(matches!(&found, Err(Error::Run(_))), "{found:?}");
    assert!(matches!(partition.reclaim(), Err(Error::Run(_))));
    drop(partition);
    // No commit is lost.
    damaged[9_000] ^= 1;
    replace(&disk, "RUN-000001", &damaged);
    let mut partition = open(&disk, busy()).unwrap();
    assert_eq!(partition.verify().unwrap(), 150);
    partition.reclaim().unwrap();
    assert!(partition.method().runs()[0] < 2);
    assert_eq!(partition.verify().unwrap(), 150);
}

#[test]
fn a_delta_whose_row_is_in_no_run_is_damage() {
    let disk = Disk::in_memory();
    let mut partition = create(&disk, quiet());
    insert(&mut partition, 0..2);
    let table = table(&partition);
    drop(partition);
    let mut method = LogStructured::open(&disk, 7, quiet()).unwrap();
    let lost = Entry::of_changes(&[Change::new(2, "new")]);
    method.memtable.set(table.primary(), &key(&table, 5), lost);
    let found = method.get(&table, &key(&table, 5));
    assert!(matches!(found, Err(Error::Damaged { .. })), "{found:?}");
    let mut partition = Partition::new(method).unwrap();
    assert!(matches!(partition.verify(), Err(Error::Damaged { .. })));
}

#[test]
fn filters_spare_reads_of_keys_that_are_not_there() {
    let disk = Disk::in_memory();
    let mut partition = create(&disk, quiet());
    for from in 0..5 {
        insert(&mut partition, (0..1_000).map(|number| 10 * number + from));
        partition.checkpoint().unwrap();
    }
    drop(partition);
    let partition = open(&disk, quiet()).unwrap();
    let (table, method) = (table(&partition), partition.method());
    let absent = (0..1_000).map(|number| 10 * number + 7);
    let found = absent.filter(|id| partition.get(&table, &key(&table, *id)).unwrap().is_some());
    assert_eq!(found.count(), 0);
    let blocks: u64 = method.levels.runs().map(|(_, run)| run.table.properties().data_blocks).sum();
    // Of each run its filters; of the 5,000 requests 1 in 256 passes one, and reads an index and a block.
    assert!(blocks > 25 && method.blocks_read() < 5 + 2 * 40, "{}", method.blocks_read());
    let read = method.blocks_read();
    assert!(partition.get(&table, &key(&table, 13)).unwrap().is_some());
    assert!(method.blocks_read() <= read + 2);
}

#[test]
fn space_reaches_a_steady_state_under_overwriting() {
    let disk = Disk::in_memory();
    let mut partition = create(&disk, busy());
    insert(&mut partition, 0..50);
    let bytes = |disk: &Disk| disk.list().unwrap().iter().map(|(_, len)| len).sum::<u64>();
    let mut peaks = [0; 4];
    for (round, peak) in peaks.iter_mut().enumerate() {
        for step in 0..500 {
            let (id, text) = (step * 7 % 50, format!("{round} {step}"));
            update(&mut partition, id, 2, text.as_str().into());
            if step % 5 == 0 {
                delete(&mut partition, [id]);
                insert(&mut partition, [id]);
            }
            if step % 3 == 0 {
                partition.sync().unwrap();
            }
            *peak = bytes(&disk).max(*peak);
        }
    }
    assert!(peaks[3] <= peaks[1] * 5 / 4, "{peaks:?}");
    assert!(partition.method().runs().len() > 2, "{:?}", partition.method().runs());
    assert_eq!(partition.verify().unwrap(), 50);
    let footprint = partition.footprint().unwrap();
    assert!(footprint.table > 50 * 300 && footprint.index > 0 && footprint.log > 0);
    // What a dropped table had is given back.
    partition.drop_table("t").unwrap();
    assert!(partition.footprint().unwrap().other > 50 * 300);
    assert!(partition.reclaim().unwrap());
    assert_eq!(partition.method().runs().iter().sum::<usize>(), 0);
    assert!(partition.catalog().dropping().is_empty());
    assert_eq!(partition.footprint().unwrap().table, 0);
}

#[test]
fn a_unique_entry_that_moved_within_a_transaction_is_replayed() {
    let disk = Disk::in_memory();
    for flushed in [false, true] {
        let _ = disk.list().unwrap().iter().try_for_each(|(name, _)| disk.remove(name));
        let mut partition = create(&disk, quiet());
        insert(&mut partition, 0..3);
        if flushed {
            partition.checkpoint().unwrap();
        }
        let table = table(&partition);
        partition.begin().unwrap();
        // Row 2 leaves its entry to row 1, and row 1 its own to row 0.
        for (id, a) in [(2, 9), (1, 2), (0, 1)] {
            assert!(partition.update(&table, &key(&table, id), &[Change::new(1, a)]).unwrap());
        }
        partition.commit().unwrap();
        drop(partition);
        let mut partition = open(&disk, quiet()).unwrap();
        assert_eq!(partition.verify().unwrap(), 3);
        let found: Vec<_> = rows(&partition, Direction::Forward).iter().map(|row| row.1).collect();
        assert_eq!(found, [1, 2, 9]);
    }
}

#[test]
fn a_full_disk_refuses_commits_and_keeps_the_partition() {
    let disk = Disk::in_memory_up_to(400_000);
    let mut partition = create(&disk, busy());
    let table = table(&partition);
    let mut count = 0;
    let refused = (0..10_000).find_map(|id| {
        partition.begin().unwrap();
        let values = values![id, id, "b", &[7; 300][..]];
        let row = Row::from_values(table.schema(), &values).unwrap();
        partition.insert(&table, &row).unwrap();
        let committed = partition.commit();
        count += i32::from(committed.is_ok());
        committed.err()
    });
    let refused = refused.expect("the room ends");
    assert!(matches!(refused, Error::Log(halite_wal::Error::NoFile(_))), "{refused}");
    assert!(count > 100, "{count}");
    assert_eq!(rows(&partition, Direction::Forward).len(), count as usize);
    drop(partition);
    let mut partition = open(&disk, busy()).unwrap();
    assert_eq!(partition.verify().unwrap(), count as u64);
    assert_eq!(rows(&partition, Direction::Reverse).len(), count as usize);
}

#[test]
fn after_any_call_that_fails_the_rows_are_there() {
    const NO_SPACE: i32 = 28;
    const IO: i32 = 5;
    for errno in [NO_SPACE, IO] {
        let (mut lost, mut kept) = (0, 0);
        for failing in 0.. {
            let folder = tempfile::tempdir_in("/dev/shm").unwrap();
            let failures = Failures::default();
            let disk = Disk::failing_folder(folder.path(), true, Some(failures.clone())).unwrap();
            let mut partition = create(&disk, busy());
            insert(&mut partition, 0..6);
            partition.sync().unwrap();
            failures.fail(failing, 1, errno);
            let mut done = 6;
            for id in 6..30 {
                let table = table(&partition);
                partition.begin().unwrap();
                let values = values![id, id, "b", &[7; 300][..]];
                let row = Row::from_values(table.schema(), &values).unwrap();
                let committed =
                    partition.insert(&table, &row).and_then(|()| partition.commit().map(drop));
                if committed.is_err() {
                    let _ = partition.abort();
                    break;
                }
                done += 1;
                if id % 4 == 0 && partition.sync().is_err() {
                    break;
                }
            }
            failures.stop();
            let has_failed = !failures.failed().is_empty();
            if partition.get(&table(&partition), b"").is_err() {
                lost += 1;
            } else {
                kept += 1;
                assert_eq!(rows(&partition, Direction::Forward).len(), done);
                insert(&mut partition, [100]);
                partition.checkpoint().unwrap();
                assert_eq!(partition.verify().unwrap(), done as u64 + 1);
            }
            drop((partition, disk));
            let disk = Disk::folder(folder.path(), false).unwrap();
            let mut partition = open(&disk, busy()).unwrap();
            assert!(partition.verify().unwrap() >= 6, "call {failing}");
            if !has_failed {
                break;
            }
        }
        assert!(lost > 3 && kept > 15, "{lost} {kept}");
    }
}

#[test]
fn a_sync_costs_one_sync_and_a_commit_none() {
    let disk = Disk::in_memory();
    let mut partition = create(&disk, quiet());
    insert(&mut partition, 0..10);
    partition.sync().unwrap();
    let syncs = |disk: &Disk| disk.traffic().syncs;
    let before = syncs(&disk);
    for id in 10..20 {
        insert(&mut partition, [id]);
    }
    assert_eq!(syncs(&disk), before);
    partition.sync().unwrap();
    assert_eq!(syncs(&disk), before + 1);
    insert(&mut partition, [20]);
    partition.checkpoint().unwrap();
    assert_eq!(syncs(&disk), before + 1 + 5);
    let opened = disk.open_positioned(MANIFEST, Access::Cached).unwrap();
    assert!(opened.len() > 100);
}
