//! The sections that only this server has: its store, and its partitions.

use std::fmt::Write as _;

use super::lines;
use crate::report::Report;
use crate::service::Service;

pub(super) fn halite(service: &Service, report: &Report, text: &mut String) {
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
pub(super) fn partitions(service: &Service, _: &Report, text: &mut String) {
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
