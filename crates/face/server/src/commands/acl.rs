//! ACL: users, and what they may do.

use std::sync::Arc;

use crate::acl::numbers;
use crate::acl::password::hex;
use crate::acl::{DEFAULT, Selector, User, category, file, has_spaces, set_user};
use crate::call::{Call, is};
use crate::clock::unix_time;
use crate::failure::{Failure, Outcome};
use crate::lock::lock;

use super::{Command, find};

pub(super) fn whoami(call: &mut Call<'_>) -> Outcome {
    let user = Arc::clone(call.client.login.user());
    call.reply().bulk(&user.name);
    Ok(())
}

pub(super) fn users(call: &mut Call<'_>) -> Outcome {
    let acl = Arc::clone(&call.service.acl);
    call.reply().array(acl.iter().len());
    acl.iter().for_each(|user| call.reply().bulk(&user.name));
    Ok(())
}

pub(super) fn list(call: &mut Call<'_>) -> Outcome {
    let (acl, start) = (Arc::clone(&call.service.acl), call.out.len());
    call.reply().array(acl.iter().len());
    for user in acl.iter() {
        call.reply().bulk(&[b"user ", &*user.describe()].concat());
        if !call.must_write_on(start)? {
            break;
        }
    }
    Ok(())
}

pub(super) fn getuser(call: &mut Call<'_>) -> Outcome {
    let Some(user) = call.service.acl.find(call.arg(2)).map(Arc::clone) else {
        call.reply().null();
        return Ok(());
    };
    let mut reply = call.reply();
    reply.map(6);
    reply.bulk(b"flags");
    let flags = user.flags();
    reply.set(flags.len());
    flags.iter().for_each(|flag| reply.bulk(flag.as_bytes()));
    reply.bulk(b"passwords");
    reply.array(user.passwords().len());
    user.passwords().for_each(|digest| reply.bulk(digest.as_bytes()));
    let (root, others) = match user.selectors() {
        [root, others @ ..] => (root, others),
        [] => return Err("ERR the user has no rights".into()),
    };
    describe(call, root);
    call.reply().bulk(b"selectors");
    call.reply().array(others.len());
    for selector in others {
        call.reply().map(3);
        describe(call, selector);
    }
    Ok(())
}

/// Writes the rights of a selector: three fields with their values.
fn describe(call: &mut Call<'_>, selector: &Selector) {
    let mut reply = call.reply();
    reply.bulk(b"commands");
    reply.bulk(&selector.command_rules());
    reply.bulk(b"keys");
    reply.bulk(&selector.key_rules());
    reply.bulk(b"channels");
    reply.bulk(&selector.channel_rules());
}

pub(super) fn setuser(call: &mut Call<'_>) -> Outcome {
    let name = call.arg(2);
    if has_spaces(name) {
        return Err("ERR Usernames can't contain spaces or null characters".into());
    }
    let rules = call.args.from(3);
    call.service.change_users(call.client, |common| {
        let has_all_channels = common.settings.acl_all_channels;
        let old = common.acl.find(name).map(|user| User::clone(user));
        let mut user = old.unwrap_or_else(|| User::new(name, has_all_channels));
        let refused = |why: Vec<u8>| Failure::from([b"ERR ", &*why].concat());
        set_user(&mut user, rules.iter(), has_all_channels).map_err(refused)?;
        let acl = common.acl.with(user).map_err(|why| refused(why.into_bytes()))?;
        common.acl = Arc::new(acl);
        Outcome::Ok(())
    })?;
    call.reply().ok();
    Ok(())
}

pub(super) fn deluser(call: &mut Call<'_>) -> Outcome {
    let names = call.args.from(2);
    if names.iter().any(|name| name == DEFAULT) {
        return Err("ERR The 'default' user cannot be removed".into());
    }
    let count = call.service.change_users(call.client, |common| {
        let (acl, count) = common.acl.without(names.iter());
        common.acl = Arc::new(acl);
        count
    });
    call.reply().integer(count as i64);
    Ok(())
}

