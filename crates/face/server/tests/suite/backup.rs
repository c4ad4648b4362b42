//! A backup of a server that goes on serving.

use crate::common;
use std::io::{BufRead, Read};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;

use crate::common::{Client, Running, builder, eventually, threads};
use halite::{BackupReader, Database, Partitioning};

on_threads! {
    a_backup_is_the_state_of_one_moment_while_clients_write
    one_backup_is_taken_at_a_time
    a_backup_ends_with_its_client
    who_does_not_ask_for_more_keeps_nobody_waiting
    the_end_of_the_server_ends_a_backup
    a_backup_needs_the_password
    what_cannot_be_asked_for_is_named
    ; indexlog:
    a_backup_of_changes_follows_another
}

/// The next piece, or `None` at the end.
fn next(client: &mut Client) -> Option<Vec<u8>> {
    client.send(b"HALITE.BACKUP NEXT\r\n");
    let mut head = String::new();
    client.socket.read_line(&mut head).unwrap();
    let len = head.trim_end().strip_prefix('$').unwrap_or_else(|| panic!("{head}"));
    let len: i64 = len.parse().unwrap();
    let mut piece = vec![0; usize::try_from(len).ok()?];
    client.socket.read_exact(&mut piece).unwrap();
    client.socket.read_exact(&mut [0; 2]).unwrap();
    Some(piece)
}

fn rest(client: &mut Client) -> Vec<u8> {
    let mut bytes = Vec::new();
    while let Some(piece) = next(client) {
        assert!(!piece.is_empty() && piece.len() <= 256 << 10);
        bytes.extend(piece);
    }
    bytes
}

fn restore(backups: &[&[u8]]) -> (Database, tempfile::TempDir) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("copy");
    let readers = backups.iter().map(|bytes| BackupReader::new(*bytes).unwrap()).collect();
    builder().restore(&path, readers, false).unwrap();
    (Database::open(&path).unwrap(), folder)
}

fn value(db: &Database, key: &str) -> Option<String> {
    common::stored_string(db, key).map(|value| String::from_utf8(value).unwrap())
}

fn a_backup_is_the_state_of_one_moment_while_clients_write() {
    const WRITERS: usize = 4;
    let server = Running::start();
    let mut client = server.client();
    for number in 0..3000 {
        client.send_words(&["SET", &format!("still:{number}"), &"v".repeat(500)]);
    }
    (0..3000).for_each(|_| assert_eq!(client.reply(), "+OK"));
    client.check(&[("SET late v PX 100000000", "+OK")]);
    let stop = AtomicBool::new(false);
    let written: Vec<_> = (0..WRITERS).map(|_| AtomicU64::new(0)).collect();
    let (before, bytes, behind) = thread::scope(|scope| {
        for (writer, written) in written.iter().enumerate() {
            let (stop, mut client) = (&stop, server.client());
            scope.spawn(move || {
                for number in 1.. {
                    // Together, though in several partitions.
                    let [a, b] = ["a", "b"].map(|half| format!("{writer}:{half}"));
                    let text = number.to_string();
                    assert_eq!(client.call(&["MSET", &a, &text, &b, &text]), "+OK");
                    let big = "w".repeat(3000);
                    assert_eq!(client.call(&["SET", &format!("{writer}:{number}"), &big]), "+OK");
                    written.store(number, Ordering::Release);
                    if stop.load(Ordering::Acquire) {
                        break;
                    }
                }
            });
        }
        let now = || written.iter().map(|count| count.load(Ordering::Acquire)).collect::<Vec<_>>();
        eventually("writing", || now().iter().all(|&count| count > 3));
        let before = now();
        assert_eq!(client.ask("HALITE.BACKUP BEGIN"), "+OK");
        let behind = now();
        let first = next(&mut client).unwrap();
        eventually("writing", || now().iter().zip(&behind).all(|(now, then)| now > then));
        let bytes = [first, rest(&mut client)].concat();
        stop.store(true, Ordering::Release);
        (before, bytes, behind)
    });
    let report = BackupReader::new(&bytes[..]).unwrap().verify().unwrap();
    assert_eq!(report.bytes, bytes.len() as u64);
    let (copy, _folder) = restore(&[&bytes]);
    for number in 0..3000 {
        assert_eq!(value(&copy, &format!("still:{number}")).unwrap().len(), 500);
    }
    for writer in 0..WRITERS {
        let [a, b] = ["a", "b"].map(|half| value(&copy, &format!("{writer}:{half}")).unwrap());
        assert_eq!(a, b);
        let count: u64 = a.parse().unwrap();
        // The backup has all writes acknowledged before, and none that came later.
        assert!((before[writer]..=behind[writer] + 1).contains(&count), "{count}");
        assert!(value(&copy, &format!("{writer}:{}", count - 1)).is_some());
        assert!(value(&copy, &format!("{writer}:{}", count + 1)).is_none());
    }
    Running::on(copy, |_| {}).client().check(&[("PERSIST late", ":1")]);
    assert_eq!(client.ask("HALITE.BACKUP NEXT"), "-ERR no backup is being taken; BEGIN takes one");
}

