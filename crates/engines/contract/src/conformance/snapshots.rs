//! Snapshots.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use fastrand::Rng;

use super::data::{key, value};
use super::{AMPLE, Check, Factory, Failure, Store, compare, ensure, ensure_err};
use crate::{Direction, Durability, Engine, Error, KeyRange, Model, Op, Snapshot, WriteBatch};

/// Snapshots of a store in which all keys are overwritten, deleted, dropped and collected do not change, in
/// any key space; nor do their scans, even when the snapshots are dropped already.
///
/// # Errors
/// The first difference from clones of the model.
pub fn a_snapshot_stays_while_everything_is_overwritten(factory: &dyn Factory) -> Check {
    const POOL: u64 = 96 << 20;
    const KEYS: u64 = 3_000;
    let store = Store::new(factory, POOL)?;
    let (engine, model) = (store.engine(), Model::new());
    let mut snapshots: Vec<(Arc<dyn Snapshot>, Model)> = Vec::new();
    let mut random = Rng::with_seed(KEYS);
    for round in 0..6_u64 {
        for number in 0..KEYS {
            let name = format!("space {}", (number + round) % 3);
            let len = if number % 500 == 7 { 50_000 } else { random.u64(..700) as usize };
            let (key, bytes) = (key(number / 3), value(number + round * KEYS, len));
            for engine in [engine, &model as &dyn Engine] {
                let space = engine.key_space(&name)?;
                let op = match number % 7 {
                    6 => Op::Delete { space, key: &key },
                    _ => Op::Put { space, key: &key, value: &bytes },
                };
                engine.write(&[op], Durability::Deferred)?;
            }
        }
        snapshots.push((engine.snapshot()?, model.clone()));
        for engine in [engine, &model as &dyn Engine] {
            let space = engine.key_space(&format!("space {}", round % 3))?;
            let end = key(KEYS / 9);
            let op = Op::DeleteRange { space, start: b"", end: Some(&end) };
            engine.write(&[op], Durability::Immediate)?;
            if round % 2 == 1 {
                engine.drop_key_space(space)?;
            }
        }
        if round == 3 {
            // The space that this snapshot kept may be reclaimed, that of the others may not.
            drop(snapshots.remove(1));
        }
        let nth = round as usize % snapshots.len();
        let (snapshot, clone) = &snapshots[nth];
        compare::snapshot(&**snapshot, clone).map_err(|why| why.inside(format!("of {nth}")))?;
    }
    compare::engines(engine, &model)?;
    let mut scans = Vec::new();
    for (nth, (snapshot, clone)) in snapshots.into_iter().enumerate() {
        compare::snapshot(&*snapshot, &clone).map_err(|why| why.inside(format!("of {nth}")))?;
        for (name, space) in snapshot.key_spaces() {
            let found = snapshot.scan(space, KeyRange::all(), Direction::Reverse)?;
            let of_clone = clone.key_space(&name)?;
            scans.push((found, clone.scan(of_clone, KeyRange::all(), Direction::Reverse)?));
        }
    }
    let space = engine.key_space("space 0")?;
    for number in 0..KEYS {
        let (key, bytes) = (key(number), value(number, 700));
        engine.write(&[Op::Put { space, key: &key, value: &bytes }], Durability::Deferred)?;
    }
    for (found, expected) in scans {
        compare::scans(found, expected)
            .map_err(|why| why.inside("a scan of a dropped snapshot"))?;
    }
    Ok(())
}

/// A snapshot has each key space as it was at its time, even if the key space was made or dropped later.
///
/// # Errors
/// The first call that ended otherwise.
pub fn a_snapshot_has_the_key_spaces_of_its_time(factory: &dyn Factory) -> Check {
    let store = Store::new(factory, AMPLE)?;
    let engine = store.engine();
    let dropped = engine.key_space("dropped")?;
    engine.write(&[Op::Put { space: dropped, key: b"a", value: b"1" }], Durability::Deferred)?;
    let snapshot = engine.snapshot()?;
    engine.drop_key_space(dropped)?;
    let made = engine.key_space("made")?;
    engine.write(&[Op::Put { space: made, key: b"a", value: b"2" }], Durability::Deferred)?;
    let names: Vec<_> = snapshot.key_spaces().into_iter().map(|(name, _)| name).collect();
    ensure!(names == ["dropped"], "the snapshot has the key spaces {names:?}");
    let found = snapshot.get(dropped, b"a")?;
    ensure!(found.as_deref() == Some(b"1"), "the snapshot has lost what was dropped: {found:?}");
    ensure_err!(snapshot.get(made, b"a"), Error::NoSuchKeySpace, "get of what came later");
    ensure_err!(snapshot.len(made), Error::NoSuchKeySpace, "len of what came later");
    let scan = snapshot.scan(made, KeyRange::all(), Direction::Forward);
    ensure_err!(scan, Error::NoSuchKeySpace, "scan of what came later");
    Ok(())
}