pub(super) fn cat(call: &mut Call<'_>) -> Outcome {
    let names: Vec<_> = match call.args.len() {
        2 => category::NAMES.to_vec(),
        3 => {
            let wanted = category::find(call.arg(2)).ok_or_else(|| {
                let word = call.arg(2);
                Failure::quoting("ERR Unknown category '", &word[..word.len().min(128)], "'")
            })?;
            let has = |command: &&'static Command| category::has(command, wanted);
            numbers::all().filter(has).map(|command| command.full_name).collect()
        }
        _ => return Err(wrong_words(call)),
    };
    call.reply().texts(&names);
    Ok(())
}

/// The error of a subcommand with too many words.
fn wrong_words(call: &Call<'_>) -> Failure {
    let before = "ERR unknown subcommand or wrong number of arguments for '";
    let word = call.arg(1);
    Failure::quoting(before, &word[..word.len().min(128)], "'. Try ACL HELP.")
}

/// The bits of a password that ACL GENPASS makes, if it is not told, and the most.
const PASSWORD_BITS: i64 = 256;
const PASSWORD_BITS_MAX: i64 = 4096;

pub(super) fn genpass(call: &mut Call<'_>) -> Outcome {
    let bits = match call.args.len() {
        2 => PASSWORD_BITS,
        3 => call.integer(2)?,
        _ => return Err(wrong_words(call)),
    };
    if !(1..=PASSWORD_BITS_MAX).contains(&bits) {
        let text = "ERR ACL GENPASS argument must be the number of bits for the output password, a positive number \
                    up to 4096";
        return Err(text.into());
    }
    let digits = (bits as usize).div_ceil(4);
    let mut bytes = vec![0; digits.div_ceil(2)];
    let mut filled = 0;
    while filled < bytes.len() {
        let flags = rustix::rand::GetRandomFlags::empty();
        let got = rustix::rand::getrandom(&mut bytes[filled..], flags);
        filled += got.map_err(|error| format!("ERR there are no random numbers: {error}"))?;
    }
    let text = hex(&bytes);
    call.reply().bulk(&text.as_bytes()[..digits]);
    Ok(())
}

pub(super) fn dryrun(call: &mut Call<'_>) -> Outcome {
    let (name, request) = (call.arg(2), call.args.from(3));
    let user = call.service.acl.find(name).map(Arc::clone);
    let user = user.ok_or_else(|| Failure::quoting("ERR User '", name, "' not found"))?;
    let command = find(call.arg(3)).and_then(|whole| match request.get(1) {
        Some(word) if !numbers::parts(whole).is_empty() => whole.subcommand(word),
        _ => Some(whole),
    });
    let command =
        command.ok_or_else(|| Failure::quoting("ERR Command '", call.arg(3), "' not found"))?;
    if !command.takes(request.len()) {
        let name = command.full_name;
        return Err(format!("ERR wrong number of arguments for '{name}' command").into());
    }
    let ending = Arc::clone(&call.service.store.ending);
    match user.check(command, request, &|| !ending.breaks_off()) {
        Ok(()) => call.reply().ok(),
        Err(denied) => call.reply().bulk(&denied.full_text(&user, command, request)),
    }
    Ok(())
}

