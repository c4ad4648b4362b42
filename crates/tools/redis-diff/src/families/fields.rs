//! Deadlines of the fields of hashes, which Redis has from 7.4 and 8.0 on.

use super::{MILLISECONDS, Pattern, SECONDS, by, exact};
use crate::compare::Compare::Unordered;

/// The patterns of commands on the deadlines of fields.
pub(super) const PATTERNS: &[Pattern] = &[
    exact("HEXPIRE <x:hash> <ttl> [NX|XX|GT|LT] FIELDS 2 <element> <element>"),
    exact("HEXPIRE <x:hash> <ttl> {NX|XX|GT|LT|X}... FIELDS 1 <element>"),
    exact("HEXPIRE <x:hash> <ttl> FIELDS <int> <element>..."),
    exact("HPEXPIRE <x:hash> <ttl> [NX|XX|GT|LT] FIELDS 1 <element>"),
    exact("HEXPIREAT <x:hash> <at> [NX|XX|GT|LT] FIELDS 2 <element> <element>"),
    exact("HPEXPIREAT <x:hash> <at-ms> [NX|XX|GT|LT] FIELDS 1 <element>"),
    exact("HPERSIST <x:hash> FIELDS 2 <element> <element>"),
    by(SECONDS, "HTTL <x:hash> FIELDS 3 <element> <element> <element>"),
    by(MILLISECONDS, "HPTTL <x:hash> FIELDS 2 <element> <element>"),
    by(SECONDS, "HEXPIRETIME <x:hash> FIELDS 2 <element> <element>"),
    by(MILLISECONDS, "HPEXPIRETIME <x:hash> FIELDS 1 <element>"),
    exact("HTTL <x:hash> {FIELDS|1|<int>|<element>}..."),
    exact(
        "HSETEX <x:hash> [FNX|FXX] [EX <ttl>|PX <ttl>|EXAT <at>|PXAT <at-ms>|KEEPTTL] FIELDS 1 <element> <value>",
    ),
    exact(
        "HSETEX <x:hash> {FNX|FXX|EX <ttl>|KEEPTTL|X}... FIELDS 2 <element> <value> <element> <value>",
    ),
    exact(
        "HGETEX <x:hash> [EX <ttl>|PX <ttl>|EXAT <at>|PXAT <at-ms>|PERSIST] FIELDS 2 <element> <element>",
    ),
    exact("HGETEX <x:hash> {EX <ttl>|PERSIST|X}... FIELDS 1 <element>"),
    exact("HGETDEL <x:hash> FIELDS 1 <element>"),
    exact("HGETDEL <x:hash> {FIELDS|1|2|<element>}..."),
    exact("HEXPIRE <key> <ttl> FIELDS 1 <element>"),
    exact("HSET <x:hash> {<element> <value>}..."),
    exact("HSET <x:hash> {<element> <value>}..."),
    exact("HINCRBY <x:hash> <element> <int>"),
    by(Unordered, "HGETALL <x:hash>"),
    exact("HLEN <x:hash>"),
    exact("HDEL <x:hash> <element>..."),
    exact("HGET <x:hash> <element>"),
    exact("COPY <x:hash> <x:hash> [REPLACE]"),
    exact("RENAME <x:hash> <x:hash>"),
    exact("DEL <x:hash>"),
];
