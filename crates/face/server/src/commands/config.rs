//! CONFIG: the settings that clients can read, and those that they can change.

use std::sync::Arc;
use std::time::Duration;

use crate::call::Call;
use crate::failure::{Failure, Outcome, SYNTAX};
use crate::glob;
use crate::listener;
use crate::notifications::Events;
use crate::number::parse_i64;
use crate::resp::Args;
use crate::service::Service;
use crate::settings::Settings;
use crate::stored::STRING_LEN_MAX;
use crate::{OutputLimits, SyncPolicy};

/// A setting by the name that Redis has for it.
struct Parameter {
    name: &'static str,
    get: fn(&Service) -> String,
    /// Changes the setting, or returns why the value is invalid; `None`: the setting is read-only.
    set: Option<Set>,
}

type Set = fn(&mut Settings, &[u8]) -> Result<(), String>;

const fn fixed(name: &'static str, get: fn(&Service) -> String) -> Parameter {
    Parameter { name, get, set: None }
}

const fn settable(name: &'static str, get: fn(&Service) -> String, set: Set) -> Parameter {
    Parameter { name, get, set: Some(set) }
}

/// A limit of [`crate::inline_limits`].
macro_rules! limit {
    ($name:literal, $field:ident) => {
        settable(
            $name,
            |service| service.settings.inline_limits.$field.to_string(),
            |settings, value| {
                settings.inline_limits.$field = integer(value, 0..=i64::MAX)? as usize;
                Ok(())
            },
        )
    };
}

/// The longest value of a setting, in bytes: each thread has a copy.
const VALUE_LEN_MAX: usize = 4 << 10;
/// The longest slowlog: each command in it may take some kilobytes.
const SLOWLOG_LEN_MAX: i64 = 100_000;

/// The least memory of a Lua state: its libraries take some of it.
const SCRIPT_MEMORY_MIN: usize = 4 << 20;

