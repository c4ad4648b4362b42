//! The experiments of the LSM engine, small: every row that they announce is there, with a figure.

use std::fs;
use std::io;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use halite_bench::lsm::{LsmBenchOptions, Setting, load_and_wait, lsm};
use halite_bench::{Error, LSM, Result, Row, Run, RunOptions};

static NEVER: AtomicBool = AtomicBool::new(false);

fn main() {
    let arguments: Vec<_> = std::env::args().skip(1).collect();
    if let [child, store, pmem, disk, folder] = &arguments[..]
        && child == "--child"
    {
        let run = options(pmem.as_ref());
        let setting = setting(&run, disk.as_ref());
        load_and_wait(&setting, store, folder.as_ref(), &Run::new(run.clone(), &(), &NEVER))
            .unwrap();
        return;
    }
    let tests: [(&str, fn()); 7] = [
        ("workloads_of_both_engines_are_reported", workloads_of_both_engines_are_reported),
        ("commits_are_beside_the_medium", commits_are_beside_the_medium),
        ("a_memtable_is_measured_and_rebuilt", a_memtable_is_measured_and_rebuilt),
        ("level_zero_has_runs_and_the_database_grows", level_zero_has_runs_and_the_database_grows),
        ("a_killed_store_is_opened", a_killed_store_is_opened),
        ("indexes_take_turns", indexes_take_turns),
        ("names_and_options_are_checked", names_and_options_are_checked),
    ];
    for (name, test) in tests {
        test();
        println!("test {name} ... ok");
    }
}

fn options(folder: &Path) -> RunOptions {
    RunOptions { folder: folder.to_owned(), quick: true, repeats: 1, seed: 1, profile: None }
}

fn small(disk: &Path) -> LsmBenchOptions {
    LsmBenchOptions {
        disk: disk.to_owned(),
        fill: 0.2,
        seconds: Some(Duration::from_millis(100)),
        stability: Some(Duration::from_millis(1500)),
        threads: 3,
        recovery_bytes: Some(2 << 20),
        ..LsmBenchOptions::default()
    }
}

fn setting(run: &RunOptions, disk: &Path) -> Setting<'static> {
    Setting::new(small(disk), run, (&(), Vec::new()), &no_child).unwrap()
}

fn no_child(_: &str, _: &Path) -> io::Result<Command> {
    Err(io::Error::other("nobody is to be killed"))
}

