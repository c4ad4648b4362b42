//! Large values are written once, to files of their own, and these are removed when no version needs them.

use std::ops::ControlFlow;
use std::sync::Arc;

use halite_alloc::Segments;
use halite_contract::{
    Direction, Durability, Engine, EngineOptions, Error, Expectation, KeyRange, KeySpaceId, Op,
};
use halite_disk::{Disk, DiskModel};
use halite_lsm::{Durable, Lsm, LsmOptions};
use halite_pmem::{Domain, Medium, PoolOptions};
use halite_sim::Failures;

/// Bytes from which on values are large here.
const LARGE: usize = 10_000;

const MODES: [Durable; 2] = [Durable::Pool, Durable::Log];

/// A store on a modelled medium, where it has no threads.
struct Home {
    medium: Medium,
    /// Its files, shared by all openings.
    disk: Disk,
    durable: Durable,
}

impl Home {
    fn new(durable: Durable) -> Self {
        let medium = Medium::new(Domain::Memory, 64 << 20).unwrap();
        let disk = Disk::model(&DiskModel::of(medium.machine()));
        Self { medium, disk, durable }
    }

    fn options(&self) -> EngineOptions {
        let mut pool_options = PoolOptions::default();
        pool_options.size_max = 64 << 20;
        pool_options.medium = Some(self.medium.clone());
        let lsm = LsmOptions {
            durable: self.durable,
            memtable_bytes: Some(4 << 10),
            global_index_bytes: Some(4 << 10),
            table_bytes: Some(8 << 10),
            large_value_bytes: Some(LARGE as u64),
            ..LsmOptions::default()
        };
        EngineOptions {
            pool_options,
            disk: Some(self.disk.clone()),
            own: lsm.into(),
            ..EngineOptions::new("pool")
        }
    }

    fn open(&self) -> Open {
        let engine = Lsm::open(&self.options()).unwrap();
        assert!(engine.stats().recovery.damage.is_empty());
        let space = engine.key_space("space").unwrap();
        Open { engine: Arc::new(engine), space }
    }

    /// Names of the files that have large values.
    fn files(&self) -> Vec<String> {
        let list = self.disk.list().unwrap().into_iter();
        list.map(|(name, _)| name).filter(|name| name.contains(".val")).collect()
    }
}

struct Open {
    engine: Arc<dyn Engine>,
    space: KeySpaceId,
}

impl Open {
    fn put_with(&self, key: &str, value: &[u8], durability: Durability) {
        let op = Op::Put { space: self.space, key: key.as_bytes(), value };
        self.engine.write(&[op], durability).unwrap();
    }

    fn put(&self, key: &str, value: &[u8]) {
        self.put_with(key, value, Durability::Immediate);
    }

    fn delete(&self, key: &str) {
        let op = Op::Delete { space: self.space, key: key.as_bytes() };
        self.engine.write(&[op], Durability::Immediate).unwrap();
    }

    fn get(&self, key: &str) -> halite_contract::Result<Option<Vec<u8>>> {
        Ok(self.engine.get(self.space, key.as_bytes())?.map(|value| value.to_vec()))
    }

    /// Brings the content of memory to the levels, and compacts them.
    fn sink(&self) {
        for round in 0..3 {
            for number in 0..12 {
                self.put(&format!("filler {number}"), &[round; 900]);
            }
            while self.engine.collect_ahead(0).unwrap() {}
        }
    }

    fn damage(&self) -> Vec<String> {
        let report = self.engine.verify(&mut |_, _| ControlFlow::Continue(())).unwrap();
        report.damage.into_iter().map(|damage| damage.what).collect()
    }
}

fn value(seed: usize, len: usize) -> Vec<u8> {
    (0..len).map(|at| (at * 31 + seed * 7 + at / 251) as u8).collect()
}

