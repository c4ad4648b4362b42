//! Commands of an administrator about the whole server.

use std::sync::atomic::Ordering;

use crate::call::{Call, is};
use crate::clock::unix_time;
use crate::failure::{Failure, Outcome, SYNTAX};
use crate::number::{Decimal, parse_i64};

pub(super) fn dbsize(call: &mut Call<'_>) -> Outcome {
    let len = call.service.store.len(call.client.db)?;
    call.check_ending()?;
    call.reply().integer(len as i64);
    Ok(())
}

pub(super) fn time(call: &mut Call<'_>) -> Outcome {
    // Within a script, time stands still.
    let now = call.client.script_began.unwrap_or_else(unix_time);
    let mut reply = call.reply();
    reply.array(2);
    reply.bulk(Decimal::unsigned(now.as_secs()).as_bytes());
    reply.bulk(Decimal::unsigned(u64::from(now.subsec_micros())).as_bytes());
    Ok(())
}

pub(super) fn flushdb(call: &mut Call<'_>) -> Outcome {
    let db = call.client.db;
    flush(call, db..db + 1)
}

pub(super) fn flushall(call: &mut Call<'_>) -> Outcome {
    let all = 0..call.service.settings.databases;
    flush(call, all)
}

/// Removes all keys, which takes one record however many there are: SYNC and ASYNC are the same.
fn flush(call: &mut Call<'_>, dbs: std::ops::Range<usize>) -> Outcome {
    match call.args.get(1) {
        None => {}
        Some(word) if call.args.len() == 2 && (is(word, "SYNC") || is(word, "ASYNC")) => {}
        Some(_) => return Err(SYNTAX.into()),
    }
    let before = call.service.store.changes;
    call.service.store.flush(dbs)?;
    if call.args.get(1).is_some_and(|word| is(word, "ASYNC")) {
        call.service.counters.keys_flushed_async += call.service.store.changes - before;
    }
    call.reply().ok();
    Ok(())
}

pub(super) fn swapdb(call: &mut Call<'_>) -> Outcome {
    let number = |index, error: &'static str| {
        let number = parse_i64(call.arg(index)).filter(|&number| i32::try_from(number).is_ok());
        number.ok_or_else(|| Failure::from(error))
    };
    let a = number(1, "ERR invalid first DB index")?;
    let b = number(2, "ERR invalid second DB index")?;
    let (a, b) = (call.check_database(a)?, call.check_database(b)?);
    if a != b {
        call.service.store.swap(a, b)?;
    }
    call.reply().ok();
    Ok(())
}

/// Has everything made durable, and changes counted anew from here on.
pub(super) fn ask_for_sync(call: &mut Call<'_>) -> Outcome {
    call.service.check_durable()?;
    call.service.sync_asked = true;
    call.service.change(|common| common.saves += 1);
    Ok(())
}

/// The event loop makes everything durable before it sends the reply.
pub(super) fn save(call: &mut Call<'_>) -> Outcome {
    ask_for_sync(call)?;
    call.reply().ok();
    Ok(())
}

pub(super) fn bgsave(call: &mut Call<'_>) -> Outcome {
    match call.args.get(1) {
        None => {}
        Some(word) if is(word, "SCHEDULE") && call.args.len() == 2 => {}
        Some(_) => return Err(SYNTAX.into()),
    }
    ask_for_sync(call)?;
    call.reply().simple("Background saving started");
    Ok(())
}

/// The store needs no rewriting: as BGSAVE does, this makes everything durable.
pub(super) fn bgrewriteaof(call: &mut Call<'_>) -> Outcome {
    ask_for_sync(call)?;
    call.reply().simple("Background append only file rewriting started");
    Ok(())
}

pub(super) fn lastsave(call: &mut Call<'_>) -> Outcome {
    let saved_ms = call.service.shared.saved_ms.load(Ordering::Relaxed);
    let seconds = call.service.synced_ms.max(saved_ms) / 1000;
    call.reply().integer(seconds as i64);
    Ok(())
}

/// No condition keeps the server from stopping, so NOW and FORCE make no difference. All writes are made durable before
/// it stops, so SAVE and NOSAVE make none either.
pub(super) fn shutdown(call: &mut Call<'_>) -> Outcome {
    let (mut save, mut no_save, mut abort) = (false, false, false);
    for word in call.args.from(1) {
        match () {
            () if is(word, "SAVE") => save = true,
            () if is(word, "NOSAVE") => no_save = true,
            () if is(word, "NOW") || is(word, "FORCE") => {}
            () if is(word, "ABORT") => abort = true,
            () => return Err(SYNTAX.into()),
        }
    }
    if save && no_save || abort && call.args.len() > 2 {
        return Err(SYNTAX.into());
    }
    if abort {
        return Err("ERR No shutdown in progress.".into());
    }
    call.service.shared.stop();
    call.client.closing = true;
    Ok(())
}
