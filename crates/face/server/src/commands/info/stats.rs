//! Counters of the server's work, and the statistics of commands.

use std::fmt::Write as _;

use super::lines;
use crate::acl::Reason;
use crate::lock::lock;
use crate::pubsub::Kind;
use crate::report::Report;
use crate::service::Service;

pub(super) fn stats(service: &Service, report: &Report, text: &mut String) {
    let (counters, flow) = (report.counters, report.flow);
    let registry = &service.shared.registry;
    let refusals = |reason| lock(&service.shared.acl_log).count(reason);
    let kbps = |bytes: u64| format!("{:.2}", bytes as f64 / 1024.0);
    lines!(text,
        "total_connections_received": counters.connections,
        "total_commands_processed": counters.commands,
        "instantaneous_ops_per_sec": flow.commands,
        "total_net_input_bytes": counters.input_bytes,
        "total_net_output_bytes": counters.output_bytes,
        "total_net_repl_input_bytes": 0,
        "total_net_repl_output_bytes": 0,
        "instantaneous_input_kbps": kbps(flow.input_bytes),
        "instantaneous_output_kbps": kbps(flow.output_bytes),
        "instantaneous_input_repl_kbps": "0.00",
        "instantaneous_output_repl_kbps": "0.00",
        "rejected_connections": counters.connections_rejected,
        "sync_full": 0,
        "sync_partial_ok": 0,
        "sync_partial_err": 0,
        "expired_keys": report.expired,
        "expired_subkeys": report.expired_fields,
        "expired_stale_perc": "0.00",
        "expired_time_cap_reached_count": 0,
        "expire_cycle_cpu_milliseconds": 0,
        "evicted_keys": report.evicted,
        "evicted_clients": counters.evicted_clients,
        "total_eviction_exceeded_time": 0,
        "current_eviction_exceeded_time": 0,
        "keyspace_hits": counters.key_hits,
        "keyspace_misses": counters.key_misses,
        "pubsub_channels": registry.len(Kind::Channel),
        "pubsub_patterns": registry.len(Kind::Pattern),
        "pubsubshard_channels": registry.len(Kind::Shard),
        "latest_fork_usec": 0,
        "total_forks": 0,
        "migrate_cached_sockets": 0,
        "slave_expires_tracked_keys": 0,
        "active_defrag_hits": 0,
        "active_defrag_misses": 0,
        "active_defrag_key_hits": 0,
        "active_defrag_key_misses": 0,
        "total_active_defrag_time": 0,
        "current_active_defrag_time": 0,
        "tracking_total_keys": registry.watchers.tracked.keys(),
        "tracking_total_items": registry.watchers.tracked.items(),
        "tracking_total_prefixes": registry.len(Kind::Prefix),
        "unexpected_error_replies": 0,
        "total_error_replies": counters.errors,
        "dump_payload_sanitizations": 0,
        "total_reads_processed": counters.reads,
        "total_writes_processed": counters.writes,
        "io_threaded_reads_processed": 0,
        "io_threaded_writes_processed": 0,
        "reply_buffer_shrinks": 0,
        "reply_buffer_expands": 0,
        "client_query_buffer_limit_disconnections": counters.query_limit_disconnections,
        "client_output_buffer_limit_disconnections": counters.output_limit_disconnections,
        "acl_access_denied_auth": refusals(Reason::Auth),
        "acl_access_denied_cmd": refusals(Reason::Command),
        "acl_access_denied_key": refusals(Reason::Key),
        "acl_access_denied_channel": refusals(Reason::Channel),
        "total_changes": report.changes,
        "total_syncs": counters.syncs,
    );
}

pub(super) fn command_stats(service: &Service, _: &Report, text: &mut String) {
    for (name, calls) in service.shared.commands.since_reset().commands {
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

pub(super) fn error_stats(service: &Service, _: &Report, text: &mut String) {
    for (code, count) in service.shared.commands.since_reset().errors {
        let _ = write!(text, "errorstat_{}:count={count}\r\n", code.escape_ascii());
    }
}

pub(super) fn latency_stats(service: &Service, _: &Report, text: &mut String) {
    if !service.settings.latency_tracking {
        return;
    }
    let commands = service.shared.commands.since_reset().commands;
    for (name, calls) in commands.iter().filter(|(_, calls)| calls.histogram.calls() > 0) {
        let percentiles = service.settings.latency_percentiles.iter();
        let told = percentiles
            .map(|percent| format!("p{percent}={:.3}", calls.histogram.percentile_us(*percent)));
        let told = told.collect::<Vec<_>>().join(",");
        let _ = write!(text, "latency_percentiles_usec_{name}:{told}\r\n");
    }
}
