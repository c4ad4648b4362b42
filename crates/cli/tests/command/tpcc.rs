//! `tpcc`: loading, running and checking it, and what is refused.

use std::process::Stdio;

use rustix::process::Signal;
use serde_json::Value;

use crate::middle::Middle::Worked;
use crate::run::{Ended, Home, signal};
use crate::served::Served;
use crate::tables::METHODS;

const KINDS: [&str; 5] = ["new-order", "payment", "order-status", "delivery", "stock-level"];

/// Loads a tiny database of so many warehouses into `data`.
fn load_tiny(home: &Home, warehouses: &str, more: &[&str]) -> String {
    let args = ["tpcc", "load", "data", "--scale", "tiny", "--warehouses", warehouses];
    home.text(&[&args[..], more].concat())
}

/// Starts a command, and sends it a signal once it has worked for so many hundredths of a second.
fn interrupted(home: &Home, args: &[&str], hundredths: u64, sent: Signal) -> Ended {
    let mut command = home.command(args);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    if Worked(hundredths).wait(home, &mut child) {
        signal(&child, sent);
    }
    let output = child.wait_with_output().unwrap();
    let err = String::from_utf8(output.stderr).unwrap();
    Ended { code: output.status.code(), out: output.stdout, err }
}

#[test]
fn each_engine_loads_runs_and_is_consistent() {
    for engine in ["indexlog", "lsm", "betree"] {
        let home = Home::in_memory();
        let loaded = load_tiny(&home, "2", &["--engine", engine, "--threads", "2"]);
        assert!(loaded.starts_with("loaded 2 warehouses, "), "{loaded}");
        let again = load_tiny(&home, "2", &[]);
        assert_eq!(again, "data: 2 warehouses were loaded before\n");

        let run = ["tpcc", "run", "data", "--transactions", "500", "--threads", "2", "--check"];
        let ran = home.json(&[&run[..], &["--json"]].concat());
        assert_eq!((&ran["benchmark"], &ran["engine"]), (&"TPC-C-like".into(), &engine.into()));
        assert_eq!((&ran["domain"], &ran["interrupted"]), (&"process".into(), &false.into()));
        let figures = |kind: &str, name: &str| ran["transactions"][kind][name].as_f64().unwrap();
        let sum = |name: &str| KINDS.iter().map(|kind| figures(kind, name)).sum::<f64>();
        assert_eq!(sum("count"), 500.0);
        assert!((sum("share_percent") - 100.0).abs() < 0.01);
        assert!((20.0..70.0).contains(&figures("new-order", "share_percent")), "{engine}");
        let latencies = &ran["transactions"]["payment"]["latency_seconds"];
        let latency = |name: &str| latencies[name].as_f64().unwrap();
        let of = ["p50", "p95", "p99", "p99.9", "max"].map(latency);
        assert!(of[0] > 0.0 && of.is_sorted(), "{of:?}");
        assert!(ran["tpmc"].as_f64().unwrap() > 0.0 && ran["check"]["consistent"] == true);
        assert_eq!(ran["check"]["conditions"].as_array().unwrap().len(), 12);

        let table = home.text(&run);
        assert!(table.starts_with("TPC-C-like    "), "{table}");
        for part in [
            "tpmC, key and think times off",
            "2 warehouses, 2 threads, ",
            "durable at its commit",
            "process: volatile memory (tmpfs)",
            "the figures mean nothing",
            "p99.9 ms",
            "stock-level ",
            "condition 12  ok: ",
        ] {
            assert!(table.contains(part), "{engine}: {part}: {table}");
        }
        let checked = home.text(&["tpcc", "check", "data"]);
        assert_eq!(checked.matches("  ok: ").count(), 12, "{checked}");
        assert!(checked.contains("\n2 warehouses, "), "{checked}");
    }
}

