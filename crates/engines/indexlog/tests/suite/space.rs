//! Space: the writes that a store with a limit takes, refuses and moves.

use std::collections::{BTreeMap, VecDeque};
use std::ops::ControlFlow;
use std::path::Path;

use fastrand::Rng;
use halite_contract::{
    Direction, Durability, Engine, EngineOptions, Error, KeyRange, KeySpaceId, Op, Partitioning,
    SpaceManagement,
};
use halite_indexlog::IndexLog;

const POOL: u64 = 32 << 20;

/// More than a step of the collector and the copy of one record; far less than a block.
const MOVED_MAX: u64 = 24 << 10;

fn open(folder: &Path, partitions: usize) -> IndexLog {
    let mut options = EngineOptions::new(folder.join("pool"));
    options.pool_options.size_max = POOL;
    options.partitioning = Some(Partitioning::Hash(partitions));
    IndexLog::open(&options).unwrap()
}

/// A store and its expected content: the length and the first byte of each value.
struct Test {
    engine: IndexLog,
    space: KeySpaceId,
    model: BTreeMap<u64, (usize, u8)>,
    random: Rng,
}

impl Test {
    fn new(folder: &Path, partitions: usize, seed: u64) -> Self {
        let engine = open(folder, partitions);
        let space = engine.key_space("space").unwrap();
        Self { engine, space, model: BTreeMap::new(), random: Rng::with_seed(seed) }
    }

    fn reopen(mut self, folder: &Path, partitions: usize) -> Self {
        drop(self.engine);
        self.engine = open(folder, partitions);
        self
    }

    fn put(&mut self, key: u64, len: usize) -> Result<(), Error> {
        let first = self.random.u8(..);
        let durability =
            if self.random.u64(..4) == 0 { Durability::Immediate } else { Durability::Deferred };
        let (key_bytes, value) = (key.to_be_bytes(), vec![first; len]);
        let put = Op::Put { space: self.space, key: &key_bytes, value: &value };
        self.engine.write(&[put], durability)?;
        self.model.insert(key, (len, first));
        Ok(())
    }

    /// Deletes are always taken.
    fn delete(&mut self, key: u64) {
        let key_bytes = key.to_be_bytes();
        let delete = Op::Delete { space: self.space, key: &key_bytes };
        self.engine.write(&[delete], Durability::Deferred).unwrap();
        self.model.remove(&key);
    }

    fn any_key(&mut self) -> u64 {
        let newest = *self.model.keys().next_back().unwrap();
        let from = self.random.u64(..newest + 1);
        *self.model.range(from..).next().unwrap().0
    }

    fn live(&self) -> f64 {
        self.engine.stats().live_bytes as f64 / POOL as f64
    }

    fn check(&self) {
        let scan = self.engine.scan(self.space, KeyRange::all(), Direction::Forward).unwrap();
        let found = scan.map(|pair| {
            let (key, value) = pair.unwrap();
            let key = u64::from_be_bytes((&key[..]).try_into().unwrap());
            (key, (value.len(), value.first().copied().unwrap_or_default()))
        });
        let expected = self
            .model
            .iter()
            .map(|(key, &(len, first))| (*key, (len, if len == 0 { 0 } else { first })));
        assert!(found.eq(expected));
    }
}

fn len(random: &mut Rng, large: bool) -> usize {
    match random.u64(..40) {
        0 if large => 33_000 + random.u64(..100_000) as usize,
        // Slots of large values are not as full as a log is.
        1..8 => random.u64(..if large { 3000 } else { 2048 }) as usize,
        _ => random.u64(..300) as usize,
    }
}

/// At any fill: updates go on as long as there is room; at the limit puts are refused and change nothing,
/// deletes are taken; and behind deletes puts are taken again.
#[test]
fn at_any_fill_updates_go_on_and_a_full_store_is_emptied_and_filled_again() {
    for (seed, partitions, large) in [(1, 1, false), (2, 2, false), (3, 3, true)] {
        let folder = tempfile::tempdir_in("/dev/shm").unwrap();
        let mut test = Test::new(folder.path(), partitions, seed);
        let mut next_key = 0;
        for fill in [0.5, 0.7, 0.8] {
            'filled: while test.live() < fill {
                for _ in 0..100 {
                    let len = len(&mut test.random, large);
                    match test.put(next_key, len) {
                        Ok(()) => next_key += 1,
                        // Large values need whole blocks, and partitions fill up one after the other.
                        Err(Error::Full { .. }) if large || partitions > 1 => break 'filled,
                        Err(error) => panic!("{error} at {fill}"),
                    }
                }
            }
            for update in 0..10_000 {
                let (key, len) = (test.random.u64(..next_key), len(&mut test.random, large));
                match test.put(key, len) {
                    Ok(()) => {}
                    Err(Error::Full { .. }) if large || partitions > 1 => test.shrink(5),
                    Err(error) => panic!("{error} at {fill}"),
                }
                // Statistics are a walk over the index.
                while update % 500 == 0 && test.live() > fill {
                    test.shrink(20);
                }
            }
            test.check();
        }
        for round in 0..3 {
            let full = loop {
                match test.put(next_key, 500) {
                    Ok(()) => next_key += 1,
                    Err(error) => break error,
                }
            };
            assert!(matches!(full, Error::Full { .. }), "{full}");
            test.check();
            if round == 1 {
                test = test.reopen(folder.path(), partitions);
                test.check();
            }
            let keys = test.model.len() / [20, 3, 1][round];
            test.shrink(keys);
            for key in 0..(keys as u64 / 2).min(2000) {
                test.put(next_key + key, 100).unwrap();
            }
            test.check();
        }
        assert!(
            test.engine.verify(&mut |_, _| ControlFlow::Continue(())).unwrap().damage.is_empty()
        );
    }
}

