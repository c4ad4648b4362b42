//! Levels against a model, through random histories.

use crate::common;
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;

use crate::common::{MemRun, Model, STORE, Taken, compare, small_options, visible};
use halite_disk::Disk;
use halite_lsm::levels::{Change, Direction, Levels, LevelsOptions};
use halite_sst::{DELETE, PUT, RangeDelete, SEQUENCE_MAX};
use proptest::collection::vec;
use proptest::prelude::*;

#[derive(Clone, Debug)]
enum Step {
    /// Writes: tree, key, kind (by chance), length of the value. Then they are added, or merged.
    Run {
        tree: u32,
        writes: Vec<(u16, u8, usize)>,
        deletes: Vec<(u16, u16)>,
        merge: bool,
    },
    Compact,
    CompactAll,
    TakeSnapshot,
    DropSnapshot(usize),
    Reopen {
        close: bool,
    },
    Read,
}

fn step() -> impl Strategy<Value = Step> {
    let write = (0_u16..90, 0_u8..10, prop_oneof![8 => 0_usize..20, 1 => Just(250)]);
    let deletes = prop_oneof![4 => Just(vec![]), 1 => vec((0_u16..90, 0_u16..90), 1..3)];
    prop_oneof![
        6 => (0_u32..2, vec(write, 0..40), deletes, any::<bool>())
            .prop_map(|(tree, writes, deletes, merge)| Step::Run { tree, writes, deletes, merge }),
        4 => Just(Step::Compact),
        1 => Just(Step::CompactAll),
        1 => Just(Step::TakeSnapshot),
        1 => (0_usize..4).prop_map(Step::DropSnapshot),
        1 => any::<bool>().prop_map(|close| Step::Reopen { close }),
        2 => Just(Step::Read),
    ]
}

fn key(number: u16) -> Vec<u8> {
    format!("key {:02}", number % 90).into_bytes()
}

fn open(disk: &Disk, options: &LevelsOptions, taken: &Taken) -> Levels {
    let (levels, report) = Levels::open(disk, STORE, options.clone(), taken.source()).unwrap();
    assert!(report.damaged.is_empty() && report.foreign.is_empty(), "{report:?}");
    levels
}

fn run_of(writes: &[(u16, u8, usize)], deletes: &[(u16, u16)], sequence: &mut u64) -> MemRun {
    let mut run = MemRun::default();
    for (number, chance, len) in writes {
        *sequence += 1;
        let kind = if *chance < 3 { DELETE } else { PUT };
        let value = if kind == PUT { vec![*sequence as u8; *len] } else { Vec::new() };
        run.add(&key(*number), *sequence, kind, &value);
    }
    for (start, end) in deletes.iter().filter(|(start, end)| start < end) {
        *sequence += 1;
        let (start, end) = (key(*start).into(), key(*end).into());
        run.deletes.push(RangeDelete { start, end, sequence: *sequence });
    }
    run
}

/// Files of tables and manifests, and `CURRENT`.
fn files(disk: &Disk) -> usize {
    disk.list().unwrap().len()
}

fn history(steps: Vec<Step>, options: &LevelsOptions) {
    let (disk, taken, mut model) = (Disk::in_memory(), Taken::default(), Model::default());
    let mut levels = open(&disk, options, &taken);
    let (mut sequence, mut runs) = (0, 0);
    for step in steps {
        match step {
            Step::Run { tree, writes, deletes, merge } => {
                let run = run_of(&writes, &deletes, &mut sequence);
                runs += 1;
                let words = vec![("runs".to_owned(), runs)];
                let change = Change { memtables: Some(runs), words };
                match merge {
                    true => levels.merge_run(tree, &run, &change).unwrap(),
                    false => levels.add_run(tree, &run, &change).unwrap(),
                }
                model.add(tree, &run);
                assert_eq!((levels.memtables(tree), levels.word("runs")), (Some(runs), Some(runs)));
            }
            Step::Compact => {
                levels.compact().unwrap();
            }
            Step::CompactAll => {
                while levels.compact().unwrap() {}
                assert_eq!(levels.pressure(), 0.0);
            }
            Step::TakeSnapshot => taken.0.lock().push(sequence),
            Step::DropSnapshot(at) => {
                let mut taken = taken.0.lock();
                if at < taken.len() {
                    taken.remove(at);
                }
            }
            Step::Reopen { close } => {
                match close {
                    true => levels.close().unwrap(),
                    false => drop(levels),
                }
                levels = open(&disk, options, &taken);
                assert_eq!(levels.word("runs").unwrap_or(0), runs);
            }
            Step::Read => compare(&levels, &model, &[0, 1], &taken.0.lock().clone()),
        }
    }
    compare(&levels, &model, &[0, 1], &taken.0.lock().clone());
    assert!(
        levels
            .check(&mut |checked| {
                assert!(checked.bytes <= checked.bytes_all);
                ControlFlow::Continue(())
            })
            .is_empty()
    );
    // Nothing lies around: a manifest, `CURRENT`, and the tables.
    let tables: u64 = levels.stats().levels.iter().map(|level| level.tables).sum();
    levels.close().unwrap();
    assert_eq!(files(&disk) as u64, tables + 2);
}

proptest! {
    #[test]
    fn levels_say_what_was_put_into_them(steps in vec(step(), 1..40)) {
        history(steps, &small_options());
    }
}

