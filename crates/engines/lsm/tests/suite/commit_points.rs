//! The commit points after a crash: damage to a committed batch is reported, and not cut as if the batch had not been
//! finished.

use std::sync::Arc;

use halite_contract::{Durability, Engine, EngineOptions, Op};
use halite_disk::{Disk, DiskModel};
use halite_lsm::experiments::{CommitPoints, Experiments};
use halite_lsm::{Lsm, LsmOptions};
use halite_pmem::{Domain, Medium, PoolOptions};
use halite_sim::{Trace, What};

const CAPACITY: u64 = 32 << 20;

/// Bytes of a value, of which about 40 fill a zone.
const VALUE: usize = 50_000;

/// Bytes of memtables that have several zones.
const SEVERAL_ZONES: u64 = 16 << 20;

/// A store with one tree on a modelled medium.
fn open(medium: &Medium, memtable_bytes: u64) -> halite_contract::Result<Arc<dyn Engine>> {
    open_with(medium, LsmOptions { memtable_bytes: Some(memtable_bytes), ..LsmOptions::default() })
}

fn open_with(medium: &Medium, lsm: LsmOptions) -> halite_contract::Result<Arc<dyn Engine>> {
    let mut pool_options = PoolOptions::default();
    pool_options.size_max = CAPACITY;
    pool_options.medium = Some(medium.clone());
    let disk = Some(Disk::model(&DiskModel::of(medium.machine())));
    let options =
        EngineOptions { pool_options, disk, own: lsm.into(), ..EngineOptions::new("pool") };
    Ok(Arc::new(Lsm::open(&options)?))
}

fn key(number: u8) -> Vec<u8> {
    format!("key {number:03}").into_bytes()
}

fn value(number: u8) -> Vec<u8> {
    vec![number; VALUE]
}

/// The least that a power cut leaves of a medium: its earlier content, and the fenced bytes.
fn fenced(medium: &Medium, before: &[u8]) -> Vec<u8> {
    let mut trace = Trace::default();
    medium.machine().take_trace(&mut trace);
    let mut stored = before.to_vec();
    let mut fenced = stored.clone();
    for event in &trace.events {
        match event.what {
            What::Store { at, len, bytes, .. } => {
                stored[at as usize..][..len as usize].copy_from_slice(trace.stored(bytes, len));
            }
            What::Fence { first, count } => {
                for &(at, len) in trace.fenced(first, count) {
                    let range = at as usize..(at + len) as usize;
                    fenced[range.clone()].copy_from_slice(&stored[range]);
                }
            }
            What::SyncFile => fenced.copy_from_slice(&stored),
            _ => {}
        }
    }
    fenced
}

/// Writes so many values, syncs no commit points for them, and cuts the power.
fn crashed(values: u8, durability: impl Fn(u8) -> Durability) -> (Medium, Vec<u8>) {
    let medium = Medium::new(Domain::Memory, CAPACITY).unwrap();
    let engine = open(&medium, SEVERAL_ZONES).unwrap();
    let space = engine.key_space("space").unwrap();
    for number in 1..=values {
        let put = Op::Put { space, key: &key(number), value: &value(number) };
        engine.write(&[put], durability(number)).unwrap();
    }
    let left = cut(&medium, engine);
    (medium, left)
}

/// Cuts the power of a newly created store. Returns the bytes that are certainly left.
fn cut(medium: &Medium, engine: Arc<dyn Engine>) -> Vec<u8> {
    cut_opened(medium, engine, &vec![0; CAPACITY as usize])
}

/// Does as [`cut`], of a store that was opened on these bytes.
fn cut_opened(medium: &Medium, engine: Arc<dyn Engine>, before: &[u8]) -> Vec<u8> {
    medium.machine().cut_power();
    drop(engine);
    let left = fenced(medium, before);
    medium.restore_power();
    left
}

