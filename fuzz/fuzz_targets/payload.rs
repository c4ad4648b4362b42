//! Any bytes are the payload of a value that the server stores, as RESTORE does, or refused with the key as it was. What was
//! stored is dumped as a payload that restores the same value.
#![no_main]

use std::cell::RefCell;

use halite_rdb::{Limits, crc64, dump, restore};
use halite_server::{Error, Keys};
use libfuzzer_sys::fuzz_target;

thread_local! {
    static KEYS: RefCell<Keys> = RefCell::new(keys());
}

fn keys() -> Keys {
    let db = halite::Database::builder().max_size(64 << 20).in_memory().expect("a database");
    Keys::open(&db, 1).expect("the keys of a new database")
}

fuzz_target!(|content: &[u8]| {
    let mut payload = [content, &[11, 0]].concat();
    let crc = crc64(0, &payload);
    payload.extend(crc.to_le_bytes());
    let limits = Limits::default().string_len_max(1 << 16).value_bytes_max(1 << 20);
    let Ok(value) = restore(&payload, limits) else { return };
    KEYS.with_borrow_mut(|keys| match keys.put(0, b"k", value, None) {
        Ok(()) => {
            let found = keys.value(0, b"k").expect("it was just put").expect("it is there");
            let first = dump(&found).expect("it can be dumped");
            let again = restore(&first, Limits::default()).expect("it was just dumped");
            keys.put(0, b"l", again, None).expect("it was put before");
            let copy = keys.value(0, b"l").expect("it was just put").expect("it is there");
            assert_eq!(dump(&copy).expect("it can be dumped"), first);
        }
        Err(Error::Value { .. }) => {}
        // Dropped collections take room until a server reclaims it.
        Err(_) => *keys = self::keys(),
    });
});
