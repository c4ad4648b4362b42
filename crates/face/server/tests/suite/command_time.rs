//! Each command's time starts at its own beginning, not with commands before it in the same turn of the event loop.

use crate::common;
use std::time::Duration;

use crate::common::{Client, Running};

on_threads! {
    a_relative_deadline_counts_from_the_command_that_sets_it
    a_deadline_that_passes_during_the_turn_holds_in_the_turn
    a_transaction_has_one_time
}

/// Longer than any machine stands still, in seconds.
const LONG_S: i64 = 1_000_000;
/// How long the slow command takes at least, in milliseconds: it compares 16 million pairs of bytes.
const SLOW_MS: i64 = 3;
/// How long before a second begins commands are sent that take about as long, in milliseconds.
const BEFORE_MS: i64 = 60;

/// Sends requests with one write and returns their replies.
fn pipeline(client: &mut Client, requests: &[String]) -> Vec<String> {
    let lines = requests.iter().map(|request| common::request(&common::words(request)));
    let bytes: Vec<u8> = lines.flatten().collect();
    client.send(&bytes);
    requests.iter().map(|_| client.reply()).collect()
}

/// The milliseconds since 1970 that a reply to TIME tells.
fn time_ms(reply: &str) -> i64 {
    let numbers: Vec<i64> = reply
        .split(|letter: char| !letter.is_ascii_digit())
        .filter_map(|number| number.parse().ok())
        .collect();
    numbers[0] * 1000 + numbers[1] / 1000
}

fn integer(reply: &str) -> i64 {
    reply.strip_prefix(':').and_then(|number| number.parse().ok()).expect(reply)
}

/// A client of a server with a slow command on the partition of `k`, which is executed by the thread that executes
/// commands on `k`, and takes longer than [`SLOW_MS`].
fn prepare(server: &Running) -> (Client, String) {
    let mut client = server.client();
    let home = server.db.partition_of(b"k");
    let names = (0..).map(|number| format!("big:{number}"));
    let mut names = names.filter(|name| server.db.partition_of(name.as_bytes()) == home);
    let big = names.next().expect("names do not end");
    client.call(&["SET", &big, &"v".repeat(4000)]);
    client.check(&[
        ("CONFIG SET slowlog-log-slower-than 0", "+OK"),
        ("DEBUG SET-ACTIVE-EXPIRE 0", "+OK"),
    ]);
    (client, format!("LCS {big} {big} LEN"))
}

/// How long each LCS took that the slowlog tells of, in microseconds, the last one first.
fn slow_us(client: &mut Client) -> Vec<i64> {
    let told = client.ask("SLOWLOG GET -1");
    let parts: Vec<_> = told.split(", [\"LCS\"").collect();
    let (_, before) = parts.split_last().expect("there is a part");
    let took_us = |part: &&str| part.rsplit(':').next()?.parse().ok();
    before.iter().map(|part| took_us(part).expect(&told)).collect()
}

/// How long the last LCS took, in milliseconds.
fn slow_ms(client: &mut Client) -> i64 {
    slow_us(client)[0] / 1000
}

fn a_relative_deadline_counts_from_the_command_that_sets_it() {
    let server = Running::start();
    let (mut client, slow) = prepare(&server);
    for template in [
        "SET k v EX {s}",
        "SET k v PX {ms}",
        "SET k v GET PX {ms}",
        "SETEX k {s} v",
        "PSETEX k {ms} v",
        "GETEX k EX {s}",
        "GETEX k PX {ms}",
        "EXPIRE k {s}",
        "PEXPIRE k {ms}",
        "PEXPIRE k {ms} NX",
    ] {
        client.check(&[("SLOWLOG RESET", "+OK"), ("SET k v", "+OK")]);
        let set = template.replace("{s}", &LONG_S.to_string());
        let set = set.replace("{ms}", &(LONG_S * 1000).to_string());
        let requests = ["TIME".to_owned(), slow.clone(), set, "PEXPIRETIME k".to_owned()];
        let replies = pipeline(&mut client, &requests);
        let slow_ms = slow_ms(&mut client);
        assert!(slow_ms >= SLOW_MS, "it took {slow_ms} ms");
        let from_ms = time_ms(&replies[0]) + slow_ms;
        assert!(integer(&replies[3]) >= from_ms + LONG_S * 1000, "{template}: {replies:?}");
    }
    // A transaction behind it begins with its EXEC.
    client.check(&[("SLOWLOG RESET", "+OK")]);
    let set = format!("SET k v PX {}", LONG_S * 1000);
    let requests = ["TIME", &slow, "MULTI", &set, "EXEC", "PEXPIRETIME k"].map(str::to_owned);
    let replies = pipeline(&mut client, &requests);
    let from_ms = time_ms(&replies[0]) + slow_ms(&mut client);
    assert!(integer(&replies[5]) >= from_ms + LONG_S * 1000, "{replies:?}");
}

