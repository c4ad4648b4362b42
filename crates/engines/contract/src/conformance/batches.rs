//! Atomic batches.

use super::data::{key, value};
use super::{AMPLE, Check, Factory, Store, compare, ensure, ensure_err};
use crate::{
    Durability, Engine, Error, KEY_LEN_MAX, KeyRange, KeySpaceId, Model, Op, VALUE_LEN_MAX,
    WriteBatch,
};

/// The later of two operations on one key wins, for all kinds of operations.
///
/// # Errors
/// The batch whose outcome is another.
pub fn operations_of_a_batch_apply_in_order(factory: &dyn Factory) -> Check {
    let store = Store::new(factory, AMPLE)?;
    let model = Model::new();
    let spaces = [(&b""[..], "plain"), (b"shared-prefix-", "prefixed")];
    for (prefix, name) in spaces {
        let (space, model_space) = (store.engine().key_space(name)?, model.key_space(name)?);
        for (nth, fill) in BATCHES.iter().enumerate() {
            let check = |engine: &dyn Engine, space| {
                let mut before = WriteBatch::new();
                for letter in b'a'..=b'f' {
                    before.put(space, &[prefix, &[letter]].concat(), b"before");
                }
                engine.write(&before.ops(), Durability::Immediate)?;
                let batch = fill(Prefixed { batch: WriteBatch::new(), space, prefix });
                engine.write(&batch.batch.ops(), Durability::Immediate)
            };
            check(store.engine(), space)?;
            check(&model, model_space)?;
            compare::engines(store.engine(), &model)
                .map_err(|why| why.inside(format!("after batch {nth} in {name}")))?;
        }
    }
    Ok(())
}

struct Prefixed<'a> {
    batch: WriteBatch,
    space: KeySpaceId,
    prefix: &'a [u8],
}

impl Prefixed<'_> {
    fn put(mut self, key: &str, value: &str) -> Self {
        self.batch.put(self.space, &self.full(key), value.as_bytes());
        self
    }

    fn delete(mut self, key: &str) -> Self {
        self.batch.delete(self.space, &self.full(key));
        self
    }

    fn delete_range(mut self, start: &str, end: &str) -> Self {
        let range = KeyRange::new(self.full(start), Some(self.full(end)));
        self.batch.delete_range(self.space, &range);
        self
    }

    fn delete_prefix(mut self, prefix: &str) -> Self {
        self.batch.delete_prefix(self.space, &self.full(prefix));
        self
    }

    fn full(&self, key: &str) -> Vec<u8> {
        [self.prefix, key.as_bytes()].concat()
    }
}

