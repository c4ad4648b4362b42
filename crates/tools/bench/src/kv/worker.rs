//! One thread's operations: the next one, its execution, and the check of its answer.

use std::collections::HashMap;

use fastrand::Rng;

use super::distribution::Chooser;
use super::inserted::Inserted;
use super::records::{Records, VERSIONS};
use super::store::Session;
use super::workload::{Kind, Mix, ScanLength};
use crate::{Error, Result};

/// The source of a thread's operations.
#[derive(Debug, Clone)]
pub(crate) enum Source {
    /// Each of the records once: the thread's share of them, in order of their numbers.
    Load,
    /// A new version of each of the records once: the thread's share, in another order.
    Overwrite,
    /// Kinds and records by chance.
    Mix { mix: Mix, chooser: Chooser, scans: ScanLength },
}

/// The next operation of a thread.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Operation {
    pub(crate) kind: Kind,
    number: u64,
    version: u64,
    pairs: u64,
}

/// One thread at work.
pub(crate) struct Worker<'a> {
    pub(crate) thread: usize,
    pub(crate) threads: usize,
    pub(crate) store: &'a str,
    pub(crate) session: Box<dyn Session + 'a>,
    pub(crate) records: Records,
    pub(crate) random: Rng,
    pub(crate) source: Source,
    pub(crate) inserted: &'a Inserted,
    /// Operations made so far.
    pub(crate) count: u64,
    /// Pairs that scans read.
    pub(crate) pairs: u64,
    /// Records loaded before this.
    pub(crate) loaded: u64,
    /// The thread's last writes: record and version, `None` for a delete.
    last_writes: Vec<(u64, Option<u64>)>,
    writes: u64,
}

/// How many of a thread's last writes are checked in the end.
const CHECKED_WRITES: usize = 1024;