fn a_backup_of_changes_follows_another() {
    let folder = tempfile::tempdir().unwrap();
    let builder = Database::builder().change_log(16 << 20);
    let builder = builder.partitioning(Partitioning::Hash(threads()));
    let server = Running::on(builder.open(folder.path().join("data")).unwrap(), |_| {});
    let mut client = server.client();
    client.check(&[("MSET a 1 b 2 c 3", "+OK"), ("HALITE.BACKUP BEGIN", "+OK")]);
    let full = rest(&mut client);
    client.check(&[("SET a changed", "+OK"), ("DEL b", ":1"), ("SET d 4", "+OK")]);
    let info = BackupReader::new(&full[..]).unwrap().info().clone();
    let begin = [&b"HALITE.BACKUP"[..], b"BEGIN", b"SINCE", &info.encode()];
    assert_eq!(client.call(&begin), "+OK");
    client.check(&[("SET e later", "+OK")]);
    let changes = rest(&mut client);
    assert!(changes.len() < full.len() + 200);
    let (copy, _folder) = restore(&[&full, &changes]);
    let values = ["a", "b", "c", "d", "e"].map(|key| value(&copy, key));
    let expected = [Some("changed"), None, Some("3"), Some("4"), None];
    assert_eq!(values, expected.map(|value| value.map(str::to_owned)));
    drop(server);
}

/// A server with more than a backup's pieces that are ready.
fn filled() -> (Running, Client) {
    let server = Running::start();
    let mut client = server.client();
    let value = "v".repeat(100_000);
    (0..30).for_each(|number| drop(client.call(&["SET", &format!("key:{number}"), &value])));
    (server, client)
}

const TAKEN: &str = "-ERR another backup is being taken; wait for its end";

fn one_backup_is_taken_at_a_time() {
    let (server, mut first) = filled();
    let mut second = server.client();
    first.check(&[("HALITE.BACKUP BEGIN", "+OK")]);
    second.check(&[("HALITE.BACKUP BEGIN", TAKEN)]);
    let again = first.ask("HALITE.BACKUP BEGIN");
    assert!(again.starts_with("-ERR this connection is taking a backup already"), "{again}");
    rest(&mut first);
    // The next one can begin at once.
    second.check(&[("HALITE.BACKUP BEGIN", "+OK"), ("HALITE.BACKUP STOP", "+OK")]);
    eventually("the end of it", || first.ask("HALITE.BACKUP BEGIN") == "+OK");
    let bytes = rest(&mut first);
    BackupReader::new(&bytes[..]).unwrap().verify().unwrap();
}

