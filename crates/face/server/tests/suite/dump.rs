//! DUMP, RESTORE and MIGRATE.

use std::io::Read;
use std::net::TcpListener;
use std::thread;
use std::time::Duration;

use halite_rdb::{Consumer, Entry, Group, HashField, Id, Pending, Stream, Value, crc64};
use halite_resp_client::{Limits, Reply, read_reply};
use proptest::prelude::*;
use proptest::test_runner::{Config as Cases, TestRunner};

use crate::common::{Client, Running, eventually};

on_threads! {
    values_of_all_types_come_back
    payloads_are_those_of_redis
    a_stream_comes_back_with_its_groups
    fields_that_expire_come_back
    restore_refuses_what_redis_refuses
    a_key_expires_as_restore_says
    the_use_of_a_key_is_what_restore_says
    large_collections_come_back
    payloads_that_are_mutated_restore_all_or_nothing
    keys_are_migrated
    keys_stay_that_the_target_does_not_take
    a_migration_keeps_nobody_waiting
    a_key_that_changes_meanwhile_stays
    a_script_that_migrates_is_killed
}

/// The payload of a key's value.
fn dump(client: &mut Client, key: &str) -> Vec<u8> {
    client.send_words(&["DUMP", key]);
    let limits = Limits { string_len_max: 1 << 30, ..Limits::default() };
    match read_reply(&mut client.socket, &limits).unwrap() {
        Reply::Bulk(payload) => payload,
        other => panic!("{other:?}"),
    }
}

fn restore(client: &mut Client, key: &str, payload: &[u8], options: &[&str]) -> String {
    let options = options.iter().map(|option| option.as_bytes());
    let words: Vec<_> = [&b"RESTORE"[..], key.as_bytes(), b"0", payload].into_iter().collect();
    client.call(&words.into_iter().chain(options).collect::<Vec<_>>())
}

fn numbers(count: usize, between: &str) -> String {
    (0..count).map(|number| format!("{between}{number}")).collect::<Vec<_>>().join(" ")
}

/// A request that makes a value, one that shows it, and its encoding.
fn values() -> Vec<(String, &'static str, &'static str)> {
    let long = "x".repeat(100);
    vec![
        ("SET K 12".to_owned(), "GET K", "int"),
        ("SET K some".to_owned(), "GET K", "embstr"),
        (format!("SET K {long}"), "GET K", "raw"),
        ("RPUSH K 1 b c".to_owned(), "LRANGE K 0 -1", "listpack"),
        (format!("RPUSH K {}", numbers(3000, "n")), "LRANGE K 0 -1", "quicklist"),
        (format!("SADD K {}", numbers(300, "")), "SMEMBERS K", "intset"),
        (format!("SADD K {}", numbers(100, "m")), "SMEMBERS K", "listpack"),
        (format!("SADD K {}", numbers(1000, "m")), "SMEMBERS K", "hashtable"),
        ("HSET K a 1 b 2".to_owned(), "HGETALL K", "listpack"),
        (format!("HSET K {}", numbers(2000, "f")), "HGETALL K", "hashtable"),
        (format!("HSET K {} 1", "f".repeat(2000)), "HGETALL K", "hashtable"),
        ("ZADD K 1 a 2.5 b -inf c inf d 0.1 e".to_owned(), "ZRANGE K 0 -1 WITHSCORES", "listpack"),
        (format!("ZADD K {}", numbers(2000, "")), "ZRANGE K 0 -1 WITHSCORES", "skiplist"),
        ("XADD K 1-1 a 1 b 2".to_owned(), "XRANGE K - +", "stream"),
    ]
}

