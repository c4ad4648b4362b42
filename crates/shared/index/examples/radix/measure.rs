//! Inserts and lookups by several threads, of keys whose records lie in one array.

use std::hint::black_box;
use std::ops::Bound;
use std::sync::{PoisonError, RwLock};
use std::time::Instant;

use halite_index::{Direction, FullKeys, PartialKeyTree, RadixTree, Records};

/// Bytes of a record: a version, a key, and the place of a value.
const RECORD_LEN: usize = 128;

const VERSION_LEN: usize = 8;

/// A kind of keys.
#[derive(Clone, Copy)]
pub(crate) enum Kind {
    /// 8 random bytes.
    Numbers,
    /// `user` and 20 random digits.
    Users,
}

impl Kind {
    pub(crate) const ALL: [Self; 2] = [Self::Numbers, Self::Users];

    fn name(self) -> &'static str {
        match self {
            Self::Numbers => "keys of 8 random bytes",
            Self::Users => "keys of 24 bytes, `user` and 20 random digits",
        }
    }

    fn len(self) -> usize {
        match self {
            Self::Numbers => 8,
            Self::Users => 24,
        }
    }

    /// The key of a number, as a request brings it: not from where the record lies.
    fn make(self, number: u64) -> [u8; 24] {
        let mut mixed = mix(number);
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

fn mix(number: u64) -> u64 {
    let mixed = (number ^ number >> 31).wrapping_mul(0x7fb5_d329_728e_a185);
    (mixed ^ mixed >> 27).wrapping_mul(0x81da_def4_bc2d_d44d) ^ mixed >> 33
}

/// The records, in the order of insertion.
pub(crate) struct Table {
    pub(crate) kind: Kind,
    bytes: Vec<u8>,
    count: u64,
}

impl Table {
    fn new(kind: Kind, count: u64) -> Self {
        let mut bytes = vec![1; RECORD_LEN * count as usize];
        for (number, record) in (0..).zip(bytes.chunks_exact_mut(RECORD_LEN)) {
            record[..VERSION_LEN].copy_from_slice(&1_u64.to_le_bytes());
            record[VERSION_LEN..][..kind.len()].copy_from_slice(&kind.make(number)[..kind.len()]);
        }
        Self { kind, bytes, count }
    }

    fn record(&self, entry: u64) -> &[u8] {
        &self.bytes[RECORD_LEN * (entry / 8 - 1) as usize..][..RECORD_LEN]
    }
}

impl Records for Table {
    fn key(&self, entry: u64) -> &[u8] {
        &self.record(entry)[VERSION_LEN..][..self.kind.len()]
    }

    fn version(&self, entry: u64) -> u64 {
        let bytes = self.record(entry).first_chunk().copied();
        bytes.map(u64::from_le_bytes).unwrap_or_default()
    }
}

impl FullKeys for Table {
    type Error = std::convert::Infallible;

    fn with_key<R>(&self, entry: u64, read: impl FnOnce(&[u8]) -> R) -> Result<R, Self::Error> {
        Ok(read(self.key(entry)))
    }
}

/// The operations that are measured on an index. A lookup has compared the key that it found.
pub(crate) trait Index: Sync {
    fn insert(&self, key: &[u8], entry: u64, records: &Table);
    fn find(&self, key: &[u8], records: &Table) -> Option<u64>;
    /// Folds all entries, in order.
    fn walk(&self, records: &Table) -> u64;
    /// Bytes on the heap, if that is known.
    fn memory_len(&self) -> Option<u64>;
}

impl Index for RadixTree {
    fn insert(&self, key: &[u8], entry: u64, records: &Table) {
        self.insert(records, key, entry);
    }

    fn find(&self, key: &[u8], records: &Table) -> Option<u64> {
        self.get(records, key, u64::MAX - 1)
    }

    fn walk(&self, records: &Table) -> u64 {
        let mut cursor =
            self.cursor(Bound::Unbounded, Bound::Unbounded, Direction::Ascending, u64::MAX);
        std::iter::from_fn(|| cursor.next(self, records)).fold(0, u64::wrapping_add)
    }

    fn memory_len(&self) -> Option<u64> {
        Some(self.memory_len())
    }
}

/// The tree of partial keys, which has one writer or many readers at a time.
pub(crate) struct Locked(RwLock<PartialKeyTree>);

impl Index for Locked {
    fn insert(&self, key: &[u8], entry: u64, records: &Table) {
        let mut tree = self.0.write().unwrap_or_else(PoisonError::into_inner);
        let Ok(_) = tree.insert(key, entry, records);
    }

    fn find(&self, key: &[u8], records: &Table) -> Option<u64> {
        let tree = self.0.read().unwrap_or_else(PoisonError::into_inner);
        let Ok(found) = tree.get_candidate(key, records);
        found.filter(|&entry| records.key(entry) == key)
    }

    fn walk(&self, _: &Table) -> u64 {
        let tree = self.0.read().unwrap_or_else(PoisonError::into_inner);
        tree.iter().fold(0, u64::wrapping_add)
    }

    fn memory_len(&self) -> Option<u64> {
        Some(self.0.read().unwrap_or_else(PoisonError::into_inner).heap_len() as u64)
    }
}

/// An index, and whether it can have keys of a kind.
pub(crate) struct Contender {
    pub(crate) name: &'static str,
    pub(crate) make: fn(Kind) -> Option<Box<dyn Index>>,
}

/// Ours.
pub(crate) fn ours() -> Vec<Contender> {
    vec![
        Contender { name: "radix tree", make: |_| Some(Box::new(RadixTree::new())) },
        Contender {
            name: "partial keys, RwLock",
            make: |_| {
                let tree = PartialKeyTree::new(halite_index::PartialLen::Eight);
                Some(Box::new(Locked(RwLock::new(tree))))
            },
        },
    ]
}

/// Million keys a second, and bytes a key.
struct Measured {
    inserts: f64,
    lookups: f64,
    misses: f64,
    walked: f64,
    bytes: Option<f64>,
}

/// Million operations a second, of `count` that the threads share, each with its number.
fn speed(count: u64, threads: u64, operation: impl Fn(u64) + Sync) -> f64 {
    let start = Instant::now();
    std::thread::scope(|scope| {
        for thread in 0..threads {
            let operation = &operation;
            scope.spawn(move || (thread..count).step_by(threads as usize).for_each(operation));
        }
    });
    count as f64 / start.elapsed().as_secs_f64() / 1e6
}

fn measure(index: &dyn Index, table: &Table, threads: u64) -> Measured {
    let (kind, count) = (table.kind, table.count);
    let inserts = speed(count, threads, |number| {
        index.insert(&kind.make(number)[..kind.len()], 8 * (number + 1), table);
    });
    let lookups = speed(count, threads, |at| {
        let number = mix(at) % count;
        let found = index.find(&kind.make(number)[..kind.len()], table);
        assert_eq!(found, Some(8 * (number + 1)));
    });
    let misses = speed(count, threads, |at| {
        let found = index.find(&kind.make(count + mix(at) % count)[..kind.len()], table);
        assert_eq!(found, None);
    });
    let walked = speed(1, 1, |_| {
        black_box(index.walk(table));
    });
    let bytes = index.memory_len().map(|bytes| bytes as f64 / count as f64);
    Measured { inserts, lookups, misses, walked: walked * count as f64, bytes }
}

fn median(rounds: &[Measured], value: impl Fn(&Measured) -> f64) -> f64 {
    let mut values: Vec<f64> = rounds.iter().map(value).collect();
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// Prints the medians of some rounds, in which the contenders take turns. The arguments are the number
/// of keys, and of rounds.
pub(crate) fn compare(contenders: &[Contender]) {
    let mut args = std::env::args().skip(1).filter_map(|arg| arg.parse().ok());
    let count = args.next().unwrap_or(1_000_000);
    let rounds = args.next().unwrap_or(5);
    println!("million keys a second; medians of {rounds} rounds; {count} keys");
    for kind in Kind::ALL {
        let table = Table::new(kind, count);
        for threads in [1, 2] {
            println!("\n{}, {threads} threads", kind.name());
            println!(
                "{:<24}{:>9}{:>9}{:>9}{:>9}{:>9}",
                "", "insert", "lookup", "miss", "walk", "B/key"
            );
            let mut measured: Vec<Vec<Measured>> = contenders.iter().map(|_| vec![]).collect();
            for _ in 0..rounds {
                for (contender, measured) in contenders.iter().zip(&mut measured) {
                    let index = (contender.make)(kind);
                    measured.extend(index.map(|index| measure(&*index, &table, threads)));
                }
            }
            for (contender, rounds) in contenders.iter().zip(&measured) {
                let Some(last) = rounds.last() else { continue };
                let bytes = last.bytes.map_or("-".to_owned(), |bytes| format!("{bytes:.1}"));
                println!(
                    "{:<24}{:>9.2}{:>9.2}{:>9.2}{:>9.1}{bytes:>9}",
                    contender.name,
                    median(rounds, |round| round.inserts),
                    median(rounds, |round| round.lookups),
                    median(rounds, |round| round.misses),
                    median(rounds, |round| round.walked),
                );
            }
        }
    }
}
