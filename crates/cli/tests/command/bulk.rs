//! `load` and `dump`.

use std::collections::BTreeMap;
use std::fs;
use std::io::Write;
use std::os::unix::fs::symlink;
use std::process::{Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};

use crate::run::Home;

/// Keys and values with every byte, empty ones, and text.
fn awkward_tsv() -> String {
    let every_byte: String = (0..=255).map(|byte| format!("\\x{byte:02x}")).collect();
    format!(
        "\t\nempty\t\n{every_byte}\t{every_byte}\nk\u{f6}nig\tf\u{fc}r alle\ntab\\t\\\\\ta\tb\n"
    )
}

#[test]
fn a_dump_loads_as_it_was_in_both_formats() {
    let home = Home::new();
    home.run_with(&["load", "data", "-"], awkward_tsv().as_bytes()).ok();
    for space in ["db0:expires", "db1", "with\ttab"] {
        home.run_with(&["load", "data", "-", "--space", space], awkward_tsv().as_bytes()).ok();
    }
    for file in ["dump.tsv", "dump.jsonl"] {
        home.ok(&["dump", "data", file]);
        let copy = format!("copy of {file}");
        home.ok(&["load", &copy, file]);
        for format in ["tsv", "jsonl"] {
            let dump = |path: &str| home.ok(&["dump", path, "--format", format]);
            assert!(dump("data") == dump(&copy), "{file} dumped as {format} is another");
        }
    }
    let dump = fs::read_to_string(home.path("dump.tsv")).unwrap();
    assert_eq!(dump.lines().count(), 4 * 5 + 3);
    assert_eq!(dump.lines().filter(|line| line.starts_with("\\space\t")).count(), 3);
}

#[test]
fn a_dump_of_one_key_space_goes_wherever_it_is_loaded() {
    let home = Home::new();
    home.ok(&["put", "data", "a", "1", "--space", "people"]);
    home.ok(&["put", "data", "b", "2"]);
    let dump = home.ok(&["dump", "data", "--space", "people"]);
    assert_eq!(dump, b"a\t1\n");
    home.run_with(&["load", "data", "-", "--space", "copy"], &dump).ok();
    assert_eq!(home.text(&["get", "data", "a", "--space", "copy"]), "1");
    assert_eq!(
        home.text(&["dump", "data", "--json"]),
        concat!(
            "{\"key\":\"b\",\"value\":\"2\"}\n",
            "{\"space\":\"copy\",\"key\":\"a\",\"value\":\"1\"}\n",
            "{\"space\":\"people\",\"key\":\"a\",\"value\":\"1\"}\n",
        )
    );
}

#[test]
fn a_dump_never_overwrites_its_database() {
    let home = Home::new();
    home.ok(&["put", "data", "key", "value"]);
    let pool = "data/pool.halite";
    home.run(&["dump", "data", pool]).failed(1, "data/pool.halite: this is the database");
    symlink("pool.halite", home.path("data/link")).unwrap();
    home.run(&["dump", "data", "data/link"]).failed(1, "data/link: this is the database");
    assert_eq!(home.text(&["get", "data", "key"]), "value");
}

#[test]
fn a_dump_replaces_a_longer_file() {
    let home = Home::new();
    home.ok(&["put", "data", "key", "value"]);
    home.file("dump", "x".repeat(1000));
    home.ok(&["dump", "data", "dump"]);
    assert_eq!(fs::read(home.path("dump")).unwrap(), b"key\tvalue\n");
}

#[test]
fn a_hundred_thousand_objects_are_stored_as_they_stand() {
    let home = Home::new();
    let object = |n: u32| format!("{{\"name\": \"person {n}\", \"id\": {n}, \"x\": 1.50}}");
    let lines: String = (0..100_000).map(|n| object(n) + "\n").collect();
    home.file("people.jsonl", &lines);
    let report = home.json(&["load", "data", "people.jsonl", "--key", "id", "--json"]);
    assert_eq!(report["records"], 100_000);
    let stored: BTreeMap<u32, String> = home
        .text(&["scan", "data"])
        .lines()
        .map(|line| line.split_once('\t').unwrap())
        .map(|(key, value)| (key.parse().unwrap(), value.to_owned()))
        .collect();
    assert_eq!(stored.len(), 100_000);
    assert!(stored.iter().all(|(n, value)| *value == object(*n)));
}

