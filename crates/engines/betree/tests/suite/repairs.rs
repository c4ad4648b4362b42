//! A store whose log is damaged, or whose devices are older than its pool, opens again behind a repair, as it was at a
//! moment before, and goes on.

use std::fs;
use std::ops::ControlFlow;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use halite_betree::{Betree, BetreeOptions, REGISTRATION};
use halite_contract::{
    Direction, Durability, Engine, EngineOptions, Error, KeyRange, Op, RepairReport,
};
use halite_pmem::Domain;
use tempfile::TempDir;

/// Values that fill several memtables.
const NUMBERS: u32 = 400;

/// The beginning of a value.
const MARK: [u8; 8] = *b"a value:";

/// A store whose process is killed, that is damaged, and repaired.
struct Bench {
    folder: TempDir,
    domain: Domain,
}

impl Bench {
    fn new(domain: Domain) -> Self {
        Self { folder: tempfile::tempdir().unwrap(), domain }
    }

    fn options(&self) -> EngineOptions {
        let own = BetreeOptions { memtable_bytes: Some(64 << 10), ..BetreeOptions::default() };
        let mut options = EngineOptions::new(self.pool());
        options.pool_options.assume_domain = Some(self.domain);
        options.pool_options.size_max = 128 << 20;
        options.own = own.into();
        options
    }

    fn pool(&self) -> PathBuf {
        self.folder.path().join("pool")
    }

    /// Runs a store, and kills it: its files are what they were before it was closed.
    fn killed(&self, run: impl FnOnce(&Betree)) {
        let betree = Betree::open(&self.options()).unwrap();
        run(&betree);
        let copy = tempfile::tempdir().unwrap();
        copy_files(self.folder.path(), copy.path());
        drop(betree);
        self.restore(copy.path());
    }

    fn restore(&self, copy: &Path) {
        fs::remove_dir_all(self.folder.path().join("betree")).unwrap();
        copy_files(copy, self.folder.path());
    }

    fn repair(&self, for_good: bool) -> RepairReport {
        let beside = REGISTRATION.beside.as_ref().unwrap();
        (beside.repair)(&self.options(), for_good).unwrap()
    }

    /// The numbers that are in the store.
    fn numbers(&self) -> Vec<u32> {
        let betree = Betree::open(&self.options()).unwrap();
        let space = betree.key_space("space").unwrap();
        let all = betree.scan(space, KeyRange::all(), Direction::Forward).unwrap();
        let numbers = all.map(|pair| {
            let (key, value) = pair.unwrap();
            assert_eq!(value.len(), 1000);
            u32::from_be_bytes(key[..].try_into().unwrap())
        });
        let numbers = numbers.collect();
        let report = betree.verify(&mut |_, _| ControlFlow::Continue(())).unwrap();
        assert!(report.damage.is_empty(), "{:?}", report.damage);
        numbers
    }

    /// The places of all values in the log: the number, the file, and the offset.
    fn places(&self) -> Vec<(u32, PathBuf, u64)> {
        let folder = match self.domain {
            Domain::PageCache => self.folder.path().join("betree"),
            _ => self.folder.path().to_owned(),
        };
        let mut places = Vec::new();
        for path in fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
            let name = path.file_name().unwrap().to_string_lossy();
            if !name.starts_with("LOG") && name != "pool" {
                continue;
            }
            let bytes = fs::read(&path).unwrap();
            let values = bytes.windows(MARK.len()).enumerate().filter(|(_, bytes)| *bytes == MARK);
            for (at, _) in values {
                let number = bytes[at + MARK.len()..][..4].try_into().unwrap();
                places.push((u32::from_be_bytes(number), path.clone(), at as u64));
            }
        }
        places
    }

    /// Damages the newest value whose loss is told from the torn end of a crash. Returns its number.
    fn damage_needed(&self) -> u32 {
        let places = self.places();
        let flip = |number: u32| {
            for (_, path, at) in places.iter().filter(|(of, ..)| *of == number) {
                let file = fs::File::options().read(true).write(true).open(path).unwrap();
                let mut byte = [0];
                file.read_exact_at(&mut byte, at + 500).unwrap();
                file.write_all_at(&[byte[0] ^ 1], at + 500).unwrap();
            }
        };
        let mut numbers: Vec<u32> = places.iter().map(|(number, ..)| *number).collect();
        numbers.sort_unstable();
        numbers.dedup();
        let is_needed = |number: &u32| {
            flip(*number);
            let is_lost = !self.repair(false).is_whole();
            if !is_lost {
                flip(*number);
            }
            is_lost
        };
        numbers.into_iter().rev().find(is_needed).expect("the log has some that are needed")
    }
}

