//! Commands that combine sets.
//!
//! An intersection looks its members up from the smallest set on, a difference those of the first set, and a union
//! goes through all sets.

use std::collections::HashSet;
use std::ops::ControlFlow;
use std::rc::Rc;

use crate::call::{Call, is};
use crate::collection::check_ending;
use crate::collection::map::Map;
use crate::failure::{Outcome, SYNTAX};
use crate::number::parse_i64;
use crate::resp::Args;
use crate::store::Store;
use crate::stored::Type;

use super::sets;

/// How sets are combined.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Operation {
    Intersection,
    Union,
    Difference,
}

pub(super) fn sinter(call: &mut Call<'_>) -> Outcome {
    reply(call, Operation::Intersection)
}

pub(super) fn sunion(call: &mut Call<'_>) -> Outcome {
    reply(call, Operation::Union)
}

pub(super) fn sdiff(call: &mut Call<'_>) -> Outcome {
    reply(call, Operation::Difference)
}

pub(super) fn sinterstore(call: &mut Call<'_>) -> Outcome {
    store(call, Operation::Intersection, "sinterstore")
}

pub(super) fn sunionstore(call: &mut Call<'_>) -> Outcome {
    store(call, Operation::Union, "sunionstore")
}

pub(super) fn sdiffstore(call: &mut Call<'_>) -> Outcome {
    store(call, Operation::Difference, "sdiffstore")
}

fn reply(call: &mut Call<'_>, operation: Operation) -> Outcome {
    let mut sets = read(call, call.args.from(1))?;
    if let [Some(_)] = sets[..] {
        return sets::reply_all(call, sets.remove(0));
    }
    // Of a reply that is too long for its client the rest is not needed.
    let mut found = Found::new(call.service.settings.reply_len_max());
    let _ = combine(&mut call.service.store, operation, &sets, &mut found)?;
    if operation == Operation::Union && sets.iter().flatten().all(Map::is_intset) {
        // As in Redis, the union of sets of integers is one, too.
        found.members.sort_by_cached_key(|member| parse_i64(member));
    }
    call.reply().set(found.members.len());
    found.members.iter().for_each(|member| call.reply().bulk(member));
    Ok(())
}

fn store(call: &mut Call<'_>, operation: Operation, event: &'static str) -> Outcome {
    let sets = read(call, call.args.from(2))?;
    let (db, target) = (call.client.db, call.args.get(1).unwrap_or_default());
    let store = &mut call.service.store;
    let limit = store.transaction_len_max;
    let mut found = Found::new(limit);
    if combine(store, operation, &sets, &mut found)?.is_break() {
        let (len, limit) = (found.bytes as u64, limit as u64);
        return Err(halite::Error::TransactionTooLarge { len, limit }.into());
    }
    let mut result = Map::new(db, target, Type::Set);
    for member in &found.members {
        check_ending(store)?;
        result.put(store, member, b"")?;
    }
    result.save_new(store, event)?;
    call.reply().integer(found.members.len() as i64);
    Ok(())
}

pub(super) fn sintercard(call: &mut Call<'_>) -> Outcome {
    let count = sets::key_count(call, 1)?;
    let mut limit = 0;
    let mut words = call.args.from(2 + count).iter();
    while let Some(word) = words.next() {
        let value = words.next().filter(|_| is(word, "LIMIT")).ok_or(SYNTAX)?;
        let value = parse_i64(value).and_then(|value| u64::try_from(value).ok());
        limit = value.ok_or("ERR LIMIT can't be negative")?;
    }
    let mut sets = Vec::new();
    for key in call.args.from(2).iter().take(count) {
        call.check_ending()?;
        sets.push(sets::read(call, key)?);
    }
    let mut len = 0;
    intersect(&mut call.service.store, &sets, |_| {
        len += 1;
        Ok(if len == limit { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
    })?;
    call.reply().integer(len as i64);
    Ok(())
}

fn read(call: &mut Call<'_>, keys: Args<'_>) -> Outcome<Vec<Option<Map>>> {
    let mut sets = Vec::new();
    for key in keys {
        call.check_ending()?;
        sets.push(sets::read(call, key)?);
    }
    Ok(sets)
}

/// Members that were found, up to a number of bytes.
struct Found {
    members: Vec<Rc<[u8]>>,
    bytes: usize,
    bytes_max: usize,
}

impl Found {
    fn new(bytes_max: usize) -> Self {
        Self { members: Vec::new(), bytes: 0, bytes_max }
    }

    fn push(&mut self, member: Rc<[u8]>) -> ControlFlow<()> {
        self.bytes += member.len() + BESIDE_MEMBER;
        self.members.push(member);
        match self.bytes <= self.bytes_max {
            true => ControlFlow::Continue(()),
            false => ControlFlow::Break(()),
        }
    }
}

/// Bytes of the reply that a member takes beside its own, at least.
const BESIDE_MEMBER: usize = 6;

/// Combines sets; breaks if there are too many members.
fn combine(
    store: &mut Store,
    operation: Operation,
    sets: &[Option<Map>],
    found: &mut Found,
) -> Outcome<ControlFlow<()>> {
    let mut flow = ControlFlow::Continue(());
    let mut push = |member: Rc<[u8]>| {
        flow = found.push(member);
        Ok(flow)
    };
    match operation {
        Operation::Intersection => intersect(store, sets, |member| push(member.into()))?,
        Operation::Difference => subtract(store, sets, |member| push(member.into()))?,
        Operation::Union => unite(store, sets, push)?,
    }
    Ok(flow)
}

/// Visits the members that all sets have. A set that is not there has none.
fn intersect(
    store: &mut Store,
    sets: &[Option<Map>],
    mut visit: impl FnMut(&[u8]) -> Outcome<ControlFlow<()>>,
) -> Outcome {
    let mut by_len = Vec::new();
    for set in sets {
        let Some(set) = set else { return Ok(()) };
        by_len.push((set.len(store)?, set));
    }
    by_len.sort_by_key(|(len, _)| *len);
    let Some(((_, smallest), others)) = by_len.split_first() else { return Ok(()) };
    let store = &*store;
    smallest.visit(store, |member, _| {
        check_ending(store)?;
        for (_, other) in others {
            if !other.contains(store, member)? {
                return Ok(ControlFlow::Continue(()));
            }
        }
        visit(member)
    })
}

/// Visits the members of the first set that no other one has.
fn subtract(
    store: &Store,
    sets: &[Option<Map>],
    mut visit: impl FnMut(&[u8]) -> Outcome<ControlFlow<()>>,
) -> Outcome {
    let Some((Some(first), others)) = sets.split_first() else { return Ok(()) };
    first.visit(store, |member, _| {
        check_ending(store)?;
        for other in others.iter().flatten() {
            if other.contains(store, member)? {
                return Ok(ControlFlow::Continue(()));
            }
        }
        visit(member)
    })
}

/// Visits the members that any set has, each once.
fn unite(
    store: &Store,
    sets: &[Option<Map>],
    mut visit: impl FnMut(Rc<[u8]>) -> Outcome<ControlFlow<()>>,
) -> Outcome {
    let mut seen: HashSet<Rc<[u8]>> = HashSet::new();
    let mut flow = ControlFlow::Continue(());
    for set in sets.iter().flatten() {
        set.visit(store, |member, _| {
            check_ending(store)?;
            if !seen.contains(member) {
                let member: Rc<[u8]> = member.into();
                seen.insert(Rc::clone(&member));
                flow = visit(member)?;
            }
            Ok(flow)
        })?;
        if flow.is_break() {
            break;
        }
    }
    Ok(())
}