/// Opens a store on these bytes, and reads values up to one that is not there.
fn found(medium: &Medium, bytes: &[u8]) -> halite_contract::Result<u8> {
    medium.restore(medium.file(), [(0, bytes)]);
    let engine = open(medium, SEVERAL_ZONES)?;
    let (_, space) = engine.key_spaces()?.into_iter().next().expect("it was durable");
    let mut count = 0;
    while let Some(found) = engine.get(space, &key(count + 1))? {
        assert_eq!(found, value(count + 1));
        count += 1;
    }
    cut(medium, engine);
    Ok(count)
}

/// Where a value lies.
fn place(bytes: &[u8], number: u8) -> usize {
    let looks_so = |run: &[u8]| run.iter().all(|byte| *byte == number);
    (0..bytes.len()).step_by(64).find(|at| looks_so(&bytes[*at..*at + 128])).unwrap()
}

#[test]
fn damage_in_an_older_zone_is_told_after_a_crash() {
    const VALUES: u8 = 100;
    let deferred = |number: u8| match number % 7 {
        0 => Durability::Immediate,
        _ => Durability::Deferred,
    };
    let synced_at_last = |number: u8| match number {
        VALUES => Durability::Immediate,
        _ => Durability::Deferred,
    };
    for durability in [|_| Durability::Immediate, deferred, synced_at_last] {
        let (medium, left) = crashed(VALUES, durability);
        let whole = found(&medium, &left).unwrap();
        assert!((98..=VALUES).contains(&whole), "{whole} values are there");
        // The first zone has 41 of them or so, the next one as many.
        for number in [1, 20, 35, 60, 75] {
            let mut damaged = left.clone();
            damaged[place(&left, number)] ^= 1;
            let outcome = found(&medium, &damaged);
            let error = outcome.expect_err(&format!("value {number} is damaged"));
            assert!(error.damage().is_some(), "{error}");
        }
        // Damage in the newest batch cannot be told from a torn end.
        let mut torn = left.clone();
        torn[place(&left, whole)] ^= 1;
        assert_eq!(found(&medium, &torn).unwrap() / 10, 9);
    }
}

#[test]
fn damage_in_a_merged_memtable_is_told_after_a_crash() {
    const VALUES: u8 = 45;
    for durability in [Durability::Immediate, Durability::Deferred] {
        let medium = Medium::new(Domain::Memory, CAPACITY).unwrap();
        let engine = open(&medium, 2 << 20).unwrap();
        let space = engine.key_space("space").unwrap();
        for number in 1..=VALUES {
            let put = Op::Put { space, key: &key(number), value: &value(number) };
            engine.write(&[put], durability).unwrap();
        }
        // The first memtable is full: it is merged, and does not go to the levels yet.
        assert!(engine.collect_ahead(0).unwrap());
        engine.sync().unwrap();
        let left = cut(&medium, engine);
        assert_eq!(found(&medium, &left).unwrap(), VALUES);
        // It has 41 values.
        for number in [1, 9, 17, 25, 33, 40, 41] {
            for at in [place(&left, number), header_of(&left, number)] {
                let mut damaged = left.clone();
                damaged[at] ^= 1;
                let error = found(&medium, &damaged).expect_err("a value is damaged");
                assert!(error.damage().is_some(), "{error}");
            }
        }
    }
}

/// Returns where the fragment begins that has nothing but a value: its header, and the record's head and key, fill a
/// line.
fn header_of(bytes: &[u8], number: u8) -> usize {
    place(bytes, number) - 64
}

