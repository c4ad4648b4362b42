//! `table`: creating, loading, listing and dumping tables, and what is refused.

use std::fs;
use std::io::Write;
use std::process::Stdio;
use std::thread;

use rustix::io::ioctl_fionread;
use rustix::process::Signal;
use serde_json::{Value, json};

use crate::middle::Middle::Printed;
use crate::run::{Home, signal};

pub(crate) const METHODS: [&str; 7] =
    ["inp", "nvm-inp", "cow", "nvm-cow", "log", "nvm-log", "nvm-wbl"];

/// Creates a store in `bank` with accounts in it.
pub(crate) fn create(home: &Home, more: &[&str]) {
    let columns =
        ["id int64", "owner varchar(12)", "balance decimal(12,2) null", "key bytes(4) null"];
    let mut args = vec!["table", "create", "bank", "account", "--primary-key", "id"];
    args.extend(columns.iter().flat_map(|column| ["--column", column]));
    args.extend(["--index", "by_owner(owner, balance)"]);
    args.extend(more);
    assert_eq!(home.text(&args), "");
}

/// Loads text into the accounts.
pub(crate) fn load(home: &Home, text: &str, more: &[&str]) -> crate::run::Ended {
    let args = ["table", "load", "bank", "account", "-"];
    home.run_with(&[&args[..], more].concat(), text.as_bytes())
}

const ACCOUNTS: &str = "\
id,owner,balance,key
7,\"Smith, \"\"J\"\"\",-12.50,\\x00ff
-3,Miller,,
12,\"\",0.10,\\x
5,Smith,12.00,
";

#[test]
fn rows_come_back_in_the_order_of_any_key_from_any_method_and_number_of_partitions() {
    for method in METHODS {
        for partitions in ["1", "3"] {
            let home = Home::in_memory();
            create(&home, &["--method", method, "--partitions", partitions]);
            let loaded = load(&home, ACCOUNTS, &[]);
            assert!(String::from_utf8(loaded.ok()).unwrap().starts_with("loaded 4 rows in "));

            let listed = home.text(&["table", "scan", "bank", "account"]);
            let lines: Vec<_> = listed.lines().collect();
            let expected = [
                "id  owner       balance  key",
                "-3  Miller         NULL  NULL",
                " 5  Smith         12.00  NULL",
                " 7  Smith, \"J\"   -12.50  \\x00ff",
                "12                 0.10  \\x",
            ];
            assert_eq!(lines, expected);

            let ids = |more: &[&str]| {
                let args = ["table", "scan", "bank", "account", "--json"];
                let listed = home.text(&[&args[..], more].concat());
                let lines = listed.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
                lines.map(|row| row["id"].as_i64().unwrap()).collect::<Vec<_>>()
            };
            assert_eq!(ids(&["--from", "5", "--to", "12"]), [5, 7]);
            assert_eq!(ids(&["--from", "-3", "--limit", "2"]), [-3, 5]);
            assert_eq!(ids(&["--reverse", "--limit", "3"]), [12, 7, 5]);
            assert!(ids(&["--limit", "0"]).is_empty());
            assert_eq!(ids(&["--index", "by_owner"]), [12, -3, 5, 7]);
            assert_eq!(ids(&["--index", "by_owner", "--from", "Smith", "--to", "Smith,20"]), [5]);
            assert_eq!(ids(&["--index", "by_owner", "--from", "\"Smith, \"\"J\"\"\""]), [7]);

            let described = home.json(&["table", "describe", "bank", "--count", "--json"]);
            assert_eq!(described["method"], method);
            assert_eq!(described["partitions"], json!(partitions.parse::<u64>().unwrap()));
            assert_eq!(described["tables"][0]["rows"], 4);
            assert_eq!(
                described["tables"][0]["indexes"][0]["columns"],
                json!(["owner", "balance"])
            );
            assert!(described["space"]["table_bytes"].as_u64().unwrap() > 0);

            let dump = home.text(&["table", "dump", "bank", "account"]);
            home.file("dump.csv", &dump);
            home.ok(&["table", "drop", "bank", "account"]);
            create(&home, &[]);
            home.ok(&["table", "load", "bank", "account", "dump.csv", "--batch", "2"]);
            let again = home.run(&["table", "dump", "bank", "account", "again.csv"]);
            assert_eq!(again.err, "halite: again.csv: 4 rows written\n");
            assert_eq!(fs::read_to_string(home.path("again.csv")).unwrap(), dump);
        }
    }
}

