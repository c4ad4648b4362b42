//! SCAN returns every key that is there all the time.

use crate::common;
use std::collections::BTreeSet;

use crate::common::{Client, Running, page, scan};

on_threads! {
    a_scan_visits_each_key_once
    keys_that_stay_are_returned_while_others_come_and_go
    a_cursor_can_be_used_again_and_by_others
    a_scan_that_rests_goes_on_after_many_steps_of_others
    an_unknown_cursor_is_an_error
    wrong_words_are_errors
    keys_of_any_bytes_are_scanned
    keys_count_by_what_they_take
}

mod with_a_hash_index {
    on_threads! {
        ; indexlog:
        scans_keep_their_promises
        a_scan_does_not_visit_all_keys_at_each_call
        a_transaction_scans_what_it_has_changed
        any_number_is_a_cursor
    }

    fn scans_keep_their_promises() {
        crate::common::set_index(halite::IndexKind::Hash);
        super::a_scan_visits_each_key_once();
        super::keys_that_stay_are_returned_while_others_come_and_go();
        super::a_cursor_can_be_used_again_and_by_others();
        super::a_scan_that_rests_goes_on_after_many_steps_of_others();
        super::wrong_words_are_errors();
        super::keys_of_any_bytes_are_scanned();
        super::keys_count_by_what_they_take();
    }

    fn a_scan_does_not_visit_all_keys_at_each_call() {
        crate::common::set_index(halite::IndexKind::Hash);
        let server = super::Running::start();
        let mut client = server.client();
        let keys = super::fill(&mut client, 3000);
        let mut pages = 0;
        let found = super::scan(&mut client, "COUNT 10", |client| {
            pages += 1;
            // The table grows and shrinks meanwhile.
            for number in 0..20 {
                client.ask(&format!("SET more:{pages}:{number} v"));
                if pages % 4 > 0 {
                    client.ask(&format!("DEL more:{}:{number}", pages - 1));
                }
            }
        });
        assert!(pages > 100, "{pages}");
        let found: super::BTreeSet<_> = found.into_iter().collect();
        assert!(keys.is_subset(&found));
    }

    fn any_number_is_a_cursor() {
        crate::common::set_index(halite::IndexKind::Hash);
        let mut server = super::Running::start();
        let mut client = server.client();
        let keys = super::fill(&mut client, 300);
        let (cursor, first) = super::page(&client.ask("SCAN 0 COUNT 5"));
        for cursor in ["12345", "18446744073709551615", &cursor] {
            super::page(&client.ask(&format!("SCAN {cursor}")));
        }
        client.check(&[("SELECT 1", "+OK")]);
        let (_, others) = super::page(&client.ask(&format!("SCAN {cursor} COUNT 1000")));
        assert!(others.is_empty());
        // Nor is it one server's.
        server.stop().unwrap();
        let server = super::Running::on(server.db.clone(), |_| {});
        let rest = super::rest(&mut server.client(), &cursor);
        assert_eq!(first.into_iter().chain(rest).collect::<super::BTreeSet<_>>(), keys);
    }

    fn a_transaction_scans_what_it_has_changed() {
        crate::common::set_index(halite::IndexKind::Hash);
        let server = super::Running::start();
        let mut client = server.client();
        super::fill(&mut client, 5);
        for request in ["MULTI", "SET new v", "DEL key:0 key:1", "SCAN 0 COUNT 100"] {
            client.ask(request);
        }
        let reply = client.ask("EXEC");
        let (cursor, keys) =
            super::page(reply.split_once(":2, ").unwrap().1.strip_suffix(']').unwrap());
        assert_eq!(cursor, "0");
        let keys: super::BTreeSet<_> = keys.into_iter().collect();
        assert_eq!(keys, ["key:2", "key:3", "key:4", "new"].map(str::to_owned).into());
    }
}

fn fill(client: &mut Client, count: usize) -> BTreeSet<String> {
    let keys: BTreeSet<_> = (0..count).map(|index| format!("key:{index}")).collect();
    let words: Vec<_> = keys.iter().flat_map(|key| [key.as_str(), "v"]).collect();
    client.call(&[&["MSET"], &words[..]].concat());
    keys
}

fn a_scan_visits_each_key_once() {
    let server = Running::start();
    let mut client = server.client();
    let keys = fill(&mut client, 1000);
    for options in ["", "COUNT 1000", "COUNT 7", "COUNT 100000 TYPE string"] {
        let found = scan(&mut client, options, |_| {});
        assert_eq!(found.len(), keys.len(), "{options}");
        assert_eq!(found.into_iter().collect::<BTreeSet<_>>(), keys, "{options}");
    }
    assert_eq!(scan(&mut client, "MATCH key:1?", |_| {}).len(), 10);
    assert_eq!(scan(&mut client, "MATCH *9*9 COUNT 100", |_| {}).len(), 19);
    assert!(scan(&mut client, "TYPE list", |_| {}).is_empty());
}

