//! Commands on the deadlines of fields of hashes.
//!
//! All of them name fields behind the word FIELDS, and most reply with an array of as many elements.

use crate::call::{Call, is};
use crate::collection::hash::{Field, Hash};
use crate::failure::Outcome;
use crate::notifications::EventClass;
use crate::resp::Args;

use super::field_options::{
    self, COUNT_TOO_SMALL, Condition, FieldDeadline, NO_COUNT, Presence, SetFields,
};
use super::hashes::{self, find};
use super::options::Clock;

const SECONDS: Clock = Clock { seconds: true, relative: true };
const MILLISECONDS: Clock = Clock { seconds: false, relative: true };
const SECOND: Clock = Clock { seconds: true, relative: false };
const MILLISECOND: Clock = Clock { seconds: false, relative: false };

/// Replies: there is no such field.
const NO_FIELD: i64 = -2;
/// It has no deadline.
const NO_DEADLINE: i64 = -1;
/// The condition does not hold.
const NOT_DONE: i64 = 0;
const DONE: i64 = 1;
/// The deadline is past: the field was removed.
const REMOVED: i64 = 2;

pub(super) fn hexpire(call: &mut Call<'_>) -> Outcome {
    expire(call, SECONDS, "hexpire")
}

pub(super) fn hpexpire(call: &mut Call<'_>) -> Outcome {
    expire(call, MILLISECONDS, "hpexpire")
}

pub(super) fn hexpireat(call: &mut Call<'_>) -> Outcome {
    expire(call, SECOND, "hexpireat")
}

pub(super) fn hpexpireat(call: &mut Call<'_>) -> Outcome {
    expire(call, MILLISECOND, "hpexpireat")
}

fn expire(call: &mut Call<'_>, clock: Clock, command: &str) -> Outcome {
    let hash = find(call)?;
    let deadline = field_options::deadline(call, clock, call.arg(2), command)?;
    let condition = Condition::of(call.arg(3));
    let at = if condition.is_some() { 4 } else { 3 };
    let fields = field_options::fields(call, at, COUNT_TOO_SMALL)?;
    let condition = condition.unwrap_or(Condition::Always);
    change_each(call, hash, fields, |old| match condition.allows(old, deadline) {
        true => (DONE, FieldDeadline::At(deadline)),
        false => (NOT_DONE, FieldDeadline::Kept),
    })
}

pub(super) fn hpersist(call: &mut Call<'_>) -> Outcome {
    let hash = find(call)?;
    let fields = field_options::fields(call, 2, NO_COUNT)?;
    change_each(call, hash, fields, |old| match old {
        Some(_) => (DONE, FieldDeadline::Cleared),
        None => (NO_DEADLINE, FieldDeadline::Kept),
    })
}

/// Changes the deadline of each of some fields as `change` says by the one that it has, and replies with what that says.
fn change_each(
    call: &mut Call<'_>,
    hash: Option<Hash>,
    fields: Args<'_>,
    change: impl Fn(Option<u64>) -> (i64, FieldDeadline),
) -> Outcome {
    call.reply().array(fields.len());
    let Some(mut hash) = hash else {
        fields.iter().for_each(|_| call.reply().integer(NO_FIELD));
        return Ok(());
    };
    let mut last = Done::Nothing;
    for name in fields {
        call.check_ending()?;
        let answer = match hash.get(&call.service.store, name)? {
            None => NO_FIELD,
            Some(field) => {
                let (answer, deadline) = change(field.deadline);
                let done = set_deadline(call, &mut hash, name, &field, deadline)?;
                last = last.max(done);
                if done == Done::Removed { REMOVED } else { answer }
            }
        };
        call.reply().integer(answer);
    }
    hash.save(&mut call.service.store, last.event())
}

/// The effect of a new deadline on a field. Of those of several fields, the largest is told.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Done {
    Nothing,
    Cleared,
    Set,
    /// The deadline is past, and the field is no more.
    Removed,
}

impl Done {
    fn event(self) -> Option<&'static str> {
        match self {
            Self::Nothing => None,
            Self::Cleared => Some("hpersist"),
            Self::Set => Some("hexpire"),
            Self::Removed => Some("hdel"),
        }
    }
}

/// Sets the deadline of a field, which is removed if that is past.
fn set_deadline(
    call: &mut Call<'_>,
    hash: &mut Hash,
    name: &[u8],
    field: &Field,
    deadline: FieldDeadline,
) -> Outcome<Done> {
    let store = &mut call.service.store;
    let (new, done) = match deadline {
        FieldDeadline::Kept => return Ok(Done::Nothing),
        FieldDeadline::Cleared if field.deadline.is_none() => return Ok(Done::Nothing),
        FieldDeadline::Cleared => (None, Done::Cleared),
        FieldDeadline::At(at) if at <= store.now_ms => {
            hash.remove(store, name)?;
            return Ok(Done::Removed);
        }
        FieldDeadline::At(at) => (Some(at), Done::Set),
    };
    if new != field.deadline {
        hash.put(store, name, field.value(), new)?;
    }
    Ok(done)
}

pub(super) fn httl(call: &mut Call<'_>) -> Outcome {
    tell(call, SECONDS)
}

pub(super) fn hpttl(call: &mut Call<'_>) -> Outcome {
    tell(call, MILLISECONDS)
}

