//! Forms that no server at hand writes, made by hand, and what is refused with its reason.

use halite_rdb::{Event, Limits, Value, crc64, restore};

use crate::common::{events, field, strings};

/// The value of bytes behind the code of a type.
fn read(content: &[u8]) -> Result<Value, String> {
    let mut payload = [content, &[11, 0]].concat();
    let crc = crc64(0, &payload);
    payload.extend(crc.to_le_bytes());
    restore(&payload, Limits::default()).map_err(|error| error.to_string())
}

fn hash_of(fields: &[(&str, &str, Option<u64>)]) -> Value {
    Value::Hash(fields.iter().map(|(name, value, at)| field(name, value, *at)).collect())
}

#[test]
fn values_of_strings_are_read() {
    let list = Value::List(strings(&["a", "-7", "b"]));
    assert_eq!(read(b"\x01\x03\x01a\xc0\xf9\x01b").unwrap(), list);
    assert_eq!(read(b"\x02\x02\x01a\x01b").unwrap(), Value::Set(strings(&["a", "b"])));
    let hash = hash_of(&[("a", "1", None), ("b", "2", None)]);
    assert_eq!(read(b"\x04\x02\x01a\x011\x01b\x012").unwrap(), hash);
    let scores = b"\x03\x04\x01a\x031.5\x01b\xff\x01c\xfe\x01d\x052.5e1";
    let members = [("b", f64::NEG_INFINITY), ("a", 1.5), ("d", 25.0), ("c", f64::INFINITY)];
    let members = members.map(|(member, score)| (member.as_bytes().to_vec(), score));
    assert_eq!(read(scores).unwrap(), Value::SortedSet(members.to_vec()));
}

#[test]
fn hashes_with_expiring_fields_are_read_in_all_forms() {
    let expected =
        hash_of(&[("a", "1", Some(1_000_000)), ("b", "2", None), ("c", "3", Some(1_000_007))]);
    let candidate = b"\x16\x03\x80\0\x0f\x42\x40\x01a\x011\0\x01b\x012\x80\0\x0f\x42\x47\x01c\x013";
    assert_eq!(read(candidate).unwrap(), expected);
    let release = b"\x18\x40\x42\x0f\0\0\0\0\0\x03\x01\x01a\x011\0\x01b\x012\x08\x01c\x013";
    assert_eq!(read(release).unwrap(), expected);
    let listpack =
        b"\x27\0\0\0\x09\0\x81a\x02\x01\x01\xf2\x40\x42\x0f\x04\x81b\x02\x02\x01\0\x01\x81c\x02\
        \x03\x01\xf2\x47\x42\x0f\x04\xff";
    let len = listpack.len() as u8;
    let mut listpack = listpack.to_vec();
    listpack[0] = len;
    let candidate = [&[23, len][..], &listpack].concat();
    assert_eq!(read(&candidate).unwrap(), expected);
    let release = [&[25][..], &1_000_000u64.to_le_bytes(), &[len], &listpack].concat();
    assert_eq!(read(&release).unwrap(), expected);
}

#[test]
fn a_zipmap_is_read() {
    let zipmap = b"\x09\x0d\x02\x01a\x01\x001\x01b\x01\x012.\xff";
    assert_eq!(read(zipmap).unwrap(), hash_of(&[("a", "1", None), ("b", "2", None)]));
}

