//! Snapshots of the index: a store that is opened from one is the store that reading all records gives.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use halite_alloc::SEGMENT;
use halite_contract::{
    Direction, Durability, Engine, EngineOptions, IndexSnapshots, KeyRange, KeySpaceId, Op,
    Partitioning,
};
use halite_indexlog::{IndexKind, IndexLog, IndexLogOptions};
use proptest::prelude::*;
use tempfile::TempDir;
use xxhash_rust::xxh3::xxh3_64;

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
        options.own.get_mut::<IndexLogOptions>().index_snapshot = Some(interval);
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
            Err(halite_contract::Error::Full { .. }) => false,
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
                // The space that the scan holds is not waited for.
                let all = KeyRange::all();
                let scan = self.store().scan(self.spaces[0], all, Direction::Forward).unwrap();
                self.store().snapshot_index().unwrap();
                assert_eq!(scan.count(), self.model[0].len());
            }
            Step::Kill => self.kill(),
            Step::Close => {
                self.store = None;
                self.reopen();
            }
            Step::Become { hash, key_bytes, partitions } => {
                self.options.own.get_mut::<IndexLogOptions>().index =
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

    /// The store as a killed process leaves it.
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
        options.pool = copy.clone();
        options.own.get_mut::<IndexLogOptions>().index_snapshot = None;
        let full = IndexLog::open(&options).unwrap();
        let expected = pairs(&full);
        let live = full.stats().live_bytes;
        drop(full);
        fs::remove_file(copy).unwrap();
        assert!(expected == self.model, "all records give what was written");
        let store = IndexLog::open(&self.options).unwrap();
        assert!(pairs(&store) == self.model, "a snapshot gives what was written");
        let stats = store.stats();
        // Either of a record and its copy may be alive, and their paddings differ.
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
    let cases = if halite_contract::lab::is_deep("indexlog") { 60 } else { 12 };
    ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(cases) }
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
    let bytes = test.store().stats().figure("index_snapshot_bytes").unwrap();
    assert!((10..30).contains(&(bytes / 20_000)), "{bytes} bytes of 20000 records");
    test.kill();
    assert_eq!(test.store().stats().recovery.records_read, 0);
    assert_eq!(test.store().stats().figure("index_snapshot_bytes").unwrap(), bytes);
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
    assert!(test.store().stats().figure("index_snapshot_bytes").unwrap() > 0);
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