/// Under load, every snapshot sees whole batches, the same ones whenever and however it is looked at,
/// and each is dropped while others and their scans are looked at.
///
/// # Errors
/// The state that a snapshot should not have.
pub fn snapshots_under_load_are_one_state(factory: &dyn Factory) -> Check {
    const BATCHES: u64 = 3_000;
    const KEYS: u64 = 16;
    let store = Store::new(factory, AMPLE)?;
    let engine = store.engine();
    let space = engine.key_space("load")?;
    let write = |number: u64| -> Check {
        let bytes = value(number, 400);
        let mut batch = WriteBatch::new();
        (0..KEYS).for_each(|nth| batch.put(space, &key(nth), &bytes));
        let durable =
            if number.is_multiple_of(8) { Durability::Immediate } else { Durability::Deferred };
        Ok(engine.write(&batch.ops(), durable)?)
    };
    write(0)?;
    let done = AtomicBool::new(false);
    let look = || -> Check {
        let mut kept: Vec<(Arc<dyn Snapshot>, Vec<u8>)> = Vec::new();
        loop {
            let last = done.load(Ordering::Acquire);
            let snapshot = engine.snapshot()?;
            let one = snapshot.get(space, &key(3))?.map_or(Vec::new(), |bytes| bytes.to_vec());
            kept.push((snapshot, one));
            let first = if kept.len() > 8 { Some(kept.remove(0)) } else { None };
            for (snapshot, one) in kept.iter().chain(&first) {
                let scan = snapshot.scan(space, KeyRange::all(), Direction::Forward)?;
                let pairs = scan.collect::<crate::Result<Vec<_>>>()?;
                ensure!(pairs.len() as u64 == KEYS, "a snapshot has {} keys", pairs.len());
                let same = pairs.iter().all(|(_, bytes)| bytes[..] == one[..]);
                ensure!(same, "a snapshot has parts of several batches");
            }
            if last {
                return Ok(());
            }
        }
    };
    std::thread::scope(|scope| {
        let readers = [scope.spawn(look), scope.spawn(look)];
        let written = (1..=BATCHES).try_for_each(write);
        done.store(true, Ordering::Release);
        let joined = |thread: std::thread::ScopedJoinHandle<'_, Check>| {
            thread.join().unwrap_or_else(|_| Err(Failure::new("a thread panicked")))
        };
        readers.into_iter().try_for_each(joined).and(written)
    })
}

/// A store that fills up because of an old snapshot reports that, keeps the snapshot's records, and takes
/// writes again when the snapshot is dropped.
///
/// # Errors
/// The first call that ended otherwise.
pub fn a_store_full_by_a_snapshot_says_so(factory: &dyn Factory) -> Check {
    if !factory.is_bounded() {
        return Ok(());
    }
    const POOL: u64 = 64 << 20;
    const KEYS: u64 = 12_000;
    const LEN: usize = 1_000;
    let store = Store::new(factory, POOL)?;
    let (engine, model) = (store.engine(), Model::new());
    let put = |engine: &dyn Engine, seed: u64, number: u64| {
        let (space, bytes) = (engine.key_space("full")?, value(seed + number, LEN));
        let op = Op::Put { space, key: &key(number), value: &bytes };
        engine.write(&[op], Durability::Deferred)
    };
    for number in 0..KEYS {
        put(engine, 0, number)?;
        put(&model, 0, number)?;
    }
    let snapshot = engine.snapshot()?;
    let mut full = None;
    'rounds: for round in 1..=2 * POOL / (KEYS * LEN as u64) {
        for number in 0..KEYS {
            match put(engine, round * KEYS, number) {
                Ok(()) => {}
                Err(error @ Error::Full { .. }) => {
                    full = Some(error);
                    break 'rounds;
                }
                Err(error) => return Err(error.into()),
            }
        }
    }
    if let Some(error) = full {
        let says_so = matches!(error, Error::Full { held: 1.., .. });
        ensure!(says_so && error.to_string().contains("snapshots"), "it says only: {error}");
    }
    compare::snapshot(&*snapshot, &model)?;
    drop(snapshot);
    for round in 1..=2 * POOL / (KEYS * LEN as u64) {
        for number in 0..KEYS {
            let put = put(engine, round * KEYS, number);
            ensure!(put.is_ok(), "the snapshot is gone, and a put ends with {put:?}");
        }
    }
    Ok(())
}
