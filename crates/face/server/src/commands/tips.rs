//! The tips of COMMAND, which tell clients of clusters and proxies how to send a command to several servers, and whether
//! its replies can be compared.

use super::Command;

const ALL_NODES: &str = "request_policy:all_nodes";
const ALL_SHARDS: &str = "request_policy:all_shards";
const MULTI_SHARD: &str = "request_policy:multi_shard";
const SPECIAL: &str = "request_policy:special";
const SUM: &str = "response_policy:agg_sum";
const MIN: &str = "response_policy:agg_min";
const SUCCEEDED: &str = "response_policy:all_succeeded";
const SPECIAL_RESPONSE: &str = "response_policy:special";
const ANY_OUTPUT: &str = "nondeterministic_output";
const ANY_ORDER: &str = "nondeterministic_output_order";

/// Commands by their tips.
#[rustfmt::skip]
static TIPS: &[(&[&str], &[&str])] = &[
    (&[ANY_ORDER], &["command", "command|docs", "command|info", "command|list", "module|list"]),
    (&[ALL_NODES, SUCCEEDED], &["config|set", "latency|reset", "slowlog|reset"]),
    (&[ALL_SHARDS, SUM], &["dbsize"]),
    (&[MULTI_SHARD, SUM], &["del", "exists", "touch", "unlink"]),
    (&[ANY_OUTPUT, ALL_SHARDS, SPECIAL_RESPONSE], &["info", "memory|doctor", "memory|stats"]),
    (&[ALL_SHARDS, ANY_ORDER], &["keys"]),
    (&[ANY_OUTPUT, ALL_NODES, SPECIAL_RESPONSE], &[
        "latency|doctor", "latency|graph", "latency|histogram", "latency|history", "latency|latest",
    ]),
    (&[MULTI_SHARD], &["mget"]),
    (&[MULTI_SHARD, SUCCEEDED], &["mset"]),
    (&[MULTI_SHARD, MIN], &["msetnx"]),
    (&[ANY_OUTPUT], &[
        "client|info", "client|list", "dump", "lastsave", "migrate", "object|encoding", "object|freq", "object|idletime",
        "object|refcount", "pttl", "time", "ttl",
    ]),
    (&[ALL_SHARDS, SUCCEEDED], &["flushall", "flushdb", "ping"]),
    (&[ALL_SHARDS, ANY_OUTPUT], &["randomkey"]),
    (&[ANY_OUTPUT, SPECIAL], &["scan"]),
    (&[ALL_NODES, ANY_OUTPUT], &["slowlog|get"]),
    (&[ALL_NODES, SUM, ANY_OUTPUT], &["slowlog|len"]),
    (&[ALL_SHARDS, MIN], &["wait", "waitaof"]),
];

/// The tips of a command.
pub(super) fn of(command: &Command) -> &'static [&'static str] {
    let known = TIPS.iter().find(|(_, names)| names.contains(&command.full_name));
    known.map_or(&[], |(tips, _)| tips)
}
