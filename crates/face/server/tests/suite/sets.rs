//! Sets, as one record and as one of each member.

use std::collections::BTreeSet;

use crate::common::{Client, Running, page};

on_threads! {
    members_are_added_asked_for_and_removed
    wrong_words_about_sets_are_refused
    a_member_moves_to_another_set
    sets_are_combined
    combined_sets_are_stored
    common_members_are_counted
    popped_members_are_gone
    every_member_is_as_likely
    most_of_a_large_set_is_popped
    a_scan_returns_every_member_that_stays
    sets_have_the_types_of_their_protocol
    a_set_is_there_after_a_restart
}

/// Runs a test with sets that are one record, and with sets of which each member is one.
fn in_both_forms(test: impl Fn(&mut Client)) {
    for entries in ["128", "0"] {
        let server = Running::start();
        let mut client = server.client();
        for name in ["set-max-listpack-entries", "set-max-intset-entries"] {
            client.check(&[(&format!("CONFIG SET {name} {entries}"), "+OK")]);
        }
        test(&mut client);
    }
}

/// The members that a request is answered with, sorted.
fn members(client: &mut Client, request: &str) -> Vec<String> {
    let reply = client.ask(request);
    let reply = reply.trim_start_matches('~');
    let inner = reply.strip_prefix('[').and_then(|reply| reply.strip_suffix(']'));
    let inner = inner.unwrap_or_else(|| panic!("{request}: {reply}"));
    let words = inner.split(", ").filter(|word| !word.is_empty());
    let mut words: Vec<_> = words.map(|word| word.trim_matches('"').to_owned()).collect();
    words.sort();
    words
}

fn members_are_added_asked_for_and_removed() {
    in_both_forms(|client| {
        let long = "m".repeat(3000);
        client.check(&[
            ("SADD s a b a", ":2"),
            ("SADD s c 1 2 ''", ":4"),
            (&format!("SADD s {long}"), ":1"),
            ("SADD s a", ":0"),
            ("SCARD s", ":7"),
            ("SCARD none", ":0"),
            ("SISMEMBER s a", ":1"),
            ("SISMEMBER s ''", ":1"),
            ("SISMEMBER s z", ":0"),
            ("SISMEMBER none a", ":0"),
            (&format!("SMISMEMBER s {long} z 1"), "[:1, :0, :1]"),
            ("SMISMEMBER none a b", "[:0, :0]"),
            ("SREM s a a z", ":1"),
            ("SREM none a", ":0"),
            (&format!("SREM s {long} ''"), ":2"),
            ("SMEMBERS none", "[]"),
        ]);
        assert_eq!(members(client, "SMEMBERS s"), ["1", "2", "b", "c"]);
        client.check(&[("SREM s 1 2 b c", ":4"), ("EXISTS s", ":0")]);
    });
}

fn wrong_words_about_sets_are_refused() {
    let wrong_type = "-WRONGTYPE Operation against a key holding the wrong kind of value";
    let server = Running::start();
    let mut client = server.client();
    client.check(&[
        ("SET str x", "+OK"),
        ("SADD s a", ":1"),
        ("SPOP s -1", "-ERR value is out of range, must be positive"),
        ("SPOP s x", "-ERR value is out of range, must be positive"),
        ("SPOP s 1 2", "-ERR syntax error"),
        ("SRANDMEMBER s x", "-ERR value is not an integer or out of range"),
        ("SRANDMEMBER s 1 2", "-ERR syntax error"),
        (
            "SRANDMEMBER s -9223372036854775808",
            "-ERR value is out of range, value must between -9223372036854775807 and 9223372036854775807",
        ),
        ("SINTERCARD 0 s", "-ERR numkeys should be greater than 0"),
        ("SINTERCARD x s", "-ERR numkeys should be greater than 0"),
        ("SINTERCARD 2 s", "-ERR Number of keys can't be greater than number of args"),
        ("SINTERCARD 1 s LIMIT", "-ERR syntax error"),
        ("SINTERCARD 1 s LIMIT -1", "-ERR LIMIT can't be negative"),
        ("SINTERCARD 1 s LIMIT x", "-ERR LIMIT can't be negative"),
        ("SINTERCARD 1 s NONE 1", "-ERR syntax error"),
        ("SMOVE none str a", ":0"),
    ]);
    for request in [
        "SADD str a",
        "SREM str a",
        "SISMEMBER str a",
        "SMISMEMBER str a",
        "SMEMBERS str",
        "SCARD str",
        "SPOP str",
        "SPOP str 2",
        "SRANDMEMBER str",
        "SMOVE str s a",
        "SMOVE s str a",
        "SINTER s none str",
        "SINTER none str",
        "SUNION s str",
        "SDIFF none str",
        "SINTERSTORE to str s",
        "SUNIONSTORE to s str",
        "SDIFFSTORE to none str",
        "SINTERCARD 2 none str",
        "SSCAN str 0",
    ] {
        client.check(&[(request, wrong_type)]);
    }
    client.check(&[("SCARD s", ":1"), ("EXISTS to", ":0")]);
}

