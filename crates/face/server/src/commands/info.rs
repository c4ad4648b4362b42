//! INFO: how the server is.

use std::fmt::Write as _;
use std::fs;
use std::sync::atomic::Ordering;

use crate::call::{Call, is};
use crate::clock::unix_time;
use crate::failure::Outcome;
use crate::key_counts::Moment;
use crate::pubsub::Kind;
use crate::report::{Details, Report};
use crate::service::Service;

use super::connection::REDIS_VERSION;
use super::memory::Used;

/// Writes the lines of a section.
type Section = fn(&Service, &Report, &mut String);

/// The sections, and whether INFO without arguments includes them.
static SECTIONS: &[(&str, bool, Section)] = &[
    ("Server", true, server),
    ("Clients", true, clients),
    ("Memory", true, memory),
    ("Persistence", true, persistence),
    ("Stats", true, stats),
    ("Replication", true, replication),
    ("CPU", true, cpu),
    ("Modules", true, |_, _, _| {}),
    ("Commandstats", false, command_stats),
    ("Errorstats", true, error_stats),
    ("Latencystats", false, latency_stats),
    ("Cluster", true, cluster),
    ("Halite", true, halite),
    ("Partitions", true, partitions),
    ("Keyspace", true, keyspace),
];

pub(super) fn info(call: &mut Call<'_>) -> Outcome {
    let wanted = call.args.from(1);
    let asks_for = |name: &str| wanted.iter().any(|word| is(word, name));
    let all = asks_for("all") || asks_for("everything");
    let default = wanted.is_empty() || asks_for("default");
    let report = call.service.report(Details { commands: true, ..Details::default() });
    let mut text = String::new();
    for (name, is_default, section) in SECTIONS {
        call.check_ending()?;
        if all || default && *is_default || asks_for(name) {
            if !text.is_empty() {
                text.push_str("\r\n");
            }
            text.push_str("# ");
            text.push_str(name);
            text.push_str("\r\n");
            section(call.service, &report, &mut text);
        }
    }
    call.reply().verbatim(&text);
    Ok(())
}

/// Appends lines `name:value`.
macro_rules! lines {
    ($text:expr, $($name:literal: $value:expr,)*) => {
        $(let _ = write!($text, concat!($name, ":{}\r\n"), $value);)*
    };
}

fn server(service: &Service, _: &Report, text: &mut String) {
    let uptime = service.now.duration_since(service.started).as_secs();
    lines!(text,
        "redis_version": REDIS_VERSION,
        "redis_mode": "standalone",
        "halite_version": env!("CARGO_PKG_VERSION"),
        "os": std::env::consts::OS,
        "arch_bits": usize::BITS,
        "multiplexing_api": "epoll",
        "process_id": std::process::id(),
        "run_id": service.run_id,
        "tcp_port": service.settings.port,
        "server_time_usec": unix_time().as_micros(),
        "uptime_in_seconds": uptime,
        "uptime_in_days": uptime / 86400,
        "hz": crate::event_loop::TICKS_PER_SECOND,
    );
}

fn clients(service: &Service, report: &Report, text: &mut String) {
    lines!(text,
        "connected_clients": service.shared.clients.load(Ordering::Relaxed),
        "cluster_connections": 0,
        "maxclients": service.settings.client_count_max,
        "tracking_clients": service.shared.registry.watchers.trackers(),
        "pubsub_clients": report.subscribers,
        "client_recent_max_input_buffer": report.input_len_max,
        "client_recent_max_output_buffer": report.output_len_max,
        "blocked_clients": report.blocked,
    );
}

