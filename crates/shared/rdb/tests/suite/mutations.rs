//! No bytes make a reader panic, go on for ever, or take memory that they do not pay for.

use halite_rdb::aof::LogReader;
use halite_rdb::{Limits, Reader, Value, crc64, dump, restore};

use crate::common::{events, file};

/// Memory for one value; what is read of the small files here takes less.
fn limits() -> Limits {
    Limits::default().string_len_max(1 << 20).value_bytes_max(4 << 20)
}

/// Reads bytes as a file and as a log. Every part takes at least a byte.
fn read(bytes: &[u8]) {
    if let Ok(mut reader) = Reader::new(bytes, limits()) {
        for _ in 0..=bytes.len() {
            if !matches!(reader.next_event(), Ok(Some(_))) {
                break;
            }
        }
        assert!(matches!(reader.next_event(), Ok(None)));
    }
    let mut reader = LogReader::new(bytes, limits());
    for _ in 0..=bytes.len() {
        if !matches!(reader.next_event(), Ok(Some(_))) {
            break;
        }
    }
    assert!(matches!(reader.next_event(), Ok(None)));
}

/// A payload of a value's bytes with the right checksum.
fn payload(content: &[u8]) -> Vec<u8> {
    let mut payload = [content, &[12, 0]].concat();
    let crc = crc64(0, &payload);
    payload.extend(crc.to_le_bytes());
    payload
}

/// Changes some bytes.
fn mutate(random: &mut fastrand::Rng, bytes: &mut Vec<u8>) {
    for _ in 0..random.usize(1..4) {
        let Some(last) = bytes.len().checked_sub(1) else { return };
        let at = random.usize(..=last);
        match random.u8(..6) {
            0 => bytes[at] = random.u8(..),
            1 => bytes[at] ^= 1 << random.u8(..8),
            2 => bytes[at] = [0, 0x7f, 0x80, 0x81, 0xc3, 0xfe, 0xff][random.usize(..7)],
            3 => bytes.truncate(at),
            4 => {
                let piece = bytes[at..bytes.len().min(at + random.usize(1..9))].to_vec();
                let to = random.usize(..=last);
                bytes.splice(to..to, piece);
            }
            _ => drop(bytes.drain(at..bytes.len().min(at + random.usize(1..5)))),
        }
    }
}

#[test]
fn files_with_wrong_bytes_are_read_or_refused() {
    let mut random = fastrand::Rng::with_seed(7);
    for name in [
        "dump-6.2.rdb",
        "dump-7.0.rdb",
        "dump-8.1.rdb",
        "preamble-yes-6.2.aof",
        "append-only-7.0/some.aof.2.incr.aof",
    ] {
        let whole = file(name);
        for _ in 0..400 {
            let mut bytes = whole.clone();
            mutate(&mut random, &mut bytes);
            read(&bytes);
        }
    }
}

#[test]
fn values_with_wrong_bytes_are_restored_or_refused() {
    let mut random = fastrand::Rng::with_seed(8);
    for name in ["dump-6.2.rdb", "dump-7.0.rdb", "dump-8.1.rdb"] {
        for event in events(&file(name), Limits::default()).unwrap() {
            let halite_rdb::Event::Key(key) = event else { continue };
            let whole = dump(&key.value).unwrap();
            let whole = &whole[..whole.len() - 10];
            for _ in 0..300 {
                let mut content = whole.to_vec();
                mutate(&mut random, &mut content);
                restored(&content);
            }
        }
    }
}

#[test]
fn random_bytes_of_each_type_are_restored_or_refused() {
    let mut random = fastrand::Rng::with_seed(9);
    for code in 0..=30 {
        for _ in 0..500 {
            let len = random.usize(..60);
            let mut content = vec![code];
            content.extend((0..len).map(|_| match random.bool() {
                true => random.u8(..4),
                false => random.u8(..),
            }));
            restored(&content);
        }
    }
}

/// A value that is restored is written, and comes back again.
fn restored(content: &[u8]) {
    if let Ok(value) = restore(&payload(content), limits()) {
        let is_bounded = match &value {
            Value::String(string) => string.len() <= 1 << 20,
            _ => true,
        };
        assert!(is_bounded);
        let again = restore(&dump(&value).unwrap(), Limits::default()).unwrap();
        assert_eq!(again.type_name(), value.type_name());
    }
}

#[test]
fn a_file_may_end_anywhere() {
    for name in ["dump-7.0.rdb", "append-only-7.0/some.aof.2.incr.aof"] {
        let whole = file(name);
        for len in (0..whole.len()).step_by(7) {
            read(&whole[..len]);
        }
    }
}
