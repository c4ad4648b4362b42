//! CLIENT: clients as they see themselves and each other.

use std::time::Duration;

use crate::address::Address;
use crate::call::{Call, is};
use crate::client::{Client, Replies};
use crate::failure::{Failure, KEPT_TOO_MUCH, NOT_AN_INTEGER, Outcome, SYNTAX};
use crate::number::parse_i64;
use crate::pause::Pause;
use crate::report::Line;
use crate::wait::Ended;

use super::connection::replies;

pub(super) fn id(call: &mut Call<'_>) -> Outcome {
    let id = call.client.id;
    call.reply().integer(id as i64);
    Ok(())
}

pub(super) fn getname(call: &mut Call<'_>) -> Outcome {
    let name = Some(call.client.name.clone()).filter(|name| !name.is_empty());
    call.reply().bulk_or_null(name.as_deref().map(str::as_bytes));
    Ok(())
}

pub(super) fn setname(call: &mut Call<'_>) -> Outcome {
    call.client.name = check_name(call.arg(2))?;
    call.reply().ok();
    Ok(())
}

/// The longest name of a client, or of its library, in bytes: lists, logs and reports repeat it.
const NAME_LEN_MAX: usize = 4 << 10;

/// A name that does not break the lines of CLIENT LIST.
pub(super) fn check_name(name: &[u8]) -> Outcome<String> {
    check_name_len(name)?;
    printable(name).ok_or_else(|| {
        "ERR Client names cannot contain spaces, newlines or special characters.".into()
    })
}

fn check_name_len(name: &[u8]) -> Outcome {
    match name.len() {
        0..=NAME_LEN_MAX => Ok(()),
        _ => Err(format!("ERR Client names cannot be longer than {NAME_LEN_MAX} bytes").into()),
    }
}

fn printable(text: &[u8]) -> Option<String> {
    let fits = text.iter().all(|byte| (b'!'..=b'~').contains(byte));
    fits.then(|| String::from_utf8_lossy(text).into_owned())
}

pub(super) fn setinfo(call: &mut Call<'_>) -> Outcome {
    check_name_len(call.arg(3))?;
    let option = &call.arg(2)[..call.arg(2).len().min(64)];
    let value = printable(call.arg(3));
    let field = match () {
        () if is(option, "lib-name") => &mut call.client.lib_name,
        () if is(option, "lib-ver") => &mut call.client.lib_version,
        () => return Err(Failure::quoting("ERR Unrecognized option '", option, "'")),
    };
    let why = " cannot contain spaces, newlines or special characters.";
    *field = value.ok_or_else(|| Failure::quoting("ERR ", option, why))?;
    call.reply().ok();
    Ok(())
}

/// Accepted without effect: this server has no maintenance events.
pub(super) fn maint_notifications(call: &mut Call<'_>) -> Outcome {
    if !is(call.arg(2), "ON") && !is(call.arg(2), "OFF") {
        return Err(SYNTAX.into());
    }
    call.reply().ok();
    Ok(())
}

pub(super) fn no_evict(call: &mut Call<'_>) -> Outcome {
    let wanted = match () {
        () if is(call.arg(2), "ON") => true,
        () if is(call.arg(2), "OFF") => false,
        () => return Err(SYNTAX.into()),
    };
    let watches_len = if call.client.no_evict { 0 } else { call.client.watches_len };
    if watches_len > 0 && call.service.lacks_memory(wanted, watches_len) {
        return Err(KEPT_TOO_MUCH.into());
    }
    call.client.no_evict = wanted;
    call.reply().ok();
    Ok(())
}

/// Whether the client's commands leave the clocks as they are by which keys are evicted.
pub(super) fn no_touch(call: &mut Call<'_>) -> Outcome {
    let wanted = is(call.arg(2), "ON");
    if !wanted && !is(call.arg(2), "OFF") {
        return Err(SYNTAX.into());
    }
    call.client.no_touch = wanted;
    call.reply().ok();
    Ok(())
}

