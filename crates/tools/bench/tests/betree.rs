//! The experiments of the Bε-tree engine, small: every row that they announce is there, with a figure.

use std::fs;
use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use halite_bench::betree::{BetreeBenchOptions, Medium, Setting, betree};
use halite_bench::{Error, Row, Run, RunOptions};

static NEVER: AtomicBool = AtomicBool::new(false);

fn options(folder: &Path) -> RunOptions {
    RunOptions { folder: folder.to_owned(), quick: true, repeats: 1, seed: 1, profile: None }
}

fn small(disk: &Path) -> BetreeBenchOptions {
    BetreeBenchOptions {
        disk: disk.to_owned(),
        records: Some(2_000),
        object_bytes: Some(2 << 20),
        seconds: Some(Duration::from_millis(100)),
        ..BetreeBenchOptions::default()
    }
}

/// The rows of these experiments on these media, and no file that stays behind.
fn rows(only: &[&str], media: &[Medium]) -> Vec<Row> {
    let (pmem, disk) = (tempfile::tempdir_in("/dev/shm").unwrap(), tempfile::tempdir().unwrap());
    let run_options = options(pmem.path());
    let own = BetreeBenchOptions { media: media.to_vec(), ..small(disk.path()) };
    let setting = Setting::new(own, &run_options, (&(), Vec::new())).unwrap();
    let only: Vec<_> = only.iter().map(|name| (*name).to_owned()).collect();
    let mut run = Run::new(run_options.clone(), &(), &NEVER);
    betree(&setting, &only, &mut run).unwrap();
    for folder in [&pmem, &disk] {
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0, "files are left");
    }
    let rows = run.into_rows();
    for row in &rows {
        assert!(row.value.is_finite(), "{row:?}");
        assert!(row.min <= row.value && row.value <= row.max, "{row:?}");
    }
    rows
}

fn of<'a>(rows: &'a [Row], experiment: &str, subject: &str, metric: &str) -> Vec<&'a Row> {
    let all = rows.iter().filter(|row| row.experiment == experiment);
    all.filter(|row| row.subject == subject && row.metric == metric).collect()
}

/// The values of a metric, which are so many and positive.
fn values(rows: &[Row], name: &str, subject: &str, metric: &str, count: usize) -> Vec<f64> {
    let found: Vec<_> = of(rows, name, subject, metric).iter().map(|row| row.value).collect();
    assert_eq!(found.len(), count, "{name} {subject} {metric}");
    assert!(found.iter().all(|value| *value > 0.0), "{name} {subject} {metric}: {found:?}");
    found
}

#[test]
fn ways_to_persistent_memory_and_block_sizes_are_compared() {
    let rows = rows(&["access", "block-size"], &Medium::ALL);
    for metric in ["write", "read"] {
        for way in ["pool", "blocks", "file"] {
            values(&rows, "betree.access", way, metric, 3);
        }
        for medium in ["pmem", "disk"] {
            values(&rows, "betree.block-size", medium, metric, 2);
        }
    }
}

#[test]
fn objects_are_beside_the_medium_and_over_time() {
    let rows = rows(&["objects", "archive"], &Medium::ALL);
    for metric in ["write", "read"] {
        values(&rows, "betree.objects", "halite-betree", metric, 2);
        let all = of(&rows, "betree.objects", "halite-betree", metric);
        assert!(all.iter().all(|row| row.limit.unwrap() > 0.0));
    }
    assert!(of(&rows, "betree.objects-over-time", "halite-betree", "throughput").len() >= 4);
    values(&rows, "betree.archive", "halite-betree", "time", 2 * 2);
    values(&rows, "betree.archive", "mixed", "time", 2);
    let (judged, target) =
        (of(&rows, "betree.targets", "objects, read / medium", "met"), |row: &&Row| {
            row.params["at-least"] == 0.7
        });
    assert_eq!(judged.iter().copied().filter(target).count(), 2, "one for each medium");
}

#[test]
fn inserts_reads_and_scans_of_both_engines_are_reported_with_their_durability() {
    let rows = rows(&["insert", "reads", "scans"], &Medium::ALL);
    for subject in ["halite-betree", "halite-lsm"] {
        for name in ["betree.insert", "betree.reads", "betree.scans"] {
            values(&rows, name, subject, "throughput", 2);
            let all = of(&rows, name, subject, "throughput");
            assert!(all.iter().all(|row| row.params["durability"].as_str().unwrap().len() > 10));
        }
        let written = values(&rows, "betree.insert", subject, "write-amplification", 2);
        assert!(written.iter().all(|factor| *factor >= 1.0), "the log has every byte: {written:?}");
        assert!(values(&rows, "betree.scans", subject, "pairs", 2)[0] > 0.0);
    }
}

