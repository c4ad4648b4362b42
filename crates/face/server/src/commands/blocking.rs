//! Commands that wait until one of their keys has something for them ([`crate::waiting`]): each tries what its form that does
//! not wait does, key by key.

use std::time::Duration;

use crate::call::Call;
use crate::collection::list::End;
use crate::failure::Outcome;
use crate::stored::Type;

use super::sorted_sets::pops;
use super::{lists, sorted_sets::pops::Form};

pub(super) fn blpop(call: &mut Call<'_>) -> Outcome {
    pop(call, End::Left)
}

pub(super) fn brpop(call: &mut Call<'_>) -> Outcome {
    pop(call, End::Right)
}

fn pop(call: &mut Call<'_>, end: End) -> Outcome {
    of_first_key(call, Type::List, |call, key| {
        let Some(element) = lists::pop_one(call, key, end)? else { return Ok(false) };
        let mut reply = call.reply();
        reply.array(2);
        reply.bulk(key);
        reply.bulk(&element);
        Ok(true)
    })
}

pub(super) fn bzpopmin(call: &mut Call<'_>) -> Outcome {
    pop_member(call, pops::End::Min)
}

pub(super) fn bzpopmax(call: &mut Call<'_>) -> Outcome {
    pop_member(call, pops::End::Max)
}

fn pop_member(call: &mut Call<'_>, end: pops::End) -> Outcome {
    of_first_key(call, Type::SortedSet, |call, key| pops::pop(call, key, end, 1, Form::KeyAndOne))
}

/// Tries the keys of a request, whose last word is the time that the client waits, until one has something.
fn of_first_key(
    call: &mut Call<'_>,
    of: Type,
    mut try_key: impl FnMut(&mut Call<'_>, &[u8]) -> Outcome<bool>,
) -> Outcome {
    let (args, last) = (call.args, call.args.len() - 1);
    let timeout = call.timeout(last)?;
    for index in 1..last {
        call.check_ending()?;
        let key = call.arg(index);
        if call.is_its_turn(of, key) && try_key(call, key)? {
            return Ok(());
        }
    }
    let keys = (1..last).filter_map(|index| args.get(index));
    call.wait_for(of, keys, timeout, |reply| reply.null_array())
}

pub(super) fn brpoplpush(call: &mut Call<'_>) -> Outcome {
    let timeout = call.timeout(3)?;
    move_element(call, (End::Right, End::Left), timeout)
}

pub(super) fn blmove(call: &mut Call<'_>) -> Outcome {
    let ends = (lists::end(call.arg(3))?, lists::end(call.arg(4))?);
    let timeout = call.timeout(5)?;
    move_element(call, ends, timeout)
}

fn move_element(call: &mut Call<'_>, ends: (End, End), timeout: Option<Duration>) -> Outcome {
    let (from, to) = (call.arg(1), call.arg(2));
    if call.is_its_turn(Type::List, from)
        && let Some(element) = lists::move_one(call, from, to, ends)?
    {
        call.reply().bulk(&element);
        return Ok(());
    }
    // As in Redis, the end of a wait is the null of an array, though an element would be a string.
    let has_waited = call.client.wait.is_some();
    call.wait_for(Type::List, [from], timeout, |reply| match has_waited {
        true => reply.null_array(),
        false => reply.null(),
    })
}

pub(super) fn blmpop(call: &mut Call<'_>) -> Outcome {
    let timeout = call.timeout(1)?;
    let request = lists::Popped::of(call, 2)?;
    for index in request.keys() {
        call.check_ending()?;
        let key = call.arg(index);
        if call.is_its_turn(Type::List, key) && lists::pop_from(call, key, &request)? {
            return Ok(());
        }
    }
    let args = call.args;
    let keys = request.keys().filter_map(|index| args.get(index));
    call.wait_for(Type::List, keys, timeout, |reply| reply.null_array())
}

pub(super) fn bzmpop(call: &mut Call<'_>) -> Outcome {
    let timeout = call.timeout(1)?;
    let request = pops::Popped::of(call, 2)?;
    for index in request.keys() {
        call.check_ending()?;
        let key = call.arg(index);
        if call.is_its_turn(Type::SortedSet, key) && pops::pop_from(call, key, &request)? {
            return Ok(());
        }
    }
    let args = call.args;
    let keys = request.keys().filter_map(|index| args.get(index));
    call.wait_for(Type::SortedSet, keys, timeout, |reply| reply.null_array())
}
