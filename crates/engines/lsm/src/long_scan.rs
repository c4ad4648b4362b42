//! A scan that may take as long as its reader likes, and keeps no room from writers.
//!
//! A [`TreeScan`] keeps the memtables that it reads. A thread that makes room has all scans let go of theirs
//! (`long_scans`): a scan that is not being asked for a pair does at once, another before its next key. A scan that let
//! go begins anew behind the key that it returned last. It finds the same pairs: the state that it reads is
//! registered ([`ReadAt`]), so all versions of that are kept, wherever they move.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};

use halite_contract::{Bytes, Direction, Error, Result};
use halite_sim::locks::Mutex;

use crate::long_scans::Lease;
use crate::scan::{ReadAt, TreeScan};

/// A scan of one tree's keys in a state.
pub(crate) struct LongScan {
    at: Arc<ReadAt>,
    tree: usize,
    lease: Arc<Kept>,
    /// Its number among the store's scans.
    number: u64,
}

/// The part of a scan that can be taken from it.
struct Kept {
    left: Mutex<Left>,
    /// Whether the scan is to let go before the next key.
    is_wanted: AtomicBool,
}

/// The rest of a scan: a range, and a scan that is on its way through it.
struct Left {
    start: Vec<u8>,
    end: Vec<u8>,
    direction: Direction,
    /// None before it begins, and behind its end.
    scan: Option<TreeScan>,
    /// When it began, by the time of the store's `LongScans`.
    began: u64,
    /// The error that ended it while it let go.
    failure: Option<Error>,
}

impl Left {
    /// Lets go of the scan if it began before `time`, and notes where it was. Returns whether it did.
    fn let_go(&mut self, time: u64) -> bool {
        if self.began >= time {
            return false;
        }
        let Some(mut scan) = self.scan.take() else { return false };
        match (scan.told(), self.direction) {
            (Ok(Some(mut key)), Direction::Forward) => {
                key.push(0);
                self.start = key;
            }
            (Ok(Some(key)), Direction::Reverse) => self.end = key,
            (Ok(None), _) => self.end.clear(),
            (Err(error), _) => {
                self.failure = Some(error);
                self.end.clear();
            }
        }
        true
    }
}

impl Lease for Kept {
    fn let_go(&self, time: u64) -> bool {
        self.is_wanted.store(true, Ordering::Relaxed);
        // The thread that holds the lease is on its way to a key, and checks the flag before the next.
        self.left.try_lock().is_some_and(|mut left| left.let_go(time))
    }
}

impl LongScan {
    /// A scan from `start` up to `end`, both with their key space. It begins when it is asked for a pair.
    pub(crate) fn new(
        at: &Arc<ReadAt>,
        tree: usize,
        (start, end): (Vec<u8>, Vec<u8>),
        direction: Direction,
    ) -> Self {
        let left = Left { start, end, direction, scan: None, began: 0, failure: None };
        let (left, is_wanted) = (Mutex::new(left), AtomicBool::new(false));
        let lease = Arc::new(Kept { left, is_wanted });
        let number = at.store.scans.register(Arc::downgrade(&lease) as Weak<dyn Lease>);
        Self { at: Arc::clone(at), tree, lease, number }
    }

    /// Goes to the next key: its pair, or an inner `None` if it was removed. `None` behind the last key. After an
    /// error there are no more.
    pub(crate) fn step(&mut self, with_value: bool) -> Option<Result<Option<(Bytes, Bytes)>>> {
        let scans = &self.at.store.scans;
        let mut left = self.lease.left.lock();
        if self.lease.is_wanted.load(Ordering::Relaxed) {
            self.lease.is_wanted.store(false, Ordering::Relaxed);
            left.let_go(scans.time());
        }
        if let Some(error) = left.failure.take() {
            return Some(Err(error));
        }
        let Left { start, end, direction, scan, began, .. } = &mut *left;
        let mut told = Ok(None);
        if scan.is_none() && start < end {
            // The time is read before the scan finds its sources: it may keep those that are given back later.
            *began = scans.time();
            match TreeScan::new(&self.at, self.tree, start, end, *direction) {
                Ok(begun) => *scan = Some(begun),
                Err(error) => told = Err(error),
            }
        }
        if let Some(scan) = scan {
            told = scan.step(with_value);
        }
        if !matches!(told, Ok(Some(_))) {
            *scan = None;
            end.clear();
        }
        told.transpose()
    }
}

