//! `halite lab`.

use std::process::Stdio;

use rustix::process::Signal;
use serde_json::Value;

use crate::middle::Middle::Worked;
use crate::run::{Home, signal};

/// The first mutant of a list that was caught.
fn caught(report: &Value) -> Option<&Value> {
    report["mutants"].as_array().unwrap().iter().find(|mutant| mutant["caught"].is_string())
}

#[test]
fn crashes_are_counted_in_a_table_and_in_json() {
    let home = Home::new();
    let args = ["lab", "crash", "--rules", "memory", "--budget", "1s", "--seed", "1f"];
    let table = home.text(&args);
    for row in ["seed", "histories", "crash points", "images", "recoveries", "violations"] {
        assert!(table.lines().any(|line| line.starts_with(row)), "{row}: {table}");
    }
    let report = home.json(&[&args[..], &["--json", "--threads", "1"]].concat());
    assert_eq!((&report["engine"], &report["seed"]), (&"indexlog".into(), &"1f".into()));
    assert_eq!(report["rules"], serde_json::json!(["memory"]));
    assert_eq!((&report["threads"], &report["interrupted"]), (&1.into(), &false.into()));
    for number in [
        "histories",
        "crash_points",
        "complete_crash_points",
        "images",
        "distinct_images",
        "recoveries",
        "nested_recoveries",
    ] {
        assert!(report[number].as_u64().unwrap() > 0, "{number}");
    }
    assert!(report["images"].as_u64() >= report["distinct_images"].as_u64());
    assert!(report["images_per_second"].as_f64().unwrap() > 0.0);
    assert_eq!(report["violations"], serde_json::json!([]));
    assert!(report["lints"].is_array());
}

#[test]
fn without_a_seed_one_is_drawn_and_told() {
    let home = Home::new();
    let args = ["lab", "crash", "--rules", "memory", "--budget", "1s", "--json"];
    let (one, other) = (home.json(&args), home.json(&args));
    assert!(u64::from_str_radix(one["seed"].as_str().unwrap(), 16).is_ok());
    assert_ne!(one["seed"], other["seed"]);
}

#[test]
fn a_mutant_is_caught_by_a_case_that_replays() {
    let home = Home::new();
    let mut args = vec!["lab", "mutate", "--rules", "memory", "--json", "--seed", "7"];
    // A slow machine finds its first mutant later.
    let budgets = ["2s", "8s", "32s", "128s"].into_iter();
    let mut reports = budgets.map(|budget| {
        args.extend(["--budget", budget]);
        let ended = home.run(&args);
        args.truncate(args.len() - 2);
        assert!(matches!(ended.code, Some(0 | 5)), "{:?}: {}", ended.code, ended.err);
        serde_json::from_slice::<Value>(&ended.out).unwrap()
    });
    let report = reports.find(|report| caught(report).is_some()).unwrap();
    let mutants = report["mutants"].as_array().unwrap();
    let count = mutants.iter().filter(|mutant| mutant["caught"].is_string()).count();
    assert_eq!(report["caught"], count);
    let score = count as f64 / mutants.len() as f64 * 100.0;
    assert!((report["score"].as_f64().unwrap() - score).abs() < 1e-9);

    let mutant = caught(&report).unwrap();
    let text = |name: &str| mutant[name].as_str().unwrap();
    let request = format!("{}@{}", text("request"), text("place"));
    let case = text("caught");
    let ended = home.run(&["lab", "crash", "--replay", case, "--without", &request]);
    let story = String::from_utf8(ended.out).unwrap();
    assert!(story.starts_with("The store\n") && story.contains("\nWrong: "), "{story}");
    assert_eq!(ended.code, Some(5), "{}", ended.err);
    assert!(ended.err.contains(case), "{}", ended.err);
    let ended = home.run(&["lab", "crash", "--replay", case, "--without", &request, "--json"]);
    let told: Value = serde_json::from_slice(&ended.out).unwrap();
    assert!(told["what"].is_string() && !told["story"].as_array().unwrap().is_empty());
}

#[test]
fn a_case_that_is_well_replays_and_ends_well() {
    let home = Home::new();
    // The power is cut before some events only.
    let replay =
        |point| home.run(&["lab", "crash", "--replay", &format!("alloc:memory:1:{point}.0")]);
    let ended = (1..100).map(replay).find(|ended| ended.code == Some(0)).unwrap();
    let story = String::from_utf8(ended.out).unwrap();
    assert!(story.contains("The power is cut before event "), "{story}");
    assert!(story.ends_with("Wrong: nothing; it came back as it must\n"), "{story}");
}

#[test]
fn what_is_no_case_is_an_error_with_a_name() {
    let home = Home::new();
    let replay = |case: &str| home.run(&["lab", "crash", "--replay", case]);
    replay("nonsense").failed(2, "--replay nonsense: a case begins with the name of its job");
    replay("alloc:memory:xyz").failed(1, "--replay alloc:memory:xyz: `memory:xyz` is not a case");
    replay("alloc:memory:1:999999.0")
        .failed(1, "--replay alloc:memory:1:999999.0: the history of seed 1 has no crash number 1");
    home.run(&["lab", "crash", "--replay", "alloc:memory:1:5.0", "--without", "fence@nowhere:1"])
        .failed(1, "--without fence@nowhere:1: the history of this case makes no such request");
}

#[test]
fn a_wrong_experiment_is_exit_code_2_and_names_the_right_ones() {
    let home = Home::new();
    for (args, named) in [
        (&["lab", "crash", "--engine", "steam"][..], "indexlog"),
        (&["lab", "crash", "--budget", "0s"], "no time at all"),
        (&["lab", "crash", "--budget", "60"], "60s, 10m or 2h"),
        (&["lab", "mutate", "--rules", "soup"], "failed-platform"),
        (&["lab", "mutate", "--seed", "dice"], "hexadecimal"),
        (&["lab", "mutate", "--threads", "0"], "--threads"),
        (&["lab", "crash", "--without", "fence@x:1"], "--replay"),
        (&["lab", "crash", "--replay", "x", "--seed", "1"], "--seed"),
        (&["lab", "brew"], "lab <COMMAND>"),
    ] {
        let ended = home.run(args);
        assert_eq!(ended.code, Some(2), "{args:?}: {}", ended.err);
        assert!(ended.err.contains(named), "{args:?}: {}", ended.err);
    }
}

#[test]
fn ctrl_c_ends_it_with_the_summary_so_far() {
    let home = Home::new();
    let args = ["lab", "crash", "--rules", "memory", "--budget", "1h", "--json"];
    let mut command = home.command(&args);
    let command = command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    assert!(Worked(50).wait(&home, &mut child));
    signal(&child, Signal::INT);
    let output = child.wait_with_output().unwrap();
    let err = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(130), "{err}");
    assert!(err.starts_with("halite: interrupted; "), "{err}");
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(report["interrupted"], true);
    assert!(report["histories"].as_u64() > Some(0));
}
