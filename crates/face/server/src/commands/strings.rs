//! Commands on values, from GET and SET on.

use crate::call::{Call, string};
use crate::failure::{NOT_AN_INTEGER, Outcome, SYNTAX, TOO_LONG};
use crate::notifications::EventClass;
use crate::number::parse_i64;
use crate::store::{Encoding, NewDeadline};
use crate::stored::STRING_LEN_MAX;

use super::condition::Condition;
use super::object::EMBEDDED_LEN_MAX;
use super::options::{self, Clock, SetOptions};

pub(super) fn get(call: &mut Call<'_>) -> Outcome {
    let value = call.read(call.arg(1))?;
    call.reply().bulk_or_null(value.as_deref());
    Ok(())
}

pub(super) fn mget(call: &mut Call<'_>) -> Outcome {
    let (keys, start) = (call.args.from(1), call.out.len());
    call.reply().array(keys.len());
    for key in keys {
        let value = call.read_if_string(key)?;
        call.reply().bulk_or_null(value.as_deref());
        if !call.must_write_on(start)? {
            break;
        }
    }
    Ok(())
}

pub(super) fn strlen(call: &mut Call<'_>) -> Outcome {
    let len = call.read(call.arg(1))?.map_or(0, |value| value.len());
    call.reply().integer(len as i64);
    Ok(())
}

pub(super) fn getrange(call: &mut Call<'_>) -> Outcome {
    let (start, end) = (call.integer(2)?, call.integer(3)?);
    let value = call.read(call.arg(1))?;
    let value = value.as_deref().unwrap_or_default();
    call.reply().bulk(part(value, start, end));
    Ok(())
}

/// The bytes from `start` to `end`, both included; negative positions count from the end.
fn part(value: &[u8], start: i64, end: i64) -> &[u8] {
    let len = value.len() as i64;
    if start < 0 && end < 0 && start > end {
        return &[];
    }
    let from_end = |position: i64| {
        if position < 0 { position.saturating_add(len).max(0) } else { position }
    };
    let (start, end) = (from_end(start), from_end(end).min(len - 1));
    if start > end { &[] } else { &value[start as usize..=end as usize] }
}

pub(super) fn set(call: &mut Call<'_>) -> Outcome {
    let (key, value) = (call.arg(1), call.arg(2));
    if call.args.len() == 3 {
        put(call, key, value)?;
        call.reply().ok();
        return Ok(());
    }
    let options = SetOptions::of_set(call)?;
    let deadline = options.new_deadline(call, "set")?;
    let compares = options.condition.is_some_and(|condition| !condition.is_about_existence());
    let looks = options.get || options.condition.is_some() || options.keep_ttl;
    let old = if looks { call.service.store.get(call.client.db, key)? } else { None };
    let exists = old.is_some();
    if options.get && !exists {
        call.notify(EventClass::KeyMiss, "keymiss", key);
    }
    let old = if options.get || compares { string(old)? } else { None };
    let refused = match options.condition {
        None => false,
        Some(condition) if compares => !condition.holds(old.as_deref())?,
        Some(condition) => (condition == Condition::Present) != exists,
    };
    if !refused {
        put_until(call, key, value, deadline)?;
    }
    match (options.get, refused) {
        (true, _) => call.reply().bulk_or_null(old.as_deref()),
        (false, true) => call.reply().null(),
        (false, false) => call.reply().ok(),
    }
    Ok(())
}

/// Sets a value that does not expire, for SET and its kin.
fn put(call: &mut Call<'_>, key: &[u8], value: &[u8]) -> Outcome {
    put_until(call, key, value, NewDeadline::Clear)
}

/// Sets a value and its deadline, for SET and its kin.
#[inline]
fn put_until(call: &mut Call<'_>, key: &[u8], value: &[u8], deadline: NewDeadline) -> Outcome {
    call.service.store.put(call.client.db, key, value, deadline)?;
    call.notify(EventClass::String, "set", key);
    if let NewDeadline::At(_) = deadline {
        call.notify(EventClass::Generic, "expire", key);
    }
    Ok(())
}

pub(super) fn setnx(call: &mut Call<'_>) -> Outcome {
    let key = call.arg(1);
    let absent = !call.contains(key)?;
    if absent {
        put(call, key, call.arg(2))?;
    }
    call.reply().flag(absent);
    Ok(())
}

