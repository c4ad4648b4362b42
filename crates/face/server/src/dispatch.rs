//! From a request to its command: permissions, and whether it is executed now or at EXEC.

use crate::ahead::AHEAD;
use crate::call::{Call, is};
use crate::client::{Client, Replies};
use crate::commands::{self, Command, flags};
use crate::failure::{FULL, Failure, KEPT_TOO_MUCH, Outcome, shown, without_code};
use crate::reply::Reply;
use crate::resp::Args;
use crate::service::Service;
use crate::shard::command_partitions::partitions_of;
use crate::store::Store;
use crate::transaction::Queue;

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
    /// It must wait for the next piece of a backup.
    Awaiting,
    /// It waits for parts, or reports, of other threads.
    Away,
}

/// Executes a request of `client`, which names the command that was `found`, and writes its reply to
/// `out`.
pub(crate) fn dispatch(
    service: &mut Service,
    client: &mut Client,
    found: Outcome<&'static Command>,
    args: Args<'_>,
    out: &mut Vec<u8>,
) -> Dispatched {
    if let Ok(command) = &found
        && is_paused(service, client, command)
    {
        return Dispatched::Paused;
    }
    if let Ok(command) = &found
        && awaits(client, command)
    {
        return Dispatched::Awaiting;
    }
    service.counters.commands += 1;
    let (start, replies) = (out.len(), client.replies);
    if replies == Replies::SkipNext {
        client.replies = Replies::SkipThis;
    }
    let result = match found {
        Ok(command) => admit(service, client, command, args, out),
        Err(_) if is_http(&args[0]) => {
            client.killed = true;
            return Dispatched::Done;
        }
        Err(failure) => {
            client.queue.iter_mut().for_each(Queue::abort);
            Err(failure)
        }
    };
    if let Err(failure) = result {
        let text = failure.text();
        service.note_error(&text);
        Reply { out, protocol: client.protocol }.error(&text);
    }
    match client.replies {
        Replies::All => {}
        Replies::None | Replies::SkipNext => out.truncate(start),
        Replies::SkipThis => {
            out.truncate(start);
            client.replies = Replies::All;
        }
    }
    Dispatched::Done
}

/// Whether a pause keeps a client from executing a command.
#[inline]
pub(crate) fn is_paused(service: &Service, client: &Client, command: &Command) -> bool {
    let writes = || {
        command.is(flags::WRITE) || (command.is(flags::EXECUTES) && queues(client, flags::WRITE))
    };
    service.pause.is_some() && service.pauses(writes())
}

/// Whether a command has to wait for the next piece of the client's backup.
#[inline]
pub(crate) fn awaits(client: &Client, command: &Command) -> bool {
    command.is(flags::AWAITS) && client.backup.as_ref().is_some_and(|backup| !backup.is_ready())
}

/// Executes a command; its changes are applied atomically. On failure it has written no reply, but may, within EXEC,
/// have made changes.
#[inline]
pub(crate) fn perform(call: &mut Call<'_>, command: &'static Command) -> Outcome {
    let mut can_begin = call.check_ending();
    if can_begin.is_ok() && call.service.store.has_broken() {
        can_begin = check_partitions(&call.service.store, command, call.args);
    }
    if can_begin.is_err() {
        call.service.commands.reject(command);
        return can_begin;
    }
    // A command with one key changes it by one operation of the store, which is atomic by itself.
    let gathers =
        command.is(flags::MANY_KEYS) && call.args.len() > 2 && !call.service.store.in_transaction();
    if gathers {
        call.service.store.begin();
    }
    let (start, began) = (call.out.len(), call.service.lap);
    if call.args.len() > 2 {
        prefetch(call, command);
    }
    let mut result = (command.handler)(call);
    if gathers {
        match result {
            Ok(()) => result = call.service.store.commit().map_err(Failure::from),
            // A command refuses before it makes changes: the only changes are removals of expired keys.
            Err(Failure::Refused(_)) => call.service.store.commit()?,
            Err(Failure::Store(_) | Failure::Interrupted) => call.service.store.rollback(),
        }
    }
    if result.is_err() {
        call.out.truncate(start);
    }
    call.service.end_lap(began, call.client, command, call.args, result.is_err());
    result
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
    for index in command.key_indexes(call.args.len()).take(AHEAD) {
        keys[count] = &call.args[index];
        count += 1;
    }
    if count > 1 {
        call.service.store.prefetch(call.client.db, &keys[..count]);
    }
}