fn values_of_all_types_come_back() {
    let server = Running::start();
    let mut client = server.client();
    for (made, shown, encoding) in values() {
        client.ask("DEL K L");
        let reply = client.ask(&made);
        assert!(!reply.starts_with('-'), "{reply}");
        let payload = dump(&mut client, "K");
        assert_eq!(restore(&mut client, "L", &payload, &[]), "+OK", "{made:.40}");
        assert_eq!(client.ask(&shown.replace('K', "L")), client.ask(shown), "{made:.40}");
        assert_eq!(client.ask("OBJECT ENCODING L"), format!("\"{encoding}\""), "{made:.40}");
        assert_eq!(dump(&mut client, "L"), payload, "{made:.40}");
        // In the place of a value of another type, small or large.
        for before in ["SET O 1".to_owned(), format!("SADD O {}", numbers(1000, "m"))] {
            client.ask("DEL O");
            client.ask(&before);
            assert_eq!(restore(&mut client, "O", &payload, &["REPLACE"]), "+OK");
            assert_eq!(client.ask(&shown.replace('K', "O")), client.ask(shown));
        }
    }
    client.check(&[("DUMP none", "nil")]);
}

/// The payloads that Redis 7.0.15 makes.
fn payloads_are_those_of_redis() {
    let server = Running::start();
    let mut client = server.client();
    for (made, payload) in [
        ("SET K 10", &b"\x00\xc0\x0a"[..]),
        ("SADD K 1 2", b"\x0b\x0c\x02\0\0\0\x02\0\0\0\x01\0\x02\0"),
        ("HSET K a 1", b"\x10\x0c\x0c\0\0\0\x02\0\x81a\x02\x01\x01\xff"),
        ("ZADD K 1 a", b"\x11\x0c\x0c\0\0\0\x02\0\x81a\x02\x01\x01\xff"),
        ("RPUSH K a", b"\x12\x01\x02\x0a\x0a\0\0\0\x01\0\x81a\x02\xff"),
    ] {
        client.ask("DEL K");
        client.ask(made);
        let dumped = dump(&mut client, "K");
        assert_eq!(&dumped[..dumped.len() - 10], payload, "{made}");
        let version = u16::from_le_bytes([dumped[dumped.len() - 10], dumped[dumped.len() - 9]]);
        assert!((9..=10).contains(&version), "{made}: {version}");
    }
}

fn a_stream_comes_back_with_its_groups() {
    let server = Running::start();
    let mut client = server.client();
    for request in [
        "XADD K 1-1 a 1",
        "XADD K 2-1 a 2 b 3",
        "XADD K 3-1 a 4",
        "XGROUP CREATE K g 0",
        "XGROUP CREATE K h 2",
        "XREADGROUP GROUP g c COUNT 2 STREAMS K >",
        "XREADGROUP GROUP g d STREAMS K >",
        "XACK K g 1-1",
        "XDEL K 2-1",
        "XGROUP CREATECONSUMER K h idle",
    ] {
        let reply = client.ask(request);
        assert!(!reply.starts_with('-'), "{request}: {reply}");
    }
    let payload = dump(&mut client, "K");
    assert_eq!(restore(&mut client, "L", &payload, &[]), "+OK");
    for shown in ["XRANGE K - +", "XINFO GROUPS K", "XPENDING K g", "XPENDING K h", "XLEN K"] {
        assert_eq!(client.ask(&shown.replace('K', "L")), client.ask(shown), "{shown}");
    }
    let full = client.ask("XINFO STREAM L");
    for part in [
        "\"last-generated-id\", \"3-1\"",
        "\"max-deleted-entry-id\", \"2-1\"",
        "\"entries-added\", :3",
    ] {
        assert!(full.contains(part), "{part}: {full}");
    }
    client.check(&[
        (
            "XADD L 3-0 a 1",
            "-ERR The ID specified in XADD is equal or smaller than the target stream top item",
        ),
        ("XREADGROUP GROUP h idle STREAMS L >", "[[\"L\", [[\"3-1\", [\"a\", \"4\"]]]]]"),
        ("XACK L g 2-1 3-1", ":2"),
        ("DEL K", ":1"),
        ("XGROUP CREATE K g $ MKSTREAM", "+OK"),
    ]);
    let empty = dump(&mut client, "K");
    assert_eq!(restore(&mut client, "L", &empty, &["REPLACE"]), "+OK");
    client.check(&[("XLEN L", ":0"), ("XGROUP DESTROY L g", ":1")]);
}