pub(super) fn log(call: &mut Call<'_>) -> Outcome {
    let count = match call.args.len() {
        2 => 10,
        3 if is(call.arg(2), "RESET") => {
            lock(&call.service.shared.acl_log).clear();
            call.reply().ok();
            return Ok(());
        }
        3 => usize::try_from(call.integer(2)?).unwrap_or(0),
        _ => return Err(wrong_words(call)),
    };
    let (entries, start) = (lock(&call.service.shared.acl_log).newest(count), call.out.len());
    let now_ms = unix_time().as_millis() as u64;
    call.reply().array(entries.len());
    for entry in entries {
        let mut reply = call.reply();
        reply.map(10);
        reply.bulk(b"count");
        reply.integer(entry.count as i64);
        for (name, value) in [
            ("reason", entry.reason.name().as_bytes()),
            ("context", entry.context.name().as_bytes()),
            ("object", &entry.object),
            ("username", &entry.user),
        ] {
            reply.bulk(name.as_bytes());
            reply.bulk(value);
        }
        reply.bulk(b"age-seconds");
        reply.double(now_ms.saturating_sub(entry.updated_ms) as f64 / 1000.0);
        reply.bulk(b"client-info");
        reply.bulk(entry.client.as_bytes());
        for (name, value) in [
            ("entry-id", entry.id),
            ("timestamp-created", entry.created_ms),
            ("timestamp-last-updated", entry.updated_ms),
        ] {
            reply.bulk(name.as_bytes());
            reply.integer(value as i64);
        }
        if !call.must_write_on(start)? {
            break;
        }
    }
    Ok(())
}

const NO_FILE: &str = "ERR This Redis instance is not configured to use an ACL file. You may want to specify users via \
    the ACL SETUSER command and then issue a CONFIG REWRITE (assuming you have a Redis configuration file set) in \
    order to store users in the Redis configuration.";

pub(super) fn load(call: &mut Call<'_>) -> Outcome {
    let path = call.service.settings.acl_file.clone().ok_or(NO_FILE)?;
    let shared = Arc::clone(&call.service.shared);
    let _not_saving = lock(&shared.acl_saving);
    let settings = &call.service.settings;
    let loaded = file::load(&path, settings.requirepass.as_deref(), settings.acl_all_channels);
    let loaded = loaded.map_err(|why| format!("ERR {why}"))?;
    call.service.change_users(call.client, |common| {
        common.acl = Arc::new(common.acl.replaced_by(loaded));
    });
    call.reply().ok();
    Ok(())
}

pub(super) fn save(call: &mut Call<'_>) -> Outcome {
    let path = call.service.settings.acl_file.clone().ok_or(NO_FILE)?;
    let shared = Arc::clone(&call.service.shared);
    let _saving = lock(&shared.acl_saving);
    // As they are once no other thread writes them.
    let acl = shared.common().0.acl;
    if let Err(error) = file::save(&path, &acl) {
        let shown = path.display();
        call.service.settings.log(|| format!("saving the users to {shown} failed: {error}"));
        return Err("ERR There was an error trying to save the ACLs. Please check the server logs for more \
                    information"
            .into());
    }
    call.reply().ok();
    Ok(())
}

pub(super) fn help(call: &mut Call<'_>) -> Outcome {
    call.reply().simples(&[
        "ACL <subcommand> [<arg> [value] [opt] ...]. Subcommands are:",
        "CAT [<category>]",
        "    Lists the categories of commands, or the commands of one.",
        "DELUSER <username> [<username> ...]",
        "    Removes users, and disconnects their clients.",
        "DRYRUN <username> <command> [<arg> ...]",
        "    Tells whether a user may have a request executed, without executing it.",
        "GENPASS [<bits>]",
        "    Returns random hexadecimal digits of 256 bits, or so many, for a password.",
        "GETUSER <username>",
        "    Tells the rights of a user.",
        "LIST",
        "    Lists all users by the rules that make them.",
        "LOAD",
        "    Takes the users from their file.",
        "LOG [<count>|RESET]",
        "    Returns the last refusals, 10 if no count is given, or forgets them all.",
        "SAVE",
        "    Writes the users to their file.",
        "SETUSER <username> [<rule> ...]",
        "    Makes a user, or changes its rights.",
        "USERS",
        "    Lists the names of all users.",
        "WHOAMI",
        "    Tells the user of this connection.",
        "HELP",
        "    Prints this help.",
    ]);
    Ok(())
}
