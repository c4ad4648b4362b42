//! Scans of damaged records.

use std::fs::{self, File};
use std::os::unix::fs::FileExt;

use halite_contract::{Direction, Durability, Engine, EngineOptions, Error, KeyRange, Op};
use halite_lsm::{Durable, Lsm, LsmOptions};

const KEYS: usize = 300;

/// The one that is damaged.
const DAMAGED: usize = 150;

fn key(number: usize) -> Vec<u8> {
    format!("key {number:03}, and so on").into_bytes()
}

fn value(number: usize) -> Vec<u8> {
    format!("the value of number {number:03}, longer than what lies in place").into_bytes()
}

/// Changes a byte in the pool's file, at the end of the only place that has these bytes.
fn damage(pool: &std::path::Path, bytes: &[u8]) {
    let all = fs::read(pool).unwrap();
    let places: Vec<_> = (0..all.len()).filter(|&at| all[at..].starts_with(bytes)).collect();
    let &[place] = &places[..] else { panic!("{} places", places.len()) };
    let last = place + bytes.len() - 1;
    let file = File::options().write(true).open(pool).unwrap();
    file.write_all_at(&[all[last] ^ 1], last as u64).unwrap();
}

#[test]
fn a_scan_ends_at_a_damaged_record_and_tells_of_it() {
    for of in [key, value] {
        let folder = tempfile::tempdir().unwrap();
        let pool = folder.path().join("pool");
        // The records are those of the pool's file.
        let lsm = LsmOptions { durable: Durable::Pool, ..LsmOptions::default() };
        let options = EngineOptions { own: lsm.into(), ..EngineOptions::new(pool.clone()) };
        let engine = Lsm::open(&options).unwrap();
        let space = engine.key_space("space").unwrap();
        for number in 0..KEYS {
            let op = Op::Put { space, key: &key(number), value: &value(number) };
            engine.write(&[op], Durability::Immediate).unwrap();
        }
        damage(&pool, &of(DAMAGED));
        for direction in [Direction::Forward, Direction::Reverse] {
            let mut scan = engine.scan(space, KeyRange::all(), direction).unwrap();
            let (before, step) = match direction {
                Direction::Forward => ((0..DAMAGED).collect::<Vec<_>>(), "forward"),
                Direction::Reverse => ((DAMAGED + 1..KEYS).rev().collect(), "in reverse"),
            };
            for number in before {
                let (found, its) = scan.next().unwrap().unwrap();
                assert_eq!((&found[..], &its[..]), (&key(number)[..], &value(number)[..]));
            }
            let told = scan.next();
            assert!(matches!(told, Some(Err(Error::Damaged { .. }))), "{step}: {told:?}");
            assert!(scan.next().is_none(), "{step}");
        }
    }
}
