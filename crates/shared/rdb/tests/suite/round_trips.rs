//! Values come back from payloads and files, in whichever form they were written.

use std::collections::{BTreeMap, BTreeSet};

use halite_rdb::{
    Consumer, Entry, Event, Group, HashField, Id, Key, Limits, Pending, Stream, Unwritable, Value,
    Version, Writer, dump, restore,
};
use proptest::collection::{btree_map, btree_set, vec};
use proptest::prelude::*;

use crate::common::{events, field, sorted, strings};

/// Texts of integers, short strings, and some that can be compressed.
fn string() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        (any::<i64>(), 0..64u32)
            .prop_map(|(number, shift)| (number >> shift).to_string().into_bytes()),
        vec(any::<u8>(), 0..70),
        (vec(any::<u8>(), 1..10), 1..200usize).prop_map(|(piece, times)| piece.repeat(times)),
    ]
}

fn id() -> impl Strategy<Value = Id> {
    (any::<u64>(), 0..64u32, any::<u64>(), 0..64u32)
        .prop_map(|(ms, ms_shift, sequence, shift)| Id::new(ms >> ms_shift, sequence >> shift))
}

fn expiry() -> impl Strategy<Value = Option<u64>> {
    proptest::option::of(1..=HashField::EXPIRES_MS_MAX)
}

fn hash() -> impl Strategy<Value = Value> {
    let with = |expires: bool| {
        btree_map(string(), (string(), expiry()), 1..600).prop_map(move |fields| {
            let field = |(name, (value, expires_ms)): (_, (_, Option<u64>))| HashField {
                name,
                value,
                expires_ms: expires_ms.filter(|_| expires),
            };
            Value::Hash(fields.into_iter().map(field).collect())
        })
    };
    prop_oneof![with(false), with(true)]
}

fn sorted_set() -> impl Strategy<Value = Value> {
    let score = prop_oneof![
        any::<f64>().prop_filter("NaN", |score| !score.is_nan()),
        (-100_000..100_000i32).prop_map(|score| f64::from(score) / 4.0),
        Just(f64::INFINITY),
        Just(f64::NEG_INFINITY),
    ];
    btree_map(string(), score, 1..200).prop_map(|members| {
        let mut members: Vec<_> = members.into_iter().collect();
        members.sort_by(|one, other| {
            one.1.partial_cmp(&other.1).unwrap().then_with(|| one.0.cmp(&other.0))
        });
        Value::SortedSet(members)
    })
}

fn group() -> impl Strategy<Value = Group> {
    let consumer = (any::<i64>(), proptest::option::of(0..i64::MAX));
    let pending = btree_map(id(), (any::<usize>(), any::<i64>(), any::<u64>()), 0..20);
    let read = proptest::option::of(0..i64::MAX as u64);
    let consumers = btree_map(string(), consumer, 0..5);
    (string(), id(), read, consumers, pending).prop_map(
        |(name, last_id, entries_read, consumers, pending)| {
            let count = consumers.len();
            let pending = pending.into_iter().filter(|_| count > 0);
            let pending = pending.map(|(id, (consumer, delivered_ms, deliveries))| Pending {
                id,
                consumer: consumer % count,
                delivered_ms,
                deliveries,
            });
            let consumers = consumers.into_iter().map(|(name, (seen_ms, active_ms))| Consumer {
                name,
                seen_ms,
                active_ms,
            });
            Group {
                name,
                last_id,
                entries_read,
                consumers: consumers.collect(),
                pending: pending.collect(),
            }
        },
    )
}

