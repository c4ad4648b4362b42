//! Persistence. Every write is durable before its reply leaves, so nothing is saved in the background, and no process is
//! forked: what Redis tells of its two kinds of files is told of the store.

use std::fmt::Write as _;

use super::lines;
use crate::report::Report;
use crate::service::Service;

pub(super) fn persistence(service: &Service, report: &Report, text: &mut String) {
    let loading = &service.shared.loading;
    let status = if service.check_durable().is_ok() { "ok" } else { "err" };
    let is_kept = !service.settings.in_memory;
    let stats = service.store.stats();
    lines!(text,
        "loading": u8::from(!loading.is_complete()),
        "async_loading": 0,
        "current_cow_peak": 0,
        "current_cow_size": 0,
        "current_cow_size_age": 0,
        "current_fork_perc": "0.00",
        "current_save_keys_processed": 0,
        "current_save_keys_total": 0,
        "rdb_changes_since_last_save": report.changes_since_save,
        "rdb_bgsave_in_progress": 0,
        "rdb_last_save_time": report.synced_ms / 1000,
        "rdb_last_bgsave_status": status,
        "rdb_last_bgsave_time_sec": if service.saves() == 0 { -1 } else { 0 },
        "rdb_current_bgsave_time_sec": -1,
        "rdb_saves": service.saves(),
        "rdb_last_cow_size": 0,
        "rdb_last_load_keys_expired": 0,
        "rdb_last_load_keys_loaded": stats.recovery.records_read,
        "aof_enabled": u8::from(is_kept),
        "aof_rewrite_in_progress": 0,
        "aof_rewrite_scheduled": 0,
        "aof_last_rewrite_time_sec": -1,
        "aof_current_rewrite_time_sec": -1,
        "aof_last_bgrewrite_status": status,
        "aof_rewrites": 0,
        "aof_rewrites_consecutive_failures": 0,
        "aof_last_write_status": status,
        "aof_last_cow_size": 0,
        "module_fork_in_progress": 0,
        "module_fork_last_cow_size": 0,
    );
    if is_kept {
        // The pool is the file that grows with the writes; without the dead records it would be as at first.
        lines!(text,
            "aof_current_size": stats.live_bytes + stats.dead_bytes,
            "aof_base_size": stats.live_bytes,
            "aof_pending_rewrite": 0,
            "aof_buffer_length": 0,
            "aof_pending_bio_fsync": 0,
            "aof_delayed_fsync": 0,
        );
    }
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
