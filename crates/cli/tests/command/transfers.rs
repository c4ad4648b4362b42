//! `snapshot send` and `receive`, and `dataset copy`.

use std::fs;
use std::io::{Read, Write};
use std::process::{Child, Stdio};

use rustix::process::Signal;
use serde_json::json;

use crate::middle::Middle::Printed;
use crate::run::{Home, signal};

fn load(home: &Home, lines: &str) {
    home.run_with(&["load", "data", "-", "--space", "people"], lines.as_bytes()).ok();
}

/// A database with a snapshot, and a stream of it in the file `monday`.
fn prepare(home: &Home) {
    home.ok(&["pool", "init", "data"]);
    load(home, "a\t1\nb\t2\n");
    home.ok(&["snapshot", "create", "data", "monday", "--space", "people"]);
    home.ok(&["snapshot", "send", "data", "monday", "--space", "people", "-o", "monday"]);
}

/// Does as [`prepare`], and makes a stream of the changes in the file `tuesday`.
fn prepare_changes(home: &Home) {
    prepare(home);
    load(home, "a\tnew\nc\t3\n");
    home.ok(&["del", "data", "b", "--space", "people"]);
    home.ok(&["snapshot", "create", "data", "tuesday", "--space", "people"]);
    let args = ["snapshot", "send", "data", "tuesday", "--from", "monday", "--space", "people"];
    let stream = home.ok(&args);
    home.file("tuesday", stream);
}

/// A database with a snapshot of many records, whose values do not repeat, and their text.
fn prepare_many(home: &Home) -> String {
    home.ok(&["pool", "init", "data"]);
    let mut state = 7_u64;
    let mut value = || {
        let mut value = String::new();
        while value.len() < 1000 {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            value += &format!("{:08x}", state >> 32);
        }
        value
    };
    let lines: String = (0..8000).map(|n| format!("key{n:05}\t{}\n", value())).collect();
    load(home, &lines);
    home.ok(&["snapshot", "create", "data", "all", "--space", "people"]);
    lines
}

fn scan(home: &Home, db: &str, args: &[&str]) -> String {
    home.text(&[&["scan", db, "--space", "people"], args].concat())
}

fn spawn(home: &Home, args: &[&str]) -> Child {
    let mut command = home.command(args);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command.spawn().unwrap()
}

/// The exit code of a process, and what it said.
fn ended(child: Child) -> (Option<i32>, String) {
    let output = child.wait_with_output().unwrap();
    (output.status.code(), String::from_utf8(output.stderr).unwrap())
}

#[test]
fn a_snapshot_and_its_changes_are_received() {
    let home = Home::in_memory();
    prepare_changes(&home);
    assert!(!home.path("monday.part").exists());
    let received = home.text(&["snapshot", "receive", "copy", "monday"]);
    assert!(received.starts_with("people: snapshot `monday`, 2 values, 0 deleted keys, "));
    assert_eq!(scan(&home, "copy", &[]), "a\t1\nb\t2\n");
    let stream = fs::read(home.path("tuesday")).unwrap();
    let received = home.run_with(&["snapshot", "receive", "copy", "-", "--json"], &stream).ok();
    let received: serde_json::Value = serde_json::from_slice(&received).unwrap();
    assert_eq!(
        (&received["snapshot"], &received["from"], &received["space"]),
        (&json!("tuesday"), &json!("monday"), &json!("people"))
    );
    assert_eq!((&received["puts"], &received["deletes"]), (&json!(2), &json!(1)));
    assert_eq!(scan(&home, "copy", &[]), "a\tnew\nc\t3\n");
    assert_eq!(scan(&home, "copy", &["--snapshot", "monday"]), "a\t1\nb\t2\n");
    let names = home.text(&["snapshot", "ls", "copy", "--space", "people"]);
    assert_eq!(names, "monday\ntuesday\n");
    home.run(&["snapshot", "receive", "copy", "tuesday"])
        .failed(1, "copy: the dataset has the snapshot of the stream already");
    home.ok(&["snapshot", "receive", "copy", "monday", "--space", "persons"]);
    assert_eq!(home.text(&["get", "copy", "b", "--space", "persons"]), "2");
    for db in ["data", "copy"] {
        home.ok(&["check", db]);
    }
}

