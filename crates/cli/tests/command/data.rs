//! `put`, `get`, `del` and `scan`.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::process::Stdio;

use crate::run::Home;

#[test]
fn what_was_put_is_there_for_the_next_process() {
    let home = Home::new();
    assert_eq!(home.text(&["put", "data", "greeting", "hello"]), "");
    assert_eq!(home.text(&["get", "data", "greeting"]), "hello");
    home.ok(&["put", "data", "greeting", "good day"]);
    assert_eq!(home.text(&["get", "data", "greeting"]), "good day");
    assert_eq!(home.text(&["del", "data", "greeting", "greeting", "nothing"]), "deleted 1 key\n");
    home.run(&["get", "data", "greeting"]).failed(3, "greeting: there is no such key");
    assert_eq!(home.json(&["del", "data", "greeting", "--json"])["deleted"], 0);
}

#[test]
fn a_value_comes_from_an_argument_a_file_or_standard_input() {
    let home = Home::new();
    let bytes: Vec<u8> = (0..=255).cycle().take(100_000).collect();
    home.file("bytes", &bytes);
    home.ok(&["put", "data", "file", "--file", "bytes"]);
    home.run_with(&["put", "data", "stdin"], &bytes).ok();
    home.run_with(&["put", "data", "dash", "-"], &bytes).ok();
    home.ok(&["put", "data", "empty", ""]);
    home.ok(&["put", "data", "-7", "-1"]);
    for key in ["file", "stdin", "dash"] {
        assert_eq!(home.ok(&["get", "data", key]), bytes, "{key}");
    }
    assert_eq!(home.ok(&["get", "data", "empty"]), b"");
    assert_eq!(home.ok(&["get", "data", "-7"]), b"-1");
}

#[test]
fn keys_that_are_not_text_can_be_named() {
    let home = Home::new();
    home.ok(&["put", "data", r"\0\xff\t", "zero", "-e"]);
    home.ok(&["put", "data", r"\0\xff\t", "literal"]);
    home.ok(&[OsStr::new("put"), OsStr::new("data"), OsStr::from_bytes(b"\xfe"), OsStr::new("fe")]);
    assert_eq!(home.text(&["get", "data", r"\x00\xff\x09", "--escaped"]), "zero");
    assert_eq!(home.text(&["get", "data", r"\0\xff\t"]), "literal");
    assert_eq!(
        home.text(&["scan", "data"]),
        "\\0\\xff\\t\tzero\n\\\\0\\\\xff\\\\t\tliteral\n\\xfe\tfe\n"
    );
    let object = home.json(&["get", "data", r"\xfe", "-e", "--json"]);
    assert_eq!(object, serde_json::json!({ "key_base64": "/g==", "value": "fe" }));
}

#[test]
fn limits_are_named_and_nothing_is_written() {
    let home = Home::new();
    home.ok(&["put", "data", "a", "1"]);
    let longest = "k".repeat(64 << 10);
    home.ok(&["put", "data", &longest, "2"]);
    home.run(&["put", "data", &format!("{longest}k"), "3"])
        .failed(1, "data: the key is 65537 bytes long; the limit is 65536");
    assert_eq!(home.text(&["scan", "data", "--count"]), "2\n");
}

#[test]
fn key_spaces_are_apart() {
    let home = Home::new();
    home.ok(&["put", "data", "key", "of db0"]);
    home.ok(&["put", "data", "key", "of people", "--space", "people"]);
    assert_eq!(home.text(&["get", "data", "key"]), "of db0");
    assert_eq!(home.text(&["get", "data", "key", "--space", "people"]), "of people");
    home.run(&["scan", "data", "--space", "pepole"])
        .failed(1, "data: there is no key space `pepole`; there is `db0`, `people`");
}

#[test]
fn a_key_that_is_written_or_removed_loses_its_deadline() {
    let home = Home::new();
    for key in ["put", "del", "left"] {
        home.ok(&["put", "data", key, "1"]);
        home.ok(&["put", "data", key, "deadline", "--space", "db0:expires"]);
    }
    home.ok(&["put", "data", "put", "2"]);
    home.ok(&["del", "data", "del"]);
    let left = home.text(&["scan", "data", "--space", "db0:expires", "--keys-only"]);
    assert_eq!(left, "left\n");
}

