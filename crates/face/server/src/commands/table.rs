//! The table of all commands.

use crate::call::Call;
use crate::failure::Outcome;

use super::{
    admin, backup, client, cluster, command, config, connection, counters, expiry, functions, info,
    keys, latency, lcs, memory, object, scan, scripting, slowlog, strings, transactions,
};

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

/// Which of a command's words are keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Keys {
    /// The index of the first key; 0: the command has no keys.
    pub(crate) first: i32,
    /// The index of the last; negative: from the end.
    pub(crate) last: i32,
    pub(crate) step: i32,
}

/// The family of a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Group {
    Cluster,
    Connection,
    Generic,
    Scripting,
    Server,
    String,
    Transactions,
}

impl Group {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Cluster => "cluster",
            Self::Connection => "connection",
            Self::Generic => "generic",
            Self::Scripting => "scripting",
            Self::Server => "server",
            Self::String => "string",
            Self::Transactions => "transactions",
        }
    }

    /// The group's access category, if it has one.
    pub(crate) fn category(self) -> Option<&'static str> {
        match self {
            Self::Connection => Some("connection"),
            Self::Generic => Some("keyspace"),
            Self::Scripting => Some("scripting"),
            Self::Cluster | Self::Server => None,
            Self::String => Some("string"),
            Self::Transactions => Some("transaction"),
        }
    }
}

/// Properties of commands.
pub(crate) mod flags {
    /// It changes keys.
    pub(crate) const WRITE: u32 = 1;
    /// It reads keys and changes no key.
    pub(crate) const READ: u32 = 1 << 1;
    /// It needs room: it fails when the store is full.
    pub(crate) const DENY_OOM: u32 = 1 << 2;
    /// It is for administrators.
    pub(crate) const ADMIN: u32 = 1 << 3;
    /// Its time does not depend on the size of the database.
    pub(crate) const FAST: u32 = 1 << 4;
    /// It is open to clients that have not authenticated.
    pub(crate) const NO_AUTH: u32 = 1 << 5;
    /// It cannot be part of a transaction.
    pub(crate) const NO_MULTI: u32 = 1 << 6;
    /// It is executed at once also between MULTI and EXEC.
    pub(crate) const NOT_QUEUED: u32 = 1 << 7;
    /// It executes a transaction.
    pub(crate) const EXECUTES: u32 = 1 << 8;
    /// It changes several keys, together.
    pub(crate) const MANY_KEYS: u32 = 1 << 9;
    /// It can do harm to other clients.
    pub(crate) const DANGEROUS: u32 = 1 << 10;

    /// It looks at, or changes, the keys of all partitions.
    pub(crate) const ALL_KEYS: u32 = 1 << 11;
    /// It looks at the keys of the partition that its cursor names.
    pub(crate) const SCANS: u32 = 1 << 12;
    /// It is about all threads of the server.
    pub(crate) const ALL_THREADS: u32 = 1 << 13;
    /// It is executed while no other thread executes a command on keys.
    pub(crate) const ALONE: u32 = 1 << 14;
    /// It reports how often commands were executed, and how long they took.
    pub(crate) const TIMES: u32 = 1 << 15;
    /// It waits for the next piece of the client's backup.
    pub(crate) const AWAITS: u32 = 1 << 16;
    /// It is refused unless the configuration allows it.
    pub(crate) const PROTECTED: u32 = 1 << 17;

    /// It runs a script, whose keys follow their number.
    pub(crate) const SCRIPT: u32 = 1 << 28;
    /// A script cannot execute it.
    pub(crate) const NO_SCRIPT: u32 = 1 << 29;
    /// It is executed while a script runs for long.
    pub(crate) const ALLOW_BUSY: u32 = 1 << 30;

    /// The names of those that COMMAND tells.
    pub(crate) const NAMES: &[(u32, &str)] = &[
        (WRITE, "write"),
        (READ, "readonly"),
        (DENY_OOM, "denyoom"),
        (ADMIN, "admin"),
        (NO_SCRIPT, "noscript"),
        (FAST, "fast"),
        (NO_AUTH, "no_auth"),
        (ALLOW_BUSY, "allow_busy"),
        (SCRIPT, "movablekeys"),
        (NO_MULTI, "no_multi"),
    ];
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

