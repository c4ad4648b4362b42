//! `dataset`, `snapshot` and `tree`.

use serde_json::{Value, json};

use crate::run::Home;

/// A database with keys in a key space that is not the server's.
fn prepare(home: &Home) {
    home.ok(&["pool", "init", "data"]);
    home.run_with(&["load", "data", "-", "--space", "people"], b"a\t1\nb\t2\n").ok();
}

fn scan(home: &Home, args: &[&str]) -> String {
    home.text(&[&["scan", "data", "--space", "people"], args].concat())
}

#[test]
fn key_spaces_are_created_renamed_and_removed() {
    let home = Home::in_memory();
    prepare(&home);
    home.ok(&["dataset", "create", "data", "empty"]);
    home.ok(&["dataset", "create", "data", "people"]);
    assert_eq!(home.text(&["dataset", "ls", "data"]), "empty\npeople\n");
    home.run(&["dataset", "create", "data", ""]).failed(1, "data: a key space's name has 1 to");
    home.run(&["dataset", "rename", "data", "people", "empty"])
        .failed(1, "data: there is a dataset `empty` already");
    home.run(&["dataset", "rename", "data", "nobody", "x"])
        .failed(1, "data: there is no key space `nobody`; there is `empty`, `people`");
    home.ok(&["dataset", "rename", "data", "people", "persons"]);
    assert_eq!(home.text(&["get", "data", "b", "--space", "persons"]), "2");
    home.run(&["dataset", "rename", "data", "persons", "db1"])
        .failed(1, "db1: values of a name as this have tags of the server");
    home.ok(&["dataset", "rm", "data", "empty"]);
    home.run(&["dataset", "rm", "data", "empty"]).failed(1, "data: there is no key space `empty`");
    home.ok(&["snapshot", "create", "data", "s", "--space", "persons"]);
    home.run(&["dataset", "rm", "data", "persons"])
        .failed(1, "data: the dataset has the snapshot `s`");
    home.ok(&["dataset", "rm", "data", "persons", "--snapshots"]);
    assert_eq!(home.text(&["dataset", "ls", "data"]), "");
    home.ok(&["check", "data"]);
}

#[test]
fn key_spaces_of_every_engine_are_created_listed_and_removed() {
    let home = Home::in_memory();
    for engine in ["indexlog", "lsm"] {
        home.ok(&["put", engine, "a", "1", "--space", "people", "--engine", engine]);
        home.ok(&["dataset", "create", engine, "more"]);
        assert_eq!(home.text(&["dataset", "ls", engine]), "more\npeople\n");
        let first = home.text(&["dataset", "ls", engine, "--json"]);
        let first: Value = serde_json::from_str(first.lines().next().unwrap()).unwrap();
        assert_eq!((&first["name"], &first["snapshots"]), (&json!("more"), &Value::Null));
        home.ok(&["dataset", "rm", engine, "people"]);
        assert_eq!(home.text(&["dataset", "ls", engine]), "more\n");
    }
}

#[test]
fn a_servers_key_space_goes_with_its_deadlines_and_keeps_its_form() {
    let home = Home::in_memory();
    home.ok(&["pool", "init", "data"]);
    home.ok(&["put", "data", "a", "1"]);
    home.ok(&["dataset", "rename", "data", "db0", "db3"]);
    assert_eq!(home.text(&["get", "data", "a", "--space", "db3"]), "1");
    home.run(&["dataset", "rename", "data", "db3", "people"])
        .failed(1, "people: the values of `db3` have tags of the server; choose a name as `db3`");
    home.ok(&["snapshot", "create", "data", "s", "--space", "db3"]);
    home.run(&["snapshot", "clone", "data", "s", "people", "--space", "db3"]).failed(1, "people: ");
    home.ok(&["snapshot", "clone", "data", "s", "db4", "--space", "db3"]);
    assert_eq!(home.text(&["get", "data", "a", "--space", "db4"]), "1");
    home.ok(&["put", "data", "a", "deadline", "--space", "db4:expires"]);
    home.run(&["dataset", "rename", "data", "db4", "db5"])
        .failed(1, "db4: keys of it have times to live, in `db4:expires`");
    home.ok(&["dataset", "rm", "data", "db4"]);
    let names = home.text(&["dataset", "ls", "data"]);
    assert_eq!(names, "db3\t1 snapshot\nserver:1\n");
    home.run(&["dataset", "rm", "data", "server:1"]).failed(1, "server:1: it is the server's own");
}

