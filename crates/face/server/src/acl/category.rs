//! The access categories of commands.

use crate::commands::{Command, Group, flags};

/// The names, in the order in which Redis tells them.
pub(crate) const NAMES: [&str; 21] = [
    "keyspace",
    "read",
    "write",
    "set",
    "sortedset",
    "list",
    "hash",
    "string",
    "bitmap",
    "hyperloglog",
    "geo",
    "stream",
    "pubsub",
    "admin",
    "fast",
    "slow",
    "blocking",
    "dangerous",
    "connection",
    "transaction",
    "scripting",
];

/// The category with this name, in upper or lower case.
pub(crate) fn find(name: &[u8]) -> Option<&'static str> {
    NAMES.into_iter().find(|known| crate::call::is(name, known))
}

/// Whether a command is in a category.
pub(crate) fn has(command: &Command, category: &str) -> bool {
    match category {
        "read" => command.is(flags::READ) && command.group != Group::Scripting,
        "write" => command.is(flags::WRITE),
        "pubsub" => command.is(flags::PUBSUB),
        "admin" => command.is(flags::ADMIN),
        "dangerous" => command.is_any(flags::ADMIN | flags::DANGEROUS) || is_sort(command),
        "fast" => command.is(flags::FAST),
        "slow" => !command.is(flags::FAST),
        "blocking" => command.is(flags::BLOCKS),
        family => families(command).contains(&family),
    }
}

/// The categories of a command.
pub(crate) fn of(command: &Command) -> impl Iterator<Item = &'static str> {
    NAMES.into_iter().filter(|category| has(command, category))
}

fn is_sort(command: &Command) -> bool {
    matches!(command.name, "sort" | "sort_ro")
}

/// The categories that follow from the data that a command is about. Commands with parts are in none.
fn families(command: &Command) -> &'static [&'static str] {
    match command.full_name {
        "dbsize" | "flushall" | "flushdb" | "swapdb" => return &["keyspace"],
        "sort" | "sort_ro" => return &["set", "sortedset", "list"],
        "asking" | "readonly" | "readwrite" | "wait" | "waitaof" => return &["connection"],
        name if name.split('|').next() == Some("command") => return &["connection"],
        _ if !command.subcommands.is_empty() => return &[],
        _ => {}
    }
    match command.group {
        Group::Bitmap => &["bitmap"],
        Group::Connection => &["connection"],
        Group::Generic => &["keyspace"],
        Group::Geo => &["geo"],
        Group::Hash => &["hash"],
        Group::HyperLogLog => &["hyperloglog"],
        Group::List => &["list"],
        Group::Scripting => &["scripting"],
        Group::Set => &["set"],
        Group::SortedSet => &["sortedset"],
        Group::Stream => &["stream"],
        Group::String => &["string"],
        Group::Transactions => &["transaction"],
        Group::Cluster | Group::PubSub | Group::Server => &[],
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::find as command;

    #[test]
    fn categories_are_those_of_redis() {
        for (name, expected) in [
            ("get", "read string fast"),
            ("set", "write string slow"),
            ("blpop", "write list slow blocking"),
            ("sort", "write set sortedset list slow dangerous"),
            ("keys", "keyspace read slow dangerous"),
            ("eval_ro", "slow scripting"),
            ("publish", "pubsub fast"),
            ("flushall", "keyspace write slow dangerous"),
            ("shutdown", "admin slow dangerous"),
            ("config", "slow"),
            ("command", "slow connection"),
            ("multi", "fast transaction"),
        ] {
            let found: Vec<_> = of(command(name.as_bytes()).unwrap()).collect();
            assert_eq!(found.join(" "), expected, "{name}");
        }
        assert_eq!(find(b"SortedSet"), Some("sortedset"));
        assert_eq!(find(b"all"), None);
    }
}