fn fields_that_expire_come_back() {
    let server = Running::start();
    let mut client = server.client();
    for count in [1, 1000] {
        client.ask("DEL K L");
        client.ask(&format!("HSET K {} stays 1", numbers(2 * count, "f")));
        client.ask("HPEXPIREAT K 4102444800000 FIELDS 1 f0");
        let payload = dump(&mut client, "K");
        assert_eq!(restore(&mut client, "L", &payload, &[]), "+OK");
        client.check(&[
            ("HPEXPIRETIME L FIELDS 2 f0 stays", "[:4102444800000, :-1]"),
            ("HGET L f0", "\"f1\""),
        ]);
        assert_eq!(client.ask("HLEN L"), client.ask("HLEN K"));
    }
    let expired =
        |name: &[u8]| HashField { name: name.to_vec(), value: b"1".to_vec(), expires_ms: Some(1) };
    let stays = HashField { expires_ms: None, ..expired(b"stays") };
    let some = halite_rdb::dump(&Value::Hash(vec![expired(b"a"), stays])).unwrap();
    assert_eq!(restore(&mut client, "L", &some, &["REPLACE"]), "+OK");
    client.check(&[("HGETALL L", "[\"stays\", \"1\"]"), ("HLEN L", ":1")]);
    let all = halite_rdb::dump(&Value::Hash(vec![expired(b"a")])).unwrap();
    assert_eq!(restore(&mut client, "L", &all, &["REPLACE"]), "+OK");
    client.check(&[("EXISTS L", ":0")]);
}

fn restore_refuses_what_redis_refuses() {
    let server = Running::start();
    let mut client = server.client();
    client.ask("SET k 1");
    let payload = dump(&mut client, "k");
    let mut damaged = payload.clone();
    damaged[0] ^= 1;
    let wrong = "-ERR DUMP payload version or checksum are wrong";
    let of = |content: &[u8], version: u16| {
        let mut payload = [content, &version.to_le_bytes()].concat();
        let crc = crc64(0, &payload);
        payload.extend(crc.to_le_bytes());
        payload
    };
    for (ttl, payload, options, expected) in [
        ("0", &payload, &[][..], "-BUSYKEY Target key name already exists."),
        ("0", &payload, &["BOGUS"], "-ERR syntax error"),
        ("0", &payload, &["IDLETIME"], "-ERR syntax error"),
        ("0", &payload, &["IDLETIME", "1", "FREQ", "1"], "-ERR syntax error"),
        ("0", &payload, &["IDLETIME", "-1"], "-ERR Invalid IDLETIME value, must be >= 0"),
        ("0", &payload, &["IDLETIME", "x"], "-ERR value is not an integer or out of range"),
        ("0", &payload, &["FREQ", "256"], "-ERR Invalid FREQ value, must be >= 0 and <= 255"),
        ("-1", &payload, &["REPLACE"], "-ERR Invalid TTL value, must be >= 0"),
        ("x", &payload, &["REPLACE"], "-ERR value is not an integer or out of range"),
        ("0", &damaged, &["REPLACE"], wrong),
        ("0", &Vec::new(), &["REPLACE"], wrong),
        ("0", &of(b"\x00\x01a", 13), &["REPLACE"], wrong),
        ("0", &of(b"\x02\x00", 9), &["REPLACE"], "-ERR Bad data format"),
        ("0", &of(b"\x08\x00", 9), &["REPLACE"], "-ERR Bad data format"),
        ("0", &of(b"\x02\x02\x01a\x01a", 9), &["REPLACE"], "-ERR Bad data format"),
        (
            "0",
            &of(b"\x04\x81\xff\xff\xff\xff\xff\xff\xff\xff", 9),
            &["REPLACE"],
            "-ERR Bad data format",
        ),
        ("0", &of(b"\x00\x80\xff\xff\xff\xff", 9), &["REPLACE"], "-ERR Bad data format"),
        ("0", &payload, &["REPLACE", "IDLETIME", "7"], "+OK"),
        ("0", &payload, &["REPLACE", "FREQ", "7"], "+OK"),
    ] {
        let mut words = vec![&b"RESTORE"[..], b"k", ttl.as_bytes(), payload];
        words.extend(options.iter().map(|option| option.as_bytes()));
        assert_eq!(client.call(&words), expected, "{ttl} {options:?}");
    }
    client.check(&[
        ("GET k", "\"1\""),
        ("RESTORE k 0", "-ERR wrong number of arguments for 'restore' command"),
        ("DUMP", "-ERR wrong number of arguments for 'dump' command"),
    ]);
}