/// Accepted without effect: this server sends no replies that need a capability of the client.
pub(super) fn capa(call: &mut Call<'_>) -> Outcome {
    call.reply().ok();
    Ok(())
}

pub(super) fn reply(call: &mut Call<'_>) -> Outcome {
    let wanted = replies(call.arg(2)).ok_or(SYNTAX)?;
    // SKIP has no effect on a client that wants no replies at all.
    if wanted != Replies::SkipNext || call.client.replies != Replies::None {
        call.client.replies = wanted;
    }
    if wanted == Replies::All {
        call.reply().ok();
    }
    Ok(())
}

pub(super) fn info(call: &mut Call<'_>) -> Outcome {
    let line = call.client.describe(call.service.now) + "\n";
    call.reply().verbatim(&line);
    Ok(())
}

pub(super) fn list(call: &mut Call<'_>) -> Outcome {
    let mut lines = all(call);
    lines.sort_by_key(|line| line.id);
    let mut is_wanted = vec![true; lines.len()];
    match call.args.get(2) {
        None => {}
        Some(word) if is(word, "TYPE") && call.args.len() == 4 => {
            let class = Class::parse(call.arg(3))?;
            is_wanted.iter_mut().zip(&lines).for_each(|(wanted, line)| *wanted = class.has(line));
        }
        Some(word) if is(word, "ID") && call.args.len() > 3 => {
            is_wanted.fill(false);
            for word in call.args.from(3) {
                call.check_ending()?;
                let id = parse_i64(word).and_then(|id| u64::try_from(id).ok());
                let id = id.ok_or("ERR Invalid client ID")?;
                if let Ok(at) = lines.binary_search_by_key(&id, |line| line.id) {
                    is_wanted[at] = true;
                }
            }
        }
        Some(_) => return Err(SYNTAX.into()),
    }
    let wanted = lines.iter().zip(is_wanted).filter(|(_, is_wanted)| *is_wanted);
    let text: String = wanted.map(|(line, _)| &*line.text).collect();
    call.reply().verbatim(&text);
    Ok(())
}

/// The clients of all threads.
fn all(call: &mut Call<'_>) -> Vec<Line> {
    let mut lines = vec![Line::of(call.client, call.service.now)];
    let here = call.service.clients.iter().filter(|client| !client.killed);
    lines.extend(here.map(|client| Line::of(client, call.service.now)));
    lines.extend(call.service.reports.iter().flat_map(|report| report.clients.iter().cloned()));
    lines
}

/// A type of clients.
#[derive(Clone, Copy)]
enum Class {
    Normal,
    Pubsub,
    /// A type of which there are no clients here.
    Replication,
}

impl Class {
    fn parse(word: &[u8]) -> Outcome<Self> {
        match () {
            () if is(word, "normal") => Ok(Self::Normal),
            () if is(word, "pubsub") => Ok(Self::Pubsub),
            () if ["master", "replica", "slave"].iter().any(|name| is(word, name)) => {
                Ok(Self::Replication)
            }
            () => Err(Failure::quoting("ERR Unknown client type '", word, "'")),
        }
    }

    fn has(self, client: &Line) -> bool {
        match self {
            Self::Normal => !client.is_subscriber,
            Self::Pubsub => client.is_subscriber,
            Self::Replication => false,
        }
    }
}

/// Which clients CLIENT KILL disconnects.
#[derive(Default)]
struct Filter {
    id: Option<u64>,
    addr: Option<String>,
    laddr: Option<String>,
    class: Option<Class>,
    user: Option<Box<[u8]>>,
    /// The fewest seconds since it connected.
    age_s: Option<u64>,
    spare_me: bool,
}