impl Test {
    fn shrink(&mut self, keys: usize) {
        for _ in 0..keys {
            let key = self.any_key();
            self.delete(key);
        }
    }
}

/// Writers pay for the space that they take: none of them waits until a block is collected.
#[test]
fn no_update_of_a_filled_store_moves_much() {
    let folder = tempfile::tempdir_in("/dev/shm").unwrap();
    let mut test = Test::new(folder.path(), 1, 7);
    let mut keys = 0;
    while test.live() < 0.8 {
        for _ in 0..100 {
            test.put(keys, 100).unwrap();
            keys += 1;
        }
    }
    for _ in 0..3 * keys {
        let key = test.random.u64(..keys);
        test.put(key, 100).unwrap();
    }
    let (mut before, mut most) = (test.engine.stats(), 0);
    let begun = before.clone();
    for _ in 0..2000 {
        let key = test.random.u64(..keys);
        test.put(key, 100).unwrap();
        let after = test.engine.stats();
        most = most.max(after.collected_bytes_moved - before.collected_bytes_moved);
        before = after;
    }
    assert!(before.collected_blocks > begun.collected_blocks + 3, "it collects");
    assert!(most > 0 && most <= MOVED_MAX, "{most} bytes were moved for one update");
    test.check();
}

/// The bytes that blocks have behind their records because the next one did not fit are not reclaimed by collection.
#[test]
fn a_put_that_a_full_store_refuses_moves_little_even_when_it_was_reopened() {
    let folder = tempfile::tempdir_in("/dev/shm").unwrap();
    let mut test = Test::new(folder.path(), 1, 7);
    let mut keys = 0;
    while test.put(keys, 20_000).is_ok() {
        keys += 1;
    }
    for _ in 0..3 {
        test = test.reopen(folder.path(), 1);
        let full = test.put(keys, 20_000);
        assert!(matches!(full, Err(Error::Full { .. })), "{full:?}");
        let moved = test.engine.stats().collected_bytes_moved;
        assert!(moved < 1 << 20, "{moved} bytes were moved for a put that was refused");
    }
    test.check();
}

/// A block that a closing ended early is collected.
#[test]
fn closing_often_takes_no_space() {
    let folder = tempfile::tempdir_in("/dev/shm").unwrap();
    let mut test = Test::new(folder.path(), 1, 7);
    for round in 0..600 {
        test.put(round, 100).unwrap();
        test = test.reopen(folder.path(), 1);
    }
    test.check();
}

/// Blocks that are collected while the store is idle need not be collected by a burst of writes.
#[test]
fn who_is_idle_collects_ahead_in_small_steps() {
    let folder = tempfile::tempdir_in("/dev/shm").unwrap();
    let mut test = Test::new(folder.path(), 1, 7);
    assert!(!test.engine.collect_ahead(0).unwrap(), "an empty store has nothing to collect");
    let mut keys = 0;
    while test.live() < 0.8 {
        for _ in 0..100 {
            test.put(keys, 100).unwrap();
            keys += 1;
        }
    }
    for _ in 0..2 * keys {
        let key = test.random.u64(..keys);
        test.put(key, 100).unwrap();
    }
    let (mut before, mut steps) = (test.engine.stats(), 0);
    while test.engine.collect_ahead(0).unwrap() {
        let after = test.engine.stats();
        let moved = after.collected_bytes_moved - before.collected_bytes_moved;
        assert!(moved <= MOVED_MAX, "{moved} bytes were moved in one step");
        (before, steps) = (after, steps + 1);
        assert!(steps < 10_000, "it comes to an end");
    }
    assert!(steps > 0 && before.pool_bytes == POOL);
    test.check();
    // A segment of updates.
    for _ in 0..(2 << 20) / 200 {
        let key = test.random.u64(..keys);
        test.put(key, 100).unwrap();
    }
    let after = test.engine.stats();
    assert_eq!(after.collected_bytes_moved, before.collected_bytes_moved);

    // Space that a scan holds is not reclaimed by collecting more.
    let scan = test.engine.scan(test.space, KeyRange::all(), Direction::Forward).unwrap();
    for _ in 0..keys {
        let key = test.random.u64(..keys);
        if test.put(key, 100).is_err() {
            break;
        }
    }
    for _ in 0..10_000 {
        let free = test.engine.stats().free_bytes;
        let more = test.engine.collect_ahead(0).unwrap();
        assert!(test.engine.stats().free_bytes + (256 << 10) >= free);
        if !more {
            break;
        }
    }
    drop(scan);
    test.check();
}

