//! Stores that are closed and opened again.

use super::data::{key, value};
use super::threads::{write_in_parallel, written_in_parallel};
use super::values::{holds, put};
use super::{AMPLE, Check, Factory, Store, compare, ensure};
use crate::{Durability, Op, WriteBatch};

/// Values of many sizes, 40 MiB the largest, are there after a close and after a crash.
///
/// # Errors
/// The first value that differs from the one put.
pub fn large_values_survive_reopening(factory: &dyn Factory) -> Check {
    const LENS: [usize; 8] =
        [0, (64 << 10) - 40, 64 << 10, 1 << 20, (2 << 20) - 100, 2 << 20, (2 << 20) + 1, 40 << 20];
    let mut store = Store::new(factory, AMPLE)?;
    let space = store.engine().key_space("values")?;
    for (number, len) in LENS.into_iter().enumerate() {
        put(store.engine(), space, number as u64, 2 * len / 3)?;
        put(store.engine(), space, number as u64, len)?;
    }
    for crash in [false, true, false] {
        store = if crash { store.crash()? } else { store.reopen()? };
        let space = store.engine().key_space("values")?;
        for (number, len) in LENS.into_iter().enumerate() {
            holds(store.engine(), space, number as u64, len)?;
        }
        let len = store.engine().len(space)?;
        ensure!(len == LENS.len() as u64, "len is {len}, should be {}", LENS.len());
    }
    Ok(())
}

/// A key space that was dropped is not there when the store is opened again, and one of the same
/// name made since is there with its own keys only.
///
/// # Errors
/// The key or key space that came back.
pub fn a_dropped_key_space_stays_dropped(factory: &dyn Factory) -> Check {
    let mut store = Store::new(factory, AMPLE)?;
    for round in 0..6_u64 {
        let engine = store.engine();
        for name in ["dropped", "again"] {
            let space = engine.key_space(name)?;
            let mut batch = WriteBatch::new();
            (0..50).for_each(|number| batch.put(space, &key(number), b"old"));
            engine.write(&batch.ops(), Durability::Deferred)?;
            engine.drop_key_space(space)?;
        }
        let space = engine.key_space("again")?;
        let new = value(round, 20);
        let op = Op::Put { space, key: &key(round), value: &new };
        engine.write(&[op], Durability::Immediate)?;

        store = if round % 2 == 0 { store.reopen()? } else { store.crash()? };
        let engine = store.engine();
        let names: Vec<_> = engine.key_spaces()?.into_iter().map(|(name, _)| name).collect();
        ensure!(names == ["again"], "the key spaces are {names:?}, should be [\"again\"]");
        let space = engine.key_space("again")?;
        let len = engine.len(space)?;
        ensure!(len == 1, "len is {len}, should be 1");
        compare::key_value(engine, space, &key(round), Some(&new))?;
    }
    Ok(())
}

/// Writes that many threads made at once are there when the store is opened again.
///
/// # Errors
/// The first difference from these writes.
pub fn parallel_writes_survive_reopening(factory: &dyn Factory) -> Check {
    let model = written_in_parallel()?;
    let store = Store::new(factory, AMPLE)?;
    write_in_parallel(store.engine())?;
    let store = store.crash()?;
    compare::engines(store.engine(), &model).map_err(|why| why.inside("after a crash"))?;
    let store = store.reopen()?;
    compare::engines(store.engine(), &model).map_err(|why| why.inside("after a close"))
}

/// Opening tells whether the store had been closed, and cuts no record off one that was.
///
/// # Errors
/// The wrong statement.
pub fn a_clean_close_is_seen_as_one(factory: &dyn Factory) -> Check {
    let mut store = Store::new(factory, AMPLE)?;
    for number in 0..3_u64 {
        let space = store.engine().key_space("records")?;
        put(store.engine(), space, number, 100)?;
        store = store.reopen()?;
        store.engine().wait_ready()?;
        let stats = store.engine().stats();
        ensure!(stats.recovery.clean, "a closed store was opened as one that crashed");
        ensure!(stats.recovery.records_cut == 0, "records were cut: {:?}", stats.recovery);
        ensure!(
            stats.records == number + 1 || !factory.counts(),
            "{} records, should be {}",
            stats.records,
            number + 1
        );
    }
    Ok(())
}
