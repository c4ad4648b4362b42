//! Clients that break the protocol, and full stores.

use crate::common;
use std::io::Write;
use std::time::Duration;

use crate::common::{Client, Running, eventually, request};

on_threads! {
    half_a_command_keeps_nobody_from_going_on
    a_client_that_never_reads_is_idle_and_is_disconnected
    ; indexlog:
    a_full_store_refuses_writes_until_something_is_removed
    a_store_full_of_large_values_refuses_writes_until_something_is_removed
}

fn half_a_command_keeps_nobody_from_going_on() {
    let server = Running::start_with(|config| {
        config.limits.request_timeout = Duration::from_secs(1);
    });
    let whole = request(&["SET", "key:1", &"v".repeat(100_000)]);
    // Truncated within the head, a word, the last line's end; and after a lone sign.
    let mut halves: Vec<_> = [1, 6, 20, 5_000, 90_000, whole.len() - 1]
        .map(|len| {
            let mut client = server.client();
            client.send(&whole[..len]);
            client
        })
        .into();
    let mut others: Vec<_> = (0..4).map(|_| server.client()).collect();
    for number in 0..50 {
        for other in &mut others {
            other.check(&[
                (&format!("SET key:{number} {number}"), "+OK"),
                (&format!("GET key:{number}"), &format!("\"{number}\"")),
            ]);
        }
    }
    for half in &mut halves {
        assert_eq!(half.reply(), "closed");
    }
    others[0].check(&[("GET key:1", "\"1\"")]);
}

fn a_client_that_never_reads_is_idle_and_is_disconnected() {
    let server = Running::start();
    let mut client = server.client();
    let value = vec![b'v'; 300_000];
    for number in 0..6 {
        client.call(&[b"SET", format!("big{number}").as_bytes(), &value]);
    }
    let mut deaf = server.client();
    for number in 0..600 {
        // It may be disconnected meanwhile.
        let _ = write!(deaf.socket.get_mut(), "GET big{}\r\n", number % 6);
    }
    client.check(&[("CONFIG SET timeout 1", "+OK")]);
    eventually("the end of a connection that is not read from", || {
        client.ask("CLIENT LIST").matches("id=").count() == 1
    });
    client.check(&[("CONFIG SET timeout 0", "+OK"), ("STRLEN big1", ":300000")]);
}

fn set(client: &mut Client, number: usize, len: usize) -> String {
    client.call(&["SET", &format!("key:{number}"), &format!("{number:0len$}")])
}

fn a_full_store_refuses_writes_until_something_is_removed() {
    let collected = fill_and_remove(2_000);
    assert!(collected > 0);
}

fn a_store_full_of_large_values_refuses_writes_until_something_is_removed() {
    fill_and_remove(20_000);
}

/// Returns how many blocks were collected: large values are not moved.
fn fill_and_remove(len: usize) -> u64 {
    let folder = tempfile::tempdir().unwrap();
    let db = common::builder().max_size(32 << 20).open(folder.path().join("data")).unwrap();
    let server = Running::on(db, |_| {});
    let mut client = server.client();
    let oom = "-OOM command not allowed when used memory > 'maxmemory'.";
    // Writes until all partitions are full: some are full sooner than others.
    let (mut stored, mut refused) = (Vec::new(), 0);
    for number in 0.. {
        match &*set(&mut client, number, len) {
            "+OK" => {
                stored.push(number);
                refused = 0;
            }
            reply => {
                assert_eq!(reply, oom);
                refused += 1;
            }
        }
        if refused == 40 {
            break;
        }
    }
    assert!(stored.len() > 500, "{}", stored.len());
    for &number in stored.iter().step_by(50) {
        let expected = format!("\"{number:0len$}\"");
        assert!(client.ask(&format!("GET key:{number}")) == expected, "{number}");
    }
    // No key is set if there is no room for all of them.
    let large = "v".repeat(len);
    let words: Vec<_> = (0..8).map(|number| format!("twin:{number}")).collect();
    let pairs = words.iter().flat_map(|key| [key.as_str(), &large]);
    assert_eq!(client.call(&["MSET"].into_iter().chain(pairs).collect::<Vec<_>>()), oom);
    let exist = ["EXISTS"].into_iter().chain(words.iter().map(String::as_str)).collect::<Vec<_>>();
    assert_eq!(client.call(&exist), ":0");
    // Removing goes on, collection gives the room back, and writes succeed for ever.
    let (gone, kept) = stored.split_at(stored.len() / 2);
    for &number in gone {
        assert_eq!(client.ask(&format!("DEL key:{number}")), ":1", "{number}");
    }
    for round in 0..4 {
        for &number in &gone[..gone.len() / 2] {
            assert_eq!(set(&mut client, number, len), "+OK", "round {round}");
        }
    }
    for &number in kept {
        assert_eq!(client.integer(&format!("STRLEN key:{number}")), len as i64);
    }
    assert_eq!(client.integer("DBSIZE"), (kept.len() + gone.len() / 2) as i64);
    let info = client.ask("INFO halite");
    let (_, rest) = info.split_once("collected_blocks:").unwrap();
    rest.split('\\').next().unwrap().parse().unwrap()
}