static PARAMETERS: &[Parameter] = &[
    settable(
        "acl-pubsub-default",
        |service| {
            if service.settings.acl_all_channels { "allchannels" } else { "resetchannels" }
                .to_owned()
        },
        |settings, value| {
            settings.acl_all_channels = match value.to_ascii_lowercase().as_slice() {
                b"allchannels" => true,
                b"resetchannels" => false,
                _ => {
                    let why =
                        "argument(s) must be one of the following: allchannels, resetchannels";
                    return Err(why.to_owned());
                }
            };
            Ok(())
        },
    ),
    fixed("aclfile", |service| {
        let file = service.settings.acl_file.as_ref();
        file.map_or_else(String::new, |file| file.display().to_string())
    }),
    settable(
        "acllog-max-len",
        |service| service.settings.acl_log_len_max.to_string(),
        |settings, value| {
            settings.acl_log_len_max = integer(value, 0..=SLOWLOG_LEN_MAX)? as usize;
            Ok(())
        },
    ),
    fixed("appendfsync", |service| {
        let name = match service.settings.sync {
            SyncPolicy::Always => "always",
            SyncPolicy::Interval(_) => "everysec",
            SyncPolicy::Never => "no",
        };
        name.to_owned()
    }),
    // Every write is kept, as with Redis' append-only file, or in memory none; this cannot be changed.
    settable(
        "appendonly",
        |service| if service.settings.in_memory { "no" } else { "yes" }.to_owned(),
        |settings, value| match (value, settings.in_memory) {
            (b"yes", false) | (b"no", true) => Ok(()),
            (b"no", false) => Err("every write is kept in the store".to_owned()),
            (b"yes", true) => Err("the server was started in memory, without a medium".to_owned()),
            _ => Err("argument must be 'yes' or 'no'".to_owned()),
        },
    ),
    fixed("bind", |service| service.settings.bind.clone()),
    settable(
        "client-output-buffer-limit",
        |service| {
            let limits = &service.settings.limits;
            let class = |output: &OutputLimits| {
                format!("{} {} {}", output.hard, output.soft, output.soft_time.as_secs())
            };
            let (normal, pubsub) = (class(&limits.output), class(&limits.pubsub_output));
            // There are no replicas.
            format!("normal {normal} slave 0 0 0 pubsub {pubsub}")
        },
        set_output_limits,
    ),
    settable(
        "client-query-buffer-limit",
        |service| service.settings.limits.query_buffer_len_max.to_string(),
        |settings, value| {
            settings.limits.query_buffer_len_max = bytes(value, 1 << 20..=usize::MAX)?;
            Ok(())
        },
    ),
    settable(
        "busy-reply-threshold",
        |service| service.settings.scripts.busy_threshold.as_millis().to_string(),
        |settings, value| {
            settings.scripts.busy_threshold = milliseconds(value)?;
            Ok(())
        },
    ),
    fixed("databases", |service| service.settings.databases.to_string()),
    fixed("dir", |service| service.store.path().display().to_string()),
    settable(
        "hll-sparse-max-bytes",
        |service| service.settings.hll_sparse_len_max.to_string(),
        |settings, value| {
            settings.hll_sparse_len_max = bytes(value, 0..=i64::MAX as usize)?;
            Ok(())
        },
    ),
    settable(
        "list-compress-depth",
        |service| service.settings.list_compress_depth.to_string(),
        |settings, value| {
            settings.list_compress_depth = integer(value, 0..=i64::from(i32::MAX))?;
            Ok(())
        },
    ),
    settable(
        "list-max-listpack-size",
        |service| service.settings.inline_limits.list_size.to_string(),
        set_list_size,
    ),
    settable(
        "list-max-ziplist-size",
        |service| service.settings.inline_limits.list_size.to_string(),
        set_list_size,
    ),
    settable(
        "maxclients",
        |service| service.settings.client_count_max.to_string(),
        |settings, value| {
            let wanted = integer(value, 1..=i64::from(u32::MAX))? as usize;
            let possible = listener::clients_possible(wanted, settings.descriptors_reserved);
            if possible < wanted {
                return Err(format!(
                    "The operating system is not able to handle the specified number of clients, try with {possible}"
                ));
            }
            settings.client_count_max = wanted;
            Ok(())
        },
    ),
    fixed("enable-debug-command", |service| service.settings.debug_command.to_string()),
    // It limits INFO's `used_memory_dataset`: deletes make room there at once, while the pool keeps its size. On an
    // engine with levels it has no effect, since records move on to the SSD.
    settable(
        "maxmemory",
        |service| service.memory_max().to_string(),
        |settings, value| {
            settings.memory_max = bytes(value, 0..=usize::MAX)? as u64;
            Ok(())
        },
    ),
    settable(
        "maxmemory-clients",
        |service| service.settings.client_memory_max.unwrap_or(0).to_string(),
        |settings, value| {
            let bytes = bytes(value, 0..=usize::MAX)?;
            settings.client_memory_max = Some(bytes).filter(|&bytes| bytes > 0);
            Ok(())
        },
    ),
    limit!("hash-max-listpack-entries", hash_entries),
    limit!("hash-max-ziplist-entries", hash_entries),
    limit!("hash-max-listpack-value", hash_value),
    limit!("hash-max-ziplist-value", hash_value),
    limit!("set-max-intset-entries", intset_entries),
    limit!("set-max-listpack-entries", set_entries),
    limit!("set-max-listpack-value", set_value),
    fixed("maxmemory-policy", |_| "noeviction".to_owned()),
    settable(
        "notify-keyspace-events",
        |service| service.settings.events.to_string(),
        |settings, value| {
            let events = Events::parse(value);
            let wrong = "Invalid event class character. Use 'Ag$lshzxeKEtmdn'.";
            settings.events = events.ok_or(wrong)?;
            Ok(())
        },
    ),
    fixed("port", |service| service.settings.port.to_string()),
    settable(
        "latency-monitor-threshold",
        |service| service.settings.latency_threshold_ms.to_string(),
        |settings, value| {
            settings.latency_threshold_ms = integer(value, 0..=i64::MAX)? as u64;
            Ok(())
        },
    ),
    settable(
        "lua-time-limit",
        |service| service.settings.scripts.busy_threshold.as_millis().to_string(),
        |settings, value| {
            settings.scripts.busy_threshold = milliseconds(value)?;
            Ok(())
        },
    ),
    settable(
        "proto-max-bulk-len",
        |service| service.settings.limits.bulk_len_max.to_string(),
        |settings, value| {
            settings.limits.bulk_len_max = bytes(value, 1 << 20..=STRING_LEN_MAX)?;
            Ok(())
        },
    ),
    settable(
        "requirepass",
        |service| service.settings.requirepass.clone().unwrap_or_default(),
        |settings, value| {
            let password = std::str::from_utf8(value);
            let password = password.map_err(|_| "the password is not UTF-8".to_owned())?;
            settings.requirepass = Some(password.to_owned()).filter(|text| !text.is_empty());
            Ok(())
        },
    ),
    settable(
        "save",
        |service| service.settings.save.clone(),
        |settings, value| {
            settings.save = save_points(value).ok_or("Invalid save parameters")?;
            Ok(())
        },
    ),
    settable(
        "script-memory-limit",
        |service| service.settings.scripts.memory_max.to_string(),
        |settings, value| {
            settings.scripts.memory_max = bytes(value, SCRIPT_MEMORY_MIN..=isize::MAX as usize)?;
            Ok(())
        },
    ),
    settable(
        "script-rollback",
        |service| if service.settings.scripts.rolls_back { "yes" } else { "no" }.to_owned(),
        |settings, value| {
            settings.scripts.rolls_back = match value.to_ascii_lowercase().as_slice() {
                b"yes" => true,
                b"no" => false,
                _ => return Err("argument must be 'yes' or 'no'".to_owned()),
            };
            Ok(())
        },
    ),
    settable(
        "script-time-limit",
        |service| service.settings.scripts.time_max.as_millis().to_string(),
        |settings, value| {
            settings.scripts.time_max = milliseconds(value)?;
            Ok(())
        },
    ),
    settable(
        "slowlog-log-slower-than",
        |service| service.settings.slowlog_slower_than_us.to_string(),
        |settings, value| {
            settings.slowlog_slower_than_us = integer(value, -1..=i64::MAX)?;
            Ok(())
        },
    ),
    settable(
        "slowlog-max-len",
        |service| service.settings.slowlog_len_max.to_string(),
        |settings, value| {
            settings.slowlog_len_max = integer(value, 0..=SLOWLOG_LEN_MAX)? as usize;
            Ok(())
        },
    ),
    settable(
        "stream-node-max-bytes",
        |service| service.settings.stream_node_bytes.to_string(),
        |settings, value| {
            settings.stream_node_bytes = bytes(value, 0..=usize::MAX)? as u64;
            Ok(())
        },
    ),
    settable(
        "stream-node-max-entries",
        |service| service.settings.stream_node_entries.to_string(),
        |settings, value| {
            settings.stream_node_entries = integer(value, 0..=i64::MAX)? as u64;
            Ok(())
        },
    ),
    settable(
        "tcp-keepalive",
        |service| seconds(service.settings.tcp_keepalive),
        |settings, value| {
            settings.tcp_keepalive = duration(value)?;
            Ok(())
        },
    ),
    settable(
        "timeout",
        |service| seconds(service.settings.idle_timeout),
        |settings, value| {
            settings.idle_timeout = duration(value)?;
            Ok(())
        },
    ),
    settable(
        "zset-max-listpack-entries",
        |service| service.settings.inline_limits.sorted_set_entries.to_string(),
        set_sorted_set_entries,
    ),
    settable(
        "zset-max-ziplist-entries",
        |service| service.settings.inline_limits.sorted_set_entries.to_string(),
        set_sorted_set_entries,
    ),
    settable(
        "zset-max-listpack-value",
        |service| service.settings.inline_limits.sorted_set_value.to_string(),
        set_sorted_set_value,
    ),
    settable(
        "zset-max-ziplist-value",
        |service| service.settings.inline_limits.sorted_set_value.to_string(),
        set_sorted_set_value,
    ),
    settable(
        "tracking-table-max-keys",
        |service| service.settings.tracked_keys_max.to_string(),
        |settings, value| {
            settings.tracked_keys_max = integer(value, 0..=i64::MAX)? as usize;
            Ok(())
        },
    ),
];