#[test]
fn a_store_is_described_in_words() {
    let home = Home::in_memory();
    create(&home, &[]);
    home.ok(&["table", "create", "bank", "t", "--column", "a int8", "--primary-key", "a"]);
    let text = home.text(&["table", "describe", "bank"]);
    assert!(text.starts_with("store       bank\nmethod      nvm-inp\npartitions  1\n"), "{text}");
    let account = "
account
  id       INT64
  owner    VARCHAR(12)
  balance  DECIMAL(12,2) NULL
  key      BYTES(4) NULL
  primary key (id)
  index by_owner (owner, balance)
";
    assert!(
        text.contains(account) && text.ends_with("\nt\n  a  INT8\n  primary key (a)\n"),
        "{text}"
    );
    let one = home.text(&["table", "describe", "bank", "t", "--count"]);
    assert!(one.ends_with("  primary key (a)\n  0 rows\n") && !one.contains("account"), "{one}");
}

#[test]
fn indexes_come_and_go() {
    let home = Home::in_memory();
    create(&home, &["--partitions", "2"]);
    load(&home, ACCOUNTS, &[]).ok();
    home.ok(&["table", "create-index", "bank", "account", "by_balance(balance)"]);
    home.ok(&["table", "create-index", "bank", "account", "one(owner, id)", "--unique"]);
    let spread = home.run(&["table", "create-index", "bank", "account", "two(owner)", "--unique"]);
    spread.failed(2, "the unique index \"two\" must have the column \"id\"");
    let first = ["table", "scan", "bank", "account", "--index", "by_balance", "--limit", "1"];
    assert!(home.text(&first).contains("Miller"));
    home.ok(&["table", "drop-index", "bank", "account", "by_balance"]);
    home.run(&first).failed(1, "bank: table \"account\" has no index \"by_balance\"");
    let again = home.run(&["table", "drop-index", "bank", "account", "by_balance"]);
    again.failed(1, "bank: table \"account\" has no index \"by_balance\"");
}

#[test]
fn a_refused_row_is_told_with_its_line_and_column() {
    let home = Home::in_memory();
    create(&home, &[]);
    load(&home, ACCOUNTS, &[]).ok();
    for (text, why) in [
        ("", "standard input:1: the file is empty"),
        ("id,name\n", "standard input:1: table \"account\" has no column \"name\""),
        ("id,owner,id\n", "standard input:1: column \"id\" is named twice"),
        ("id,balance\n", "standard input:1: column \"owner\" must have a value"),
        ("id,owner\n1\n", "standard input:2: it has 1 fields, and the first line names 2 columns"),
        ("id,owner\n1,a,b\n", "standard input:2: it has 3 fields"),
        ("id,owner\n1,a\n\nx,b\n", "standard input:4: column \"id\": \"x\" is no INT64"),
        ("id,owner\n,a\n", "standard input:2: column \"id\" must have a value and cannot be NULL"),
        (
            "id,owner\n1,abcdefghijklm\n",
            "standard input:2: column \"owner\" is VARCHAR(12) and cannot have 13",
        ),
        (
            "id,owner,balance\n1,a,0.001\n",
            "standard input:2: column \"balance\" is DECIMAL(12,2) and cannot",
        ),
        ("id,owner,key\n1,a,\\x0\n", "standard input:2: column \"key\": \"\\\\x0\" is no BYTES(4)"),
        (
            "id,owner\n1,a\n7,b\n",
            "standard input:3: there is a row with the primary key of account (7) already",
        ),
        (
            "id,owner\n1,a\n1,b\n",
            "standard input:3: there is a row with the primary key of account (1) already",
        ),
        ("id,owner\n1,\"a\n", "standard input:2: a quote is not closed"),
    ] {
        let ended = load(&home, text, &[]);
        assert!(
            ended.err.trim_end().ends_with("; 0 rows before it loaded and kept"),
            "{}",
            ended.err
        );
        ended.failed(1, why);
    }
    let not_utf8 =
        home.run_with(&["table", "load", "bank", "account", "-"], b"id,owner\n1,a\xff\n");
    not_utf8.failed(1, "standard input:2: column \"owner\": it is not UTF-8");
    home.run(&["table", "load", "bank", "account", "no.csv"]).failed(1, "no.csv: No such file");
    home.run(&["table", "load", "bank", "account", "."]).failed(1, ".: a folder; name a file");
    let described = home.json(&["table", "describe", "bank", "--count", "--json"]);
    assert_eq!(described["tables"][0]["rows"], 4);

    // Batches before the one with the wrong row stay.
    let ended = load(&home, "owner,id\na,1\nb,2\nc,3\nd,x\n", &["--batch", "2"]);
    assert!(ended.err.trim_end().ends_with("; 2 rows before it loaded and kept"), "{}", ended.err);
    let replaced = load(&home, "id,owner\n1,new\n7,new\n", &["--replace", "--json"]).ok();
    let report: Value = serde_json::from_slice(&replaced).unwrap();
    assert_eq!((&report["rows"], &report["method"]), (&json!(2), &json!("nvm-inp")));
    let rows = home.text(&["table", "dump", "bank", "account"]);
    let head = "id,owner,balance,key\n-3,Miller,,\n1,new,,\n2,b,,\n5,Smith,12.00,\n7,new,,\n";
    assert!(rows.starts_with(head), "{rows}");
}

