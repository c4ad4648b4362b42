//! A command, as dispatch and COMMAND need to know it.

use super::flags;
use super::key_positions::{Keys, MoreKeys};
use crate::call::Call;
use crate::failure::Outcome;
use crate::resp::Args;

/// The properties of a command, for dispatch and for COMMAND.
#[derive(Debug)]
pub(crate) struct Command {
    /// The name, in lower case.
    pub(crate) name: &'static str,
    /// The name with that of the command that it is a part of: `client|list`.
    pub(crate) full_name: &'static str,
    /// The number of words, the name included; negative: at least so many.
    pub(crate) arity: i32,
    /// Bits of [`flags`].
    pub(crate) flags: u32,
    pub(crate) keys: Keys,
    pub(crate) group: Group,
    /// The version of Redis that had it first.
    pub(crate) since: &'static str,
    pub(crate) summary: &'static str,
    pub(crate) subcommands: &'static [Command],
    pub(crate) handler: Handler,
}

/// Executes a command.
pub(crate) type Handler = fn(&mut Call<'_>) -> Outcome;

/// The family of a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Group {
    Bitmap,
    Cluster,
    Connection,
    Generic,
    Geo,
    Hash,
    List,
    HyperLogLog,
    PubSub,
    Scripting,
    Server,
    Set,
    SortedSet,
    Stream,
    String,
    Transactions,
}

impl Group {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Bitmap => "bitmap",
            Self::Cluster => "cluster",
            Self::Connection => "connection",
            Self::Generic => "generic",
            Self::Geo => "geo",
            Self::Hash => "hash",
            Self::List => "list",
            Self::Set => "set",
            Self::SortedSet => "sorted-set",
            Self::Stream => "stream",
            Self::HyperLogLog => "hyperloglog",
            Self::PubSub => "pubsub",
            Self::Scripting => "scripting",
            Self::Server => "server",
            Self::String => "string",
            Self::Transactions => "transactions",
        }
    }
}

impl Command {
    /// Whether it has all of some flags.
    #[inline]
    pub(crate) fn is(&self, flags: u32) -> bool {
        self.flags & flags == flags
    }

    /// Whether it has some of some flags.
    #[inline]
    pub(crate) fn is_any(&self, flags: u32) -> bool {
        self.flags & flags != 0
    }

    /// Whether it counts as a use of its keys, by a client whose commands may leave their clocks as they are.
    #[inline]
    pub(crate) fn uses_keys(&self, leaves_clocks: bool) -> bool {
        !self.is(flags::ONLY_ASKS) && (!leaves_clocks || self.is(flags::TOUCHES))
    }

    /// Whether it can have so many words.
    #[inline]
    pub(crate) fn takes(&self, words: usize) -> bool {
        let arity = self.arity.unsigned_abs() as usize;
        if self.arity < 0 { words >= arity } else { words == arity }
    }

    /// The part of the command with this name.
    pub(crate) fn subcommand(&self, name: &[u8]) -> Option<&'static Command> {
        self.subcommands.iter().find(|command| crate::call::is(name, command.name))
    }

    /// The indexes of the keys among the words of a request.
    #[inline]
    pub(crate) fn key_indexes(&self, args: Args<'_>) -> impl Iterator<Item = usize> + use<> {
        self.keys.indexes(args)
    }

    pub(super) const fn keys(mut self, first: i32, last: i32, step: i32) -> Self {
        self.keys = Keys { first, last, step, more: self.keys.more };
        self
    }

    pub(super) const fn more_keys(mut self, more: MoreKeys) -> Self {
        self.keys.more = more;
        self
    }

    pub(super) const fn with(mut self, subcommands: &'static [Command]) -> Self {
        self.subcommands = subcommands;
        self
    }
}

pub(super) const fn new(
    name: &'static str,
    arity: i32,
    flags: u32,
    group: Group,
    since: &'static str,
    summary: &'static str,
    handler: Handler,
) -> Command {
    Command {
        name,
        full_name: name,
        arity,
        flags,
        keys: Keys::NONE,
        group,
        since,
        summary,
        subcommands: &[],
        handler,
    }
}

/// A subcommand; its name follows the bar.
pub(super) const fn part(
    full_name: &'static str,
    arity: i32,
    flags: u32,
    group: Group,
    since: &'static str,
    summary: &'static str,
    handler: Handler,
) -> Command {
    let mut command = new(full_name, arity, flags, group, since, summary, handler);
    let mut bar = 0;
    while full_name.as_bytes()[bar] != b'|' {
        bar += 1;
    }
    command.name = full_name.split_at(bar + 1).1;
    command
}
