//! Sets.

use super::{Pattern, by, exact};
use crate::compare::Compare::{Kind, Unordered};

/// The patterns of commands on sets, whose members are in another order. SPOP takes all members, as none is like another
/// (`hasty` leaves the others out).
pub(super) const PATTERNS: &[Pattern] = &[
    exact("SADD <x:set> <element>..."),
    exact("SADD <x:set> <element>..."),
    exact("SADD <x:set> <int>..."),
    exact("SADD <x:ints> <int>..."),
    exact("SADD <key> <element>..."),
    exact("SREM <x:set> <element>..."),
    exact("SMOVE <x:set> <x:set> <element>"),
    exact("SMOVE <x:set> <x:ints> <int>"),
    exact("SISMEMBER <x:set> <element>"),
    exact("SMISMEMBER <x:set> <element>..."),
    exact("SCARD <x:set>"),
    by(Unordered, "SMEMBERS <x:set>"),
    by(Unordered, "{SINTER|SUNION|SDIFF} <x:set>..."),
    by(Unordered, "{SINTER|SUNION|SDIFF} <x:set> <x:ints>..."),
    exact("{SINTERSTORE|SUNIONSTORE|SDIFFSTORE} <x:set> <x:set>..."),
    exact("{SINTERSTORE|SUNIONSTORE|SDIFFSTORE} <x:ints> <x:ints> <x:set>..."),
    exact("{SINTERSTORE|SUNIONSTORE|SDIFFSTORE} <key> <x:set>..."),
    exact("SINTERCARD {1 <x:set>|2 <x:set> <x:set>|<int> <x:set>} [LIMIT <int>]"),
    by(Unordered, "SPOP <x:set> {1000|0|-1|x}"),
    by(Kind, "SRANDMEMBER <x:set> [<int>]"),
    by(Unordered, "SRANDMEMBER <x:set> 1000"),
    by(Unordered, "SSCAN <x:set> 0 COUNT 1000 [MATCH {a*|*|[abc]*}]"),
    exact("SORT <x:set> ALPHA [DESC] [LIMIT <int> <int>]"),
    exact("SORT <x:ints> [DESC] [LIMIT <int> <int>]"),
    exact("OBJECT ENCODING <x:set>"),
    exact("OBJECT ENCODING <x:ints>"),
    exact("TYPE <x:set>"),
    exact("COPY <x:set> <x:set> [REPLACE]"),
    exact("RENAME <x:set> <x:set>"),
    exact("DEL <x:set>"),
];
