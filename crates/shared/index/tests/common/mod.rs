//! Full keys in a table, which can be told to fail.
#![allow(dead_code, reason = "not every test needs all of it")]

use std::cell::{Cell, RefCell};
use std::collections::HashMap;

use halite_index::FullKeys;

/// Keys by number, in the low half of an entry; the high half is a version.
#[derive(Default)]
pub(crate) struct Table {
    keys: RefCell<Vec<Vec<u8>>>,
    numbers: RefCell<HashMap<Vec<u8>, u64>>,
    pub(crate) reads: Cell<u64>,
    /// How many reads will succeed before one fails.
    pub(crate) fails_after: Cell<Option<u64>>,
}

/// A key could not be read.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Unreadable;

impl Table {
    pub(crate) fn entry(&self, key: &[u8], version: u64) -> u64 {
        let (mut keys, mut numbers) = (self.keys.borrow_mut(), self.numbers.borrow_mut());
        let number = *numbers.entry(key.to_vec()).or_insert_with(|| {
            keys.push(key.to_vec());
            keys.len() as u64 - 1
        });
        version << 32 | number
    }
}

impl Table {
    /// Whether an entry has a key.
    pub(crate) fn knows(&self, entry: u64) -> bool {
        (entry as u32 as usize) < self.keys.borrow().len()
    }
}

impl FullKeys for Table {
    type Error = Unreadable;

    fn with_key<R>(&self, entry: u64, read: impl FnOnce(&[u8]) -> R) -> Result<R, Unreadable> {
        self.reads.set(self.reads.get() + 1);
        match self.fails_after.get() {
            Some(0) => return Err(Unreadable),
            Some(left) => self.fails_after.set(Some(left - 1)),
            None => {}
        }
        Ok(read(&self.keys.borrow()[entry as u32 as usize]))
    }
}

/// Returns an arbitrary key, a different one each time.
#[derive(Default)]
pub(crate) struct Liar {
    calls: Cell<u64>,
}

impl FullKeys for Liar {
    type Error = Unreadable;

    fn with_key<R>(&self, _: u64, read: impl FnOnce(&[u8]) -> R) -> Result<R, Unreadable> {
        self.calls.set(self.calls.get() + 1);
        let random = self.calls.get().wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes();
        let key = [&b"key"[..], &random].concat();
        Ok(read(&key[usize::from(random[0] % 4)..][..usize::from(random[1] % 9)]))
    }
}