impl Filter {
    fn parse(call: &Call<'_>) -> Outcome<Self> {
        let mut filter = Self { spare_me: true, ..Self::default() };
        let mut words = call.args.from(2).iter();
        while let Some(word) = words.next() {
            let value = words.next().ok_or(SYNTAX)?;
            let text = || String::from_utf8_lossy(value).into_owned();
            match () {
                () if is(word, "ID") => {
                    let id = parse_i64(value).and_then(|id| u64::try_from(id).ok());
                    let id = id.filter(|&id| id > 0);
                    filter.id = Some(id.ok_or("ERR client-id should be greater than 0")?);
                }
                () if is(word, "ADDR") => filter.addr = Some(text()),
                () if is(word, "LADDR") => filter.laddr = Some(text()),
                () if is(word, "TYPE") => filter.class = Some(Class::parse(value)?),
                () if is(word, "MAXAGE") => {
                    let age =
                        parse_i64(value).ok_or("ERR maxage is not an integer or out of range")?;
                    let age = u64::try_from(age).ok().filter(|&age| age > 0);
                    filter.age_s = Some(age.ok_or("ERR maxage should be greater than 0")?);
                }
                () if is(word, "USER") => {
                    let user = call.service.acl.find(value);
                    let user =
                        user.ok_or_else(|| Failure::quoting("ERR No such user '", value, "'"))?;
                    filter.user = Some(user.name.clone());
                }
                () if is(word, "SKIPME") => {
                    filter.spare_me = match () {
                        () if is(value, "yes") => true,
                        () if is(value, "no") => false,
                        () => return Err(SYNTAX.into()),
                    }
                }
                () => return Err(SYNTAX.into()),
            }
        }
        Ok(filter)
    }

    fn fits(&self, client: &Line) -> bool {
        let is_addr = |wanted: &Option<String>, addr: &Address| {
            wanted.as_ref().is_none_or(|wanted| *wanted == addr.to_string())
        };
        self.class.is_none_or(|class| class.has(client))
            && self.id.is_none_or(|id| id == client.id)
            && self.age_s.is_none_or(|age| client.age_s >= age)
            && self.user.as_ref().is_none_or(|name| *name == client.user.name)
            && is_addr(&self.addr, &client.addr)
            && is_addr(&self.laddr, &client.laddr)
    }
}

pub(super) fn kill(call: &mut Call<'_>) -> Outcome {
    // The old form: an address alone.
    let old_form = call.args.len() == 3;
    let filter = if old_form {
        let addr = String::from_utf8_lossy(call.arg(2)).into_owned();
        Filter { addr: Some(addr), ..Filter::default() }
    } else {
        Filter::parse(call)?
    };
    let mut count = 0;
    let service = &mut *call.service;
    for report in &service.reports {
        for line in report.clients.iter().filter(|line| filter.fits(line)) {
            service.to_kill.push((report.thread, line.id));
            count += 1;
        }
    }
    let here = service.clients.iter().filter(|client| !client.killed);
    let here = here.map(|client| Line::of(client, service.now)).filter(|line| filter.fits(line));
    let ids: Vec<_> = here.map(|line| line.id).collect();
    count += ids.len() as i64;
    service.kill(&ids);
    if !filter.spare_me && filter.fits(&Line::of(call.client, service.now)) {
        // The client still gets its reply.
        call.client.closing = true;
        count += 1;
    }
    match (old_form, count) {
        (true, 0) => return Err("ERR No such client".into()),
        (true, _) => call.reply().ok(),
        (false, count) => call.reply().integer(count),
    }
    Ok(())
}

pub(super) fn pause(call: &mut Call<'_>) -> Outcome {
    let writes_only = match call.args.get(3) {
        None => false,
        Some(word) if is(word, "ALL") && call.args.len() == 4 => false,
        Some(word) if is(word, "WRITE") && call.args.len() == 4 => true,
        Some(_) => return Err("ERR CLIENT PAUSE mode must be WRITE or ALL".into()),
    };
    let ms = parse_i64(call.arg(2)).ok_or("ERR timeout is not an integer or out of range")?;
    let ms = u64::try_from(ms).map_err(|_| "ERR timeout is negative")?;
    let until = call.service.now.checked_add(Duration::from_millis(ms));
    let until = until.ok_or("ERR timeout is out of range")?;
    // A pause that is under way is not cut short or weakened by another.
    let now = call.service.now;
    call.service.change(|common| {
        let old = common.pause.filter(|old| old.until > now);
        common.pause = Some(Pause {
            until: old.map_or(until, |old| old.until.max(until)),
            writes_only: writes_only && old.is_none_or(|old| old.writes_only),
        });
    });
    call.reply().ok();
    Ok(())
}

