//! Commands on keys do with collections as they do with strings.

use crate::common;
use crate::common::{Client, Running, eventually};

on_threads! {
    encodings_are_those_of_redis
    what_was_larger_stays_so_but_lists
    a_set_of_integers_that_had_another_member_stays_a_listpack
    small_collections_have_an_order
    limits_can_be_changed
    memory_grows_with_the_elements
    keys_are_scanned_by_their_type
    collections_are_copied_renamed_moved_and_removed
    collections_expire
    a_failed_command_changes_nothing
    any_stored_bytes_are_answered
    a_read_of_several_keys_passes_over_other_types
}

fn a_read_of_several_keys_passes_over_other_types() {
    let server = Running::start();
    let mut client = server.client();
    client.check(&[
        ("SET a 1", "+OK"),
        ("RPUSH l x", ":1"),
        ("HSET h f v", ":1"),
        ("MGET a l h none", "[\"1\", nil, nil, nil]"),
        ("RPUSH by a l", ":2"),
        ("SORT by BY nosort GET *", "[\"1\", nil]"),
    ]);
}

fn encoding(client: &mut Client, key: &str, expected: &str) {
    client.check(&[(&format!("OBJECT ENCODING {key}"), &format!("\"{expected}\""))]);
}

fn numbers(count: usize) -> String {
    (0..count).map(|number| number.to_string()).collect::<Vec<_>>().join(" ")
}

fn encodings_are_those_of_redis() {
    let server = Running::start();
    let mut client = server.client();
    let (long, short) = ("x".repeat(65), "x".repeat(64));
    for (request, expected) in [
        ("HSET k a 1".to_owned(), "listpack"),
        (format!("HSET k {short} {short}"), "listpack"),
        (format!("HSET k a {long}"), "hashtable"),
        (format!("HSET k {long} a"), "hashtable"),
        (format!("HSET k {}", numbers(1024)), "listpack"),
        (format!("HSET k {}", numbers(1026)), "hashtable"),
        ("HSETEX k EX 1000 FIELDS 1 a 1".to_owned(), "listpackex"),
        ("SADD k 1 2 3".to_owned(), "intset"),
        ("SADD k 1 2 a".to_owned(), "listpack"),
        (format!("SADD k {short}"), "listpack"),
        (format!("SADD k {long}"), "hashtable"),
        (format!("SADD k {}", numbers(512)), "intset"),
        (format!("SADD k {}", numbers(513)), "hashtable"),
        (format!("SADD k a {}", numbers(127)), "listpack"),
        (format!("SADD k a {}", numbers(128)), "hashtable"),
        (format!("SADD k {} a", numbers(128)), "hashtable"),
        ("RPUSH k a".to_owned(), "listpack"),
        (format!("RPUSH k {}", numbers(5000)), "quicklist"),
    ] {
        client.ask("DEL k");
        client.ask(&request);
        encoding(&mut client, "k", expected);
    }
    client.check(&[("OBJECT ENCODING none", "nil")]);
}

fn what_was_larger_stays_so_but_lists() {
    let server = Running::start();
    let mut client = server.client();
    for setting in [
        "hash-max-listpack-entries",
        "set-max-listpack-entries",
        "set-max-intset-entries",
        "zset-max-listpack-entries",
        "list-max-listpack-size",
    ] {
        client.check(&[(&format!("CONFIG SET {setting} 2"), "+OK")]);
    }
    for (made, shrunk, expected) in [
        ("HSET k a 1 b 2 c 3", "HDEL k a b", "hashtable"),
        ("SADD k a b c", "SREM k a b", "hashtable"),
        ("SADD k 1 2 3", "SREM k 1 2", "hashtable"),
        ("ZADD k 1 a 2 b 3 c", "ZREM k a b", "skiplist"),
        ("RPUSH k a b c", "RPOP k", "quicklist"),
        ("RPUSH k a b c", "RPOP k 2", "listpack"),
        ("RPUSH k a a c", "LREM k 2 a", "listpack"),
        ("RPUSH k a b c", "LTRIM k 1 1", "listpack"),
    ] {
        client.ask("DEL k");
        client.ask(made);
        client.ask(shrunk);
        encoding(&mut client, "k", expected);
    }
    // A list of a few elements is looked at whenever one goes, or becomes another one.
    let long = "x".repeat(8192);
    client.check(&[
        ("CONFIG SET list-max-listpack-size -1", "+OK"),
        (&format!("RPUSH l a b c {long}"), ":4"),
        ("RPOP l", &format!("\"{long}\"")),
        (&format!("RPUSH m {long}"), ":1"),
    ]);
    encoding(&mut client, "l", "listpack");
    encoding(&mut client, "m", "quicklist");
    client.check(&[("LSET m 0 a", "+OK")]);
    encoding(&mut client, "m", "listpack");
}