#[test]
fn a_scan_is_ordered_and_bounded() {
    let home = Home::new();
    let lines: String = (0..100).rev().map(|n| format!("key{n:02}\t{n}\n")).collect();
    home.run_with(&["load", "data", "-"], lines.as_bytes()).ok();
    let scan = |args: &[&str]| home.text(&[&["scan", "data", "--keys-only"], args].concat());
    assert_eq!(home.text(&["scan", "data", "--limit", "2"]), "key00\t0\nkey01\t1\n");
    assert_eq!(scan(&["--reverse", "--limit", "2"]), "key99\nkey98\n");
    assert_eq!(scan(&["--from", "key41", "--to", "key43"]), "key41\nkey42\n");
    assert_eq!(scan(&["--from", "key41", "--to", "key43", "--reverse"]), "key42\nkey41\n");
    assert_eq!(scan(&["--prefix", "key4", "--from", "key48"]), "key48\nkey49\n");
    assert_eq!(scan(&["--from", "key5", "--to", "key4"]), "");
    assert_eq!(scan(&["--limit", "0"]), "");
    assert_eq!(home.text(&["scan", "data", "--prefix", "key4", "--count"]), "10\n");
    assert_eq!(home.json(&["scan", "data", "--count", "--json"])["count"], 100);
    assert_eq!(
        home.text(&["scan", "data", "--limit", "1", "--json"]),
        "{\"key\":\"key00\",\"value\":\"0\"}\n"
    );
    assert_eq!(
        home.text(&["scan", "data", "--limit", "1", "--json", "--keys-only"]),
        "{\"key\":\"key00\"}\n"
    );
}

#[test]
fn a_scan_whose_reader_leaves_ends_quietly() {
    let home = Home::new();
    let lines: String = (0..50_000).map(|n| format!("key{n}\tsome value\n")).collect();
    home.run_with(&["load", "data", "-"], lines.as_bytes()).ok();
    let mut child = home
        .command(&["scan", "data"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // More than a pipe holds is never read.
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert_eq!(String::from_utf8_lossy(&output.stderr), "");
    assert!(output.status.success());
}

#[test]
fn values_of_the_server_have_tags_which_no_command_shows() {
    let home = Home::new();
    home.ok(&["put", "data", "key", "value"]);
    home.ok(&["put", "data", "key", "other", "--space", "people"]);
    let raw = |space: &str, key: &str| {
        let db = halite::Database::open(home.path("data")).unwrap();
        db.find_key_space(space).unwrap().unwrap().get(key).unwrap().unwrap().to_vec()
    };
    assert_eq!((raw("db0", "key"), raw("people", "key")), (b"\x90value".into(), b"other".into()));
    // A newer version may leave such a value.
    let db = halite::Database::open(home.path("data")).unwrap();
    db.key_space("db0").unwrap().put("new", b"\xb0what it is").unwrap();
    drop(db);
    let why =
        "data: the value of `new` in key space `db0`: it was written by a newer version of Halite";
    home.run(&["get", "data", "new"]).failed(1, why);
    home.run(&["scan", "data"]).failed(1, why);
    home.run(&["dump", "data"]).failed(1, why);
    home.run(&["dump", "data", "file"]).failed(1, why);
    assert!(!home.path("file").exists());
    assert_eq!(home.text(&["scan", "data", "--keys-only"]), "key\nnew\n");
    assert_eq!(home.text(&["get", "data", "key"]), "value");
    home.ok(&["del", "data", "new"]);
    assert_eq!(home.text(&["scan", "data"]), "key\tvalue\n");
}

#[test]
fn a_database_without_tags_is_read_as_it_is_and_loads_into_a_new_one() {
    let home = Home::new();
    let db = halite::Database::open(home.path("data")).unwrap();
    db.key_space("db0").unwrap().put("key", b"\x90 is a byte").unwrap();
    drop(db);
    assert_eq!(home.ok(&["get", "data", "key"]), b"\x90 is a byte");
    let dump = home.ok(&["dump", "data"]);
    assert!(dump.starts_with(b"key\t"), "{}", dump.escape_ascii());
    let why = "data: the values in the key space `db0` have no tags of a server";
    home.run(&["put", "data", "key", "value"]).failed(1, why);
    home.run_with(&["load", "data", "-"], b"key\tvalue\n").failed(1, why);
    let refused = home.run(&["serve", "data", "--port", "0"]);
    assert_eq!(refused.code, Some(1));
    assert!(refused.err.contains(&why["data: ".len()..]), "{}", refused.err);
    home.ok(&["put", "data", "key", "value", "--space", "people"]);
    home.run_with(&["load", "new", "-"], &dump).ok();
    assert_eq!(home.ok(&["get", "new", "key"]), b"\x90 is a byte");
    assert_eq!(home.text(&["stat", "new", "--json"]).matches("server:1").count(), 1);
}
