//! The cost of operations, counted in steps along lists and trees whose length grows with a store's history: removals
//! of ranges, snapshots, scans, key spaces. Tests compare the count after few of them with that after many.

pub(crate) use halite_sim::cost::{counted, step};

#[cfg(test)]
pub(crate) use halite_sim::cost::of;

#[cfg(test)]
mod tests {
    use std::any::Any;

    use crate::options::LsmOptions;
    use halite_contract::{
        Direction, Durability, Engine, EngineOptions, Expectation, KeyRange, KeySpaceId, Op,
        Snapshots, Transactional,
    };
    use halite_disk::{Disk, DiskModel};
    use halite_pmem::{Domain, Medium, PoolOptions};

    use super::*;
    use crate::Lsm;
    use crate::encoded::Encoded;

    const FEW: u64 = 100;

    const MANY: u64 = 10_000;

    const KEYS: u64 = 64;

    /// A change of the store whose effect on the cost is counted; returns the reader that stays open behind it.
    type Event = fn(&Lsm, KeySpaceId, u64) -> Option<Box<dyn Any>>;

    /// A store without threads, so that all that it does is counted.
    fn open() -> Lsm {
        const POOL: u64 = 64 << 20;
        let medium = Medium::new(Domain::Memory, POOL).unwrap();
        let mut pool_options = PoolOptions::default();
        pool_options.size_max = POOL;
        let lsm = LsmOptions { ..LsmOptions::default() };
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

    fn put(engine: &Lsm, space: KeySpaceId, key: &[u8]) {
        engine.write(&[Op::Put { space, key, value: b"value" }], Durability::Deferred).unwrap();
    }

    /// Removes a range by one record.
    fn remove_range(engine: &Lsm, space: KeySpaceId, start: &[u8], end: &[u8]) {
        let space = space.0.to_be_bytes();
        let mut encoded = Encoded::default();
        encoded.push_range(0, [&space, start], [&space, end]);
        engine.store.commit(&mut encoded, Durability::Deferred, None).unwrap();
    }

    const EVENTS: [(&str, Event); 8] = [
        ("one range removed again and again", |engine, space, _| {
            remove_range(engine, space, b"", b"\xff");
            None
        }),
        ("ranges removed beside each other", |engine, space, n| {
            remove_range(engine, space, &(n * 2).to_be_bytes(), &(n * 2 + 1).to_be_bytes());
            None
        }),
        ("ranges removed within each other", |engine, space, n| {
            remove_range(engine, space, &n.to_be_bytes(), b"\xff");
            None
        }),
        ("keys removed", |engine, space, n| {
            let key = [b"x", &n.to_be_bytes()[..]].concat();
            engine.write(&[Op::Delete { space, key: &key }], Durability::Deferred).unwrap();
            None
        }),
        ("open snapshots", |engine, space, n| {
            put(engine, space, &[b"x", &n.to_be_bytes()[..]].concat());
            Some(Box::new(engine.snapshot().unwrap()))
        }),
        ("open scans", |engine, space, n| {
            put(engine, space, &[b"x", &n.to_be_bytes()[..]].concat());
            let mut scan = engine.scan(space, KeyRange::all(), Direction::Forward).unwrap();
            assert!(scan.next().is_some());
            Some(Box::new(scan))
        }),
        ("key spaces", |engine, _, n| {
            engine.key_space(&format!("another {n}")).unwrap();
            None
        }),
        ("committed transactions", |engine, space, n| {
            let snapshot = engine.snapshot().unwrap();
            let key = [b"x", &n.to_be_bytes()[..]].concat();
            let expected =
                Expectation { snapshot: &*snapshot, keys: &[(space, &key[..])], ranges: &[] };
            let op = Op::Put { space, key: &key, value: b"value" };
            engine.write_if(&[op], Durability::Deferred, &[expected]).unwrap();
            None
        }),
    ];

    type Operation = fn(&Lsm, KeySpaceId, &[u8]);

    const OPERATIONS: [(&str, Operation); 11] = [
        ("a get", |engine, space, key| {
            assert!(engine.get(space, key).unwrap().is_some());
        }),
        ("a get of nothing", |engine, space, _| {
            assert!(engine.get(space, b"nothing").unwrap().is_none());
        }),
        ("a put", put),
        ("a removal", |engine, space, key| {
            engine.write(&[Op::Delete { space, key }], Durability::Deferred).unwrap();
            put(engine, space, key);
        }),
        ("the begin of a scan and ten pairs", |engine, space, _| {
            let scan = engine.scan(space, KeyRange::prefix(b"a"), Direction::Forward).unwrap();
            assert_eq!(scan.take(10).filter(Result::is_ok).count(), 10);
        }),
        ("ten pairs in reverse", |engine, space, _| {
            let scan = engine.scan(space, KeyRange::prefix(b"a"), Direction::Reverse).unwrap();
            assert_eq!(scan.take(10).filter(Result::is_ok).count(), 10);
        }),
        ("a snapshot", |engine, _, _| drop(engine.snapshot().unwrap())),
        ("a get and a scan of a snapshot", |engine, space, key| {
            let snapshot = engine.snapshot().unwrap();
            assert!(snapshot.get(space, key).unwrap().is_some());
            let scan = snapshot.scan(space, KeyRange::prefix(b"a"), Direction::Forward).unwrap();
            assert_eq!(scan.take(10).filter(Result::is_ok).count(), 10);
        }),
        ("a key space by name", |engine, space, _| {
            assert_eq!(engine.key_space("space").unwrap(), space);
        }),
        ("a new key space, and its end", |engine, _, _| {
            let space = engine.key_space("for a moment").unwrap();
            engine.drop_key_space(space).unwrap();
        }),
        ("a transaction", |engine, space, key| {
            let snapshot = engine.snapshot().unwrap();
            let ranges = [(space, KeyRange::prefix(b"a1"))];
            let expected =
                Expectation { snapshot: &*snapshot, keys: &[(space, key)], ranges: &ranges };
            let op = Op::Put { space, key, value: b"value" };
            engine.write_if(&[op], Durability::Deferred, &[expected]).unwrap();
        }),
    ];

    /// The most steps of each operation after so many events, in the memtable where they were and in the global index.
    fn steps(event: Event, events: u64) -> Vec<(String, u64)> {
        let engine = open();
        let space = engine.key_space("space").unwrap();
        let open: Vec<_> = (0..events).map(|n| event(&engine, space, n)).collect();
        let keys: Vec<_> = (0..KEYS).map(|n| format!("a{n:02}").into_bytes()).collect();
        keys.iter().for_each(|key| put(&engine, space, key));
        let mut most = Vec::new();
        for place in ["memtable", "global index"] {
            for (name, operation) in OPERATIONS {
                let steps = keys.iter().map(|key| of(|| operation(&engine, space, key)));
                most.push((format!("{name}, {place}"), steps.max().unwrap_or(0)));
            }
            engine.store.roll_all().unwrap();
            engine.store.merge_all().unwrap();
            assert!(!engine.store.has_immutables());
        }
        drop(open);
        most
    }

    #[test]
    fn no_operation_costs_more_than_the_logarithm_of_what_the_store_went_through() {
        for (what, event) in EVENTS {
            let (few, many) = (steps(event, FEW), steps(event, MANY));
            for ((name, few), (_, many)) in few.into_iter().zip(many) {
                // A treap has another shape in each process: some 20 searches may each take 20 steps more. An operation
                // whose cost is linear takes 10,000 steps.
                assert!(
                    many <= few * 3 + 500,
                    "{name}: {few} steps after {FEW} of {what}, {many} after {MANY}"
                );
            }
        }
    }

    #[test]
    fn a_removal_of_a_range_looks_at_a_bounded_number_of_keys_and_writes_one_record_for_many() {
        let engine = open();
        let space = engine.key_space("space").unwrap();
        let flush = || {
            let op = Op::DeleteRange { space, start: b"", end: None };
            engine.write(&[op], Durability::Deferred).unwrap();
        };
        let records = || engine.store.trees[0].view().active.zones.used_bytes();
        let before = records();
        flush();
        assert_eq!(records(), before, "there is nothing to remove");
        for n in 0..MANY {
            put(&engine, space, &n.to_be_bytes());
            engine
                .write(&[Op::Delete { space, key: &n.to_be_bytes() }], Durability::Deferred)
                .unwrap();
        }
        for _ in 0..3 {
            let before = records();
            let steps = of(flush);
            assert!(steps < 4_000, "{steps} steps");
            assert!(records() - before <= 2 * halite_pmem::LINE, "more than one record");
        }
        assert_eq!(engine.len(space).unwrap(), 0);
    }

    #[test]
    fn a_merge_looks_at_each_snapshot_once() {
        let merge = |snapshots: u64| {
            let engine = open();
            let space = engine.key_space("space").unwrap();
            let open: Vec<_> = (0..snapshots)
                .map(|n| {
                    put(&engine, space, &n.to_be_bytes());
                    engine.snapshot().unwrap()
                })
                .collect();
            for _ in 0..2 {
                engine.store.roll_all().unwrap();
                engine.store.merge_all().unwrap();
                (0..1_000_u64).for_each(|n| put(&engine, space, &n.to_be_bytes()));
            }
            engine.store.roll_all().unwrap();
            let steps = of(|| assert!(engine.store.merge_all().unwrap()));
            drop(open);
            steps
        };
        let (few, many) = (merge(FEW), merge(MANY));
        assert!(many <= few * 3 + 2 * MANY, "{few} steps of {FEW} snapshots, {many} of {MANY}");
    }
}
