//! COMMAND: the table, for clients to read.

use std::sync::Arc;

use crate::call::{Call, is};
use crate::failure::{Failure, Outcome, SYNTAX};
use crate::glob;
use crate::reply::Reply;

use super::scripting;
use super::table::{COMMANDS, Command, Keys, find, flags};

pub(super) fn all(call: &mut Call<'_>) -> Outcome {
    let mut reply = call.reply();
    reply.array(COMMANDS.len());
    COMMANDS.iter().for_each(|command| describe(&mut reply, command));
    Ok(())
}

pub(super) fn count(call: &mut Call<'_>) -> Outcome {
    call.reply().integer(COMMANDS.len() as i64);
    Ok(())
}

pub(super) fn info(call: &mut Call<'_>) -> Outcome {
    let (names, start) = (call.args.from(2), call.out.len());
    if names.is_empty() {
        return all(call);
    }
    call.reply().array(names.len());
    for name in names {
        match find_full(name) {
            Some(command) => describe(&mut call.reply(), command),
            None => call.reply().null(),
        }
        if !call.must_write_on(start)? {
            break;
        }
    }
    Ok(())
}

pub(super) fn docs(call: &mut Call<'_>) -> Outcome {
    let (names, start) = (call.args.from(2), call.out.len());
    if names.is_empty() {
        let mut reply = call.reply();
        reply.map(COMMANDS.len());
        COMMANDS.iter().for_each(|command| document(&mut reply, command));
        return Ok(());
    }
    let known = || names.iter().filter_map(find_full);
    call.reply().map(known().count());
    for command in known() {
        document(&mut call.reply(), command);
        if !call.must_write_on(start)? {
            break;
        }
    }
    Ok(())
}

pub(super) fn list(call: &mut Call<'_>) -> Outcome {
    let ending = Arc::clone(&call.service.store.ending);
    let filter: Box<dyn Fn(&Command) -> bool> = match call.args.len() {
        2 => Box::new(|_| true),
        5 if is(call.arg(2), "FILTERBY") => {
            let wanted = call.arg(4).to_vec();
            match () {
                () if is(call.arg(3), "PATTERN") => Box::new(move |command| {
                    let name = command.full_name.as_bytes();
                    glob::matches_ignoring_case(&wanted, name, || !ending.breaks_off())
                }),
                () if is(call.arg(3), "ACLCAT") => Box::new(move |command| {
                    categories(command).iter().any(|category| is(&wanted, &category[1..]))
                }),
                // There are no modules.
                () if is(call.arg(3), "MODULE") => Box::new(|_| false),
                () => return Err(SYNTAX.into()),
            }
        }
        _ => return Err(SYNTAX.into()),
    };
    let with_parts =
        COMMANDS.iter().flat_map(|command| std::iter::once(command).chain(command.subcommands));
    let names: Vec<_> =
        with_parts.filter(|command| filter(command)).map(|command| command.full_name).collect();
    call.check_ending()?;
    call.reply().texts(&names);
    Ok(())
}

pub(super) fn getkeys(call: &mut Call<'_>) -> Outcome {
    let request = call.args.from(2);
    let command = find(&request[0]).ok_or("ERR Invalid command specified")?;
    let part = request.get(1).and_then(|word| command.subcommand(word));
    let command = part.unwrap_or(command);
    if command.keys.first == 0 && !command.is(flags::SCRIPT) {
        return Err("ERR The command has no key arguments".into());
    }
    if !command.takes(request.len()) {
        return Err("ERR Invalid number of arguments specified for command".into());
    }
    let of_script = scripting::keys(request).filter(|_| command.is(flags::SCRIPT));
    let keys = || {
        let known = command.key_indexes(request.len()).filter_map(|at| request.get(at));
        known.chain(of_script.into_iter().flatten())
    };
    let (count, start) = (keys().count(), call.out.len());
    if count == 0 && of_script.is_none() {
        return Err(Failure::from("ERR Invalid arguments specified for command"));
    }
    call.reply().array(count);
    for key in keys() {
        call.reply().bulk(key);
        if !call.must_write_on(start)? {
            break;
        }
    }
    Ok(())
}

/// A command by its name, or a part of one by `command|part`.
fn find_full(name: &[u8]) -> Option<&'static Command> {
    match name.iter().position(|&byte| byte == b'|') {
        Some(bar) => find(&name[..bar])?.subcommand(&name[bar + 1..]),
        None => find(name),
    }
}