fn stream() -> impl Strategy<Value = Value> {
    let fields = prop_oneof![
        vec((string(), string()), 1..4),
        string().prop_map(|value| vec![(b"name".to_vec(), value)]),
    ];
    let entries = btree_map(id(), fields, 0..250);
    let groups = btree_map(string(), group(), 0..4);
    (entries, id(), id(), any::<u64>(), groups).prop_map(
        |(entries, last_id, max_deleted_id, entries_added, groups)| {
            let entries: Vec<_> =
                entries.into_iter().map(|(id, fields)| Entry { id, fields }).collect();
            let last_id = entries.last().map_or(last_id, |entry| entry.id.max(last_id));
            let groups = groups.into_iter().map(|(name, group)| Group { name, ..group });
            let groups = groups.collect();
            Value::Stream(Stream { entries, last_id, max_deleted_id, entries_added, groups })
        },
    )
}

fn value() -> impl Strategy<Value = Value> {
    let integers =
        btree_set((any::<i64>(), 0..64u32).prop_map(|(number, shift)| number >> shift), 1..600);
    let set = |members: BTreeSet<Vec<u8>>| Value::Set(members.into_iter().collect());
    prop_oneof![
        string().prop_map(Value::String),
        vec(string(), 1..300).prop_map(Value::List),
        btree_set(string(), 1..200).prop_map(set),
        integers.prop_map(move |numbers| {
            set(numbers.iter().map(|number| number.to_string().into_bytes()).collect())
        }),
        hash(),
        sorted_set(),
        stream(),
    ]
}

/// A value as its payload has it: not when the consumers of a stream last got an entry.
fn as_in_redis_7_0(mut value: Value) -> Value {
    if let Value::Stream(stream) = &mut value {
        for consumer in stream.groups.iter_mut().flat_map(|group| &mut group.consumers) {
            consumer.active_ms = Some(consumer.seen_ms).filter(|seen_ms| *seen_ms != -1);
        }
    }
    value
}

proptest! {
    #[test]
    fn a_value_comes_back_from_its_payload(value in value()) {
        let payload = dump(&value).unwrap();
        let read = restore(&payload, Limits::default()).unwrap();
        prop_assert_eq!(sorted(read), sorted(as_in_redis_7_0(value)));
    }

    #[test]
    fn keys_come_back_from_a_file(
        keys in btree_map(string(), (value(), proptest::option::of(any::<i64>())), 0..5),
        idle_seconds: Option<u64>,
        frequency: Option<u8>,
    ) {
        let mut writer = Writer::new(Vec::new(), Version::Redis74).unwrap();
        let keys: Vec<_> = keys.into_iter().map(|(name, (value, expires_ms))| {
            Key { name, value, expires_ms, idle_seconds, frequency }
        }).collect();
        for key in &keys {
            writer.key(key).unwrap();
        }
        let file = writer.finish().unwrap();
        let read = events(&file, Limits::default()).unwrap();
        prop_assert_eq!(read.len(), keys.len());
        for (event, key) in read.into_iter().zip(keys) {
            let Event::Key(read) = event else { panic!("{event:?}") };
            let read = Key { value: sorted(read.value), ..*read };
            prop_assert_eq!(read, Key { value: sorted(key.value), ..key });
        }
    }
}

#[test]
fn the_payload_of_a_value_is_of_the_oldest_version_that_has_it() {
    let numbered = |count: usize| -> Vec<Vec<u8>> {
        (0..count).map(|number| number.to_string().into_bytes()).collect()
    };
    let named = |count: usize| -> Vec<Vec<u8>> {
        (0..count).map(|number| format!("m{number}").into_bytes()).collect()
    };
    let long = vec![vec![b'x'; 65]];
    let hash = |names: Vec<Vec<u8>>, expires_ms| {
        let field = |name| HashField { name, value: vec![], expires_ms };
        Value::Hash(names.into_iter().map(field).collect())
    };
    let sorted_set = |members: Vec<Vec<u8>>| {
        Value::SortedSet(members.into_iter().map(|member| (member, 1.0)).collect())
    };
    for (value, code, version) in [
        (Value::String(vec![]), 0, 9),
        (Value::List(named(1)), 18, 10),
        (Value::Set(numbered(512)), 11, 9),
        (Value::Set(numbered(513)), 2, 9),
        (Value::Set(named(128)), 2, 9),
        (Value::Set(named(129)), 2, 9),
        (Value::Set(long.clone()), 2, 9),
        (hash(named(512), None), 16, 10),
        (hash(named(513), None), 4, 9),
        (hash(long.clone(), None), 4, 9),
        (hash(named(512), Some(7)), 25, 12),
        (hash(named(513), Some(7)), 24, 12),
        (sorted_set(named(128)), 17, 10),
        (sorted_set(named(129)), 5, 9),
        (sorted_set(long), 5, 9),
        (Value::Stream(Stream::default()), 19, 10),
    ] {
        let payload = dump(&value).unwrap();
        assert_eq!(payload[0], code, "{value:?}");
        assert_eq!(payload[payload.len() - 10..payload.len() - 8], [version, 0]);
    }
}