fn a_backup_ends_with_its_client() {
    let (server, mut other) = filled();
    for round in 0..6 {
        let mut client = server.client();
        eventually("the end of the last one", || client.ask("HALITE.BACKUP BEGIN") == "+OK");
        for _ in 0..round {
            next(&mut client).unwrap();
        }
        if round % 2 == 0 {
            // The client waits for a reply when it leaves.
            client.send(b"HALITE.BACKUP NEXT\r\nHALITE.BACKUP NEXT\r\nHALITE.BACKUP NEXT\r\n");
        }
        if round == 5 {
            client.check(&[("RESET", "+RESET")]);
            assert!(client.ask("HALITE.BACKUP NEXT").starts_with("-ERR no backup"));
        }
    }
    eventually("the end of the last one", || other.ask("HALITE.BACKUP BEGIN") == "+OK");
    rest(&mut other);
}

fn who_does_not_ask_for_more_keeps_nobody_waiting() {
    let (server, mut slow) = filled();
    slow.check(&[("HALITE.BACKUP BEGIN", "+OK")]);
    let mut others: Vec<_> = (0..2 * threads()).map(|_| server.client()).collect();
    for number in 0..300 {
        for client in &mut others {
            client.check(&[(&format!("SET other:{number} {number}"), "+OK")]);
        }
    }
    slow.check(&[("GET other:7", "\"7\"")]);
    let (copy, _folder) = restore(&[&rest(&mut slow)]);
    assert_eq!(value(&copy, "other:7"), None);
}

fn the_end_of_the_server_ends_a_backup() {
    let (mut server, mut client) = filled();
    client.check(&[("HALITE.BACKUP BEGIN", "+OK")]);
    next(&mut client).unwrap();
    server.stop().unwrap();
    assert_eq!(client.reply(), "closed");
    // No backup reads the database any more: another server can open it.
    let server = Running::on(server.db.clone(), |_| {});
    let mut client = server.client();
    client.check(&[("HALITE.BACKUP BEGIN", "+OK")]);
    BackupReader::new(&rest(&mut client)[..]).unwrap().verify().unwrap();
}

fn a_backup_needs_the_password() {
    let server = Running::start_with(|config| config.requirepass = Some("secret".into()));
    let mut client = server.client();
    for request in ["HALITE.BACKUP BEGIN", "HALITE.BACKUP NEXT", "HALITE.BACKUP STOP"] {
        client.check(&[(request, "-NOAUTH Authentication required.")]);
    }
    client.check(&[("AUTH secret", "+OK"), ("HALITE.BACKUP BEGIN", "+OK")]);
    rest(&mut client);
}

fn what_cannot_be_asked_for_is_named() {
    let server = Running::start();
    let mut client = server.client();
    client.check(&[
        ("HALITE.BACKUP BEGIN NOW", "-ERR syntax error"),
        ("HALITE.BACKUP BEGIN SINCE x", "-ERR what SINCE names is not the beginning of a backup"),
        ("HALITE.BACKUP STOP", "+OK"),
        ("MULTI", "+OK"),
        ("HALITE.BACKUP NEXT", "-ERR Command not allowed inside a transaction"),
        ("DISCARD", "+OK"),
    ]);
    // Without a change log there are no incremental backups.
    client.check(&[("HALITE.BACKUP BEGIN", "+OK")]);
    let full = rest(&mut client);
    let info = BackupReader::new(&full[..]).unwrap().info().clone();
    let begin = [&b"HALITE.BACKUP"[..], b"BEGIN", b"SINCE", &info.encode()];
    assert_eq!(client.call(&begin), "+OK");
    let refused = client.ask("HALITE.BACKUP NEXT");
    assert!(refused.starts_with("-ERR the backup ended early: "), "{refused}");
    assert!(refused.contains("change log"), "{refused}");
    // Any bytes are examined, and none is trusted.
    for len in 0..200 {
        let bytes = vec![(len * 7) as u8; len];
        let reply = client.call(&[&b"HALITE.BACKUP"[..], b"BEGIN", b"SINCE", &bytes]);
        assert!(reply.starts_with("-ERR "), "{reply}");
    }
}
