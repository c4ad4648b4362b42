//! Values of sizes at which an engine changes how it stores them.

use super::data::{key, value};
use super::{AMPLE, Check, Factory, Store, compare, ensure};
use crate::{Durability, Engine, KeySpaceId, Op};

/// Values a little shorter and longer than usual block and segment sizes are read back whole, and
/// leave their neighbours alone.
///
/// # Errors
/// The first value that differs from the one put.
pub fn values_around_block_borders_come_back_whole(factory: &dyn Factory) -> Check {
    let store = Store::new(factory, AMPLE)?;
    let engine = store.engine();
    let space = engine.key_space("values")?;
    let borders = [(256, 1), (4 << 10, 1), (64 << 10, 1), (1 << 20, 13), (2 << 20, 13)];
    for (border, step) in borders {
        let mut lens: Vec<usize> = (0..=176).step_by(step).map(|over| border + 16 - over).collect();
        lens.extend([border - 1, border, border + 1]);
        for (nth, len) in lens.into_iter().enumerate() {
            // Large values take turns, so that they do not pile up.
            let number = if step == 1 { (border + nth) as u64 } else { nth as u64 % 3 };
            put(engine, space, number, len)?;
            put(engine, space, u64::MAX / 2, 10)?;
            holds(engine, space, number, len)?;
            holds(engine, space, u64::MAX / 2, 10)?;
        }
    }
    Ok(())
}

/// A value of 40 MiB is put, overwritten with another such, and deleted.
///
/// # Errors
/// The value that differs from the one put.
pub fn a_value_of_40_mib_comes_back_whole(factory: &dyn Factory) -> Check {
    const LEN: usize = 40 << 20;
    let store = Store::new(factory, AMPLE)?;
    let engine = store.engine();
    let space = engine.key_space("values")?;
    put(engine, space, 1, 100)?;
    for len in [LEN, LEN + 1, 3, LEN - 1] {
        put(engine, space, 2, len)?;
        holds(engine, space, 2, len)?;
    }
    put(engine, space, 3, 100)?;
    engine.write(&[Op::Delete { space, key: &key(2) }], Durability::Immediate)?;
    compare::key_value(engine, space, &key(2), None)?;
    holds(engine, space, 1, 100)?;
    holds(engine, space, 3, 100)
}

/// Bytes that were read do not change, even if their key is overwritten many times.
///
/// # Errors
/// The first value that changed.
pub fn bytes_that_are_held_do_not_change(factory: &dyn Factory) -> Check {
    const POOL: u64 = 64 << 20;
    let store = Store::new(factory, POOL)?;
    let engine = store.engine();
    let space = engine.key_space("values")?;
    let lens = [0, 10, 1_000, 100_000];
    let mut held = Vec::new();
    for (number, len) in lens.into_iter().enumerate() {
        put(engine, space, number as u64, len)?;
        held.push(engine.get(space, &key(number as u64))?);
    }
    for round in 0..3 * POOL / 100_000 {
        let bytes = value(round + 1_000, 100_000);
        let key = key(round % lens.len() as u64);
        engine.write(&[Op::Put { space, key: &key, value: &bytes }], Durability::Immediate)?;
    }
    for (number, (held, len)) in held.iter().zip(lens).enumerate() {
        let same = held.as_deref() == Some(&value(seed(number as u64, len), len)[..]);
        ensure!(same, "a value of {len} bytes changed while it was held");
    }
    Ok(())
}

/// Puts the value of `len` bytes that [`holds`] looks for.
pub(super) fn put(engine: &dyn Engine, space: KeySpaceId, number: u64, len: usize) -> Check {
    let bytes = value(seed(number, len), len);
    engine.write(&[Op::Put { space, key: &key(number), value: &bytes }], Durability::Immediate)?;
    Ok(())
}

/// Whether the key of `number` has the value that [`put`] gave it.
pub(super) fn holds(engine: &dyn Engine, space: KeySpaceId, number: u64, len: usize) -> Check {
    compare::key_value(engine, space, &key(number), Some(&value(seed(number, len), len)))
}

fn seed(number: u64, len: usize) -> u64 {
    number.rotate_left(32) ^ len as u64
}
