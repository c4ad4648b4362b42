//! The contract in its shortest form.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::{Arc, Mutex};

use crate::{
    Bytes, Capabilities, Direction, Durability, Engine, Error, Expectation, KeyRange, KeySpaceId,
    Op, Progress, Result, Scan, Snapshot, Snapshots, Stats, Transactional, VerifyReport,
    check_key_space_name,
};

/// An engine that keeps ordered maps in memory and persists nothing: the reference with which the
/// conformance suite compares the others.
#[derive(Debug, Default)]
pub struct Model {
    state: Mutex<State>,
    /// The identity of the model, by which it recognises its snapshots.
    identity: Arc<()>,
}

#[derive(Debug, Default, Clone)]
struct State {
    spaces: BTreeMap<KeySpaceId, Space>,
    next_id: u32,
    /// Operations that were ever applied.
    applied: u64,
}

#[derive(Debug, Default, Clone)]
struct Space {
    name: String,
    pairs: BTreeMap<Vec<u8>, Value>,
    /// The last operation that removed each removed key.
    removed: BTreeMap<Vec<u8>, u64>,
}

#[derive(Debug, Clone)]
struct Value {
    /// The operation that put it.
    number: u64,
    bytes: Vec<u8>,
}

impl State {
    /// Refuses operations of which one cannot be applied.
    fn check(&self, ops: &[Op<'_>]) -> Result<()> {
        ops.iter().try_for_each(|op| {
            op.check()?;
            self.space(op.space()).map(drop)
        })
    }

    fn space(&self, space: KeySpaceId) -> Result<&Space> {
        self.spaces.get(&space).ok_or(Error::NoSuchKeySpace)
    }

    /// Applies operations that were checked.
    fn apply(&mut self, ops: &[Op<'_>]) {
        for op in ops {
            self.applied += 1;
            let Some(space) = self.spaces.get_mut(&op.space()) else { continue };
            match *op {
                Op::Put { key, value, .. } => {
                    let value = Value { number: self.applied, bytes: value.to_vec() };
                    space.pairs.insert(key.to_vec(), value);
                }
                Op::Delete { key, .. } => space.remove(key, self.applied),
                Op::DeleteRange { start, end, .. } => {
                    let range = KeyRange::new(start, end.map(<[u8]>::to_vec));
                    let keys: Vec<_> = space.range(&range).map(|(key, _)| key.clone()).collect();
                    keys.iter().for_each(|key| space.remove(key, self.applied));
                }
            }
        }
    }

    /// Refuses an expectation if one of its keys or ranges has changed since the state `then`.
    fn check_unchanged(&self, then: &Self, expected: &Expectation<'_>) -> Result<()> {
        let nothing = Space::default();
        for &(id, key) in expected.keys {
            let before = then.spaces.get(&id).unwrap_or(&nothing);
            if self.space(id)?.last_change(key) != before.last_change(key) {
                return Err(Error::Conflict { space: id, at: key.to_vec() });
            }
        }
        for (id, range) in expected.ranges {
            let before = then.spaces.get(id).unwrap_or(&nothing);
            let numbers = |(key, value): (&Vec<u8>, &Value)| (key.clone(), value.number);
            let now = self.space(*id)?.range(range).map(numbers);
            if !now.eq(before.range(range).map(numbers)) {
                return Err(Error::Conflict { space: *id, at: range.start().to_vec() });
            }
        }
        Ok(())
    }
}

impl Space {
    fn remove(&mut self, key: &[u8], number: u64) {
        if self.pairs.remove(key).is_some() {
            self.removed.insert(key.to_vec(), number);
        }
    }

    /// The last operation that put a key or removed it, if there was any.
    fn last_change(&self, key: &[u8]) -> Option<u64> {
        let put = self.pairs.get(key).map(|value| value.number);
        put.or_else(|| self.removed.get(key).copied())
    }

    /// The pairs whose keys are in a range.
    fn range(&self, range: &KeyRange) -> impl DoubleEndedIterator<Item = (&Vec<u8>, &Value)> {
        let start = Bound::Included(range.start());
        let end = match range.end() {
            // The bounds of an empty range may be in the wrong order, which a map would not accept.
            Some(_) if range.is_empty() => Bound::Excluded(range.start()),
            Some(end) => Bound::Excluded(end),
            None => Bound::Unbounded,
        };
        self.pairs.range::<[u8], _>((start, end))
    }
}

impl Model {
    /// An empty model.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    fn with<T>(&self, space: KeySpaceId, f: impl FnOnce(&mut Space) -> T) -> Result<T> {
        let mut state = self.state.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        state.spaces.get_mut(&space).map(f).ok_or(Error::NoSuchKeySpace)
    }
}

impl Clone for Model {
    /// A second model in the same state, with the same ids of key spaces.
    fn clone(&self) -> Self {
        let state = self.state.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        Self { state: Mutex::new(state.clone()), identity: Arc::default() }
    }
}

impl Model {
    /// The key spaces, by name.
    fn names(&self) -> Vec<(String, KeySpaceId)> {
        let state = self.state.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        let mut names: Vec<_> =
            state.spaces.iter().map(|(id, space)| (space.name.clone(), *id)).collect();
        names.sort();
        names
    }
}

impl Engine for Model {
    fn name(&self) -> &'static str {
        "model"
    }

