//! The volatile index (Yan §3.1): the radix tree of memtables and of the global index, and the tree of partial
//! keys of the engine `indexlog` behind a lock, as it has one writer or many readers.
//!
//! Records lie in one array, and an index leads to them; a lookup compares the key of the record that it found. Peers
//! are indexes of other projects: a program with peers implements [`Index`] for them, and [`contender`] measures them
//! like Halite's own.

use std::hint::black_box;
use std::ops::Bound;
use std::sync::{Arc, Barrier, OnceLock, PoisonError, RwLock};
use std::time::Instant;

use halite_index::{Direction, FullKeys, PartialKeyTree, PartialLen, RadixTree, Records};
use serde_json::{Value, json};

use crate::mix::mix;
use crate::{Contender, Error, Params, Result, Run, RunOptions, Sample};

/// The experiment.
pub const NAME: &str = "lsm.index";

const COUNT: u64 = 2_000_000;
const COUNT_QUICK: u64 = 5_000;

const THREADS: [u64; 2] = [1, 2];

/// Entries of a scan, and for how many keys there is one.
const SCAN: u64 = 100;
const SCANNED: u64 = 50;

/// Bytes of a record: a version, a key, and a placeholder for a value.
const RECORD_LEN: usize = 64;
const VERSION_LEN: usize = 8;

/// A kind of keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Keys {
    /// 8 random bytes.
    Numbers,
    /// `user` and 20 random digits.
    Users,
}

impl Keys {
    const ALL: [Self; 2] = [Self::Numbers, Self::Users];

    fn name(self) -> &'static str {
        match self {
            Self::Numbers => "8 random bytes",
            Self::Users => "user and 20 random digits",
        }
    }

    /// Returns the keys of a comparison of [`NAME`].
    #[must_use]
    pub fn of(params: &Params) -> Option<Self> {
        let name = params.get("keys").and_then(Value::as_str)?;
        Self::ALL.into_iter().find(|keys| keys.name() == name)
    }

    fn len(self) -> usize {
        match self {
            Self::Numbers => 8,
            Self::Users => 24,
        }
    }

    /// The key of a number, as a request brings it: not from where the record lies.
    fn make(self, number: u64) -> [u8; 24] {
        let mut mixed = mix(number + 1);
        let mut key = *b"user00000000000000000000";
        match self {
            Self::Numbers => key[..8].copy_from_slice(&mixed.to_be_bytes()),
            Self::Users => {
                for digit in key[4..].iter_mut().rev() {
                    *digit += (mixed % 10) as u8;
                    mixed /= 10;
                }
            }
        }
        key
    }
}

/// The records, in the order of their numbers.
pub struct Table {
    keys: Keys,
    bytes: Vec<u8>,
    count: u64,
}

impl Table {
    fn new(keys: Keys, count: u64) -> Self {
        let mut bytes = vec![1; RECORD_LEN * count as usize];
        for (number, record) in (0..).zip(bytes.chunks_exact_mut(RECORD_LEN)) {
            record[..VERSION_LEN].copy_from_slice(&1_u64.to_le_bytes());
            record[VERSION_LEN..][..keys.len()].copy_from_slice(&keys.make(number)[..keys.len()]);
        }
        Self { keys, bytes, count }
    }

    fn record(&self, entry: u64) -> &[u8] {
        &self.bytes[RECORD_LEN * (entry / 8 - 1) as usize..][..RECORD_LEN]
    }

    /// The entry of a number's record.
    fn entry(number: u64) -> u64 {
        8 * (number + 1)
    }
}

impl Records for Table {
    fn key(&self, entry: u64) -> &[u8] {
        &self.record(entry)[VERSION_LEN..][..self.keys.len()]
    }

    fn version(&self, entry: u64) -> u64 {
        let bytes = self.record(entry).first_chunk().copied();
        bytes.map(u64::from_le_bytes).unwrap_or_default()
    }
}

impl FullKeys for Table {
    type Error = std::convert::Infallible;

    fn with_key<R>(
        &self,
        entry: u64,
        read: impl FnOnce(&[u8]) -> R,
    ) -> std::result::Result<R, Self::Error> {
        Ok(read(Records::key(self, entry)))
    }
}

/// The operations of an index.
pub trait Index: Sync {
    /// Adds a key's entry.
    fn insert(&self, key: &[u8], entry: u64, records: &Table);

    /// The entry of a key, whose record was read and has that key.
    fn find(&self, key: &[u8], records: &Table) -> Option<u64>;

    /// Calls `read` with up to `limit` entries of the keys from `start` on, ascending.
    fn scan(&self, start: &[u8], limit: u64, records: &Table, read: &mut dyn FnMut(u64));

    /// Bytes on the heap, if that is known.
    fn memory_len(&self) -> Option<u64> {
        None
    }
}

impl Index for RadixTree {
    fn insert(&self, key: &[u8], entry: u64, records: &Table) {
        self.insert(records, key, entry);
    }

    fn find(&self, key: &[u8], records: &Table) -> Option<u64> {
        self.get(records, key, u64::MAX - 1)
    }

    fn scan(&self, start: &[u8], limit: u64, records: &Table, read: &mut dyn FnMut(u64)) {
        let from = Bound::Included(start);
        let mut cursor = self.cursor(from, Bound::Unbounded, Direction::Ascending, u64::MAX);
        std::iter::from_fn(|| cursor.next(self, records)).take(limit as usize).for_each(read);
    }

    fn memory_len(&self) -> Option<u64> {
        Some(self.memory_len())
    }
}

/// The tree of partial keys.
struct Locked(RwLock<PartialKeyTree>);

