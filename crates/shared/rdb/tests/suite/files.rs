//! RDB files of real servers, which `tests/files/make.sh` filled.

use std::collections::BTreeMap;

use halite_rdb::{
    Consumer, Entry, Event, Group, Id, Key, Limits, Pending, Reader, Stream, Value, Version, Writer,
};

use crate::common::{events, field, file, sorted, strings};

fn numbered(name: &str, count: usize) -> Vec<Vec<u8>> {
    (1..=count).map(|number| format!("{name}:{number}").into_bytes()).collect()
}

fn entry(ms: u64, sequence: u64, fields: &[(&str, &str)]) -> Entry {
    let fields =
        fields.iter().map(|(name, value)| (name.as_bytes().to_vec(), value.as_bytes().to_vec()));
    Entry { id: Id::new(ms, sequence), fields: fields.collect() }
}

/// The values of database 0.
fn expected() -> BTreeMap<&'static str, Value> {
    let string = |text: &[u8]| Value::String(text.to_vec());
    let list = |elements: &[&str]| Value::List(strings(elements));
    let set = |members: &[&str]| sorted(Value::Set(strings(members)));
    let (x, long, text) = ("x".repeat(300), "long".repeat(5000), "text".repeat(50));
    let hash_large =
        (1..=200).map(|number| field(&format!("field:{number}"), &number.to_string(), None));
    let zset = |members: &[(&str, f64)]| {
        let members = members.iter().map(|(member, score)| (member.as_bytes().to_vec(), *score));
        Value::SortedSet(members.collect())
    };
    let zset_large =
        (1..=200).map(|number| (format!("member:{number}").into_bytes(), f64::from(number) + 0.25));
    BTreeMap::from([
        ("string:plain", string(b"hello")),
        ("string:empty", string(b"")),
        ("string:int8", string(b"-5")),
        ("string:int16", string(b"1000")),
        ("string:int32", string(b"-100000")),
        ("string:int64", string(b"12345678901")),
        ("string:like-int", string(b"007")),
        ("string:compressed", string("abc".repeat(100).as_bytes())),
        ("string:bytes", string(b"a\0\r\n\xff")),
        ("string:expires", string(b"soon")),
        (
            "list:small",
            list(&["a", "1", "-2", "3000", "70000", "-5000000", "5000000000000", "", &x]),
        ),
        ("list:large", Value::List(numbered("element", 1500))),
        ("list:long", list(&[&long, "short"])),
        ("set:int16", set(&["3", "1", "2", "-300"])),
        ("set:int32", set(&["3", "1", "70000"])),
        ("set:int64", set(&["3", "1", "-5000000000"])),
        ("set:small", set(&["a", "bb", "7", "ccc"])),
        ("set:large", sorted(Value::Set(numbered("member", 200)))),
        (
            "hash:small",
            sorted(Value::Hash(vec![
                field("name", "apple", None),
                field("count", "7", None),
                field("empty", "", None),
            ])),
        ),
        ("hash:long", Value::Hash(vec![field("text", &text, None)])),
        ("hash:large", sorted(Value::Hash(hash_large.collect()))),
        (
            "zset:small",
            zset(&[
                ("least", f64::NEG_INFINITY),
                ("minus", -3.0),
                ("tenth", 0.1),
                ("one", 1.0),
                ("two-and-a-half", 2.5),
                ("three", 3.0),
                ("huge", 1e20),
                ("most", f64::INFINITY),
            ]),
        ),
        ("zset:large", Value::SortedSet(zset_large.collect())),
        ("stream:small", Value::Stream(small_stream())),
        (
            "stream:empty",
            Value::Stream(Stream {
                last_id: Id::new(5, 5),
                max_deleted_id: Id::new(5, 5),
                entries_added: 1,
                ..Stream::default()
            }),
        ),
        (
            "stream:large",
            Value::Stream(Stream {
                entries: (1..=150).map(|n: u64| entry(n, 1, &[("n", &n.to_string())])).collect(),
                last_id: Id::new(150, 1),
                entries_added: 150,
                ..Stream::default()
            }),
        ),
    ])
}

fn small_stream() -> Stream {
    let base = 1_700_000_000_000;
    let consumer = |name: &str| Consumer { name: name.into(), seen_ms: 0, active_ms: None };
    let pending = |ms, consumer, delivered_ms, deliveries| Pending {
        id: Id::new(base + ms, 0),
        consumer,
        delivered_ms,
        deliveries,
    };
    Stream {
        entries: vec![
            entry(base, 0, &[("name", "apple"), ("count", "1")]),
            entry(base + 5, 0, &[("other", "field")]),
            entry(base + 5, 3, &[("name", "plum"), ("count", "300")]),
        ],
        last_id: Id::new(base + 5, 3),
        max_deleted_id: Id::new(base, 1),
        entries_added: 4,
        groups: vec![
            Group {
                name: b"idle".to_vec(),
                last_id: Id::new(base + 5, 3),
                entries_read: None,
                ..Group::default()
            },
            Group {
                name: b"readers".to_vec(),
                last_id: Id::new(base + 5, 0),
                entries_read: None,
                consumers: vec![consumer("alice"), consumer("bob")],
                pending: vec![
                    pending(0, 0, 1_700_000_002_000, 1),
                    pending(5, 1, 1_700_000_001_000, 3),
                ],
            },
        ],
    }
}