#[test]
fn each_method_has_the_tables_and_is_consistent() {
    for (method, partitions) in METHODS.into_iter().zip(["1", "2"].into_iter().cycle()) {
        let home = Home::in_memory();
        let engine = format!("table:{method}");
        let asked = ["--engine", &engine, "--partitions", partitions, "--threads", "2"];
        let loaded = load_tiny(&home, "2", &asked);
        assert!(loaded.starts_with("loaded 2 warehouses, "), "{loaded}");
        let again = load_tiny(&home, "2", &[]);
        assert_eq!(again, "data: 2 warehouses were loaded before\n");
        let run = ["tpcc", "run", "data", "--transactions", "500", "--threads", "2", "--check"];
        let ran = home.json(&[&run[..], &["--json"]].concat());
        assert_eq!(
            (&ran["engine"], ran["partitions"].to_string()),
            (&engine.clone().into(), partitions.into())
        );
        assert_eq!((&ran["count"], &ran["check"]["consistent"]), (&500.into(), &true.into()));
        assert!(ran["remote_payments"].as_u64().unwrap() > 0);
        let text = home.text(&["tpcc", "run", "data", "--transactions", "20"]);
        assert!(
            text.contains(&format!("\nengine        {engine}, {partitions} partition")),
            "{text}"
        );
        let checked = home.text(&["tpcc", "check", "data"]);
        assert_eq!(checked.matches("  ok: ").count(), 12, "{checked}");

        // The tables of the testbed, with one row for the copies of an item.
        let described = home.json(&["table", "describe", "data", "--count", "--json"]);
        let tables = described["tables"].as_array().unwrap();
        let of = |name: &str| tables.iter().find(|table| table["name"] == name).unwrap();
        assert_eq!((tables.len(), &of("CUSTOMER")["indexes"][0]["name"]), (10, &"by_name".into()));
        assert_eq!((&of("WAREHOUSE")["rows"], &of("ITEM")["rows"]), (&2.into(), &100.into()));
        let items = home.text(&["table", "dump", "data", "ITEM"]);
        assert_eq!(items.lines().count(), 101);
        let by_name =
            ["table", "scan", "data", "CUSTOMER", "--index", "by_name", "--from", "2", "--json"];
        let first: Value =
            serde_json::from_str(home.text(&by_name).lines().next().unwrap()).unwrap();
        assert_eq!((&first["C_W_ID"], &first["C_D_ID"]), (&2.into(), &1.into()));
    }
}

#[test]
fn a_store_that_a_killed_process_left_is_consistent_and_a_killed_load_goes_on() {
    for method in METHODS {
        let home = Home::in_memory();
        let engine = format!("table:{method}");
        let load =
            ["tpcc", "load", "data", "--warehouses", "2", "--scale", "tiny", "--threads", "2"];
        let load = [&load[..], &["--engine", &engine, "--partitions", "2"]].concat();
        interrupted(&home, &load, 2, Signal::KILL);
        home.ok(&load);
        home.ok(&["tpcc", "check", "data"]);
        let run = ["tpcc", "run", "data", "--duration", "1h", "--threads", "2"];
        for hundredths in [3, 10] {
            assert_eq!(interrupted(&home, &run, hundredths, Signal::KILL).code, None);
            let checked = home.text(&["tpcc", "check", "data"]);
            assert_eq!(checked.matches("  ok: ").count(), 12, "{method}: {checked}");
        }
        home.ok(&["tpcc", "run", "data", "--transactions", "50", "--check"]);
        home.ok(&["check", "data"]);
    }
}

