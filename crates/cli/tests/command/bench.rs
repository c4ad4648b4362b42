//! `halite bench`.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::Stdio;

use rustix::process::Signal;
use serde_json::Value;

use crate::middle::Middle::{ChildWorked, Made};
use crate::run::{Home, signal};

/// The last row of a run.
fn last(rows: &Value) -> &Value {
    rows.as_array().unwrap().last().unwrap()
}

#[test]
fn a_run_is_a_table_an_array_of_rows_and_a_report() {
    let home = Home::in_memory();
    let args = ["bench", "kv", "--quick", "--workload", "a,load,kill", "--records", "500"];
    let more = ["--repeats", "2", "--folder", ".", "--json", "rows.json", "--report", "report"];
    let table = home.text(&[&args[..], &more].concat());
    for word in ["kv.ycsb-a", "throughput", "halite", "fences", "process"] {
        assert!(table.contains(word), "{word}: {table}");
    }
    let rows: Value = serde_json::from_slice(&fs::read(home.path("rows.json")).unwrap()).unwrap();
    for row in rows.as_array().unwrap() {
        let fields: Vec<_> = row.as_object().unwrap().keys().map(String::as_str).collect();
        let expected = [
            "experiment",
            "subject",
            "params",
            "metric",
            "unit",
            "value",
            "min",
            "max",
            "limit",
            "source",
        ];
        assert_eq!(fields, expected);
    }
    for experiment in ["kv.ycsb-a", "kv.load", "kv.kill"] {
        let of = |row: &&Value| row["experiment"] == experiment && row["metric"] == "throughput";
        let row = rows.as_array().unwrap().iter().find(of).unwrap();
        assert!(row["value"].as_f64().unwrap() > 0.0);
        assert_eq!((&row["subject"], &row["params"]["records"]), (&"halite".into(), &500.into()));
    }
    let run = last(&rows);
    assert_eq!((&run["experiment"], &run["metric"]), (&"run".into(), &"interrupted".into()));
    assert_eq!(run["value"], 0.0);
    for param in ["version", "processor", "cores", "kernel", "folder", "domain", "seed", "command"]
    {
        assert!(!run["params"][param].is_null(), "{param}");
    }
    assert!(fs::read_to_string(home.path("report/index.html")).unwrap().contains("kv.ycsb-a"));
    let left: Vec<_> = fs::read_dir(home.path(".")).unwrap().map(|file| file.unwrap()).collect();
    assert_eq!(left.len(), 2, "stores are left: {left:?}");
}

#[test]
fn a_measurement_counts_nothing_of_the_load() {
    let home = Home::in_memory();
    let args =
        ["bench", "arulraj", "--quick", "--only", "ycsb", "--mix", "read-only", "--skew", "low"];
    let more =
        ["--repeats", "1", "--method", "nvm-inp,cow", "--folder", ".", "--json", "rows.json"];
    home.ok(&[&args[..], &more].concat());
    let rows: Value = serde_json::from_slice(&fs::read(home.path("rows.json")).unwrap()).unwrap();
    for method in ["nvm-inp", "cow"] {
        let of = |metric: &str| {
            let row = |row: &&Value| row["subject"] == method && row["metric"] == metric;
            let row = rows.as_array().unwrap().iter().find(row);
            row.unwrap_or_else(|| panic!("{method} has no {metric}: {rows}"))["value"].as_f64()
        };
        assert!(of("throughput").unwrap() > 0.0);
        // The load wrote a thousand bytes a transaction and more. Reading takes some timestamps.
        let bytes = of("media-bytes").unwrap() + of("file-bytes").unwrap();
        assert!(bytes < 50.0, "{method}: {bytes} bytes a transaction that only reads");
    }
}

#[test]
fn json_on_standard_output_takes_the_place_of_the_table() {
    let home = Home::in_memory();
    let args = ["bench", "kv", "--workload", "get", "--records", "100", "--repeats", "1"];
    let rows = home.json(&[&args[..], &["--folder", ".", "--json", "-"]].concat());
    assert_eq!(last(&rows)["value"], 0.0);
}

#[test]
fn the_allocator_is_measured_and_leaves_nothing() {
    let home = Home::in_memory();
    let args = ["bench", "lsm", "--quick", "--only", "halloc", "--repeats", "1", "--folder", "."];
    let rows = home.json(&[&args[..], &["--json", "-"]].concat());
    for (subject, fences) in [("limit", 1.0), ("halloc-pool", 1.1), ("halloc-zone", 1.1)] {
        let of = |row: &&Value| row["subject"] == subject && row["metric"] == "fences";
        let values = rows.as_array().unwrap().iter().filter(of);
        let values: Vec<f64> = values.map(|row| row["value"].as_f64().unwrap()).collect();
        assert_eq!(values.len(), 2, "{subject}");
        assert!(values.iter().all(|value| (1.0..fences + 1e-9).contains(value)), "{values:?}");
    }
    assert_eq!(last(&rows)["value"], 0.0);
    assert_eq!(fs::read_dir(home.path(".")).unwrap().count(), 0, "pools are left");
}

