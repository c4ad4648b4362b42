//! Hashes.

use super::{Pattern, by, exact};
use crate::compare::Compare::{Kind, Unordered};

/// The patterns of commands on hashes. The order of the fields of larger ones is another one.
pub(super) const PATTERNS: &[Pattern] = &[
    exact("HSET <x:hash> {<element> <value>}..."),
    exact("HSET <x:hash> {<element> <value>}..."),
    exact("HMSET <x:hash> {<element> <int>}..."),
    exact("HSET <key> {<element> <value>}..."),
    exact("HSETNX <x:hash> <element> <value>"),
    exact("HGET <x:hash> <element>"),
    exact("HMGET <x:hash> <element>..."),
    exact("HEXISTS <x:hash> <element>"),
    exact("HSTRLEN <x:hash> <element>"),
    exact("HLEN <x:hash>"),
    exact("HDEL <x:hash> <element>..."),
    by(Unordered, "HGETALL <x:hash>"),
    by(Unordered, "HKEYS <x:hash>"),
    by(Unordered, "HVALS <x:hash>"),
    exact("HINCRBY <x:hash> <element> <int>"),
    exact("HINCRBY <x:counters> {a|b} <int>"),
    exact("HINCRBYFLOAT <x:hash> <element> <float>"),
    exact("HINCRBYFLOAT <x:floats> {a|b} <float>"),
    by(Kind, "HRANDFIELD <x:hash> [<int>]"),
    by(Unordered, "HRANDFIELD <x:hash> 1000 [WITHVALUES|X]"),
    by(Unordered, "HSCAN <x:hash> 0 COUNT 1000 [MATCH {a*|*|[abc]*}]"),
    exact("OBJECT ENCODING <x:hash>"),
    exact("TYPE <x:hash>"),
    exact("COPY <x:hash> <x:hash> [REPLACE]"),
    exact("RENAME <x:hash> <x:hash>"),
    exact("DEL <x:hash>"),
];
