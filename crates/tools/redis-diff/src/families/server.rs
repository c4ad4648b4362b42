//! Commands about the server, as far as they say the same of any.

use super::{Pattern, by, exact};
use crate::compare::Compare;

/// The patterns of commands about the server.
pub(super) const PATTERNS: &[Pattern] = &[
    exact("PING [<value>]"),
    exact("ECHO <value>"),
    by(Compare::Kind, "TIME"),
    exact("ROLE"),
    exact("REPLICAOF NO ONE"),
    exact("SLAVEOF NO ONE"),
    exact("MODULE {LIST|X}"),
    by(Compare::Kind, "LOLWUT [VERSION {5|6|<int>}]"),
    by(Compare::Kind, "LOLWUT VERSION {9|0}"),
    exact("FAILOVER [ABORT|TO x 1|TIMEOUT <int>|FORCE|X]"),
    exact("CLIENT {GETNAME|NO-EVICT {ON|OFF|X}|REPLY X|X}"),
    exact("CLIENT SETNAME {a|b}"),
    exact(
        "COMMAND GETKEYS {SET a b|MSET {a b}...|GET a|BITOP AND x y z|PING|X a|LCS a b|OBJECT ENCODING a|SET a|DEL a b c|COPY a b REPLACE|EXISTS|PFMERGE a b c|WATCH a b}",
    ),
    exact(
        "COMMAND GETKEYSANDFLAGS {SET a b|MSET {a b}...|GET a|BITOP AND x y z|PING|X a|LCS a b|OBJECT ENCODING a|SET a|DEL a b c|COPY a b REPLACE|EXISTS|GETDEL a|APPEND a b|RENAME a b|SETRANGE a 1 b|PFCOUNT a b|PFMERGE a b c|WATCH a b|MOVE a 1|EXPIRE a 1|TOUCH a|TYPE a|STRLEN a|GETEX a|GETSET a b|INCR a|SETNX a b|SETEX a 1 b|BITCOUNT a|GETBIT a 1|SETBIT a 1 1|BITFIELD a GET u1 1|BITFIELD_RO a GET u1 1|MSETNX a b|PERSIST a|TTL a|UNLINK a b|RENAMENX a b|SUBSTR a 1 2|PFDEBUG ENCODING a|PFADD a b}",
    ),
    exact("COMMAND INFO {get|mset|bitop|pfadd|setbit|getex|getdel|rename|append|strlen|expire|x}"),
    by(
        Compare::Unordered,
        "COMMAND LIST FILTERBY {PATTERN bit*|PATTERN pf*|MODULE x|X y|ACLCAT x}",
    ),
    exact("DEBUG SET-ACTIVE-EXPIRE {0|1}"),
    exact(
        "DEBUG PROTOCOL {string|integer|double|bignum|null|array|set|map|attrib|verbatim|true|false}",
    ),
    exact("DEBUG {RELOAD X|X|DIGEST X|OBJECT nosuch}"),
    exact("DEBUG POPULATE {3|x|2 p|2 p 20|-1}"),
    exact("DEBUG ERROR {x|<text>}"),
    exact("GET {key:0|p:1}"),
    exact("OBJECT"),
    exact("SELECT 0"),
];
