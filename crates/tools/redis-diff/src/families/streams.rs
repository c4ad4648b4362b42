//! Streams.

use super::{Pattern, by, exact};
use crate::compare::Compare::Kind;

/// The patterns of commands on streams. Redis 7.0 makes a consumer when it gets its first entry, and 7.2 when it asks: how many
/// there are is not compared.
pub(super) const PATTERNS: &[Pattern] = &[
    exact("XADD <x:stream> <new-id> <element> <value>"),
    exact("XADD <x:stream> <new-id> <element> <value>"),
    exact("XADD <x:stream> <new-id> {<element> <value>}..."),
    exact("XADD <x:stream> [NOMKSTREAM] {MAXLEN|MINID} [=] <int> <new-id> <element> <value>"),
    exact("XADD <x:stream> {NOMKSTREAM|MAXLEN <int>|MINID <id>|LIMIT <int>|~}... <new-id> a b"),
    exact("XADD <key> <new-id> a b"),
    exact("XLEN <x:stream>"),
    exact("XRANGE <x:stream> - +"),
    exact("XRANGE <x:stream> <bound> <bound> [COUNT <int>]"),
    exact("XREVRANGE <x:stream> <bound> <bound> [COUNT <int>]"),
    exact("XDEL <x:stream> <id>..."),
    exact("XTRIM <x:stream> {MAXLEN|MINID} [=] <int>"),
    exact("XTRIM <x:stream> {MAXLEN <int>|MINID <id>|LIMIT <int>|X}..."),
    exact("XSETID <x:stream> <id> [ENTRIESADDED <int>] [MAXDELETEDID <id>]"),
    exact("XREAD [COUNT <int>] STREAMS <x:stream> <id>"),
    exact("XREAD [COUNT <int>] STREAMS <x:stream> <x:stream> <id> {<id>|$}"),
    exact("XREAD COUNT 1 BLOCK 1 STREAMS <x:stream> {<id>|$}"),
    exact("XGROUP CREATE <x:stream> {g|h} {$|0|<id>} [MKSTREAM] [ENTRIESREAD <int>]"),
    exact("XGROUP SETID <x:stream> {g|h} {$|0|<id>} [ENTRIESREAD <int>]"),
    exact("XGROUP DESTROY <x:stream> {g|h}"),
    by(Kind, "XGROUP CREATECONSUMER <x:stream> {g|h} {a|b|c}"),
    exact("XGROUP DELCONSUMER <x:stream> {g|h} {a|b|c}"),
    exact("XREADGROUP GROUP {g|h} {a|b|c} [COUNT <int>] [NOACK] STREAMS <x:stream> {>|>|>|0|<id>}"),
    exact("XREADGROUP GROUP {g|h} {a|b|c} COUNT 2 STREAMS <x:stream> >"),
    exact("XREADGROUP GROUP g a STREAMS <x:stream> <x:stream> > >"),
    exact("XACK <x:stream> {g|h} <id>..."),
    exact("XPENDING <x:stream> {g|h}"),
    by(Kind, "XPENDING <x:stream> {g|h} [IDLE 0] <bound> <bound> <int> [a|b]"),
    exact(
        "XCLAIM <x:stream> {g|h} {a|b|c} 0 <id>... [RETRYCOUNT <int>] [FORCE] [JUSTID] [LASTID <id>]",
    ),
    exact("XAUTOCLAIM <x:stream> {g|h} {a|b|c} 0 <bound> [COUNT <int>] [JUSTID]"),
    exact("OBJECT ENCODING <x:stream>"),
    exact("TYPE <x:stream>"),
    exact("COPY <x:stream> <x:stream> [REPLACE]"),
    exact("RENAME <x:stream> <x:stream>"),
    exact("DEL <x:stream>"),
];
