//! Inserts of several records at a time.

use std::ops::Range;
use std::time::Instant;

use crate::kv::records::Records;
use crate::kv::{Pair, Session};
use crate::{Error, Result};

/// The records of a batch, in memory that is used again and again.
pub(super) struct Batches {
    values: Records,
    pairs: Vec<Pair>,
}

impl Batches {
    pub(super) fn new(values: Records) -> Self {
        Self { values, pairs: Vec::new() }
    }

    /// Puts the records of these numbers together, durably. Returns when that began and ended.
    pub(super) fn put(
        &mut self,
        store: &str,
        session: &mut (dyn Session + '_),
        numbers: Range<u64>,
    ) -> Result<(Instant, Instant)> {
        self.make(numbers);
        let begin = Instant::now();
        let done = match &self.pairs[..] {
            [(key, value)] => session.put(key, value),
            several => session.put_all(several),
        };
        done.map_err(Error::of_store(store, "insert"))?;
        Ok((begin, Instant::now()))
    }

    fn make(&mut self, numbers: Range<u64>) {
        self.pairs.resize_with((numbers.end - numbers.start) as usize, Pair::default);
        for (number, pair) in numbers.zip(&mut self.pairs) {
            let (key, value) = self.values.pair(number, 0);
            pair.0.clear();
            pair.0.extend_from_slice(key);
            pair.1.clear();
            pair.1.extend_from_slice(value);
        }
    }

    /// Makes sure that about so many of the first `records` are there.
    pub(super) fn check(
        &mut self,
        store: &str,
        session: &mut (dyn Session + '_),
        records: u64,
        about: u64,
    ) -> Result<()> {
        for number in (0..records).step_by((records / about).max(1) as usize) {
            let values = &mut self.values;
            values.key(number);
            let mut found = None;
            let read = &mut |value: &[u8]| found = values.version(values.last_key(), value);
            session.get(values.last_key(), read).map_err(Error::of_store(store, "get"))?;
            if found != Some(0) {
                let why = format!("record {number} is missing");
                return Err(Error::WrongAnswer { store: store.to_owned(), why });
            }
        }
        Ok(())
    }
}
