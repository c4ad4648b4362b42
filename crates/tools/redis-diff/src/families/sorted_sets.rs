//! Sorted sets.

use super::{Pattern, by, exact};
use crate::compare::Compare::{Kind, Unordered};

/// The patterns of commands on sorted sets.
pub(super) const PATTERNS: &[Pattern] = &[
    exact("ZADD <x:zset> {<score> <element>}..."),
    exact("ZADD <x:zset> {<score> <element>}..."),
    exact("ZADD <x:zset> [NX|XX] [GT|LT] [CH] [INCR] {<score> <element>}..."),
    exact("ZADD <x:zset> {NX|XX|GT|LT|CH|INCR}... <score> <element>"),
    exact("ZADD <x:lex> 0 <element>"),
    exact("ZADD <key> <score> <element>"),
    exact("ZINCRBY <x:zset> <score> <element>"),
    exact("ZREM <x:zset> <element>..."),
    exact("ZSCORE <x:zset> <element>"),
    exact("ZMSCORE <x:zset> <element>..."),
    exact("{ZRANK|ZREVRANK} <x:zset> <element>"),
    exact("ZCARD <x:zset>"),
    exact("ZCOUNT <x:zset> <limit> <limit>"),
    exact("ZLEXCOUNT <x:lex> <lex> <lex>"),
    exact("ZRANGE <x:zset> 0 -1 WITHSCORES"),
    exact("ZRANGE <x:zset> <int> <int> [REV] [WITHSCORES]"),
    exact("ZRANGE <x:zset> <limit> <limit> BYSCORE [REV] [LIMIT <int> <int>] [WITHSCORES]"),
    exact("ZRANGE <x:lex> <lex> <lex> BYLEX [REV] [LIMIT <int> <int>]"),
    exact("ZRANGE <x:zset> <int> <int> {BYSCORE|BYLEX|REV|LIMIT <int> <int>|WITHSCORES}..."),
    exact("ZREVRANGE <x:zset> <int> <int> [WITHSCORES]"),
    exact(
        "{ZRANGEBYSCORE|ZREVRANGEBYSCORE} <x:zset> <limit> <limit> [WITHSCORES] [LIMIT <int> <int>]",
    ),
    exact("{ZRANGEBYLEX|ZREVRANGEBYLEX} <x:lex> <lex> <lex> [LIMIT <int> <int>]"),
    exact("ZRANGESTORE <x:zset> <x:zset> <int> <int> [REV]"),
    exact("ZRANGESTORE <x:zset> <x:zset> <limit> <limit> BYSCORE [REV] [LIMIT <int> <int>]"),
    exact("ZREMRANGEBYRANK <x:zset> <int> <int>"),
    exact("ZREMRANGEBYSCORE <x:zset> <limit> <limit>"),
    exact("ZREMRANGEBYLEX <x:lex> <lex> <lex>"),
    exact("{ZPOPMIN|ZPOPMAX} <x:zset> [<int>]"),
    exact("ZMPOP {1 <x:zset>|2 <x:zset> <x:zset>|<int> <x:zset>} {MIN|MAX|X} [COUNT <int>]"),
    exact("{BZPOPMIN|BZPOPMAX} <x:zset> <x:zset> 0.001"),
    exact("BZMPOP 0.001 2 <x:zset> <x:zset> {MIN|MAX} [COUNT <int>]"),
    exact(
        "{ZUNION|ZINTER} 2 <x:zset> <x:zset> [WEIGHTS <int> <int>] [AGGREGATE {SUM|MIN|MAX|X}] [WITHSCORES]",
    ),
    exact("{ZUNION|ZINTER|ZDIFF} {1 <x:zset>|2 <x:zset> <x:set>|<int> <x:zset>} [WITHSCORES]"),
    exact("ZDIFF 2 <x:zset> <x:zset> [WITHSCORES]"),
    exact(
        "{ZUNIONSTORE|ZINTERSTORE} <x:zset> 2 <x:zset> <x:zset> [WEIGHTS <int> <int>] [AGGREGATE {SUM|MIN|MAX|X}]",
    ),
    exact(
        "{ZUNIONSTORE|ZINTERSTORE|ZDIFFSTORE} <x:zset> {1 <x:zset>|2 <x:zset> <x:set>|<int> <x:zset>}",
    ),
    exact("ZINTERCARD {1 <x:zset>|2 <x:zset> <x:zset>|<int> <x:zset>} [LIMIT <int>]"),
    exact("SADD <x:set> <element>..."),
    by(Kind, "ZRANDMEMBER <x:zset> [<int>]"),
    by(Unordered, "ZRANDMEMBER <x:zset> 1000 [WITHSCORES]"),
    by(Unordered, "ZSCAN <x:zset> 0 COUNT 1000 [MATCH {a*|*|[abc]*}]"),
    exact("SORT <x:zset> {ALPHA|BY nosort} [DESC] [LIMIT <int> <int>]"),
    exact("OBJECT ENCODING <x:zset>"),
    exact("TYPE <x:zset>"),
    exact("COPY <x:zset> <x:zset> [REPLACE]"),
    exact("RENAME <x:zset> <x:zset>"),
    exact("DEL <x:zset>"),
];
