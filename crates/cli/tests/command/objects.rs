//! `obj`: objects of any length, their names, and their metadata.

use std::ffi::OsStr;
use std::fs;
use std::io::Write;
use std::os::unix::ffi::OsStrExt;
use std::process::Stdio;

use rustix::process::Signal;
use serde_json::json;

use crate::run::{Home, signal};

/// Bytes that repeat in no chunk.
fn bytes(len: usize) -> Vec<u8> {
    let mut random = fastrand::Rng::with_seed(len as u64);
    std::iter::repeat_with(|| random.u8(..)).take(len).collect()
}

#[test]
fn an_object_comes_back_from_a_file_and_from_a_pipe() {
    let home = Home::in_memory();
    for len in [0, 1, 131_072, 131_073, (9 << 20) + 7] {
        let bytes = bytes(len);
        home.file("file", &bytes);
        assert_eq!(home.text(&["obj", "put", "data", "of file", "file"]), "");
        home.run_with(&["obj", "put", "data", "of pipe"], &bytes).ok();
        home.run_with(&["obj", "put", "data", "of dash", "-", "--store", "other"], &bytes).ok();
        assert!(home.ok(&["obj", "get", "data", "of file"]) == bytes, "{len}");
        assert!(home.ok(&["obj", "get", "data", "of pipe", "-"]) == bytes, "{len}");
        home.ok(&["obj", "get", "data", "of dash", "copy", "--store", "other"]);
        assert!(fs::read(home.path("copy")).unwrap() == bytes, "{len}");
    }
    assert_eq!(home.json(&["stat", "data", "--json"])["engine"], "betree");
    assert!(!home.path("copy.part").exists());
    let names = home.text(&["obj", "ls", "data", "--json"]);
    assert_eq!(names.lines().count(), 2, "{names}");
    home.ok(&["check", "data"]);
}

#[test]
fn a_range_is_read_and_written() {
    let home = Home::in_memory();
    home.run_with(&["obj", "put", "data", "o"], b"0123456789").ok();
    let get = |args: &[&str]| home.text(&[&["obj", "get", "data", "o"], args].concat());
    assert_eq!(get(&["--offset", "4"]), "456789");
    assert_eq!(get(&["--length", "3"]), "012");
    assert_eq!(get(&["--offset", "8", "--length", "100"]), "89");
    assert_eq!(get(&["--offset", "10"]), "");
    assert_eq!(get(&["--length", "0"]), "");
    assert_eq!(get(&["--offset", "1", "--length", "18446744073709551615"]), "123456789");
    home.run(&["obj", "get", "data", "o", "--offset", "11", "--length", "1"])
        .failed(1, "o: the object has 10 bytes, and the range begins at byte 11");
    home.run_with(&["obj", "put", "data", "o", "--offset", "2"], b"AB").ok();
    home.run_with(&["obj", "put", "data", "o", "--offset", "12"], b"C").ok();
    assert_eq!(get(&[]), "01AB456789\0\0C");
    home.run_with(&["obj", "put", "data", "sparse", "--offset", "1TiB"], b"end").ok();
    assert_eq!(home.json(&["obj", "stat", "data", "sparse", "--json"])["size"], (1_u64 << 40) + 3);
    assert_eq!(home.text(&["obj", "get", "data", "sparse", "--offset", "1TiB"]), "end");
    for args in [
        &["get", "data", "o", "--offset", "-1"][..],
        &["get", "data", "o", "--length", "-5"],
        &["get", "data", "o", "--length", "1.5"],
        &["get", "data", "o", "--offset", "99999999999TiB"],
        &["put", "data", "o", "-", "--offset", "-1"],
        &["put", "data"],
        &["meta", "data"],
        &["ls", "data", "--limit", "-1"],
    ] {
        let ended = home.run(&[&["obj"], args].concat());
        assert_eq!(ended.code, Some(2), "{args:?}: {}", ended.err);
    }
    home.run_with(&["obj", "put", "data", "o", "--offset", "18446744073709551615"], b"x")
        .failed(1, "data: an object has at most ");
    assert_eq!(get(&[]), "01AB456789\0\0C");
}

