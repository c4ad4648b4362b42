//! COMMAND: the table, for clients to read.

use std::sync::Arc;

use crate::acl::category;
use crate::call::{Call, is};
use crate::failure::{Failure, Outcome, SYNTAX};
use crate::glob;
use crate::number::parse_i64;
use crate::reply::Reply;

use super::documentation::document;
use super::table::{COMMANDS, find};
use super::{Command, MoreKeys, flags};
use super::{key_specs, tips};

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
                    category::of(command).any(|category| is(&wanted, category))
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
    tell_keys(call, |reply, _, key| reply.bulk(key))
}

/// GETKEYSANDFLAGS: the keys of a request, and what it does to each.
pub(super) fn getkeysandflags(call: &mut Call<'_>) -> Outcome {
    let request = call.args.from(2);
    tell_keys(call, |reply, (command, at), key| {
        reply.array(2);
        reply.bulk(key);
        simple_set(reply, key_specs::effects(command, request, at));
    })
}

/// Writes something of each key in the request behind the subcommand.
fn tell_keys(
    call: &mut Call<'_>,
    write: impl Fn(&mut Reply<'_>, (&Command, usize), &[u8]),
) -> Outcome {
    let request = call.args.from(2);
    let command = find(&request[0]).ok_or("ERR Invalid command specified")?;
    let command = match request.get(1) {
        Some(word) if !command.subcommands.is_empty() && !command.is(flags::HAS_OTHERS) => {
            command.subcommand(word).ok_or("ERR Invalid command specified")?
        }
        word => word.and_then(|word| command.subcommand(word)).unwrap_or(command),
    };
    if command.keys.first == 0 && command.keys.more == MoreKeys::None {
        return Err("ERR The command has no key arguments".into());
    }
    if !command.takes(request.len()) {
        return Err("ERR Invalid number of arguments specified for command".into());
    }
    if let Some((at, step)) = command.keys.more.counted() {
        let count =
            request.get(at).and_then(parse_i64).and_then(|count| usize::try_from(count).ok());
        let end = count.and_then(|count| count.checked_mul(step as usize)?.checked_add(at + 1));
        if end.is_none_or(|end| end > request.len()) {
            return Err("ERR Invalid arguments specified for command".into());
        }
    }
    let keys = || {
        let indexes = command.key_indexes(request);
        indexes.filter_map(|at| request.get(at).map(|key| (at, key)))
    };
    let (count, start) = (keys().count(), call.out.len());
    let is_script = command.is(flags::SCRIPT);
    if count == 0 && !(is_script && request.get(2).is_some_and(|word| word == b"0")) {
        return Err(Failure::from("ERR Invalid arguments specified for command"));
    }
    call.reply().array(count);
    for (at, key) in keys() {
        write(&mut call.reply(), (command, at), key);
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

/// The access categories of a command.
fn categories(command: &Command) -> Vec<String> {
    category::of(command).map(|name| format!("@{name}")).collect()
}

fn describe(reply: &mut Reply<'_>, command: &Command) {
    reply.array(10);
    reply.bulk(command.full_name.as_bytes());
    reply.integer(i64::from(command.arity));
    let has = |(flag, _): &&(u32, &str)| command.is(*flag);
    let mut names: Vec<_> = flags::NAMES.iter().filter(has).map(|(_, name)| *name).collect();
    // The keys of patterns are named by no word alone.
    if command.keys.more != MoreKeys::None || command.is(flags::PATTERNS) {
        names.push("movablekeys");
    }
    simple_set(reply, &names);
    let keys = command.keys;
    let (first, last, step) = (keys.first, keys.last, keys.step);
    [first, last, step].into_iter().for_each(|number| reply.integer(i64::from(number)));
    let categories = categories(command);
    simple_set(reply, &categories.iter().map(String::as_str).collect::<Vec<_>>());
    let tips = tips::of(command);
    reply.set(tips.len());
    tips.iter().for_each(|tip| reply.bulk(tip.as_bytes()));
    describe_keys(reply, command);
    match command.subcommands.len() {
        0 => reply.set(0),
        parts => reply.array(parts),
    }
    command.subcommands.iter().for_each(|part| describe(reply, part));
}

/// Writes where the keys are, and what the command does to them.
fn describe_keys(reply: &mut Reply<'_>, command: &Command) {
    let specs = key_specs::of(command);
    reply.set(specs.len());
    for spec in specs {
        let (first, last, step) = (spec.keys.first, spec.keys.last, spec.keys.step);
        let count_at = spec.keys.more.counted().map_or(0, |(at, _)| at);
        reply.map(3);
        reply.bulk(b"flags");
        simple_set(reply, spec.effects);
        reply.bulk(b"begin_search");
        match spec.keyword {
            Some((word, from)) => behind(reply, word, from),
            None => {
                let index = if count_at > 0 { count_at as i32 } else { first };
                typed(reply, "index", &[("index", index)]);
            }
        }
        reply.bulk(b"find_keys");
        if let Some((word, _)) = spec.keyword {
            // Of the words behind STREAMS, the first half are keys.
            let (last, limit) = if word == "STREAMS" { (-1, 2) } else { (0, 0) };
            typed(reply, "range", &[("lastkey", last), ("keystep", 1), ("limit", limit)]);
            continue;
        }
        // Here positions count from the first key, or from the end.
        let last = if last < 0 { last } else { last - first };
        match count_at {
            0 => typed(reply, "range", &[("lastkey", last), ("keystep", step), ("limit", 0)]),
            _ => typed(reply, "keynum", &[("keynumidx", 0), ("firstkey", 1), ("keystep", step)]),
        }
    }
}

/// Writes that keys are behind a word.
fn behind(reply: &mut Reply<'_>, word: &str, from: usize) {
    reply.map(2);
    reply.bulk(b"type");
    reply.bulk(b"keyword");
    reply.bulk(b"spec");
    reply.map(2);
    reply.bulk(b"keyword");
    reply.bulk(word.as_bytes());
    reply.bulk(b"startfrom");
    reply.integer(from as i64);
}

/// Writes a description of a type that consists of numbers.
fn typed(reply: &mut Reply<'_>, name: &str, numbers: &[(&str, i32)]) {
    reply.map(2);
    reply.bulk(b"type");
    reply.bulk(name.as_bytes());
    reply.bulk(b"spec");
    reply.map(numbers.len());
    for (name, number) in numbers {
        reply.bulk(name.as_bytes());
        reply.integer(i64::from(*number));
    }
}

fn simple_set(reply: &mut Reply<'_>, texts: &[&str]) {
    reply.set(texts.len());
    texts.iter().for_each(|text| reply.simple(text));
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
        "GETKEYSANDFLAGS <request>",
        "    Returns the keys in a request, and what it does to them.",
        "INFO [<command> ...]",
        "    Describes commands.",
        "LIST [FILTERBY ACLCAT|PATTERN|MODULE <value>]",
        "    Lists the names of commands.",
        "HELP",
        "    Prints this help.",
    ]);
    Ok(())
}