#[test]
fn wrong_values_are_refused_with_place_and_reason() {
    let sorted_set_listpack = b"\x11\x0d\x0d\0\0\0\x02\0\x81a\x02\x81b\x02\xff";
    let odd_listpack = b"\x10\x0a\x0a\0\0\0\x01\0\x81a\x02\xff";
    let early_field = b"\x19\0\0\0\0\0\0\0\0\x0f\x0f\0\0\0\x03\0\x81a\x02\x01\x01\xdf\xff\x02\xff";
    let late_field = b"\x16\x01\x81\xff\xff\xff\xff\xff\xff\xff\xff\x01a\x011";
    for (content, why) in [
        (&b"\x02\x02\x01a\x01a"[..], "at byte 1, in a set: two of its elements are alike"),
        (b"\x04\x02\x01a\x011\x01a\x011", "at byte 1, in a hash: two of its elements are alike"),
        (
            b"\x05\x02\x01a\0\0\0\0\0\0\0\0\x01a\0\0\0\0\0\0\0\0",
            "at byte 1, in a sorted set: two of its elements are alike",
        ),
        (
            b"\x05\x01\x01a\xff\xff\xff\xff\xff\xff\xff\xff",
            "at byte 1, in a sorted set: a score is not a number",
        ),
        (b"\x03\x01\x01a\xfd", "at byte 1, in a sorted set: a score is not a number"),
        (b"\x03\x01\x01a\x01x", "at byte 4, in a score of a sorted set: it is no number"),
        (sorted_set_listpack, "at byte 1, in a sorted set as a listpack: a score is no number"),
        (odd_listpack, "at byte 1, in a hash as a listpack: its last element is not whole"),
        (
            early_field,
            "at byte 9, in a hash with expiring fields as a listpack: a field expires before 1970",
        ),
        (late_field, "at byte 1, in a hash: a field expires later than any can"),
        (b"\x12\x01\x03\x01a", "at byte 2, in a node of a list: it is of no kind that there is"),
        (b"\x01\x03\x01a", "at byte 4, in a list: it ends too early"),
        (b"\x01\xc0\x03", "at byte 1, in a list: it has a string in the place of a length"),
        (
            b"\x01\x81\xff\xff\xff\xff\xff\xff\xff\xff\x01a",
            "at byte 12, in a list: it ends too early",
        ),
        (
            b"\x06\x01",
            "at byte 0, in a value of a module of Redis 4.0: it has the form of a release candidate of Redis, which no release reads",
        ),
        (b"\x1a\x01", "at byte 0, in a type of a value: there is no type with the code 26"),
    ] {
        let error = read(content).unwrap_err();
        assert_eq!(error, format!("the payload is of no value: {why}"), "{content:?}");
    }
}

#[test]
fn wrong_streams_are_refused_with_place_and_reason() {
    // Node, entries, last id, and one group with one pending entry and one consumer.
    let id = |ms: u64, sequence: u64| [ms.to_be_bytes(), sequence.to_be_bytes()].concat();
    let listpack = |items: &[u8]| {
        let mut bytes = vec![7 + items.len() as u8 * 2, 0, 0, 0, items.len() as u8, 0];
        items.iter().for_each(|item| bytes.extend([*item, 1]));
        bytes.push(0xff);
        [&[bytes.len() as u8][..], &bytes].concat()
    };
    let good = [1, 0, 1, 7, 0, 2, 0, 0, 8, 4];
    let stream = |items: &[u8], entries: u8, last: u8, pending: u64, owned: u64| {
        let time = [0; 8];
        [
            &[15, 1, 16][..],
            &id(5, 0),
            &listpack(items),
            &[entries, last, 0, 1, 1, b'g', 5, 0, 1],
            &id(pending, 0),
            &time,
            &[1, 1, 1, b'c'],
            &time,
            &[1],
            &id(owned, 0),
        ]
        .concat()
    };
    assert!(read(&stream(&good, 1, 5, 5, 5)).is_ok());
    let with = |at: usize, item: u8| {
        let mut items = good;
        items[at] = item;
        read(&stream(&items, 1, 5, 5, 5)).unwrap_err()
    };
    for (error, why) in [
        (with(0, 2), "a node of a stream: its last entry is not whole"),
        (with(0, 0), "a node of a stream: it goes on behind its last entry"),
        (with(1, 1), "a node of a stream: its last entry is not whole"),
        (with(4, 1), "a node of a stream: its first entry has no end"),
        (with(5, 3), "a node of a stream: more of its entries are deleted than it says"),
        (with(9, 5), "a node of a stream: an entry does not have as many items as it says"),
        (
            read(&stream(&good, 2, 5, 5, 5)).unwrap_err(),
            "a stream: it says that it has 2 entries, and has 1",
        ),
        (
            read(&stream(&good, 1, 4, 5, 5)).unwrap_err(),
            "a stream: its last id is lower than that of an entry",
        ),
        (
            read(&stream(&good, 1, 5, 5, 6)).unwrap_err(),
            "a consumer of a stream: its pending entry is not one of the group's",
        ),
    ] {
        assert!(error.ends_with(&format!("in {why}")), "{error}");
    }
}

