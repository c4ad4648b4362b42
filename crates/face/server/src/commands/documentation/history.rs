//! The history of commands: the words that later versions of Redis have added, and the commands that others replace.

/// Versions, each with its change.
type Changes = &'static [(&'static str, &'static str)];

const MANY: &str = "Takes several of them in one request";
const CONDITIONS: &str = "Has the conditions NX, XX, GT and LT";
const WITHSCORE: &str = "Has the option WITHSCORE";

#[rustfmt::skip]
static HISTORY: &[(&[&str], Changes)] = &[
    (&["auth"], &[("6.0.0", "Takes the name of a user")]),
    (&["bgsave"], &[("3.2.2", "Has the option SCHEDULE")]),
    (&["bitcount", "bitpos"], &[("7.0.0", "Has the options BYTE and BIT")]),
    (&["blpop", "brpop", "brpoplpush", "bzpopmin", "bzpopmax"], &[("6.0.0", "The timeout is a floating-point number")]),
    (&["client|kill"], &[
        ("2.8.12", "Takes filters in place of an address"),
        ("3.2.0", "Has the type MASTER"),
        ("5.0.0", "Has the type REPLICA in place of SLAVE"),
        ("6.2.0", "Has the filter LADDR"),
        ("7.4.0", "Has the filter MAXAGE"),
    ]),
    (&["client|list"], &[
        ("5.0.0", "Has the option TYPE"),
        ("6.2.0", "Has the option ID"),
        ("7.0.0", "Tells the protocol and the memory of each client"),
    ]),
    (&["client|pause"], &[("6.2.0", "Has the modes WRITE and ALL")]),
    (&["command|info"], &[("7.0.0", "Takes the names of subcommands")]),
    (&["config|get", "config|set"], &[("7.0.0", MANY)]),
    (&["del", "hdel", "lpush", "rpush", "sadd", "srem", "zrem"], &[("2.4.0", MANY)]),
    (&["exists"], &[("3.0.3", MANY)]),
    (&["expire", "expireat", "pexpire", "pexpireat"], &[("7.0.0", CONDITIONS)]),
    (&["flushall", "flushdb"], &[("4.0.0", "Has the option ASYNC"), ("6.2.0", "Has the option SYNC")]),
    (&["geoadd"], &[("6.2.0", "Has the options CH, NX and XX")]),
    (&["georadius", "georadiusbymember"], &[("6.2.0", "Has the option ANY of COUNT")]),
    (&["hello"], &[("6.2.0", "The version of the protocol may be left out")]),
    (&["hscan"], &[("7.4.0", "Has the option NOVALUES")]),
    (&["hset"], &[("4.0.0", MANY)]),
    (&["info"], &[("7.0.0", MANY)]),
    (&["lpop", "rpop"], &[("6.2.0", "Takes a count")]),
    (&["lpushx", "rpushx"], &[("4.0.0", MANY)]),
    (&["ping"], &[("2.8.0", "Takes a text to reply with")]),
    (&["scan"], &[("6.0.0", "Has the option TYPE")]),
    (&["set"], &[
        ("2.6.12", "Has the options EX, PX, NX and XX"),
        ("6.0.0", "Has the option KEEPTTL"),
        ("6.2.0", "Has the options GET, EXAT and PXAT"),
        ("7.0.0", "Takes NX together with GET"),
        ("8.4.0", "Has the conditions IFEQ, IFNE, IFDEQ and IFDNE"),
    ]),
    (&["shutdown"], &[("7.0.0", "Has the options NOW, FORCE and ABORT")]),
    (&["slowlog|get"], &[("4.0.0", "Tells the address and the name of the client")]),
    (&["spop"], &[("3.2.0", "Takes a count")]),
    (&["srandmember"], &[("2.6.0", "Takes a count")]),
    (&["xadd"], &[("6.2.0", "Has the options NOMKSTREAM, MINID and LIMIT"), ("7.0.0", "Takes ids of the form MS-*")]),
    (&["xautoclaim"], &[("7.0.0", "Tells of entries that were removed")]),
    (&["xgroup|create", "xgroup|setid"], &[("7.0.0", "Has the option ENTRIESREAD")]),
    (&["xinfo|consumers"], &[("7.2.0", "Tells how long consumers are inactive")]),
    (&["xinfo|groups"], &[("7.0.0", "Tells what was read, and what is left to read")]),
    (&["xinfo|stream"], &[("6.0.0", "Has the option FULL"), ("7.0.0", "Tells what was added and removed")]),
    (&["xpending"], &[("6.2.0", "Has the option IDLE, and takes open ranges")]),
    (&["xrange", "xrevrange"], &[("6.2.0", "Takes open ranges")]),
    (&["xsetid"], &[("7.0.0", "Has the options ENTRIESADDED and MAXDELETEDID")]),
    (&["xtrim"], &[("6.2.0", "Has the options MINID and LIMIT")]),
    (&["zadd"], &[
        ("2.4.0", MANY),
        ("3.0.2", "Has the options XX, NX, CH and INCR"),
        ("6.2.0", "Has the options GT and LT"),
    ]),
    (&["zrange"], &[("6.2.0", "Has the options REV, BYSCORE, BYLEX and LIMIT")]),
    (&["zrangebyscore"], &[("2.0.0", "Has the option WITHSCORES")]),
    (&["zrank", "zrevrank"], &[("7.2.0", WITHSCORE)]),
];