pub(super) fn setex(call: &mut Call<'_>) -> Outcome {
    set_expiring(call, Clock { seconds: true, relative: true }, "setex")
}

pub(super) fn psetex(call: &mut Call<'_>) -> Outcome {
    set_expiring(call, Clock { seconds: false, relative: true }, "psetex")
}

fn set_expiring(call: &mut Call<'_>, clock: Clock, command: &str) -> Outcome {
    let deadline = options::deadline(call, clock, call.arg(2), command)?;
    put_until(call, call.arg(1), call.arg(3), NewDeadline::At(deadline))?;
    call.reply().ok();
    Ok(())
}

pub(super) fn getset(call: &mut Call<'_>) -> Outcome {
    let key = call.arg(1);
    let old = call.read(key)?;
    put(call, key, call.arg(2))?;
    call.reply().bulk_or_null(old.as_deref());
    Ok(())
}

pub(super) fn getdel(call: &mut Call<'_>) -> Outcome {
    let key = call.arg(1);
    let old = call.read(key)?;
    if old.is_some() {
        call.service.store.remove(call.client.db, key)?;
        call.notify(EventClass::Generic, "del", key);
    }
    call.reply().bulk_or_null(old.as_deref());
    Ok(())
}

pub(super) fn getex(call: &mut Call<'_>) -> Outcome {
    let (db, key) = (call.client.db, call.arg(1));
    let options = SetOptions::of_getex(call)?;
    let Some(value) = call.read(key)? else {
        call.reply().null();
        return Ok(());
    };
    match options.deadline(call, "getex")? {
        Some(at) if at <= call.service.store.now_ms => {
            call.service.store.remove(db, key)?;
            call.notify(EventClass::Generic, "del", key);
        }
        Some(at) => {
            call.service.store.set_deadline(db, key, Some(at))?;
            call.notify(EventClass::Generic, "expire", key);
        }
        None if options.persist && call.service.store.deadline(db, key)?.is_some() => {
            call.service.store.set_deadline(db, key, None)?;
            call.notify(EventClass::Generic, "persist", key);
        }
        None => {}
    }
    call.reply().bulk(&value);
    Ok(())
}

pub(super) fn mset(call: &mut Call<'_>) -> Outcome {
    check_pairs(call, "mset")?;
    set_pairs(call)?;
    call.reply().ok();
    Ok(())
}

pub(super) fn msetnx(call: &mut Call<'_>) -> Outcome {
    check_pairs(call, "msetnx")?;
    for key in call.args.from(1).iter().step_by(2) {
        call.check_ending()?;
        if call.contains(key)? {
            call.reply().flag(false);
            return Ok(());
        }
    }
    set_pairs(call)?;
    call.reply().flag(true);
    Ok(())
}

fn check_pairs(call: &Call<'_>, command: &str) -> Outcome {
    if call.args.len() % 2 == 1 {
        Ok(())
    } else {
        Err(format!("ERR wrong number of arguments for '{command}' command").into())
    }
}

fn set_pairs(call: &mut Call<'_>) -> Outcome {
    let mut words = call.args.from(1).iter();
    while let (Some(key), Some(value)) = (words.next(), words.next()) {
        call.check_ending()?;
        put(call, key, value)?;
    }
    Ok(())
}

/// MSETEX: several keys together, with one deadline, on the condition that all or none of them exist.
pub(super) fn msetex(call: &mut Call<'_>) -> Outcome {
    let count = parse_i64(call.arg(1)).filter(|count| (1..=i64::from(i32::MAX)).contains(count));
    let count = count.ok_or("ERR invalid numkeys value")? as usize;
    if call.args.len() < 2 + 2 * count {
        return Err("ERR wrong number of key-value pairs".into());
    }
    let (mut options, mut condition) = (SetOptions::default(), None);
    let mut words = call.args.from(2 + 2 * count).iter();
    while let Some(word) = words.next() {
        if options.read_deadline(word, &mut words, false)? {
            continue;
        }
        let read = Condition::read(word, &mut words)?.filter(|read| read.is_about_existence());
        let read = read.ok_or(SYNTAX)?;
        if condition.is_some_and(|known| known != read) {
            return Err(SYNTAX.into());
        }
        condition = Some(read);
    }
    let deadline = options.new_deadline(call, "msetex")?;
    let pairs = || call.args.from(2).iter().take(2 * count);
    let (keys, values) = (pairs().step_by(2), pairs().skip(1).step_by(2));
    for key in keys.clone().filter(|_| condition.is_some()) {
        call.check_ending()?;
        if call.contains(key)? != (condition == Some(Condition::Present)) {
            call.reply().flag(false);
            return Ok(());
        }
    }
    for (key, value) in keys.zip(values) {
        call.check_ending()?;
        put_until(call, key, value, deadline)?;
    }
    call.reply().flag(true);
    Ok(())
}