/// Settings that Redis has and this server has not, or not as one that could be another.
#[rustfmt::skip]
static OTHER_NAMES: &[&str] = &[
    "active-defrag-cycle-max",
    "active-defrag-cycle-min", "active-defrag-ignore-bytes", "active-defrag-max-scan-fields", "active-defrag-threshold-lower",
    "active-defrag-threshold-upper", "active-expire-effort", "activedefrag", "activerehashing",
    "always-show-logo", "aof-disable-auto-gc", "aof-load-truncated", "aof-rewrite-incremental-fsync",
    "aof-timestamp-enabled", "aof-use-rdb-preamble", "aof_rewrite_cpulist", "appenddirname",
    "appendfilename", "auto-aof-rewrite-min-size", "auto-aof-rewrite-percentage", "bgsave_cpulist",
    "bind-source-addr", "bio_cpulist", "cluster-allow-pubsubshard-when-down",
    "cluster-allow-reads-when-down", "cluster-allow-replica-migration", "cluster-announce-bus-port", "cluster-announce-hostname",
    "cluster-announce-ip", "cluster-announce-port", "cluster-announce-tls-port", "cluster-config-file",
    "cluster-enabled", "cluster-link-sendbuf-limit", "cluster-migration-barrier", "cluster-node-timeout",
    "cluster-port", "cluster-preferred-endpoint-type", "cluster-replica-no-failover", "cluster-replica-validity-factor",
    "cluster-require-full-coverage", "cluster-slave-no-failover", "cluster-slave-validity-factor", "crash-log-enabled",
    "crash-memcheck-enabled", "daemonize", "dbfilename", "disable-thp",
    "dynamic-hz", "enable-module-command", "enable-protected-configs",
    "hz", "ignore-warnings", "io-threads", "io-threads-do-reads",
    "jemalloc-bg-thread", "latency-tracking", "latency-tracking-info-percentiles", "lazyfree-lazy-eviction",
    "lazyfree-lazy-expire", "lazyfree-lazy-server-del", "lazyfree-lazy-user-del", "lazyfree-lazy-user-flush",
    "lfu-decay-time", "lfu-log-factor",
    "logfile", "loglevel",
    "masterauth", "masteruser", "maxmemory-eviction-tenacity", "maxmemory-samples",
    "min-replicas-max-lag", "min-replicas-to-write", "min-slaves-max-lag", "min-slaves-to-write",
    "no-appendfsync-on-rewrite", "oom-score-adj", "oom-score-adj-values",
    "pidfile", "proc-title-template", "propagation-error-behavior", "protected-mode",
    "rdb-del-sync-files", "rdb-save-incremental-fsync", "rdbchecksum", "rdbcompression",
    "repl-backlog-size", "repl-backlog-ttl", "repl-disable-tcp-nodelay", "repl-diskless-load",
    "repl-diskless-sync", "repl-diskless-sync-delay", "repl-diskless-sync-max-replicas", "repl-ping-replica-period",
    "repl-ping-slave-period", "repl-timeout", "replica-announce-ip", "replica-announce-port",
    "replica-announced", "replica-ignore-disk-write-errors", "replica-ignore-maxmemory", "replica-lazy-flush",
    "replica-priority", "replica-read-only", "replica-serve-stale-data", "replicaof",
    "sanitize-dump-payload", "server_cpulist", "set-proc-title",
    "shutdown-on-sigint", "shutdown-on-sigterm", "shutdown-timeout", "slave-announce-ip",
    "slave-announce-port", "slave-ignore-maxmemory", "slave-lazy-flush", "slave-priority",
    "slave-read-only", "slave-serve-stale-data", "slaveof", "socket-mark-id",
    "stop-writes-on-bgsave-error", "supervised", "syslog-enabled", "syslog-facility", "syslog-ident", "tcp-backlog",
    "tls-auth-clients", "tls-ca-cert-dir", "tls-ca-cert-file", "tls-cert-file",
    "tls-ciphers", "tls-ciphersuites", "tls-client-cert-file", "tls-client-key-file",
    "tls-client-key-file-pass", "tls-cluster", "tls-dh-params-file", "tls-key-file",
    "tls-key-file-pass", "tls-port", "tls-prefer-server-ciphers", "tls-protocols",
    "tls-replication", "tls-session-cache-size", "tls-session-cache-timeout", "tls-session-caching",
    "unixsocket", "unixsocketperm",
];