/// Without snapshots, deleted entries are gone from the files.
#[test]
fn tombstones_and_what_they_hide_go_when_they_reach_the_last_level() {
    let (disk, taken) = (Disk::in_memory(), Taken::default());
    let options = LevelsOptions { base_bytes: 1 << 20, ..small_options() };
    let levels = open(&disk, &options, &taken);
    let mut sequence = 0;
    let all: Vec<_> = (0..90).map(|number| (number, 9, 10)).collect();
    let gone: Vec<_> = (0..60).map(|number| (number, 0, 0)).collect();
    let entries = || levels.stats().levels.iter().map(|level| level.entries).sum::<u64>();
    levels.merge_run(0, &run_of(&all, &[], &mut sequence), &Change::default()).unwrap();
    taken.0.lock().push(sequence);
    levels.merge_run(0, &run_of(&gone, &[(60, 89)], &mut sequence), &Change::default()).unwrap();
    assert_eq!(entries(), 90 + 60, "a snapshot sees what was deleted");
    taken.0.lock().clear();
    let last = run_of(&[(0, 9, 1), (89, 9, 1)], &[], &mut sequence);
    levels.merge_run(0, &last, &Change::default()).unwrap();
    assert_eq!(entries(), 2);
    assert_eq!(visible(levels.get(0, &key(3), SEQUENCE_MAX).unwrap()), None);
    assert!(visible(levels.get(0, &key(89), SEQUENCE_MAX).unwrap()).is_some());
}

/// A scan goes on over tables that compactions have replaced, and their files go after it.
#[test]
fn a_scan_keeps_the_files_that_it_reads() {
    let (disk, taken) = (Disk::in_memory(), Taken::default());
    let levels = open(&disk, &small_options(), &taken);
    let mut sequence = 0;
    let all: Vec<_> = (0..90).map(|number| (number, 9, 30)).collect();
    levels.merge_run(0, &run_of(&all, &[], &mut sequence), &Change::default()).unwrap();
    let before = files(&disk);
    let mut scan = levels.iter(0, (None, None), Direction::Forward, SEQUENCE_MAX).unwrap();
    assert_eq!(scan.next_entry().unwrap().unwrap().sequence, 1);
    levels.merge_run(0, &run_of(&all, &[], &mut sequence), &Change::default()).unwrap();
    assert!(files(&disk) > before);
    for sequence in 2..=90 {
        assert_eq!(scan.next_entry().unwrap().unwrap().sequence, sequence);
    }
    assert!(scan.next_entry().unwrap().is_none());
    drop(scan);
    let tables: u64 = levels.stats().levels.iter().map(|level| level.tables).sum();
    levels.close().unwrap();
    assert_eq!(files(&disk) as u64, tables + 2);
}

/// Readers see one state or the next while a thread compacts, never less.
#[test]
fn readers_go_on_while_runs_come_and_tables_are_compacted() {
    let (disk, taken) = (Disk::in_memory(), Taken::default());
    let options = LevelsOptions { background: true, ..small_options() };
    let levels = open(&disk, &options, &taken);
    let (added, is_done) = (AtomicU64::new(0), AtomicBool::new(false));
    thread::scope(|scope| {
        for reader in 0..2_u16 {
            let (levels, added, is_done) = (&levels, &added, &is_done);
            scope.spawn(move || {
                let mut last = vec![0; 90];
                let mut number = reader * 45;
                while !is_done.load(Ordering::Acquire) {
                    number = (number + 7) % 90;
                    let known = added.load(Ordering::Acquire);
                    let found = levels.get(0, &key(number), SEQUENCE_MAX).unwrap();
                    let found = found.map_or(0, |found| found.sequence);
                    // Run n wrote every key, with sequence numbers from 90 n + 1 on.
                    assert!(found >= last[usize::from(number)]);
                    assert!(known == 0 || found > (known - 1) * 90, "{found} in run {known}");
                    last[usize::from(number)] = found;
                    if number % 9 == 0 {
                        let pairs =
                            common::scan(levels, 0, (None, None), Direction::Reverse, SEQUENCE_MAX);
                        assert!(known == 0 || pairs.unwrap().len() == 90);
                    }
                }
            });
        }
        let mut sequence = 0;
        for number in 0..60_u64 {
            let all: Vec<_> = (0..90).map(|number| (number, 9, 12)).collect();
            let run = run_of(&all, &[], &mut sequence);
            match number % 3 {
                0 => levels.merge_run(0, &run, &Change::default()).unwrap(),
                _ => levels.add_run(0, &run, &Change::default()).unwrap(),
            }
            added.store(number + 1, Ordering::Release);
        }
        is_done.store(true, Ordering::Release);
    });
    assert!(levels.failure().is_none());
    levels.close().unwrap();
    let levels = open(&disk, &options, &taken);
    let found = common::scan(&levels, 0, (None, None), Direction::Forward, SEQUENCE_MAX).unwrap();
    assert!(found.iter().map(|(_, (sequence, _))| *sequence).eq(59 * 90 + 1..=60 * 90));
}

/// Level 0 fills up where no thread compacts, and the pressure says how far.
#[test]
fn pressure_rises_with_runs_and_falls_when_they_are_merged() {
    let (disk, taken) = (Disk::in_memory(), Taken::default());
    let levels = open(&disk, &small_options(), &taken);
    let (mut sequence, mut last) = (0, 0.0);
    for number in 0..10 {
        levels.add_run(0, &run_of(&[(3, 9, 5)], &[], &mut sequence), &Change::default()).unwrap();
        let pressure = levels.pressure();
        let expected = (f64::from(number + 1 - 3) / 5.0).clamp(0.0, 1.0);
        assert!((pressure - expected).abs() < 1e-9 && pressure >= last, "{number}: {pressure}");
        last = pressure;
    }
    while levels.compact().unwrap() {}
    assert_eq!(levels.pressure(), 0.0);
    assert_eq!(levels.stats().levels[0].runs, 0);
}