/// A folder whose names cannot be made durable takes no table either: writes end at once, not when memory is full.
#[test]
fn a_folder_that_cannot_be_synced_ends_all_writes() {
    const EIO: i32 = 5;
    let mut ended = 0;
    for after in 0.. {
        let folder = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap();
        let failures = Failures::default();
        let levels = folder.path().join("levels");
        let disk = Disk::failing_folder(&levels, true, Some(failures.clone())).unwrap();
        let lsm = LsmOptions {
            durable: Durable::Pool,
            large_value_bytes: Some(LARGE as u64),
            ..LsmOptions::default()
        };
        let pool = folder.path().join("pool");
        let engine = Lsm::open(&EngineOptions {
            disk: Some(disk.clone()),
            own: lsm.into(),
            ..EngineOptions::new(pool)
        })
        .unwrap();
        let space = engine.key_space("space").unwrap();
        let put = |len: usize| {
            let op = Op::Put { space, key: b"key", value: &value(1, len) };
            engine.write(&[op], Durability::Immediate)
        };
        failures.fail(after, 1, EIO);
        let large = put(LARGE);
        failures.stop();
        if failures.failed().is_empty() {
            break;
        }
        let Err(error) = large else { continue };
        assert!(error.to_string().contains("os error 5"), "{error}");
        if disk.check_synced().is_ok() {
            // Only this file failed.
            put(10).unwrap();
            put(LARGE).unwrap();
        } else {
            ended += 1;
            for len in [10, LARGE] {
                let refused = put(len).unwrap_err();
                assert!(matches!(refused, Error::Poisoned { .. }), "{refused}");
                assert!(refused.to_string().contains("cannot sync the folder"), "{refused}");
            }
        }
    }
    assert_eq!(ended, 1);
}

#[test]
fn a_large_value_is_written_once_and_read_wherever_its_record_is() {
    for durable in MODES {
        let home = Home::new(durable);
        let mut open = home.open();
        let values = [value(1, 700_000), value(2, LARGE), value(3, LARGE - 1)];
        let keys = ["a", "b", "c"];
        let check = |open: &Open| {
            for (key, value) in keys.iter().zip(&values) {
                assert_eq!(open.get(key).unwrap().as_ref(), Some(value), "{durable:?}");
            }
            for direction in [Direction::Forward, Direction::Reverse] {
                let range = KeyRange::new(b"a", Some(b"d".to_vec()));
                let scan = open.engine.scan(open.space, range, direction).unwrap();
                let mut pairs: Vec<_> = scan.map(|pair| pair.unwrap().1.to_vec()).collect();
                if direction == Direction::Reverse {
                    pairs.reverse();
                }
                assert_eq!(pairs, values, "{durable:?}");
            }
            assert_eq!(home.files().len(), 2, "{durable:?}");
            assert!(open.damage().is_empty());
        };
        let before = home.disk.traffic();
        for (key, value) in keys.iter().zip(&values) {
            open.put(key, value);
        }
        check(&open);
        drop(open);
        open = home.open();
        check(&open);
        for _ in 0..2 {
            open.sink();
            check(&open);
            drop(open);
            open = home.open();
            check(&open);
        }
        let stats = open.engine.stats();
        let figures = ["value_file_bytes", "level_bytes"].map(|name| stats.figure(name).unwrap());
        assert!(figures[0] > 700_000 && figures[1] > 0, "{figures:?}");
        let written = (home.disk.traffic() - before).bytes_written;
        assert!((710_000..1_200_000).contains(&written), "{durable:?}: {written}");
    }
}

#[test]
fn what_is_overwritten_or_removed_in_memory_gives_its_room_back_at_once() {
    for durable in MODES {
        let home = Home::new(durable);
        let open = home.open();
        for number in 0..16 {
            open.put(["a", "b"][number % 2], &value(number, LARGE));
            assert_eq!(home.files().len(), (number + 1).min(2), "{durable:?}");
        }
        let snapshot = open.engine.snapshot().unwrap();
        open.put("a", b"short");
        open.delete("b");
        assert_eq!(open.get("a").unwrap().as_deref(), Some(&b"short"[..]));
        assert_eq!(home.files().len(), 2, "a snapshot sees them");
        let seen = snapshot.get(open.space, b"b").unwrap().unwrap();
        assert_eq!(seen.to_vec(), value(15, LARGE));
        drop(snapshot);
        assert!(home.files().is_empty(), "{durable:?} {:?}", home.files());

        open.put("a", &value(1, LARGE));
        open.put_with("a", b"", Durability::Deferred);
        assert_eq!(home.files().len(), 1, "what hides it is not durable");
        open.engine.sync().unwrap();
        assert!(home.files().is_empty(), "{durable:?}");

        open.put("a", &value(1, LARGE));
        let range = Op::DeleteRange { space: open.space, start: b"", end: None };
        open.engine.write(&[range], Durability::Immediate).unwrap();
        assert!(home.files().is_empty(), "{durable:?}");
        open.put("a", &value(1, LARGE));
        open.engine.drop_key_space(open.space).unwrap();
        assert!(home.files().is_empty(), "{durable:?}");
        drop(open);
        assert!(home.open().damage().is_empty());
    }
}

