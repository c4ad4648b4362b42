//! Collections: lists, sets, sorted sets, hashes and streams, as values of keys.
//!
//! ```text
//! record of the key    tag │ 0 │ entry │ entry │ ..        a small collection is its record (`packed`)
//!                      tag │ 1 │ id u64 │ ..               a larger one has a record for each element (`store::elements`)
//! ```
//!
//! A command looks its key up once: the tag says the type, and another type is refused. It changes the collection within a
//! transaction of the store, which the dispatch begins for commands that are marked so, and saves it in the end. A
//! collection that outgrows the settings ([`crate::inline_limits`]) becomes elements; as in Redis, only a list becomes one
//! record again, when it has shrunk to half of the limit. One without elements is no more: its key goes. The events of the
//! command ([`crate::notifications`]) are told when the collection is saved, and `del` behind them if its key goes.
//!
//! [`stream::Stream`] has entries under ids, and groups of consumers; it may be empty, and always has elements.
//!
//! [`map::Map`] is what hashes, sets and sorted sets have in common, fields with values; [`hash::Hash`] has deadlines of
//! fields, [`list::List`] positions, and [`sorted_set::SortedSet`] the order by scores.

pub(crate) mod hash;
mod intset;
pub(crate) mod list;
mod listpack;
pub(crate) mod map;
pub(crate) mod packed;
pub(crate) mod sorted_set;
pub(crate) mod stream;

use std::ops::Range;

use crate::failure::{Failure, Outcome, WRONG_TYPE};
use crate::notifications::EventClass;
use crate::store::Store;
use crate::stored::{Stored, Type, collection_id};

/// The value of a key, if it is of a type; another type is refused.
pub(crate) fn find(store: &mut Store, db: usize, key: &[u8], of: Type) -> Outcome<Option<Stored>> {
    let Some(value) = store.get(db, key)? else { return Ok(None) };
    if value.value_type()? != of {
        return Err(WRONG_TYPE.into());
    }
    if collection_id(value.bytes()).is_some_and(|id| !store.are_home(db, key, id)) {
        return Err(damaged(key, "its number is that of another partition"));
    }
    Ok(Some(value))
}

/// Tells of events at the key of a collection that was saved, in this order, and that the key is gone, if it is.
fn tell(
    store: &mut Store,
    of: Type,
    (db, key): (usize, &[u8]),
    events: impl IntoIterator<Item = &'static str>,
    is_gone: bool,
) {
    let class = match of {
        Type::String => EventClass::String,
        Type::List => EventClass::List,
        Type::Set => EventClass::Set,
        Type::SortedSet => EventClass::SortedSet,
        Type::Hash => EventClass::Hash,
        Type::Stream => EventClass::Stream,
    };
    for event in events {
        store.notify(class, event, db, key);
    }
    if is_gone {
        store.notify(EventClass::Generic, "del", db, key);
    }
}

/// The elements from `start` to `end`, both included, of so many; negative numbers count from the end.
pub(crate) fn span(start: i64, end: i64, len: usize) -> Range<usize> {
    let from_end = |at: i64| if at < 0 { at.saturating_add(len as i64) } else { at };
    let start = from_end(start).max(0) as usize;
    let end = usize::try_from(from_end(end).saturating_add(1)).unwrap_or(0).min(len);
    if start < end { start..end } else { 0..0 }
}

/// Refuses to go on when the server has to end. Long loops call this at each step.
#[inline]
pub(crate) fn check_ending(store: &Store) -> Outcome {
    if store.ending.breaks_off() { Err(Failure::Interrupted) } else { Ok(()) }
}

/// The failure of a collection whose stored bytes are not as they were written.
pub(crate) fn damaged(key: &[u8], why: &str) -> Failure {
    damage(key, why).into()
}

/// [`damaged`], as an error of the store.
pub(crate) fn damage(key: &[u8], why: &str) -> halite::Error {
    let what = format!("the collection `{}`", key.escape_ascii());
    halite::EngineError::Damaged { what, why: why.to_owned() }.into()
}