pub(super) fn get(call: &mut Call<'_>) -> Outcome {
    let patterns = call.args.from(2);
    let mut found = Vec::new();
    for parameter in PARAMETERS {
        let name = parameter.name.as_bytes();
        for pattern in patterns {
            let matches =
                glob::matches_ignoring_case(pattern, name, || call.check_ending().is_ok());
            call.check_ending()?;
            if matches {
                // A name that the client gives comes back as it gave it.
                let name = if pattern.eq_ignore_ascii_case(name) { pattern } else { name };
                found.push((name, (parameter.get)(call.service)));
                break;
            }
        }
    }
    let mut reply = call.reply();
    reply.map(found.len());
    for (name, value) in found {
        reply.bulk(name);
        reply.bulk(value.as_bytes());
    }
    Ok(())
}

/// Changes all of some settings, or none of them.
pub(super) fn set(call: &mut Call<'_>) -> Outcome {
    if call.args.len() % 2 == 1 {
        return Err(SYNTAX.into());
    }
    let words = call.args.from(2);
    call.service.change_users(call.client, |common| {
        let settings = change(&common.settings, words)?;
        common.settings = settings;
        let mut names = words.iter().step_by(2);
        if names.any(|name| crate::call::is(name, "requirepass")) {
            let password = common.settings.requirepass.as_deref();
            common.acl = Arc::new(common.acl.with_default_password(password));
        }
        Outcome::Ok(())
    })?;
    call.reply().ok();
    Ok(())
}