impl Index for Locked {
    fn insert(&self, key: &[u8], entry: u64, records: &Table) {
        let mut tree = self.0.write().unwrap_or_else(PoisonError::into_inner);
        let Ok(_) = tree.insert(key, entry, records);
    }

    fn find(&self, key: &[u8], records: &Table) -> Option<u64> {
        let tree = self.0.read().unwrap_or_else(PoisonError::into_inner);
        let Ok(found) = tree.get_candidate(key, records);
        found.filter(|&entry| Records::key(records, entry) == key)
    }

    fn scan(&self, start: &[u8], limit: u64, records: &Table, read: &mut dyn FnMut(u64)) {
        let tree = self.0.read().unwrap_or_else(PoisonError::into_inner);
        let Ok(cursor) = tree.range(start, None, records);
        cursor.take(limit as usize).for_each(read);
    }

    fn memory_len(&self) -> Option<u64> {
        Some(self.0.read().unwrap_or_else(PoisonError::into_inner).heap_len() as u64)
    }
}

/// How many measurements [`run`] makes, of ours.
#[must_use]
pub fn plan(options: &RunOptions) -> u64 {
    (Keys::ALL.len() * THREADS.len() * 2) as u64 * u64::from(options.repeats)
}

/// Experiment `lsm.index`.
///
/// # Errors
/// [`Error::WrongAnswer`], [`Error::Interrupted`].
pub fn run(run: &mut Run<'_>) -> Result<()> {
    let count = if run.options.quick { COUNT_QUICK } else { COUNT };
    for keys in Keys::ALL {
        for threads in THREADS {
            let mut params = Params::new();
            params.insert("keys".to_owned(), json!(keys.name()));
            params.insert("records".to_owned(), json!(count));
            params.insert("threads".to_owned(), json!(threads));
            let mut contenders = [
                contender("radix", &params, || Box::new(RadixTree::new())),
                contender("partial-keys", &params, || {
                    Box::new(Locked(RwLock::new(PartialKeyTree::new(PartialLen::Eight))))
                }),
            ];
            run.compare(NAME, &params, &mut contenders)?;
        }
    }
    Ok(())
}

/// An index that takes part in a comparison of [`NAME`] with these parameters; `make` makes an empty one.
///
/// # Panics
/// If the parameters are not those of [`NAME`].
pub fn contender<'a>(
    name: &'static str,
    params: &Params,
    make: impl Fn() -> Box<dyn Index> + 'a,
) -> Contender<'a> {
    let number = |name: &str| params.get(name).and_then(Value::as_u64);
    let (count, threads) = number("records").zip(number("threads")).expect("they say how many");
    let keys = Keys::of(params).expect("they say which keys");
    let table: Arc<OnceLock<Table>> = Arc::default();
    Contender::new(name, move || {
        let table = table.get_or_init(|| Table::new(keys, count));
        measured(name, &*make(), table, threads)
    })
}

fn measured(name: &str, index: &dyn Index, table: &Table, threads: u64) -> Result<Vec<Sample>> {
    let (keys, count) = (table.keys, table.count);
    let wrong = |why: String| Error::WrongAnswer { store: name.to_owned(), why };
    let found = |at: u64, expected: Option<u64>| {
        let found = index.find(&keys.make(at)[..keys.len()], table);
        if found == expected {
            return Ok(());
        }
        Err(wrong(format!("key {at} leads to {found:?}, not {expected:?}")))
    };
    let inserts = rate(count, threads, |number| {
        index.insert(&keys.make(number)[..keys.len()], Table::entry(number), table);
        Ok(())
    })?;
    let lookups = rate(count, threads, |at| {
        let number = mix(at) % count;
        found(number, Some(Table::entry(number)))
    })?;
    let misses = rate(count, threads, |at| found(count + mix(at) % count, None))?;
    let scans = rate((count / SCANNED).max(1), threads, |at| {
        let number = mix(at) % count;
        let (mut first, mut read) = (None, 0);
        index.scan(&keys.make(number)[..keys.len()], SCAN, table, &mut |entry| {
            first.get_or_insert(entry);
            read += 1;
            black_box(entry);
        });
        if first == Some(Table::entry(number)) && read <= SCAN {
            return Ok(());
        }
        Err(wrong(format!("a scan from key {number} begins with {first:?}")))
    })?;
    let mut samples = vec![
        Sample::new("insert-throughput", "op/s", inserts),
        Sample::new("lookup-throughput", "op/s", lookups),
        Sample::new("miss-throughput", "op/s", misses),
        Sample::new("scan-throughput", "scan/s", scans),
    ];
    let bytes = index.memory_len();
    samples.extend(bytes.map(|len| Sample::new("memory", "B/record", len as f64 / count as f64)));
    Ok(samples)
}

/// Operations a second of `count`, of which each thread has its share.
fn rate(count: u64, threads: u64, operation: impl Fn(u64) -> Result<()> + Sync) -> Result<f64> {
    let (begin, operation) = (&Barrier::new(threads as usize), &operation);
    let spans = std::thread::scope(|scope| {
        let one = |thread: u64| {
            begin.wait();
            let start = Instant::now();
            (thread..count).step_by(threads as usize).try_for_each(operation)?;
            Ok((start, Instant::now()))
        };
        let handles: Vec<_> = (0..threads).map(|thread| scope.spawn(move || one(thread))).collect();
        let join = |handle: std::thread::ScopedJoinHandle<'_, Result<(Instant, Instant)>>| {
            handle.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        };
        handles.into_iter().map(join).collect::<Result<Vec<_>>>()
    })?;
    let start = spans.iter().map(|span| span.0).min();
    let end = spans.iter().map(|span| span.1).max();
    let time = start.zip(end).map_or(0.0, |(start, end)| (end - start).as_secs_f64());
    Ok(count as f64 / time.max(1e-9))
}
