//! From an admitted request to its reply: performed now, or kept for EXEC.

use crate::admission::{Admission, Admitted, check_store};
use crate::ahead::AHEAD;
use crate::call::Call;
use crate::client::{Client, Replies};
use crate::clock::unix_time;
use crate::commands::{self, Command, flags};
use crate::failure::{Failure, KEPT_TOO_MUCH, Outcome, without_code};
use crate::monitor;
use crate::reply::{Protocol, Reply};
use crate::resp::Args;
use crate::service::Service;
use crate::shard::command_partitions::partitions_of;
use crate::store::Store;
use crate::transaction::Queue;
use crate::waiting;

/// The outcome of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Dispatched {
    /// It was executed and its reply is written, or it travels and its reply has a place.
    Done,
    /// It must wait until the pause is over.
    Paused,
    /// It must wait for a partition that is still recovered.
    Unready,
    /// It must wait for room in a packet, or for a part that is lent.
    Stalled,
    /// It must wait for replies to the requests before it.
    Unanswered,
    /// It must wait for the next piece of a backup, or for the end of a migration.
    Awaiting,
    /// It waits for parts, or reports, of other threads.
    Away,
    /// It waits for a value of one of its keys.
    Waiting,
}

/// Performs a request of `client`, or lets it wait for its keys, or keeps it for EXEC, or refuses it, and writes the reply to `out`.
pub(crate) fn answer(
    service: &mut Service,
    client: &mut Client,
    admission: Admission<'_>,
    out: &mut Vec<u8>,
) -> Dispatched {
    if client.wait.is_none() {
        service.counters.commands += 1;
    }
    let (start, replies) = (out.len(), client.replies);
    client.needs_all_parts = false;
    if replies == Replies::SkipNext && client.wait.is_none() {
        client.replies = Replies::SkipThis;
    }
    let command = match &admission {
        Admission::Admitted(admitted) => Some(admitted.command()),
        Admission::Refused(command, _) => *command,
        Admission::Http => None,
    };
    let pushes = client.queue.is_none()
        && matches!(&admission, Admission::Admitted(admitted) if admitted.command().is(flags::PUSHES));
    let result = match admission {
        Admission::Admitted(admitted) => match check_store(service, client, admitted.command()) {
            Ok(()) => perform_or_queue(service, client, admitted, out),
            Err(failure) => Err(refuse(service, client, Some(admitted.command()), failure)),
        },
        Admission::Refused(command, failure) => Err(refuse(service, client, command, failure)),
        Admission::Http => {
            client.killed = true;
            return Dispatched::Done;
        }
    };
    if client.needs_all_parts {
        // The request has had no effect, and begins anew.
        client.replies = replies;
        return Dispatched::Done;
    }
    if matches!(result, Err(Failure::Waits)) {
        return Dispatched::Waiting;
    }
    waiting::leave(service, client);
    // One that is refused when it has ended is not that of the next request.
    client.migration = None;
    client.note_executed(command);
    let is_heard = pushes && result.is_ok();
    if let Err(failure) = result {
        answer_failure(service, client.protocol, &failure, out);
    }
    match client.replies {
        Replies::All => return Dispatched::Done,
        Replies::SkipThis => client.replies = Replies::All,
        Replies::None | Replies::SkipNext => {}
    }
    if !is_heard {
        out.truncate(start);
    }
    Dispatched::Done
}

/// Writes a failure as the reply, and notes it.
pub(crate) fn answer_failure(
    service: &mut Service,
    protocol: Protocol,
    failure: &Failure,
    out: &mut Vec<u8>,
) {
    let text = failure.text();
    if !matches!(failure, Failure::RefusedInScript(_)) {
        service.note_error(&text);
    }
    Reply { out, protocol }.error(&text);
}

/// Ends a client's transaction, or marks it as failed, as the refusal of a request does; returns the failure to reply.
fn refuse(
    service: &mut Service,
    client: &mut Client,
    command: Option<&'static Command>,
    failure: Failure,
) -> Failure {
    if let Some(command) = command {
        client.last_command = command.full_name;
        service.commands.reject(command);
        if command.is(flags::EXECUTES) {
            commands::transactions::leave(service, client);
            return abort(&failure);
        }
    }
    client.queue.iter_mut().for_each(Queue::abort);
    failure
}

fn perform_or_queue(
    service: &mut Service,
    client: &mut Client,
    admitted: Admitted<'_>,
    out: &mut Vec<u8>,
) -> Outcome {
    let command = admitted.command();
    client.last_command = command.full_name;
    let Some(queue) = client.queue.as_mut().filter(|_| !command.is(flags::NOT_QUEUED)) else {
        return perform(service, client, admitted, out);
    };
    let bytes = admitted.args().byte_len();
    let refused = match () {
        () if queue.byte_len() + bytes > service.settings.limits.transaction_len_max => {
            Some("ERR the transaction is too large, end it with EXEC or DISCARD")
        }
        () if !queue.is_aborted() && service.lacks_memory(client.no_evict, bytes) => {
            Some(KEPT_TOO_MUCH)
        }
        () => None,
    };
    if let Some(why) = refused {
        queue.abort();
        service.commands.reject(command);
        return Err(why.into());
    }
    queue.push(admitted);
    Reply { out, protocol: client.protocol }.simple("QUEUED");
    Ok(())
}