fn a_set_of_integers_that_had_another_member_stays_a_listpack() {
    let server = Running::start();
    let mut client = server.client();
    client.check(&[("SADD k 1 2 3 a", ":4"), ("SREM k a", ":1")]);
    encoding(&mut client, "k", "listpack");
    // The mark of it stays when members come and go, the first one, too, and in a copy.
    for request in ["SREM k 1", "SADD k 7", "SREM k 2", "SREM k 3", "SADD k 1", "SREM k 7"] {
        client.check(&[(request, ":1")]);
        encoding(&mut client, "k", "listpack");
    }
    client.check(&[("COPY k l", ":1"), ("SADD k 2", ":1"), ("SMEMBERS k", "[\"1\", \"2\"]")]);
    encoding(&mut client, "l", "listpack");
    client.check(&[("SREM k 1 2", ":2"), ("SADD k 1", ":1")]);
    encoding(&mut client, "k", "intset");
    for (members, moved, expected) in [("1 2 a", "a", "listpack"), ("1 2 3", "3", "intset")] {
        client.ask("DEL k to");
        client.ask(&format!("SADD k {members}"));
        client.check(&[(&format!("SMOVE k to {moved}"), ":1")]);
        encoding(&mut client, "k", expected);
    }
    client.check(&[("DEL k l to", ":3"), ("CONFIG SET set-max-intset-entries 2", "+OK")]);
    // Redis chooses by what a request has when a set begins, and by what the set has later.
    for (request, expected) in [
        ("SADD k 1 2", "intset"),
        ("SADD k 3", "hashtable"),
        ("SADD l 1 2 3", "listpack"),
        ("SADD l 4", "listpack"),
    ] {
        client.ask(request);
        encoding(&mut client, &request[5..6], expected);
    }
}

