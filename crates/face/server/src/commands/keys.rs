//! Commands on keys: existence, removal, names.

use crate::call::{Call, is};
use crate::collection::stream::Stream;
use crate::failure::{NO_SUCH_KEY, Outcome, SYNTAX};
use crate::notifications::EventClass;

/// UNLINK is DEL, but that INFO tells of the collections whose elements go behind it, unless they are a few.
pub(super) fn unlink(call: &mut Call<'_>) -> Outcome {
    let (mut few, db) = (0, call.client.db);
    for key in call.args.from(1) {
        call.check_ending()?;
        // A stream has its elements in records of their own however many there are.
        if let Ok(Some(stream)) = Stream::find(&mut call.service.store, db, key) {
            let len = stream.state(&mut call.service.store)?.len;
            few += u64::from(len <= UNLINKED_FEW);
        }
    }
    let before = call.service.store.dropped;
    let done = del(call);
    let dropped = call.service.store.dropped - before;
    call.service.counters.keys_flushed_async += dropped.saturating_sub(few);
    done
}

/// Entries of a stream that Redis removes at once.
const UNLINKED_FEW: u64 = 64;

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

/// EXISTS, and TOUCH, of which the table says that it is a use of the keys.
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
        Some(value) => value.value_type()?.name(),
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
    // A value that may consist of more than is known of it is not moved.
    call.service.store.get(db, from)?.ok_or(NO_SUCH_KEY)?.value_type()?;
    if from == to || (!replace && call.service.store.contains(db, to)?) {
        return Ok(false);
    }
    call.service.store.rename((db, from), (db, to))?;
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
    let exists = call.read_any(from)?.map(|value| value.value_type()).transpose()?.is_some();
    let copied = exists && (replace || !call.service.store.contains(to_db, to)?);
    if copied {
        call.service.store.copy((from_db, from), (to_db, to))?;
        call.service.store.notify(EventClass::Generic, "copy_to", to_db, to);
    }
    call.reply().flag(copied);
    Ok(())
}

pub(super) fn move_to_database(call: &mut Call<'_>) -> Outcome {
    let (from, key, to) = (call.client.db, call.arg(1), call.database(2)?);
    if from == to {
        return Err("ERR source and destination objects are the same".into());
    }
    let exists = call.service.store.get(from, key)?.map(|value| value.value_type());
    let exists = exists.transpose()?.is_some();
    let moved = exists && !call.service.store.contains(to, key)?;
    if moved {
        call.service.store.rename((from, key), (to, key))?;
        call.service.store.notify(EventClass::Generic, "move_from", from, key);
        call.service.store.notify(EventClass::Generic, "move_to", to, key);
    }
    call.reply().flag(moved);
    Ok(())
}