#[test]
fn workloads_and_node_sizes_are_measured() {
    let rows = rows(&["ycsb", "node-size", "in-place"], &[Medium::Pmem]);
    for workload in ["a", "b", "c", "d", "e", "f"] {
        let experiment = format!("betree.ycsb-{workload}");
        for subject in ["halite-betree", "halite-lsm"] {
            values(&rows, &experiment, subject, "throughput", 1);
        }
    }
    for metric in ["ingest", "reads", "scans", "geometric-mean"] {
        values(&rows, "betree.node-size", "halite-betree", metric, 4);
        values(&rows, "betree.node-size", "default", metric, 1);
    }
    for subject in ["copy-on-write", "default", "in-place"] {
        values(&rows, "betree.in-place", subject, "write-amplification", 3);
    }
    for op in ["insert", "A", "F"] {
        let target = format!("in place / whole, bytes, {op}");
        values(&rows, "betree.targets", &target, "ratio", 1);
    }
}

#[test]
fn what_is_read_often_is_served_by_persistent_memory_when_it_has_migrated() {
    let rows = rows(&["migration"], &Medium::ALL);
    for policy in ["none", "lfu", "reinforcement"] {
        values(&rows, "betree.migration", policy, "throughput", 1);
        let share = of(&rows, "betree.migration", policy, "fast-share")[0].value;
        assert!((0.0..=100.0).contains(&share), "{policy} {share}");
    }
    let [none, lfu] = ["none", "lfu"].map(|policy| {
        let of = |metric| of(&rows, "betree.migration", policy, metric)[0].value;
        (of("fast-share"), of("moved"))
    });
    assert!(lfu.0 > none.0 && lfu.1 > 0.0 && none.1 == 0.0, "{none:?} {lfu:?}");
}

#[test]
fn a_commit_in_persistent_memory_takes_one_fence() {
    let rows = rows(&["commit"], &Medium::ALL);
    for subject in ["halite-betree", "halite-lsm"] {
        for metric in ["commits", "commit-p50", "commit-p99.9"] {
            values(&rows, "betree.commit", subject, metric, 2 * 2 * 2);
        }
    }
    let on = |medium: &str, metric: &str| -> Vec<f64> {
        let all = of(&rows, "betree.commit", "halite-betree", metric);
        let of_medium = all.into_iter().filter(|row| row.params["medium"] == medium);
        of_medium.map(|row| row.value).collect()
    };
    assert!(on("pmem", "fences").iter().all(|fences| (0.9..1.5).contains(fences)));
    assert!(on("disk", "syncs").iter().all(|syncs| *syncs > 0.0));
}

#[test]
fn snapshots_and_redundancy_are_measured_and_nothing_is_wrong() {
    let rows = rows(&["constant", "scrub", "damage", "resilver"], &Medium::ALL);
    for metric in ["snapshot", "clone-at-once", "clone", "removal", "destruction"] {
        values(&rows, "betree.constant", "halite-betree", metric, 2 * 3);
        values(&rows, "betree.constant", "one-by-one", metric, 2);
    }
    values(&rows, "betree.scrub", "halite-betree", "read", 2);
    for row in of(&rows, "betree.damage", "halite-betree", "wrong") {
        assert_eq!(row.value, 0.0);
    }
    for row in of(&rows, "betree.damage", "halite-betree", "repaired") {
        assert_eq!(row.value, 100.0);
    }
    let read = values(&rows, "betree.resilver", "halite-betree", "read", 2);
    let capacity = values(&rows, "betree.resilver", "halite-betree", "capacity", 2);
    assert!(read.iter().zip(&capacity).all(|(read, capacity)| read < capacity));
}

#[test]
fn names_and_options_are_checked_and_a_run_stops() {
    let disk = tempfile::tempdir().unwrap();
    let run_options = options(disk.path());
    let setting = Setting::new(small(disk.path()), &run_options, (&(), Vec::new())).unwrap();
    let mut run = Run::new(run_options.clone(), &(), &NEVER);
    let outcome = betree(&setting, &["ring".to_owned()], &mut run);
    let Err(Error::Unknown { known, .. }) = outcome else { panic!("{outcome:?}") };
    assert!(known.contains("objects") && known.contains("migration"), "{known}");
    assert!("ssd".parse::<Medium>().is_err());

    let faults: [fn(&mut BetreeBenchOptions); 5] = [
        |options| options.records = Some(1),
        |options| options.object_bytes = Some(1),
        |options| options.threads = 0,
        |options| options.seconds = Some(Duration::ZERO),
        |options| options.media.clear(),
    ];
    for fault in faults {
        let mut options = small(disk.path());
        fault(&mut options);
        let refused = Setting::new(options, &run_options, (&(), Vec::new()));
        assert!(matches!(refused, Err(Error::Wrong { .. })));
    }

    let stopped = AtomicBool::new(true);
    let mut run = Run::new(run_options, &(), &stopped);
    for only in ["objects", "insert", "constant"] {
        let outcome = betree(&setting, &[only.to_owned()], &mut run);
        assert!(matches!(outcome, Err(Error::Interrupted)), "{only}: {outcome:?}");
    }
}