/// Commands that others replace: since when, and what is to be used instead.
#[rustfmt::skip]
static DEPRECATED: &[(&str, &str, &str)] = &[
    ("brpoplpush", "6.2.0", "BLMOVE with RIGHT and LEFT"),
    ("cluster|slaves", "5.0.0", "CLUSTER REPLICAS"),
    ("cluster|slots", "7.0.0", "CLUSTER SHARDS"),
    ("georadius", "6.2.0", "GEOSEARCH and GEOSEARCHSTORE with BYRADIUS"),
    ("georadius_ro", "6.2.0", "GEOSEARCH with BYRADIUS"),
    ("georadiusbymember", "6.2.0", "GEOSEARCH and GEOSEARCHSTORE with BYRADIUS and FROMMEMBER"),
    ("georadiusbymember_ro", "6.2.0", "GEOSEARCH with BYRADIUS and FROMMEMBER"),
    ("getset", "6.2.0", "SET with GET"),
    ("hmset", "4.0.0", "HSET with several fields"),
    ("psetex", "2.6.12", "SET with PX"),
    ("quit", "7.2.0", "closing the connection"),
    ("rpoplpush", "6.2.0", "LMOVE with RIGHT and LEFT"),
    ("setex", "2.6.12", "SET with EX"),
    ("setnx", "2.6.12", "SET with NX"),
    ("slaveof", "5.0.0", "REPLICAOF"),
    ("substr", "2.0.0", "GETRANGE"),
    ("zrangebylex", "6.2.0", "ZRANGE with BYLEX"),
    ("zrangebyscore", "6.2.0", "ZRANGE with BYSCORE"),
    ("zrevrange", "6.2.0", "ZRANGE with REV"),
    ("zrevrangebylex", "6.2.0", "ZRANGE with REV and BYLEX"),
    ("zrevrangebyscore", "6.2.0", "ZRANGE with REV and BYSCORE"),
];

/// The changes of a command in later versions of Redis.
pub(super) fn of(name: &str) -> Changes {
    let known = HISTORY.iter().find(|(names, _)| names.contains(&name));
    known.map_or(&[], |(_, changes)| changes)
}

/// Since when others replace a command, and which, if they do.
pub(super) fn deprecated(name: &str) -> Option<(&'static str, &'static str)> {
    let known = DEPRECATED.iter().find(|(deprecated, ..)| *deprecated == name);
    known.map(|(_, since, instead)| (*since, *instead))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands;

    #[test]
    fn every_name_is_that_of_a_command() {
        let all = commands::all().iter();
        let names: Vec<_> = all
            .flat_map(|command| std::iter::once(command).chain(command.subcommands))
            .map(|command| command.full_name)
            .collect();
        let told = HISTORY.iter().flat_map(|(names, _)| names.iter());
        for name in told.chain(DEPRECATED.iter().map(|(name, ..)| name)) {
            assert!(names.contains(name), "{name}");
        }
    }
}