#[test]
fn wrong_stores_of_the_testbed_are_refused() {
    let home = Home::in_memory();
    let load = |path: &str, more: &[&str]| {
        let args = ["tpcc", "load", path, "--scale", "tiny"];
        home.run(&[&args[..], more].concat())
    };
    let partitions = "--partitions: only a store of an engine table:METHOD has them";
    load("data", &["--warehouses", "1", "--partitions", "2"]).failed(2, partitions);
    load("data", &["--warehouses", "1", "--partitions", "2", "--engine", "lsm"])
        .failed(2, partitions);
    load("data", &["--warehouses", "1", "--levels", "x", "--engine", "table:cow"])
        .failed(2, "--levels: the engine table:cow has no use for it");
    for wrong in ["0", "65536", "-1", "x"] {
        assert_eq!(load("data", &["--warehouses", wrong, "--engine", "table:cow"]).code, Some(2));
    }
    for wrong in ["0", "1025"] {
        let asked = ["--warehouses", "1", "--engine", "table:cow", "--partitions", wrong];
        assert_eq!(load("data", &asked).code, Some(2));
    }
    assert!(!home.path("data").exists(), "no empty store is left behind");

    load("data", &["--warehouses", "2", "--engine", "table:cow", "--partitions", "2"]).ok();
    load("data", &["--warehouses", "2", "--partitions", "8"])
        .failed(1, "data: the store has 2 partitions, and 8 were asked for");
    load("data", &["--warehouses", "2", "--engine", "table:log"])
        .failed(1, "data: the store in data/pool.halite was made by table:cow, not by table:log");
    load("data", &["--warehouses", "2", "--engine", "lsm"])
        .failed(1, "data: the store was made by the engine `table:cow`, not by `lsm`");
    load("data", &["--warehouses", "3"])
        .failed(1, "data: the store holds a TPC-C database with warehouses 2, not 3");
    load("data", &["--warehouses", "2", "--levels", "x"])
        .failed(2, "--levels: the engine table:cow has no use for it");
    home.ok(&["tpcc", "check", "data"]);
    // Other tables of the store stay, but none that has a name of TPC-C's.
    let table = |path: &str, name: &str| {
        home.ok(&["table", "create", path, name, "--column", "a int8", "--primary-key", "a"]);
    };
    table("data", "other");
    home.ok(&["tpcc", "check", "data"]);
    table("bank", "ITEM");
    for args in [&["tpcc", "run", "bank"][..], &["tpcc", "check", "bank"]] {
        home.run(args).failed(1, "bank: the store holds no TPC-C database; load one first");
    }
    load("bank", &["--warehouses", "1"])
        .failed(1, "bank: the table `ITEM` is not that of TPC-C; name another store");
    // A row that another program changed.
    let warehouses = home.text(&["table", "dump", "data", "WAREHOUSE"]);
    load("one", &["--warehouses", "1", "--engine", "table:nvm-inp"]).ok();
    let first: Vec<_> = warehouses.lines().take(2).collect();
    let (rest, _) = first[1].rsplit_once(',').unwrap();
    home.file("w.csv", format!("{}\n{rest},1.00\n", first[0]));
    home.ok(&["table", "load", "one", "WAREHOUSE", "w.csv", "--replace"]);
    let ended = home.run(&["tpcc", "check", "one"]);
    let told = String::from_utf8(ended.out.clone()).unwrap();
    assert!(
        told.contains("condition  1  violated once")
            && told.contains("condition  8  violated once"),
        "{told}"
    );
    ended.failed(1, "one: conditions of TPC-C are violated 2 times");
}

#[test]
fn a_mix_chooses_what_is_run() {
    let home = Home::in_memory();
    load_tiny(&home, "1", &[]);
    let args = ["tpcc", "run", "data", "--transactions", "200", "--mix", "0,0,50,0,50"];
    let ran = home.json(&[&args[..], &["--json"]].concat());
    let counts = KINDS.map(|kind| ran["transactions"][kind]["count"].as_u64().unwrap());
    assert_eq!(counts, [0, 0, 100, 0, 100]);
    let notes = ran["notes"].as_array().unwrap();
    assert!(notes.contains(&"the mix is not one that TPC-C permits".into()), "{notes:?}");
    assert_eq!(ran["transactions"]["payment"]["latency_seconds"]["p50"], Value::Null);
    let timed = ["tpcc", "run", "data", "--duration", "1s", "--think-times", "--json"];
    let timed = home.json(&timed);
    assert_eq!(timed["think_times"], true);
    assert!(timed["seconds"].as_f64().unwrap() >= 1.0);
}

#[test]
fn rows_that_violate_a_condition_are_told() {
    let home = Home::in_memory();
    load_tiny(&home, "1", &[]);
    let key = home.text(&["scan", "data", "--space", "HISTORY", "--keys-only", "--limit", "1"]);
    home.ok(&["del", "data", key.trim_end(), "-e", "--space", "HISTORY"]);
    let ended = home.run(&["tpcc", "check", "data"]);
    let told = String::from_utf8(ended.out.clone()).unwrap();
    for condition in
        ["condition  8  violated once", "condition  9  violated", "condition 10  violated"]
    {
        assert!(told.contains(condition), "{told}");
    }
    assert_eq!(told.matches("  ok: ").count(), 9, "{told}");
    ended.failed(1, "data: conditions of TPC-C are violated 3 times");
    let ended = home.run(&["tpcc", "check", "data", "--json"]);
    let json: Value = serde_json::from_slice(&ended.out).unwrap();
    assert_eq!((ended.code, &json["consistent"]), (Some(1), &false.into()));
    let run = ["tpcc", "run", "data", "--transactions", "10"];
    home.ok(&run);
    home.run(&[&run[..], &["--check"]].concat())
        .failed(1, "data: conditions of TPC-C are violated");
}