#[test]
fn parts_of_a_file_are_read() {
    let module = [0x81, 0x4b, 0x2c, 0x84, 0x4c, 0x3c, 0x49, 0xac, 3];
    let file = [
        &b"REDIS0009\xfa\x03ver\x012\xf4\x07\x02\x01\xf7"[..],
        &module,
        b"\x02\x01\x05\x01a\0\xfe\x02\xfb\x02\x01\xfd\x07\0\0\0\0\x01a\x01b\x07\x01m",
        &module,
        b"\x02\x07\0\xff\0\0\0\0\0\0\0\0",
    ]
    .concat();
    let read = events(&file, Limits::default()).unwrap();
    let Event::ModuleAux { name } = &read[2] else { panic!("{read:?}") };
    assert_eq!(read[0], Event::Aux { name: b"ver".to_vec(), value: b"2".to_vec() });
    assert_eq!(read[1], Event::SlotInfo { slot: 7, keys: 2, expiring: 1 });
    assert_eq!(read[3..5], [Event::SelectDb(2), Event::ResizeDb { keys: 2, expiring: 1 }]);
    let Event::Key(key) = &read[5] else { panic!("{read:?}") };
    assert_eq!((key.expires_ms, &key.value), (Some(7000), &Value::String(b"b".to_vec())));
    let Event::Key(key) = &read[6] else { panic!("{read:?}") };
    let Value::Module { name: of_value, .. } = &key.value else { panic!("{key:?}") };
    assert!(of_value == name && name.len() == 9);
}

#[test]
fn wrong_files_are_refused_with_place_and_reason() {
    for (file, why) in [
        (
            &b"REDIS"[..],
            "at byte 0, in the beginning of an RDB file: it does not begin with REDIS and a version",
        ),
        (
            b"VALKEY080\xff",
            "at byte 0, in the beginning of an RDB file: it does not begin with REDIS and a version",
        ),
        (
            b"REDIS0080\xff",
            "at byte 0, in the beginning of an RDB file: its version is 80; versions 1 to 12 are known",
        ),
        (b"REDIS0009", "at byte 9, in the code of a part of an RDB file: it ends too early"),
        (b"REDIS0009\xff\x01", "at byte 10, in the checksum of an RDB file: it ends too early"),
        (
            b"REDIS0009\xff\x01\0\0\0\0\0\0\0",
            "at byte 10, in the checksum of an RDB file: the checksum is 0000000000000001, but that of the bytes is \
             74ad0ffbbc7aac9a",
        ),
        (
            b"REDIS0009\xf6",
            "at byte 9, in a library of functions: it has the form of a release candidate of Redis, which no release reads",
        ),
        (
            b"REDIS0009\xfc\0\0\0\0\0\0\0\0\xff",
            "at byte 18, in a key: there is no key behind an expiry",
        ),
        (b"REDIS0009\xf0", "at byte 10, in the name of a key: it ends too early"),
        (
            b"REDIS0009\xf0\x01a",
            "at byte 9, in a type of a value of the key `a`: there is no type with the code 240",
        ),
        (b"REDIS0009\x01\x01\n\x01", "at byte 13, in a list of the key `\\n`: it ends too early"),
        (
            b"REDIS0009\xfe\x81\0\0\0\x01\0\0\0\0",
            "at byte 9, in the number of a database: it is too large",
        ),
    ] {
        let error = events(file, Limits::default()).unwrap_err().to_string();
        assert_eq!(error, why);
    }
}

#[test]
fn a_value_may_take_no_more_memory_than_the_limit() {
    let node = b"\x17\x17\0\0\0\x08\0\0\x01\0\x01\0\x01\0\x01\0\x01\0\x01\0\x01\0\x01\xff";
    let file = [&b"REDIS0009\x12\x01k\x7f"[..], &[2; 0]].concat();
    let mut file = file;
    file[12] = 0x3f;
    (0..63).for_each(|_| file.extend([&[2][..], node].concat()));
    file.extend(b"\xff\0\0\0\0\0\0\0\0");
    assert!(events(&file, Limits::default()).is_ok());
    let error = events(&file, Limits::default().value_bytes_max(10_000)).unwrap_err().to_string();
    assert!(
        error.contains("of the key `k`: it has 100") && error.ends_with("; the limit is 10000"),
        "{error}"
    );
}
