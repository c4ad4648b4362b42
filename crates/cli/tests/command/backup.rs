//! `backup`, `restore` and `tail`.

use std::fs;

use rustix::process::Signal;
use serde_json::json;

use crate::run::Home;
use crate::served::Served;

/// A database with a change log.
fn home() -> Home {
    let home = Home::in_memory();
    let input = b"a\t1\nb\t2\n\\space\tpeople\nc\t3\n";
    home.run_with(&["load", "data", "-", "--change-log", "16MiB"], input).ok();
    home
}

fn dump(home: &Home, folder: &str) -> String {
    home.text(&["dump", folder])
}

#[test]
fn a_backup_and_what_follows_it_come_back() {
    let home = home();
    let line = home.text(&["backup", "data", "one"]);
    assert!(line.starts_with("one: full backup, 6 operations"), "{line}");
    let before = dump(&home, "data");
    home.ok(&["put", "data", "a", "changed"]);
    home.ok(&["del", "data", "b"]);
    let made = home.json(&["backup", "data", "two", "--since", "one", "--json"]);
    assert_eq!((&made["file"], &made["operations"]), (&json!("two"), &json!(2)));
    let checked = home.text(&["check", "two"]);
    assert!(
        checked.starts_with("two: whole: backup ") && checked.contains("2 operations"),
        "{checked}"
    );
    assert_eq!(
        home.json(&["check", "two", "--json"])["since"],
        home.json(&["check", "one", "--json"])["id"]
    );

    let line = home.text(&["restore", "first", "one"]);
    assert!(line.starts_with("first: 3 records restored from 1 backup"), "{line}");
    assert_eq!(dump(&home, "first"), before);
    let restored = home.json(&["restore", "both", "one", "two", "--partitions", "3", "--json"]);
    assert_eq!((&restored["records"], &restored["backups"]), (&json!(2), &json!(2)));
    assert_eq!(dump(&home, "both"), dump(&home, "data"));
    assert!(home.text(&["tail", "both"]).contains("\tput\tdb0\ta\tchanged\n"));
}

#[test]
fn a_server_takes_backups_while_it_serves() {
    let home = home();
    let served = Served::start(&home, &["--requirepass", "secret"]);
    let mut connection = served.connect();
    served.expect(&mut connection, "AUTH secret\r\nSET d 4 EX 1000\r\n", "+OK\r\n+OK\r\n");
    let address = served.address.to_string();
    let refused = home.run(&["backup", "--server", &address, "one"]);
    assert_eq!(refused.code, Some(1));
    assert!(
        refused.err.contains("NOAUTH") && refused.err.contains("--password-file"),
        "{}",
        refused.err
    );
    home.file("password", "secret\nand more\n");
    let with = ["--server", &address, "--password-file", "password"];
    let line = home.text(&[&["backup"], &with[..], &["one"]].concat());
    assert!(line.starts_with("one: full backup, "), "{line}");
    served.expect(&mut connection, "SET a changed\r\nDEL b\r\n", "+OK\r\n:1\r\n");
    fs::create_dir(home.path("backups")).unwrap();
    let made = home.json(&[&["backup"], &with[..], &["two", "--since", "one", "--json"]].concat());
    assert_eq!((&made["file"], &made["operations"]), (&json!("two"), &json!(2)));
    assert!(
        home.text(&[&["backup"], &with[..], &["backups"]].concat())
            .starts_with("backups/0001.full: ")
    );
    let again = home.run(&[&["backup"], &with[..], &["one"]].concat());
    assert!(again.err.contains("it is there already"), "{}", again.err);
    let open = home.run(&["backup", "data", "three"]);
    assert_eq!(open.code, Some(1), "the server has the folder");
    let (code, said) = served.end(Signal::TERM);
    assert_eq!(code, Some(0), "{said}");
    home.ok(&["restore", "copy", "one", "two"]);
    assert_eq!(dump(&home, "copy"), dump(&home, "data"));
    home.ok(&["restore", "other", "backups"]);
    assert_eq!(dump(&home, "other"), dump(&home, "data"));
    let gone = home.run(&["backup", "--server", &address, "four"]);
    assert_eq!(gone.code, Some(1), "{}", gone.err);
    assert!(gone.err.contains(&address) && !home.path("four").exists(), "{}", gone.err);
    assert!(!home.path("four.part").exists());
    for wrong in [
        &["backup", "data"][..],
        &["backup", "--server", "x:1", "a", "b"],
        &["backup", "data", "a", "--password-file", "b"],
    ] {
        assert_eq!(home.run(wrong).code, Some(2), "{wrong:?}");
    }
}