#[test]
fn a_database_of_another_size_or_without_tpcc_is_refused() {
    let home = Home::in_memory();
    home.ok(&["put", "data", "a", "1"]);
    for args in [&["tpcc", "run", "data"][..], &["tpcc", "check", "data"]] {
        home.run(args).failed(1, "data: the store holds no TPC-C database; load one first");
    }
    load_tiny(&home, "2", &[]);
    let load = |more: &[&str]| home.run(&[&["tpcc", "load", "data"], more].concat());
    let holds = "data: the store holds a TPC-C database with";
    load(&["--warehouses", "3", "--scale", "tiny"])
        .failed(1, &format!("{holds} warehouses 2, not 3"));
    load(&["--warehouses", "2"]).failed(1, &format!("{holds} districts a warehouse 2, not 10"));
    load(&["--warehouses", "2", "--scale", "tiny", "--engine", "lsm"])
        .failed(1, "data: the store was made by the engine `indexlog`, not by `lsm`");
    assert_eq!(home.text(&["get", "data", "a"]), "1", "other key spaces stay");
    home.ok(&["tpcc", "check", "data"]);

    home.ok(&["put", "other", "a", "1", "--space", "ITEM"]);
    home.run(&["tpcc", "load", "other", "--warehouses", "1", "--scale", "tiny"])
        .failed(1, "other: the key space `ITEM` has records that are not of TPC-C");
    assert_eq!(home.text(&["dataset", "ls", "other"]), "ITEM\n");
}

#[test]
fn a_row_that_is_damaged_is_an_error() {
    let home = Home::in_memory();
    load_tiny(&home, "1", &[]);
    for (space, name) in [("TPCC_LOAD", "load"), ("DISTRICT", "check")] {
        let key = home.text(&["scan", "data", "--space", space, "--keys-only", "--limit", "1"]);
        home.ok(&["put", "data", key.trim_end(), "x", "-e", "--space", space]);
        home.run(&["tpcc", "check", "data"]).failed(4, "data: ");
        home.run(&["tpcc", "run", "data", "--transactions", "50"]).failed(4, "data: ");
        if name == "load" {
            home.run(&["tpcc", "load", "data", "--warehouses", "1"]).failed(4, "data: ");
        }
    }
}

#[test]
fn a_database_that_is_open_elsewhere_is_refused() {
    let home = Home::in_memory();
    load_tiny(&home, "1", &[]);
    let served = Served::start(&home, &[]);
    for args in [
        &["tpcc", "load", "data", "--warehouses", "1"][..],
        &["tpcc", "run", "data"],
        &["tpcc", "check", "data"],
    ] {
        let ended = home.run(args);
        assert!(ended.err.contains("another process"), "{}", ended.err);
        ended.failed(1, "data");
    }
    assert_eq!(served.end(Signal::TERM).0, Some(0));
}

#[test]
fn a_load_that_was_interrupted_is_continued() {
    let home = Home::in_memory();
    let load = ["tpcc", "load", "data", "--warehouses", "1"];
    interrupted(&home, &load, 20, Signal::INT)
        .failed(130, "interrupted; what was loaded is kept; the same command goes on there");
    for args in [&["tpcc", "run", "data"][..], &["tpcc", "check", "data"]] {
        home.run(args).failed(1, "data: the TPC-C database is loaded by half: warehouse 1 has ");
    }
    home.run(&["tpcc", "load", "data", "--warehouses", "2"])
        .failed(1, "data: the store holds a TPC-C database with warehouses 1, not 2");
    let rest = home.json(&[&load[..], &["--json"]].concat());
    let batches = rest["batches"].as_u64().unwrap();
    assert!((1..411).contains(&batches), "{batches}");
    home.ok(&["tpcc", "check", "data"]);
    // It may be done before it notices.
    let ended = interrupted(&home, &["tpcc", "check", "data"], 5, Signal::TERM);
    match ended.code {
        Some(0) => assert_eq!(ended.err, ""),
        _ => ended.failed(130, "interrupted; not every row was checked"),
    }
}

#[test]
fn a_run_that_is_interrupted_has_figures() {
    let home = Home::in_memory();
    load_tiny(&home, "2", &[]);
    let run = ["tpcc", "run", "data", "--duration", "1h", "--threads", "3", "--check", "--json"];
    let ended = interrupted(&home, &run, 30, Signal::TERM);
    let ran: Value = serde_json::from_slice(&ended.out).unwrap();
    assert_eq!((&ran["interrupted"], &ran["check"]), (&true.into(), &Value::Null));
    assert!(ran["count"].as_u64().unwrap() > 0);
    ended.failed(130, "interrupted; the figures are of what was run until then");
    home.ok(&["tpcc", "check", "data"]);
}
