//! Scans.

use super::data::{key, value};
use super::{AMPLE, Check, Factory, Store, compare, ensure};
use crate::{Direction, Durability, Engine, Error, KeyRange, Model, Op, WriteBatch};

/// Ranges and prefixes at every border between the keys, empty and inverted ones included.
///
/// # Errors
/// The first range whose scan is not as the model's.
pub fn ranges_and_prefixes_hold_exactly_their_keys(factory: &dyn Factory) -> Check {
    let store = Store::new(factory, AMPLE)?;
    let engine = store.engine();
    let model = Model::new();
    let long = |tail: &[u8]| [&[b'l'; 300], tail].concat();
    let keys = [
        vec![],
        vec![0],
        vec![0, 0],
        b"a".to_vec(),
        b"a\0".to_vec(),
        b"a\xff".to_vec(),
        b"a\xff\xff".to_vec(),
        b"ab".to_vec(),
        b"abc".to_vec(),
        b"b".to_vec(),
        long(b""),
        long(b"\0"),
        long(b"x"),
        long(b"\xff"),
        vec![0xff],
        vec![0xff, 0xff],
    ];
    let (space, model_space) = (engine.key_space("ranges")?, model.key_space("ranges")?);
    for (engine, space) in [(engine, space), (&model, model_space)] {
        let mut batch = WriteBatch::new();
        keys.iter().for_each(|key| batch.put(space, key, key));
        engine.write(&batch.ops(), Durability::Immediate)?;
    }
    let mut bounds: Vec<_> =
        keys.iter().flat_map(|key| [key.clone(), [key, &b"m"[..]].concat()]).collect();
    bounds.extend(keys.map(|key| [&key[..], b"\0"].concat()));
    for start in &bounds {
        let compare = |range| compare::ranges(engine, space, &model, model_space, &range);
        compare(KeyRange::prefix(start))?;
        compare(KeyRange::new(&start[..], None))?;
        for end in &bounds {
            compare(KeyRange::new(&start[..], Some(end.clone())))?;
        }
    }
    Ok(())
}

/// Scans in both directions, begun before all keys are overwritten and deleted several times over, then
/// finished: they yield the state at their start. When they are dropped, the space that they held is
/// reclaimed.
///
/// # Errors
/// The first pair that differs from that state.
pub fn a_scan_sees_one_state_while_everything_is_rewritten(factory: &dyn Factory) -> Check {
    const POOL: u64 = 64 << 20;
    const KEYS: u64 = 8_000;
    const LEN: usize = 1_000;
    const ROUNDS: u64 = 2 * POOL / (KEYS * LEN as u64);
    let store = Store::new(factory, POOL)?;
    let engine = store.engine();
    let model = Model::new();
    let (space, model_space) = (engine.key_space("scans")?, model.key_space("scans")?);
    for (engine, space) in [(engine, space), (&model, model_space)] {
        for number in 0..KEYS {
            let (key, value) = (key(number), value(number, LEN));
            engine.write(&[Op::Put { space, key: &key, value: &value }], Durability::Deferred)?;
        }
    }
    let mut scans = Vec::new();
    for direction in [Direction::Forward, Direction::Reverse] {
        for range in [KeyRange::all(), KeyRange::new(key(KEYS / 3), Some(key(KEYS / 2)))] {
            let mut found = engine.scan(space, range.clone(), direction)?;
            let mut expected = model.scan(model_space, range, direction)?;
            for _ in 0..scans.len() * 100 {
                let (found, expected) = (found.next().transpose()?, expected.next().transpose()?);
                ensure!(found == expected, "a scan differs before anything was changed");
            }
            scans.push((found, expected));
        }
    }
    for round in 1..=ROUNDS {
        if !rewrite(engine, space, round * KEYS, KEYS, LEN)? {
            break;
        }
    }
    for (nth, (found, expected)) in scans.into_iter().enumerate() {
        compare::scans(found, expected).map_err(|why| why.inside(format!("open scan {nth}")))?;
    }
    for round in 1..=ROUNDS {
        let taken = rewrite(engine, space, round * KEYS, KEYS, LEN)?;
        ensure!(taken, "the store is full though every scan is gone");
    }
    Ok(())
}

/// Overwrites half of the keys, deletes the others, and puts some back. Returns false when the store is
/// full, which it may be as long as scans hold the space of their state.
fn rewrite(
    engine: &dyn Engine,
    space: crate::KeySpaceId,
    seed: u64,
    keys: u64,
    len: usize,
) -> Check<bool> {
    for number in 0..keys {
        let (key, value) = (key(number), value(seed + number, len));
        let op = match number % 4 {
            3 => Op::Delete { space, key: &key },
            _ => Op::Put { space, key: &key, value: &value },
        };
        match engine.write(&[op], Durability::Deferred) {
            Ok(()) => {}
            Err(Error::Full { .. }) => return Ok(false),
            Err(error) => return Err(error.into()),
        }
    }
    let (start, end) = (key(keys / 4), key(keys / 2));
    let op = Op::DeleteRange { space, start: &start, end: Some(&end) };
    match engine.write(&[op], Durability::Immediate) {
        Ok(()) => Ok(true),
        Err(Error::Full { .. }) => Ok(false),
        Err(error) => Err(error.into()),
    }
}