/// Executes a command; its changes are applied atomically. On failure it has written no reply, but may, within EXEC,
/// have made changes.
#[inline]
pub(crate) fn perform(
    service: &mut Service,
    client: &mut Client,
    admitted: Admitted<'_>,
    out: &mut Vec<u8>,
) -> Outcome {
    let (command, args) = (admitted.command(), admitted.args());
    let call = &mut Call { service, client, args, out };
    let mut can_begin = call.check_ending();
    if can_begin.is_ok() && call.service.store.has_broken() {
        can_begin = check_partitions(&call.service.store, command, call.args);
    }
    if can_begin.is_err() {
        call.service.commands.reject(command);
        return can_begin;
    }
    // A command that changes one string does so by one operation of the store, which is atomic by itself.
    let gathers = (command.is(flags::GATHERS)
        || command.is(flags::MANY_KEYS) && call.args.len() > 2)
        && !call.service.store.in_transaction();
    if gathers {
        call.service.store.begin();
    }
    let is_watched = call.service.store.outbox.look_for_watchers();
    call.service.store.outbox.actor = call.client.acts_for;
    let has_waited = call.client.wait.is_some();
    // The monitors see a script before its commands.
    let shown = is_watched.then(|| call.service.store.outbox.commands_len());
    if is_watched && command.is(flags::SCRIPT) {
        show(call, command);
    }
    let (start, began) = (call.out.len(), call.service.lap);
    if call.args.len() > 2 {
        prefetch(call, command);
    }
    call.service.store.uses_keys = command.uses_keys(call.client.no_touch);
    let mut result = (command.handler)(call);
    if gathers {
        match result {
            Ok(()) => result = call.service.store.commit().map_err(Failure::from),
            // A command refuses, or begins to wait, before it makes changes: the only ones are removals of expired keys, and
            // a consumer of a stream.
            Err(Failure::Refused(_) | Failure::Waits) => call.service.store.commit()?,
            Err(_) => call.service.store.rollback(),
        }
    }
    if result.is_err() {
        call.out.truncate(start);
    }
    if matches!(result, Err(Failure::Waits)) {
        if is_watched && !has_waited {
            show(call, command);
        }
        return result;
    }
    if let Some(shown) = shown.filter(|_| call.client.needs_all_parts) {
        // All of it happens again.
        call.service.store.outbox.forget_commands(shown);
    }
    call.service.end_lap(began, call.client, command, call.args, result.is_err());
    if is_watched {
        remember_reads(call, command);
        if !has_waited && !command.is(flags::SCRIPT) {
            show(call, command);
        }
    }
    result
}

/// Remembers the keys that a command has read, if its client is told of changes.
#[cold]
fn remember_reads(call: &mut Call<'_>, command: &Command) {
    // A script reads by its commands.
    if command.is(flags::READ) && !command.is(flags::SCRIPT) && call.client.remembers_reads() {
        let keys_max = call.service.settings.tracked_keys_max;
        for index in command.key_indexes(call.args) {
            let (store, client) = (&mut call.service.store, call.client.acts_for);
            store.remember_reader(&call.args[index], client, keys_max);
        }
    }
}

/// Lets monitors know of a command, once. Those of administrators are not shown.
#[cold]
fn show(call: &mut Call<'_>, command: &Command) {
    if !command.is(flags::ADMIN) {
        let addr = call.client.script_began.is_none().then_some(&call.client.addr);
        let (db, args) = (call.client.db, call.args);
        let outbox = &mut call.service.store.outbox;
        outbox.note_command(|out| monitor::write_line(out, unix_time(), db, addr, args));
    }
}

/// Refuses a command that concerns a partition which could not be recovered, or read.
#[cold]
pub(crate) fn check_partitions(
    store: &Store,
    command: &'static Command,
    args: Args<'_>,
) -> Outcome {
    let why = store.broken(partitions_of(store, command, args));
    why.map_or(Ok(()), |why| Err(format!("ERR {why}").into()))
}

/// Prefetches the records of a command's first keys, if it has several.
fn prefetch(call: &Call<'_>, command: &Command) {
    let (mut keys, mut count) = ([&[][..]; AHEAD], 0);
    for index in command.key_indexes(call.args).take(AHEAD) {
        keys[count] = &call.args[index];
        count += 1;
    }
    if count > 1 {
        call.service.store.prefetch(call.client.db, &keys[..count]);
    }
}

/// The reply to EXEC when a failure aborts a transaction.
pub(crate) fn abort(failure: &Failure) -> Failure {
    let why = failure.text();
    Failure::quoting("EXECABORT Transaction discarded because of: ", without_code(&why), "")
}
