//! Checkpoints under way, the bounds of recovery, and syncs.

mod damage;
mod failures;

use super::*;
use crate::{Change, Partition, TableSchema, Type, values};

const STORE: u128 = 7;

const SMALL: Options = Options {
    node_len: 128,
    memory_bytes: 16 << 20,
    log_file_bytes: 4 << 10,
    checkpoint_bytes: 16 << 10,
    step_bytes: 500,
};

/// Options without checkpoints that begin by themselves.
const ASKED: Options = Options { checkpoint_bytes: 1 << 40, ..SMALL };

fn create(disk: &Disk, options: Options) -> Partition<InP> {
    let mut partition = Partition::new(InP::create(disk, STORE, options).unwrap()).unwrap();
    let builder = TableSchema::builder("t")
        .column("id", Type::Int32)
        .column("number", Type::Int64)
        .column("text", Type::VarChar(2_000));
    let schema = builder.primary_key(["id"]).index("by_number", ["number"]).build().unwrap();
    partition.create_table(schema).unwrap();
    partition
}

fn open(disk: &Disk, options: Options) -> Result<Partition<InP>> {
    Partition::new(InP::open(disk, STORE, options)?)
}

/// Ends a partition as the end of its process does.
fn kill(partition: Partition<InP>) {
    std::mem::forget(partition);
}

fn table(partition: &Partition<InP>) -> Table {
    Table::clone(partition.catalog().table("t").unwrap())
}

fn key(table: &Table, id: i32) -> Vec<u8> {
    table.schema().primary_key().encode(&values![id]).unwrap()
}

fn put(partition: &mut Partition<InP>, id: i32, text: &str) -> Result<()> {
    let table = table(partition);
    let row = Row::from_values(table.schema(), &values![id, i64::from(id) * 7, text]).unwrap();
    partition.begin()?;
    partition.delete(&table, &key(&table, id))?;
    partition.insert(&table, &row)?;
    partition.commit().map(drop)
}

fn update(partition: &mut Partition<InP>, id: i32, text: &str) {
    let table = table(partition);
    partition.begin().unwrap();
    assert!(partition.update(&table, &key(&table, id), &[Change::new(2, text)]).unwrap());
    partition.commit().unwrap();
}

fn remove(partition: &mut Partition<InP>, id: i32) {
    let table = table(partition);
    partition.begin().unwrap();
    assert!(partition.delete(&table, &key(&table, id)).unwrap());
    partition.commit().unwrap();
}

fn rows(partition: &Partition<InP>) -> Vec<(i64, String)> {
    let (table, mut rows) = (table(partition), Vec::new());
    let scanned = partition.scan(&table, None, &KeyRange::all(), Direction::Forward, |_, row| {
        rows.push((row.int(0)?, row.text(2)?.to_owned()));
        Ok(std::ops::ControlFlow::Continue(()))
    });
    scanned.unwrap();
    rows
}

/// The names of the files of checkpoints.
fn checkpoints(disk: &Disk) -> Vec<String> {
    let names = disk.list().unwrap().into_iter().map(|(name, _)| name);
    names.filter(|name| name.starts_with("CHECKPOINT-")).collect()
}

/// Rows change on both sides of a checkpoint that is under way, which a kill ends after any number of commits.
#[test]
fn a_kill_at_any_step_of_a_checkpoint_loses_nothing() {
    let mut under_way = 0;
    for commits in 0..60 {
        let disk = Disk::in_memory();
        let mut partition = create(&disk, ASKED);
        (0..40).for_each(|id| put(&mut partition, id * 10, &"first ".repeat(20)).unwrap());
        partition.sync().unwrap();
        drop(partition);
        // Due at once.
        let mut partition = open(&disk, SMALL).unwrap();
        partition.checkpoint().unwrap();
        let mut number = 0_i32;
        for commit in 0..200 + commits {
            number = (number + 139) % 400;
            let id = number / 10 * 10;
            let is_there = rows(&partition).iter().any(|(there, _)| *there == i64::from(id));
            match (commit % 4, is_there) {
                (0, true) => remove(&mut partition, id),
                (1 | 2, true) => {
                    update(&mut partition, id, &format!("changed by {commit} ").repeat(9))
                }
                _ => put(&mut partition, id, &format!("put by {commit} ").repeat(9)).unwrap(),
            }
        }
        partition.sync().unwrap();
        let expected = rows(&partition);
        let names = checkpoints(&disk);
        under_way += names.iter().filter(|name| name.ends_with(".new")).count();
        assert!(partition.method().checkpoint_failure().is_none());
        kill(partition);
        let mut partition = open(&disk, SMALL).unwrap();
        assert_eq!(rows(&partition), expected, "{commits}");
        assert_eq!(partition.verify().unwrap(), expected.len() as u64);
        assert!(partition.method().recovery().rows > 0);
        assert_eq!(checkpoints(&disk).len(), 1);
    }
    assert!((10..50).contains(&under_way), "{under_way} of 60");
}