#[test]
fn a_file_has_the_forms_of_its_version() {
    for (version, set, stream) in
        [(Version::Redis70, 2, 19), (Version::Redis72, 20, 21), (Version::Redis74, 20, 21)]
    {
        for (value, code) in
            [(Value::Set(strings(&["a"])), set), (Value::Stream(Stream::default()), stream)]
        {
            let mut writer = Writer::new(Vec::new(), version).unwrap();
            writer.key(&Key::new(b"k".to_vec(), value)).unwrap();
            let file = writer.finish().unwrap();
            let head = format!("REDIS{:04}", version.number());
            assert!(file.starts_with(head.as_bytes()));
            assert_eq!(file[head.len()], code, "{version:?}");
        }
    }
}

#[test]
fn what_has_no_form_is_refused_and_the_writer_goes_on() {
    let pending = Pending { id: Id::default(), consumer: 0, delivered_ms: 0, deliveries: 1 };
    let group = Group { pending: vec![pending], ..Group::default() };
    let module = Value::Module { name: "ReJSON-RL".into(), version: 3 };
    for (value, why) in [
        (
            module,
            "a value of the module type ReJSON-RL has been passed over, and cannot be written",
        ),
        (Value::List(vec![]), "a list without elements is no value"),
        (Value::SortedSet(vec![(vec![], f64::NAN)]), "a score is not a number"),
        (
            Value::Stream(Stream { groups: vec![group], ..Stream::default() }),
            "a pending entry of a stream has no consumer",
        ),
    ] {
        assert_eq!(dump(&value).unwrap_err().to_string(), why);
    }
    let mut writer = Writer::new(Vec::new(), Version::Redis72).unwrap();
    let expiring = Key::new(b"a".to_vec(), Value::Hash(vec![field("name", "value", Some(7))]));
    let error = writer.key(&expiring).unwrap_err();
    let why = error.get_ref().and_then(|why| why.downcast_ref());
    assert_eq!(why, Some(&Unwritable::FieldsExpire));
    let key = Key::new(b"b".to_vec(), Value::List(strings(&["c"])));
    writer.key(&key).unwrap();
    let file = writer.finish().unwrap();
    assert_eq!(events(&file, Limits::default()).unwrap(), [Event::Key(Box::new(key))]);
}

#[test]
fn the_entries_of_a_long_stream_are_in_several_nodes() {
    let fields: BTreeMap<_, _> = [(b"n".to_vec(), vec![b'v'; 30])].into();
    let entries = (0..1000).map(|number| Entry {
        id: Id::new(7, number),
        fields: fields.clone().into_iter().collect(),
    });
    let stream =
        Stream { entries: entries.collect(), last_id: Id::new(7, 999), ..Stream::default() };
    let payload = dump(&Value::Stream(stream.clone())).unwrap();
    assert_eq!(payload[1], 10, "the number of nodes");
    assert_eq!(restore(&payload, Limits::default()).unwrap(), Value::Stream(stream));
}