/// The rows of these experiments, and no file that stays behind.
fn rows(only: &[&str]) -> Vec<Row> {
    let (pmem, disk) = (tempfile::tempdir_in("/dev/shm").unwrap(), tempfile::tempdir().unwrap());
    let run_options = options(pmem.path());
    let child = |store: &str, folder: &Path| {
        let mut command = Command::new(std::env::current_exe()?);
        command.arg("--child").arg(store).arg(pmem.path()).arg(disk.path()).arg(folder);
        Ok(command)
    };
    let options = small(disk.path());
    let setting = Setting::new(options, &run_options, (&(), Vec::new()), &child).unwrap();
    let only: Vec<_> = only.iter().map(|name| (*name).to_owned()).collect();
    let mut run = Run::new(run_options.clone(), &(), &NEVER);
    lsm(&setting, &only, &mut run).unwrap();
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

fn workloads_of_both_engines_are_reported() {
    let rows = rows(&["ycsb"]);
    for (workload, distributions) in
        [("load", 1), ("a", 2), ("b", 2), ("c", 2), ("d", 1), ("e", 2), ("f", 2)]
    {
        let experiment = format!("lsm.ycsb-{workload}");
        for subject in ["xp", "xs"] {
            for metric in ["throughput", "cpu", "disk-written"] {
                let found = of(&rows, &experiment, subject, metric);
                assert_eq!(found.len(), distributions, "{experiment} {subject} {metric}");
                assert!(found.iter().all(|row| row.value > 0.0 || metric == "disk-written"));
                assert!(found[0].params["scale"].as_str().unwrap().starts_with("1/"));
            }
        }
    }
    assert!(of(&rows, "lsm.ycsb-a", "xp", "read-p99")[0].value > 0.0);
}

fn commits_are_beside_the_medium() {
    let rows = rows(&["commit"]);
    for subject in ["xp", "xp-ordered"] {
        let bandwidths = of(&rows, "lsm.commit", subject, "bandwidth");
        assert_eq!(bandwidths.len(), 2 * 2 * 2);
        assert!(bandwidths.iter().all(|row| row.limit.unwrap() > 0.0));
        for metric in ["throughput", "commit-p50", "commit-p99", "commit-p99.9"] {
            assert!(of(&rows, "lsm.commit", subject, metric).iter().all(|row| row.value > 0.0));
        }
    }
    let fences = |subject| of(&rows, "lsm.commit", subject, "fences")[0].value;
    assert!(fences("xp-ordered") > fences("xp"));
    for strategy in ["spin", "yield", "park", "together"] {
        assert_eq!(of(&rows, "lsm.commit-wait", strategy, "throughput").len(), 1);
    }
}

fn a_memtable_is_measured_and_rebuilt() {
    let rows = rows(&["memtable", "rebuild"]);
    for metric in ["insert-throughput", "lookup-throughput", "scan-throughput"] {
        let found = of(&rows, "lsm.memtable", "xp", metric);
        assert_eq!(found.len(), 4);
        assert!(found.iter().all(|row| row.value > 0.0));
    }
    assert_eq!(of(&rows, "lsm.rebuild", "xp", "rebuild").len(), 2);
}

fn level_zero_has_runs_and_the_database_grows() {
    let rows = rows(&["global-index", "size", "stability"]);
    for op in ["read", "scan", "write"] {
        for subject in ["xp", "xs"] {
            let found = of(&rows, "lsm.global-index", subject, "throughput");
            assert_eq!(found.iter().filter(|row| row.params["op"] == op).count(), 1);
        }
    }
    assert!(of(&rows, "lsm.global-index", "xs", "runs")[0].value > 1.0);
    assert_eq!(of(&rows, "lsm.global-index", "xp", "runs")[0].value, 0.0);
    let fills = of(&rows, "lsm.size", "xs", "throughput");
    assert_eq!(fills.iter().map(|row| &row.params["fill"]).collect::<Vec<_>>(), [1, 2]);
    for metric in ["worst-window", "stalled", "drop"] {
        assert_eq!(of(&rows, "lsm.stability", "xp", metric).len(), 1);
    }
    assert!(of(&rows, "lsm.stability-over-time", "xs", "throughput").len() > 1);
}

fn a_killed_store_is_opened() {
    let rows = rows(&["recovery"]);
    for subject in ["xp", "xs"] {
        let first = of(&rows, "lsm.recovery", subject, "first-answer")[0].value;
        assert!(first > 0.0);
        assert!(of(&rows, "lsm.recovery", subject, "full-speed")[0].value >= first);
    }
}

fn indexes_take_turns() {
    let rows = rows(&["index"]);
    for subject in ["radix", "partial-keys"] {
        for metric in ["insert-throughput", "lookup-throughput", "miss-throughput", "memory"] {
            assert_eq!(of(&rows, "lsm.index", subject, metric).len(), 4);
        }
    }
    assert!(LSM.iter().any(|experiment| experiment.name == "index"));
}

fn names_and_options_are_checked() {
    let disk = tempfile::tempdir().unwrap();
    let run_options = options(disk.path());
    let setting = setting(&run_options, disk.path());
    let mut run = Run::new(run_options.clone(), &(), &NEVER);
    let outcome = lsm(&setting, &["ring".to_owned()], &mut run);
    let Err(Error::Unknown { known, .. }) = outcome else { panic!("{outcome:?}") };
    assert!(known.contains("halloc") && known.contains("stability"), "{known}");

    let faults: [fn(&mut LsmBenchOptions); 5] = [
        |options| options.pmem = Some(1 << 20),
        |options| options.fill = 0.0,
        |options| options.threads = 0,
        |options| options.seconds = Some(Duration::ZERO),
        |options| options.recovery_bytes = Some(1),
    ];
    for fault in faults {
        let mut options = small(disk.path());
        fault(&mut options);
        let refused: Result<Setting<'_>> =
            Setting::new(options, &run_options, (&(), Vec::new()), &no_child);
        assert!(matches!(refused, Err(Error::Wrong { .. })));
    }

    let stopped = AtomicBool::new(true);
    let mut run = Run::new(run_options, &(), &stopped);
    for only in ["commit", "size", "recovery"] {
        let outcome = lsm(&setting, &[only.to_owned()], &mut run);
        assert!(matches!(outcome, Err(Error::Interrupted)), "{only}: {outcome:?}");
    }
}
