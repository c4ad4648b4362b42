//! Values as they lie in the key spaces of the database: the forms that a server refuses to read, and its replies.

use crate::common;
use crate::common::{Client, Running};
use halite::Database;
use halite_server::stored::{make_note, tagged};
use halite_server::{Config, Error, Server};

on_threads! {
    a_value_has_a_tag_and_its_bytes
    what_cannot_be_read_is_refused_with_the_reason
    what_cannot_be_read_can_be_replaced_and_removed
    any_stored_bytes_are_answered
    a_database_of_another_form_is_refused
}

/// Requests that have to know the value of `k`. None of them changes it if it cannot be read.
const READERS: [&str; 34] = [
    "GET k",
    "MGET other k",
    "STRLEN k",
    "GETRANGE k 0 -1",
    "SUBSTR k 0 -1",
    "LCS k other",
    "LCS other k LEN",
    "TYPE k",
    "OBJECT ENCODING k",
    "GETSET k new",
    "GETDEL k",
    "GETEX k",
    "GETEX k EX 100",
    "GETEX k PERSIST",
    "SET k new GET",
    "SET k new XX GET",
    "SET k new GET KEEPTTL",
    "APPEND k x",
    "APPEND k ''",
    "SETRANGE k 0 x",
    "SETRANGE k 9 x",
    "SETRANGE k 0 ''",
    "INCR k",
    "DECR k",
    "INCRBY k 2",
    "DECRBY k 2",
    "INCRBYFLOAT k 0.5",
    "RENAME k to",
    "RENAMENX k to",
    "RENAME k k",
    "COPY k to",
    "COPY k other REPLACE",
    "COPY k to DB 1",
    "MOVE k 1",
];

/// A server whose database has these bytes at the key `k`, and a string at `other`.
fn start(stored: &[u8]) -> (Running, Client) {
    let folder = tempfile::tempdir().unwrap();
    let db = common::open(folder.path().join("data"));
    make_note(&db).unwrap();
    write(&db, stored);
    db.key_space("db0").unwrap().put("other", tagged(b"string")).unwrap();
    let server = Running::on(db, |_| {}).within(folder);
    let client = server.client();
    (server, client)
}

fn write(db: &Database, stored: &[u8]) {
    db.key_space("db0").unwrap().put("k", stored).unwrap();
}

fn read(db: &Database) -> Option<Vec<u8>> {
    let values = db.find_key_space("db0").unwrap().unwrap();
    values.get("k").unwrap().map(|stored| stored.to_vec())
}

fn a_value_has_a_tag_and_its_bytes() {
    let (server, mut client) = start(b"\x90some text");
    client.check(&[("GET k", "\"some text\""), ("STRLEN k", ":9"), ("TYPE k", "+string")]);
    for (request, reply, stored) in [
        ("SET k value", "+OK", "value"),
        ("APPEND k s", ":6", "values"),
        ("SETRANGE k 2 xx", ":6", "vaxxes"),
        ("SETRANGE k 4 yyy", ":7", "vaxxyyy"),
        ("SETRANGE k 8 z", ":9", "vaxxyyy\0z"),
        ("GETSET k 7", "\"vaxxyyy\\x00z\"", "7"),
        ("SET k 8 KEEPTTL", "+OK", "8"),
        ("INCR k", ":9", "9"),
        ("INCRBYFLOAT k 0.5", "\"9.5\"", "9.5"),
        ("SETEX k 100 ''", "+OK", ""),
        ("APPEND k ''", ":0", ""),
        ("SETRANGE k 2 c", ":3", "\0\0c"),
        ("MSET k a l b", "+OK", "a"),
        ("COPY other k REPLACE", ":1", "string"),
        ("RENAME other k", "+OK", "string"),
    ] {
        client.check(&[(request, reply)]);
        assert_eq!(read(&server.db).unwrap(), [b"\x90", stored.as_bytes()].concat(), "{request}");
    }
    client.check(&[("MULTI", "+OK"), ("APPEND k s", "+QUEUED"), ("GET k", "+QUEUED")]);
    client.check(&[("EXEC", "[:7, \"strings\"]")]);
    assert_eq!(read(&server.db).unwrap(), b"\x90strings");
}

fn what_cannot_be_read_is_refused_with_the_reason() {
    let (server, mut client) = start(b"");
    for (stored, reason) in [
        (
            &b"\xb0value"[..],
            "it was written by a newer version of Halite, in form 3; this one reads form 2",
        ),
        (b"\xbf", "it was written by a newer version of Halite, in form 3; this one reads form 2"),
        (b"\xa0value", "it is of type 0, which this version of Halite does not know"),
        (b"\x91value", "it is of type 1, which this version of Halite does not know"),
        (b"\x9f", "it is of type 15, which this version of Halite does not know"),
        (b"value", "it has no tag: no server wrote it"),
        (b"", "it has no tag: no server wrote it"),
    ] {
        write(&server.db, stored);
        let refused = format!("-ERR the value cannot be read: {reason}");
        for request in READERS {
            client.check(&[(request, &refused)]);
            client.check(&[
                ("MULTI", "+OK"),
                (request, "+QUEUED"),
                ("EXEC", &format!("[{refused}]")),
            ]);
            assert_eq!(read(&server.db).unwrap(), stored, "{request}");
        }
        // Nothing was copied, moved, or replaced, and no deadline was set.
        client.check(&[("TTL k", ":-1"), ("EXISTS to", ":0"), ("GET other", "\"string\"")]);
        client.check(&[("SELECT 1", "+OK"), ("DBSIZE", ":0"), ("SELECT 0", "+OK")]);
    }
}

