//! Stores at their size limit.

use super::data::{key, value};
use super::{Check, Factory, Store, compare, ensure, ensure_err};
use crate::{Durability, Engine, Error, KeySpaceId, Model, Op};

const POOL: u64 = 64 << 20;
/// Bytes that a pool of that size must take before it is full; the rest is for the engine.
const TAKEN: u64 = POOL / 2;
const LEN: usize = 1_000;

/// At the limit, puts are refused and change nothing, reads go on, deletes are taken and make room;
/// then puts are taken again. Five times, with deletes of single keys, of every second key, of
/// ranges, of a key space, and of large values.
///
/// # Errors
/// The first call that ended otherwise, or the first difference from the model.
pub fn a_full_store_reads_and_deletes_and_then_writes_again(factory: &dyn Factory) -> Check {
    if !factory.is_bounded() {
        return Ok(());
    }
    let store = Store::new(factory, POOL)?;
    let mut both = Both::new(store.engine(), Model::new())?;
    let lens = [LEN, LEN, LEN, LEN, 100_000, LEN];
    let rounds = if super::is_deep() { 0..lens.len() } else { 3..5 };
    for (round, len) in rounds.map(|round| (round, lens[round])) {
        let place = |why: super::Failure| why.inside(format!("round {round}"));
        both.fill(len).map_err(place)?;
        both.check_full(len).map_err(place)?;
        both.delete_half(round).map_err(place)?;
        if factory.reuses_space() {
            both.refill(len).map_err(place)?;
        }
        both.empty().map_err(place)?;
    }
    Ok(())
}

/// A full store opens, reads, deletes and then writes.
///
/// # Errors
/// The first call that ended otherwise, or the first difference from the model.
pub fn a_full_store_keeps_everything_when_it_is_opened_again(factory: &dyn Factory) -> Check {
    if !factory.is_bounded() {
        return Ok(());
    }
    let mut store = Store::new(factory, POOL)?;
    let mut both = Both::new(store.engine(), Model::new())?;
    both.fill(LEN)?;
    let mut model = both.model;
    for crash in if super::is_deep() { &[true, false, true][..] } else { &[true, false] } {
        let crash = *crash;
        store = if crash { store.crash()? } else { store.reopen()? };
        let mut both = Both::new(store.engine(), model)?;
        both.check_full(LEN).map_err(|why| why.inside(format!("opened; crash: {crash}")))?;
        both.delete_half(1)?;
        if !factory.reuses_space() {
            return Ok(());
        }
        both.refill(LEN)?;
        both.fill(LEN)?;
        model = both.model;
    }
    Ok(())
}

/// A store and the model of the writes that it took.
struct Both<'a> {
    engine: &'a dyn Engine,
    space: KeySpaceId,
    model: Model,
    model_space: KeySpaceId,
    /// Puts so far: the number of the next key.
    next: u64,
}

impl<'a> Both<'a> {
    fn new(engine: &'a dyn Engine, model: Model) -> Check<Self> {
        let (space, model_space) = (engine.key_space("full")?, model.key_space("full")?);
        let next = 1_000_000 * (1 + model.len(model_space)?);
        Ok(Self { engine, space, model, model_space, next })
    }

    /// Puts a new key; false when the store is full.
    fn put(&mut self, len: usize) -> Check<bool> {
        let (key, value) = (key(self.next), value(self.next, len));
        let op = |space| Op::Put { space, key: &key, value: &value };
        match self.engine.write(&[op(self.space)], Durability::Immediate) {
            Ok(()) => {
                self.model.write(&[op(self.model_space)], Durability::Immediate)?;
                self.next += 1;
                Ok(true)
            }
            Err(Error::Full { .. }) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    fn delete(&self, start: &[u8], end: Option<&[u8]>) -> Check {
        for (engine, space) in [(self.engine, self.space), (&self.model, self.model_space)] {
            let op = match end {
                None => Op::Delete { space, key: start },
                Some(_) => Op::DeleteRange { space, start, end },
            };
            let written = engine.write(&[op], Durability::Immediate);
            ensure!(written.is_ok(), "a full store refused a delete: {written:?}");
        }
        Ok(())
    }

    fn fill(&mut self, len: usize) -> Check {
        while self.put(len)? {
            let bytes = self.model.len(self.model_space)? * len as u64;
            ensure!(bytes <= POOL, "{bytes} bytes of values are in a pool of {POOL}");
        }
        Ok(())
    }

    fn check_full(&self, len: usize) -> Check {
        let bytes: u64 = self.model.len(self.model_space)? * len as u64;
        ensure!(bytes >= TAKEN, "full with {bytes} bytes of values in a pool of {POOL}");
        let (space, large) = (self.space, vec![1; 4 << 20]);
        let put = Op::Put { space, key: b"large", value: &large };
        // If the puts of a batch do not fit, neither they nor the deletes before them are applied.
        let batch = [Op::DeleteRange { space, start: b"z", end: None }, put, put, put, put];
        for ops in [&batch[..], &batch[..2]] {
            let written = self.engine.write(ops, Durability::Immediate);
            ensure_err!(
                written,
                Error::Full { .. } | Error::BatchTooLarge { .. },
                "a put into a full store"
            );
        }
        compare::engines(self.engine, &self.model).map_err(|why| why.inside("when full"))
    }

    /// Deletes about half of the keys, in one of five ways.
    fn delete_half(&self, way: usize) -> Check {
        let all = crate::KeyRange::all();
        let keys: Vec<_> = self
            .model
            .scan(self.model_space, all, crate::Direction::Forward)?
            .map(|pair| pair.map(|(key, _)| key.to_vec()))
            .collect::<crate::Result<_>>()?;
        let middle = keys.len() / 2;
        match way % 5 {
            0 => keys[..middle].iter().try_for_each(|key| self.delete(key, None))?,
            1 | 4 => keys.iter().step_by(2).try_for_each(|key| self.delete(key, None))?,
            2 => self.delete(&keys[middle], Some(b"\xff"))?,
            _ => {
                for chunk in keys.chunks(64) {
                    self.delete(&chunk[0], Some(&chunk[chunk.len() / 2]))?;
                }
            }
        }
        compare::engines(self.engine, &self.model).map_err(|why| why.inside("after deletes"))
    }

    /// At least half of the deleted bytes, which are half of all, fit again.
    fn refill(&mut self, len: usize) -> Check {
        let fits = (TAKEN / 4) / len as u64;
        for nth in 0..fits {
            ensure!(self.put(len)?, "only {nth} of {fits} values fit where twice as many were");
        }
        compare::engines(self.engine, &self.model).map_err(|why| why.inside("after a refill"))
    }

    /// Removes everything with its key space, and makes the key space again.
    fn empty(&mut self) -> Check {
        self.engine.drop_key_space(self.space)?;
        self.model.drop_key_space(self.model_space)?;
        self.space = self.engine.key_space("full")?;
        self.model_space = self.model.key_space("full")?;
        Ok(())
    }
}