#[test]
fn an_opening_that_is_given_up_leaves_the_snapshot() {
    let mut test = filled(200_000);
    assert!(test.store().snapshot_index().unwrap());
    test.store = None;
    let mut options = test.options.clone();
    options.on_demand = true;
    for _ in 0..10 {
        drop(IndexLog::open(&options).unwrap());
    }
    let store = IndexLog::open(&test.options).unwrap();
    assert_eq!(store.stats().recovery.records_read, 0);
    assert_eq!(store.len(test.spaces[0]).unwrap(), 200_000);
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
    let bytes = test.store().stats().figure("index_snapshot_bytes").unwrap();
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
            assert_eq!(store.stats().figure("index_snapshot_bytes").unwrap(), 0);
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

/// The items of a snapshot that is one frame, each with its kind.
type Items = Vec<(u8, Vec<u8>)>;

const BLOCKS: u8 = 2;
const TREE: u8 = 3;
const LEAF: u8 = 4;
const END: u8 = 6;

/// A frame of a snapshot, written by this store or forged.
struct Forged {
    number: u64,
    items: Items,
}

impl Forged {
    /// The whole items of a payload.
    fn of(payload: &[u8]) -> Self {
        let (number, mut rest) = payload.split_first_chunk().unwrap();
        let mut items = Vec::new();
        while let Some((head, behind)) = rest.split_first_chunk::<5>() {
            let len = u32::from_le_bytes(head[1..].try_into().unwrap()) as usize;
            items.push((head[0], behind[..len].to_vec()));
            rest = &behind[len..];
        }
        Self { number: u64::from_le_bytes(*number), items }
    }

    fn payload(&self) -> Vec<u8> {
        let mut payload = self.number.to_le_bytes().to_vec();
        for (kind, bytes) in &self.items {
            payload.push(*kind);
            payload.extend_from_slice(&(bytes.len() as u32).to_le_bytes());
            payload.extend_from_slice(bytes);
        }
        payload
    }

    /// The first item of a kind.
    fn item(&mut self, kind: u8) -> &mut Vec<u8> {
        &mut self.items.iter_mut().find(|(of, _)| *of == kind).unwrap().1
    }

    fn place(&self, kind: u8) -> usize {
        self.items.iter().position(|(of, _)| *of == kind).unwrap()
    }
}

/// A store with a snapshot in one frame, which can be replaced.
struct Forgery {
    test: Test,
    frame: usize,
    whole: Vec<u8>,
    records: u64,
}

impl Forgery {
    fn new(steps: &[Step]) -> Self {
        let mut test = Test::new(1, u64::MAX, 64 << 20);
        steps.iter().for_each(|step| test.apply(step));
        test.kill();
        let records = test.store().stats().recovery.records_read;
        let before = test.folder.path().join("before");
        fs::copy(&test.options.pool, &before).unwrap();
        assert!(test.store().snapshot_index().unwrap());
        let frames = changed_segments(&before, &test.options.pool);
        assert_eq!(frames.len(), 1);
        test.store = None;
        let whole = fs::read(&test.options.pool).unwrap();
        Self { test, frame: frames[0] as usize * SEGMENT as usize, whole, records }
    }

    fn payload(&self) -> &[u8] {
        let frame = &self.whole[self.frame..];
        let len = u32::from_le_bytes(frame[8..12].try_into().unwrap()) as usize;
        &frame[12..12 + len]
    }

    /// Opens the store with another payload, under the sum that it would have.
    fn open(&self, payload: &[u8]) -> halite_contract::Result<IndexLog> {
        let sum = u64::from_le_bytes(self.whole[self.frame..][..8].try_into().unwrap());
        let seed = sum ^ xxh3_64(self.payload());
        let mut frame = (xxh3_64(payload) ^ seed).to_le_bytes().to_vec();
        frame.extend_from_slice(&(payload.len() as u32).to_le_bytes());
        frame.extend_from_slice(payload);
        fs::write(&self.test.options.pool, &self.whole).unwrap();
        let file = File::options().write(true).open(&self.test.options.pool).unwrap();
        file.write_all_at(&frame, self.frame as u64).unwrap();
        drop(file);
        IndexLog::open(&self.test.options)
    }

    /// Opens the store with a snapshot that `forge` has changed; returns how many records were read.
    fn forge(&self, forge: impl FnOnce(&mut Forged)) -> u64 {
        let mut forged = Forged::of(self.payload());
        forge(&mut forged);
        let store = self.open(&forged.payload()).unwrap();
        assert!(pairs(&store) == self.test.model);
        store.stats().recovery.records_read
    }
}

#[test]
fn a_forged_snapshot_is_not_used() {
    let forgery = Forgery::new(&[
        Step::Fill { from: 0, keys: 100, times: 2, len: 100 },
        Step::DeleteRange { space: 0, from: 0, keys: 9 },
    ]);
    let all = forgery.records;
    assert!(all > 200);
    assert_eq!(forgery.forge(|_| ()), 0, "what is as it was is used");
    type Forge = fn(&mut Forged);
    let forgeries: [(&str, Forge); 11] = [
        ("the last number there is", |forged| forged.number = u64::MAX - 1 + forged.number % 2),
        ("a block beyond the map", |forged| forged.item(BLOCKS)[..4].fill(0xff)),
        ("a block that is used further", |forged| forged.item(BLOCKS)[8..16].fill(0x7f)),
        ("a block that is used up to within a record", |forged| forged.item(BLOCKS)[8] -= 16),
        ("blocks behind what leads to them", |forged| {
            let (blocks, end) = (forged.place(BLOCKS), forged.place(END));
            let moved = forged.items.remove(blocks);
            forged.items.insert(end - 1, moved);
        }),
        ("blocks again behind what leads to them", |forged| {
            let mut gone = forged.item(BLOCKS).clone();
            gone[4..8].fill(0x55);
            let end = forged.place(END);
            forged.items.insert(end, (BLOCKS, gone));
        }),
        ("a leaf of no tree", |forged| drop(forged.items.remove(forged.place(TREE)))),
        ("two heads", |forged| forged.items.insert(0, forged.items[0].clone())),
        ("something behind the end", |forged| forged.items.push(forged.items[1].clone())),
        ("no end", |forged| drop(forged.items.pop())),
        ("more records than there can be", |forged| forged.items[0].1[8..].fill(0xff)),
    ];
    for (what, forge) in forgeries {
        let read = forgery.forge(forge);
        assert_eq!(read, all, "{what}");
    }
}

/// A record with a number of the snapshot's time that is no copy, where the snapshot does not reach.
#[test]
fn a_snapshot_that_claims_later_records_is_not_used() {
    let mut forgery = Forgery::new(&[Step::Fill { from: 0, keys: 50, times: 1, len: 100 }]);
    let all = forgery.records;
    let store = forgery.open(forgery.payload()).unwrap();
    forgery.test.store = Some(store);
    forgery.test.apply(&Step::Fill { from: 0, keys: 20, times: 1, len: 60 });
    forgery.test.apply(&Step::DeleteRange { space: 0, from: 0, keys: 3 });
    forgery.test.store = None;
    forgery.whole = fs::read(&forgery.test.options.pool).unwrap();
    assert_eq!(forgery.forge(|_| ()), 21);
    assert_eq!(forgery.forge(|forged| forged.items[0].1[8] += 10), all + 21);
}

#[test]
fn a_snapshot_whose_entries_lead_to_one_record_is_not_used() {
    let forgery = Forgery::new(&[Step::Fill { from: 0, keys: 6, times: 1, len: 50_000 }]);
    let records = forgery.records;
    // The key of the last one is longer: there are not so many bytes.
    let longest = |forged: &mut Forged, from: usize, to: usize| {
        let leaves = forged.items.iter_mut().filter(|(kind, _)| *kind == LEAF);
        let leaf = &mut leaves.max_by_key(|(_, leaf)| leaf.len()).unwrap().1;
        let entries = leaf.len() - 6 * 8;
        leaf.copy_within(entries + from * 8..entries + (from + 1) * 8, entries + to * 8);
    };
    assert_eq!(forgery.forge(|forged| longest(forged, 5, 4)), records);
    // Here two entries would take the space of one value, which is damage. A snapshot is used once: the next opening
    // succeeds.
    let mut forged = Forged::of(forgery.payload());
    longest(&mut forged, 0, 1);
    let opened = forgery.open(&forged.payload());
    assert!(matches!(opened, Err(halite_contract::Error::Damaged { .. })), "{:?}", opened.err());
    drop(opened);
    let store = IndexLog::open(&forgery.test.options).unwrap();
    assert_eq!(store.stats().recovery.records_read, records);
    assert!(pairs(&store) == forgery.test.model);
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(1) })]

    /// No forged snapshot makes the opening panic or hang.
    #[test]
    fn any_forged_snapshot_is_survived(seed in any::<u64>()) {
        let forgery = Forgery::new(&[
            Step::Fill { from: 0, keys: 150, times: 2, len: 60 },
            Step::Put { space: 0, key: 7, len: 50_000 },
            Step::Delete { space: 0, key: 9 },
            Step::DeleteRange { space: 0, from: 20, keys: 10 },
        ]);
        let mut random = seed | 1;
        let mut draw = |below: usize| {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            (random >> 20) as usize % below
        };
        for _ in 0..400 {
            let mut payload = forgery.payload().to_vec();
            for _ in 0..1 + draw(4) {
                let at = 8 + draw(payload.len() - 8);
                payload[at] = [0, 0xff, payload[at] ^ 1 << draw(8), payload[at].wrapping_add(1)][draw(4)];
            }
            let Ok(store) = forgery.open(&payload) else { continue };
            for space in store.key_spaces().unwrap_or_default() {
                let scan = store.scan(space.1, KeyRange::all(), Direction::Forward).unwrap();
                let _ = scan.take(1_000).count();
                for number in 0..150 {
                    let _ = store.get(space.1, &key(number));
                }
                for number in 0..40 {
                    let put = Op::Put { space: space.1, key: &key(number * 3), value: &[1; 90] };
                    let _ = store.write(&[put], Durability::Deferred);
                }
                let (start, end) = (key(60), key(90));
                let range = Op::DeleteRange { space: space.1, start: &start, end: Some(&end) };
                let _ = store.write(&[range], Durability::Immediate);
            }
        }
    }
}
