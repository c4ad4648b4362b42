//! INFO: how the server is.
//!
//! Each file has some of the sections: [`memory`], [`persistence`], [`stats`], and what only this server has in
//! [`halite`]; the short ones are here. The event loop has the other threads report before INFO is executed, also if a
//! script calls it; the statistics of commands are read where the threads keep them.

mod halite;
mod memory;
mod persistence;
mod stats;

use std::fmt::Write as _;
use std::sync::atomic::Ordering;

use super::connection::REDIS_VERSION;
use crate::call::{Call, is};
use crate::clock::unix_time;
use crate::failure::Outcome;
use crate::key_counts::Moment;
use crate::process::{CpuSeconds, system};
use crate::report::{Details, Report};
use crate::service::Service;

/// Writes the lines of a section.
type Section = fn(&Service, &Report, &mut String);

/// The sections, and whether INFO without arguments includes them.
static SECTIONS: &[(&str, bool, Section)] = &[
    ("Server", true, server),
    ("Clients", true, clients),
    ("Memory", true, memory::memory),
    ("Persistence", true, persistence::persistence),
    ("Stats", true, stats::stats),
    ("Replication", true, replication),
    ("CPU", true, cpu),
    ("Modules", true, |_, _, _| {}),
    ("Commandstats", false, stats::command_stats),
    ("Errorstats", true, stats::error_stats),
    ("Latencystats", false, stats::latency_stats),
    ("Cluster", true, cluster),
    ("Halite", true, halite::halite),
    ("Partitions", true, halite::partitions),
    ("Keyspace", true, keyspace),
];

pub(super) fn info(call: &mut Call<'_>) -> Outcome {
    let wanted = call.args.from(1);
    let asks_for = |name: &str| wanted.iter().any(|word| is(word, name));
    let all = asks_for("all") || asks_for("everything");
    let default = wanted.is_empty() || asks_for("default");
    let mut report = call.service.report(Details::default());
    // This client is not among the others while its command is executed.
    report.subscribers += usize::from(call.client.is_subscriber());
    report.watching += usize::from(!call.client.watches.is_empty());
    report.watches += call.client.watches.len();
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
use lines;

fn server(service: &Service, _: &Report, text: &mut String) {
    let uptime = service.now.duration_since(service.started).as_secs();
    let (unix, ticks) = (unix_time(), crate::event_loop::TICKS_PER_SECOND);
    let program = std::env::current_exe().unwrap_or_default();
    lines!(text,
        "redis_version": REDIS_VERSION,
        "redis_git_sha1": "00000000",
        "redis_git_dirty": 0,
        "redis_build_id": "0",
        "redis_mode": "standalone",
        "halite_version": env!("CARGO_PKG_VERSION"),
        "os": system(),
        "arch_bits": usize::BITS,
        "monotonic_clock": "POSIX clock_gettime",
        "multiplexing_api": "epoll",
        "atomicvar_api": "c11-builtin",
        "process_id": std::process::id(),
        "process_supervised": "no",
        "run_id": service.run_id,
        "tcp_port": service.settings.port,
        "server_time_usec": unix.as_micros(),
        "uptime_in_seconds": uptime,
        "uptime_in_days": uptime / 86400,
        "hz": ticks,
        "configured_hz": ticks,
        "lru_clock": unix.as_secs() & 0xff_ffff,
        "executable": program.display(),
        "config_file": "",
        "io_threads_active": u8::from(service.shared.threads() > 1),
    );
}

fn clients(service: &Service, report: &Report, text: &mut String) {
    lines!(text,
        "connected_clients": service.shared.clients.load(Ordering::Relaxed),
        "cluster_connections": 0,
        "maxclients": service.settings.client_count_max,
        "client_recent_max_input_buffer": report.input_len_max,
        "client_recent_max_output_buffer": report.output_len_max,
        "blocked_clients": report.blocked,
        "tracking_clients": service.shared.registry.watchers.trackers(),
        "pubsub_clients": report.subscribers,
        "watching_clients": report.watching,
        "total_watched_keys": report.watches,
        "clients_in_timeout_table": report.timed,
        "total_blocking_keys": report.waited_keys,
        "total_blocking_keys_on_nokey": report.waited_keys_or_none,
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

fn cpu(_: &Service, _: &Report, text: &mut String) {
    let (all, main) = (CpuSeconds::of_process(), CpuSeconds::of_thread());
    lines!(text,
        "used_cpu_sys": format_args!("{:.6}", all.system),
        "used_cpu_user": format_args!("{:.6}", all.user),
        "used_cpu_sys_children": "0.000000",
        "used_cpu_user_children": "0.000000",
        "used_cpu_sys_main_thread": format_args!("{:.6}", main.system),
        "used_cpu_user_main_thread": format_args!("{:.6}", main.user),
    );
}

fn cluster(_: &Service, _: &Report, text: &mut String) {
    lines!(text, "cluster_enabled": 0,);
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
