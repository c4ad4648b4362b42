//! Stores that are overwritten again and again and hold little.

use fastrand::Rng;

use super::data::{key, value};
use super::{Check, Factory, Store, compare, ensure};
use crate::{Direction, Durability, Engine, KeyRange, Model, Op};

const POOL: u64 = 64 << 20;

/// 12 MiB of values of up to 1,000 bytes, overwritten until ten pools are written, or three.
///
/// # Errors
/// [`crate::Error::Full`] as a failure, or the first difference from the model.
pub fn overwriting_small_values_forever_does_not_fill_the_pool(factory: &dyn Factory) -> Check {
    overwrite(factory, 24_000, 1_000)
}

/// 12 MiB of values of up to 600 KiB, overwritten until ten pools are written, or three.
///
/// # Errors
/// [`crate::Error::Full`] as a failure, or the first difference from the model.
pub fn overwriting_large_values_forever_does_not_fill_the_pool(factory: &dyn Factory) -> Check {
    overwrite(factory, 40, 600_000)
}

/// A queue: keys are put at one end and deleted at the other, one by one and by ranges, until three
/// pools are written, or two.
///
/// # Errors
/// [`crate::Error::Full`] as a failure, or the first key that is there and should not be.
pub fn writing_and_deleting_forever_does_not_fill_the_pool(factory: &dyn Factory) -> Check {
    const LEN: usize = 500;
    const KEPT: u64 = 10_000;
    let store = Store::new(factory, POOL)?;
    let engine = store.engine();
    let space = engine.key_space("queue")?;
    let pools = if super::is_deep() { 3 } else { 2 };
    let end = pools * POOL / LEN as u64;
    for number in 0..end {
        let bytes = value(number, LEN);
        let op = Op::Put { space, key: &key(number), value: &bytes };
        engine.write(&[op], Durability::Deferred)?;
        if number >= KEPT && number % 1_000 < 900 {
            let op = Op::Delete { space, key: &key(number - KEPT) };
            engine.write(&[op], Durability::Deferred)?;
        }
        if number >= KEPT && number % 1_000 == 999 {
            let end = key(number - KEPT + 1);
            let op = Op::DeleteRange { space, start: b"", end: Some(&end) };
            engine.write(&[op], Durability::Immediate)?;
        }
    }
    let first = engine.scan(space, KeyRange::all(), Direction::Forward)?.next().transpose()?;
    let len = engine.len(space)?;
    ensure!((KEPT..KEPT + 1_000).contains(&len), "the queue has {len} keys");
    let expected = key(end - len);
    ensure!(first.is_some_and(|(key, _)| key == expected), "the queue starts elsewhere");
    Ok(())
}

fn overwrite(factory: &dyn Factory, keys: u64, len_max: u64) -> Check {
    let store = Store::new(factory, POOL)?;
    let engine = store.engine();
    let model = Model::new();
    let (space, model_space) = (engine.key_space("values")?, model.key_space("values")?);
    let mut random = Rng::with_seed(keys);
    let mut written = 0;
    let pools = if super::is_deep() { 5 } else { 3 };
    while written < pools * POOL {
        // Half of the writes go to a tenth of the keys, so that blocks die unevenly.
        let hot = random.u64(..2) == 0;
        let key = key(random.u64(..if hot { keys.div_ceil(10) } else { keys }));
        let bytes = value(random.u64(..), random.u64(..len_max) as usize);
        written += bytes.len() as u64;
        let op = |space| Op::Put { space, key: &key, value: &bytes };
        let wrote = engine.write(&[op(space)], Durability::Immediate);
        ensure!(wrote.is_ok(), "after {written} bytes: {wrote:?}; {:?}", engine.stats());
        model.write(&[op(model_space)], Durability::Immediate)?;
    }
    let stats = engine.stats();
    ensure!(stats.pool_bytes <= POOL, "the pool has {} bytes, at most {POOL}", stats.pool_bytes);
    compare::engines(engine, &model)
}
