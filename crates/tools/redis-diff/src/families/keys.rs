//! Keys, whatever their values.

use super::{Pattern, SECONDS, by, exact};
use crate::compare::Compare;

/// Differences of times, in milliseconds.
const MILLISECONDS: Compare = Compare::About(2000);

/// The patterns of commands on keys.
pub(super) const PATTERNS: &[Pattern] = &[
    exact("SET <key> <value>"),
    exact("SET <key> <value>"),
    exact("DEL <key>..."),
    exact("UNLINK <key>..."),
    exact("EXISTS <key>..."),
    exact("TOUCH <key>..."),
    exact("TYPE <key>"),
    exact("RENAME <key> <key>"),
    exact("RENAMENX <key> <key>"),
    exact("COPY <key> <key> [DB <db>] [REPLACE]"),
    exact("COPY <key> <key> {REPLACE|DB <db>|DB}..."),
    exact("MOVE <key> <db>"),
    exact("EXPIRE <key> <ttl> [NX|XX|GT|LT]"),
    exact("EXPIRE <key> <ttl> {NX|XX|GT|LT|X}..."),
    exact("PEXPIRE <key> <ttl> [NX|XX|GT|LT]"),
    exact("EXPIREAT <key> <at> [NX|XX|GT|LT]"),
    exact("PEXPIREAT <key> <at-ms> [NX|XX|GT|LT]"),
    exact("PERSIST <key>"),
    by(SECONDS, "TTL <key>"),
    by(MILLISECONDS, "PTTL <key>"),
    by(SECONDS, "EXPIRETIME <key>"),
    by(MILLISECONDS, "PEXPIRETIME <key>"),
    exact("OBJECT ENCODING <key>"),
    exact("OBJECT FREQ <key>"),
    exact("OBJECT REFCOUNT <x:nosuch>"),
    by(Compare::Kind, "OBJECT IDLETIME <key>"),
    exact("OBJECT {ENCODING|FREQ|REFCOUNT|X} <key> [<odd>]"),
    exact("DBSIZE"),
    by(Compare::Kind, "RANDOMKEY"),
    exact("WAITAOF 2 0 0"),
    by(Compare::Unordered, "KEYS {*|key*|key:[0-3]|*:*|?ey*|<odd>}"),
    by(Compare::Unordered, "SCAN {0|x} COUNT {0|-1|x}"),
    exact("SELECT <db>"),
    exact("SELECT 0"),
    exact("SWAPDB <db> <db>"),
    exact("FLUSHDB [ASYNC|SYNC]"),
    exact("GET <key>"),
    exact("MULTI"),
    by(Compare::Unordered, "EXEC"),
    by(Compare::Unordered, "EXEC"),
    exact("DISCARD"),
    exact("WATCH <key>..."),
    exact("UNWATCH"),
    exact("WAIT 0 {0|1|-1|x}"),
    exact("WAIT {1 1|-1 0|x 0}"),
];
