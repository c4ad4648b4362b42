//! The promises of a device's characterisation: every row that it announces, with a figure.

use std::sync::atomic::AtomicBool;

use halite_bench::{DEVICE, Error, Row, Run, RunOptions};

fn rows(profile: Option<&str>, only: &[&str]) -> Vec<Row> {
    let folder = tempfile::tempdir_in("/dev/shm").unwrap();
    let options = RunOptions {
        folder: folder.path().to_owned(),
        quick: true,
        repeats: 1,
        seed: 1,
        profile: profile.map(|profile| profile.parse().unwrap()),
    };
    let (interrupted, never) = (AtomicBool::new(false), ());
    let mut run = Run::new(options, &never, &interrupted);
    for experiment in DEVICE.iter().filter(|experiment| only.contains(&experiment.name)) {
        (experiment.run)(&mut run).unwrap();
    }
    let left = std::fs::read_dir(folder.path()).unwrap().count();
    assert_eq!(left, 0, "no pool stays behind");
    run.into_rows()
}

fn of<'a>(rows: &'a [Row], experiment: &str, subject: &str, metric: &str) -> Vec<&'a Row> {
    let all = rows.iter().filter(|row| row.experiment == experiment);
    all.filter(|row| row.subject == subject && row.metric == metric).collect()
}

#[test]
fn a_device_is_characterised_and_its_limits_are_named() {
    let rows = rows(None, &["read", "persist", "bandwidth", "interference", "profile", "limits"]);
    assert!(rows.iter().all(|row| row.value.is_finite() && row.value > 0.0));
    assert_eq!(of(&rows, "device.read", "pool", "latency").len(), 2 * 5);
    assert_eq!(of(&rows, "device.read", "dram", "latency").len(), 2 * 5);
    let factors = of(&rows, "device.read", "pool", "factor-of-dram");
    assert_eq!(factors.iter().filter_map(|row| row.source).collect::<Vec<_>>(), [3.3]);
    assert!(of(&rows, "device.bandwidth", "load", "bandwidth").len() >= 13);
    assert_eq!(of(&rows, "device.interference", "scan-dram", "slowdown").len(), 6);
    assert!(of(&rows, "device.profile", "pool", "read-latency").is_empty(), "there is no profile");
    let limit = |metric| of(&rows, "device.limits", "pool", metric)[0];
    let persists: Vec<_> = rows.iter().filter(|row| row.experiment == "device.persist").collect();
    assert_eq!(persists.len() % 3, 0);
    assert!(persists.iter().all(|row| row.value >= limit("persist-latency").value));
    let loads = of(&rows, "device.bandwidth", "load", "bandwidth");
    assert!(loads.iter().all(|row| row.value <= limit("read-bandwidth").value));
    assert_eq!(limit("write-bandwidth").source, Some(12.5e9));
}

#[test]
fn a_profile_is_checked_against_its_own_figures() {
    let rows = rows(Some("optane"), &["profile"]);
    for (metric, figure) in [
        ("read-latency", 300.0),
        ("sequential-read-latency", 175.0),
        ("persist-latency", 100.0),
        ("same-line-latency", 800.0),
        ("read-bandwidth", 39_100_000_000.0),
        ("write-bandwidth", 12_500_000_000.0),
    ] {
        let row = of(&rows, "device.profile", "pool", metric)[0];
        assert_eq!(row.limit, Some(figure), "{metric}");
        let deviations = of(&rows, "device.profile", "pool", "deviation");
        let deviation = deviations.iter().find(|row| row.params["figure"] == metric).unwrap();
        assert!((deviation.value - (row.value / figure - 1.0)).abs() < 1e-9);
        let verdict = deviation.params["verdict"].as_str().unwrap();
        assert_eq!(verdict == "within 10 %", deviation.value.abs() <= 0.1, "{verdict}");
    }
}

#[test]
fn an_interrupted_experiment_says_so() {
    let options = RunOptions {
        folder: "/dev/shm".into(),
        quick: true,
        repeats: 1,
        seed: 1,
        profile: Some("dram".parse().unwrap()),
    };
    let interrupted = AtomicBool::new(true);
    for experiment in DEVICE.iter().filter(|experiment| (experiment.plan)(&options) > 0) {
        let mut run = Run::new(options.clone(), &(), &interrupted);
        let outcome = (experiment.run)(&mut run);
        assert!(matches!(outcome, Err(Error::Interrupted)), "{}", experiment.name);
    }
}
