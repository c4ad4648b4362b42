//! The value of a key, as Redis' files have it.

use std::ops::ControlFlow;
use std::sync::Arc;

use halite_rdb::{HashField, Limits, Value};

use super::stream;
use crate::collection::hash::Hash;
use crate::collection::list::List;
use crate::collection::map::Map;
use crate::collection::sorted_set::{SortedSet, read_score};
use crate::collection::{check_ending, damaged};
use crate::ending::Ending;
use crate::failure::{Failure, Outcome};
use crate::store::Store;
use crate::stored::Type;

/// The memory that values may take while they are read, and the end of the server.
pub(crate) struct Budget {
    left: usize,
    limit: usize,
    ending: Arc<Ending>,
}

impl Budget {
    /// Room for so many bytes.
    pub(crate) fn new(store: &Store, limit: usize) -> Self {
        Self { left: limit, limit, ending: Arc::clone(&store.ending) }
    }

    /// Takes the room of an element.
    pub(super) fn take(&mut self, len: usize) -> Outcome {
        if self.ending.breaks_off() {
            return Err(Failure::Interrupted);
        }
        match self.left.checked_sub(len.saturating_add(Limits::ELEMENT_BYTES as usize)) {
            Some(left) => {
                self.left = left;
                Ok(())
            }
            None => Err(format!(
                "ERR the value takes more than {} bytes of memory, and cannot be dumped",
                self.limit
            )
            .into()),
        }
    }
}

/// The value of a key; `None` if there is none, or a hash of which all fields have expired.
pub(crate) fn read(
    store: &mut Store,
    db: usize,
    key: &[u8],
    budget: &mut Budget,
) -> Outcome<Option<Value>> {
    let Some(stored) = store.get(db, key)? else { return Ok(None) };
    let value = match stored.value_type()? {
        Type::String => {
            let string = stored.into_string()?;
            budget.take(string.len())?;
            Some(Value::String(string.to_vec()))
        }
        Type::List => list(store, db, key, budget)?,
        Type::Set => set(store, db, key, budget)?,
        Type::SortedSet => sorted_set(store, db, key, budget)?,
        Type::Hash => hash(store, db, key, budget)?,
        Type::Stream => stream::read(store, db, key, budget)?.map(Value::Stream),
    };
    Ok(value.filter(|value| !value.is_empty()))
}

fn list(store: &mut Store, db: usize, key: &[u8], budget: &mut Budget) -> Outcome<Option<Value>> {
    let Some(list) = List::find(store, db, key)? else { return Ok(None) };
    let mut elements = Vec::new();
    list.visit(store, 0, |_, element| {
        budget.take(element.len())?;
        elements.push(element.to_vec());
        Ok(ControlFlow::Continue(()))
    })?;
    Ok(Some(Value::List(elements)))
}

fn set(store: &mut Store, db: usize, key: &[u8], budget: &mut Budget) -> Outcome<Option<Value>> {
    let Some(set) = Map::find(store, db, key, Type::Set)? else { return Ok(None) };
    let mut members = Vec::new();
    set.visit(store, |member, _| {
        budget.take(member.len())?;
        members.push(member.to_vec());
        Ok(ControlFlow::Continue(()))
    })?;
    Ok(Some(Value::Set(members)))
}

fn sorted_set(
    store: &mut Store,
    db: usize,
    key: &[u8],
    budget: &mut Budget,
) -> Outcome<Option<Value>> {
    let Some(set) = SortedSet::find(store, db, key)? else { return Ok(None) };
    let mut members = Vec::new();
    set.map().visit(store, |member, score| {
        budget.take(member.len())?;
        let score = read_score(score).ok_or_else(|| damaged(key, "a score is no number"))?;
        members.push((member.to_vec(), score));
        Ok(ControlFlow::Continue(()))
    })?;
    Ok(Some(Value::SortedSet(members)))
}

fn hash(store: &mut Store, db: usize, key: &[u8], budget: &mut Budget) -> Outcome<Option<Value>> {
    let Some(hash) = Hash::find(store, db, key)? else { return Ok(None) };
    let mut fields = Vec::new();
    hash.visit(store, |name, value, deadline| {
        budget.take(name.len() + value.len())?;
        let expires_ms = deadline.map(|deadline| deadline.clamp(1, HashField::EXPIRES_MS_MAX));
        fields.push(HashField { name: name.to_vec(), value: value.to_vec(), expires_ms });
        Ok(ControlFlow::Continue(()))
    })?;
    check_ending(store)?;
    Ok(Some(Value::Hash(fields)))
}