#[test]
fn a_stream_that_does_not_fit_changes_nothing() {
    let home = Home::in_memory();
    prepare_changes(&home);
    home.run(&["snapshot", "receive", "copy", "tuesday"]).failed(1, "copy: ");
    home.ok(&["pool", "init", "other"]);
    home.run_with(&["load", "other", "-", "--space", "people"], b"x\ty\n").ok();
    home.run(&["snapshot", "receive", "other", "tuesday"])
        .failed(1, "other: the stream has the changes since the snapshot `monday`");
    home.run(&["snapshot", "receive", "other", "monday"])
        .failed(1, "other: there is a dataset `people` already");
    assert_eq!(scan(&home, "other", &[]), "x\ty\n");

    home.ok(&["snapshot", "receive", "copy", "monday"]);
    home.ok(&["put", "copy", "own", "1", "--space", "people"]);
    home.run(&["snapshot", "receive", "copy", "tuesday"])
        .failed(1, "copy: the dataset has changed since its snapshot `monday`");
    assert_eq!(scan(&home, "copy", &[]), "a\t1\nb\t2\nown\t1\n");
    home.ok(&["snapshot", "receive", "copy", "tuesday", "--rollback"]);
    assert_eq!(scan(&home, "copy", &[]), "a\tnew\nc\t3\n");

    let send = |args: &[&str]| {
        home.run(&[&["snapshot", "send", "data", "--space", "people"], args].concat())
    };
    send(&["sunday"]).failed(1, "data: the dataset has no snapshot `sunday`");
    send(&["monday", "--from", "tuesday", "-o", "none"]).failed(1, "data: the snapshot `tuesday`");
    send(&["monday", "--resume", "00"]).failed(1, "data: ");
    send(&["monday", "-o", "data/pool.halite"]).failed(1, "data/pool.halite: this is the database");
    assert!(!home.path("none").exists() && !home.path("none.part").exists());
    home.run(&["snapshot", "receive", "copy", "missing"]).failed(1, "missing: No such file");
    home.run(&["snapshot", "receive", "copy", "."])
        .failed(1, "copy: the stream cannot be read: .:");
}

#[test]
fn damaged_truncated_and_foreign_streams_are_refused() {
    let home = Home::in_memory();
    prepare(&home);
    let stream = fs::read(home.path("monday")).unwrap();
    let receive = |bytes: &[u8]| home.run_with(&["snapshot", "receive", "copy"], bytes);
    receive(b"").failed(1, "copy: the stream is empty");
    receive(b"no stream of any kind").failed(1, "copy: these bytes are no snapshot");
    for len in [3, 20, stream.len() / 2, stream.len() - 1] {
        receive(&stream[..len]).failed(4, "copy: the stream ends within chunk ");
    }
    for at in [40, stream.len() / 2, stream.len() - 1] {
        let mut damaged = stream.clone();
        damaged[at] ^= 1;
        receive(&damaged).failed(4, "copy: the stream ");
    }
    assert_eq!(home.text(&["dataset", "ls", "copy"]), "");
    receive(&stream).ok();
    assert_eq!(scan(&home, "copy", &[]), "a\t1\nb\t2\n");
}

#[test]
fn a_stream_that_was_cut_off_goes_on_with_its_token() {
    let home = Home::in_memory();
    let lines = prepare_many(&home);
    let send = ["snapshot", "send", "data", "all", "--space", "people"];
    let stream = home.ok(&send);
    let token = ["snapshot", "token", "copy", "--space", "people"];
    home.ok(&["pool", "init", "copy"]);
    home.run(&token).failed(3, "copy: no stream for the key space `people` was interrupted");
    home.run_with(&["snapshot", "receive", "copy"], &stream[..stream.len() / 2])
        .failed(4, "copy: the stream ends within chunk ");
    assert_eq!(home.text(&["dataset", "ls", "copy"]), "");
    let text = home.text(&token);
    let rest = home.ok(&[&send[..], &["--resume", text.trim()]].concat());
    assert!(rest.len() < stream.len() * 3 / 4, "{} of {}", rest.len(), stream.len());
    home.run_with(&["snapshot", "receive", "copy"], &rest).ok();
    assert!(scan(&home, "copy", &[]) == lines);
    home.run(&token).failed(3, "copy: ");

    let half = &stream[..stream.len() / 2];
    let other = ["snapshot", "receive", "copy", "--space", "other"];
    home.run_with(&other, half).failed(4, "copy: ");
    home.ok(&["snapshot", "discard", "copy", "--space", "other"]);
    home.run(&["snapshot", "discard", "copy", "--space", "other"]).failed(3, "copy: ");
    home.ok(&["check", "copy"]);
}

#[test]
fn a_pipe_that_is_closed_early_is_an_error_of_the_sender() {
    let home = Home::in_memory();
    prepare_many(&home);
    let mut child = spawn(&home, &["snapshot", "send", "data", "all", "--space", "people"]);
    let mut out = child.stdout.take().unwrap();
    out.read_exact(&mut [0; 1000]).unwrap();
    drop(out);
    let (code, err) = ended(child);
    assert_eq!(code, Some(1), "{err}");
    assert!(err.starts_with("halite: data: the stream cannot be written: standard output: "));
    assert_eq!(err.lines().count(), 1, "{err}");
}

