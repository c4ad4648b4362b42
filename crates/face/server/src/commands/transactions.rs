//! Transactions: commands that are applied atomically, if the keys that they watch have not changed.
//!
//! They need only atomic batches of the database. The parts of all keys that a transaction names and watches are here
//! when EXEC runs (`shard`), and a part has one owner, so between the first command and the commit no other client
//! reads or writes these keys: no key that a commit would have to validate can have changed. Changes before that, since
//! WATCH, are counted by the part (`store/watches`), for watched keys only. A snapshot for each WATCH, and a commit
//! that depends on it (`halite_contract::Transactional::write_if`), would detect the same changes, at the cost of a clone of
//! every index and of copies of the nodes that are written behind it.
//!
//! That holds because only the server writes to the database: its pool is locked for one process, and the server owns
//! the database.

use std::collections::HashSet;

use crate::admission::{Admitted, Sender, check_rights};
use crate::call::Call;
use crate::client::Client;
use crate::commands::flags;
use crate::dispatch;
use crate::failure::{Failure, KEPT_TOO_MUCH, Outcome};
use crate::service::Service;
use crate::transaction::Queue;

/// Bytes that a watch takes beside its key, about.
const WATCH: usize = 128;

pub(super) fn multi(call: &mut Call<'_>) -> Outcome {
    if call.client.queue.is_some() {
        return Err("ERR MULTI calls can not be nested".into());
    }
    call.client.queue = Some(Queue::default());
    call.reply().ok();
    Ok(())
}

pub(super) fn discard(call: &mut Call<'_>) -> Outcome {
    if call.client.queue.is_none() {
        return Err("ERR DISCARD without MULTI".into());
    }
    leave(call.service, call.client);
    call.reply().ok();
    Ok(())
}

pub(super) fn watch(call: &mut Call<'_>) -> Outcome {
    if call.client.queue.is_some() {
        return Err("ERR WATCH inside MULTI is not allowed".into());
    }
    let db = call.client.db;
    let of_db = call.client.watches.iter().filter(|watch| watch.db == db);
    let mut known: HashSet<Vec<u8>> = of_db.map(|watch| watch.key.to_vec()).collect();
    let limit = call.service.settings.limits.transaction_len_max;
    let counted = call.client.watches_len;
    for key in call.args.from(1) {
        call.check_ending()?;
        if !known.insert(key.to_vec()) {
            continue;
        }
        let bytes = key.len() + WATCH;
        if call.client.watches_len + bytes > limit {
            let why =
                format!("ERR the watched keys take more than {limit} bytes; EXEC or UNWATCH first");
            return Err(why.into());
        }
        let more = call.client.watches_len - counted + bytes;
        if call.service.lacks_memory(call.client.no_evict, more) {
            return Err(KEPT_TOO_MUCH.into());
        }
        let watch = call.service.store.watch(db, key)?;
        call.client.watches.push(watch);
        call.client.watches_len += bytes;
    }
    call.reply().ok();
    Ok(())
}

pub(super) fn unwatch(call: &mut Call<'_>) -> Outcome {
    forget_watches(call.service, call.client);
    call.reply().ok();
    Ok(())
}

/// Executes the queued commands on top of the store, and commits their changes as one batch.
pub(super) fn exec(call: &mut Call<'_>) -> Outcome {
    let Some(queue) = call.client.queue.take() else {
        return Err("ERR EXEC without MULTI".into());
    };
    // An aborted transaction checks no watched key: the parts of its keys may be on other threads.
    let changed = if queue.is_aborted() { Ok(false) } else { watched_key_changed(call) };
    forget_watches(call.service, call.client);
    if queue.is_aborted() {
        return Err("EXECABORT Transaction discarded because of previous errors.".into());
    }
    if changed? {
        call.reply().null_array();
        return Ok(());
    }
    let db = call.client.db;
    let done = check_all(call, &queue).and_then(|()| {
        call.service.store.begin();
        call.service.may_wait = false;
        let done = run(call, &queue).and_then(|()| Ok(call.service.store.commit()?));
        call.service.may_wait = true;
        call.service.store.rollback();
        done
    });
    done.map_err(|failure| {
        // A SELECT of it did not happen, either.
        call.client.db = db;
        // It would not know to which channels it is subscribed.
        call.client.closing |= queue.iter().any(|queued| queued.command().is(flags::PUSHES));
        dispatch::abort(&failure)
    })
}

/// Refuses a transaction of which a part cannot be executed, because its partition could not be recovered, or read.
fn check_all(call: &Call<'_>, queue: &Queue) -> Outcome {
    if !call.service.store.has_broken() {
        return Ok(());
    }
    let store = &call.service.store;
    queue
        .iter()
        .try_for_each(|queued| dispatch::check_partitions(store, queued.command(), queued.args()))
}

/// Executes the queued commands. One that is refused does not keep the others from being executed;
/// if the store fails, all end.
fn run(call: &mut Call<'_>, queue: &Queue) -> Outcome {
    let start = call.out.len();
    call.reply().array(queue.len());
    for queued in queue.iter() {
        call.service.counters.commands += 1;
        match perform(call, queued) {
            Err(Failure::Refused(text)) => {
                call.service.note_error(&text);
                call.reply().error(&text);
            }
            Err(Failure::RefusedInScript(text)) => call.reply().error(&text),
            done => done?,
        }
        // Beyond the limit the client is dropped; the other commands must be executed nevertheless.
        let kept = call.service.settings.reply_len_max().saturating_add(1);
        call.out.truncate(start.saturating_add(kept));
    }
    Ok(())
}

/// Executes a queued command, if its client still may.
fn perform(call: &mut Call<'_>, queued: Admitted<'_>) -> Outcome {
    if !call.client.login.has_pass(&call.service.acl) {
        let (command, args) = (queued.command(), queued.args());
        check_rights(call.service, call.client, command, args, Sender::Exec)?;
    }
    dispatch::perform(call.service, call.client, queued, call.out)
}

fn watched_key_changed(call: &mut Call<'_>) -> Outcome<bool> {
    for watch in &call.client.watches {
        call.check_ending()?;
        if call.service.store.has_changed(watch)? {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Ends the transaction of a client without executing it.
pub(crate) fn leave(service: &mut Service, client: &mut Client) {
    client.queue = None;
    forget_watches(service, client);
}

fn forget_watches(service: &mut Service, client: &mut Client) {
    client.watches_len = 0;
    for watch in std::mem::take(&mut client.watches) {
        service.forgotten.extend(service.store.unwatch(watch));
    }
}