/// The used memory is the whole pool, and the DRAM of the store and the clients beside it: so it adds up to the memory
/// of the process, where the pool lies in memory. The pool's limit is the maximum, at which writes get Redis' error for
/// a full memory.
fn memory(service: &Service, report: &Report, text: &mut String) {
    let stats = service.store.stats();
    let used = Used::of(&stats, report);
    let registry = &service.shared.scripts;
    let lua = registry.state_bytes.load(Ordering::Relaxed);
    let (scripts, script_bytes) = registry.size();
    let known = registry.libraries();
    let (libraries, functions) =
        known.map_or((0, 0), |libraries| (libraries.iter().len(), libraries.function_count()));
    lines!(text,
        "used_memory": used.total,
        "used_memory_human": human(used.total),
        "used_memory_rss": resident_bytes(),
        "used_memory_rss_human": human(resident_bytes()),
        "used_memory_dataset": used.dataset,
        "used_memory_overhead": used.overhead(),
        "used_memory_pool": stats.pool_bytes,
        "used_memory_index": stats.index_bytes,
        "used_memory_cache": stats.cache_bytes,
        "used_memory_volatile": stats.volatile_bytes,
        "used_memory_buffers": used.buffers,
        "used_memory_state": used.state,
        "used_memory_lua": lua,
        "used_memory_vm_eval": lua,
        "used_memory_lua_human": human(lua),
        "used_memory_scripts_eval": script_bytes,
        "number_of_cached_scripts": scripts,
        "number_of_functions": functions,
        "number_of_libraries": libraries,
        "used_memory_scripts": script_bytes,
        "used_memory_scripts_human": human(script_bytes as u64),
        "maxmemory": service.memory_max(),
        "maxmemory_human": human(service.memory_max()),
        "maxmemory_policy": service.settings.eviction.policy.name(),
        "mem_clients_normal": service.shared.client_memory.total(),
        "lazyfree_pending_objects": 0,
        "lazyfreed_objects": report.counters.keys_flushed_async,
    );
}

fn persistence(service: &Service, report: &Report, text: &mut String) {
    let loading = &service.shared.loading;
    let status = if service.check_durable().is_ok() { "ok" } else { "err" };
    lines!(text,
        "loading": u8::from(!loading.is_complete()),
        "async_loading": 0,
        "rdb_changes_since_last_save": report.changes_since_save,
        "rdb_bgsave_in_progress": 0,
        "rdb_last_save_time": report.synced_ms / 1000,
        "rdb_last_bgsave_status": status,
        "aof_enabled": u8::from(!service.settings.in_memory),
        "aof_rewrite_in_progress": 0,
        "aof_last_write_status": status,
    );
    if !loading.is_complete() {
        let (ready, all) = (loading.ready().len(), loading.all().len());
        lines!(text,
            "loading_start_time": loading.began_s,
            "loading_partitions": all,
            "loading_partitions_ready": ready,
            "loading_loaded_perc": format_args!("{:.2}", 100.0 * ready as f64 / all as f64),
        );
    }
}

fn stats(service: &Service, report: &Report, text: &mut String) {
    let counters = report.counters;
    lines!(text,
        "total_connections_received": counters.connections,
        "total_commands_processed": counters.commands,
        "total_net_input_bytes": counters.input_bytes,
        "total_net_output_bytes": counters.output_bytes,
        "rejected_connections": counters.connections_rejected,
        "expired_keys": report.expired,
        "expired_subkeys": report.expired_fields,
        "evicted_keys": report.evicted,
        "evicted_clients": counters.evicted_clients,
        "keyspace_hits": counters.key_hits,
        "keyspace_misses": counters.key_misses,
        "pubsub_channels": service.shared.registry.len(Kind::Channel),
        "pubsub_patterns": service.shared.registry.len(Kind::Pattern),
        "pubsubshard_channels": service.shared.registry.len(Kind::Shard),
        "tracking_total_keys": service.shared.registry.watchers.tracked.keys(),
        "tracking_total_items": service.shared.registry.watchers.tracked.items(),
        "tracking_total_prefixes": service.shared.registry.len(Kind::Prefix),
        "total_error_replies": counters.errors,
        "total_changes": report.changes,
        "total_syncs": counters.syncs,
        "client_query_buffer_limit_disconnections": counters.query_limit_disconnections,
        "client_output_buffer_limit_disconnections": counters.output_limit_disconnections,
    );
}

