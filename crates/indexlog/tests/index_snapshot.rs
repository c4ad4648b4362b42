//! Snapshots of the index: a store that is opened from one is the store that reading all records gives.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use halite_alloc::SEGMENT;
use halite_engine::{
    Direction, Durability, Engine, EngineOptions, IndexKind, KeyRange, KeySpaceId, Op, Partitioning,
};
use halite_indexlog::IndexLog;
use proptest::prelude::*;
use tempfile::TempDir;

const SPACES: [&str; 2] = ["one", "two"];

/// By key space.
type Pairs = Vec<BTreeMap<Vec<u8>, Vec<u8>>>;

#[derive(Debug, Clone)]
enum Step {
    Put {
        space: usize,
        key: u16,
        len: usize,
    },
    Delete {
        space: usize,
        key: u16,
    },
    DeleteRange {
        space: usize,
        from: u16,
        keys: u16,
    },
    /// Puts of so many keys from one on, in one batch, and so many times.
    Fill {
        from: u16,
        keys: u16,
        times: u8,
        len: usize,
    },
    Sync,
    Snapshot,
    Scan,
    Close,
    Kill,
    Become {
        hash: bool,
        key_bytes: usize,
        partitions: usize,
    },
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let space = || prop_oneof![4 => Just(0), 1 => Just(1_usize)];
    let key = || prop_oneof![0..40_u16, 0..400_u16];
    let len =
        || prop_oneof![8 => 0..200_usize, 2 => 4_000..30_000_usize, 1 => 33_000..200_000_usize];
    let step = prop_oneof![
        12 => (space(), key(), len()).prop_map(|(space, key, len)| Step::Put { space, key, len }),
        6 => (space(), key()).prop_map(|(space, key)| Step::Delete { space, key }),
        3 => (space(), key(), 1..60_u16)
            .prop_map(|(space, from, keys)| Step::DeleteRange { space, from, keys }),
        6 => (key(), 1..120_u16, 1..6_u8, prop_oneof![10..300_usize, 2_000..9_000_usize])
            .prop_map(|(from, keys, times, len)| Step::Fill { from, keys, times, len }),
        2 => Just(Step::Sync),
        5 => Just(Step::Snapshot),
        1 => Just(Step::Scan),
        1 => Just(Step::Close),
        4 => Just(Step::Kill),
        1 => (prop::bool::weighted(0.2), prop::sample::select(vec![0, 4, 8]), 1..4_usize)
            .prop_map(|(hash, key_bytes, partitions)| Step::Become { hash, key_bytes, partitions }),
    ];
    prop::collection::vec(step, 10..120)
}

fn key(number: u16) -> Vec<u8> {
    let mut key = format!("key-{number:05}").into_bytes();
    if number % 7 == 3 {
        key.splice(0..0, [b'l'; 60]);
    }
    key
}

fn pairs(store: &IndexLog) -> Pairs {
    let ids: BTreeMap<_, _> = store.key_spaces().unwrap().into_iter().collect();
    let of_space = |name: &&str| {
        let Some(&id) = ids.get(*name) else { return BTreeMap::new() };
        let scan = store.scan(id, KeyRange::all(), Direction::Forward).unwrap();
        scan.map(|pair| pair.map(|(key, value)| (key.to_vec(), value.to_vec())).unwrap()).collect()
    };
    SPACES.iter().map(of_space).collect()
}

struct Test {
    folder: TempDir,
    options: EngineOptions,
    store: Option<IndexLog>,
    spaces: Vec<KeySpaceId>,
    model: Pairs,
    writes: u64,
    pools: u32,
}

impl Test {
    fn new(partitions: usize, interval: u64, pool: u64) -> Self {
        let folder = tempfile::tempdir_in("/dev/shm").unwrap();
        let mut options = EngineOptions::new(folder.path().join("pool"));
        options.pool_options.size_max = pool;
        options.partitioning = Some(Partitioning::Hash(partitions));
        options.index_snapshot = Some(interval);
        let store = IndexLog::open(&options).unwrap();
        let spaces = SPACES.iter().map(|name| store.key_space(name).unwrap()).collect();
        let model = vec![BTreeMap::new(); SPACES.len()];
        Self { folder, options, store: Some(store), spaces, model, writes: 0, pools: 0 }
    }

