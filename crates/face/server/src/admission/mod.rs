//! Whether a client may have a request executed, and when.
//!
//! [`admit`] decides once for each attempt to execute a request, on the thread that has the client. An [`Admitted`]
//! request gets a place (`shard::route`): this thread, the one that has its keys, or a cross-shard operation. There it
//! is performed (`dispatch`). Room, the server's end and the state of partitions are asked for where a request is
//! performed, because other threads may change them at any time.

pub(crate) mod admitted;
mod rights;

pub(crate) use admitted::Admitted;
pub(crate) use rights::{Sender, check_rights, note_refusal};

use crate::call::is;
use crate::client::Client;
use crate::commands::{self, Command, flags};
use crate::failure::{FULL, Failure, Outcome, shown};
use crate::reply::Protocol;
use crate::resp::Args;
use crate::service::Service;
use crate::transaction::Queue;

/// Whether a request is executed. Its client is answered in any case but one.
#[derive(Debug)]
pub(crate) enum Admission<'a> {
    /// It is, or waits for EXEC.
    Admitted(Admitted<'a>),
    /// It is not. It may have named a command.
    Refused(Option<&'static Command>, Failure),
    /// It is a line of HTTP: the connection ends without a reply.
    Http,
}

impl<'a> Admission<'a> {
    /// The request, if it is executed.
    pub(crate) fn admitted(&self) -> Option<Admitted<'a>> {
        match self {
            Self::Admitted(admitted) => Some(*admitted),
            Self::Refused(..) | Self::Http => None,
        }
    }
}

/// The event that a request has to wait for before it is admitted or refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Delay {
    /// The end of a pause.
    Pause,
    /// The next piece of the client's backup, or the end of its migration.
    Backup,
}

/// Decides on a request of `client`, which has at least one word.
///
/// # Errors
/// The request has to wait for this event, and is then decided on anew.
#[inline]
pub(crate) fn admit<'a>(
    service: &Service,
    client: &Client,
    args: Args<'a>,
) -> Result<Admission<'a>, Delay> {
    let command = match find(args) {
        Ok(command) => command,
        Err(_) if is_http(&args[0]) => return Ok(Admission::Http),
        Err(failure) => return Ok(Admission::Refused(None, failure)),
    };
    if service.shared.scripts.running.are_busy() && !may_disturb(command, args) {
        return Ok(Admission::Refused(Some(command), service.shared.scripts.running.refusal()));
    }
    if awaits(client, command) {
        return Err(Delay::Backup);
    }
    // Once: a refusal is noted for ACL LOG.
    let checked = check(service, client, command, args);
    if checked.is_ok() && is_paused(service, client, command, args) {
        return Err(Delay::Pause);
    }
    Ok(match checked {
        Ok(()) => Admission::Admitted(Admitted::new(command, args)),
        Err(failure) => Admission::Refused(Some(command), failure),
    })
}

/// Whether a pause keeps a client from executing a command.
#[inline]
fn is_paused(service: &Service, client: &Client, command: &Command, args: Args<'_>) -> bool {
    service.pause.is_some() && service.pauses(is_held(service, client, command, args))
}

/// Whether a command, or one that it executes, waits when writes are paused: a script does unless it declares that it
/// does not write.
fn is_held(service: &Service, client: &Client, command: &Command, args: Args<'_>) -> bool {
    let is_held = |command: &Command, args: Args<'_>| match command.is(flags::SCRIPT) {
        true => {
            !command.is(flags::READ)
                && !service.shared.scripts.declares_no_writes(command.name, args)
        }
        false => command.is_any(flags::WRITE | flags::MAY_REPLICATE),
    };
    let mut queued = client.queue.iter().flat_map(Queue::iter);
    is_held(command, args)
        || command.is(flags::EXECUTES)
            && queued.any(|queued| is_held(queued.command(), queued.args()))
}

/// Whether a command is executed while a script runs for long.
#[cold]
fn may_disturb(command: &Command, args: Args<'_>) -> bool {
    let is_allowed = command.is(flags::ALLOW_BUSY);
    is_allowed && (command.name != "shutdown" || args.iter().any(|word| is(word, "NOSAVE")))
}

/// Whether a command has to wait for the next piece of the client's backup, or for the end of its migration.
#[inline]
fn awaits(client: &Client, command: &Command) -> bool {
    command.is(flags::AWAITS) && client.awaits(command.is(flags::WRITE))
}