    /// The indexes of the keys among `words` words.
    pub(crate) fn key_indexes(&self, words: usize) -> impl Iterator<Item = usize> + use<> {
        let Keys { first, last, step } = self.keys;
        let last = if last < 0 { words as i32 + last } else { last };
        let end = if first == 0 { first } else { words.min(last as usize + 1) as i32 };
        (first..end).step_by(step.max(1) as usize).map(|index| index as usize)
    }

    const fn keys(mut self, first: i32, last: i32, step: i32) -> Self {
        self.keys = Keys { first, last, step };
        self
    }

    const fn with(mut self, subcommands: &'static [Command]) -> Self {
        self.subcommands = subcommands;
        self
    }
}

const fn new(
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
        keys: Keys { first: 0, last: 0, step: 0 },
        group,
        since,
        summary,
        subcommands: &[],
        handler,
    }
}

/// A subcommand; its name follows the bar.
const fn part(
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

use Group::{Cluster, Connection, Generic, Scripting, Server, String as Text, Transactions};
use flags::*;

/// A part of CLUSTER.
const fn clustered(full_name: &'static str, arity: i32) -> Command {
    part(full_name, arity, 0, Cluster, "3.0.0", "Is refused: there is no cluster", cluster::refuse)
}

const GROWS: u32 = WRITE | DENY_OOM;
const OPEN: u32 = FAST | NO_AUTH;

/// All commands, by group.
#[rustfmt::skip]
pub(crate) static COMMANDS: &[Command] = &[
    new("append", 3, GROWS | FAST, Text, "2.0.0", "Adds to the end of a value", strings::append).keys(1, 1, 1),
    new("decr", 2, GROWS | FAST, Text, "1.0.0", "Subtracts one from an integer", counters::decr).keys(1, 1, 1),
    new("decrby", 3, GROWS | FAST, Text, "1.0.0", "Subtracts from an integer", counters::decrby).keys(1, 1, 1),
    new("get", 2, READ | FAST, Text, "1.0.0", "Returns the value of a key", strings::get).keys(1, 1, 1),
    new("getdel", 2, WRITE | FAST, Text, "6.2.0", "Returns a value and removes its key", strings::getdel).keys(1, 1, 1),
    new("getex", -2, WRITE | FAST, Text, "6.2.0", "Returns a value and sets when its key expires", strings::getex).keys(1, 1, 1),
    new("getrange", 4, READ, Text, "2.4.0", "Returns a part of a value", strings::getrange).keys(1, 1, 1),
    new("getset", 3, GROWS | FAST, Text, "1.0.0", "Sets a value and returns the one before", strings::getset).keys(1, 1, 1),
    new("incr", 2, GROWS | FAST, Text, "1.0.0", "Adds one to an integer", counters::incr).keys(1, 1, 1),
    new("incrby", 3, GROWS | FAST, Text, "1.0.0", "Adds to an integer", counters::incrby).keys(1, 1, 1),
    new("incrbyfloat", 3, GROWS | FAST, Text, "2.6.0", "Adds to a floating-point number", counters::incrbyfloat).keys(1, 1, 1),
    new("lcs", -3, READ, Text, "7.0.0", "Finds the longest common subsequence of two values", lcs::lcs).keys(1, 2, 1),
    new("mget", -2, READ | FAST, Text, "1.0.0", "Returns the values of several keys", strings::mget).keys(1, -1, 1),
    new("mset", -3, GROWS | MANY_KEYS, Text, "1.0.1", "Sets several keys together", strings::mset).keys(1, -1, 2),
    new("msetnx", -3, GROWS | MANY_KEYS, Text, "1.0.1", "Sets several keys together if none of them exists", strings::msetnx).keys(1, -1, 2),
    new("psetex", 4, GROWS, Text, "2.6.0", "Sets a key that expires in milliseconds", strings::psetex).keys(1, 1, 1),
    new("set", -3, GROWS, Text, "1.0.0", "Sets the value of a key", strings::set).keys(1, 1, 1),
    new("setex", 4, GROWS, Text, "2.0.0", "Sets a key that expires in seconds", strings::setex).keys(1, 1, 1),
    new("setnx", 3, GROWS | FAST, Text, "1.0.0", "Sets a key if it does not exist", strings::setnx).keys(1, 1, 1),
    new("setrange", 4, GROWS, Text, "2.2.0", "Overwrites a part of a value", strings::setrange).keys(1, 1, 1),
    new("substr", 4, READ, Text, "1.0.0", "Returns a part of a value", strings::getrange).keys(1, 1, 1),
    new("strlen", 2, READ | FAST, Text, "2.2.0", "Returns the length of a value", strings::strlen).keys(1, 1, 1),

    new("copy", -3, GROWS, Generic, "6.2.0", "Copies a key", keys::copy).keys(1, 2, 1),
    new("del", -2, WRITE | MANY_KEYS, Generic, "1.0.0", "Removes keys", keys::del).keys(1, -1, 1),
    new("exists", -2, READ | FAST, Generic, "1.0.0", "Counts keys that exist", keys::exists).keys(1, -1, 1),
    new("expire", -3, WRITE | FAST, Generic, "1.0.0", "Lets a key expire in seconds", expiry::expire).keys(1, 1, 1),
    new("expireat", -3, WRITE | FAST, Generic, "1.2.0", "Lets a key expire at a time in seconds", expiry::expireat).keys(1, 1, 1),
    new("expiretime", 2, READ | FAST, Generic, "7.0.0", "Tells at which second a key expires", expiry::expiretime).keys(1, 1, 1),
    new("keys", 2, READ | DANGEROUS | ALL_KEYS, Generic, "1.0.0", "Returns all keys that match a pattern", scan::keys),
    new("move", 3, WRITE | FAST | MANY_KEYS, Generic, "1.0.0", "Moves a key to another database", keys::move_to_database).keys(1, 1, 1),
    new("object", -2, 0, Generic, "2.2.3", "Tells how a value is stored", object::help).with(&[
        part("object|encoding", 3, READ, Generic, "2.2.3", "Tells the encoding of a value", object::encoding).keys(2, 2, 1),
        part("object|freq", 3, READ, Generic, "4.0.0", "Tells how often a key is used", object::freq).keys(2, 2, 1),
        part("object|help", 2, 0, Generic, "6.2.0", "Lists the subcommands", object::help),
        part("object|idletime", 3, READ, Generic, "2.2.3", "Tells how long a key was not used", object::idletime).keys(2, 2, 1),
        part("object|refcount", 3, READ, Generic, "2.2.3", "Tells the references to a value", object::refcount).keys(2, 2, 1),
    ]),
    new("persist", 2, WRITE | FAST, Generic, "2.2.0", "Keeps a key from expiring", expiry::persist).keys(1, 1, 1),
    new("pexpire", -3, WRITE | FAST, Generic, "2.6.0", "Lets a key expire in milliseconds", expiry::pexpire).keys(1, 1, 1),
    new("pexpireat", -3, WRITE | FAST, Generic, "2.6.0", "Lets a key expire at a time in milliseconds", expiry::pexpireat).keys(1, 1, 1),
    new("pexpiretime", 2, READ | FAST, Generic, "7.0.0", "Tells at which millisecond a key expires", expiry::pexpiretime).keys(1, 1, 1),
    new("pttl", 2, READ | FAST, Generic, "2.6.0", "Tells the milliseconds until a key expires", expiry::pttl).keys(1, 1, 1),
    new("randomkey", 1, READ | ALL_KEYS, Generic, "1.0.0", "Returns a random key", keys::randomkey),
    new("rename", 3, WRITE | MANY_KEYS, Generic, "1.0.0", "Renames a key", keys::rename).keys(1, 2, 1),
    new("renamenx", 3, WRITE | FAST | MANY_KEYS, Generic, "1.0.0", "Renames a key if the new name is free", keys::renamenx).keys(1, 2, 1),
    new("scan", -2, READ | SCANS, Generic, "2.8.0", "Returns some keys, and where to go on", scan::scan),
    new("wait", 3, NO_SCRIPT, Generic, "3.0.0", "Reports how many replicas have the writes: none", cluster::wait),
    new("waitaof", 4, NO_SCRIPT, Generic, "7.2.0", "Makes writes durable, and reports that", cluster::waitaof),
    new("touch", -2, READ | FAST, Generic, "3.2.1", "Counts keys that exist", keys::exists).keys(1, -1, 1),
    new("ttl", 2, READ | FAST, Generic, "1.0.0", "Tells the seconds until a key expires", expiry::ttl).keys(1, 1, 1),
    new("type", 2, READ | FAST, Generic, "1.0.0", "Tells the type of a value", keys::key_type).keys(1, 1, 1),
    new("unlink", -2, WRITE | FAST | MANY_KEYS, Generic, "4.0.0", "Removes keys", keys::del).keys(1, -1, 1),

    new("eval", -3, SCRIPT | NO_SCRIPT, Scripting, "2.6.0", "Runs a script", scripting::eval),
    new("eval_ro", -3, SCRIPT | READ | NO_SCRIPT, Scripting, "7.0.0", "Runs a script that only reads", scripting::eval_ro),
    new("evalsha", -3, SCRIPT | NO_SCRIPT, Scripting, "2.6.0", "Runs a script by its digest", scripting::evalsha),
    new("evalsha_ro", -3, SCRIPT | READ | NO_SCRIPT, Scripting, "7.0.0", "Runs a script that only reads, by its digest", scripting::evalsha_ro),
    new("fcall", -3, SCRIPT | NO_SCRIPT, Scripting, "7.0.0", "Calls a function of a library", scripting::fcall),
    new("fcall_ro", -3, SCRIPT | READ | NO_SCRIPT, Scripting, "7.0.0", "Calls a function that only reads", scripting::fcall_ro),
    new("function", -2, 0, Scripting, "7.0.0", "Commands about libraries of functions", functions::help).with(&[
        part("function|delete", 3, WRITE | NO_SCRIPT, Scripting, "7.0.0", "Removes a library", functions::delete),
        part("function|dump", 2, NO_SCRIPT, Scripting, "7.0.0", "Returns all libraries as one value", functions::dump),
        part("function|flush", -2, WRITE | NO_SCRIPT, Scripting, "7.0.0", "Removes all libraries", functions::flush),
        part("function|help", 2, 0, Scripting, "7.0.0", "Lists the subcommands", functions::help),
        part("function|kill", 2, NO_SCRIPT | ALLOW_BUSY, Scripting, "7.0.0", "Stops a function that runs for long", functions::kill),
        part("function|list", -2, NO_SCRIPT, Scripting, "7.0.0", "Lists the libraries", functions::list),
        part("function|load", -3, GROWS | NO_SCRIPT, Scripting, "7.0.0", "Adds a library", functions::load),
        part("function|restore", -3, GROWS | NO_SCRIPT, Scripting, "7.0.0", "Adds libraries from one value", functions::restore),
        part("function|stats", 2, NO_SCRIPT | ALLOW_BUSY, Scripting, "7.0.0", "Describes the function that runs for long", functions::stats),
    ]),
    new("script", -2, 0, Scripting, "2.6.0", "Commands about scripts", scripting::help).with(&[
        part("script|debug", 3, NO_SCRIPT, Scripting, "3.2.0", "Is refused: there is no debugger", scripting::debug),
        part("script|exists", -3, NO_SCRIPT, Scripting, "2.6.0", "Tells which scripts are known", scripting::exists),
        part("script|flush", -2, NO_SCRIPT, Scripting, "2.6.0", "Forgets all scripts", scripting::flush),
        part("script|help", 2, 0, Scripting, "5.0.0", "Lists the subcommands", scripting::help),
        part("script|kill", 2, NO_SCRIPT | ALLOW_BUSY, Scripting, "2.6.0", "Stops a script that runs for long", scripting::kill),
        part("script|load", 3, NO_SCRIPT, Scripting, "2.6.0", "Makes a script known", scripting::load),
    ]),

    new("discard", 1, FAST | NOT_QUEUED | NO_SCRIPT | ALLOW_BUSY, Transactions, "2.0.0", "Drops a transaction", transactions::discard),
    new("exec", 1, NOT_QUEUED | EXECUTES | NO_SCRIPT, Transactions, "1.2.0", "Executes a transaction", transactions::exec),
    new("multi", 1, FAST | NOT_QUEUED | NO_SCRIPT | ALLOW_BUSY, Transactions, "1.2.0", "Begins a transaction", transactions::multi),
    new("unwatch", 1, FAST | NO_SCRIPT | ALLOW_BUSY, Transactions, "2.2.0", "Forgets all watched keys", transactions::unwatch),
    new("watch", -2, FAST | NOT_QUEUED | NO_SCRIPT, Transactions, "2.2.0", "Lets EXEC fail if keys change before it", transactions::watch).keys(1, -1, 1),

    new("auth", -2, OPEN | NO_SCRIPT | ALLOW_BUSY, Connection, "1.0.0", "Authenticates the client", connection::auth),
    new("client", -2, 0, Connection, "2.4.0", "Commands about clients", client::help).with(&[
        part("client|getname", 2, NO_SCRIPT, Connection, "2.6.9", "Returns the client's name", client::getname),
        part("client|help", 2, 0, Connection, "5.0.0", "Lists the subcommands", client::help),
        part("client|id", 2, NO_SCRIPT, Connection, "5.0.0", "Returns the client's number", client::id),
        part("client|info", 2, NO_SCRIPT, Connection, "6.2.0", "Describes this client", client::info),
        part("client|kill", -3, ADMIN | ALL_THREADS | NO_SCRIPT, Connection, "2.4.0", "Disconnects clients", client::kill),
        part("client|list", -2, ADMIN | ALL_THREADS | NO_SCRIPT, Connection, "2.4.0", "Describes all clients", client::list),
        part("client|maint_notifications", -3, NO_SCRIPT, Connection, "8.4.0", "Asks to be told of maintenance; there is none", client::maint_notifications),
        part("client|no-evict", 3, ADMIN | NO_SCRIPT, Connection, "7.0.0", "Marks the client as not to be evicted", client::no_evict),
        part("client|pause", -3, ADMIN | ALONE | NO_SCRIPT, Connection, "3.0.0", "Lets clients wait", client::pause),
        part("client|reply", 3, NO_SCRIPT, Connection, "3.2.0", "Sets which replies the client wants", client::reply),
        part("client|setinfo", 4, NO_SCRIPT, Connection, "7.2.0", "Sets the name and version of the client's library", client::setinfo),
        part("client|setname", 3, NO_SCRIPT, Connection, "2.6.9", "Sets the client's name", client::setname),
        part("client|unpause", 2, ADMIN | NO_SCRIPT, Connection, "6.2.0", "Lets waiting clients go on", client::unpause),
    ]),
    new("echo", 2, FAST, Connection, "1.0.0", "Returns its argument", connection::echo),
    new("hello", -1, OPEN | NO_SCRIPT | ALLOW_BUSY, Connection, "6.0.0", "Greets the server and chooses the protocol", connection::hello),
    new("ping", -1, FAST, Connection, "1.0.0", "Asks for a sign of life", connection::ping),
    new("quit", -1, OPEN | NOT_QUEUED | NO_SCRIPT | ALLOW_BUSY, Connection, "1.0.0", "Closes the connection", connection::quit),
    new("reset", 1, OPEN | NOT_QUEUED | NO_SCRIPT | ALLOW_BUSY, Connection, "6.2.0", "Makes the connection as new", connection::reset),
    new("select", 2, FAST, Connection, "1.0.0", "Selects a database", connection::select),

    new("asking", 1, FAST, Cluster, "3.0.0", "Is refused: there is no cluster", cluster::refuse),
    new("cluster", -2, 0, Cluster, "3.0.0", "Is refused: there is no cluster", cluster::refuse).with(&[
        clustered("cluster|addslots", -3),
        clustered("cluster|addslotsrange", -4),
        clustered("cluster|bumpepoch", 2),
        clustered("cluster|count-failure-reports", 3),
        clustered("cluster|countkeysinslot", 3),
        clustered("cluster|delslots", -3),
        clustered("cluster|delslotsrange", -4),
        clustered("cluster|failover", -2),
        clustered("cluster|flushslots", 2),
        clustered("cluster|forget", 3),
        clustered("cluster|getkeysinslot", 4),
        clustered("cluster|help", 2),
        clustered("cluster|info", 2),
        clustered("cluster|keyslot", 3),
        clustered("cluster|links", 2),
        clustered("cluster|meet", -4),
        clustered("cluster|myid", 2),
        clustered("cluster|nodes", 2),
        clustered("cluster|replicas", 3),
        clustered("cluster|replicate", 3),
        clustered("cluster|reset", -2),
        clustered("cluster|saveconfig", 2),
        clustered("cluster|set-config-epoch", 3),
        clustered("cluster|setslot", -4),
        clustered("cluster|shards", 2),
        clustered("cluster|slaves", 3),
        clustered("cluster|slots", 2),
    ]),
    new("readonly", 1, FAST, Cluster, "3.0.0", "Is refused: there is no cluster", cluster::refuse),
    new("readwrite", 1, FAST, Cluster, "3.0.0", "Is refused: there is no cluster", cluster::refuse),

    new("bgsave", -1, ADMIN | NO_SCRIPT, Server, "1.0.0", "Makes everything durable", admin::bgsave),
    new("command", -1, 0, Server, "2.8.13", "Describes all commands", command::all).with(&[
        part("command|count", 2, 0, Server, "2.8.13", "Counts the commands", command::count),
        part("command|docs", -2, 0, Server, "7.0.0", "Documents commands", command::docs),
        part("command|getkeys", -4, 0, Server, "2.8.13", "Returns the keys in a request", command::getkeys),
        part("command|help", 2, 0, Server, "5.0.0", "Lists the subcommands", command::help),
        part("command|info", -2, 0, Server, "2.8.13", "Describes commands", command::info),
        part("command|list", -2, 0, Server, "7.0.0", "Lists the names of commands", command::list),
    ]),
    new("config", -2, 0, Server, "2.0.0", "Commands about the configuration", config::help).with(&[
        part("config|get", -3, ADMIN | NO_SCRIPT, Server, "2.0.0", "Returns parameters", config::get),
        part("config|help", 2, 0, Server, "5.0.0", "Lists the subcommands", config::help),
        part("config|resetstat", 2, ADMIN | NO_SCRIPT, Server, "2.0.0", "Sets the counters of INFO to zero", config::resetstat),
        part("config|rewrite", 2, ADMIN | NO_SCRIPT, Server, "2.8.0", "Writes the configuration to its file", config::rewrite),
        part("config|set", -4, ADMIN | NO_SCRIPT, Server, "2.0.0", "Sets parameters", config::set),
    ]),
    new("dbsize", 1, READ | FAST | ALL_KEYS, Server, "1.0.0", "Counts the keys", admin::dbsize),
    new("debug", -2, ADMIN | PROTECTED | NO_SCRIPT, Server, "1.0.0", "Commands for tests", admin::debug),
    new("flushall", -1, WRITE | DANGEROUS | ALL_KEYS, Server, "1.0.0", "Removes all keys of all databases", admin::flushall),
    new("flushdb", -1, WRITE | DANGEROUS | ALL_KEYS, Server, "1.0.0", "Removes all keys", admin::flushdb),
    new("halite.backup", -2, 0, Server, "7.4.0", "Takes a backup while others write", backup::help).with(&[
        part("halite.backup|begin", -2, ADMIN | DANGEROUS | NO_MULTI | ALL_KEYS | NO_SCRIPT, Server, "7.4.0", "Begins a backup", backup::begin),
        part("halite.backup|help", 2, 0, Server, "7.4.0", "Lists the subcommands", backup::help),
        part("halite.backup|next", 2, ADMIN | NO_MULTI | AWAITS | NO_SCRIPT, Server, "7.4.0", "Returns the next piece of a backup", backup::next),
        part("halite.backup|stop", 2, ADMIN | NO_SCRIPT, Server, "7.4.0", "Ends a backup early", backup::stop),
    ]),
    new("info", -1, DANGEROUS | ALL_THREADS | TIMES, Server, "1.0.0", "Tells how the server is", info::info),
    new("lastsave", 1, FAST | ADMIN, Server, "1.0.0", "Tells when everything was durable", admin::lastsave),
    new("latency", -2, 0, Server, "2.8.13", "Commands about spikes of latency", latency::help).with(&[
        part("latency|doctor", 2, ADMIN | NO_SCRIPT, Server, "2.8.13", "Sums the spikes up", latency::doctor),
        part("latency|graph", 3, ADMIN | NO_SCRIPT, Server, "2.8.13", "Draws the spikes of an event", latency::graph),
        part("latency|help", 2, 0, Server, "2.8.13", "Lists the subcommands", latency::help),
        part("latency|histogram", -2, ADMIN | ALL_THREADS | TIMES | NO_SCRIPT, Server, "7.0.0", "Tells how long commands took", latency::histogram),
        part("latency|history", 3, ADMIN | NO_SCRIPT, Server, "2.8.13", "Returns the spikes of an event", latency::history),
        part("latency|latest", 2, ADMIN | NO_SCRIPT, Server, "2.8.13", "Returns the last spike of each event", latency::latest),
        part("latency|reset", -2, ADMIN | NO_SCRIPT, Server, "2.8.13", "Forgets spikes", latency::reset),
    ]),
    new("memory", -2, 0, Server, "4.0.0", "Commands about memory", memory::help).with(&[
        part("memory|doctor", 2, 0, Server, "4.0.0", "Reports problems of memory", memory::doctor),
        part("memory|help", 2, 0, Server, "4.0.0", "Lists the subcommands", memory::help),
        part("memory|stats", 2, ALL_THREADS, Server, "4.0.0", "Reports the use of memory", memory::stats),
        part("memory|usage", -3, READ, Server, "4.0.0", "Tells the memory that a key takes", memory::usage).keys(2, 2, 1),
    ]),
    new("module", -2, 0, Server, "4.0.0", "Commands about modules", cluster::module_help).with(&[
        part("module|help", 2, 0, Server, "5.0.0", "Lists the subcommands", cluster::module_help),
        part("module|list", 2, ADMIN | NO_SCRIPT, Server, "4.0.0", "Returns the modules: there are none", cluster::modules),
        part("module|load", -3, ADMIN | NO_SCRIPT, Server, "4.0.0", "Is refused", cluster::refuse_module),
        part("module|loadex", -3, ADMIN | NO_SCRIPT, Server, "7.0.0", "Is refused", cluster::refuse_module),
        part("module|unload", 3, ADMIN | NO_SCRIPT, Server, "4.0.0", "Is refused", cluster::refuse_module),
    ]),
    new("role", 1, FAST | ADMIN | NO_SCRIPT, Server, "2.8.12", "Tells the role in replication: a master without replicas", cluster::role),
    new("save", 1, ADMIN | NO_MULTI | NO_SCRIPT, Server, "1.0.0", "Makes everything durable", admin::save),
    new("shutdown", -1, ADMIN | NO_MULTI | NO_SCRIPT | ALLOW_BUSY, Server, "1.0.0", "Stops the server", admin::shutdown),
    new("slowlog", -2, 0, Server, "2.2.12", "Commands about slow commands", slowlog::help).with(&[
        part("slowlog|get", -2, ADMIN, Server, "2.2.12", "Returns slow commands", slowlog::get),
        part("slowlog|help", 2, 0, Server, "6.2.0", "Lists the subcommands", slowlog::help),
        part("slowlog|len", 2, ADMIN, Server, "2.2.12", "Counts slow commands", slowlog::len),
        part("slowlog|reset", 2, ADMIN, Server, "2.2.12", "Forgets slow commands", slowlog::reset),
    ]),
    new("swapdb", 3, WRITE | FAST | DANGEROUS | ALL_KEYS, Server, "4.0.0", "Exchanges two databases", admin::swapdb),
    new("time", 1, FAST, Server, "2.6.0", "Tells the time", admin::time),
];

/// All commands. Those that are parts of others are with these.
pub(crate) fn all() -> &'static [Command] {
    COMMANDS
}

