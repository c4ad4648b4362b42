//! A value of Redis' files, in the place of what a key has.

use halite_rdb::{HashField, Value};

use super::stream;
use crate::collection::check_ending;
use crate::collection::hash::Hash;
use crate::collection::list::{End, List};
use crate::collection::map::Map;
use crate::collection::sorted_set::SortedSet;
use crate::failure::Outcome;
use crate::store::{NewDeadline, Store};
use crate::stored::Type;

/// Whether a value is one that a key can have: it is asked before a change is made.
pub(crate) fn can_be_put(value: &Value) -> bool {
    match value {
        Value::Module { .. } => false,
        Value::Stream(stream) => stream::can_be_put(stream),
        value => !value.is_empty(),
    }
}

/// A value without the fields of a hash that have expired at a time; `None` if nothing is left.
pub(crate) fn without_expired(mut value: Value, now_ms: u64) -> Option<Value> {
    if let Value::Hash(fields) = &mut value {
        fields.retain(|field| field.expires_ms.is_none_or(|at| at > now_ms));
    }
    Some(value).filter(|value| !value.is_empty())
}

/// Puts a value that [can be put](can_be_put) in the place of what a key has, and sets when it expires. A transaction has
/// begun: it has to be given up if this fails.
pub(crate) fn put(
    store: &mut Store,
    db: usize,
    key: &[u8],
    value: Value,
    deadline: Option<u64>,
) -> Outcome {
    debug_assert!(store.in_transaction() && can_be_put(&value));
    store.remove(db, key)?;
    match value {
        Value::String(string) => store.put(db, key, &string, NewDeadline::Clear)?,
        Value::List(elements) => list(store, db, key, &elements)?,
        Value::Set(members) => set(store, db, key, &members)?,
        Value::SortedSet(members) => sorted_set(store, db, key, &members)?,
        Value::Hash(fields) => hash(store, db, key, &fields)?,
        Value::Stream(stream) => stream::put(store, db, key, &stream)?,
        Value::Module { name, .. } => {
            return Err(format!("ERR a value of the module type {name} cannot be stored").into());
        }
    }
    if deadline.is_some() {
        store.set_deadline(db, key, deadline)?;
    }
    Ok(())
}

fn list(store: &mut Store, db: usize, key: &[u8], elements: &[Vec<u8>]) -> Outcome {
    let mut list = List::new(db, key);
    list.prepare(store, elements.iter().map(Vec::as_slice))?;
    for element in elements {
        check_ending(store)?;
        list.push(store, End::Right, element)?;
    }
    list.save(store, [])
}

fn set(store: &mut Store, db: usize, key: &[u8], members: &[Vec<u8>]) -> Outcome {
    let mut set = Map::new(db, key, Type::Set);
    for member in members {
        check_ending(store)?;
        set.put_known(store, member, b"", true)?;
    }
    set.save(store, [])
}

fn sorted_set(store: &mut Store, db: usize, key: &[u8], members: &[(Vec<u8>, f64)]) -> Outcome {
    let mut set = SortedSet::new(db, key);
    for (member, score) in members {
        check_ending(store)?;
        set.put(store, member, *score)?;
    }
    set.save(store, [])
}

fn hash(store: &mut Store, db: usize, key: &[u8], fields: &[HashField]) -> Outcome {
    let mut hash = Hash::find_or_new(store, db, key)?;
    for HashField { name, value, expires_ms } in fields {
        check_ending(store)?;
        hash.put(store, name, value, *expires_ms)?;
    }
    hash.save(store, [])
}