#[test]
fn what_is_overwritten_gives_its_room_back_though_nothing_is_synced() {
    for durable in MODES {
        let home = Home::new(durable);
        let open = home.open();
        open.put("a", &value(1, LARGE));
        open.put_with("a", b"short", Durability::Deferred);
        assert_eq!(home.files().len(), 1, "{durable:?}");
        // Memtables become full.
        for number in 0..12 {
            open.put_with(&format!("filler {number}"), &[7; 900], Durability::Deferred);
        }
        while open.engine.collect_ahead(0).unwrap() {}
        open.put_with("b", b"", Durability::Deferred);
        assert!(home.files().is_empty(), "{durable:?}");
    }
}

#[test]
fn what_is_overwritten_in_the_levels_gives_its_room_back_when_they_are_compacted() {
    for durable in MODES {
        let home = Home::new(durable);
        let open = home.open();
        open.put("a", &value(1, LARGE));
        open.put("b", &value(2, LARGE));
        open.sink();
        open.delete("a");
        open.put("b", &value(3, LARGE));
        assert_eq!(home.files().len(), 3, "{durable:?}");
        for _ in 0..8 {
            open.sink();
        }
        assert_eq!(home.files().len(), 1, "{durable:?}");
        drop(open);
        let open = home.open();
        assert_eq!(open.get("a").unwrap(), None);
        assert_eq!(open.get("b").unwrap(), Some(value(3, LARGE)));
        assert!(open.damage().is_empty());
    }
}

#[test]
fn a_record_whose_file_is_gone_as_it_is_hidden_brings_nothing_to_the_levels() {
    for durable in MODES {
        let home = Home::new(durable);
        let open = home.open();
        // Each is in a memtable of its own when it is hidden.
        for number in 0..6 {
            open.put("a", &value(number, LARGE));
            for filler in 0..6 {
                open.put(&format!("filler {filler}"), &[7; 900]);
            }
        }
        open.delete("a");
        assert!(home.files().is_empty());
        drop(open);
        let open = home.open();
        open.sink();
        assert_eq!(open.get("a").unwrap(), None);
        assert!(open.damage().is_empty(), "{durable:?}: {:?}", open.damage());
        drop(open);
        assert_eq!(home.open().get("a").unwrap(), None);
    }
}

#[test]
fn a_batch_that_does_not_happen_leaves_no_file() {
    let home = Home::new(Durable::Pool);
    let open = home.open();
    open.put("a", b"1");
    let snapshot = open.engine.snapshot().unwrap();
    open.put("a", b"2");
    let large = value(1, LARGE);
    let op = Op::Put { space: open.space, key: b"a", value: &large };
    let keys = [(open.space, &b"a"[..])];
    let expected = Expectation { snapshot: &*snapshot, keys: &keys, ranges: &[] };
    let refused = open.engine.write_if(&[op], Durability::Immediate, &[expected]);
    assert!(matches!(refused, Err(Error::Conflict { .. })));
    assert!(home.files().is_empty());
}

#[test]
fn a_file_that_is_lost_or_damaged_is_named_and_others_are_read() {
    for durable in MODES {
        for sunk in [false, true] {
            let home = Home::new(durable);
            let open = home.open();
            open.put("a", &value(1, LARGE));
            open.put("b", &value(2, LARGE));
            if sunk {
                open.sink();
            }
            drop(open);
            let disk = &home.disk;
            let name = home.files()[0].clone();
            let file = disk.open(&name).unwrap();
            let mut whole = vec![0; file.len() as usize];
            file.read_at(0, &mut whole).unwrap();
            let mut flipped = whole.clone();
            flipped[LARGE / 2] ^= 1;
            let mut foreign = whole.clone();
            foreign[20] ^= 1;
            let damages = [None, Some(&whole[..LARGE]), Some(&flipped), Some(&foreign), Some(&[])];
            for damage in damages {
                disk.remove(&name).unwrap();
                if let Some(bytes) = damage {
                    let mut writer = disk.create(&name).unwrap();
                    writer.write(bytes).unwrap();
                    writer.sync().unwrap();
                }
                let engine = Lsm::open(&home.options()).unwrap();
                let space = engine.key_space("space").unwrap();
                let open = Open { engine: Arc::new(engine), space };
                let error = open.get("a").unwrap_err();
                assert!(error.to_string().contains(&name), "{error}");
                assert_eq!(open.get("b").unwrap(), Some(value(2, LARGE)));
                assert!(
                    open.damage().iter().any(|what| what.contains(&name)),
                    "{:?}",
                    open.damage()
                );
                drop(open);
                if damage.is_none() {
                    disk.create(&name).unwrap().sync().unwrap();
                }
            }
            disk.remove(&name).unwrap();
            let mut writer = disk.create(&name).unwrap();
            writer.write(&whole).unwrap();
            writer.sync().unwrap();
            let open = home.open();
            assert_eq!(open.get("a").unwrap(), Some(value(1, LARGE)));
            open.put("a", b"anew");
            assert!(open.damage().is_empty());
        }
    }
}

