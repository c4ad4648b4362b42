//! Verification of whole stores.

use std::ops::ControlFlow;

use super::data::{key, value};
use super::{AMPLE, Check, Factory, Store, compare, ensure};
use crate::{Durability, Engine, KeyRange, Model, WriteBatch};

/// Verification counts the records, finds no damage, changes nothing, and ends early when told to.
///
/// # Errors
/// The wrong statement of the report.
pub fn a_healthy_store_has_no_damage(factory: &dyn Factory) -> Check {
    let store = Store::new(factory, AMPLE)?;
    let engine = store.engine();
    let model = Model::new();
    let empty = engine.verify(&mut |_, _| ControlFlow::Continue(()))?;
    ensure!(empty.complete && empty.damage.is_empty(), "a new store is damaged: {empty:?}");
    for engine in [engine, &model] {
        let space = engine.key_space("records")?;
        for round in 0..4 {
            let mut batch = WriteBatch::new();
            for number in 0..2_000 {
                batch.put(space, &key(number), &value(number + round, 500));
            }
            batch
                .delete_range(space, &KeyRange::new(key(100 * round), Some(key(100 * round + 50))));
            batch.put(space, b"large", &value(round, 3 << 20));
            engine.write(&batch.ops(), Durability::Immediate)?;
        }
    }
    let records = model.stats().records;

    let mut calls = Vec::new();
    let report = engine.verify(&mut |done, all| {
        calls.push((done, all));
        ControlFlow::Continue(())
    })?;
    ensure!(report.damage.is_empty(), "damage in a healthy store: {:?}", report.damage);
    ensure!(report.complete, "the report is not complete");
    ensure!(report.records >= records, "{} of {records} records compared", report.records);
    ensure!(calls.iter().all(|(done, all)| done <= all), "more done than there is: {calls:?}");
    ensure!(calls.is_sorted_by_key(|(done, _)| done), "progress went backwards: {calls:?}");

    let mut broke = false;
    let report = engine.verify(&mut |_, _| {
        broke = true;
        ControlFlow::Break(())
    })?;
    ensure!(broke != report.complete, "told to end: {broke}; complete: {}", report.complete);
    compare::engines(engine, &model)
}
