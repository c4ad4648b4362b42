//! COMMAND DOCS: what commands are for, and how they are written.
//!
//! [`syntaxes`] has the syntax of each command as one text, of which [`arguments`] makes the tree that clients get;
//! [`history`] has what became of a command since it was made.

mod arguments;
mod history;
mod syntaxes;

use self::arguments::{Argument, Kind};
use super::{Command, key_specs};
use crate::reply::Reply;

/// The complexity of commands that are not in the table.
const CONSTANT: &str = "O(1)";

/// Writes the name and the description of a command, and of its parts.
pub(super) fn document(reply: &mut Reply<'_>, command: &Command) {
    let entry = syntaxes::SYNTAXES.iter().find(|(name, ..)| *name == command.full_name);
    let (complexity, syntax) =
        entry.map_or((CONSTANT, ""), |(_, complexity, syntax)| (*complexity, *syntax));
    let arguments = arguments::parse(syntax);
    let (history, deprecated) =
        (history::of(command.full_name), history::deprecated(command.full_name));
    let parts = command.subcommands;
    // A command that consists of others does nothing by itself.
    let has_complexity = parts.is_empty() || entry.is_some();
    let fields = [has_complexity, !history.is_empty(), !arguments.is_empty(), !parts.is_empty()];
    let fields = fields.iter().filter(|has| **has).count();
    reply.bulk(command.full_name.as_bytes());
    reply.map(3 + fields + if deprecated.is_some() { 3 } else { 0 });
    pair(reply, "summary", command.summary);
    pair(reply, "since", command.since);
    pair(reply, "group", command.group.name());
    if has_complexity {
        pair(reply, "complexity", complexity);
    }
    if let Some((since, instead)) = deprecated {
        reply.bulk(b"doc_flags");
        reply.set(1);
        reply.simple("deprecated");
        pair(reply, "deprecated_since", since);
        pair(reply, "replaced_by", instead);
    }
    if !history.is_empty() {
        reply.bulk(b"history");
        reply.set(history.len());
        for (version, change) in history {
            reply.array(2);
            reply.bulk(version.as_bytes());
            reply.bulk(change.as_bytes());
        }
    }
    if !arguments.is_empty() {
        let mut keys = Keys { next: 0, count: key_specs::of(command).len() };
        reply.bulk(b"arguments");
        reply.array(arguments.len());
        arguments.iter().for_each(|argument| describe(reply, argument, &mut keys));
    }
    if !parts.is_empty() {
        reply.bulk(b"subcommands");
        reply.map(parts.len());
        parts.iter().for_each(|part| document(reply, part));
    }
}

fn pair(reply: &mut Reply<'_>, name: &str, value: &str) {
    reply.bulk(name.as_bytes());
    reply.bulk(value.as_bytes());
}

/// The key specifications of a command, which its keys have in their order.
struct Keys {
    next: usize,
    count: usize,
}

impl Keys {
    /// The specification of the next key, if the command has any.
    fn take(&mut self) -> Option<usize> {
        let last = self.count.checked_sub(1)?;
        let index = self.next.min(last);
        self.next += 1;
        Some(index)
    }
}

fn describe(reply: &mut Reply<'_>, argument: &Argument, keys: &mut Keys) {
    let flags = [
        (argument.is_optional, "optional"),
        (argument.is_multiple, "multiple"),
        (argument.repeats_token, "multiple_token"),
    ];
    let flags: Vec<_> = flags.iter().filter(|(has, _)| *has).map(|(_, name)| *name).collect();
    let key = (argument.kind == Kind::Word("key")).then(|| keys.take()).flatten();
    let parts = argument.parts();
    let fields = [
        parts.is_empty(),
        key.is_some(),
        argument.token.is_some(),
        !flags.is_empty(),
        !parts.is_empty(),
    ];
    reply.map(2 + fields.iter().filter(|has| **has).count());
    let name = argument.name.to_ascii_lowercase();
    pair(reply, "name", &name);
    pair(reply, "type", argument.type_name());
    if parts.is_empty() {
        pair(reply, "display_text", &name);
    }
    if let Some(index) = key {
        reply.bulk(b"key_spec_index");
        reply.integer(index as i64);
    }
    if let Some(token) = argument.token {
        pair(reply, "token", token);
    }
    if !flags.is_empty() {
        reply.bulk(b"flags");
        reply.set(flags.len());
        flags.iter().for_each(|flag| reply.simple(flag));
    }
    if !parts.is_empty() {
        reply.bulk(b"arguments");
        reply.array(parts.len());
        parts.iter().for_each(|part| describe(reply, part, keys));
    }
}