#[test]
fn a_snapshot_stays_as_it_was() {
    let home = Home::in_memory();
    prepare(&home);
    let people = ["--space", "people"];
    let snapshot = |args: &[&str]| home.run(&[&["snapshot"], args, &people].concat());
    snapshot(&["create", "data", "monday"]).ok();
    home.run_with(&["load", "data", "-", "--space", "people"], b"a\tnew\nc\t3\n").ok();
    home.ok(&["del", "data", "b", "--space", "people"]);
    assert_eq!(scan(&home, &[]), "a\tnew\nc\t3\n");
    assert_eq!(scan(&home, &["--snapshot", "monday"]), "a\t1\nb\t2\n");
    assert_eq!(scan(&home, &["--snapshot", "monday", "--reverse", "--limit", "1"]), "b\t2\n");
    assert_eq!(scan(&home, &["--snapshot", "monday", "--from", "aa", "--count"]), "1\n");
    assert_eq!(home.text(&["get", "data", "b", "--space", "people", "--snapshot", "monday"]), "2");
    home.run(&["get", "data", "c", "--space", "people", "--snapshot", "monday"]).failed(3, "c: ");
    let none = "data: the dataset has no snapshot `sunday`";
    home.run(&["get", "data", "b", "--space", "people", "--snapshot", "sunday"]).failed(1, none);
    home.run(&["scan", "data", "--space", "people", "--snapshot", "sunday"]).failed(1, none);
    home.run(&["tree", "dump", "data", "--space", "people", "--snapshot", "sunday"])
        .failed(1, none);

    snapshot(&["create", "data", "monday"])
        .failed(1, "data: the dataset has a snapshot `monday` already");
    snapshot(&["create", "data", ""]).failed(1, "data: a key space's name has 1 to");
    snapshot(&["rm", "data", "sunday"]).failed(1, none);
    snapshot(&["rollback", "data", "sunday"]).failed(1, none);
    snapshot(&["clone", "data", "sunday", "x"]).failed(1, none);
    home.run(&["snapshot", "create", "data", "s", "--space", "nobody"])
        .failed(1, "data: there is no key space `nobody`");
    home.run(&["snapshot", "create", "data", "s"]).failed(1, "data: there is no key space `db0`");
    snapshot(&["create", "data", "tuesday"]).ok();
    snapshot(&["rollback", "data", "monday"])
        .failed(1, "data: the snapshot `tuesday` is newer than `monday`");
    snapshot(&["rollback", "data", "monday", "--force"]).ok();
    assert_eq!(scan(&home, &[]), "a\t1\nb\t2\n");
    assert_eq!(String::from_utf8(snapshot(&["ls", "data"]).ok()).unwrap(), "monday\n");
    snapshot(&["rm", "data", "monday"]).ok();
    assert_eq!(snapshot(&["ls", "data"]).ok(), b"");
    home.ok(&["check", "data"]);
}

#[test]
fn a_clone_begins_as_a_snapshot_and_keeps_it() {
    let home = Home::in_memory();
    prepare(&home);
    home.ok(&["snapshot", "create", "data", "s", "--space", "people"]);
    home.ok(&["snapshot", "clone", "data", "s", "copy", "--space", "people"]);
    home.run(&["snapshot", "clone", "data", "s", "copy", "--space", "people"])
        .failed(1, "data: there is a dataset `copy` already");
    home.ok(&["put", "data", "a", "other", "--space", "copy"]);
    assert_eq!(scan(&home, &[]), "a\t1\nb\t2\n");
    assert_eq!(home.text(&["scan", "data", "--space", "copy"]), "a\tother\nb\t2\n");
    assert_eq!(home.text(&["snapshot", "ls", "data", "--space", "people"]), "s\tkept by copy\n");
    let listed = home.json(&["snapshot", "ls", "data", "--space", "people", "--json"]);
    assert_eq!((&listed["name"], &listed["clones"]), (&json!("s"), &json!(["copy"])));
    assert_eq!(
        home.text(&["dataset", "ls", "data"]),
        "copy\tbegan as people@s\npeople\t1 snapshot\n"
    );
    for args in [
        &["snapshot", "rm", "data", "s", "--space", "people"][..],
        &["dataset", "rm", "data", "people", "--snapshots"],
    ] {
        home.run(args).failed(1, "data: the dataset `copy` is a clone of the snapshot `s`");
    }
    home.ok(&["dataset", "rm", "data", "copy"]);
    home.ok(&["snapshot", "rm", "data", "s", "--space", "people"]);
}

#[test]
fn a_tree_is_printed_with_all_of_its_messages() {
    let home = Home::in_memory();
    home.ok(&["pool", "init", "data"]);
    let lines: String = (0..30_000).map(|n| format!("key{n:05}\t{}\n", "v".repeat(500))).collect();
    home.run_with(&["load", "data", "-", "--space", "people"], lines.as_bytes()).ok();
    home.ok(&["dataset", "create", "data", "empty"]);
    let dump = |args: &[&str]| home.text(&[&["tree", "dump", "data", "--space"], args].concat());
    assert_eq!(dump(&["empty"]), "");
    let parts: Vec<Value> = dump(&["people", "--json"])
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let of = |kind: &'static str| parts.iter().filter(move |part| part["part"] == kind);
    let sum = |kind: &'static str, field: &str| {
        of(kind).map(|part| part[field].as_u64().unwrap()).sum::<u64>()
    };
    assert_eq!(parts[0]["part"], "node");
    assert_eq!(sum("run", "messages"), 30_000);
    assert!(sum("run", "bytes") > 15_000_000);
    assert_eq!(sum("node", "slots"), of("slot").count() as u64);
    let slots: Vec<_> = of("slot").filter(|slot| slot["level"] == 1).collect();
    assert!(slots.len() > 1 && slots[0]["low"] == Value::Null);
    for pair in slots.windows(2) {
        assert_eq!(
            pair[0]["high"], pair[1]["low"],
            "slots of the lowest level are next to each other"
        );
    }
    assert!(of("run").all(|run| run["extents"][0]["blocks"].as_u64().unwrap() > 0));
    let text = dump(&["people"]);
    assert!(
        text.starts_with("node, level ")
            && text.contains("\n  slot 0, ")
            && text.contains("\n    ")
    );
    assert_eq!(text.lines().count(), parts.len());

    home.ok(&["snapshot", "create", "data", "s", "--space", "people"]);
    home.ok(&["dataset", "create", "data", "people"]);
    let before = dump(&["people", "--snapshot", "s", "--json"]);
    home.ok(&["del", "data", "key00007", "--space", "people"]);
    assert_eq!(dump(&["people", "--snapshot", "s", "--json"]), before);
    home.run(&["tree", "dump", "data", "--space", "nobody"])
        .failed(1, "data: there is no key space");
}