#[test]
fn names_are_listed_changed_and_removed() {
    let home = Home::in_memory();
    for (name, value) in [("b/2", "22"), ("a", "1"), ("b/10", "")] {
        home.run_with(&["obj", "put", "data", name], value.as_bytes()).ok();
    }
    let args =
        [OsStr::new("obj"), OsStr::new("put"), OsStr::new("data"), OsStr::from_bytes(b"\xfe\t")];
    home.run_with(&args, b"x").ok();
    let list = |args: &[&str]| home.text(&[&["obj", "ls", "data"], args].concat());
    let names = |args: &[&str]| -> Vec<(String, String)> {
        let parts = |line: &str| {
            let parts: Vec<_> = line.split('\t').collect();
            assert!(
                parts.len() == 3 && parts[1].starts_with("20") && parts[1].ends_with('Z'),
                "{line}"
            );
            (parts[0].to_owned(), parts[2].to_owned())
        };
        list(args).lines().map(parts).collect()
    };
    let pair = |size: &str, name: &str| (size.to_owned(), name.to_owned());
    let all = [pair("1", "a"), pair("0", "b/10"), pair("2", "b/2"), pair("1", r"\xfe\t")];
    assert_eq!(names(&[]), all);
    assert_eq!(names(&["b/"]), all[1..3]);
    assert_eq!(names(&["--limit", "1"]), all[..1]);
    assert_eq!(names(&["--limit", "0"]), []);
    assert_eq!(names(&[r"\xfe", "-e"]), all[3..]);
    assert_eq!(list(&["c"]), "");
    let line: serde_json::Value = serde_json::from_str(&list(&[r"\xfe", "-e", "--json"])).unwrap();
    assert_eq!((&line["name_base64"], &line["size"]), (&json!("/gk="), &json!(1)));

    home.ok(&["obj", "mv", "data", "a", "c"]);
    home.run(&["obj", "mv", "data", "c", "b/2"])
        .failed(1, "data: there is an object \"b/2\" already");
    home.ok(&["obj", "mv", "data", "c", "b/2", "--replace"]);
    assert_eq!(home.text(&["obj", "get", "data", "b/2"]), "1");
    home.ok(&["obj", "mv", "data", "b/2", "b/2"]);
    home.run(&["obj", "mv", "data", "c", "d"])
        .failed(3, "c: there is no such object in object store `objects`");
    home.run(&["obj", "rm", "data", "b/2", "nothing"])
        .failed(3, "nothing: there is no such object");
    assert_eq!(home.text(&["obj", "rm", "data", "b/2", "b/10", "b/2"]), "deleted 2 objects\n");
    assert_eq!(home.json(&["obj", "rm", "data", r"\xfe\t", "-e", "--json"])["deleted"], 1);
    assert_eq!(list(&[]), "");
}

#[test]
fn a_missing_object_or_store_is_told_and_not_made() {
    let home = Home::in_memory();
    home.ok(&["pool", "init", "data"]);
    for args in [
        &["get", "data", "o"][..],
        &["stat", "data", "o"],
        &["rm", "data", "o"],
        &["mv", "data", "o", "p"],
        &["meta", "ls", "data", "o"],
        &["meta", "get", "data", "o", "key"],
        &["meta", "set", "data", "o", "key", "value"],
        &["meta", "rm", "data", "o", "key"],
    ] {
        home.run(&[&["obj"], args].concat()).failed(3, "o: there is no such object");
        let ended = home.run(&[&["obj"], args, &["--store", "raw"]].concat());
        ended.failed(1, "data: there is no object store `raw`; there is none");
    }
    assert_eq!(home.text(&["obj", "ls", "data"]), "");
    home.run_with(&["obj", "put", "data", "o"], b"x").ok();
    home.run(&["obj", "ls", "data", "--store", "raw"])
        .failed(1, "data: there is no object store `raw`; there is `objects`");
}