    fn capabilities(&self) -> Capabilities<'_> {
        Capabilities { snapshots: Some(self), transactional: Some(self), ..Capabilities::default() }
    }

    fn key_space(&self, name: &str) -> Result<KeySpaceId> {
        check_key_space_name(name)?;
        let mut state = self.state.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        if let Some((id, _)) = state.spaces.iter().find(|(_, space)| space.name == name) {
            return Ok(*id);
        }
        let id = KeySpaceId(state.next_id);
        state.next_id += 1;
        state.spaces.insert(id, Space { name: name.to_owned(), ..Space::default() });
        Ok(id)
    }

    fn key_spaces(&self) -> Result<Vec<(String, KeySpaceId)>> {
        Ok(self.names())
    }

    fn drop_key_space(&self, space: KeySpaceId) -> Result<()> {
        let mut state = self.state.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        state.spaces.remove(&space).map(drop).ok_or(Error::NoSuchKeySpace)
    }

    fn get(&self, space: KeySpaceId, key: &[u8]) -> Result<Option<Bytes>> {
        self.with(space, |space| space.pairs.get(key).map(|value| Bytes::from(&value.bytes[..])))
    }

    fn len(&self, space: KeySpaceId) -> Result<u64> {
        self.with(space, |space| space.pairs.len() as u64)
    }

    fn sample(&self, space: KeySpaceId, random: u64) -> Result<Option<Bytes>> {
        self.with(space, |space| {
            let nth = random.checked_rem(space.pairs.len() as u64)?;
            space.pairs.keys().nth(nth as usize).map(|key| Bytes::from(&key[..]))
        })
    }

    fn write(&self, ops: &[Op<'_>], _: Durability) -> Result<()> {
        let mut state = self.state.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        state.check(ops)?;
        state.apply(ops);
        Ok(())
    }

    fn scan(&self, space: KeySpaceId, range: KeyRange, direction: Direction) -> Result<Scan> {
        let mut pairs: Vec<_> = self.with(space, |space| {
            let pairs = space.range(&range);
            pairs
                .map(|(key, value)| Ok((Bytes::from(&key[..]), Bytes::from(&value.bytes[..]))))
                .collect()
        })?;
        if direction == Direction::Reverse {
            pairs.reverse();
        }
        Ok(Box::new(pairs.into_iter()))
    }

    fn sync(&self) -> Result<()> {
        Ok(())
    }

    fn stats(&self) -> Stats {
        let state = self.state.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        let records = state.spaces.values().map(|space| space.pairs.len() as u64).sum();
        Stats { records, ..Stats::default() }
    }

    fn verify(&self, _: Progress<'_>) -> Result<VerifyReport> {
        Ok(VerifyReport {
            records: self.stats().records,
            complete: true,
            ..VerifyReport::default()
        })
    }
}

impl Snapshots for Model {
    fn snapshot(&self) -> Result<Arc<dyn Snapshot>> {
        Ok(Arc::new(Copied { copy: self.clone(), of: Arc::clone(&self.identity) }))
    }
}

impl Transactional for Model {
    fn write_if(&self, ops: &[Op<'_>], _: Durability, expected: &[Expectation<'_>]) -> Result<()> {
        let mut state = self.state.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        state.check(ops)?;
        for expected in expected {
            let snapshot = expected.snapshot.downcast_ref::<Copied>();
            let snapshot = snapshot.filter(|copied| Arc::ptr_eq(&copied.of, &self.identity));
            let copy = &snapshot.ok_or(Error::ForeignSnapshot)?.copy;
            let then = copy.state.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
            state.check_unchanged(&then, expected)?;
        }
        state.apply(ops);
        Ok(())
    }
}

/// A past state of a model.
struct Copied {
    copy: Model,
    /// The identity of the model.
    of: Arc<()>,
}

impl Snapshot for Copied {
    fn key_spaces(&self) -> Vec<(String, KeySpaceId)> {
        self.copy.names()
    }

    fn get(&self, space: KeySpaceId, key: &[u8]) -> Result<Option<Bytes>> {
        self.copy.get(space, key)
    }

    fn len(&self, space: KeySpaceId) -> Result<u64> {
        self.copy.len(space)
    }

    fn scan(&self, space: KeySpaceId, range: KeyRange, direction: Direction) -> Result<Scan> {
        self.copy.scan(space, range, direction)
    }
}