fn the_use_of_a_key_is_what_restore_says() {
    let server = Running::start();
    let mut client = server.client();
    client.ask("SET k 1");
    let payload = dump(&mut client, "k");
    let mut restore = |option: &[&str]| {
        let words = [&b"RESTORE"[..], b"k", b"0", &payload, b"REPLACE"];
        let option = option.iter().map(|word| word.as_bytes());
        let words: Vec<_> = words.into_iter().chain(option).collect();
        assert_eq!(client.call(&words), "+OK");
        let what = if option_is_idle(&words) { "OBJECT IDLETIME k" } else { "OBJECT FREQ k" };
        client.integer(what)
    };
    let day = restore(&["IDLETIME", "86400"]);
    assert!((86_400..90_000).contains(&day), "{day}");
    assert!(restore(&["IDLETIME", "0"]) < 3600);
    server.client().check(&[("CONFIG SET maxmemory-policy allkeys-lfu lfu-decay-time 0", "+OK")]);
    assert_eq!(restore(&["FREQ", "100"]), 100);
    assert_eq!(restore(&["FREQ", "0"]), 0);
}

fn option_is_idle(words: &[&[u8]]) -> bool {
    words.contains(&&b"IDLETIME"[..])
}

fn a_key_expires_as_restore_says() {
    let server = Running::start();
    let mut client = server.client();
    client.ask("SET k 1 EX 1000");
    let payload = dump(&mut client, "k");
    let of = |ttl: &'static str| vec![&b"RESTORE"[..], b"l", ttl.as_bytes()];
    assert_eq!(client.call(&[of("100000"), vec![&payload]].concat()), "+OK");
    client.check(&[("TTL l", ":100")]);
    let absolute: [&[u8]; 3] = [&payload, b"ABSTTL", b"REPLACE"];
    assert_eq!(client.call(&[of("4102444800000"), absolute.to_vec()].concat()), "+OK");
    client.check(&[("PEXPIRETIME l", ":4102444800000")]);
    assert_eq!(client.call(&[of("0"), absolute.to_vec()].concat()), "+OK");
    client.check(&[("TTL l", ":-1")]);
    client.ask("CONFIG SET notify-keyspace-events EA");
    let mut subscriber = server.client();
    subscriber.ask("PSUBSCRIBE __key*");
    assert_eq!(client.call(&[of("5"), absolute.to_vec()].concat()), "+OK");
    assert!(subscriber.reply().contains("__keyevent@0__:del"));
    client.check(&[("EXISTS l", ":0")]);
    assert_eq!(client.call(&[of("5"), absolute.to_vec()].concat()), "+OK");
    assert_eq!(client.call(&[of("0"), absolute.to_vec()].concat()), "+OK");
    assert!(subscriber.reply().contains("__keyevent@0__:restore"));
}