#[test]
fn wrong_names_and_values_are_refused() {
    let home = Home::in_memory();
    create(&home, &[]);
    for args in [
        &["table", "drop", "bank", "t"][..],
        &["table", "describe", "bank", "t"],
        &["table", "scan", "bank", "t"],
        &["table", "dump", "bank", "t"],
        &["table", "dump", "bank", "t", "t.csv"],
        &["table", "load", "bank", "t", "-"],
        &["table", "create-index", "bank", "t", "i(a)"],
        &["table", "drop-index", "bank", "t", "i"],
    ] {
        home.run(args).failed(1, "bank: there is no table \"t\"");
    }
    assert!(!home.path("t.csv").exists());
    let scan =
        |more: &[&str]| home.run(&[&["table", "scan", "bank", "account"][..], more].concat());
    scan(&["--index", "i"]).failed(1, "bank: table \"account\" has no index \"i\"");
    scan(&["--from", "x"]).failed(2, "--from \"x\": column \"id\": \"x\" is no INT64");
    scan(&["--to", "1,2"]).failed(2, "--to \"1,2\": key \"primary key of account\" has 1 columns");
    scan(&["--to", ""]).failed(2, "--to \"\": it has no value");
    let index = home.run(&["table", "create-index", "bank", "account", "i(a)"]);
    index.failed(1, "bank: table \"account\" has no column \"a\"");
    let twice = ["table", "create", "bank", "account", "--column", "a int8", "--primary-key", "a"];
    home.run(&twice).failed(1, "bank: there is a table \"account\" already");
    let other = |more: &[&str]| {
        let create = ["table", "create", "bank", "t", "--column", "a int8", "--primary-key", "a"];
        home.run(&[&create[..], more].concat())
    };
    other(&["--method", "cow"]).failed(
        1,
        "bank: the store in bank/pool.halite was made by table:nvm-inp, not by table:cow",
    );
    other(&["--partitions", "8"])
        .failed(1, "bank: the store has 1 partitions, and 8 were asked for");
}

#[test]
fn a_wrong_schema_leaves_no_store_behind() {
    let home = Home::in_memory();
    let create = |more: &[&str]| {
        home.run(&[&["table", "create", "bank", "t", "--column", "a int8"][..], more].concat())
    };
    create(&["--primary-key", "b"]).failed(2, "table \"t\" has no column \"b\"");
    create(&["--primary-key", "a", "--index", "i(c)"]).failed(2, "table \"t\" has no column \"c\"");
    create(&["--primary-key", "a", "--column", "a int8"]).failed(2, "table \"t\" has \"a\" twice");
    create(&["--primary-key", "b", "--column", "b int8 null"])
        .failed(2, "column \"b\" of the primary key");
    create(&["--primary-key", "a", "--column", "b char(0)"])
        .failed(2, "column \"b\" cannot be CHAR(0)");
    let spread =
        ["--column", "b int8", "--primary-key", "a", "--unique", "i(b)", "--partitions", "2"];
    create(&spread).failed(2, "the unique index \"i\" must have the column \"a\"");
    assert!(!home.path("bank").exists());
}

