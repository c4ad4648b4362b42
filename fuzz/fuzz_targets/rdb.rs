//! Any bytes are a file of Redis, an append-only file, a manifest and the payload of a value, or refused: no panic, no
//! hang, no memory that the bytes do not pay for. A value that is read comes back from its own payload.
#![no_main]

use halite_rdb::aof::{LogReader, Manifest};
use halite_rdb::{Event, Limits, Reader, Value, crc64, dump, restore};
use libfuzzer_sys::fuzz_target;

fn limits() -> Limits {
    Limits::default().string_len_max(1 << 20).value_bytes_max(16 << 20)
}

/// Writes a value, and reads it again.
fn check(value: &Value) {
    match dump(value) {
        Ok(payload) => {
            let again = restore(&payload, Limits::default()).expect("it was just written");
            let payload_again = dump(&again).expect("it was written before");
            assert_eq!(payload_again, payload);
        }
        Err(_) => assert!(value.is_empty() || matches!(value, Value::Module { .. })),
    }
}

fuzz_target!(|data: (u8, &[u8])| {
    let (way, bytes) = data;
    match way % 4 {
        0 => {
            let Ok(mut reader) = Reader::new(bytes, limits()) else { return };
            while let Ok(Some(event)) = reader.next_event() {
                if let Event::Key(key) = event {
                    check(&key.value);
                }
            }
        }
        1 => {
            let mut reader = LogReader::new(bytes, limits());
            while let Ok(Some(_)) = reader.next_event() {}
            assert!(reader.good() <= bytes.len() as u64);
        }
        2 => drop(Manifest::parse(bytes)),
        _ => {
            let mut payload = [bytes, &[11, 0]].concat();
            let crc = crc64(0, &payload);
            payload.extend(crc.to_le_bytes());
            if let Ok(value) = restore(&payload, limits()) {
                check(&value);
            }
        }
    }
});