impl Iterator for LongScan {
    type Item = Result<(Bytes, Bytes)>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            match self.step(true)? {
                // The scan can let go before each key, removed or not.
                Ok(None) => {}
                Ok(Some(pair)) => return Some(Ok(pair)),
                Err(error) => return Some(Err(error)),
            }
        }
    }
}

impl Drop for LongScan {
    fn drop(&mut self) {
        self.at.store.scans.unregister(self.number);
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::fs::{self, File};
    use std::os::unix::fs::FileExt;
    use std::thread;

    use crate::options::{Durable, LsmOptions};
    use halite_contract::{Durability, Engine, EngineOptions, KeyRange, Op, Scan, SpaceManagement};
    use halite_disk::{Disk, DiskModel};
    use halite_pmem::{Domain, Medium, PoolOptions};
    use proptest::prelude::*;

    use super::*;
    use crate::Lsm;

    const POOL: u64 = 16 << 20;

    type Pair = (Vec<u8>, Vec<u8>);

    /// A step of a writer between two pairs of the scan.
    #[derive(Clone, Debug)]
    enum Step {
        Put(u8),
        Delete(u8),
        DeleteRange(u8, u8),
        /// Puts so many keys that a removal of them is one of a range, and much, so that memtables move on.
        Fill(u8),
        Collect,
        Begin(bool, u8),
        Next(prop::sample::Index, u8),
        LetGo,
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![
            3 => any::<u8>().prop_map(Step::Put),
            2 => any::<u8>().prop_map(Step::Delete),
            1 => (any::<u8>(), any::<u8>()).prop_map(|(a, b)| Step::DeleteRange(a.min(b), a.max(b))),
            4 => any::<u8>().prop_map(Step::Fill),
            2 => Just(Step::Collect),
            3 => (any::<bool>(), any::<u8>()).prop_map(|(is_forward, at)| Step::Begin(is_forward, at)),
            6 => (any::<prop::sample::Index>(), 0..8_u8).prop_map(|(scan, len)| Step::Next(scan, len)),
            3 => Just(Step::LetGo),
        ]
    }

    fn open() -> Lsm {
        let medium = Medium::new(Domain::Memory, POOL).unwrap();
        let mut pool_options = PoolOptions::default();
        pool_options.size_max = POOL;
        let lsm = LsmOptions {
            memtable_bytes: Some(1 << 20),
            global_index_bytes: Some(2 << 20),
            table_bytes: Some(64 << 10),
            ..LsmOptions::default()
        };
        let disk = Some(Disk::model(&DiskModel::of(medium.machine())));
        pool_options.medium = Some(medium);
        Lsm::open(&EngineOptions {
            pool_options,
            disk,
            own: lsm.into(),
            ..EngineOptions::new("pool")
        })
        .unwrap()
    }

    fn key(number: u8) -> Vec<u8> {
        vec![b'k'; usize::from(number % 3)].into_iter().chain([number]).collect()
    }

    #[test]
    fn a_scan_that_let_go_tells_of_a_record_that_it_was_to_come_to() {
        let folder = tempfile::tempdir().unwrap();
        let lsm = LsmOptions { durable: Durable::Pool, ..LsmOptions::default() };
        let options =
            EngineOptions { own: lsm.into(), ..EngineOptions::new(folder.path().join("pool")) };
        let engine = Lsm::open(&options).unwrap();
        let space = engine.key_space("space").unwrap();
        let key = |number: u32| format!("key {number:03}").into_bytes();
        let put = |number, value: &[u8]| {
            let op = Op::Put { space, key: &key(number), value };
            engine.write(&[op], Durability::Immediate).unwrap();
        };
        (0..300).for_each(|number| put(number, b"old"));
        engine.store.roll_all().unwrap();
        while !engine.store.trees[0].view().immutables.is_empty() {
            thread::yield_now();
        }
        put(150, b"the newest of its key");
        let pool = fs::read(&options.pool).unwrap();
        let value = pool.windows(21).position(|bytes| bytes == b"the newest of its key").unwrap();
        // 150 becomes 158, and is told where that is.
        let file = File::options().write(true).open(&options.pool).unwrap();
        file.write_all_at(b"8", value as u64 - 1).unwrap();
        let mut scan = engine.scan(space, KeyRange::all(), Direction::Forward).unwrap();
        (0..155).for_each(|_| drop(scan.next().unwrap().unwrap()));
        engine.store.scans.tick();
        assert!(engine.store.scans.let_go());
        assert!(matches!(scan.next(), Some(Err(Error::Damaged { .. }))));
        assert!(scan.next().is_none());
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

        #[test]
        fn a_scan_that_let_go_tells_what_it_would_have_told(
            steps in prop::collection::vec(step(), 1..120),
        ) {
            let engine = open();
            let space = engine.key_space("space").unwrap();
            let mut model = BTreeMap::<Vec<u8>, Vec<u8>>::new();
            let mut scans: Vec<(Scan, Vec<Pair>)> = Vec::new();
            let write = |op: Op<'_>| engine.write(&[op], Durability::Immediate).unwrap();
            for (number, step) in steps.into_iter().enumerate() {
                match step {
                    Step::Put(at) => {
                        let (key, value) = (key(at), number.to_le_bytes());
                        write(Op::Put { space, key: &key, value: &value });
                        model.insert(key, value.to_vec());
                    }
                    Step::Delete(at) => {
                        write(Op::Delete { space, key: &key(at) });
                        model.remove(&key(at));
                    }
                    Step::DeleteRange(from, to) => {
                        let (start, end) = (vec![from], vec![to]);
                        write(Op::DeleteRange { space, start: &start, end: Some(&end) });
                        model.retain(|key, _| !(start.as_slice()..&end).contains(&&key[..]));
                    }
                    Step::Fill(at) => {
                        let pairs = (0..300_u16).map(|n| {
                            let key = [&[at][..], &n.to_be_bytes()].concat();
                            (key, vec![at; if n == 0 { 500_000 } else { 500 }])
                        });
                        let pairs: Vec<Pair> = pairs.collect();
                        let put = |(key, value)| Op::Put { space, key, value };
                        let ops: Vec<_> =
                            pairs.iter().map(|(key, value)| put((&key[..], &value[..]))).collect();
                        engine.write(&ops, Durability::Immediate).unwrap();
                        model.extend(pairs);
                    }
                    Step::Collect => while engine.collect_ahead(0).unwrap() {},
                    Step::Begin(is_forward, at) => {
                        let range = KeyRange::new(vec![at], None::<Vec<u8>>);
                        let pairs = model.range(vec![at]..).map(|(k, v)| (k.clone(), v.clone()));
                        let (direction, left) = match is_forward {
                            true => (Direction::Forward, pairs.rev().collect()),
                            false => (Direction::Reverse, pairs.collect()),
                        };
                        scans.push((engine.scan(space, range, direction).unwrap(), left));
                    }
                    Step::Next(..) if scans.is_empty() => {}
                    Step::Next(at, len) => {
                        let (scan, left) = at.get_mut(&mut scans);
                        for _ in 0..len {
                            let told = scan.next().map(Result::unwrap);
                            let told = told.map(|(key, value)| (key.to_vec(), value.to_vec()));
                            prop_assert!(told == left.pop());
                        }
                    }
                    Step::LetGo => {
                        engine.store.scans.tick();
                        engine.store.scans.let_go();
                    }
                }
            }
            for (scan, mut left) in scans {
                engine.store.scans.tick();
                engine.store.scans.let_go();
                for told in scan {
                    let (key, value) = told.unwrap();
                    prop_assert!(left.pop() == Some((key.to_vec(), value.to_vec())));
                }
                prop_assert!(left.is_empty());
            }
        }
    }
}