    fn store(&self) -> &IndexLog {
        self.store.as_ref().unwrap()
    }

    fn value(&mut self, len: usize) -> Vec<u8> {
        self.writes += 1;
        self.writes.to_le_bytes().into_iter().cycle().take(len).collect()
    }

    /// Writes, unless the pool is full.
    fn write(&mut self, ops: &[Op<'_>], durability: Durability) -> bool {
        match self.store().write(ops, durability) {
            Ok(()) => true,
            Err(halite_engine::Error::Full { .. }) => false,
            Err(error) => panic!("{error}"),
        }
    }

    fn apply(&mut self, step: &Step) {
        match *step {
            Step::Put { space, key: number, len } => {
                let (key, value) = (key(number), self.value(len));
                let put = Op::Put { space: self.spaces[space], key: &key, value: &value };
                if self.write(&[put], Durability::Immediate) {
                    self.model[space].insert(key, value);
                }
            }
            Step::Delete { space, key: number } => {
                let key = key(number);
                let delete = Op::Delete { space: self.spaces[space], key: &key };
                if self.write(&[delete], Durability::Deferred) {
                    self.model[space].remove(&key);
                }
            }
            Step::DeleteRange { space, from, keys } => {
                let (start, end) = (key(from), key(from.saturating_add(keys)));
                let delete =
                    Op::DeleteRange { space: self.spaces[space], start: &start, end: Some(&end) };
                if self.write(&[delete], Durability::Deferred) {
                    self.model[space].retain(|key, _| !(&start..&end).contains(&key));
                }
            }
            Step::Fill { from, keys, times, len } => {
                for _ in 0..times {
                    let value = self.value(len);
                    let keys: Vec<_> = (from..from.saturating_add(keys)).map(key).collect();
                    let space = self.spaces[0];
                    let put = |key| Op::Put { space, key, value: &value };
                    let ops: Vec<_> = keys.iter().map(|key| put(key)).collect();
                    if self.write(&ops, Durability::Deferred) {
                        self.model[0].extend(keys.into_iter().map(|key| (key, value.clone())));
                    }
                }
            }
            Step::Sync => self.store().sync().unwrap(),
            Step::Snapshot => drop(self.store().snapshot_index().unwrap()),
            Step::Scan => {
                // What it holds is not waited for.
                let all = KeyRange::all();
                let scan = self.store().scan(self.spaces[0], all, Direction::Forward).unwrap();
                self.store().snapshot_index().unwrap();
                assert_eq!(scan.count(), self.model[0].len());
            }
            // While a thread writes, a copy is not what a killed process leaves.
            Step::Kill if self.options.index_snapshot == Some(u64::MAX) => self.kill(),
            Step::Close | Step::Kill => {
                self.store = None;
                self.reopen();
            }
            Step::Become { hash, key_bytes, partitions } => {
                self.options.index =
                    if hash { IndexKind::Hash } else { IndexKind::Ordered { key_bytes } };
                // Changing partitions takes room for everything twice.
                let stats = self.store().stats();
                if stats.live_bytes < 4 << 20 && stats.pool_bytes_max >= 64 << 20 {
                    self.options.partitioning = Some(Partitioning::Hash(partitions));
                }
                self.store = None;
                self.reopen();
            }
        }
    }

    /// What is left of a killed process.
    fn kill(&mut self) {
        self.store().sync().unwrap();
        self.pools += 1;
        let pool = self.folder.path().join(format!("pool-{}", self.pools));
        fs::copy(&self.options.pool, &pool).unwrap();
        self.store = None;
        fs::remove_file(&self.options.pool).unwrap();
        self.options.pool = pool;
        self.reopen();
    }

    fn reopen(&mut self) {
        // A full recovery of the same bytes.
        let copy = self.folder.path().join("copy");
        fs::copy(&self.options.pool, &copy).unwrap();
        let mut options = self.options.clone();
        (options.pool, options.index_snapshot) = (copy.clone(), None);
        let full = IndexLog::open(&options).unwrap();
        let expected = pairs(&full);
        let live = full.stats().live_bytes;
        drop(full);
        fs::remove_file(copy).unwrap();
        assert!(expected == self.model, "all records give what was written");
        let store = IndexLog::open(&self.options).unwrap();
        assert!(pairs(&store) == self.model, "a snapshot gives what was written");
        let stats = store.stats();
        // Of a record and its copy either may be the one that is alive, and their paddings differ.
        assert!(
            stats.live_bytes + 1024 >= live,
            "what is needed is alive: {live} bytes, not {}, {} records read",
            stats.live_bytes,
            stats.recovery.records_read
        );
        let report = store.verify(&mut |_, _| std::ops::ControlFlow::Continue(())).unwrap();
        assert!(report.damage.is_empty() && report.complete);
        self.store = Some(store);
    }
}

fn cases() -> ProptestConfig {
    ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(60) }
}