/// A value without what depends on the time at which the file was made, and on what the server counted.
fn timeless(value: Value, counts: bool) -> Value {
    let mut value = sorted(value);
    if let Value::Stream(stream) = &mut value {
        if !counts {
            stream.entries_added = 0;
            stream.max_deleted_id = Id::default();
        }
        for group in &mut stream.groups {
            group.entries_read = None;
            for consumer in &mut group.consumers {
                assert!(consumer.seen_ms > 1_700_000_000_000);
                assert!(consumer.active_ms.is_none_or(|active_ms| active_ms <= consumer.seen_ms));
                consumer.seen_ms = 0;
                consumer.active_ms = None;
            }
        }
    }
    value
}

fn check(name: &str, version: u16, functions: usize) {
    let file = file(name);
    assert_eq!(Reader::new(&file[..], Limits::default()).unwrap().version(), version);
    let events = events(&file, Limits::default()).unwrap();
    let (mut database, mut found) = (u32::MAX, BTreeMap::new());
    let (mut hints, mut notes, mut found_functions) = (Vec::new(), Vec::new(), 0);
    for event in events {
        match event {
            Event::SelectDb(number) => database = number,
            Event::ResizeDb { keys, expiring } => hints.push((database, keys, expiring)),
            Event::Aux { name, .. } => notes.push(String::from_utf8(name).unwrap()),
            Event::Function(code) => {
                assert!(code.starts_with(b"#!lua name=fruit\nredis.register_function('apple'"));
                found_functions += 1;
            }
            Event::Key(key) => {
                let name = String::from_utf8(key.name.clone()).unwrap();
                assert!(found.insert((database, name), *key).is_none());
            }
            other => panic!("{other:?}"),
        }
    }
    assert!(notes.iter().any(|note| note.ends_with("-ver")), "{notes:?}");
    assert_eq!(found_functions, functions);
    let counts = version > 9;
    let expected = expected();
    assert_eq!(hints, [(0, expected.len() as u64, 1), (3, 1, 1)]);
    for (name, value) in expected {
        let key = found.remove(&(0, name.to_owned())).unwrap_or_else(|| panic!("{name}"));
        assert_eq!(timeless(key.value, counts), timeless_expected(value, counts), "{name}");
        assert_eq!(key.expires_ms, (name == "string:expires").then_some(4_102_444_800_000));
    }
    let other = found.remove(&(3, "other".to_owned())).unwrap();
    assert_eq!(
        (other.value, other.expires_ms),
        (Value::String(b"database".to_vec()), Some(4_102_444_800_001))
    );
    assert!(found.is_empty(), "{found:?}");
}

/// Like [`timeless`], of a value that has no times.
fn timeless_expected(mut value: Value, counts: bool) -> Value {
    if let Value::Stream(stream) = &mut value
        && !counts
    {
        stream.entries_added = 0;
        stream.max_deleted_id = Id::default();
    }
    value
}

#[test]
fn a_file_of_redis_6_2_is_read() {
    check("dump-6.2.rdb", 9, 0);
}

#[test]
fn a_file_of_redis_7_0_is_read() {
    check("dump-7.0.rdb", 10, 1);
}

#[test]
fn a_file_in_the_version_of_redis_7_2_is_read() {
    check("dump-8.1.rdb", 11, 1);
}

#[test]
fn files_are_written_anew_with_all_that_they_have() {
    for name in ["dump-6.2.rdb", "dump-7.0.rdb", "dump-8.1.rdb", "idle-7.0.rdb"] {
        let read = events(&file(name), Limits::default()).unwrap();
        let mut writer = Writer::new(Vec::new(), Version::Redis72).unwrap();
        for event in &read {
            match event {
                Event::Aux { name, value } => writer.aux(name, value),
                Event::SelectDb(number) => writer.select_db(*number),
                Event::ResizeDb { keys, expiring } => writer.resize_db(*keys, *expiring),
                Event::Function(code) => writer.function(code),
                Event::Key(key) => writer.key(key),
                other => panic!("{other:?}"),
            }
            .unwrap();
        }
        let written = writer.finish().unwrap();
        let again = events(&written, Limits::default()).unwrap();
        assert_eq!(all_sorted(again), all_sorted(read), "{name}");
    }
}

fn all_sorted(events: Vec<Event>) -> Vec<Event> {
    let key = |event| match event {
        Event::Key(key) => Event::Key(Box::new(Key { value: sorted(key.value), ..*key })),
        other => other,
    };
    events.into_iter().map(key).collect()
}

#[test]
fn frequencies_and_idle_times_are_read_and_a_checksum_may_be_off() {
    let key = |name: &str| {
        let events = events(&file(name), Limits::default()).unwrap();
        let Some(Event::Key(key)) = events.last() else { panic!("{events:?}") };
        assert_eq!(key.value, Value::String("abc".repeat(20).into_bytes()));
        (key.frequency, key.idle_seconds)
    };
    assert_eq!(key("frequency-7.0.rdb"), (Some(5), None));
    assert_eq!(key("idle-7.0.rdb"), (None, Some(0)));
    let bytes = file("idle-7.0.rdb");
    assert!(bytes.ends_with(&[0; 8]), "the checksum is off");
}