fn keys_that_stay_are_returned_while_others_come_and_go() {
    let server = Running::start();
    let mut client = server.client();
    let keys = fill(&mut client, 500);
    let mut step = 0;
    let found = scan(&mut client, "COUNT 10", |client| {
        step += 1;
        client.ask(&format!("SET key:0:{step} v"));
        client.ask(&format!("SET zzz:{} v", step % 10));
        client.ask(&format!("DEL zzz:{}", (step + 1) % 10));
        client.ask(&format!("DEL key:0:{}", step - 1));
    });
    let found: BTreeSet<_> = found.into_iter().collect();
    assert!(keys.is_subset(&found));
}

fn a_cursor_can_be_used_again_and_by_others() {
    let server = Running::start();
    let mut client = server.client();
    fill(&mut client, 100);
    let (cursor, _) = page(&client.ask("SCAN 0 COUNT 5"));
    let request = format!("SCAN {cursor} COUNT 5");
    let (_, first) = page(&client.ask(&request));
    let (_, again) = page(&server.client().ask(&request));
    assert!((5..20).contains(&first.len()) && first == again, "{first:?} {again:?}");
}

/// The keys that a scan returns from a cursor on.
fn rest(client: &mut Client, cursor: &str) -> Vec<String> {
    let (mut cursor, mut found) = (cursor.to_owned(), Vec::new());
    while cursor != "0" {
        let (next, keys) = page(&client.ask(&format!("SCAN {cursor} COUNT 100")));
        found.extend(keys);
        cursor = next;
    }
    found
}

fn a_scan_that_rests_goes_on_after_many_steps_of_others() {
    let steps = 70_000 / common::threads();
    let server = Running::start();
    let (mut client, mut others) = (server.client(), server.client());
    let keys = fill(&mut client, 500);
    let (cursor, first) = page(&client.ask("SCAN 0 COUNT 5"));
    for _ in 0..10 {
        others.send(&b"SCAN 0 COUNT 1\r\n".repeat(steps / 10));
        (0..steps / 10).for_each(|_| drop(others.reply()));
    }
    let rest = rest(&mut client, &cursor);
    assert_eq!(first.into_iter().chain(rest).collect::<BTreeSet<_>>(), keys);
}

fn an_unknown_cursor_is_an_error() {
    let server = Running::start();
    let mut client = server.client();
    fill(&mut client, 100);
    let (cursor, _) = page(&client.ask("SCAN 0 COUNT 5"));
    assert!(client.ask("SCAN 12345").starts_with("-ERR unknown cursor: "));
    client.ask("SELECT 1");
    assert!(client.ask(&format!("SCAN {cursor}")).starts_with("-ERR unknown cursor: "));
}

fn wrong_words_are_errors() {
    let server = Running::start();
    let mut client = server.client();
    client.check(&[
        ("SCAN x", "-ERR invalid cursor"),
        ("SCAN 18446744073709551616", "-ERR invalid cursor"),
        ("SCAN 0 COUNT 0", "-ERR syntax error"),
        ("SCAN 0 COUNT x", "-ERR value is not an integer or out of range"),
        ("SCAN 0 MATCH", "-ERR syntax error"),
        ("SCAN 0 X y", "-ERR syntax error"),
    ]);
    assert!(scan(&mut client, "", |_| {}).is_empty());
}

fn keys_count_by_what_they_take() {
    const KEYS: usize = 20_000;
    let server = Running::start_with(|config| config.limits.output.hard = 1 << 20);
    let mut client = server.client();
    for first in (0..KEYS).step_by(1000) {
        let pairs = (first..first + 1000).flat_map(|number| [format!("key:{number}"), "v".into()]);
        assert_eq!(client.call(&[vec!["MSET".to_owned()], pairs.collect()].concat()), "+OK");
    }
    let refused = "-ERR the keys take more than 1048576 bytes; SCAN returns them in pages";
    client.check(&[("KEYS *", refused), ("MULTI", "+OK"), ("KEYS *", "+QUEUED")]);
    client.check(&[("EXEC", &format!("[{refused}]")), ("PING", "+PONG")]);
    assert_eq!(client.ask("KEYS key:1*").matches("key:").count(), 11_111);
    let (next, page) = page(&client.ask(&format!("SCAN 0 COUNT {KEYS}")));
    assert!(next != "0" && page.len() < KEYS);
    let found: BTreeSet<_> =
        scan(&mut client, &format!("COUNT {KEYS}"), |_| {}).into_iter().collect();
    assert_eq!(found.len(), KEYS);
}

fn keys_of_any_bytes_are_scanned() {
    let server = Running::start();
    let mut client = server.client();
    for key in [&b""[..], b"\x00", b"\x00\x00", b"\xff", b"\xff\xff", b"\xff\xff\xff"] {
        client.call(&[b"SET", key, b"v"]);
    }
    assert_eq!(scan(&mut client, "COUNT 1", |_| {}).len(), 6);
    assert_eq!(client.call(&[&b"KEYS"[..], b"\xff\xff*"]), "[\"\\xff\\xff\", \"\\xff\\xff\\xff\"]");
}
