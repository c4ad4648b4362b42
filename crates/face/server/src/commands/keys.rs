//! Commands on keys: existence, removal, names.

use crate::call::{Call, is};
use crate::failure::{NO_SUCH_KEY, Outcome, SYNTAX};
use crate::notifications::EventClass;
use crate::store::{Encoding, NewDeadline, Store};
use crate::stored::{Stored, Type};

pub(super) fn del(call: &mut Call<'_>) -> Outcome {
    let mut count = 0;
    for key in call.args.from(1) {
        call.check_ending()?;
        if call.service.store.remove(call.client.db, key)? {
            call.notify(EventClass::Generic, "del", key);
            count += 1;
        }
    }
    call.reply().integer(count);
    Ok(())
}

/// EXISTS, and TOUCH: no time of last use is kept that could be touched.
pub(super) fn exists(call: &mut Call<'_>) -> Outcome {
    let mut count = 0;
    for key in call.args.from(1) {
        call.check_ending()?;
        count += i64::from(call.read_any(key)?.is_some());
    }
    call.reply().integer(count);
    Ok(())
}

pub(super) fn key_type(call: &mut Call<'_>) -> Outcome {
    let name = match call.read_any(call.arg(1))? {
        Some(value) => match value.value_type()? {
            Type::String => "string",
        },
        None => "none",
    };
    call.reply().simple(name);
    Ok(())
}

pub(super) fn randomkey(call: &mut Call<'_>) -> Outcome {
    let service = &mut *call.service;
    let key = service.store.random_key(call.client.db, || service.random.u64(..))?;
    call.check_ending()?;
    call.reply().bulk_or_null(key.as_deref());
    Ok(())
}

pub(super) fn rename(call: &mut Call<'_>) -> Outcome {
    move_key(call, true)?;
    call.reply().ok();
    Ok(())
}

pub(super) fn renamenx(call: &mut Call<'_>) -> Outcome {
    let moved = move_key(call, false)?;
    call.reply().flag(moved);
    Ok(())
}

/// Moves a value with its deadline to another key; returns whether it did.
fn move_key(call: &mut Call<'_>, replace: bool) -> Outcome<bool> {
    let (db, from, to) = (call.client.db, call.arg(1), call.arg(2));
    let value = call.service.store.get(db, from)?.ok_or(NO_SUCH_KEY)?;
    check_whole(&value)?;
    if from == to {
        return Ok(false);
    }
    if !replace && call.service.store.contains(db, to)? {
        return Ok(false);
    }
    let deadline = new_deadline(call.service.store.deadline(db, from));
    let encoding = call.service.store.encoding(db, from);
    put_copy(&mut call.service.store, db, to, &value, deadline, encoding)?;
    call.service.store.remove(db, from)?;
    call.notify(EventClass::Generic, "rename_from", from);
    call.notify(EventClass::Generic, "rename_to", to);
    Ok(true)
}

pub(super) fn copy(call: &mut Call<'_>) -> Outcome {
    let (from_db, from, to) = (call.client.db, call.arg(1), call.arg(2));
    let (mut to_db, mut replace) = (from_db, false);
    let mut index = 3;
    while let Some(word) = call.args.get(index) {
        index += 1;
        if is(word, "REPLACE") {
            replace = true;
        } else if is(word, "DB") && index < call.args.len() {
            to_db = call.database(index)?;
            index += 1;
        } else {
            return Err(SYNTAX.into());
        }
    }
    if from_db == to_db && from == to {
        return Err("ERR source and destination objects are the same".into());
    }
    let value = call.read_any(from)?;
    value.iter().try_for_each(check_whole)?;
    let copied = match value {
        Some(value) if replace || !call.service.store.contains(to_db, to)? => {
            let deadline = new_deadline(call.service.store.deadline(from_db, from));
            let encoding = call.service.store.encoding(from_db, from);
            put_copy(&mut call.service.store, to_db, to, &value, deadline, encoding)?;
            call.service.store.notify(EventClass::Generic, "copy_to", to_db, to);
            true
        }
        _ => false,
    };
    call.reply().flag(copied);
    Ok(())
}

pub(super) fn move_to_database(call: &mut Call<'_>) -> Outcome {
    let (from, key, to) = (call.client.db, call.arg(1), call.database(2)?);
    if from == to {
        return Err("ERR source and destination objects are the same".into());
    }
    let value = call.service.store.get(from, key)?;
    value.iter().try_for_each(check_whole)?;
    let moved = match value {
        Some(value) if !call.service.store.contains(to, key)? => {
            let deadline = new_deadline(call.service.store.deadline(from, key));
            let encoding = call.service.store.encoding(from, key);
            put_copy(&mut call.service.store, to, key, &value, deadline, encoding)?;
            call.service.store.remove(from, key)?;
            call.service.store.notify(EventClass::Generic, "move_from", from, key);
            call.service.store.notify(EventClass::Generic, "move_to", to, key);
            true
        }
        _ => false,
    };
    call.reply().flag(moved);
    Ok(())
}

/// Puts the copy of a value at a key. A key that it replaces counts as removed, so that it is new.
fn put_copy(
    store: &mut Store,
    db: usize,
    key: &[u8],
    value: &Stored,
    deadline: NewDeadline,
    encoding: Option<Encoding>,
) -> Outcome {
    let replaces = store.outbox.events.include(EventClass::New) && store.contains(db, key)?;
    store.put_stored(db, key, value.bytes(), deadline)?;
    if let Some(encoding) = encoding {
        store.note_encoding(db, key, encoding);
    }
    if replaces {
        store.notify(EventClass::New, "new", db, key);
    }
    Ok(())
}

/// Refuses to move a value that may consist of more than its record.
fn check_whole(value: &Stored) -> Outcome {
    match value.value_type()? {
        Type::String => Ok(()),
    }
}

fn new_deadline(deadline: Option<u64>) -> NewDeadline {
    deadline.map_or(NewDeadline::Clear, NewDeadline::At)
}