fn a_member_moves_to_another_set() {
    in_both_forms(|client| {
        client.check(&[
            ("SADD a 1 x", ":2"),
            ("SADD b 2 x", ":2"),
            ("SMOVE a b 1", ":1"),
            ("SMOVE a b none", ":0"),
            ("SMOVE a a x", ":1"),
            ("SMOVE a a none", ":0"),
            ("SMOVE a b x", ":1"),
            ("EXISTS a", ":0"),
            ("SCARD b", ":3"),
            ("SMOVE b new 2", ":1"),
            ("SMEMBERS new", "[\"2\"]"),
        ]);
    });
}

fn sets_are_combined() {
    in_both_forms(|client| {
        client.check(&[("SADD a 1 2 3 x y", ":5"), ("SADD b 2 3 y z", ":4"), ("SADD c 3 y", ":2")]);
        for (request, expected) in [
            ("SINTER a b", "2 3 y"),
            ("SINTER a b c", "3 y"),
            ("SINTER a none b", ""),
            ("SINTER a", "1 2 3 x y"),
            ("SINTER none", ""),
            ("SINTER a a", "1 2 3 x y"),
            ("SUNION a b c", "1 2 3 x y z"),
            ("SUNION none c none", "3 y"),
            ("SUNION none", ""),
            ("SDIFF a b", "1 x"),
            ("SDIFF a c none", "1 2 x"),
            ("SDIFF b a c", "z"),
            ("SDIFF none a", ""),
            ("SDIFF a a", ""),
            ("SDIFF a", "1 2 3 x y"),
        ] {
            let expected: Vec<_> = expected.split_ascii_whitespace().collect();
            assert_eq!(members(client, request), expected, "{request}");
        }
    });
}

fn combined_sets_are_stored() {
    in_both_forms(|client| {
        client.check(&[
            ("SADD a 1 2 3", ":3"),
            ("SADD b 2 3 4", ":3"),
            ("SET to string", "+OK"),
            ("EXPIRE to 1000", ":1"),
            ("SINTERSTORE to a b", ":2"),
            ("TTL to", ":-1"),
            ("SUNIONSTORE b a b", ":4"),
            ("SCARD b", ":4"),
            ("SDIFFSTORE a b a", ":1"),
            ("SMEMBERS a", "[\"4\"]"),
            ("SINTERSTORE to a none", ":0"),
            ("EXISTS to", ":0"),
            ("SDIFFSTORE b none", ":0"),
            ("EXISTS b", ":0"),
        ]);
    });
}

fn common_members_are_counted() {
    in_both_forms(|client| {
        client.check(&[
            ("SADD a 1 2 3", ":3"),
            ("SADD b 2 3 4", ":3"),
            ("SINTERCARD 2 a b", ":2"),
            ("SINTERCARD 1 a", ":3"),
            ("SINTERCARD 2 a b LIMIT 1", ":1"),
            ("SINTERCARD 2 a b LIMIT 0", ":2"),
            ("SINTERCARD 2 a b LIMIT 9", ":2"),
            ("SINTERCARD 2 a none", ":0"),
        ]);
    });
}

fn popped_members_are_gone() {
    in_both_forms(|client| {
        client.check(&[
            ("SPOP none", "nil"),
            ("SPOP none 3", "[]"),
            ("SADD s 1 2 3 4 5 6 7 8 9 10", ":10"),
            ("EXPIRE s 1000", ":1"),
            ("SPOP s 0", "[]"),
        ]);
        let mut all = BTreeSet::new();
        all.insert(client.ask("SPOP s").trim_matches('"').to_owned());
        for (count, left) in [(1, 8), (5, 3), (2, 1)] {
            let popped = members(client, &format!("SPOP s {count}"));
            assert_eq!(popped.len(), count);
            all.extend(popped);
            client.check(&[("SCARD s", &format!(":{left}")), ("TTL s", ":1000")]);
        }
        all.extend(members(client, "SPOP s 100"));
        assert_eq!(all.len(), 10);
        client.check(&[("EXISTS s", ":0")]);
    });
}

