//! Taking the members with the lowest or the highest scores out: ZPOPMIN, ZPOPMAX and ZMPOP.
//!
//! [`pop`] and [`pop_from`] try it once, so that commands which wait for a member can try it again.

use crate::call::{Call, is};
use crate::collection::sorted_set::SortedSet;
use crate::commands::long_reply::LongReply;
use crate::commands::ranges::{count_of_keys, count_option, positive};
use crate::failure::{Outcome, SYNTAX};
use crate::reply::Protocol;

/// An end of a sorted set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum End {
    Min,
    Max,
}

pub(crate) fn zpopmin(call: &mut Call<'_>) -> Outcome {
    pop_at(call, End::Min)
}

pub(crate) fn zpopmax(call: &mut Call<'_>) -> Outcome {
    pop_at(call, End::Max)
}

fn pop_at(call: &mut Call<'_>, end: End) -> Outcome {
    let count = match call.args.len() {
        2 => None,
        3 => Some(positive(call.arg(2))?),
        _ => return Err(SYNTAX.into()),
    };
    let form = if count.is_some() { Form::Many } else { Form::One };
    if !pop(call, call.arg(1), end, count.unwrap_or(1), form)? {
        call.reply().array(0);
    }
    Ok(())
}

/// The reply to a command that takes members out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Form {
    /// A member and its score.
    One,
    /// Members with their scores, as pairs in RESP3.
    Many,
    /// The key, a member and its score: of commands that wait.
    KeyAndOne,
    /// The key, and pairs.
    KeyAndPairs,
}

/// Takes up to `count` members out of the sorted set at a key, and replies them, if there is one; returns whether there is.
pub(crate) fn pop(
    call: &mut Call<'_>,
    key: &[u8],
    end: End,
    count: usize,
    form: Form,
) -> Outcome<bool> {
    let store = &mut call.service.store;
    let Some(mut set) = SortedSet::find(store, call.client.db, key)? else { return Ok(false) };
    let selection = set.select_end(store, count, end == End::Max)?;
    let count = selection.len();
    let (store, mut reply) = LongReply::of(call);
    let are_pairs = match form {
        Form::One | Form::KeyAndOne => false,
        Form::Many => reply.write().protocol == Protocol::Resp3,
        Form::KeyAndPairs => true,
    };
    let mut write = reply.write();
    match form {
        Form::KeyAndOne => {
            write.array(1 + 2 * count);
            write.bulk(key);
        }
        Form::KeyAndPairs => {
            write.array(2);
            write.bulk(key);
            write.array(count);
        }
        Form::One | Form::Many => write.array(if are_pairs { count } else { 2 * count }),
    }
    set.visit(store, &selection, |score, member| {
        let mut write = reply.write();
        if are_pairs {
            write.array(2);
        }
        write.bulk(member);
        write.double(score);
        reply.go_on()
    })?;
    set.remove_selected(store, selection)?;
    let event = if end == End::Min { "zpopmin" } else { "zpopmax" };
    set.save(store, (count > 0).then_some(event))?;
    Ok(true)
}

pub(crate) fn zmpop(call: &mut Call<'_>) -> Outcome {
    let request = Popped::of(call, 1)?;
    for index in request.keys() {
        if pop_from(call, call.arg(index), &request)? {
            return Ok(());
        }
    }
    call.reply().null_array();
    Ok(())
}

/// The words of ZMPOP, and of its form that waits.
pub(crate) struct Popped {
    first: usize,
    keys: usize,
    end: End,
    count: usize,
}

impl Popped {
    /// Reads the words from the number of keys on, which is the word with this index.
    pub(crate) fn of(call: &Call<'_>, at: usize) -> Outcome<Self> {
        let keys = count_of_keys(call.arg(at))?;
        let first = at + 1;
        let place = first.checked_add(keys).filter(|&place| place < call.args.len());
        let place = place.ok_or(SYNTAX)?;
        let end = match call.arg(place) {
            word if is(word, "MIN") => End::Min,
            word if is(word, "MAX") => End::Max,
            _ => return Err(SYNTAX.into()),
        };
        let count = count_option(call.args.from(place + 1))?;
        Ok(Self { first, keys, end, count })
    }

    /// The indexes of the keys.
    pub(crate) fn keys(&self) -> std::ops::Range<usize> {
        self.first..self.first + self.keys
    }
}

/// Takes members out of the sorted set at a key and replies them behind the key, if there is one; returns whether there is.
pub(crate) fn pop_from(call: &mut Call<'_>, key: &[u8], request: &Popped) -> Outcome<bool> {
    pop(call, key, request.end, request.count, Form::KeyAndPairs)
}
