//! `--server`: commands while a server has the database open.

use std::fs;

use rustix::process::Signal;
use serde_json::json;

use crate::run::Home;
use crate::served::Served;

/// The output of a command that asks a server.
fn text(home: &Home, served: &Served, command: &str, args: &[&str]) -> String {
    home.text(&[&[command, "--server", &served.address.to_string()], args].concat())
}

#[test]
fn a_server_answers_in_place_of_its_folder() {
    let home = Home::in_memory();
    let served = Served::start(&home, &[]);
    let address = served.address.to_string();
    assert_eq!(home.run(&["get", "data", "a"]).code, Some(1), "the server has the folder");
    text(&home, &served, "put", &["greeting", "hello"]);
    assert_eq!(text(&home, &served, "get", &["greeting"]), "hello");
    assert_eq!(
        text(&home, &served, "get", &["greeting", "--json"]),
        "{\"key\":\"greeting\",\"value\":\"hello\"}\n"
    );
    let piped = home.run_with(&["put", "--server", &address, "bytes"], b"\x00\xff\n");
    piped.ok();
    assert_eq!(home.ok(&["get", "--server", &address, "bytes"]), b"\x00\xff\n");
    home.file("value", "from a file");
    text(&home, &served, "put", &["row\\x00", "-e", "--file", "value"]);
    assert_eq!(text(&home, &served, "get", &["row\\x00", "-e"]), "from a file");
    let none = home.run(&["get", "--server", &address, "nosuch"]);
    none.failed(3, &format!("nosuch: there is no such key in key space `db0` of {address}"));
    assert_eq!(text(&home, &served, "del", &["bytes", "nosuch", "--json"]), "{\"deleted\":1}\n");
    assert_eq!(text(&home, &served, "del", &["greeting"]), "deleted 1 key\n");
    // Another database.
    let second = format!("{address}/2");
    home.ok(&["put", "--server", &second, "k", "v"]);
    assert_eq!(home.text(&["get", "--server", &second, "k"]), "v");
    assert_eq!(home.run(&["get", "--server", &address, "k"]).code, Some(3));
    home.run(&["get", "--server", &format!("{address}/99"), "k"])
        .failed(1, &format!("{address}: ERR DB index is out of range"));
    assert_eq!(served.end(Signal::TERM).0, Some(0));
    home.run(&["get", "--server", &address, "k"]).failed(1, &format!("{address}: "));
    assert_eq!(home.text(&["get", "data", "k", "--space", "db2"]), "v");
}

#[test]
fn keys_of_a_server_are_listed_in_order() {
    let home = Home::in_memory();
    let served = Served::start(&home, &["--threads", "2"]);
    let mut connection = served.connect();
    for number in 0..300 {
        let request = format!("SET user:{number:03} v{number}\r\n");
        served.expect(&mut connection, &request, "+OK\r\n");
    }
    served.expect(&mut connection, "SET u*x 1\r\nRPUSH user:list a b\r\n", "+OK\r\n:2\r\n");
    let scan = |args: &[&str]| text(&home, &served, "scan", args);
    assert_eq!(scan(&["--count"]), "302\n");
    assert_eq!(scan(&["--count", "--prefix", "user:1"]), "100\n");
    assert_eq!(scan(&["--prefix", "u*"]), "u*x\t1\n");
    assert_eq!(scan(&["--limit", "2", "--prefix", "user"]), "user:000\tv0\nuser:001\tv1\n");
    assert_eq!(scan(&["--from", "user:298", "--to", "user:3"]), "user:298\tv298\nuser:299\tv299\n");
    let last = scan(&["--reverse", "--limit", "2", "--keys-only"]);
    assert_eq!(last, "user:list\nuser:299\n");
    let all = scan(&["--prefix", "user:"]);
    let keys: Vec<_> = all.lines().map(|line| line.split('\t').next().unwrap()).collect();
    assert!(keys.len() == 300 && keys.is_sorted(), "{all}");
    let said = home.run(&["scan", "--server", &served.address.to_string(), "--from", "user:299"]);
    assert!(said.err.contains("1 key left out"), "{}", said.err);
    assert_eq!(
        scan(&["--prefix", "user:299", "--json"]),
        "{\"key\":\"user:299\",\"value\":\"v299\"}\n"
    );
}