#[test]
fn names_that_no_object_can_have_are_refused_before_anything_is_read() {
    let home = Home::in_memory();
    home.ok(&["pool", "init", "data"]);
    home.run_with(&["obj", "put", "data", ""], b"x")
        .failed(1, "data: the name of an object has 1 to");
    let longest = "n".repeat(65_520);
    home.run_with(&["obj", "put", "data", &longest], b"x").ok();
    home.run_with(&["obj", "put", "data", &format!("{longest}n")], b"x")
        .failed(1, "data: the name of an object has 1 to 65520 bytes, this one has 65521");
    home.run_with(&["obj", "put", "data", r"\0unfinished", "-e"], b"x")
        .failed(1, r"\0unfinished: the name is that of objects that are not finished");
    home.run(&["obj", "put", "data", "o", "--store", ""])
        .failed(1, "data: the name of an object store has");
    home.run(&["obj", "put", "data", "o", "missing"]).failed(1, "missing: No such file");
    home.run(&["obj", "put", "data", "o", "."]).failed(1, ".: a folder; name a file");
    home.run(&["obj", "get", "data", "", "-"]).failed(1, "data: the name of an object has 1 to");
    home.run(&["obj", "put", "new", "o", "missing"]).failed(1, "missing: No such file");
    assert!(!home.path("new").exists());
    assert_eq!(home.text(&["obj", "ls", "data"]).lines().count(), 1);
}

#[test]
fn metadata_follows_its_object() {
    let home = Home::in_memory();
    home.run_with(&["obj", "put", "data", "o"], b"x").ok();
    home.ok(&["obj", "meta", "set", "data", "o", "camera", "X100"]);
    home.run_with(&["obj", "meta", "set", "data", "o", r"\xff", "-e"], b"\0\xfe").ok();
    home.ok(&["obj", "mv", "data", "o", "p"]);
    assert_eq!(home.text(&["obj", "meta", "get", "data", "p", "camera"]), "X100");
    assert_eq!(home.ok(&["obj", "meta", "get", "data", "p", r"\xff", "-e"]), b"\0\xfe");
    assert_eq!(home.text(&["obj", "meta", "ls", "data", "p"]), "camera\tX100\n\\xff\t\\0\\xfe\n");
    let first = home.text(&["obj", "meta", "ls", "data", "p", "--json"]);
    assert!(first.starts_with("{\"key\":\"camera\",\"value\":\"X100\"}\n"), "{first}");
    let stat = home.json(&["obj", "stat", "data", "p", "--json"]);
    assert_eq!(
        (&stat["metadata"], &stat["size"], &stat["preference"]),
        (&json!(2), &json!(1), &json!("none"))
    );
    assert!(home.text(&["obj", "stat", "data", "p"]).contains("\nsize        1 B (1 B)\n"));
    home.ok(&["obj", "meta", "rm", "data", "p", "camera"]);
    home.ok(&["obj", "meta", "rm", "data", "p", "camera"]);
    home.run(&["obj", "meta", "get", "data", "p", "camera"])
        .failed(3, "camera: the object `p` has no such metadata");
    home.run_with(&["obj", "put", "data", "p"], b"new").ok();
    assert_eq!(home.text(&["obj", "meta", "ls", "data", "p"]), "", "it was the old object's");
}

/// Puts half of an object, and waits until the process has read it.
fn begin_put(home: &Home, args: &[&str]) -> (std::process::Child, std::process::ChildStdin) {
    let mut command = home.command(args);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut input = child.stdin.take().unwrap();
    // A pipe does not hold so much: a piece of it was written.
    input.write_all(&bytes(9 << 20)).unwrap();
    (child, input)
}

#[test]
fn a_put_that_does_not_end_leaves_the_old_object() {
    let home = Home::in_memory();
    home.run_with(&["obj", "put", "data", "o"], b"old").ok();
    let args = ["obj", "put", "data", "o"];
    let (child, mut input) = begin_put(&home, &args);
    signal(&child, Signal::INT);
    // The command reads on, and notices.
    while input.write_all(b"more").is_ok() {}
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(130));
    let err = String::from_utf8(output.stderr).unwrap();
    assert!(err.starts_with("halite: interrupted"), "{err}");
    assert_eq!(home.text(&["obj", "get", "data", "o"]), "old");

    let (mut child, _input) = begin_put(&home, &args);
    child.kill().unwrap();
    child.wait().unwrap();
    assert_eq!(home.text(&["obj", "get", "data", "o"]), "old");
    home.run_with(&["obj", "put", "data", "o"], b"new").ok();
    assert_eq!(home.text(&["obj", "get", "data", "o"]), "new");
    assert_eq!(home.text(&["obj", "ls", "data"]).lines().count(), 1, "nothing unfinished is left");
    home.ok(&["check", "data"]);
}