pub(super) fn unblock(call: &mut Call<'_>) -> Outcome {
    let id = parse_i64(call.arg(2)).ok_or(NOT_AN_INTEGER)?;
    let ended = match call.args.get(3) {
        None => Ended::Over,
        Some(word) if is(word, "TIMEOUT") => Ended::Over,
        Some(word) if is(word, "ERROR") => Ended::Refused,
        Some(_) => return Err("ERR CLIENT UNBLOCK reason should be TIMEOUT or ERROR".into()),
    };
    let id = u64::try_from(id).unwrap_or(0);
    let service = &mut *call.service;
    let is_it = |line: &&Line| line.id == id && line.waits;
    let report = service.reports.iter().find(|report| report.clients.iter().any(|l| is_it(&l)));
    let waits = match report {
        Some(report) => {
            service.to_unblock.push((report.thread, id, ended));
            true
        }
        None => {
            let waits = |client: &Client| client.id == id && client.wait.is_some();
            let is_here = service.clients.iter().any(waits);
            if is_here {
                service.unblocked.push((id, ended));
            }
            is_here
        }
    };
    call.reply().flag(waits);
    Ok(())
}

pub(super) fn unpause(call: &mut Call<'_>) -> Outcome {
    call.service.change(|common| common.pause = None);
    call.reply().ok();
    Ok(())
}

pub(super) fn help(call: &mut Call<'_>) -> Outcome {
    call.reply().simples(&[
        "CLIENT <subcommand> [<arg> [value] [opt] ...]. Subcommands are:",
        "CAPA <capability> [<capability> ...]",
        "    Names what this connection is capable of; no reply depends on it.",
        "CACHING (YES|NO)",
        "    Has the keys that the next command reads remembered, or not, by OPTIN or OPTOUT.",
        "GETREDIR",
        "    Returns the number of the connection that is told of changes instead.",
        "GETNAME",
        "    Returns the name of this connection.",
        "ID",
        "    Returns the number of this connection.",
        "INFO",
        "    Describes this connection.",
        "KILL <ip:port>",
        "    Disconnects a client.",
        "KILL [ID <id>] [ADDR <ip:port>] [LADDR <ip:port>] [TYPE normal|pubsub] [USER <name>] [MAXAGE <seconds>] [SKIPME yes|no]",
        "    Disconnects the clients that fit.",
        "LIST [TYPE normal|pubsub] [ID <id> ...]",
        "    Describes connections.",
        "MAINT_NOTIFICATIONS ON|OFF [<option> <value> ...]",
        "    Asks to be told of maintenance; there is none here.",
        "NO-EVICT ON|OFF",
        "    Lets this connection not be disconnected because all clients take too much memory.",
        "NO-TOUCH ON|OFF",
        "    Has the commands of this connection be no uses of their keys, but for TOUCH.",
        "PAUSE <milliseconds> [WRITE|ALL]",
        "    Lets all clients wait.",
        "REPLY ON|OFF|SKIP",
        "    Sets which replies this connection wants.",
        "SETINFO LIB-NAME|LIB-VER <value>",
        "    Names the library of this connection.",
        "SETNAME <name>",
        "    Names this connection.",
        "TRACKING (ON|OFF) [REDIRECT <id>] [BCAST] [PREFIX <prefix> [...]] [OPTIN] [OPTOUT] [NOLOOP]",
        "    Lets this connection be told when keys change that it has read, or that begin with a prefix.",
        "TRACKINGINFO",
        "    Tells how this connection is told of changes.",
        "UNPAUSE",
        "    Ends a pause.",
        "HELP",
        "    Prints this help.",
    ]);
    Ok(())
}