#[test]
fn damage_in_the_newest_batch_is_told_if_commit_points_are_ordered() {
    let medium = Medium::new(Domain::Memory, CAPACITY).unwrap();
    let experiments =
        Experiments { commit_points: CommitPoints::Ordered, ..Experiments::default() };
    let lsm = LsmOptions { experiments, ..LsmOptions::default() };
    let engine = open_with(&medium, lsm).unwrap();
    let space = engine.key_space("space").unwrap();
    for number in 1..=5 {
        let before = engine.stats().traffic.fences;
        let put = Op::Put { space, key: &key(number), value: &value(number) };
        engine.write(&[put], Durability::Immediate).unwrap();
        assert_eq!(engine.stats().traffic.fences - before, 3, "data, gidx, commit_id");
    }
    let left = cut(&medium, engine);
    assert_eq!(found(&medium, &left).unwrap(), 5);
    let mut damaged = left.clone();
    damaged[header_of(&left, 5)] ^= 1;
    let error = found(&medium, &damaged).expect_err("by gidx, it is not torn");
    assert!(error.damage().is_some(), "{error}");
    // All that `commit_id` covers was whole: values are checked when they are read.
    let mut damaged = left.clone();
    damaged[place(&left, 5)] ^= 1;
    medium.restore(medium.file(), [(0, &damaged[..])]);
    let engine = open(&medium, SEVERAL_ZONES).unwrap();
    let space = engine.key_space("space").unwrap();
    assert_eq!(engine.get(space, &key(4)).unwrap().unwrap(), value(4));
    let error = engine.get(space, &key(5)).expect_err("its check does not fit");
    assert!(error.damage().is_some(), "{error}");
}

/// Writes values to a store whose memtables have one zone, and brings the first memtable to the levels, if it is to.
/// Then cuts the power.
fn flushed(durability: impl Fn(u8) -> Durability, to_levels: bool) -> (Medium, Vec<u8>) {
    let medium = Medium::new(Domain::Memory, CAPACITY).unwrap();
    let lsm = LsmOptions {
        memtable_bytes: Some(2 << 20),
        global_index_bytes: Some(1),
        ..LsmOptions::default()
    };
    let engine = open_with(&medium, lsm).unwrap();
    let space = engine.key_space("space").unwrap();
    for number in 1..=FLUSHED {
        let put = Op::Put { space, key: &key(number), value: &value(number) };
        engine.write(&[put], durability(number)).unwrap();
    }
    while to_levels && engine.stats().figure("level_bytes").unwrap() == 0 {
        assert!(engine.collect_ahead(0).unwrap());
    }
    let left = cut(&medium, engine);
    (medium, left)
}

/// Values of which the first memtable has 41.
const FLUSHED: u8 = 45;

#[test]
fn damage_in_the_newest_batch_is_told_once_older_ones_went_to_the_levels() {
    for to_levels in [false, true] {
        let (medium, left) = flushed(|_| Durability::Immediate, to_levels);
        let mut damaged = left.clone();
        damaged[header_of(&left, FLUSHED)] ^= 1;
        let damage = found(&medium, &damaged).map_err(|error| error.damage().is_some());
        // Without anything in the levels, the batch could as well be torn.
        assert_eq!(damage, if to_levels { Err(true) } else { Ok(FLUSHED - 1) });
        assert_eq!(found(&medium, &left).unwrap(), FLUSHED);
    }
}

#[test]
fn what_went_to_the_levels_leaves_no_gap_before_what_did_not() {
    // The first of the second memtable syncs the others: `commit_id` was at the first one when it was written.
    let durability = |number| match number {
        1 | 42.. => Durability::Immediate,
        _ => Durability::Deferred,
    };
    let (medium, left) = flushed(durability, true);
    assert_eq!(found(&medium, &left).unwrap(), FLUSHED);
}

#[test]
fn damage_in_what_an_opening_found_is_told_from_then_on() {
    const VALUES: u8 = 5;
    let (medium, left) = crashed(VALUES, |_| Durability::Immediate);
    medium.restore(medium.file(), [(0, &left[..])]);
    let engine = open(&medium, SEVERAL_ZONES).unwrap();
    let opened = cut_opened(&medium, engine, &left);
    assert_eq!(found(&medium, &opened).unwrap(), VALUES);
    // Before, the newest could as well have been torn.
    for (bytes, is_told) in [(left, false), (opened, true)] {
        for at in [place(&bytes, VALUES), header_of(&bytes, VALUES)] {
            let mut damaged = bytes.clone();
            damaged[at] ^= 1;
            let damage = found(&medium, &damaged).map_err(|error| error.damage().is_some());
            assert_eq!(damage, if is_told { Err(true) } else { Ok(VALUES - 1) });
        }
    }
}