#[test]
fn a_server_is_described_checked_and_dumped() {
    let home = Home::in_memory();
    home.file("password", "secret\n");
    let served = Served::start(&home, &["--requirepass", "secret"]);
    let address = served.address.to_string();
    let mut connection = served.connect();
    let requests = "AUTH secret\r\nSET a 1\r\nSET b 2 EX 1000\r\nSELECT 3\r\nSET c 3\r\n";
    served.expect(&mut connection, requests, &"+OK\r\n".repeat(5));
    let refused = home.run(&["stat", "--server", &address]);
    refused.failed(1, &format!("{address}: NOAUTH"));
    let with = ["--password-file", "password"];
    let stat = text(&home, &served, "stat", &with);
    assert!(stat.contains("redis_version") && stat.contains("Keyspace\n"), "{stat}");
    let stat = home.json(&["stat", "--server", &address, "--password-file", "password", "--json"]);
    assert_eq!(stat["clients"]["connected_clients"], json!(2));
    assert!(stat["halite"]["engine"].is_string() && stat["keyspace"]["db3"].is_string(), "{stat}");
    let check = text(&home, &served, "check", &with);
    assert!(check.starts_with(&format!("{address}: whole: backup ")), "{check}");
    let dump = text(&home, &served, "dump", &with);
    assert!(text(&home, &served, "dump", &[&with[..], &["all.tsv"]].concat()).is_empty());
    assert_eq!(fs::read_to_string(home.path("all.tsv")).unwrap(), dump);
    let third = text(&home, &served, "dump", &[&with[..], &["--space", "db3"]].concat());
    assert_eq!(third, "c\t3\n");
    // From the environment.
    let mut command = home.command(&["get", "--server", &format!("{address}/3"), "c"]);
    let got = command.env("HALITE_REQUIREPASS", "secret").output().unwrap();
    assert_eq!(got.stdout, b"3");
    assert_eq!(served.end(Signal::TERM).0, Some(0));
    assert_eq!(home.text(&["dump", "data"]), dump);
}

#[test]
fn wrong_uses_of_a_server_are_refused() {
    let home = Home::in_memory();
    for wrong in [
        &["get", "--server", "h:1"][..],
        &["get", "--server", "h:1", "a", "b"],
        &["get", "data"],
        &["get", "--server", "nowhere", "a"],
        &["get", "--server", "h:1/x", "a"],
        &["get", "--server", "h:1", "a", "--space", "other"],
        &["put", "data"],
        &["put", "--server", "h:1", "a", "b", "c"],
        &["put", "--server", "h:1", "a", "b", "--file", "c"],
        &["del", "data"],
        &["del", "--server", "h:1"],
        &["scan"],
        &["scan", "data", "--server", "h:1"],
        &["scan", "--server", "h:1", "--space", "other"],
        &["scan", "data", "--password-file", "x"],
        &["stat", "data", "--server", "h:1"],
        &["check"],
        &["dump"],
        &["dump", "--server", "h:1", "a", "b"],
        &["tail"],
        &["tail", "data", "--follow"],
        &["tail", "data", "--server", "h:1"],
        &["tail", "--server", "h:1/0"],
        &["tail", "--server", "h:1", "--from", "1"],
        &["get", "--server", "unix:", "a"],
        &["backup", "--server", "unix:/nowhere:0", "file"],
    ] {
        assert_eq!(home.run(wrong).code, Some(2), "{wrong:?}");
    }
    home.run(&["get", "--server", "127.0.0.1:1", "a"]).failed(1, "127.0.0.1:1: ");
    home.run(&["get", "--server", "unix:nowhere", "a"]).failed(1, "unix:nowhere: ");
}

#[test]
fn a_server_is_reached_at_its_unix_socket() {
    let home = Home::in_memory();
    home.file("password", "secret\n");
    let log = ["--change-log", "1MiB", "--requirepass", "secret"];
    let served = Served::start(&home, &[&["--unix-socket", "h.sock"], &log[..]].concat());
    let on = |socket: &str, args: &[&str]| {
        let server = ["--server", socket, "--password-file", "password"];
        home.text(&[&args[..1], &server, &args[1..]].concat())
    };
    let at = |args: &[&str]| on("unix:h.sock", args);
    home.run(&["get", "--server", "unix:h.sock", "a"]).failed(1, "unix:h.sock: NOAUTH");
    at(&["put", "a", "1"]);
    on("unix:h.sock:3", &["put", "b", "2"]);
    assert_eq!((at(&["get", "a"]), on("unix:h.sock:3", &["get", "b"])), ("1".into(), "2".into()));
    assert_eq!(on("unix:h.sock:3", &["scan"]), "b\t2\n");
    assert!(at(&["stat"]).contains("redis_version"));
    assert!(at(&["check"]).starts_with("unix:h.sock: whole: backup "));
    assert!(at(&["dump"]).contains("a\t1\n"));
    assert!(at(&["tail"]).contains("\tput\tdb0\ta\t1\n"));
    at(&["backup", "all.backup"]);
    assert_eq!(at(&["del", "a"]), "deleted 1 key\n");
    assert_eq!(served.end(Signal::TERM).0, Some(0));
    home.ok(&["restore", "copy", "all.backup"]);
    assert_eq!(home.text(&["get", "copy", "b", "--space", "db3"]), "2");
}