/// The place of a command in the table; `None` for a subcommand.
#[inline]
pub(crate) fn number(command: &'static Command) -> Option<usize> {
    let offset = std::ptr::from_ref(command).addr().wrapping_sub(COMMANDS.as_ptr().addr());
    let number = offset / size_of::<Command>();
    (number < COMMANDS.len()).then_some(number)
}

/// The command called `name`, in upper or lower case.
#[inline]
pub(crate) fn find(name: &[u8]) -> Option<&'static Command> {
    let packed = pack(name)?;
    let mut slot = slot(packed);
    loop {
        match &INDEX[slot] {
            (known, place) if *known == packed => return Some(&COMMANDS[usize::from(*place)]),
            (0, _) => return None,
            _ => slot = (slot + 1) % INDEX_LEN,
        }
    }
}

/// Open addressing, at most a quarter full: packed name and place in [`COMMANDS`].
static INDEX: [(u128, u8); INDEX_LEN] = {
    let mut index = [(0, 0); INDEX_LEN];
    let mut place = 0;
    while place < COMMANDS.len() {
        let Some(packed) = pack(COMMANDS[place].name.as_bytes()) else {
            panic!("a command has a name of 1 to 16 bytes")
        };
        let mut slot = slot(packed);
        while index[slot].0 != 0 {
            slot = (slot + 1) % INDEX_LEN;
        }
        index[slot] = (packed, place as u8);
        place += 1;
    }
    index
};

