//! The server ends soon, after any requests of its clients, and its acknowledged writes are there.

use crate::common;
use std::time::{Duration, Instant};

use crate::common::{Client, Running};

on_threads! {
    no_command_keeps_the_server_from_ending
    no_pattern_keeps_the_server_from_ending
    a_transaction_that_is_cut_short_changes_nothing
    the_server_waits_for_no_client_that_has_its_replies
    a_sleep_is_bounded
}

/// Far longer than the server may take to end, and far shorter than the requests of the test would take.
const PATIENCE: Duration = Duration::from_secs(60);
/// The length of values of which each comparison takes a noticeable time.
const LEN: usize = 6000;

fn repeat(line: &str, count: usize) -> String {
    format!("{line}\r\n").repeat(count)
}

/// Requests that take minutes at least, and some of them for ever: a name, and the lines.
fn slow_requests() -> Vec<(&'static str, String)> {
    // The pattern nearly matches each key, from each place in it.
    let pattern = format!("*{}b", "a".repeat(30_000));
    let lcs = "LCS key key LEN";
    vec![
        ("a sleep", "DEBUG SLEEP 3600\r\n".to_owned()),
        ("many sleeps", repeat("DEBUG SLEEP 3600", 100)),
        ("comparisons", repeat(lcs, 3000)),
        ("comparisons of two keys", repeat("LCS key other IDX", 3000)),
        ("a transaction", format!("MULTI\r\n{}EXEC\r\n", repeat(lcs, 3000))),
        ("sleeps in a transaction", format!("MULTI\r\n{}EXEC\r\n", repeat("DEBUG SLEEP 3600", 9))),
        ("all keys", format!("KEYS {pattern}\r\n")),
        ("some keys", format!("SCAN 0 COUNT 1000000 MATCH {pattern}\r\n")),
        ("a backup that nobody reads", "HALITE.BACKUP BEGIN\r\n".to_owned()),
        ("replies that nobody reads", repeat("GET key", 5000)),
        ("a pause", "CLIENT PAUSE 3600000\r\nSET paused 1\r\nKEYS *\r\n".to_owned()),
    ]
}

/// Waits until the server has ended by itself, and checks its acknowledged writes.
fn expect_end(mut server: Running, name: &str, acknowledged: usize) {
    let until = Instant::now() + PATIENCE;
    while !server.has_ended() {
        if Instant::now() >= until {
            std::mem::forget(server);
            panic!("{name}: the server does not end");
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    server.wait().unwrap();
    let again = Running::on(server.db.clone(), |_| {});
    let mut client = again.client();
    for number in 0..acknowledged {
        client.check(&[(&format!("GET acknowledged:{number}"), "\"1\"")]);
    }
}

/// A server that gives its clients little time at the end, and its first client, of the first thread.
fn prepare() -> (Running, Client) {
    let server = Running::start_with(|config| {
        config.shutdown_grace = Duration::from_millis(50);
        config.client_memory_max = None;
    });
    let mut client = server.client();
    let (mut words, value) = (vec!["MSET".to_owned()], "v".repeat(LEN));
    // Keys that the pattern takes long for.
    words.extend((0..100).flat_map(|key| [format!("{}{key}", "a".repeat(60_000)), String::new()]));
    words.extend(["key", &value, "other", &value].map(str::to_owned));
    assert_eq!(client.call(&words), "+OK");
    (server, client)
}

fn no_command_keeps_the_server_from_ending() {
    for (name, requests) in slow_requests() {
        let (server, mut client) = prepare();
        let mut writer = server.client();
        for number in 0..5 {
            writer.check(&[(&format!("SET acknowledged:{number} 1"), "+OK")]);
        }
        // A key of the first thread shows when that thread has begun the following requests.
        let first =
            |number: &i32| server.db.partition_of(format!("begun:{number}").as_bytes()) == 0;
        let begun = format!("begun:{}", (0..).find(first).expect("numbers do not end"));
        client.send(format!("SET {begun} 1\r\n{requests}").as_bytes());
        let space = server.db.find_key_space("db0").unwrap().unwrap();
        common::eventually("the beginning", || space.get(&begun).unwrap().is_some());
        server.handle.shutdown();
        expect_end(server, name, 5);
    }
}

fn no_pattern_keeps_the_server_from_ending() {
    // All of it is looked at for each byte of each name.
    let pattern = format!("*[{}", "\u{1}".repeat(32 << 20));
    for (name, words) in [
        ("names of commands", &["COMMAND", "LIST", "FILTERBY", "PATTERN", &pattern][..]),
        ("names of settings", &["CONFIG", "GET", &pattern]),
    ] {
        let (server, mut client) = prepare();
        let mut other = server.client();
        let request = common::request(words);
        let (most, end) = request.split_at(request.len() - 2);
        client.send(most);
        common::eventually("the arrival of the pattern", || {
            let line = other.ask("CLIENT LIST ID 1");
            let (_, rest) = line.split_once(" qbuf=").expect(&line);
            rest.split(' ').next() == Some(&most.len().to_string())
        });
        client.send(end);
        server.handle.shutdown();
        expect_end(server, name, 0);
    }
}

fn a_transaction_that_is_cut_short_changes_nothing() {
    let (server, mut client) = prepare();
    let slow = repeat("LCS key other LEN", 3000);
    client.send(format!("SET a 1\r\nMULTI\r\nSET a 2\r\n{slow}SET b 2\r\n").as_bytes());
    assert_eq!(client.reply(), "+OK");
    let reply = (0..3003).map(|_| client.reply()).last();
    assert_eq!(reply.as_deref(), Some("+QUEUED"));
    client.send(b"EXEC\r\n");
    // It is being executed, or has arrived, or was too late.
    server.handle.shutdown();
    let db = server.db.clone();
    expect_end(server, "a transaction", 0);
    let reply = client.reply();
    assert!(
        reply == "-EXECABORT Transaction discarded because of: the server is shutting down"
            || reply == "closed",
        "{reply}"
    );
    Running::on(db, |_| {}).client().check(&[("GET a", "\"1\""), ("EXISTS b", ":0")]);
}

fn the_server_waits_for_no_client_that_has_its_replies() {
    let server =
        Running::start_with(|config| config.shutdown_grace = Duration::from_secs(24 * 3600));
    let mut clients: Vec<_> = (0..5).map(|_| server.client()).collect();
    clients.iter_mut().for_each(|client| client.check(&[("PING", "+PONG")]));
    // One client has begun a request, and never ends it.
    clients[0].send(b"*2\r\n$3\r\nGET\r\n$1000\r\nkey");
    server.handle.shutdown();
    expect_end(server, "idle clients", 0);
    clients.iter_mut().for_each(|client| assert_eq!(client.reply(), "closed"));
}

fn a_sleep_is_bounded() {
    Running::start().client().check(&[
        ("DEBUG SLEEP 3601", "-ERR DEBUG SLEEP takes 3600 seconds at most"),
        ("DEBUG SLEEP 99999999999", "-ERR DEBUG SLEEP takes 3600 seconds at most"),
        ("DEBUG SLEEP -1", "+OK"),
        ("DEBUG SLEEP 0.01", "+OK"),
    ]);
}