/// A master without replicas, and so without a backlog for them.
fn replication(service: &Service, _: &Report, text: &mut String) {
    lines!(text,
        "role": "master",
        "connected_slaves": 0,
        "master_failover_state": "no-failover",
        "master_replid": service.run_id,
        "master_replid2": "0".repeat(40),
        "master_repl_offset": 0,
        "second_repl_offset": -1,
        "repl_backlog_active": 0,
        "repl_backlog_size": 0,
        "repl_backlog_first_byte_offset": 0,
        "repl_backlog_histlen": 0,
    );
}

fn command_stats(_: &Service, report: &Report, text: &mut String) {
    for (name, calls) in &report.commands {
        let (count, took_us) = (calls.histogram.calls(), calls.took_us());
        let mean_us = if count == 0 { 0.0 } else { took_us as f64 / count as f64 };
        let _ = write!(
            text,
            "cmdstat_{name}:calls={count},usec={took_us},usec_per_call={mean_us:.2},\
             rejected_calls={},failed_calls={}\r\n",
            calls.rejected, calls.failed,
        );
    }
}

fn error_stats(_: &Service, report: &Report, text: &mut String) {
    for (code, count) in &report.errors {
        let _ = write!(text, "errorstat_{}:count={count}\r\n", code.escape_ascii());
    }
}

fn latency_stats(_: &Service, report: &Report, text: &mut String) {
    for (name, calls) in report.commands.iter().filter(|(_, calls)| calls.histogram.calls() > 0) {
        let [p50, p99, p999] =
            [500, 990, 999].map(|permille| calls.histogram.permille_us(permille));
        let _ = write!(
            text,
            "latency_percentiles_usec_{name}:p50={p50:.3},p99={p99:.3},p99.9={p999:.3}\r\n",
        );
    }
}

fn cluster(_: &Service, _: &Report, text: &mut String) {
    lines!(text, "cluster_enabled": 0,);
}

fn cpu(_: &Service, _: &Report, text: &mut String) {
    let (user, system) = cpu_seconds();
    lines!(text,
        "used_cpu_sys": format_args!("{system:.6}"),
        "used_cpu_user": format_args!("{user:.6}"),
    );
}

fn halite(service: &Service, report: &Report, text: &mut String) {
    let stats = service.store.stats();
    lines!(text,
        "engine": service.store.engine_name(),
        "domain": stats.domain,
        "durability": service.settings.sync.guarantee(stats.domain),
        "sync_policy": service.settings.sync,
        "partitions": service.store.partitions(),
        "threads": service.shared.threads(),
        "messages_sent": report.counters.messages_sent,
        "requests_forwarded": report.counters.requests_forwarded,
        "cross_shard_operations": report.counters.cross_shard_operations,
        "unsynced_writes": stats.unsynced_writes,
        "parts_lent": report.counters.parts_lent,
    );
    let _ = write!(text, "{}:{}\r\n", records_name(&stats), stats.records);
    lines!(text,
        "pool_bytes": stats.pool_bytes,
        "pool_bytes_max": stats.pool_bytes_max,
        "live_bytes": stats.live_bytes,
        "dead_bytes": stats.dead_bytes,
        "free_bytes": stats.free_bytes,
        "held_bytes": stats.held_bytes,
        "oldest_reader": stats.oldest_reader.map_or("none", |oldest| oldest.reader.name()),
        "oldest_reader_seconds": stats.oldest_reader.map_or(0, |oldest| oldest.age.as_secs()),
        "index_bytes": stats.index_bytes,
        "user_bytes_written": stats.user_bytes_written,
        "collected_bytes_moved": stats.collected_bytes_moved,
        "collected_blocks": stats.collected_blocks,
    );
    for own in stats.own.iter().filter(|own| !own.is_detail) {
        let _ = write!(text, "{}:{}\r\n", own.name, own.value);
    }
    lines!(text,
        "traffic_loads": stats.traffic.loads,
        "traffic_stores": stats.traffic.stores,
        "traffic_flushes": stats.traffic.flushes,
        "traffic_fences": stats.traffic.fences,
        "traffic_lines": stats.traffic.lines,
        "traffic_media_blocks": stats.traffic.media_blocks,
        "recovery_clean": u8::from(stats.recovery.clean),
        "recovery_records_read": stats.recovery.records_read,
        "recovery_records_cut": stats.recovery.records_cut,
        "recovery_damaged_files": stats.recovery.damage.len(),
        "recovery_foreign_files": stats.recovery.foreign_files.len(),
    );
}