const INDEX_LEN: usize = 512;

/// A name of up to 16 bytes as a number, upper and lower case being the same; 0 is no name.
#[inline]
const fn pack(name: &[u8]) -> Option<u128> {
    if name.is_empty() || name.len() > 16 {
        return None;
    }
    let (mut packed, mut index) = (0, 0);
    while index < name.len() {
        if name[index] == 0 {
            return None;
        }
        packed = packed << 8 | name[index].to_ascii_uppercase() as u128;
        index += 1;
    }
    Some(packed)
}

#[inline]
const fn slot(packed: u128) -> usize {
    let folded = packed as u64 ^ (packed >> 64) as u64;
    (folded.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 55) as usize % INDEX_LEN
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_command_is_found_by_its_name_in_any_case() {
        for command in COMMANDS {
            let found = find(command.name.as_bytes()).unwrap();
            assert!(std::ptr::eq(found, command), "{}", command.name);
            let upper = command.name.to_ascii_uppercase();
            assert!(std::ptr::eq(find(upper.as_bytes()).unwrap(), command));
        }
        for name in ["", "ge", "gett", "\0get", "get\0", "averyveryverylongname"] {
            assert!(find(name.as_bytes()).is_none(), "{name:?}");
        }
    }

    #[test]
    fn every_part_is_found_in_its_command() {
        let parts =
            COMMANDS.iter().flat_map(|whole| whole.subcommands.iter().map(move |p| (whole, p)));
        for (whole, part) in parts {
            assert_eq!(part.full_name, format!("{}|{}", whole.name, part.name));
            let found = whole.subcommand(part.name.to_ascii_uppercase().as_bytes()).unwrap();
            assert!(std::ptr::eq(found, part));
        }
    }

    #[test]
    fn keys_are_where_the_table_says() {
        let keys = |name: &[u8], words| find(name).unwrap().key_indexes(words).collect::<Vec<_>>();
        assert_eq!(keys(b"get", 2), [1]);
        assert_eq!(keys(b"mset", 5), [1, 3]);
        assert_eq!(keys(b"rename", 3), [1, 2]);
        assert!(keys(b"ping", 2).is_empty());
    }
}