#[test]
fn an_interrupted_transfer_leaves_the_key_space_as_it_was() {
    let home = Home::in_memory();
    let lines = prepare_many(&home);
    let send = ["snapshot", "send", "data", "all", "--space", "people"];
    let mut child = spawn(&home, &send);
    assert!(Printed(60_000).wait(&home, &mut child));
    signal(&child, Signal::INT);
    let (code, err) = ended(child);
    assert_eq!(code, Some(130), "{err}");
    assert!(err.starts_with("halite: interrupted"), "{err}");

    let stream = home.ok(&send);
    let mut child = spawn(&home, &["snapshot", "receive", "copy"]);
    let mut input = child.stdin.take().unwrap();
    // A pipe does not hold so much: it was read, but for the end.
    input.write_all(&stream[..stream.len() / 2]).unwrap();
    signal(&child, Signal::TERM);
    // The command reads on, and notices.
    while input.write_all(&stream[stream.len() / 2..stream.len() / 2 + 1]).is_ok() {}
    let (code, err) = ended(child);
    assert_eq!(code, Some(130), "{err}");
    assert!(err.starts_with("halite: interrupted; the key space is as it was"), "{err}");
    assert_eq!(home.text(&["dataset", "ls", "copy"]), "");
    let token = home.text(&["snapshot", "token", "copy", "--space", "people"]);
    let rest = home.ok(&[&send[..], &["--resume", token.trim()]].concat());
    home.run_with(&["snapshot", "receive", "copy"], &rest).ok();
    assert!(scan(&home, "copy", &[]) == lines);
    home.ok(&["check", "copy"]);
}

#[test]
fn a_servers_key_space_keeps_its_form() {
    let home = Home::in_memory();
    home.ok(&["pool", "init", "data"]);
    home.ok(&["put", "data", "a", "1"]);
    home.ok(&["snapshot", "create", "data", "s"]);
    let stream = home.ok(&["snapshot", "send", "data", "s"]);
    let receive = |space: &str| {
        home.run_with(&["snapshot", "receive", "copy", "-", "--space", space], &stream)
    };
    receive("people").failed(1, "people: the values of `db0` have tags of the server");
    receive("server:1").failed(1, "server:1: it is the server's own");
    receive("db3").ok();
    assert_eq!(home.text(&["get", "copy", "a", "--space", "db3"]), "1");
    home.ok(&["dataset", "copy", "copy", "db3", "db4"]);
    assert_eq!(home.text(&["get", "copy", "a", "--space", "db4"]), "1");
    home.run(&["dataset", "copy", "copy", "db3", "people"]).failed(1, "people: ");
    home.ok(&["put", "copy", "a", "deadline", "--space", "db4:expires"]);
    home.run(&["dataset", "copy", "copy", "db3", "db4"])
        .failed(1, "db4: keys of it have times to live, in `db4:expires`");
}

#[test]
fn a_range_is_copied() {
    let home = Home::in_memory();
    home.ok(&["pool", "init", "data"]);
    load(&home, "user:1\tone\nuser:2\ttwo\nx\ty\n");
    let copy = |args: &[&str]| home.run(&[&["dataset", "copy", "data"], args].concat());
    copy(&["people", "all"]).ok();
    let all = "user:1\tone\nuser:2\ttwo\nx\ty\n";
    assert_eq!(home.text(&["scan", "data", "--space", "all"]), all);
    copy(&["people", "people", "--prefix", "user:", "--new-prefix", "member:"]).ok();
    assert_eq!(scan(&home, "data", &["--prefix", "member:"]), "member:1\tone\nmember:2\ttwo\n");
    load(&home, "user:3\tthree\n");
    home.ok(&["del", "data", "user:1", "--space", "people"]);
    copy(&["people", "all", "--prefix", "user:"]).ok();
    let expected = "user:2\ttwo\nuser:3\tthree\nx\ty\n";
    assert_eq!(home.text(&["scan", "data", "--space", "all"]), expected);
    copy(&["people", "part", "--from", "user:3", "--to", "w"]).ok();
    assert_eq!(home.text(&["scan", "data", "--space", "part"]), "user:3\tthree\n");
    copy(&["people", "in", "--from", "x", "--new-prefix", "copy of "]).ok();
    assert_eq!(home.text(&["scan", "data", "--space", "in"]), "copy of x\ty\n");
    copy(&["people", "people"]).failed(1, "people: it would be copied onto itself");
    copy(&["nobody", "x"]).failed(1, "data: there is no key space `nobody`");
    let long = "p".repeat(60_000);
    copy(&["people", "long", "--new-prefix", &long]).failed(1, "data: copies may have made");
    home.ok(&["check", "data"]);
}
