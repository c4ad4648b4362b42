//! The identity of a client, and its protocol.

use crate::acl::password::Digest;
use crate::acl::{DEFAULT, Login, Reason};
use crate::admission::note_refusal;
use crate::call::{Call, is};
use crate::client::{Client, Replies};
use crate::failure::{Failure, Outcome, SYNTAX};
use crate::number::parse_i64;
use crate::reply::Protocol;

use super::client::check_name;
use super::{monitor, pubsub, tracking, transactions};

/// The version of Redis whose commands and replies these are.
pub(crate) const REDIS_VERSION: &str = "7.4.2";

pub(super) fn ping(call: &mut Call<'_>) -> Outcome {
    match call.args.len() {
        // Between messages, the reply has the form of one.
        1 | 2 if call.client.is_subscriber() && call.client.protocol == Protocol::Resp2 => {
            let text = call.arg(1);
            let mut reply = call.reply();
            reply.array(2);
            reply.bulk(b"pong");
            reply.bulk(text);
        }
        1 => call.reply().simple("PONG"),
        2 => {
            let text = call.arg(1);
            call.reply().bulk(text);
        }
        _ => return Err("ERR wrong number of arguments for 'ping' command".into()),
    }
    Ok(())
}

pub(super) fn echo(call: &mut Call<'_>) -> Outcome {
    let text = call.arg(1);
    call.reply().bulk(text);
    Ok(())
}

pub(super) fn quit(call: &mut Call<'_>) -> Outcome {
    call.client.closing = true;
    call.reply().ok();
    Ok(())
}

pub(super) fn select(call: &mut Call<'_>) -> Outcome {
    call.client.db = call.database(1)?;
    call.reply().ok();
    Ok(())
}

pub(super) fn reset(call: &mut Call<'_>) -> Outcome {
    transactions::leave(call.service, call.client);
    pubsub::leave(call.service, call.client);
    monitor::leave(call.service, call.client);
    tracking::leave(call.service, call.client);
    let Client { id, place, next_post, fd, authenticated, stranger_since, .. } = *call.client;
    let (addr, laddr) = (call.client.addr.clone(), call.client.laddr.clone());
    let mut client = Client::new(id, addr, laddr, fd, call.client.connected_at);
    (client.place, client.next_post) = (place, next_post);
    client.authenticated = !call.service.acl.asks_for_password();
    if let Some(login) = client.login.renewed(&call.service.acl) {
        client.login = login;
    }
    // A client that has not authenticated gains no time by RESET.
    client.stranger_since = if authenticated { call.service.now } else { stranger_since };
    client.active_at = call.service.now;
    client.buffers = call.client.buffers;
    client.last_command = call.client.last_command;
    // The library behind the connection is still the same.
    client.lib_name = std::mem::take(&mut call.client.lib_name);
    client.lib_version = std::mem::take(&mut call.client.lib_version);
    *call.client = client;
    call.reply().simple("RESET");
    Ok(())
}

pub(super) fn auth(call: &mut Call<'_>) -> Outcome {
    let (user, password) = match call.args.len() {
        2 if call.service.acl.find(DEFAULT).is_none_or(|user| user.needs_no_password()) => {
            return Err("ERR AUTH <password> called without any password configured for the \
                        default user. Are you sure your configuration is correct?"
                .into());
        }
        2 => (DEFAULT, call.arg(1)),
        3 => (call.arg(1), call.arg(2)),
        _ => return Err(SYNTAX.into()),
    };
    authenticate(call, user, password)?;
    call.reply().ok();
    Ok(())
}

/// Makes a client a user.
fn authenticate(call: &mut Call<'_>, name: &[u8], password: &[u8]) -> Outcome {
    let acl = &call.service.acl;
    match acl.find(name) {
        Some(user) if user.takes(password) => {
            call.client.login = Login::new(acl, user);
            call.client.authenticated = true;
            Ok(())
        }
        found => {
            if found.is_none() {
                // An unknown name takes as long as a wrong password.
                std::hint::black_box(Digest::of(password));
            }
            note_refusal(call.service, call.client, Reason::Auth, (call.arg(0), name));
            Err("WRONGPASS invalid username-password pair or user is disabled.".into())
        }
    }
}

pub(super) fn hello(call: &mut Call<'_>) -> Outcome {
    let protocol = match call.args.get(1) {
        Some(word) => match parse_i64(word) {
            Some(2) => Protocol::Resp2,
            Some(3) => Protocol::Resp3,
            Some(_) => return Err("NOPROTO unsupported protocol version".into()),
            None => return Err("ERR Protocol version is not an integer or out of range".into()),
        },
        None => call.client.protocol,
    };
    let (mut login, mut name) = (None, None);
    let mut words = call.args.from(2).iter();
    while let Some(word) = words.next() {
        let left = words.len();
        if is(word, "AUTH") && left >= 2 {
            login = words.next().zip(words.next());
        } else if is(word, "SETNAME") && left >= 1 {
            name = words.next();
        } else {
            return Err(Failure::quoting("ERR Syntax error in HELLO option '", word, "'"));
        }
    }
    if let Some((user, password)) = login {
        authenticate(call, user, password)?;
    }
    if call.service.acl.asks_for_password() && !call.client.authenticated {
        return Err(
            "NOAUTH HELLO must be called with the client already authenticated, otherwise \
                    the HELLO AUTH <user> <pass> option can be used to authenticate the client \
                    and select the RESP protocol version at the same time"
                .into(),
        );
    }
    if let Some(name) = name {
        call.client.name = check_name(name)?;
    }
    call.client.protocol = protocol;
    greet(call);
    Ok(())
}

fn greet(call: &mut Call<'_>) {
    let (id, protocol) = (call.client.id, call.client.protocol);
    let mut reply = call.reply();
    reply.map(7);
    reply.bulk(b"server");
    reply.bulk(b"redis");
    reply.bulk(b"version");
    reply.bulk(REDIS_VERSION.as_bytes());
    reply.bulk(b"proto");
    reply.integer(protocol.number());
    reply.bulk(b"id");
    reply.integer(id as i64);
    reply.bulk(b"mode");
    reply.bulk(b"standalone");
    reply.bulk(b"role");
    reply.bulk(b"master");
    reply.bulk(b"modules");
    reply.array(0);
}

/// The replies that CLIENT REPLY names.
pub(super) fn replies(word: &[u8]) -> Option<Replies> {
    match () {
        () if is(word, "ON") => Some(Replies::All),
        () if is(word, "OFF") => Some(Replies::None),
        () if is(word, "SKIP") => Some(Replies::SkipNext),
        () => None,
    }
}