/// Refuses a setting, as Redis does: an error in the request is reported with the client's word, and an invalid value
/// with the setting's name.
fn failed(name: &[u8], why: &str) -> Failure {
    let text = "ERR CONFIG SET failed (possibly related to argument '";
    Failure::quoting(text, name, &format!("') - {why}"))
}

const IMMUTABLE: &str = "can't set immutable config";

/// The settings as `words` change them.
fn change(settings: &Settings, words: Args<'_>) -> Outcome<Settings> {
    let mut settings = settings.clone();
    let mut seen: Vec<&str> = Vec::new();
    let mut words = words.iter();
    while let (Some(word), Some(value)) = (words.next(), words.next()) {
        let parameter = PARAMETERS.iter().find(|parameter| crate::call::is(word, parameter.name));
        let Some(parameter) = parameter else {
            if OTHER_NAMES.iter().any(|known| crate::call::is(word, known)) {
                return Err(failed(word, IMMUTABLE));
            }
            let text = "ERR Unknown option or number of arguments for CONFIG SET - '";
            return Err(Failure::quoting(text, word, "'"));
        };
        if seen.contains(&parameter.name) {
            return Err(failed(word, "duplicate parameter"));
        }
        seen.push(parameter.name);
        let set = parameter.set.ok_or_else(|| failed(word, IMMUTABLE))?;
        let changed = match value.len() {
            0..=VALUE_LEN_MAX => set(&mut settings, value),
            _ => Err(format!("argument must not be longer than {VALUE_LEN_MAX} bytes")),
        };
        changed.map_err(|why| failed(parameter.name.as_bytes(), &why))?;
    }
    Ok(settings)
}

pub(super) fn resetstat(call: &mut Call<'_>) -> Outcome {
    call.service.change(|common| common.resets += 1);
    call.reply().ok();
    Ok(())
}

pub(super) fn rewrite(_: &mut Call<'_>) -> Outcome {
    Err("ERR The server is running without a config file".into())
}

pub(super) fn help(call: &mut Call<'_>) -> Outcome {
    call.reply().simples(&[
        "CONFIG <subcommand> [<arg> [value] [opt] ...]. Subcommands are:",
        "GET <pattern> [<pattern> ...]",
        "    Returns the parameters that match.",
        "SET <parameter> <value> [<parameter> <value> ...]",
        "    Changes parameters.",
        "RESETSTAT",
        "    Sets the counters of INFO to zero.",
        "REWRITE",
        "    Is refused: there is no config file.",
        "HELP",
        "    Prints this help.",
    ]);
    Ok(())
}

fn integer(value: &[u8], range: std::ops::RangeInclusive<i64>) -> Result<i64, String> {
    let number = parse_i64(value).ok_or("argument couldn't be parsed into an integer")?;
    if range.contains(&number) {
        Ok(number)
    } else {
        Err(format!("argument must be between {} and {} inclusive", range.start(), range.end()))
    }
}

fn set_list_size(settings: &mut Settings, value: &[u8]) -> Result<(), String> {
    let range = i64::from(i32::MIN)..=i64::from(i32::MAX);
    settings.inline_limits.list_size = integer(value, range)?;
    Ok(())
}

fn set_sorted_set_entries(settings: &mut Settings, value: &[u8]) -> Result<(), String> {
    settings.inline_limits.sorted_set_entries = integer(value, 0..=i64::MAX)? as usize;
    Ok(())
}

fn set_sorted_set_value(settings: &mut Settings, value: &[u8]) -> Result<(), String> {
    settings.inline_limits.sorted_set_value = bytes(value, 0..=i64::MAX as usize)?;
    Ok(())
}

