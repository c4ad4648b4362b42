//! The settings by the names that Redis has for them.

use crate::eviction_policy::Policy;
use crate::listener;
use crate::notifications::Events;
use crate::script::lifted::MEMORY_MAX;
use crate::service::Service;
use crate::settings::Settings;
use crate::stored::STRING_LEN_MAX;
use crate::{OutputLimits, SyncPolicy};

use super::values::{
    boolean, bytes, duration, integer, milliseconds, path, percent, percentiles, save_points,
    seconds, shown, stays, text, yes_no,
};

/// A setting by the name that Redis has for it.
pub(super) struct Parameter {
    pub(super) name: &'static str,
    pub(super) get: fn(&Service) -> String,
    /// Changes the setting, or returns why the value is invalid; `None`: the setting is read-only.
    pub(super) set: Option<Set>,
}

pub(super) type Set = fn(&mut Settings, &[u8]) -> Result<(), String>;

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

/// The longest slowlog: each command in it may take some kilobytes.
const SLOWLOG_LEN_MAX: i64 = 100_000;

/// The least memory of a Lua state: its libraries take some of it.
const SCRIPT_MEMORY_MIN: usize = 4 << 20;

pub(super) static PARAMETERS: &[Parameter] = &[
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
    // These are changed at the start only. What they are, they may be set to.
    settable(
        "appendfsync",
        |service| sync_name(service.settings.sync).to_owned(),
        |settings, value| stays(sync_name(settings.sync), value),
    ),
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
    settable(
        "bind",
        |service| service.settings.bind.clone(),
        |settings, value| stays(&settings.bind, value),
    ),
    settable(
        "client-output-buffer-limit",
        |service| {
            let limits = &service.settings.limits;
            let class = |output: &OutputLimits| {
                format!("{} {} {}", output.hard, output.soft, output.soft_time.as_secs())
            };
            let (normal, pubsub) = (class(&limits.output), class(&limits.pubsub_output));
            let replica = class(&service.settings.replica_output);
            format!("normal {normal} slave {replica} pubsub {pubsub}")
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
    // It limits the bytes of live records: deletes make room there at once, while the pool keeps its size.
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
        |service| match service.settings.client_memory_percent {
            Some(percent) => format!("{percent}%"),
            None => service.settings.client_memory_max.unwrap_or(0).to_string(),
        },
        |settings, value| {
            settings.client_memory_percent = percent(value)?;
            if settings.client_memory_percent.is_some() {
                return Ok(());
            }
            let wrong = |why: String| match why.ends_with("a memory value") {
                true => "argument must be a memory or percent value".to_owned(),
                false => why,
            };
            let bytes = bytes(value, 0..=usize::MAX).map_err(wrong)?;
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
    settable(
        "maxmemory-policy",
        |service| service.settings.eviction.policy.name().to_owned(),
        |settings, value| {
            let policy = Policy::parse(value);
            settings.eviction.policy = policy.ok_or_else(|| {
                format!("argument(s) must be one of the following: {}", Policy::names())
            })?;
            Ok(())
        },
    ),
    settable(
        "maxmemory-samples",
        |service| service.settings.eviction.samples.to_string(),
        |settings, value| {
            settings.eviction.samples = integer(value, 1..=i64::from(i32::MAX))? as usize;
            Ok(())
        },
    ),
    settable(
        "maxmemory-eviction-tenacity",
        |service| service.settings.eviction.tenacity.to_string(),
        |settings, value| {
            settings.eviction.tenacity = integer(value, 0..=100)? as u32;
            Ok(())
        },
    ),
    settable(
        "lfu-log-factor",
        |service| service.settings.eviction.lfu_log_factor.to_string(),
        |settings, value| {
            settings.eviction.lfu_log_factor = integer(value, 0..=i64::from(i32::MAX))? as u32;
            Ok(())
        },
    ),
    settable(
        "lfu-decay-time",
        |service| service.settings.eviction.lfu_decay_minutes.to_string(),
        |settings, value| {
            settings.eviction.lfu_decay_minutes = integer(value, 0..=i64::from(i32::MAX))? as u32;
            Ok(())
        },
    ),
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
    settable(
        "port",
        |service| service.settings.port.to_string(),
        |settings, value| stays(&settings.port.to_string(), value),
    ),
    settable(
        "latency-monitor-threshold",
        |service| service.settings.latency_threshold_ms.to_string(),
        |settings, value| {
            settings.latency_threshold_ms = integer(value, 0..=i64::MAX)? as u64;
            Ok(())
        },
    ),
    settable(
        "latency-tracking",
        |service| yes_no(service.settings.latency_tracking),
        |settings, value| {
            settings.latency_tracking = boolean(value)?;
            Ok(())
        },
    ),
    settable(
        "latency-tracking-info-percentiles",
        |service| {
            let percentiles = service.settings.latency_percentiles.iter();
            percentiles.map(ToString::to_string).collect::<Vec<_>>().join(" ")
        },
        |settings, value| {
            settings.latency_percentiles = percentiles(value)?;
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
        "protected-mode",
        |service| yes_no(service.settings.protected_mode),
        |settings, value| {
            settings.protected_mode = boolean(value)?;
            Ok(())
        },
    ),
    // There is no replication.
    fixed("replicaof", |_| String::new()),
    fixed("slaveof", |_| String::new()),
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
            settings.scripts.memory_max = bytes(value, SCRIPT_MEMORY_MIN..=MEMORY_MAX)?;
            Ok(())
        },
    ),
    settable(
        "script-rollback",
        |service| yes_no(service.settings.scripts.rolls_back),
        |settings, value| {
            settings.scripts.rolls_back = boolean(value)?;
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
        "tls-auth-clients",
        |service| service.settings.tls.options.auth_clients.to_string(),
        |settings, value| {
            settings.tls.options.auth_clients = text(value)?.parse()?;
            Ok(())
        },
    ),
    settable(
        "tls-ca-cert-file",
        |service| shown(&service.settings.tls.options.ca_cert_file),
        |settings, value| {
            settings.tls.options.ca_cert_file = path(value)?;
            Ok(())
        },
    ),
    settable(
        "tls-cert-file",
        |service| shown(&service.settings.tls.options.cert_file),
        |settings, value| {
            settings.tls.options.cert_file = path(value)?;
            Ok(())
        },
    ),
    settable(
        "tls-key-file",
        |service| shown(&service.settings.tls.options.key_file),
        |settings, value| {
            settings.tls.options.key_file = path(value)?;
            Ok(())
        },
    ),
    settable(
        "tls-port",
        |service| service.settings.tls.options.port.unwrap_or(0).to_string(),
        |settings, value| stays(&settings.tls.options.port.unwrap_or(0).to_string(), value),
    ),
    settable(
        "tls-protocols",
        |service| service.settings.tls.options.protocols.to_string(),
        |settings, value| {
            settings.tls.options.protocols = text(value)?.parse()?;
            Ok(())
        },
    ),
    fixed("unixsocket", |service| service.settings.unix_socket.clone()),
    fixed("unixsocketperm", |service| format!("{:o}", service.settings.unix_socket_mode)),
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

fn sync_name(policy: SyncPolicy) -> &'static str {
    match policy {
        SyncPolicy::Always => "always",
        SyncPolicy::Interval(_) => "everysec",
        SyncPolicy::Never => "no",
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
        } else {
            settings.replica_output = limits;
        }
    }
    Ok(())
}