/// Values that readers hold at once.
const HELD_MAX: usize = 32;

/// Values of all lengths share a pool for ever: another class of lengths can use the space that one gives up.
#[test]
fn values_that_change_their_lengths_do_not_fill_the_pool() {
    // The part that is free beside the live data: the last eighth of slots, the log's garbage, the reserves.
    for (seed, fill) in [(1, 0.6), (2, 0.8)] {
        let folder = tempfile::tempdir_in("/dev/shm").unwrap();
        let mut options = EngineOptions::new(folder.path().join("pool"));
        options.pool_options.size_max = LARGE_POOL;
        let engine = IndexLog::open(&options).unwrap();
        let space = engine.key_space("space").unwrap();
        let mut test = Test { engine, space, model: BTreeMap::new(), random: Rng::with_seed(seed) };
        let live = |test: &Test| test.model.values().map(|(len, _)| *len as u64).sum::<u64>();
        let (mut next_key, mut held) = (0, VecDeque::new());
        // Each time most values are of other lengths.
        for phase in 0..12 {
            let mut written = 0;
            while written < LARGE_POOL {
                let len = len_of_phase(&mut test.random, phase);
                while live(&test) + len as u64 > (LARGE_POOL as f64 * fill) as u64 {
                    test.shrink(1);
                }
                let rewrites = !test.model.is_empty() && test.random.u64(..2) == 0;
                let key = if rewrites { test.any_key() } else { next_key };
                if let Some((old, _)) = test.model.get(&key)
                    && live(&test) - *old as u64 + len as u64 > (LARGE_POOL as f64 * fill) as u64
                {
                    continue;
                }
                next_key = next_key.max(key + 1);
                if let Err(error) = test.put(key, len) {
                    panic!("{error}: phase {phase}, {len} bytes, {:?}", test.engine.stats());
                }
                written += len as u64;
                // Readers keep what they have read, longer than it is in the store.
                if test.random.u64(..16) == 0 {
                    let key = test.any_key();
                    held.push_back(test.engine.get(test.space, &key.to_be_bytes()).unwrap());
                    held.drain(..held.len().saturating_sub(HELD_MAX));
                }
            }
            test.check();
        }
        let report = test.engine.verify(&mut |_, _| ControlFlow::Continue(())).unwrap();
        assert!(report.damage.is_empty(), "{:?}", report.damage);
        drop((held, test.engine));
        test.engine = IndexLog::open(&options).unwrap();
        test.check();
    }
}

const LARGE_POOL: u64 = 96 << 20;

fn len_of_phase(random: &mut Rng, phase: u32) -> usize {
    let orders = [(0, 22), (11, 3), (14, 2), (1, 10), (16, 3), (19, 3)];
    let (from, count) = if random.u64(..4) == 0 { (0, 21) } else { orders[phase as usize % 6] };
    let order = from + random.u64(..count);
    ((1 << order) + random.u64(..1 << order)) as usize
}

/// Where puts are refused, bookkeeping is taken, on one partition and on several at once, and its removals make room.
#[test]
fn a_full_store_takes_bookkeeping_on_any_number_of_partitions() {
    const IN_VAIN: u32 = 200;
    for partitions in [1, 4] {
        let folder = tempfile::tempdir_in("/dev/shm").unwrap();
        let mut test = Test::new(folder.path(), partitions, 5);
        let (mut refused, mut filled) = (0, 0);
        while refused < IN_VAIN {
            refused = if test.put(filled, 300).is_ok() { 0 } else { refused + 1 };
            filled += 1;
        }
        let keys: Vec<_> = test.model.keys().copied().take(400).collect();
        for removed in keys.chunks(4) {
            let removed_bytes: Vec<_> = removed.iter().map(|key| key.to_be_bytes()).collect();
            let notes: Vec<_> = (0..8_u64).map(|note| (filled + note).to_be_bytes()).collect();
            let (space, value) = (test.space, [7; 300]);
            let puts = notes.iter().map(|key| Op::Put { space, key, value: &value });
            let deletes = removed_bytes.iter().map(|key| Op::Delete { space, key });
            let ops: Vec<_> = puts.chain(deletes).collect();
            if removed == &keys[..4] {
                let as_put = test.engine.write(&ops, Durability::Deferred);
                assert!(matches!(as_put, Err(Error::Full { .. })), "{as_put:?}");
            }
            if let Err(error) = test.engine.write_bookkeeping(&ops, Durability::Deferred) {
                panic!("{partitions} partitions: {error}; {:?}", test.engine.stats());
            }
            test.model.retain(|key, _| !removed.contains(key));
            test.model.extend((0..8).map(|note| (filled + note, (300, 7))));
        }
        test.check();
        let test = test.reopen(folder.path(), partitions);
        test.check();
    }
}