#[test]
fn a_folder_of_backups_has_the_chain() {
    let home = home();
    fs::create_dir(home.path("backups")).unwrap();
    assert!(home.text(&["backup", "data", "backups"]).starts_with("backups/0001.full: "));
    home.ok(&["put", "data", "d", "4"]);
    let line = home.text(&["backup", "data", "backups", "--since", "backups"]);
    assert!(line.starts_with("backups/0002.since-0001: backup of changes, 1 operation"), "{line}");
    home.ok(&["backup", "data", "backups"]);
    home.ok(&["put", "data", "e", "5"]);
    home.ok(&["backup", "data", "backups", "--since", "backups"]);
    let restored = home.json(&["restore", "copy", "backups", "--json"]);
    assert_eq!((&restored["records"], &restored["backups"]), (&json!(5), &json!(2)));
    assert_eq!(dump(&home, "copy"), dump(&home, "data"));
    let mut names: Vec<_> = fs::read_dir(home.path("backups"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name())
        .collect();
    names.sort();
    assert_eq!(names, ["0001.full", "0002.since-0001", "0003.full", "0004.since-0003"]);
}

#[test]
fn a_database_is_replaced_by_force_only() {
    let home = home();
    home.ok(&["backup", "data", "one"]);
    home.ok(&["put", "other", "x", "1"]);
    home.run(&["restore", "other", "one"]).failed(1, "other: there is a database in `other`");
    assert_eq!(home.text(&["get", "other", "x"]), "1");
    fs::write(home.path("cut"), &fs::read(home.path("one")).unwrap()[..200]).unwrap();
    home.run(&["restore", "other", "cut", "--force"]).failed(4, "cut: it ends within chunk");
    assert_eq!(home.text(&["get", "other", "x"]), "1");
    home.ok(&["restore", "other", "one", "--force"]);
    assert_eq!(dump(&home, "other"), dump(&home, "data"));
}

#[test]
fn wrong_backups_are_named() {
    let home = home();
    home.ok(&["backup", "data", "one"]);
    home.ok(&["put", "data", "d", "4"]);
    home.ok(&["backup", "data", "two", "--since", "one"]);
    home.ok(&["backup", "data", "three", "--since", "two"]);
    home.file("empty", "");
    home.file("text", "a\t1\n");
    let mut bytes = fs::read(home.path("one")).unwrap();
    let last = bytes.len() - 60;
    bytes[last] ^= 1;
    home.file("damaged", bytes);
    home.run(&["restore", "new", "empty"]).failed(1, "empty: it is empty, and so no backup");
    home.run(&["restore", "new", "text"]).failed(1, "text: it is no backup of Halite");
    home.run(&["restore", "new", "damaged"]).failed(4, "damaged: it is damaged: a chunk");
    home.run(&["check", "damaged"]).failed(4, "damaged: it is damaged: a chunk");
    home.run(&["restore", "new", "missing"]).failed(1, "missing: ");
    home.run(&["restore", "new", "two"])
        .failed(1, "two: it has only what was changed since backup");
    home.run(&["restore", "new", "one", "three"]).failed(1, "three: it follows backup");
    home.run(&["restore", "new", "one", "one"])
        .failed(1, "one: it is a full backup and follows none");
    home.run(&["restore", "new", "."]).failed(1, ".: there is no backup in this folder");
    home.run(&["restore", "one", "one"]).failed(1, "one: not a folder");
    assert!(!home.path("new").exists(), "nothing is left");

    home.run(&["backup", "data", "one"]).failed(1, "one: it is there already");
    home.file("new.part", "of another one");
    home.run(&["backup", "data", "new"]).failed(1, "new.part: it is there already");
    assert_eq!(fs::read(home.path("new.part")).unwrap(), b"of another one");
    fs::remove_file(home.path("new.part")).unwrap();
    home.run(&["backup", "nowhere", "new"]).failed(1, "nowhere: there is no database here");
    home.run(&["backup", "data", "new", "--since", "text"]).failed(1, "text: it is no backup");
    home.run(&["backup", "data", "none/new"]).failed(1, "none/new.part: ");
    home.ok(&["put", "plain", "x", "1"]);
    home.ok(&["backup", "plain", "plain.full"]);
    home.run(&["backup", "plain", "new", "--since", "plain.full"])
        .failed(1, "plain: the store was made without a change log");
    home.run(&["backup", "data", "new", "--since", "plain.full"])
        .failed(1, "plain.full: the previous backup has no positions");
    home.ok(&["restore", "copy", "one"]);
    home.run(&["backup", "copy", "new", "--since", "two"])
        .failed(1, "two: the previous backup is of another database");
    assert!(!home.path("new").exists() && !home.path("new.part").exists(), "nothing is left");
}

#[test]
fn tail_tells_every_change_and_goes_on_where_it_was() {
    let home = home();
    let all = home.text(&["tail", "data"]);
    let ops: Vec<_> = all.lines().map(|line| line.split_once('\t').unwrap().1).collect();
    assert_eq!(
        ops,
        [
            "create\tserver:1",
            "create\tdb0",
            "create\tpeople",
            "put\tdb0\ta\t1",
            "put\tdb0\tb\t2",
            "put\tpeople\tc\t3"
        ]
    );
    let last = all.lines().last().unwrap().split_once('\t').unwrap().0;
    assert!(home.text(&["tail", "data", "--from", last]).is_empty());
    home.ok(&["del", "data", "a"]);
    let more = home.text(&["tail", "data", "--from", last]);
    assert!(more.ends_with("\tdelete\tdb0\ta\n") && more.lines().count() == 1, "{more}");
    let line: serde_json::Value =
        serde_json::from_slice(&home.ok(&["tail", "data", "--from", last, "--json"])).unwrap();
    assert_eq!(line["ops"], json!([{ "op": "delete", "space": "db0", "key": "a" }]));
    assert!(home.json(&["stat", "data", "--json"])["pool"]["change_log_bytes"].as_u64() > Some(0));

    home.run(&["tail", "data", "--from", "0:9999"]).failed(1, "data: position 9999 is none of");
    home.run(&["tail", "data", "--from", "7:1"]).failed(2, "--from names partition 7");
    home.ok(&["put", "plain", "x", "1"]);
    home.run(&["tail", "plain"]).failed(1, "plain: the store was made without a change log");
    home.run(&["load", "plain", "-", "--change-log", "1MiB"])
        .failed(1, "plain: the store was made without a change log, which only a new store");
}