pub(super) fn append(call: &mut Call<'_>) -> Outcome {
    let (key, tail) = (call.arg(1), call.arg(2));
    let old = call.get(key)?;
    let existed = old.is_some();
    let old = old.as_deref().unwrap_or_default();
    let len = check_len(call, old.len().checked_add(tail.len()))?;
    let encoding = existed.then_some(Encoding::Raw);
    put_computed(call, key, (len, encoding), |value| {
        value.extend_from_slice(old);
        value.extend_from_slice(tail);
    })?;
    call.notify(EventClass::String, "append", key);
    call.reply().integer(len as i64);
    Ok(())
}

pub(super) fn setrange(call: &mut Call<'_>) -> Outcome {
    let (key, text) = (call.arg(1), call.arg(3));
    let offset = parse_i64(call.arg(2)).ok_or(NOT_AN_INTEGER)?;
    let offset = usize::try_from(offset).map_err(|_| "ERR offset is out of range")?;
    let old = call.get(key)?;
    let old = old.as_deref().unwrap_or_default();
    if text.is_empty() {
        call.reply().integer(old.len() as i64);
        return Ok(());
    }
    let end = check_len(call, offset.checked_add(text.len()))?;
    let len = old.len().max(end);
    put_computed(call, key, (len, Some(Encoding::Raw)), |value| {
        value.extend_from_slice(&old[..offset.min(old.len())]);
        value.resize(value.len() + offset.saturating_sub(old.len()), 0);
        value.extend_from_slice(text);
        value.extend_from_slice(old.get(end..).unwrap_or_default());
    })?;
    call.notify(EventClass::String, "setrange", key);
    call.reply().integer(len as i64);
    Ok(())
}

/// The length that a value would have, if it may have it.
pub(super) fn check_len(call: &Call<'_>, len: Option<usize>) -> Outcome<usize> {
    let len_max = call.service.settings.limits.bulk_len_max.min(STRING_LEN_MAX);
    len.filter(|&len| len <= len_max).ok_or_else(|| TOO_LONG.into())
}

/// Sets a value of a known length that `write` appends; the key's deadline stays. `encoding` is the encoding that Redis
/// would leave, if it does not follow from the value.
pub(super) fn put_computed(
    call: &mut Call<'_>,
    key: &[u8],
    (len, encoding): (usize, Option<Encoding>),
    write: impl FnOnce(&mut Vec<u8>),
) -> Outcome {
    let (store, db) = (&mut call.service.store, call.client.db);
    store.put_written(db, key, NewDeadline::Keep, |value| {
        value.reserve(len);
        write(value);
    })?;
    if let Some(encoding) = encoding.filter(|_| len <= EMBEDDED_LEN_MAX) {
        store.note_encoding(db, key, encoding);
    }
    Ok(())
}

/// Notes that Redis would leave a value of this length as a text that was changed in place.
pub(super) fn note_raw(call: &mut Call<'_>, key: &[u8], len: usize) {
    if len <= EMBEDDED_LEN_MAX {
        call.service.store.note_encoding(call.client.db, key, Encoding::Raw);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_cut_at_the_ends_of_the_value() {
        let value = b"Hello World";
        for (start, end, expected) in [
            (0, 3, "Hell"),
            (0, -1, "Hello World"),
            (-4, -1, "orld"),
            (5, 3, ""),
            (5, 5000, " World"),
            (-5000, 10000, "Hello World"),
            (0, -100, "H"),
            (-1, -100, ""),
            (i64::MIN, i64::MIN, "H"),
            (i64::MAX, i64::MAX, ""),
        ] {
            assert_eq!(part(value, start, end), expected.as_bytes(), "{start}..={end}");
        }
        assert_eq!(part(b"", 0, -1), b"");
    }
}