#[test]
fn files_that_nothing_refers_to_go_when_the_store_opens_and_those_of_others_stay() {
    for durable in MODES {
        let home = Home::new(durable);
        let open = home.open();
        open.put("a", &value(1, LARGE));
        let disk = &home.disk;
        let name = home.files()[0].clone();
        let file = disk.open(&name).unwrap();
        let mut whole = vec![0; file.len() as usize];
        file.read_at(0, &mut whole).unwrap();
        let put = |name: &str, bytes: &[u8]| {
            let mut writer = disk.create(name).unwrap();
            writer.write(bytes).unwrap();
            writer.sync().unwrap();
        };
        open.delete("a");
        drop(open);
        // The removal was not durable.
        put(&name, &whole);
        put("000900.val.tmp", &whole[..100]);
        put("000901.val", b"of somebody else");
        let engine = Lsm::open(&home.options()).unwrap();
        assert_eq!(home.files(), ["000901.val"]);
        assert_eq!(engine.stats().recovery.foreign_files, ["levels/000901.val"]);
        let space = engine.key_space("space").unwrap();
        assert_eq!(engine.get(space, b"a").unwrap(), None);
    }
}

/// Cuts all files of the store whose names begin or end so.
fn empty_files(disk: &Disk, is_meant: impl Fn(&str) -> bool) {
    let names = disk.list().unwrap().into_iter().map(|(name, _)| name);
    let names: Vec<_> = names.filter(|name| is_meant(name)).collect();
    assert!(!names.is_empty());
    names.iter().for_each(|name| disk.append(name, 0).unwrap().sync().unwrap());
}

#[test]
fn files_that_only_what_a_repair_lost_refers_to_are_set_aside() {
    for (durable, is_sunk) in [(Durable::Log, false), (Durable::Log, true), (Durable::Pool, true)] {
        let home = Home::new(durable);
        let open = home.open();
        open.put("a", &value(1, LARGE));
        if is_sunk {
            open.sink();
        }
        drop(open);
        let name = home.files().remove(0);
        let read = |name: &str| {
            let file = home.disk.open(name).unwrap();
            let mut bytes = vec![0; file.len() as usize];
            file.read_at(0, &mut bytes).unwrap();
            bytes
        };
        let whole = read(&name);
        match is_sunk {
            true => empty_files(&home.disk, |name| {
                name.starts_with("MANIFEST-") || name.ends_with(".sst")
            }),
            false => empty_files(&home.disk, |name| name.starts_with("LOG-")),
        }
        let Err(error) = Lsm::open(&home.options()) else { panic!("it is damaged") };
        assert!(error.damage().is_some(), "{error}");
        let report = Lsm::repair(&home.options()).unwrap();
        assert!(!report.lost.is_empty(), "{durable:?} {report:?}");
        let aside = format!("{name}.damaged");
        for _ in 0..2 {
            let open = home.open();
            assert_eq!(open.get("a").unwrap(), None, "{durable:?}");
            assert_eq!(home.files(), [&*aside], "{durable:?}");
        }
        assert_eq!(read(&aside), whole);
        // From then on, openings remove files that nothing refers to.
        let open = home.open();
        open.put("a", &value(2, LARGE));
        let name = home.files().into_iter().find(|name| *name != aside).unwrap();
        let second = read(&name);
        open.delete("a");
        drop(open);
        let mut writer = home.disk.create(&name).unwrap();
        writer.write(&second).unwrap();
        writer.sync().unwrap();
        assert_eq!(home.files().len(), 2);
        home.open();
        assert_eq!(home.files(), [&*aside], "{durable:?}");
    }
}

#[test]
fn a_store_has_the_format_of_before_until_it_has_a_large_value() {
    let home = Home::new(Durable::Pool);
    let version = || {
        let options = home.options();
        Segments::open(&options.pool, &options.pool_options).unwrap().root("engine:lsm")
    };
    let open = home.open();
    open.put("a", &value(1, LARGE - 1));
    drop(open);
    assert_eq!(version(), Some(2));
    let open = home.open();
    open.put("a", &value(1, LARGE));
    drop(open);
    assert_eq!(version(), Some(3));
    assert_eq!(home.open().get("a").unwrap(), Some(value(1, LARGE)));
}