fn small_collections_have_an_order() {
    let server = Running::start();
    let mut client = server.client();
    client.check(&[
        ("SADD s 3 -1 2 10 0", ":5"),
        ("SMEMBERS s", r#"["-1", "0", "2", "3", "10"]"#),
        ("SSCAN s 0", r#"["0", ["-1", "0", "2", "3", "10"]]"#),
        ("SADD t 5 1", ":2"),
        ("SUNION s t", r#"["-1", "0", "1", "2", "3", "5", "10"]"#),
        ("SINTER s s", r#"["-1", "0", "2", "3", "10"]"#),
        ("SORT s BY nosort", r#"["-1", "0", "2", "3", "10"]"#),
        ("SADD s b a", ":2"),
        ("SADD s 1", ":1"),
        ("SMEMBERS s", r#"["-1", "0", "2", "3", "10", "b", "a", "1"]"#),
        ("HSET h b 1 a 2 c 3", ":3"),
        ("HSET h b 4", ":0"),
        ("HSCAN h 0", r#"["0", ["b", "4", "a", "2", "c", "3"]]"#),
        ("HGETALL h", r#"["b", "4", "a", "2", "c", "3"]"#),
        ("ZADD z 3 a 1 c 2 b 1 b2", ":4"),
        ("ZSCAN z 0", r#"["0", ["b2", "1", "c", "1", "b", "2", "a", "3"]]"#),
    ]);
}

fn limits_can_be_changed() {
    let server = Running::start();
    let mut client = server.client();
    for (name, default) in [
        ("hash-max-listpack-entries", "512"),
        ("hash-max-ziplist-entries", "512"),
        ("hash-max-listpack-value", "64"),
        ("hash-max-ziplist-value", "64"),
        ("set-max-intset-entries", "512"),
        ("set-max-listpack-entries", "128"),
        ("set-max-listpack-value", "64"),
    ] {
        client.check(&[
            (&format!("CONFIG GET {name}"), &format!("[\"{name}\", \"{default}\"]")),
            (&format!("CONFIG SET {name} 2"), "+OK"),
            (&format!("CONFIG GET {name}"), &format!("[\"{name}\", \"2\"]")),
            (&format!("CONFIG SET {name} {default}"), "+OK"),
        ]);
    }
    client.check(&[
        ("CONFIG SET hash-max-ziplist-entries 2 set-max-intset-entries 2", "+OK"),
        ("CONFIG GET hash-max-listpack-entries", "[\"hash-max-listpack-entries\", \"2\"]"),
    ]);
    // On keys of all threads.
    for key in ["a", "b", "c", "d", "e"] {
        client.ask(&format!("HSET {key} 1 1 2 2"));
        encoding(&mut client, key, "listpack");
        client.ask(&format!("HSET {key} 3 3"));
        encoding(&mut client, key, "hashtable");
    }
}

fn memory_grows_with_the_elements() {
    let server = Running::start();
    let mut client = server.client();
    client.check(&[("HSET small a 1", ":1"), ("MEMORY USAGE none", "nil")]);
    for field in 0..600 {
        client.ask(&format!("HSET large {field} {}", "v".repeat(100)));
    }
    let small = client.integer("MEMORY USAGE small");
    assert!((1..1000).contains(&small), "{small}");
    let all = client.integer("MEMORY USAGE large SAMPLES 0");
    assert!(all >= 600 * 100, "{all}");
    for samples in ["", "SAMPLES 1", "SAMPLES 600", "SAMPLES 1000"] {
        let some = client.integer(&format!("MEMORY USAGE large {samples}"));
        assert!((all * 9 / 10..=all * 11 / 10).contains(&some), "{samples}: {some} of {all}");
    }
    client.check(&[("MEMORY USAGE large SAMPLES -1", "-ERR syntax error")]);
}

fn keys_are_scanned_by_their_type() {
    let server = Running::start();
    let mut client = server.client();
    client.check(&[("SET str x", "+OK"), ("HSET hash a 1", ":1"), ("SADD set a", ":1")]);
    client.check(&[("RPUSH list a", ":1"), ("HSET hash2 a 1", ":1")]);
    for (of, expected) in [
        ("string", &["str"][..]),
        ("hash", &["hash", "hash2"]),
        ("HASH", &["hash", "hash2"]),
        ("set", &["set"]),
        ("list", &["list"]),
        ("zset", &[]),
        ("nonsense", &[]),
    ] {
        let mut found = common::scan(&mut client, &format!("TYPE {of}"), |_| {});
        found.sort();
        assert_eq!(found, expected, "{of}");
    }
    let found = common::scan(&mut client, "TYPE hash MATCH *2 COUNT 1", |_| {});
    assert_eq!(found, ["hash2"]);
}

fn collections_are_copied_renamed_moved_and_removed() {
    let server = Running::start();
    let mut client = server.client();
    for (make, count, size) in [
        ("HSET k a 1".to_owned(), "HLEN", 1),
        (format!("HSET k {}", numbers(1200)), "HLEN", 600),
        ("SADD k a".to_owned(), "SCARD", 1),
        (format!("SADD k {}", numbers(600)), "SCARD", 600),
        (format!("RPUSH k {}", numbers(3000)), "LLEN", 3000),
    ] {
        let of = |key: &str| format!("{count} {key}");
        let size = &format!(":{size}");
        client.ask(&make);
        client.check(&[
            (&of("k"), size),
            ("EXPIRE k 1000", ":1"),
            ("COPY k copy", ":1"),
            ("TTL copy", ":1000"),
            (&of("copy"), size),
            ("COPY k copy", ":0"),
            ("COPY k copy REPLACE", ":1"),
            ("RENAME k renamed", "+OK"),
            ("EXISTS k", ":0"),
            (&of("renamed"), size),
            ("TTL renamed", ":1000"),
            ("RENAMENX renamed copy", ":0"),
            ("RENAME renamed copy", "+OK"),
            (&of("copy"), size),
            ("MOVE copy 1", ":1"),
            ("SELECT 1", "+OK"),
            (&of("copy"), size),
            ("COPY copy copy DB 0", ":1"),
            ("DEL copy", ":1"),
            ("EXISTS copy", ":0"),
            ("SELECT 0", "+OK"),
            (&of("copy"), size),
            ("UNLINK copy", ":1"),
            ("DBSIZE", ":0"),
        ]);
    }
    for space in ["db0:elements", "db1:elements"] {
        let elements = server.db.find_key_space(space).unwrap().unwrap();
        eventually("the removal of elements", || elements.is_empty().unwrap());
    }
}

fn collections_expire() {
    let server = Running::start();
    let mut client = server.client();
    client.ask(&format!("HSET hash {}", numbers(1200)));
    client.ask(&format!("SADD set {}", numbers(600)));
    client.check(&[
        ("PEXPIRE hash 1", ":1"),
        ("PEXPIRE set 1", ":1"),
        ("DEBUG SLEEP 0.01", "+OK"),
        ("HLEN hash", ":0"),
        ("SADD set 1", ":1"),
        ("SCARD set", ":1"),
        ("TTL set", ":-1"),
        ("DEL set", ":1"),
    ]);
    let elements = server.db.find_key_space("db0:elements").unwrap().unwrap();
    eventually("the removal of elements", || elements.is_empty().unwrap());
}

fn a_failed_command_changes_nothing() {
    let server = Running::start();
    let mut client = server.client();
    client.ask("CONFIG SET hash-max-listpack-entries 0");
    client.check(&[
        ("HSET h n x", ":1"),
        ("MULTI", "+OK"),
        ("HSET h a 1", "+QUEUED"),
        ("HINCRBY h n 1", "+QUEUED"),
        ("SMOVE h h x", "+QUEUED"),
        ("HLEN h", "+QUEUED"),
        (
            "EXEC",
            "[:1, -ERR hash value is not an integer, \
             -WRONGTYPE Operation against a key holding the wrong kind of value, :2]",
        ),
        ("MULTI", "+OK"),
        ("HSET h b 1", "+QUEUED"),
        ("DISCARD", "+OK"),
        ("HLEN h", ":2"),
        ("HGET h b", "nil"),
    ]);
}

/// Commands on a hash or a set at `k`.
const COMMANDS: &[&str] = &[
    "HGET k a",
    "HMGET k a b",
    "HGETALL k",
    "HLEN k",
    "HSCAN k 0",
    "HRANDFIELD k",
    "HRANDFIELD k -3 WITHVALUES",
    "HTTL k FIELDS 1 a",
    "HEXPIRE k 1000 FIELDS 1 a",
    "HSET k a 1",
    "HSETEX k EX 1000 FIELDS 1 b 1",
    "HINCRBY k a 1",
    "HDEL k a b",
    "SMEMBERS k",
    "SISMEMBER k a",
    "SRANDMEMBER k",
    "SRANDMEMBER k -3",
    "SINTER k k",
    "SUNIONSTORE to k",
    "SSCAN k 0",
    "SADD k a",
    "SREM k a",
    "SORT k ALPHA",
    "OBJECT ENCODING k",
    "MEMORY USAGE k",
    "TYPE k",
    "SCAN 0 TYPE hash",
    "COPY k copy REPLACE",
    "SPOP k",
    "SPOP k 3",
];

fn any_stored_bytes_are_answered() {
    let server = Running::start();
    let mut client = server.client();
    let values = server.db.key_space("db0").unwrap();
    let mut number = 11_u64;
    for round in 0..60 {
        let mut random = |below: u64| {
            number = number.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (number >> 33) % below
        };
        let mut stored = vec![[0xa4, 0xa2][round % 2], random(3) as u8];
        // Short lengths, so that some of them fit.
        stored.extend((0..random(40)).map(|_| random(6) as u8));
        for request in COMMANDS {
            values.put("k", &stored).unwrap();
            let reply = client.ask(request);
            assert!(reply != "closed", "{request}: {stored:x?}");
        }
        client.ask("DEL k");
        client.check(&[("PING", "+PONG"), ("EXISTS k", ":0")]);
    }
}