fn large_collections_come_back() {
    const COUNT: usize = 50_000;
    let server = Running::start();
    let mut client = server.client();
    let strings = || (0..COUNT).map(|number| format!("element {number}").into_bytes());
    let field = |name: Vec<u8>| HashField { value: b"1".to_vec(), name, expires_ms: None };
    let entry =
        |(number, value)| Entry { id: Id::new(1, number), fields: vec![(b"a".to_vec(), value)] };
    let pending =
        |number| Pending { id: Id::new(1, number), consumer: 0, delivered_ms: 1, deliveries: 1 };
    let consumers = vec![Consumer { name: b"c".to_vec(), seen_ms: 1, active_ms: Some(1) }];
    let stream = Stream {
        entries: (1..).zip(strings()).map(entry).collect(),
        last_id: Id::new(2, 0),
        entries_added: COUNT as u64,
        groups: vec![Group {
            name: b"g".to_vec(),
            last_id: Id::new(1, COUNT as u64),
            consumers,
            pending: (1..=COUNT as u64).map(pending).collect(),
            ..Group::default()
        }],
        ..Stream::default()
    };
    for (value, len) in [
        (Value::List(strings().collect()), "LLEN K"),
        (Value::Set(strings().collect()), "SCARD K"),
        (Value::Hash(strings().map(field).collect()), "HLEN K"),
        (Value::SortedSet(strings().map(|member| (member, 1.0)).collect()), "ZCARD K"),
        (Value::Stream(stream), "XLEN K"),
    ] {
        let payload = halite_rdb::dump(&value).unwrap();
        assert_eq!(restore(&mut client, "K", &payload, &["REPLACE"]), "+OK");
        assert_eq!(client.integer(len), COUNT as i64);
        assert_eq!(dump(&mut client, "K").len(), payload.len());
    }
    assert!(client.ask("XPENDING K g").starts_with(&format!("[:{COUNT}, ")));
}

/// Payloads of all types, with some bytes that are others, under a checksum that is right.
fn payloads_that_are_mutated_restore_all_or_nothing() {
    let server = Running::start();
    let mut client = server.client();
    let mut payloads = Vec::new();
    for (made, ..) in values() {
        client.ask("DEL K");
        client.ask(&made);
        payloads.push(dump(&mut client, "K"));
    }
    for request in
        ["DEL K", "XADD K 1-1 a 1", "XGROUP CREATE K g 0", "XREADGROUP GROUP g c STREAMS K >"]
    {
        client.ask(request);
    }
    payloads.push(dump(&mut client, "K"));
    let changes = prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..4);
    let mut runner =
        TestRunner::new(Cases { cases: 300, failure_persistence: None, ..Cases::default() });
    let input =
        (any::<prop::sample::Index>(), changes, any::<prop::sample::Index>(), any::<bool>());
    let client = std::cell::RefCell::new(client);
    let done = runner.run(&input, |(which, changes, cut, cuts)| {
        let client = &mut *client.borrow_mut();
        let whole = which.get(&payloads);
        let mut payload = whole[..whole.len() - 8].to_vec();
        let content = payload.len() - 2;
        for (at, byte) in changes {
            payload[at.index(content)] = byte;
        }
        if cuts {
            let at = cut.index(content);
            payload.drain(at..content);
        }
        let crc = crc64(0, &payload);
        payload.extend(crc.to_le_bytes());
        client.check(&[("DEL K", ":1"), ("SET K before", "+OK")]);
        let reply = restore(client, "K", &payload, &["REPLACE"]);
        let is_whole = match reply.as_str() {
            "+OK" => {
                // All of it can be read again.
                let again = dump(client, "K");
                restore(client, "L", &again, &["REPLACE"]) == "+OK" && dump(client, "L") == again
            }
            "-ERR Bad data format" => client.ask("GET K") == "\"before\"",
            _ => false,
        };
        prop_assert!(is_whole, "{}", reply);
        Ok(())
    });
    done.unwrap();
}