/// The access categories that follow from a command's properties.
fn categories(command: &Command) -> Vec<&'static str> {
    let mut categories = Vec::new();
    let container = !command.subcommands.is_empty() && command.name != "command";
    let keyspace = ["dbsize", "flushall", "flushdb", "swapdb"].contains(&command.name);
    let about_connection = command.full_name.starts_with("command");
    match command.group.category() {
        _ if keyspace => categories.push("@keyspace"),
        _ if about_connection => categories.push("@connection"),
        Some("keyspace") if !container => categories.push("@keyspace"),
        Some("scripting") if !container => categories.push("@scripting"),
        Some("string") => categories.push("@string"),
        Some("connection") if !container => categories.push("@connection"),
        Some("transaction") => categories.push("@transaction"),
        _ => {}
    }
    let add = |categories: &mut Vec<_>, flag, name| {
        if command.is(flag) {
            categories.push(name);
        }
    };
    add(&mut categories, flags::READ, "@read");
    add(&mut categories, flags::WRITE, "@write");
    add(&mut categories, flags::ADMIN, "@admin");
    categories.push(if command.is(flags::FAST) { "@fast" } else { "@slow" });
    if command.flags & (flags::ADMIN | flags::DANGEROUS) != 0 {
        categories.push("@dangerous");
    }
    categories
}

fn describe(reply: &mut Reply<'_>, command: &Command) {
    reply.array(10);
    reply.bulk(command.full_name.as_bytes());
    reply.integer(i64::from(command.arity));
    let names: Vec<_> =
        flags::NAMES.iter().filter(|(flag, _)| command.is(*flag)).map(|(_, name)| *name).collect();
    simple_set(reply, &names);
    let Keys { first, last, step } = command.keys;
    [first, last, step].into_iter().for_each(|number| reply.integer(i64::from(number)));
    simple_set(reply, &categories(command));
    // No tips.
    reply.set(0);
    describe_keys(reply, command);
    match command.subcommands.len() {
        0 => reply.set(0),
        parts => reply.array(parts),
    }
    command.subcommands.iter().for_each(|part| describe(reply, part));
}

/// Writes where the keys are, in the form that can say more than a command here needs.
fn describe_keys(reply: &mut Reply<'_>, command: &Command) {
    let Keys { first, last, step } = command.keys;
    if first == 0 {
        reply.set(0);
        return;
    }
    reply.set(1);
    reply.map(3);
    reply.bulk(b"flags");
    if command.is(flags::WRITE) {
        simple_set(reply, &["RW", "access", "update"]);
    } else {
        simple_set(reply, &["RO", "access"]);
    }
    reply.bulk(b"begin_search");
    reply.map(2);
    reply.bulk(b"type");
    reply.bulk(b"index");
    reply.bulk(b"spec");
    reply.map(1);
    reply.bulk(b"index");
    reply.integer(i64::from(first));
    reply.bulk(b"find_keys");
    reply.map(2);
    reply.bulk(b"type");
    reply.bulk(b"range");
    reply.bulk(b"spec");
    reply.map(3);
    reply.bulk(b"lastkey");
    // Here counted from the first key, or from the end.
    reply.integer(i64::from(if last < 0 { last } else { last - first }));
    reply.bulk(b"keystep");
    reply.integer(i64::from(step));
    reply.bulk(b"limit");
    reply.integer(0);
}

fn simple_set(reply: &mut Reply<'_>, texts: &[&str]) {
    reply.set(texts.len());
    texts.iter().for_each(|text| reply.simple(text));
}

fn document(reply: &mut Reply<'_>, command: &Command) {
    let parts = command.subcommands;
    reply.bulk(command.full_name.as_bytes());
    reply.map(3 + usize::from(!parts.is_empty()));
    reply.bulk(b"summary");
    reply.bulk(command.summary.as_bytes());
    reply.bulk(b"since");
    reply.bulk(command.since.as_bytes());
    reply.bulk(b"group");
    reply.bulk(command.group.name().as_bytes());
    if !parts.is_empty() {
        reply.bulk(b"subcommands");
        reply.map(parts.len());
        parts.iter().for_each(|part| document(reply, part));
    }
}

pub(super) fn help(call: &mut Call<'_>) -> Outcome {
    call.reply().simples(&[
        "COMMAND <subcommand> [<arg> [value] [opt] ...]. Subcommands are:",
        "(no subcommand)",
        "    Describes all commands.",
        "COUNT",
        "    Counts the commands.",
        "DOCS [<command> ...]",
        "    Documents commands.",
        "GETKEYS <request>",
        "    Returns the keys in a request.",
        "INFO [<command> ...]",
        "    Describes commands.",
        "LIST [FILTERBY ACLCAT|PATTERN|MODULE <value>]",
        "    Lists the names of commands.",
        "HELP",
        "    Prints this help.",
    ]);
    Ok(())
}
