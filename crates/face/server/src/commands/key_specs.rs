//! The effects of commands on their keys, as COMMAND tells them: whether they read, write or remove them.
//!
//! A table has the commands for which that does not follow from whether they write; most others read a value and return
//! it, or change it by itself.

use crate::call::is;
use crate::resp::Args;

use super::{Command, Keys, MoreKeys, flags};

/// The names of what a command does to some of its keys.
type Effects = &'static [&'static str];

/// Some of a command's keys, and what it does to them.
pub(super) struct KeySpec {
    pub(super) keys: Keys,
    pub(super) effects: Effects,
    /// The word behind which they are, and from where on it is looked for.
    pub(super) keyword: Option<(&'static str, usize)>,
}

impl KeySpec {
    fn new(keys: Keys, effects: Effects) -> Self {
        Self { keys, effects, keyword: None }
    }

    fn has(&self, index: usize) -> bool {
        let Keys { first, last, more, .. } = self.keys;
        let index = index as i32;
        index >= first && (last < 0 || more != MoreKeys::None || index <= last)
    }
}

const LOOKS: Effects = &["RO"];
const READS: Effects = &["RO", "access"];
const CHANGES: Effects = &["RW", "update"];
const READS_AND_CHANGES: Effects = &["RW", "access", "update"];
const VARIES: Effects = &["RW", "access", "update", "variable_flags"];
const SETS: Effects = &["OW", "update"];
const INSERTS: Effects = &["OW", "insert"];
const GROWS: Effects = &["RW", "insert"];
const SHRINKS: Effects = &["RW", "delete"];
const REMOVES: Effects = &["RM", "delete"];
const TAKES: Effects = &["RW", "access", "delete"];

/// Commands by what they do to their keys.
#[rustfmt::skip]
static EFFECTS: &[(Effects, &[&str])] = &[
    (LOOKS, &[
        "exists", "hexists", "hlen", "hstrlen", "llen", "memory|usage", "object|encoding", "object|freq",
        "object|idletime", "object|refcount", "scard", "sismember", "strlen", "touch", "type", "watch", "xlen", "zcard",
    ]),
    (READS, &["xreadgroup"]),
    (CHANGES, &[
        "expire", "expireat", "geoadd", "hexpire", "hexpireat", "hmset", "hpersist", "hpexpire", "hpexpireat", "hset",
        "hsetex", "lset", "persist", "pexpire", "pexpireat", "setrange", "xack", "xadd", "xclaim", "xgroup|setid",
        "xsetid", "zadd",
    ]),
    (READS_AND_CHANGES, &["eval", "evalsha", "fcall"]),
    (VARIES, &["bitfield", "set"]),
    (SETS, &["mset", "msetex", "psetex", "restore", "setex"]),
    (INSERTS, &["msetnx", "setnx"]),
    (GROWS, &[
        "append", "hsetnx", "linsert", "lpush", "lpushx", "pfadd", "rpush", "rpushx", "sadd", "xgroup|create",
        "xgroup|createconsumer",
    ]),
    (REMOVES, &["del", "unlink"]),
    (SHRINKS, &[
        "hdel", "lrem", "ltrim", "srem", "xackdel", "xautoclaim", "xdel", "xdelex", "xgroup|delconsumer",
        "xgroup|destroy", "xtrim", "zrem", "zremrangebylex", "zremrangebyrank", "zremrangebyscore",
    ]),
    (&["RW", "delete", "variable_flags"], &["delex"]),
    (TAKES, &[
        "blmpop", "blpop", "brpop", "bzmpop", "bzpopmax", "bzpopmin", "getdel", "hgetdel", "lmpop", "lpop", "rpop",
        "spop", "zmpop", "zpopmax", "zpopmin",
    ]),
    (&["RW", "access"], &["pfcount", "pfdebug"]),
];

/// The key that a command reads, and those behind some words, which it sets.
fn behind(keys: Keys, from: usize, words: &[&'static str]) -> Vec<KeySpec> {
    let first = KeySpec::new(Keys { more: MoreKeys::None, ..keys }, READS);
    let others =
        words.iter().map(|word| KeySpec { keys, effects: SETS, keyword: Some((*word, from)) });
    std::iter::once(first).chain(others).collect()
}

/// The keys of a command, in parts.
pub(super) fn of(command: &Command) -> Vec<KeySpec> {
    let mut keys = command.keys;
    if let MoreKeys::HalfBehind(word, _) = keys.more {
        // The other words before it are as few as the arity says.
        let from = (command.arity.unsigned_abs() as usize).saturating_sub(3);
        let keys = Keys { first: 1, ..keys };
        return vec![KeySpec { keyword: Some((word, from)), ..KeySpec::new(keys, READS) }];
    }
    if let MoreKeys::OneOrBehind(first, ..) = keys.more {
        return vec![KeySpec::new(Keys { first: first as i32, ..keys }, TAKES)];
    }
    if keys.first == 0 {
        let Some((at, step)) = keys.more.counted() else { return Vec::new() };
        keys = Keys { first: at as i32 + 1, last: 0, step, ..keys };
    }
    let two = |first: Effects, others: Effects| {
        let one = Keys { last: keys.first, more: MoreKeys::None, ..keys };
        let rest = Keys { first: keys.first + 1, ..keys };
        vec![KeySpec::new(one, first), KeySpec::new(rest, others)]
    };
    match command.name {
        "bitop" | "geosearchstore" | "sdiffstore" | "sunionstore" | "zrangestore" => {
            two(SETS, READS)
        }
        "sinterstore" => two(CHANGES, READS),
        "zdiffstore" | "zinterstore" | "zunionstore" => {
            let destination = Keys { more: MoreKeys::None, ..keys };
            let sources = Keys { first: 3, last: 0, ..keys };
            vec![KeySpec::new(destination, SETS), KeySpec::new(sources, READS)]
        }
        "georadius" => behind(keys, 6, &["STORE", "STOREDIST"]),
        "georadiusbymember" => behind(keys, 5, &["STORE", "STOREDIST"]),
        "sort" => behind(keys, 2, &["STORE"]),
        "blmove" | "brpoplpush" | "lmove" | "rpoplpush" | "smove" => two(TAKES, GROWS),
        "copy" => two(READS, SETS),
        "pfmerge" => two(&["RW", "access", "insert"], READS),
        "rename" => two(TAKES, SETS),
        "renamenx" => two(TAKES, INSERTS),
        _ => {
            let known = EFFECTS.iter().find(|(_, names)| names.contains(&command.full_name));
            let usual = if command.is(flags::WRITE) { READS_AND_CHANGES } else { READS };
            vec![KeySpec::new(keys, known.map_or(usual, |(effects, _)| effects))]
        }
    }
}

/// Whether BITFIELD changes nothing, as far as its words are well-formed.
fn only_gets(request: Args<'_>) -> bool {
    let mut words = request.from(2).iter();
    while let Some(word) = words.next() {
        let skipped = match words.len() {
            2.. if is(word, "GET") => 2,
            1.. if is(word, "OVERFLOW") => 1,
            _ => return false,
        };
        words.by_ref().take(skipped).for_each(drop);
    }
    true
}

/// The effects of a request on its key at `index`.
pub(super) fn effects(command: &Command, request: Args<'_>, index: usize) -> Effects {
    match command.name {
        "set" if request.from(3).iter().any(|word| is(word, "GET")) => READS_AND_CHANGES,
        "set" => SETS,
        "bitfield" if only_gets(request) => READS,
        "bitfield" => READS_AND_CHANGES,
        "delex" if request.len() > 2 => &["RW", "access", "delete"],
        "delex" => REMOVES,
        _ => effect_at(&of(command), index),
    }
}

fn effect_at(specs: &[KeySpec], index: usize) -> Effects {
    let spec = specs.iter().find(|spec| spec.has(index));
    spec.map_or(READS_AND_CHANGES, |spec| spec.effects)
}

/// Whether a request reads the value of its key at an index, and whether it writes it.
pub(crate) fn key_access(
    command: &Command,
    request: Args<'_>,
) -> impl Fn(usize) -> (bool, bool) + use<> {
    let varies = matches!(command.name, "set" | "bitfield" | "delex");
    let all = varies.then(|| effects(command, request, 1));
    let specs = of(command);
    move |index| {
        let effects = all.unwrap_or_else(|| effect_at(&specs, index));
        let writes = |effect: &&str| matches!(*effect, "insert" | "delete" | "update");
        (effects.contains(&"access"), effects.iter().any(writes))
    }
}