/// The words of MIGRATE to a server.
fn migrate(to: &Running, rest: &str) -> String {
    format!("MIGRATE {} {} {rest}", to.addr.ip(), to.addr.port())
}

fn keys_are_migrated() {
    let (from, to) = (Running::start(), Running::start());
    let (mut client, mut target) = (from.client(), to.client());
    for (made, shown, _) in values() {
        client.ask("DEL K");
        client.ask(&made);
        let before = client.ask(shown);
        target.ask("DEL K");
        assert_eq!(client.ask(&migrate(&to, "K 0 5000")), "+OK", "{made:.40}");
        assert_eq!(target.ask(shown), before, "{made:.40}");
        client.check(&[("EXISTS K", ":0")]);
    }
    client.check(&[("MSET a 1 b 2 c 3", "+OK"), ("EXPIRE c 1000", ":1")]);
    client.check(&[
        (&migrate(&to, "none 0 5000"), "+NOKEY"),
        (&migrate(&to, "'' 0 5000 KEYS none"), "+NOKEY"),
        (&migrate(&to, "'' 3 5000 COPY REPLACE KEYS a none b c"), "+OK"),
        ("EXISTS a b c", ":3"),
        (&migrate(&to, "'' 3 5000 REPLACE KEYS a none b c"), "+OK"),
        ("EXISTS a b c", ":0"),
    ]);
    target.check(&[
        ("SELECT 3", "+OK"),
        ("MGET a b c", "[\"1\", \"2\", \"3\"]"),
        ("TTL c", ":1000"),
    ]);
    // Within a transaction, it happens at once.
    client.check(&[
        ("MULTI", "+OK"),
        ("SET a 4", "+QUEUED"),
        (&migrate(&to, "a 3 5000 REPLACE"), "+QUEUED"),
        ("EXISTS a", "+QUEUED"),
        ("EXEC", "[+OK, +OK, :0]"),
        (
            &migrate(&to, "k 0 5000 KEYS a"),
            "-ERR When using MIGRATE KEYS option, the key argument must be set to the empty string",
        ),
        (&migrate(&to, "k 0 5000 BOGUS"), "-ERR syntax error"),
        (&migrate(&to, "k 0 5000 AUTH"), "-ERR syntax error"),
        (&migrate(&to, "k x 5000"), "-ERR value is not an integer or out of range"),
        (&migrate(&to, "k 0 x"), "-ERR value is not an integer or out of range"),
    ]);
    target.check(&[("GET a", "\"4\"")]);
}

fn keys_stay_that_the_target_does_not_take() {
    let from = Running::start();
    let to = Running::start_with(|config| config.requirepass = Some("secret".to_owned()));
    let (mut client, mut target) = (from.client(), to.client());
    target.check(&[("AUTH secret", "+OK"), ("SET b 5", "+OK")]);
    client.check(&[
        ("MSET a 1 b 2", "+OK"),
        (
            &migrate(&to, "a 0 5000"),
            "-ERR Target instance replied with error: NOAUTH Authentication required.",
        ),
        (
            &migrate(&to, "'' 99 5000 AUTH secret KEYS a b"),
            "-ERR Target instance replied with error: ERR DB index is out of range",
        ),
        ("EXISTS a b", ":2"),
        (
            &migrate(&to, "'' 0 5000 AUTH2 default secret KEYS b a"),
            "-ERR Target instance replied with error: BUSYKEY Target key name already exists.",
        ),
        ("EXISTS a", ":0"),
        ("GET b", "\"2\""),
    ]);
    target.check(&[("MGET a b", "[\"1\", \"5\"]")]);
    // A port that nothing listens on.
    let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let request = format!("MIGRATE 127.0.0.1 {free} b 0 5000");
    client.check(&[
        (&request, "-IOERR error or timeout writing to target instance"),
        (
            "MIGRATE no.such.host.invalid 1 b 0 5000",
            "-IOERR error or timeout connecting to the client",
        ),
        ("GET b", "\"2\""),
    ]);
}

