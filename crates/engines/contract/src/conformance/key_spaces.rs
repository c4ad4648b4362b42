//! Named key spaces.

use super::data::{key, value};
use super::histories::is_gone;
use super::{AMPLE, Check, Factory, Store, compare, ensure};
use crate::{Durability, KeyRange, Model, Op, WriteBatch};

/// The same keys in a hundred key spaces have values of their own.
///
/// # Errors
/// The first key space that another one's write changed.
pub fn key_spaces_do_not_touch_each_other(factory: &dyn Factory) -> Check {
    const SPACES: u64 = 100;
    let store = Store::new(factory, AMPLE)?;
    let model = Model::new();
    for engine in [store.engine(), &model] {
        let mut batch = WriteBatch::new();
        for number in 0..SPACES {
            let space = engine.key_space(&format!("space {number}"))?;
            for nth in 0..20 {
                batch.put(space, &key(nth), &value(number, nth as usize));
            }
        }
        engine.write(&batch.ops(), Durability::Immediate)?;
        for number in (0..SPACES).step_by(3) {
            let space = engine.key_space(&format!("space {number}"))?;
            let mut batch = WriteBatch::new();
            batch.delete_range(space, &KeyRange::new(key(5), Some(key(7 + number % 10))));
            batch.delete(space, &key(0));
            engine.write(&batch.ops(), Durability::Immediate)?;
        }
    }
    compare::engines(store.engine(), &model)
}

/// The keys of a key space go with it, its id is not used again, and its name can be.
///
/// # Errors
/// The key or key space that is still there, or is missing.
pub fn a_dropped_key_space_is_gone(factory: &dyn Factory) -> Check {
    let store = Store::new(factory, AMPLE)?;
    let engine = store.engine();
    let kept = engine.key_space("kept")?;
    engine.write(&[Op::Put { space: kept, key: b"a", value: b"1" }], Durability::Immediate)?;
    let mut dropped = Vec::new();
    for round in 0..10 {
        let space = engine.key_space("again")?;
        ensure!(engine.key_space("again")? == space, "one name has two key spaces");
        ensure!(!dropped.contains(&space), "the id of a dropped key space is used again");
        ensure!(engine.len(space)? == 0, "a new key space is not empty (round {round})");
        let mut batch = WriteBatch::new();
        (0..100).for_each(|number| batch.put(space, &key(number), b"1"));
        engine.write(&batch.ops(), Durability::Immediate)?;
        engine.drop_key_space(space)?;
        dropped.push(space);
        let names: Vec<_> = engine.key_spaces()?.into_iter().map(|(name, _)| name).collect();
        ensure!(names == ["kept"], "the key spaces are {names:?}, should be [\"kept\"]");
        dropped.iter().try_for_each(|&space| is_gone(engine, space))?;
    }
    compare::key_value(engine, kept, b"a", Some(b"1"))
}