impl<'a> Worker<'a> {
    pub(crate) fn new(
        (thread, threads): (usize, usize),
        (store, session): (&'a str, Box<dyn Session + 'a>),
        records: Records,
        random: Rng,
        source: Source,
        (inserted, loaded): (&'a Inserted, u64),
    ) -> Self {
        Self {
            thread,
            threads,
            store,
            session,
            records,
            random,
            source,
            inserted,
            count: 0,
            pairs: 0,
            loaded,
            last_writes: Vec::new(),
            writes: 0,
        }
    }

    /// The next operation; `None` after the last.
    #[inline]
    pub(crate) fn next(&mut self) -> Option<Operation> {
        let at = self.thread as u64 + self.count * self.threads as u64;
        // Updates of one thread differ in version from those of others, and their versions from that of a load.
        let version = 1 + at % (VERSIONS - 1);
        let mut operation = match &mut self.source {
            Source::Load | Source::Overwrite if at >= self.loaded => return None,
            Source::Load => Operation { kind: Kind::Insert, number: at, version: 0, pairs: 0 },
            Source::Overwrite => {
                let number = shuffled(at, self.loaded);
                Operation { kind: Kind::Update, number, version, pairs: 0 }
            }
            Source::Mix { mix, chooser, scans } => {
                let kind = mix.choose(&mut self.random);
                let number = match kind {
                    Kind::Insert => 0,
                    _ => chooser.next(&mut self.random, self.inserted.known()),
                };
                let pairs = if kind == Kind::Scan { scans.next(&mut self.random) } else { 0 };
                Operation { kind, number, version, pairs }
            }
        };
        if operation.kind == Kind::Insert && matches!(self.source, Source::Mix { .. }) {
            operation.number = self.inserted.begin(self.thread);
            operation.version = 0;
        }
        self.count += 1;
        Some(operation)
    }

    /// Executes it, and compares the store's answer with the values that were written.
    #[inline]
    pub(crate) fn execute(&mut self, operation: &Operation) -> Result<()> {
        match operation.kind {
            Kind::Read => self.read(operation.number),
            Kind::Update => self.put(operation),
            Kind::ReadModifyWrite => {
                self.read(operation.number)?;
                self.put(operation)
            }
            Kind::Insert => {
                self.put(operation)?;
                self.inserted.end(self.thread);
                Ok(())
            }
            Kind::Delete => {
                let key = self.records.key(operation.number);
                self.session.delete(key).map_err(Error::of_store(self.store, "delete"))?;
                self.note(operation.number, None);
                Ok(())
            }
            Kind::Scan => self.scan(operation.number, operation.pairs),
        }
    }

    fn put(&mut self, operation: &Operation) -> Result<()> {
        let (key, value) = self.records.pair(operation.number, operation.version);
        if let Err(source) = self.session.put(key, value) {
            return Err(Error::of_store(self.store, "put")(source));
        }
        if !matches!(self.source, Source::Load) {
            self.note(operation.number, Some(operation.version));
        }
        Ok(())
    }

    #[inline]
    fn note(&mut self, number: u64, version: Option<u64>) {
        if self.last_writes.len() < CHECKED_WRITES {
            self.last_writes.push((number, version));
        } else {
            self.last_writes[self.writes as usize % CHECKED_WRITES] = (number, version);
        }
        self.writes += 1;
    }

    fn read(&mut self, number: u64) -> Result<()> {
        match self.version(number)? {
            Some(_) => Ok(()),
            None if self.may_miss() => Ok(()),
            None => Err(self.wrong(format!("record {number} is missing"))),
        }
    }

    /// Whether records may have been deleted.
    fn may_miss(&self) -> bool {
        matches!(&self.source, Source::Mix { mix, .. } if mix.has(Kind::Delete))
    }

    /// The version of a record that the store has.
    pub(crate) fn version(&mut self, number: u64) -> Result<Option<u64>> {
        self.records.key(number);
        let (records, mut found) = (&self.records, None);
        let read = &mut |value: &[u8]| found = Some(records.version(records.last_key(), value));
        if let Err(source) = self.session.get(records.last_key(), read) {
            return Err(Error::of_store(self.store, "get")(source));
        }
        match found {
            None => Ok(None),
            Some(Some(version)) => Ok(Some(version)),
            Some(None) => Err(self.wrong(format!("record {number} has the value of no put"))),
        }
    }

    fn scan(&mut self, number: u64, limit: u64) -> Result<()> {
        self.records.key(number);
        let records = &self.records;
        let first = records.last_key();
        let mut last = Vec::with_capacity(first.len());
        let (mut found, mut ordered, mut proved) = (0, true, true);
        let read = &mut |key: &[u8], value: &[u8]| {
            ordered &= if found == 0 { key >= first } else { *key > last[..] };
            proved &= records.version(key, value).is_some();
            if found == 0 {
                proved &= key == first;
            }
            last.clear();
            last.extend_from_slice(key);
            found += 1;
        };
        if let Err(source) = self.session.scan(first, limit, read) {
            return Err(Error::of_store(self.store, "scan")(source));
        }
        let missing = found == 0 || !proved;
        let mut why = (!ordered || found > limit || missing && !self.may_miss())
            .then_some("has wrong pairs, or has them out of order");
        if found < limit && why.is_none() && !self.may_grow() {
            // The scan reached the end of the records: no record lies behind the last one.
            last.push(0);
            let read = &mut |_: &[u8], _: &[u8]| why = Some("ended before its time");
            if let Err(source) = self.session.scan(&last, 1, read) {
                return Err(Error::of_store(self.store, "scan")(source));
            }
        }
        if let Some(why) = why {
            return Err(self.wrong(format!("a scan from record {number} {why}")));
        }
        self.pairs += found;
        Ok(())
    }

    /// Whether other threads may insert records behind the last one.
    fn may_grow(&self) -> bool {
        matches!(&self.source, Source::Mix { mix, .. } if mix.has(Kind::Insert)) && self.threads > 1
    }

    /// Checks, when no other thread writes any more, that the last writes are there. Of records that others may have
    /// overwritten since, it only checks that they are no older than the load.
    pub(crate) fn check_writes(&mut self, alone: bool) -> Result<()> {
        let full = self.last_writes.len() == CHECKED_WRITES;
        let oldest = if full { self.writes as usize % CHECKED_WRITES } else { 0 };
        let (newer, older) = self.last_writes.split_at(oldest);
        let latest: HashMap<_, _> = older.iter().chain(newer).copied().collect();
        for (number, version) in latest {
            let found = self.version(number)?;
            let right = match (alone, version, found) {
                (true, written, found) => written == found,
                (false, Some(0), Some(_)) | (false, None, _) => true,
                (false, Some(_), Some(found)) => found > 0 || number >= self.loaded,
                (false, Some(_), None) => self.may_miss(),
            };
            if !right {
                let why = format!("record {number} is not as it was last put");
                return Err(self.wrong(why));
            }
        }
        Ok(())
    }

    pub(crate) fn wrong(&self, why: String) -> Error {
        Error::WrongAnswer { store: self.store.to_owned(), why }
    }
}

/// An order of the numbers below `count` that is unrelated to theirs: multiples of a prime that does not divide `count`
/// reach each number once.
fn shuffled(at: u64, count: u64) -> u64 {
    let primes = [1_000_000_007_u64, 998_244_353];
    let prime = primes.into_iter().find(|prime| !count.is_multiple_of(*prime)).unwrap_or(1);
    (u128::from(at) * u128::from(prime) % u128::from(count)) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_other_order_meets_each_record_once() {
        for count in [1, 2, 999, 1000] {
            let mut met: Vec<_> = (0..count).map(|at| shuffled(at, count)).collect();
            met.sort_unstable();
            assert!(met.into_iter().eq(0..count));
        }
    }
}