/// The name of the number of records: a tiered engine knows only those above its files.
fn records_name(stats: &halite::Stats) -> &'static str {
    if stats.is_tiered { "versions_in_memory" } else { "records" }
}

/// A line for each partition: its contents, and the work of its collector.
fn partitions(service: &Service, _: &Report, text: &mut String) {
    let (threads, loading) = (service.shared.threads(), &service.shared.loading);
    let records = records_name(&service.store.stats());
    for number in 0..service.store.partitions() {
        let stats = service.store.partition_stats(number);
        let _ = write!(
            text,
            "partition{number}:thread={},state={},domain={},{records}={},pool_bytes={},live_bytes={},\
             dead_bytes={},free_bytes={},index_bytes={},unsynced_writes={},collected_blocks={},\
             collected_bytes_moved={}\r\n",
            number % threads,
            loading.state(number),
            stats.domain,
            stats.records,
            stats.live_bytes + stats.dead_bytes + stats.free_bytes,
            stats.live_bytes,
            stats.dead_bytes,
            stats.free_bytes,
            stats.index_bytes,
            stats.unsynced_writes,
            stats.collected_blocks,
            stats.collected_bytes_moved,
        );
    }
}

fn keyspace(service: &Service, report: &Report, text: &mut String) {
    let loading = &service.shared.loading;
    let readable = loading.ready().without(loading.broken());
    let counts = &service.shared.key_counts;
    let databases = service.settings.databases;
    let keys = counts.count(&service.store, databases, readable, service.now);
    for (db, keys) in keys.into_iter().enumerate() {
        if keys.count > 0 {
            let (expires, sum) = report.expiring[db];
            let mean = sum.checked_div(expires as u128).unwrap_or(0) as u64;
            let avg_ttl = mean.saturating_sub(service.store.now_ms);
            let count = keys.count;
            let _ = write!(text, "db{db}:keys={count},expires={expires},avg_ttl={avg_ttl}");
            // Redis tells it since version 7.4.
            let hashes = report.expiring_hashes[db];
            if hashes > 0 {
                let _ = write!(text, ",subexpiry={hashes}");
            }
            match keys.of {
                Moment::Now => {}
                Moment::Before(age) => {
                    let _ = write!(text, ",counted_ago={}", age.as_secs());
                }
                Moment::Never => text.push_str(",counted_ago=-1"),
            }
            text.push_str("\r\n");
        }
    }
}

fn human(bytes: u64) -> String {
    let units = [(1u64 << 30, "G"), (1 << 20, "M"), (1 << 10, "K")];
    match units.iter().find(|(size, _)| bytes >= *size) {
        Some((size, unit)) => format!("{:.2}{unit}", bytes as f64 / *size as f64),
        None => format!("{bytes}B"),
    }
}

/// Bytes of the process in memory, the pool's pages that it has touched included; 0 where the
/// operating system does not tell.
fn resident_bytes() -> u64 {
    let pages = fs::read_to_string("/proc/self/statm").ok().and_then(|statm| {
        statm.split_ascii_whitespace().nth(1).and_then(|pages| pages.parse::<u64>().ok())
    });
    pages.unwrap_or(0) * rustix::param::page_size() as u64
}

/// Seconds in user mode and in the kernel; 0 where the operating system does not tell.
fn cpu_seconds() -> (f64, f64) {
    let Ok(stat) = fs::read_to_string("/proc/self/stat") else { return (0.0, 0.0) };
    // Behind the name, which may hold any character, utime and stime are the 12th and 13th fields.
    let fields = stat.rsplit_once(')').map_or("", |(_, fields)| fields);
    let ticks = |index| {
        let field = fields.split_ascii_whitespace().nth(index);
        field.and_then(|field| field.parse::<f64>().ok()).unwrap_or(0.0)
    };
    let per_second = rustix::param::clock_ticks_per_second() as f64;
    (ticks(11) / per_second, ticks(12) / per_second)
}