fn a_migration_keeps_nobody_waiting() {
    let from = Running::start();
    let (mut client, mut other) = (from.client(), from.client());
    // A target that never answers.
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = silent.local_addr().unwrap().port();
    client.check(&[("SET k 1", "+OK")]);
    client.send_line(&format!("MIGRATE 127.0.0.1 {port} k 0 500"));
    client.send_line("GET k");
    let (mut target, _) = silent.accept().unwrap();
    other.check(&[("GET k", "\"1\""), ("SET k 1", "+OK"), ("PING", "+PONG")]);
    assert_eq!(client.reply(), "-IOERR error or timeout reading to target instance");
    assert_eq!(client.reply(), "\"1\"", "requests behind it keep their order");
    // A client that goes away takes no key with it, and is not waited for.
    client.send_line(&format!("MIGRATE 127.0.0.1 {port} k 0 600000"));
    let (mut second, _) = silent.accept().unwrap();
    drop(client);
    second.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    second.read_to_end(&mut Vec::new()).unwrap();
    let mut word = [0; 1];
    target.read_exact(&mut word).unwrap();
    other.check(&[("GET k", "\"1\"")]);
}

fn a_script_that_migrates_is_killed() {
    let from = Running::start();
    let (mut client, mut other) = (from.client(), from.client());
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = silent.local_addr().unwrap().port().to_string();
    other.check(&[("CONFIG SET busy-reply-threshold 20", "+OK"), ("SET k 1", "+OK")]);
    let script = "return redis.call('MIGRATE', '127.0.0.1', ARGV[1], KEYS[1], 0, 600000)";
    client.send_words(&["EVAL", script, "1", "k", &port]);
    let (mut target, _) = silent.accept().unwrap();
    eventually("the server is busy", || other.ask("PING").starts_with("-BUSY"));
    other.check(&[("SCRIPT KILL", "+OK")]);
    let reply = client.reply();
    assert!(reply.starts_with("-ERR Script killed by user"), "{reply}");
    target.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    target.read_to_end(&mut Vec::new()).unwrap();
    // The script's limit of time holds, too.
    other.check(&[("CONFIG SET script-time-limit 100", "+OK"), ("GET k", "\"1\"")]);
    let reply = client.call(&["EVAL", script, "1", "k", &port]);
    assert!(reply.contains("script-time-limit"), "{reply}");
    other.check(&[("CONFIG SET script-time-limit 0", "+OK"), ("GET k", "\"1\"")]);
    // One that the target answers goes on.
    let to = Running::start();
    let port = to.addr.port().to_string();
    assert_eq!(client.call(&["EVAL", script, "1", "k", &port]), "+OK");
    to.client().check(&[("GET k", "\"1\"")]);
    other.check(&[("EXISTS k", ":0")]);
}

fn a_key_that_changes_meanwhile_stays() {
    let from = Running::start();
    let (mut client, mut other) = (from.client(), from.client());
    let slow = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = slow.local_addr().unwrap().port();
    client.check(&[("MSET k 1 l 2", "+OK")]);
    client.send_line(&format!("MIGRATE 127.0.0.1 {port} '' 0 60000 KEYS k l"));
    let (target, _) = slow.accept().unwrap();
    other.check(&[("SET k 3", "+OK")]);
    let answer = thread::spawn(move || {
        use std::io::Write;
        (&target).write_all(b"+OK\r\n+OK\r\n+OK\r\n").unwrap();
        let _ = (&target).read_to_end(&mut Vec::new());
    });
    let reply = client.reply();
    assert!(reply.starts_with("-ERR a key was changed while it was sent"), "{reply}");
    client.check(&[("GET k", "\"3\""), ("EXISTS l", ":0")]);
    answer.join().unwrap();
}