fn a_deadline_that_passes_during_the_turn_holds_in_the_turn() {
    let server = Running::start();
    let (mut client, slow) = prepare(&server);
    // A key that expires while the slow command runs is gone behind it.
    for set in ["SET k v PX 1", "PSETEX k 1 v", "GETEX k PX 1", "PEXPIRE k 1"] {
        client.ask("SET k v");
        let replies =
            pipeline(&mut client, &[set, &slow, "GET k", "TTL k", "EXISTS k"].map(str::to_owned));
        assert_eq!(replies[2..], ["nil", ":-2", ":0"], "{set}");
    }
    // A key that is set behind it to expire before that is gone at once.
    for template in ["SET k v PXAT {at}", "GETEX k PXAT {at}", "PEXPIREAT k {at}"] {
        client.ask("SET k v");
        let at_ms = time_ms(&client.ask("TIME")) + SLOW_MS;
        let set = template.replace("{at}", &at_ms.to_string());
        let replies = pipeline(&mut client, &[slow.clone(), set, "GET k".to_owned()]);
        assert_eq!(replies[2], "nil", "{template}: {replies:?}");
    }
    // A deadline goes along with the value.
    for take_along in ["RENAME k k", "COPY k k DB 1 REPLACE", "MOVE k 1"] {
        let requests = ["SET k v PX 1", &slow, take_along].map(str::to_owned);
        let replies = pipeline(&mut client, &requests);
        assert!(["-ERR no such key", ":0"].contains(&replies[2].as_str()), "{replies:?}");
    }
    // A key that is set to expire with a second that begins meanwhile is gone at once, too.
    while !expires_with_the_second(&mut client, &slow) {}
}

/// Sends slow commands shortly before a second begins, and behind them, in the same turn, the command that lets `k`
/// expire with that second. Returns whether the second certainly began meanwhile; then the key was gone.
fn expires_with_the_second(client: &mut Client, slow: &str) -> bool {
    client.check(&[("SLOWLOG RESET", "+OK")]);
    let now_ms = time_ms(&client.ask("TIME"));
    let at_s = (now_ms + BEFORE_MS) / 1000 + 1;
    let until_ms = u64::try_from(at_s * 1000 - BEFORE_MS - now_ms).unwrap_or(0);
    std::thread::sleep(Duration::from_millis(until_ms));
    let mut requests = vec!["TIME".to_owned()];
    requests.extend((0..BEFORE_MS / SLOW_MS).map(|_| slow.to_owned()));
    for set in ["SET k v EXAT", "GETEX k EXAT", "EXPIREAT k"] {
        requests.extend(["SET k v".to_owned(), format!("{set} {at_s}"), "GET k".to_owned()]);
    }
    let replies = pipeline(client, &requests);
    let took_us: i64 = slow_us(client).iter().sum();
    let began = time_ms(&replies[0]) * 1000 + took_us >= at_s * 1_000_000;
    let gone = replies.rchunks(3).take(3).all(|replies| replies[2] == "nil");
    assert!(gone || !began, "{replies:?}");
    began
}

fn a_transaction_has_one_time() {
    let server = Running::start();
    let (mut client, slow) = prepare(&server);
    let queued = [
        "MULTI",
        "SET k v PX 1",
        &slow,
        "GET k",
        "PEXPIRE k 1000000",
        "PEXPIRETIME k",
        &slow,
        "PEXPIRE k 1000000",
        "PEXPIRETIME k",
    ];
    queued.iter().for_each(|request| drop(client.ask(request)));
    let reply = client.ask("EXEC");
    let replies: Vec<_> = reply.trim_matches(['[', ']']).split(", ").collect();
    assert_eq!(replies[2], "\"v\"", "{reply}");
    assert_eq!(replies[4], replies[7], "{reply}");
    // Behind it, time goes on.
    client.check(&[("SLOWLOG RESET", "+OK")]);
    let requests = ["TIME", "MULTI", &slow, "EXEC", "SET k v PX 1000000", "PEXPIRETIME k"];
    let replies = pipeline(&mut client, &requests.map(str::to_owned));
    let from_ms = time_ms(&replies[0]) + slow_ms(&mut client);
    assert!(integer(&replies[5]) >= from_ms + 1_000_000, "{replies:?}");
}