pub(super) fn hexpiretime(call: &mut Call<'_>) -> Outcome {
    tell(call, SECOND)
}

pub(super) fn hpexpiretime(call: &mut Call<'_>) -> Outcome {
    tell(call, MILLISECOND)
}

/// Replies with the deadlines of fields; seconds that have begun count.
fn tell(call: &mut Call<'_>, clock: Clock) -> Outcome {
    let mut hash = hashes::read(call)?;
    let fields = field_options::fields(call, 2, NO_COUNT)?;
    let since_ms = if clock.relative { call.service.store.now_ms } else { 0 };
    call.reply().array(fields.len());
    for name in fields {
        call.check_ending()?;
        let field = match &mut hash {
            Some(hash) => hash.get(&call.service.store, name)?,
            None => None,
        };
        let answer = match field.map(|field| field.deadline) {
            None => NO_FIELD,
            Some(None) => NO_DEADLINE,
            Some(Some(at)) => {
                let ms = at.saturating_sub(since_ms);
                (if clock.seconds { ms.div_ceil(1000) } else { ms }) as i64
            }
        };
        call.reply().integer(answer);
    }
    Ok(())
}

pub(super) fn hgetex(call: &mut Call<'_>) -> Outcome {
    let hash = find(call)?;
    let (deadline, at) = match Clock::option(call.arg(2)) {
        Some(clock) => {
            let at = field_options::deadline(call, clock, call.arg(3), "hgetex")?;
            (FieldDeadline::At(at), 4)
        }
        None if is(call.arg(2), "PERSIST") => (FieldDeadline::Cleared, 3),
        None => (FieldDeadline::Kept, 2),
    };
    let fields = field_options::fields(call, at, NO_COUNT)?;
    get_each(call, hash, fields, |call, hash, name, field| {
        set_deadline(call, hash, name, field, deadline)
    })
}

pub(super) fn hgetdel(call: &mut Call<'_>) -> Outcome {
    let hash = find(call)?;
    let fields = field_options::fields(call, 2, NO_COUNT)?;
    get_each(call, hash, fields, |call, hash, name, _| {
        hash.remove(&mut call.service.store, name)?;
        Ok(Done::Removed)
    })
}

/// Replies with the values of fields, and changes each that is there.
fn get_each<'a>(
    call: &mut Call<'a>,
    hash: Option<Hash>,
    fields: Args<'_>,
    mut change: impl FnMut(&mut Call<'a>, &mut Hash, &[u8], &Field) -> Outcome<Done>,
) -> Outcome {
    let start = call.out.len();
    call.reply().array(fields.len());
    let Some(mut hash) = hash else {
        fields.iter().for_each(|_| call.reply().null());
        return Ok(());
    };
    let mut last = Done::Nothing;
    for name in fields {
        let field = hash.get(&call.service.store, name)?;
        // Beyond the limit the client is dropped, and the fields are changed all the same.
        if call.must_write_on(start)? {
            call.reply().bulk_or_null(field.as_ref().map(Field::value));
        }
        if let Some(field) = field {
            last = last.max(change(call, &mut hash, name, &field)?);
        }
    }
    hash.save(&mut call.service.store, last.event())
}

pub(super) fn hsetex(call: &mut Call<'_>) -> Outcome {
    let SetFields { presence, deadline, pairs } = SetFields::parse(call)?;
    let (db, key) = (call.client.db, call.arg(1));
    let found = find(call)?;
    let is_absent = found.is_none();
    let mut hash = match found {
        Some(hash) => hash,
        None => Hash::new(&call.service.store, db, key)?,
    };
    let mut is_done = true;
    for field in pairs.iter().step_by(2) {
        call.check_ending()?;
        if presence == Presence::Any {
            break;
        }
        let is_there = hash.get(&call.service.store, field)?.is_some();
        if is_there != (presence == Presence::All) {
            is_done = false;
            break;
        }
    }
    let (mut words, mut last) = (pairs.iter(), Done::Nothing);
    while is_done && let (Some(field), Some(value)) = (words.next(), words.next()) {
        call.check_ending()?;
        last = last.max(set_field(call, &mut hash, field, value, deadline)?);
    }
    // As in Redis, fields whose deadline is past are set for a moment, and so is their hash.
    let is_momentary = is_absent && last == Done::Removed;
    if is_momentary {
        call.notify(EventClass::New, "new", key);
    }
    let events = is_done.then_some("hset").into_iter().chain(last.event());
    hash.save(&mut call.service.store, events)?;
    if is_momentary {
        call.service.store.note_changed(db, key);
        call.notify(EventClass::Generic, "del", key);
    }
    call.reply().flag(is_done);
    Ok(())
}

fn set_field(
    call: &mut Call<'_>,
    hash: &mut Hash,
    field: &[u8],
    value: &[u8],
    deadline: FieldDeadline,
) -> Outcome<Done> {
    let store = &mut call.service.store;
    let (deadline, done) = match deadline {
        FieldDeadline::At(at) if at <= store.now_ms => {
            hash.remove(store, field)?;
            return Ok(Done::Removed);
        }
        FieldDeadline::At(at) => (Some(at), Done::Set),
        FieldDeadline::Cleared => (None, Done::Nothing),
        FieldDeadline::Kept => {
            (hash.get(store, field)?.and_then(|field| field.deadline), Done::Nothing)
        }
    };
    hash.put(store, field, value, deadline)?;
    Ok(done)
}