#[test]
fn wrong_input_names_its_line_and_what_is_before_it_is_kept() {
    let home = Home::new();
    let lines: String = (1..=16).map(|n| format!("{{\"id\": {n}}}\n")).collect();
    home.file("people.jsonl", lines + "{\"name\": \"nobody\"}\n{\"id\": 18}\n");
    home.run(&["load", "data", "people.jsonl", "--key", "id"])
        .failed(1, "people.jsonl:17: no field `id`; 16 records before it loaded and kept");
    assert_eq!(home.text(&["scan", "data", "--count"]), "16\n");
    home.run_with(&["load", "data", "-"], b"a\t1\nb")
        .failed(1, "standard input:2: no tab; a line is a key, a tab and a value");
    assert_eq!(home.text(&["get", "data", "a"]), "1");
}

#[test]
fn a_tree_of_files_is_loaded_byte_for_byte() {
    let home = Home::new();
    fs::create_dir_all(home.path("tree/a/b")).unwrap();
    let bytes: Vec<u8> = (0..=255).collect();
    home.file("tree/a/b/bytes", &bytes);
    home.file("tree/empty", "");
    symlink("empty", home.path("tree/link")).unwrap();
    let report = home.json(&["load", "data", "--dir", "tree", "--json"]);
    assert_eq!((&report["records"], &report["skipped"]), (&2.into(), &1.into()));
    assert_eq!(home.ok(&["get", "data", "a/b/bytes"]), bytes);
    assert_eq!(home.ok(&["get", "data", "empty"]), b"");
    let said = home.text(&["load", "data", "--dir", "tree"]);
    assert!(said.contains("skipped 1 irregular file"), "{said}");
}

#[test]
fn a_database_below_the_folder_is_not_loaded_into_itself() {
    let home = Home::new();
    home.file("file", "contents");
    home.ok(&["put", "data", "key", "value"]);
    home.ok(&["load", "data", "--dir", "."]);
    assert_eq!(home.text(&["scan", "data", "--keys-only"]), "file\nkey\n");
}

#[test]
fn an_interrupted_load_keeps_what_it_says() {
    let home = Home::new();
    let mut child = home
        .command(&["load", "data", "-"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    stdin.write_all(b"first\t1\n").unwrap();
    // The database exists once the loader runs and its signal handlers are in place.
    while !home.path("data/pool.halite").exists() {
        stdin.write_all(b"more\t2\n").unwrap();
    }
    kill_process(Pid::from_child(&child), Signal::INT).unwrap();
    // The rest must not be read; the pipe may be closed at any moment.
    while stdin.write_all(b"more\t2\n").is_ok() {}
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(130));
    let message = String::from_utf8(output.stderr).unwrap();
    assert!(message.starts_with("halite: interrupted; "), "{message}");
    assert!(message.contains("loaded and kept"), "{message}");
    let first = home.text(&["get", "data", "first"]);
    assert_eq!(first, "1");
}

#[test]
fn a_pipe_can_be_dumped_to_and_loaded_from() {
    let home = Home::new();
    home.run_with(&["load", "data", "-"], awkward_tsv().as_bytes()).ok();
    let mut dump =
        home.command(&["dump", "data", "/dev/stdout"]).stdout(Stdio::piped()).spawn().unwrap();
    let piped: Stdio = dump.stdout.take().unwrap().into();
    let load: &mut Command = &mut home.command(&["load", "copy", "/dev/stdin", "--json"]);
    let report = load.stdin(piped).output().unwrap();
    assert!(dump.wait().unwrap().success());
    let report: serde_json::Value = serde_json::from_slice(&report.stdout).unwrap();
    assert_eq!(report["records"], 5);
    assert!(home.ok(&["dump", "data"]) == home.ok(&["dump", "copy"]));
}