type Fill = fn(Prefixed<'_>) -> Prefixed<'_>;

/// Batches on the keys a to f, all of which exist before each batch.
const BATCHES: &[Fill] = &[
    |batch| batch,
    |batch| batch.put("a", "1").put("a", "2").put("a", "3"),
    |batch| batch.put("a", "1").delete("a"),
    |batch| batch.delete("a").put("a", "1"),
    |batch| batch.delete("a").delete("a").delete("not there"),
    |batch| batch.delete_range("b", "e").put("c", "inside"),
    |batch| batch.put("c", "inside").put("cc", "new").delete_range("b", "e"),
    |batch| batch.delete_range("b", "d").put("b", "1").delete_range("a", "c").put("a", "1"),
    |batch| batch.delete_prefix("").put("f", "alone"),
    |batch| batch.put("fa", "1").put("fb", "2").delete_prefix("f").put("fb", "3"),
    |batch| batch.delete_range("e", "b").put("", "empty key").put("a", ""),
    |batch| batch.put("a", "1").delete_range("a", "a").put("b", "2").delete("b").put("b", "3"),
    |batch| batch.delete_prefix("").delete_prefix(""),
];

/// A batch with one operation that is refused is refused as a whole.
///
/// # Errors
/// The change that such a batch made, or that it was not refused.
pub fn a_batch_with_one_bad_operation_changes_nothing(factory: &dyn Factory) -> Check {
    let store = Store::new(factory, AMPLE)?;
    let engine = store.engine();
    let model = Model::new();
    let (space, model_space) = (engine.key_space("kept")?, model.key_space("kept")?);
    for (engine, space) in [(engine, space), (&model, model_space)] {
        for letter in [b"a", b"b", b"c"] {
            let op = Op::Put { space, key: letter, value: b"before" };
            engine.write(&[op], Durability::Immediate)?;
        }
    }
    let dropped = engine.key_space("dropped")?;
    engine.drop_key_space(dropped)?;
    let never_made = KeySpaceId(u32::MAX);

    let (long_key, long_bound) = (vec![b'k'; KEY_LEN_MAX + 1], vec![b'k'; KEY_LEN_MAX + 2]);
    let long_value = vec![0; VALUE_LEN_MAX + 1];
    let bad = [
        Op::Put { space, key: &long_key, value: b"1" },
        Op::Put { space, key: b"x", value: &long_value },
        Op::Delete { space, key: &long_key },
        Op::DeleteRange { space, start: &long_bound, end: None },
        Op::DeleteRange { space, start: b"", end: Some(&long_bound) },
        Op::Put { space: dropped, key: b"x", value: b"1" },
        Op::Delete { space: dropped, key: b"x" },
        Op::DeleteRange { space: dropped, start: b"", end: None },
        Op::Put { space: never_made, key: b"x", value: b"1" },
    ];
    let good = [
        Op::Put { space, key: b"a", value: b"after" },
        Op::Put { space, key: b"new", value: b"after" },
        Op::Delete { space, key: b"b" },
        Op::DeleteRange { space, start: b"c", end: None },
    ];
    for (nth, bad) in bad.into_iter().enumerate() {
        for place in 0..=good.len() {
            let mut ops = good.to_vec();
            ops.insert(place, bad);
            for durability in [Durability::Immediate, Durability::Deferred] {
                let written = engine.write(&ops, durability);
                ensure!(written.is_err(), "bad operation {nth} in place {place} was taken");
                compare::engines(engine, &model).map_err(|why| {
                    why.inside(format!("after the bad operation {nth} in place {place}"))
                })?;
            }
        }
    }
    Ok(())
}

/// A batch of at least 1 MiB is taken; a larger one is taken whole, or refused as too large.
///
/// # Errors
/// The batch that was taken in part, or refused for another reason.
pub fn a_large_batch_happens_whole_or_not_at_all(factory: &dyn Factory) -> Check {
    const TAKEN: u64 = 1 << 20;
    let store = Store::new(factory, AMPLE)?;
    let engine = store.engine();
    let space = engine.key_space("large")?;
    let model = Model::new();
    let model_space = model.key_space("large")?;
    for (records, value_len) in
        [(1_000, 100), (8_000, 100), (100, 10_000), (20, 200_000), (100_000, 20), (12, 3 << 20)]
    {
        let (mut batch, mut model_batch) = (WriteBatch::new(), WriteBatch::new());
        for number in 0..records {
            let (key, value) = (key(number), value(number ^ value_len as u64, value_len));
            batch.put(space, &key, &value);
            model_batch.put(model_space, &key, &value);
        }
        let len = batch.byte_len() as u64;
        match engine.write(&batch.ops(), Durability::Immediate) {
            Ok(()) => model.write(&model_batch.ops(), Durability::Immediate)?,
            refused => {
                ensure_err!(refused, Error::BatchTooLarge { .. }, format!("{len} bytes at once"));
                ensure!(len > TAKEN, "a batch of {len} bytes was refused");
            }
        }
        compare::engines(engine, &model).map_err(|why| {
            why.inside(format!("after a batch of {records} values of {value_len} bytes"))
        })?;
    }
    Ok(())
}