/// Milliseconds; 0: no limit.
fn milliseconds(value: &[u8]) -> Result<Duration, String> {
    Ok(Duration::from_millis(integer(value, 0..=i64::MAX)? as u64))
}

/// Seconds; 0: for ever.
fn duration(value: &[u8]) -> Result<Option<Duration>, String> {
    let seconds = integer(value, 0..=i64::from(i32::MAX))? as u64;
    Ok(Some(Duration::from_secs(seconds)).filter(|time| !time.is_zero()))
}

fn seconds(time: Option<Duration>) -> String {
    time.map_or(0, |time| time.as_secs()).to_string()
}

/// A size in bytes, or with one of Redis' units: `k` is 1000, `kb` is 1024.
fn bytes(value: &[u8], range: std::ops::RangeInclusive<usize>) -> Result<usize, String> {
    let digits = value.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let unit = match value[digits..].to_ascii_lowercase().as_slice() {
        b"" | b"b" => 1,
        b"k" => 1000,
        b"kb" => 1 << 10,
        b"m" => 1_000_000,
        b"mb" => 1 << 20,
        b"g" => 1_000_000_000,
        b"gb" => 1 << 30,
        _ => 0,
    };
    let number = parse_i64(&value[..digits]).and_then(|number| usize::try_from(number).ok());
    let bytes = number.and_then(|number| number.checked_mul(unit)).filter(|_| unit > 0);
    let bytes = bytes.ok_or("argument must be a memory value")?;
    if range.contains(&bytes) {
        Ok(bytes)
    } else {
        Err(format!("argument must be between {} and {} inclusive", range.start(), range.end()))
    }
}

/// Limits by class: `normal <hard> <soft> <seconds>`. The class of replicas, which no client is of, may be named, too.
fn set_output_limits(settings: &mut Settings, value: &[u8]) -> Result<(), String> {
    let words: Vec<_> =
        value.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty()).collect();
    if words.is_empty() || words.len() % 4 != 0 {
        return Err("Wrong number of arguments in buffer limit configuration.".to_owned());
    }
    for class in words.chunks(4) {
        let known = ["normal", "slave", "replica", "pubsub"];
        if !known.iter().any(|name| crate::call::is(class[0], name)) {
            return Err("Invalid client class specified in buffer limit configuration.".to_owned());
        }
        let wrong =
            |_| "Error in hard, soft or soft_seconds setting in buffer limit configuration.";
        let limits = OutputLimits {
            hard: bytes(class[1], 0..=usize::MAX).map_err(wrong)?,
            soft: bytes(class[2], 0..=usize::MAX).map_err(wrong)?,
            soft_time: duration(class[3]).map_err(wrong)?.unwrap_or_default(),
        };
        if crate::call::is(class[0], "normal") {
            settings.limits.output = limits;
        } else if crate::call::is(class[0], "pubsub") {
            settings.limits.pubsub_output = limits;
        }
    }
    Ok(())
}

/// Pairs of seconds and changes.
fn save_points(value: &[u8]) -> Option<String> {
    let text = std::str::from_utf8(value).ok()?;
    let numbers: Vec<_> = text.split_ascii_whitespace().collect();
    let pairs = numbers.chunks(2).all(|pair| {
        matches!(pair, [seconds, changes]
            if parse_i64(seconds.as_bytes()).is_some_and(|seconds| seconds > 0)
                && parse_i64(changes.as_bytes()).is_some_and(|changes| changes >= 0))
    });
    pairs.then(|| numbers.join(" "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_units() {
        let parse = |text: &str| bytes(text.as_bytes(), 1..=1 << 40);
        assert_eq!(parse("512mb"), Ok(512 << 20));
        assert_eq!(parse("1K"), Ok(1000));
        assert_eq!(parse("7"), Ok(7));
        for text in ["", "mb", "1tb", "-1", "1 mb", "0", "99999999999gb"] {
            assert!(parse(text).is_err(), "{text:?}");
        }
    }

    #[test]
    fn save_points_are_pairs() {
        assert_eq!(save_points(b"3600 1  300 100").as_deref(), Some("3600 1 300 100"));
        assert_eq!(save_points(b"").as_deref(), Some(""));
        for text in ["100", "0 1", "1 -1", "a b", "1 2 3"] {
            assert_eq!(save_points(text.as_bytes()), None, "{text:?}");
        }
    }
}
