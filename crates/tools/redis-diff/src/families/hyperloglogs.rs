//! HyperLogLogs.

use super::{Pattern, SECONDS, by, exact};

/// The patterns of commands on HyperLogLogs. GET shows that both servers store the same bytes.
pub(super) const PATTERNS: &[Pattern] = &[
    exact("PFADD <x:hll> <value>..."),
    exact("PFADD <x:hll> <bytes>..."),
    exact("PFADD <x:hll> <bytes>..."),
    exact("PFADD <x:hll> {<bytes>... <value>... <int>...}..."),
    exact("PFADD <x:hll>"),
    exact("PFADD <key> <value>..."),
    exact("PFCOUNT <x:hll>"),
    exact("PFCOUNT <x:hll>..."),
    exact("PFCOUNT <key>"),
    exact("PFMERGE <x:hll> <x:hll>..."),
    exact("PFMERGE <x:merged> <x:hll>..."),
    exact("PFMERGE <x:merged> <x:hll> <x:merged>..."),
    exact("PFCOUNT <x:merged>"),
    exact("GET <x:hll>"),
    exact("GET <x:merged>"),
    exact("STRLEN <x:hll>"),
    exact("PFDEBUG {DECODE|ENCODING|GETREG|X} <x:hll>"),
    exact("PFDEBUG {DECODE|ENCODING} <x:merged>"),
    exact("PFDEBUG {DECODE|ENCODING} <key>"),
    exact("PFDEBUG TODENSE <x:dense>"),
    exact("PFADD <x:dense> <bytes>..."),
    exact("PFMERGE <x:dense> <x:hll>"),
    exact("PFCOUNT <x:dense> <x:hll>"),
    exact("GET <x:dense>"),
    exact("OBJECT ENCODING <x:hll>"),
    exact("EXPIREAT <x:hll> <at>"),
    by(SECONDS, "EXPIRETIME <x:hll>"),
    exact("CONFIG SET hll-sparse-max-bytes {3000|30|100|0|16000|x}"),
];