#[test]
fn recovery_and_files_are_bounded_by_checkpoints() {
    let disk = Disk::in_memory();
    let mut partition = create(&disk, SMALL);
    let mut log_bytes_max = 0;
    for id in 0..3_000 {
        put(&mut partition, id % 50, &format!("{id:04}").repeat(25)).unwrap();
        log_bytes_max = log_bytes_max.max(partition.footprint().unwrap().log);
    }
    partition.sync().unwrap();
    assert!(partition.method().checkpoint_failure().is_none());
    kill(partition);
    let partition = open(&disk, SMALL).unwrap();
    let Recovery { rows, batches, changes } = partition.method().recovery();
    // 240 bytes a transaction, and those of the steps of a checkpoint that was under way.
    assert!((48..=50).contains(&rows) && batches < 150 && changes == batches, "{rows} {batches}");
    assert!(log_bytes_max < 96 << 10, "{log_bytes_max}");
    drop(partition);
    let mut partition = open(&disk, ASKED).unwrap();
    partition.checkpoint().unwrap();
    kill(partition);
    let partition = open(&disk, ASKED).unwrap();
    assert_eq!(partition.method().recovery(), Recovery { rows: 50, batches: 0, changes: 0 });
}

#[test]
fn commits_sync_nothing_and_share_one_sync() {
    let disk = Disk::in_memory();
    let mut partition = create(&disk, Options { checkpoint_bytes: 1 << 40, ..Options::default() });
    for id in 0..100 {
        let before = disk.traffic().syncs;
        (0..10).for_each(|row| put(&mut partition, id * 10 + row, "text").unwrap());
        assert_eq!(disk.traffic().syncs, before);
        partition.sync().unwrap();
        partition.sync().unwrap();
        assert_eq!(disk.traffic().syncs, before + 1);
    }
    let before = disk.traffic().syncs;
    partition.checkpoint().unwrap();
    // The file, and the folder for its name; the log has nothing new.
    assert_eq!(disk.traffic().syncs, before + 2);
}

#[test]
fn commits_without_a_sync_are_lost_whole() {
    let disk = Disk::in_memory();
    let mut partition = create(&disk, ASKED);
    put(&mut partition, 1, "durable").unwrap();
    partition.sync().unwrap();
    put(&mut partition, 2, "lost").unwrap();
    kill(partition);
    let partition = open(&disk, ASKED).unwrap();
    assert_eq!(rows(&partition), [(1, "durable".to_owned())]);
    drop(partition);
    let mut partition = open(&disk, ASKED).unwrap();
    put(&mut partition, 3, "kept by a close").unwrap();
    drop(partition);
    assert_eq!(rows(&open(&disk, ASKED).unwrap()).len(), 2);
}

#[test]
fn a_checkpoint_takes_one_step_a_commit() {
    let disk = Disk::in_memory();
    let mut partition = create(&disk, Options { checkpoint_bytes: 100 << 10, ..SMALL });
    (0..100).for_each(|id| put(&mut partition, id, &"text ".repeat(90)).unwrap());
    let is_under_way = || checkpoints(&disk).iter().any(|name| name.ends_with(".new"));
    let mut number = 0;
    let mut commits_until = |partition: &mut Partition<InP>, wanted| {
        let before = number;
        while is_under_way() != wanted {
            number += 1;
            update(partition, number % 100, &format!("{number:04}").repeat(100));
        }
        number - before
    };
    for _ in 0..2 {
        commits_until(&mut partition, true);
        // Two rows have more bytes than a block, and each block is copied, and read back.
        let steps = commits_until(&mut partition, false);
        assert!((100..=203).contains(&steps), "{steps}");
    }
}