#[test]
fn ctrl_c_keeps_what_was_measured_and_marks_it() {
    let home = Home::in_memory();
    let args = ["bench", "kv", "--workload", "c", "--records", "1000", "--seconds", "3600"];
    let mut command =
        home.command(&[&args[..], &["--folder", ".", "--json", "rows.json"]].concat());
    let command = command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    assert!(Made("halite-bench-").wait(&home, &mut child));
    signal(&child, Signal::INT);
    let output = child.wait_with_output().unwrap();
    let err = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(130), "{err}");
    assert!(err.starts_with("halite: interrupted; "), "{err}");
    assert!(String::from_utf8(output.stdout).unwrap().contains("interrupted"));
    let rows: Value = serde_json::from_slice(&fs::read(home.path("rows.json")).unwrap()).unwrap();
    assert_eq!(
        (&last(&rows)["metric"], &last(&rows)["value"]),
        (&"interrupted".into(), &1.0.into())
    );
    assert_eq!(fs::read_dir(home.path(".")).unwrap().count(), 1, "stores are left");
}

#[test]
fn servers_are_started_measured_and_ended() {
    let home = Home::in_memory();
    let args = ["bench", "rstore", "--quick", "--only", "throughput,recovery,gc,memory,scans"];
    let more = ["--subject", "halite", "--records", "1000", "--repeats", "1", "--seconds", "0.05"];
    let table = home.text(&[&args[..], &more, &["--folder", ".", "--json", "rows.json"]].concat());
    for word in ["rstore.throughput", "first-answer", "collection-amplification", "dram", "keys"] {
        assert!(table.contains(word), "{word}: {table}");
    }
    let rows: Value = serde_json::from_slice(&fs::read(home.path("rows.json")).unwrap()).unwrap();
    let of = |row: &&Value| row["experiment"] == "rstore.throughput";
    for row in rows.as_array().unwrap().iter().filter(of) {
        assert_eq!(row["subject"], "halite");
        assert!(row["params"]["durability"].as_str().unwrap().contains("--sync always"));
    }
    assert_eq!(last(&rows)["value"], 0.0);
    assert_eq!(fs::read_dir(home.path(".")).unwrap().count(), 1, "folders are left");
}

#[test]
fn ctrl_c_ends_servers_and_marks_the_run() {
    let home = Home::in_memory();
    let args = ["bench", "rstore", "--only", "throughput", "--subject", "halite"];
    let more = ["--records", "1000", "--seconds", "3600", "--folder", ".", "--json", "rows.json"];
    let mut command = home.command(&[&args[..], &more].concat());
    let command = command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    assert!(ChildWorked(5).wait(&home, &mut child));
    signal(&child, Signal::INT);
    let output = child.wait_with_output().unwrap();
    let err = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(130), "{err}");
    let rows: Value = serde_json::from_slice(&fs::read(home.path("rows.json")).unwrap()).unwrap();
    assert_eq!(last(&rows)["value"], 1.0);
    assert_eq!(fs::read_dir(home.path(".")).unwrap().count(), 1, "folders are left");
}