#[test]
fn what_is_no_store_of_tables_is_refused() {
    let home = Home::in_memory();
    let scan = |folder: &str| home.run(&["table", "scan", folder, "account"]);
    scan("bank")
        .failed(1, "bank: there is no store of tables here; make one with `halite table create`");
    assert!(!home.path("bank").exists());
    home.file("file", "something else");
    scan("file").failed(1, "file: not a folder");

    home.ok(&["put", "data", "key", "value", "--engine", "indexlog"]);
    scan("data").failed(
        1,
        "data: the store in data/pool.halite was made by indexlog, not by a method of the testbed",
    );
    create(&home, &[]);
    // To the engine of its method, the store is a database without that key.
    home.run(&["get", "bank", "key"])
        .failed(3, "key: there is no such key in key space `db0` of bank");

    let pool = fs::read(home.path("bank/pool.halite")).unwrap();
    let damage = |name: &str, bytes: &[u8], code: i32, why: &str| {
        fs::create_dir(home.path(name)).unwrap();
        fs::write(home.path(name).join("pool.halite"), bytes).unwrap();
        scan(name).failed(code, &format!("{name}/pool.halite: {why}"));
    };
    damage("empty", b"", 1, "not a pool: 0 bytes");
    damage("foreign", &vec![b'x'; 4 << 20], 1, "not a Halite pool");
    damage("cut", &pool[..pool.len() - (2 << 20)], 4, "the pool has");
}

#[test]
fn a_store_has_one_process_at_a_time() {
    let home = Home::in_memory();
    create(&home, &[]);
    let mut command = home.command(&["table", "load", "bank", "account", "-", "--batch", "1"]);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut holder = command.spawn().unwrap();
    let mut input = holder.stdin.take().unwrap();
    input.write_all(b"id,owner\n1,a\n2,b\n").unwrap();
    // It has the store before it reads, and waits for the rest.
    while ioctl_fionread(&input).unwrap() > 0 {
        thread::yield_now();
    }
    let locked = home.run(&["table", "describe", "bank"]);
    locked.failed(1, "bank/pool.halite: the pool is in use by another process");
    drop(input);
    assert!(holder.wait_with_output().unwrap().status.success());
    let described = home.json(&["table", "describe", "bank", "--count", "--json"]);
    assert_eq!(described["tables"][0]["rows"], 2);
}

/// A store whose rows fill any pipe.
fn fill(home: &Home) {
    create(home, &["--partitions", "2"]);
    let row = |id: u32| format!("{id},owner,{id}.00,\\x00\n");
    let rows: String = (0..9000).map(row).collect();
    load(home, &format!("id,owner,balance,key\n{rows}"), &[]).ok();
}

#[test]
fn an_interrupted_scan_or_dump_ends() {
    let home = Home::in_memory();
    fill(&home);
    for (args, sent) in [
        (&["table", "scan", "bank", "account"][..], Signal::INT),
        (&["table", "scan", "bank", "account", "--json"], Signal::TERM),
        (&["table", "dump", "bank", "account"], Signal::INT),
    ] {
        let mut command = home.command(args);
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        assert!(Printed(60_000).wait(&home, &mut child));
        signal(&child, sent);
        // The command's output is read when the command has ended.
        let status = child.wait().unwrap();
        let mut err = String::new();
        std::io::Read::read_to_string(&mut child.stderr.take().unwrap(), &mut err).unwrap();
        assert_eq!((status.code(), &*err), (Some(130), "halite: interrupted\n"), "{args:?}");
    }
    let described = home.json(&["table", "describe", "bank", "--count", "--json"]);
    assert_eq!(described["tables"][0]["rows"], 9000);
}

#[test]
fn an_interrupted_load_keeps_whole_batches_and_says_how_many() {
    for method in METHODS {
        let home = Home::in_memory();
        create(&home, &["--method", method, "--partitions", "2"]);
        let mut command = home.command(&["table", "load", "bank", "account", "-", "--batch", "10"]);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut input = child.stdin.take().unwrap();
        input.write_all(b"id,owner\n").unwrap();
        let mut write = |ids: std::ops::Range<u32>| {
            let rows: String = ids.map(|id| format!("{id},{}\n", "x".repeat(12))).collect();
            input.write_all(rows.as_bytes())
        };
        // More than a pipe and a buffer take: rows are being loaded.
        write(0..40_000).unwrap();
        signal(&child, Signal::INT);
        // Its input goes on until it has ended.
        let mut more = (40_000..).step_by(1000);
        while more.next().is_some_and(|id| write(id..id + 1000).is_ok()) {}
        let output = child.wait_with_output().unwrap();
        let err = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(130), "{err}");
        let kept =
            err.strip_prefix("halite: interrupted; ").and_then(|rest| rest.split_once(" row"));
        let kept: u64 = kept.expect(&err).0.replace(',', "").parse().unwrap();
        assert_eq!(kept % 10, 0, "{err}");
        let described = home.json(&["table", "describe", "bank", "--count", "--json"]);
        assert_eq!(described["tables"][0]["rows"], kept);
    }
}