proptest! {
    #![proptest_config(cases())]

    #[test]
    fn a_store_opens_from_a_snapshot_as_from_all_records(
        steps in steps(),
        partitions in 1..3_usize,
        interval in prop_oneof![Just(1), Just(100_000), Just(2_000_000), Just(u64::MAX), Just(u64::MAX)],
        pool in prop::sample::select(vec![20 << 20, 28 << 20, 64 << 20]),
    ) {
        let mut test = Test::new(partitions, interval, pool);
        for step in &steps {
            test.apply(step);
        }
        test.apply(&Step::Kill);
        test.apply(&Step::Kill);
    }
}

/// Records that are not read again.
fn filled(records: u32) -> Test {
    let mut test = Test::new(1, u64::MAX, 256 << 20);
    let space = test.spaces[0];
    let keys: Vec<_> = (0..records).map(|number| format!("{number:010}").into_bytes()).collect();
    for keys in keys.chunks(500) {
        let put = |key| Op::Put { space, key, value: b"value" };
        let ops: Vec<_> = keys.iter().map(|key| put(key)).collect();
        test.store().write(&ops, Durability::Deferred).unwrap();
    }
    test.model[0] = keys.into_iter().map(|key| (key, b"value".to_vec())).collect();
    test
}

#[test]
fn an_opening_reads_what_was_written_after_the_snapshot() {
    let mut test = filled(20_000);
    test.kill();
    // The records, the names of two key spaces.
    assert_eq!(test.store().stats().recovery.records_read, 20_002);
    assert!(test.store().snapshot_index().unwrap());
    let bytes = test.store().stats().index_snapshot_bytes;
    assert!((10..30).contains(&(bytes / 20_000)), "{bytes} bytes of 20000 records");
    test.kill();
    assert_eq!(test.store().stats().recovery.records_read, 0);
    assert_eq!(test.store().stats().index_snapshot_bytes, bytes);
    for number in 0..100 {
        test.apply(&Step::Put { space: 0, key: number, len: 50 });
    }
    test.kill();
    assert_eq!(test.store().stats().recovery.records_read, 100);
}

