//! The contract in its shortest form.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use crate::{
    Bytes, Direction, Durability, Engine, Error, KeyRange, KeySpaceId, Op, Progress, Result, Scan,
    Snapshot, Stats, VerifyReport, check_key_space_name,
};

/// An engine that keeps ordered maps in memory and persists nothing: what the conformance suite
/// compares the others with.
#[derive(Debug, Default)]
pub struct Model {
    state: Mutex<State>,
}

#[derive(Debug, Default, Clone)]
struct State {
    spaces: BTreeMap<KeySpaceId, Space>,
    next_id: u32,
}

#[derive(Debug, Default, Clone)]
struct Space {
    name: String,
    pairs: BTreeMap<Vec<u8>, Vec<u8>>,
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
        Self { state: Mutex::new(state.clone()) }
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
        self.with(space, |space| space.pairs.get(key).map(|value| Bytes::from(&value[..])))
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
        for op in ops {
            op.check()?;
            if !state.spaces.contains_key(&op.space()) {
                return Err(Error::NoSuchKeySpace);
            }
        }
        for op in ops {
            let Some(space) = state.spaces.get_mut(&op.space()) else { continue };
            match *op {
                Op::Put { key, value, .. } => {
                    space.pairs.insert(key.to_vec(), value.to_vec());
                }
                Op::Delete { key, .. } => {
                    space.pairs.remove(key);
                }
                Op::DeleteRange { start, end, .. } => {
                    let range = KeyRange::new(start, end.map(<[u8]>::to_vec));
                    space.pairs.retain(|key, _| !range.contains(key));
                }
            }
        }
        Ok(())
    }

    fn scan(&self, space: KeySpaceId, range: KeyRange, direction: Direction) -> Result<Scan> {
        let mut pairs: Vec<_> = self.with(space, |space| {
            let inside = space.pairs.iter().filter(|(key, _)| range.contains(key));
            inside
                .map(|(key, value)| Ok((Bytes::from(&key[..]), Bytes::from(&value[..]))))
                .collect()
        })?;
        if direction == Direction::Reverse {
            pairs.reverse();
        }
        Ok(Box::new(pairs.into_iter()))
    }

    fn snapshot(&self) -> Result<Arc<dyn Snapshot>> {
        Ok(Arc::new(Copied(self.clone())))
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

/// What a model held.
struct Copied(Model);

impl Snapshot for Copied {
    fn key_spaces(&self) -> Vec<(String, KeySpaceId)> {
        self.0.names()
    }

    fn get(&self, space: KeySpaceId, key: &[u8]) -> Result<Option<Bytes>> {
        self.0.get(space, key)
    }

    fn len(&self, space: KeySpaceId) -> Result<u64> {
        self.0.len(space)
    }

    fn scan(&self, space: KeySpaceId, range: KeyRange, direction: Direction) -> Result<Scan> {
        self.0.scan(space, range, direction)
    }
}