fn what_cannot_be_read_can_be_replaced_and_removed() {
    let (server, mut client) = start(b"");
    for stored in [&b"\xa0value"[..], b"\x91", b"value", b""] {
        let mut of = |requests: &[(&str, &str)]| {
            write(&server.db, stored);
            client.check(requests);
        };
        of(&[("EXISTS k", ":1"), ("TOUCH k k", ":2"), ("KEYS k", "[\"k\"]"), ("DBSIZE", ":2")]);
        of(&[("OBJECT REFCOUNT k", ":1"), ("OBJECT IDLETIME k", ":0")]);
        of(&[("SETNX k new", ":0"), ("SET k new NX", "nil"), ("MSETNX other x k y", ":0")]);
        of(&[("EXPIRE k 100", ":1"), ("TTL k", ":100"), ("PERSIST k", ":1"), ("TTL k", ":-1")]);
        of(&[("SET k new", "+OK"), ("GET k", "\"new\"")]);
        of(&[("SET k new XX", "+OK"), ("GET k", "\"new\"")]);
        of(&[("SETEX k 100 new", "+OK"), ("GET k", "\"new\"")]);
        of(&[("MSET k new", "+OK"), ("GET k", "\"new\"")]);
        of(&[("RENAME other k", "+OK"), ("GET k", "\"string\""), ("RENAME k other", "+OK")]);
        of(&[("COPY other k", ":0"), ("COPY other k REPLACE", ":1"), ("GET k", "\"string\"")]);
        of(&[("PEXPIRE k 0", ":1"), ("EXISTS k", ":0")]);
        of(&[("DEL k", ":1"), ("EXISTS k", ":0")]);
        of(&[("UNLINK k", ":1"), ("EXISTS k", ":0")]);
        assert!(read(&server.db).is_none());
    }
}

fn any_stored_bytes_are_answered() {
    let (server, mut client) = start(b"");
    let others = ["EXISTS k", "MEMORY USAGE k", "SETNX k x", "EXPIRE k 100", "WATCH k", "UNWATCH"];
    let mut number = 7_u64;
    for round in 0..300_usize {
        let mut random = |below: u64| {
            number = number.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (number >> 33) % below
        };
        let mut stored: Vec<u8> = (0..random(60)).map(|_| random(256) as u8).collect();
        // Every tag comes, and then random ones.
        if let Ok(tag) = u8::try_from(round) {
            stored.insert(0, tag);
        }
        let is_string = stored.first() == Some(&0x90);
        let is_collection = stored.first().is_some_and(|tag| (0xa1..=0xa5).contains(tag));
        let readers = READERS.iter().map(|request| (*request, true));
        for (request, reads) in readers.chain(others.map(|request| (request, false))) {
            if read(&server.db).as_ref() != Some(&stored) {
                write(&server.db, &stored);
            }
            let reply = client.ask(request);
            let refused = reply.starts_with("-ERR the value cannot be read: ");
            // A collection whose form is damaged says so, or is refused for its type.
            if !is_collection {
                assert_eq!(refused, reads && !is_string, "{request}: {stored:x?}: {reply}");
            }
            if is_string || is_collection {
                client.ask("DEL to");
                client.check(&[("SET other string", "+OK")]);
            }
        }
    }
}

fn a_database_of_another_form_is_refused() {
    for (spaces, expected) in [
        (&["db0"][..], "the values in the key space `db0` have no tags of a server: "),
        (&["server", "db7", "db7:expires"], "the values in the key space `db7` have no tags"),
        (
            &["server:4"],
            "the database was written by a newer version of Halite: its values are of form 4",
        ),
        (&["server:1", "db0", "server:4"], "the database was written by a newer version of Halite"),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let db = common::open(folder.path().join("data"));
        spaces.iter().for_each(|name| drop(db.key_space(name).unwrap()));
        let before = db.key_spaces().unwrap().len();
        let mut config = Config::default();
        config.port = 0;
        let refused = Server::bind(db.clone(), config).map(drop).unwrap_err();
        assert!(matches!(refused, Error::Untagged { .. } | Error::NewerForm { .. }), "{refused:?}");
        assert!(refused.to_string().starts_with(expected), "{refused}");
        assert_eq!(db.key_spaces().unwrap().len(), before, "nothing is made");
    }
    // Other key spaces are a program's own.
    let folder = tempfile::tempdir().unwrap();
    let db = common::open(folder.path().join("data"));
    db.key_space("fruit").unwrap().put("apple", "red").unwrap();
    Running::on(db, |_| {})
        .within(folder)
        .client()
        .check(&[("SET k v", "+OK"), ("GET k", "\"v\"")]);
}