fn admit(
    service: &mut Service,
    client: &mut Client,
    command: &'static Command,
    args: Args<'_>,
    out: &mut Vec<u8>,
) -> Outcome {
    let admitted = check_admission(service, client, command, args);
    admitted.and_then(|()| check_room(service, client, command)).map_err(|failure| {
        service.commands.reject(command);
        if !command.is(flags::EXECUTES) {
            client.queue.iter_mut().for_each(Queue::abort);
            return failure;
        }
        commands::transactions::leave(service, client);
        abort(&failure)
    })?;
    client.last_command = command.full_name;
    if let Some(queue) = &mut client.queue
        && !command.is(flags::NOT_QUEUED)
    {
        let bytes = args.byte_len();
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
        queue.push(command, args);
        Reply { out, protocol: client.protocol }.simple("QUEUED");
        return Ok(());
    }
    perform(&mut Call { service, client, args, out }, command)
}

/// Whether a client may execute a command now.
pub(crate) fn check_admission(
    service: &Service,
    client: &Client,
    command: &'static Command,
    args: Args<'_>,
) -> Outcome {
    if !command.takes(args.len()) {
        let name = command.full_name;
        return Err(format!("ERR wrong number of arguments for '{name}' command").into());
    }
    if command.is(flags::PROTECTED) && !service.settings.debug_command.allows(client.addr.ip()) {
        return Err(DEBUG_REFUSED.into());
    }
    let stranger = !client.authenticated && service.settings.requirepass.is_some();
    if stranger && !command.is(flags::NO_AUTH) {
        return Err("NOAUTH Authentication required.".into());
    }
    if client.queue.is_some() && command.is(flags::NO_MULTI) {
        return Err("ERR Command not allowed inside a transaction".into());
    }
    Ok(())
}

/// Refuses a command that needs room when there is none. This is checked once for a request, on the thread that has its
/// parts, as other threads may make room at any time.
pub(crate) fn check_room(service: &Service, client: &Client, command: &'static Command) -> Outcome {
    if service.settings.memory_max > 0 && takes_room(client, command) && service.is_full() {
        return Err(FULL.into());
    }
    Ok(())
}

const DEBUG_REFUSED: &str = "ERR DEBUG command not allowed. If the enable-debug-command option is set to \"local\", \
    you can run it from a local connection, otherwise you need to set this option in the configuration file, and then \
    restart the server.";

/// The command that a request names, a subcommand where there are some.
#[inline]
pub(crate) fn find(args: Args<'_>) -> Outcome<&'static Command> {
    let Some(command) = commands::find(&args[0]) else { return Err(unknown(args)) };
    match args.get(1) {
        Some(word) if !command.subcommands.is_empty() => {
            command.subcommand(word).ok_or_else(|| unknown_subcommand(command, word))
        }
        _ => Ok(command),
    }
}

/// Whether a line is one of HTTP. A web page can make a browser send requests to this server, with
/// lines in their body that are commands; so a connection that speaks HTTP ends at its first line.
fn is_http(word: &[u8]) -> bool {
    is(word, "POST") || is(word, "Host:")
}

fn unknown(args: Args<'_>) -> Failure {
    let mut text = b"ERR unknown command '".to_vec();
    text.extend_from_slice(quoted(&args[0], QUOTED_LEN_MAX));
    text.extend_from_slice(b"', with args beginning with: ");
    let start = text.len();
    for arg in args.from(1) {
        let shown = text.len() - start;
        if shown >= QUOTED_LEN_MAX {
            break;
        }
        text.push(b'\'');
        text.extend_from_slice(quoted(arg, QUOTED_LEN_MAX - shown));
        text.extend_from_slice(b"' ");
    }
    text.into()
}

fn unknown_subcommand(command: &Command, word: &[u8]) -> Failure {
    let name = command.name.to_ascii_uppercase();
    let word = quoted(word, QUOTED_LEN_MAX);
    Failure::quoting("ERR unknown subcommand '", word, &format!("'. Try {name} HELP."))
}

/// The reply to EXEC when a failure aborts a transaction.
pub(crate) fn abort(failure: &Failure) -> Failure {
    let why = failure.text();
    Failure::quoting("EXECABORT Transaction discarded because of: ", without_code(&why), "")
}

/// How much of a client's input an error quotes, in bytes.
const QUOTED_LEN_MAX: usize = 128;

fn quoted(word: &[u8], len_max: usize) -> &[u8] {
    shown(&word[..word.len().min(len_max)])
}

/// Whether a command, or one that it executes, needs room.
fn takes_room(client: &Client, command: &Command) -> bool {
    command.is(flags::DENY_OOM) || command.is(flags::EXECUTES) && queues(client, flags::DENY_OOM)
}

/// Whether some command that a client has queued has these flags.
fn queues(client: &Client, flags: u32) -> bool {
    let queue = client.queue.as_ref();
    queue.is_some_and(|queue| queue.iter().any(|(command, _)| command.is(flags)))
}