fn every_member_is_as_likely() {
    in_both_forms(|client| {
        const MEMBERS: usize = 60;
        let words: Vec<_> = (0..MEMBERS).map(|number| number.to_string()).collect();
        client.ask(&format!("SADD s {}", words.join(" ")));
        let mut counts = [0_u32; MEMBERS];
        for member in members(client, "SRANDMEMBER s -24000") {
            counts[member.parse::<usize>().unwrap()] += 1;
        }
        let expected = 24_000.0 / MEMBERS as f64;
        let squares = counts.iter().map(|count| (f64::from(*count) - expected).powi(2) / expected);
        // A sum of 59 squares that a fair draw exceeds about once in a billion times.
        assert!(squares.sum::<f64>() < 140.0, "{counts:?}");
        for count in [1, 5, 19, 20, 21, 40, 59, 60, 70] {
            let drawn = members(client, &format!("SRANDMEMBER s {count}"));
            let different: BTreeSet<_> = drawn.iter().collect();
            assert_eq!(different.len(), count.min(MEMBERS), "{drawn:?}");
            assert_eq!(drawn.len(), different.len());
        }
        client.check(&[("SRANDMEMBER s 0", "[]"), ("SCARD s", &format!(":{MEMBERS}"))]);
    });
}

fn most_of_a_large_set_is_popped() {
    let server = Running::start();
    let mut client = server.client();
    let words: Vec<_> = (0..3000).map(|number| number.to_string()).collect();
    client.ask(&format!("SADD s {}", words.join(" ")));
    client.check(&[("OBJECT ENCODING s", "\"hashtable\""), ("EXPIRE s 1000", ":1")]);
    let mut all: BTreeSet<_> = members(&mut client, "SPOP s 100").into_iter().collect();
    client.check(&[("SCARD s", ":2900")]);
    all.extend(members(&mut client, "SPOP s 2800"));
    client.check(&[("SCARD s", ":100"), ("TTL s", ":1000"), ("SADD s x", ":1")]);
    all.extend(members(&mut client, "SMEMBERS s"));
    assert_eq!(all.len(), 3001);
}

fn a_scan_returns_every_member_that_stays() {
    in_both_forms(|client| {
        for member in 0..200 {
            client.ask(&format!("SADD s m{member}"));
        }
        let (mut cursor, mut seen, mut step) = ("0".to_owned(), BTreeSet::new(), 0);
        loop {
            let (next, found) = page(&client.ask(&format!("SSCAN s {cursor} COUNT 9")));
            seen.extend(found);
            client.ask(&format!("SADD s n{step}"));
            client.ask(&format!("SREM s n{step}"));
            step += 1;
            if next == "0" {
                break;
            }
            cursor = next;
        }
        assert!((0..200).all(|member| seen.contains(&format!("m{member}"))));
        let (_, found) = page(&client.ask("SSCAN s 0 MATCH m1?? COUNT 1000"));
        assert_eq!(found.len(), 100);
        client.check(&[
            ("SSCAN none 0", "[\"0\", []]"),
            ("SSCAN s 0 NOVALUES", "-ERR syntax error"),
            ("SSCAN s x", "-ERR invalid cursor"),
        ]);
    });
}

fn sets_have_the_types_of_their_protocol() {
    let server = Running::start();
    let mut client = server.client();
    client.ask("HELLO 3");
    client.check(&[
        ("SADD s a", ":1"),
        ("SMEMBERS s", "~[\"a\"]"),
        ("SMEMBERS none", "~[]"),
        ("SINTER s s", "~[\"a\"]"),
        ("SUNION s", "~[\"a\"]"),
        ("SDIFF s none", "~[\"a\"]"),
        ("SRANDMEMBER s 2", "[\"a\"]"),
        ("SRANDMEMBER none 2", "[]"),
        ("SMISMEMBER s a", "[:1]"),
        ("SPOP none 2", "~[]"),
        ("SPOP s 2", "~[\"a\"]"),
    ]);
}

fn a_set_is_there_after_a_restart() {
    let mut server = Running::start();
    let mut client = server.client();
    let words: Vec<_> = (0..700).map(|number| number.to_string()).collect();
    client.ask(&format!("SADD large {}", words.join(" ")));
    client.check(&[("SADD small a", ":1"), ("SREM large 5", ":1")]);
    server.stop().unwrap();
    let again = Running::on(server.db.clone(), |_| {});
    again.client().check(&[
        ("SCARD large", ":699"),
        ("SMISMEMBER large 5 6", "[:0, :1]"),
        ("SMEMBERS small", "[\"a\"]"),
    ]);
}