#[test]
fn snapshots_are_taken_when_they_are_due_and_at_the_close() {
    let mut test = Test::new(2, 400_000, 64 << 20);
    let fill = Step::Fill { from: 0, keys: 200, times: 5, len: 1_000 };
    test.apply(&fill);
    // They are written by a thread.
    for _ in 0..1_000 {
        if test.store().stats().index_snapshot_bytes > 0 {
            break;
        }
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    assert!(test.store().stats().index_snapshot_bytes > 0);
    test.kill();
    assert!(test.store().stats().recovery.records_read < 1_002);
    test.apply(&fill);
    test.apply(&Step::Close);
    assert_eq!(test.store().stats().recovery.records_read, 0);
    // Little was written: it is cheaper to read that.
    test.apply(&Step::Put { space: 0, key: 1, len: 10 });
    test.apply(&Step::Close);
    assert_eq!(test.store().stats().recovery.records_read, 1);
}

#[test]
fn a_store_that_needs_the_space_takes_it() {
    let mut test = filled(200_000);
    test.kill();
    assert!(test.store().snapshot_index().unwrap());
    let space = test.spaces[1];
    let mut written = 0;
    while let Ok(()) = test.store().write(
        &[Op::Put { space, key: &u32::to_be_bytes(written), value: &[1; 30_000] }],
        Durability::Deferred,
    ) {
        written += 1;
    }
    assert!(!test.store().snapshot_index().unwrap(), "there is no room for one");
    for number in 0..written {
        test.model[1].insert(number.to_be_bytes().to_vec(), vec![1; 30_000]);
    }
    test.kill();
    assert!(test.store().stats().recovery.records_read > 200_000);
}

/// The segments in which two pools of one length differ, but for the first ones.
fn changed_segments(before: &Path, after: &Path) -> Vec<u64> {
    let (before, after) = (fs::read(before).unwrap(), fs::read(after).unwrap());
    let segments = after.chunks(SEGMENT as usize).enumerate().skip(2);
    let differs = |at: usize, segment: &[u8]| {
        before.get(at * segment.len()..(at + 1) * segment.len()) != Some(segment)
    };
    segments.filter(|(at, segment)| differs(*at, segment)).map(|(at, _)| at as u64).collect()
}

#[test]
fn a_damaged_snapshot_is_not_used() {
    let mut test = filled(250_000);
    test.kill();
    let before = test.folder.path().join("before");
    fs::copy(&test.options.pool, &before).unwrap();
    assert!(test.store().snapshot_index().unwrap());
    let bytes = test.store().stats().index_snapshot_bytes;
    let pool: PathBuf = test.options.pool.clone();
    let frames = changed_segments(&before, &pool);
    assert_eq!(frames.len() as u64, bytes.div_ceil(SEGMENT));
    assert!(frames.len() > 1);
    let whole = fs::read(&pool).unwrap();
    test.store = None;
    let last = bytes % SEGMENT;
    for (number, frame) in frames.iter().enumerate() {
        let end = if number + 1 == frames.len() { last } else { SEGMENT - 2_000 };
        for at in [0, 9, 13, 21, 500, end / 2, end - 1] {
            fs::write(&pool, &whole).unwrap();
            let file = File::options().read(true).write(true).open(&pool).unwrap();
            let mut byte = [0];
            file.read_exact_at(&mut byte, frame * SEGMENT + at).unwrap();
            file.write_all_at(&[byte[0] ^ 0x10], frame * SEGMENT + at).unwrap();
            drop(file);
            let store = IndexLog::open(&test.options).unwrap();
            assert_eq!(store.stats().recovery.records_read, 250_002, "frame {number}, byte {at}");
            assert_eq!(store.len(test.spaces[0]).unwrap(), 250_000);
            assert_eq!(store.stats().index_snapshot_bytes, 0);
        }
    }
}

/// The block with a partition's note of the newest batch is collected, one with an older note is not.
#[test]
fn a_part_of_a_batch_that_was_moved_is_not_missed() {
    let mut test = Test::new(2, u64::MAX, 64 << 20);
    let steps = [
        Step::Fill { from: 0, keys: 64, times: 3, len: 5_636 },
        Step::Fill { from: 89, keys: 104, times: 2, len: 6_180 },
        Step::Close,
        Step::DeleteRange { space: 0, from: 0, keys: 43 },
        Step::Close,
        Step::Put { space: 0, key: 0, len: 131_073 },
        // Ends the collection.
        Step::Snapshot,
        Step::Put { space: 0, key: 183, len: 26_483 },
        Step::Kill,
    ];
    steps.iter().for_each(|step| test.apply(step));
}