fn copy_files(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let path = entry.unwrap().path();
        let other = to.join(path.file_name().unwrap());
        match path.is_dir() {
            true => copy_files(&path, &other),
            false => drop(fs::copy(&path, &other).unwrap()),
        }
    }
}

fn value(number: u32) -> Vec<u8> {
    [&MARK[..], &number.to_be_bytes(), &[number as u8; 988]].concat()
}

fn put(betree: &Betree, numbers: std::ops::Range<u32>) {
    let space = betree.key_space("space").unwrap();
    for number in numbers {
        let (key, value) = (number.to_be_bytes(), value(number));
        let put = Op::Put { space, key: &key, value: &value };
        betree.write(&[put], Durability::Immediate).unwrap();
    }
}

/// Damages what the log has behind the last checkpoint.
fn repaired(domain: Domain) {
    let bench = Bench::new(domain);
    bench.killed(|betree| put(betree, 0..NUMBERS));
    assert!(bench.repair(false).is_whole());
    let lost = bench.damage_needed();
    let refused = Betree::open(&bench.options()).err().expect("the log is damaged");
    assert!(matches!(refused, Error::DamagedFile { .. }), "{refused}");
    for for_good in [false, true] {
        let report = bench.repair(for_good);
        assert!(report.lost.len() == 1 && !report.is_whole(), "{report:?}");
        assert_eq!(report.set_aside.is_empty(), domain != Domain::PageCache);
        if !for_good {
            assert!(Betree::open(&bench.options()).is_err(), "nothing was changed");
        }
    }
    // A checkpoint may have the damaged value, and some behind it.
    let kept = bench.numbers().len() as u32;
    assert!(kept >= lost);
    assert_eq!(bench.numbers(), (0..kept).collect::<Vec<_>>());
    for more in [5, 10] {
        bench.killed(|betree| put(betree, kept..kept + more));
        assert_eq!(bench.numbers(), (0..kept + more).collect::<Vec<_>>());
    }
    assert!(bench.repair(true).is_whole());
}

#[test]
fn a_store_goes_on_before_the_damage_of_its_log_in_files() {
    repaired(Domain::PageCache);
}

#[test]
fn a_store_goes_on_before_the_damage_of_its_log_in_the_pool() {
    repaired(Domain::Process);
}

#[test]
fn devices_that_are_older_than_the_pool_are_gone_on_with_when_that_is_asked_for() {
    let bench = Bench::new(Domain::PageCache);
    bench.killed(|betree| put(betree, 0..10));
    drop(Betree::open(&bench.options()).unwrap());
    let old = tempfile::tempdir().unwrap();
    copy_files(&bench.folder.path().join("betree"), old.path());
    for _ in 0..2 {
        let betree = Betree::open(&bench.options()).unwrap();
        put(&betree, 10..20);
    }
    let name = "data-0";
    fs::copy(old.path().join(name), bench.folder.path().join("betree").join(name)).unwrap();
    assert!(Betree::open(&bench.options()).is_err());
    let report = bench.repair(true);
    assert!(report.lost.len() == 1 && report.set_aside.is_empty(), "{report:?}");
    let numbers = bench.numbers();
    assert!(numbers.len() >= 10 && numbers.iter().copied().eq(0..numbers.len() as u32));
    bench.killed(|betree| put(betree, 10..30));
    assert_eq!(bench.numbers(), (0..30).collect::<Vec<_>>());
}