#[test]
fn wrong_input_is_refused_before_anything_is_measured() {
    let home = Home::in_memory();
    home.file("file", "");
    for (args, code, named) in [
        ("kv --workload g", 2, "there is a, b, c, d, e, f, pibench, load"),
        ("kv --engine btree", 2, "there is no engine `btree`; there is indexlog"),
        (
            "kv --peer leveldb",
            2,
            "there is fjall, lmdb, redb, rocksdb, sqlite, raw-buffered, raw-direct",
        ),
        ("kv --peer lmdb", 2, "`scripts/bench-peers kv --peer lmdb`"),
        ("blocks --peer libpmemlog", 2, "`scripts/bench-peers blocks --peer libpmemlog`"),
        ("blocks --only lag", 2, "there is no experiment `lag`; there is"),
        ("lsm --only lag", 2, "there is no experiment `lag`; there is halloc"),
        ("lsm --peer libpmemobj", 2, "`scripts/bench-peers lsm --peer libpmemobj`"),
        ("kv --mix read", 2, "read=95,update=5"),
        ("kv --distribution gauss", 2, "uniform, zipfian, self-similar, latest"),
        ("kv --records 0", 2, "--records: 0 is not between"),
        ("kv --records 99999999999999999", 2, "--records: 99999999999999999 is not between"),
        ("kv --threads 1000000", 2, "--threads: 1000000 is not between"),
        ("kv --rate 0", 2, "--rate: 0 is not between"),
        ("kv --seconds 1e300", 2, "--seconds"),
        ("kv --seconds 1 --operations 1", 2, "cannot be used with"),
        ("kv --skew 3", 2, "--skew: 3 is not between 0 and 1"),
        ("kv --repeats 0", 2, "--repeats"),
        ("kv --folder nowhere", 1, "nowhere"),
        ("kv --json nowhere/rows.json", 1, "nowhere/rows.json: cannot open it to write JSON"),
        ("kv --report file", 1, "file: cannot write a report into this folder"),
        ("device --profile warp", 2, "optane"),
        ("rstore --only lag", 2, "there is no experiment `lag`; there is messages, prefetch"),
        (
            "rstore --subject mysql",
            2,
            "there is no server `mysql`; there is halite, halite-in-memory",
        ),
        ("rstore --profile optane", 2, "--profile: a profile slows down"),
        ("rstore --connections 0", 2, "--connections: 0 is not between"),
        ("rstore --seconds 0", 2, "--seconds: 0 s is not between"),
        ("rstore --pmem-price=-1", 2, "--pmem-price: -1 is no price"),
        ("soak --minutes 0", 2, "--minutes: 0 is not between"),
        ("soak --clients 0", 2, "--clients: 0 is not between"),
        ("soak --engine mysql", 2, "--engine: there is no `mysql`; there is"),
        ("soak --repeats 2", 2, "--repeats: a soak is one long run"),
        ("soak --profile cxl", 2, "--profile: a profile slows down"),
        ("rstore --halite-bin nowhere", 2, "--halite-bin: there is no file nowhere"),
    ] {
        let args: Vec<_> = ["bench"].into_iter().chain(args.split(' ')).collect();
        let ended = home.run(&args);
        assert_eq!(ended.code, Some(code), "{args:?}: {}", ended.err);
        assert!(ended.err.contains(named), "{args:?}: {}", ended.err);
        assert!(ended.out.is_empty(), "{args:?}");
    }
}

/// A longer soak is `HALITE_SOAK_MINUTES=30 cargo test -p halite-cli soak`.
#[test]
fn a_soaked_server_loses_nothing() {
    soaked(&[], &["collected-blocks"]);
}

/// With a mirror whose files go and come back, snapshots and clones.
#[test]
fn a_soaked_pool_loses_nothing() {
    soaked(&["--engine", "betree"], &["scrubs"]);
}

/// Soaks a server, whose rows of these metrics, beside the common ones, are not zero.
fn soaked(more: &[&str], metrics: &[&str]) {
    let home = Home::in_memory();
    let minutes = std::env::var("HALITE_SOAK_MINUTES").unwrap_or_else(|_| "0.2".to_owned());
    let args = ["bench", "soak", "--minutes", &minutes, "--folder", ".", "--json", "rows.json"];
    home.ok(&[&args[..], more].concat());
    let rows: Value = serde_json::from_slice(&fs::read(home.path("rows.json")).unwrap()).unwrap();
    let of = |metric: &str| {
        let row = rows.as_array().unwrap().iter().find(|row| row["metric"] == metric).unwrap();
        row["value"].as_f64().unwrap()
    };
    assert_eq!(of("wrong"), 0.0);
    for metric in ["acknowledged", "compared", "checks", "kills"].iter().chain(metrics) {
        assert!(of(metric) > 0.0, "{metric}");
    }
    assert_eq!(fs::read_dir(home.path(".")).unwrap().count(), 1, "folders are left");
}

/// A server that comes back with the state of two lives before.
#[test]
fn a_soak_finds_what_is_lost() {
    let home = Home::in_memory();
    let forgets = format!(
        "#!/bin/sh\n\
         old=\"$2/old\" pool=\"$2/pool.halite\"\n\
         if [ -f \"$old\" ]; then cp \"$old\" \"$pool\"\n\
         elif [ -f \"$pool\" ]; then cp \"$pool\" \"$old\"; fi\n\
         exec {} \"$@\"\n",
        env!("CARGO_BIN_EXE_halite")
    );
    let program = home.file("forgets", forgets);
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    let args = ["bench", "soak", "--minutes", "5", "--folder", ".", "--pool-size", "67108864"];
    let ended = home.run(&[&args[..], &["--halite-bin", "./forgets"]].concat());
    assert_eq!(ended.code, Some(1), "{}", ended.err);
    assert!(ended.err.starts_with("halite: bench: soak: client "), "{}", ended.err);
    assert!(
        ended.err.contains("after a restart") && ended.err.contains("is kept"),
        "{}",
        ended.err
    );
    let table = String::from_utf8(ended.out).unwrap();
    assert!(table.contains("wrong, bool") && table.contains("yes"), "{table}");
}