fn check(service: &Service, client: &Client, command: &'static Command, args: Args<'_>) -> Outcome {
    if !command.takes(args.len()) {
        let name = command.full_name;
        return Err(format!("ERR wrong number of arguments for '{name}' command").into());
    }
    if command.is(flags::PROTECTED) && !service.settings.debug_command.allows(&client.addr) {
        return Err(DEBUG_REFUSED.into());
    }
    let stranger = !client.authenticated && service.acl.asks_for_password();
    if stranger && !command.is(flags::NO_AUTH) {
        return Err("NOAUTH Authentication required.".into());
    }
    if client.queue.is_some() && command.is(flags::NO_MULTI) {
        return Err("ERR Command not allowed inside a transaction".into());
    }
    if !client.login.has_pass(&service.acl) {
        check_rights(service, client, command, args, Sender::Client)?;
    }
    if client.is_monitor && (command.is(flags::READ) || command.is(flags::WRITE)) {
        return Err("ERR Replica can't interact with the keyspace".into());
    }
    let reads_messages = client.is_subscriber() && client.protocol == Protocol::Resp2;
    if reads_messages && !command.is(flags::WHILE_SUBSCRIBED) {
        let name = command.full_name;
        let text = format!(
            "ERR Can't execute '{name}': only (P|S)SUBSCRIBE / (P|S)UNSUBSCRIBE / PING / QUIT / RESET are allowed in \
             this context"
        );
        return Err(text.into());
    }
    Ok(())
}

/// Refuses a command that the store cannot take: one that needs room when there is none, or writes when nothing can be
/// made durable. This is checked where a request is performed, once.
pub(crate) fn check_store(
    service: &mut Service,
    client: &Client,
    command: &'static Command,
) -> Outcome {
    if service.shared.sync_failure.get().is_some() && writes(client, command) {
        service.check_durable()?;
    }
    if service.settings.memory_max > 0 {
        if takes_room(client, command) {
            service.make_room()?;
        } else if may_write(client, command) && service.settings.eviction.policy.evicts() {
            // A script, or commands that only remove.
            let _ = service.make_room();
        }
    }
    Ok(())
}

/// [`check_store`] within a script, where no key is evicted.
pub(crate) fn check_store_in_script(
    service: &Service,
    client: &Client,
    command: &'static Command,
) -> Outcome {
    if writes(client, command) {
        service.check_durable()?;
    }
    match takes_room(client, command) && service.lacks_room() {
        true => Err(FULL.into()),
        false => Ok(()),
    }
}

const DEBUG_REFUSED: &str = "ERR DEBUG command not allowed. If the enable-debug-command option is set to \"local\", \
    you can run it from a local connection, otherwise you need to set this option in the configuration file, and then \
    restart the server.";

/// The command that a request names, a subcommand where there are some.
#[inline]
fn find(args: Args<'_>) -> Outcome<&'static Command> {
    let Some(command) = commands::find(&args[0]) else { return Err(unknown(args)) };
    match args.get(1) {
        Some(word) if !command.subcommands.is_empty() => {
            let whole = Some(command).filter(|command| command.is(flags::HAS_OTHERS));
            let part = command.subcommand(word);
            // A command with other subcommands refuses by itself words that its parts do not take.
            let part = part.filter(|part| whole.is_none() || part.takes(args.len())).or(whole);
            part.ok_or_else(|| unknown_subcommand(command, word))
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

/// How much of a client's input an error quotes, in bytes.
const QUOTED_LEN_MAX: usize = 128;

fn quoted(word: &[u8], len_max: usize) -> &[u8] {
    shown(&word[..word.len().min(len_max)])
}

/// Whether a command, or one that it executes, writes.
fn writes(client: &Client, command: &Command) -> bool {
    command.is(flags::WRITE) || (command.is(flags::EXECUTES) && queues(client, flags::WRITE))
}

/// Whether a command, or one that it executes, writes, or is a script that may.
fn may_write(client: &Client, command: &Command) -> bool {
    let is_script = |command: &Command| command.is(flags::SCRIPT) && !command.is(flags::READ);
    let queued = || client.queue.iter().flat_map(Queue::iter);
    writes(client, command)
        || is_script(command)
        || command.is(flags::EXECUTES) && queued().any(|queued| is_script(queued.command()))
}

/// Whether a command, or one that it executes, needs room.
fn takes_room(client: &Client, command: &Command) -> bool {
    command.is(flags::DENY_OOM) || command.is(flags::EXECUTES) && queues(client, flags::DENY_OOM)
}

/// Whether some command that a client has queued has these flags.
fn queues(client: &Client, flags: u32) -> bool {
    let queue = client.queue.as_ref();
    queue.is_some_and(|queue| queue.iter().any(|queued| queued.command().is(flags)))
}
