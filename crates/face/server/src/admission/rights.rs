//! Whether the user of a client may have a request executed. Requests of users that may do all do not come here.

use crate::acl::{Context, Denied, Reason};
use crate::client::Client;
use crate::clock::unix_time;
use crate::commands::{self, Command, flags};
use crate::failure::{Failure, Outcome};
use crate::lock::lock;
use crate::resp::Args;
use crate::service::Service;

/// The sender of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Sender {
    Client,
    /// EXEC, for a request that was allowed when it was queued.
    Exec,
    /// A script that the client runs.
    Script,
}

/// Refuses a request that the user of `client` may not have executed, and notes that for ACL LOG.
#[cold]
pub(crate) fn check_rights(
    service: &Service,
    client: &Client,
    command: &'static Command,
    args: Args<'_>,
    sender: Sender,
) -> Outcome {
    let login = &client.login;
    // The client of a user that is gone is being disconnected.
    let user = login.current(&service.acl).unwrap_or(login.user());
    let go_on = || !service.store.ending.breaks_off();
    if let Err(denied) = user.check(command, args, &go_on) {
        let (reason, object) = (reason(denied), denied.object(command, args));
        let line = match sender {
            Sender::Client => client.describe_as(service.now, command.full_name),
            Sender::Exec | Sender::Script => client.describe(service.now),
        };
        note(service, line, (reason, context(client, sender)), (object, &user.name));
        return Err(refusal(denied, denied.text(user, command), sender));
    }
    let wide = Some(args).filter(|_| command.is(flags::PATTERNS)).and_then(commands::reads_any_key);
    match wide {
        Some(option) if !user.reads_any_key(command, args, &go_on) => {
            let text = "option of SORT denied due to insufficient ACL permissions.";
            Err(format!("ERR {option} {text}").into())
        }
        _ => Ok(()),
    }
}

fn refusal(denied: Denied, text: Vec<u8>, sender: Sender) -> Failure {
    match sender {
        Sender::Client => [b"NOPERM ", &*text].concat().into(),
        Sender::Exec => {
            let why = denied.exec_text();
            let text = "NOPERM ACLs rules changed between the moment the transaction was accumulated and the EXEC \
                        call. This command is no longer allowed for the following reason: ";
            format!("{text}{why}").into()
        }
        Sender::Script => [b"ERR ACL failure in script: ", &*text].concat().into(),
    }
}

fn reason(denied: Denied) -> Reason {
    match denied {
        Denied::Command => Reason::Command,
        Denied::Key(_) => Reason::Key,
        Denied::Channel(_) => Reason::Channel,
    }
}

fn context(client: &Client, sender: Sender) -> Context {
    match sender {
        Sender::Script => Context::Lua,
        Sender::Exec => Context::Multi,
        Sender::Client if client.queue.is_some() => Context::Multi,
        Sender::Client => Context::TopLevel,
    }
}

/// Notes for ACL LOG that a client was refused: of what, and as which user.
pub(crate) fn note_refusal(
    service: &Service,
    client: &Client,
    reason: Reason,
    (object, user): (&[u8], &[u8]),
) {
    let line = client.describe(service.now);
    note(service, line, (reason, context(client, Sender::Client)), (object, user));
}

fn note(service: &Service, line: String, kind: (Reason, Context), (object, user): (&[u8], &[u8])) {
    let now_ms = unix_time().as_millis() as u64;
    let len_max = service.settings.acl_log_len_max;
    lock(&service.shared.acl_log).add(kind, (object, user), line, now_ms, len_max);
}
