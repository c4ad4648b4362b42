//! Memory: what the server accounts for, and what the process takes.

use std::fmt::Write as _;
use std::sync::atomic::Ordering;

use super::{human, lines};
use crate::commands::memory::Used;
use crate::process::{machine_bytes, resident_bytes};
use crate::report::Report;
use crate::service::Service;

/// The used memory is the whole pool, the DRAM of the store and the clients beside it, and what the process had at its
/// start: so it adds up to the memory of the process, where the pool lies in memory. The pool's limit is the maximum, at which writes get Redis' error for
/// a full memory.
///
/// No allocator tells of itself: what it has allocated is what the server accounts for, and the memory of the process
/// stands for what it holds.
pub(super) fn memory(service: &Service, report: &Report, text: &mut String) {
    let stats = service.store.stats();
    let used = Used::of(service, &stats, report);
    let shared = &service.shared;
    let peak = shared.memory_peak.fetch_max(used.total, Ordering::Relaxed).max(used.total);
    let startup = shared.memory_at_start.load(Ordering::Relaxed);
    let resident = resident_bytes();
    lines!(text,
        "used_memory": used.total,
        "used_memory_human": human(used.total),
        "used_memory_rss": resident,
        "used_memory_rss_human": human(resident),
        "used_memory_peak": peak,
        "used_memory_peak_human": human(peak),
        "used_memory_peak_perc": percent(used.total, peak),
        "used_memory_overhead": used.overhead(),
        "used_memory_startup": startup,
        "used_memory_dataset": used.dataset,
        "used_memory_dataset_perc": percent(used.dataset, used.total),
        "used_memory_program": used.program,
        "used_memory_pool": stats.pool_bytes,
        "used_memory_index": stats.index_bytes,
        "used_memory_cache": stats.cache_bytes,
        "used_memory_volatile": stats.volatile_bytes,
        "used_memory_buffers": used.buffers,
        "used_memory_state": used.state,
        "allocator_allocated": used.total,
        "allocator_active": used.total,
        "allocator_resident": resident,
        "allocator_muzzy": 0,
        "total_system_memory": machine_bytes(),
        "total_system_memory_human": human(machine_bytes()),
    );
    scripts(service, text);
    if let Some(bytes) = service.store.live_bytes() {
        lines!(text, "maxmemory_used": bytes,);
    }
    let rest = resident as i64 - used.total as i64;
    lines!(text,
        "maxmemory": service.memory_max(),
        "maxmemory_human": human(service.memory_max()),
        "maxmemory_policy": service.settings.eviction.policy.name(),
        "allocator_frag_ratio": "1.00",
        "allocator_frag_bytes": 0,
        "allocator_rss_ratio": ratio(resident, used.total),
        "allocator_rss_bytes": rest,
        "rss_overhead_ratio": "1.00",
        "rss_overhead_bytes": 0,
        "mem_fragmentation_ratio": ratio(resident, used.total),
        "mem_fragmentation_bytes": rest,
        "mem_not_counted_for_evict": 0,
        "mem_replication_backlog": 0,
        "mem_total_replication_buffers": 0,
        "mem_clients_slaves": 0,
        "mem_clients_normal": shared.client_memory.total(),
        "mem_cluster_links": 0,
        "mem_aof_buffer": 0,
        "mem_allocator": "libc",
        "active_defrag_running": 0,
        "lazyfree_pending_objects": 0,
        "lazyfreed_objects": report.counters.keys_flushed_async,
    );
}

/// The memory of scripts and functions, which one state of Lua on each thread serves. That of functions there is told as
/// if one thread had loaded all libraries: each loads those that it calls.
fn scripts(service: &Service, text: &mut String) {
    let registry = &service.shared.scripts;
    let lua = registry.state_bytes.load(Ordering::Relaxed);
    let (scripts, script_bytes) = registry.size();
    let known = registry.libraries().ok();
    let libraries = known.as_ref().map_or(0, |libraries| libraries.iter().len());
    let functions = known.as_ref().map_or(0, |libraries| libraries.function_count());
    let bodies = known.iter().flat_map(|libraries| libraries.iter());
    let function_bytes: usize = bodies.map(|library| library.body.len()).sum();
    let loaded = known.iter().flat_map(|libraries| libraries.iter());
    let loaded_bytes: usize = loaded.map(|library| library.loaded_len).sum();
    let all = script_bytes + function_bytes;
    lines!(text,
        "used_memory_lua": lua,
        "used_memory_vm_eval": lua,
        "used_memory_lua_human": human(lua),
        "used_memory_scripts_eval": script_bytes,
        "number_of_cached_scripts": scripts,
        "number_of_functions": functions,
        "number_of_libraries": libraries,
        "used_memory_vm_functions": loaded_bytes,
        "used_memory_vm_total": lua,
        "used_memory_vm_total_human": human(lua),
        "used_memory_functions": function_bytes,
        "used_memory_scripts": all,
        "used_memory_scripts_human": human(all as u64),
    );
}

fn percent(part: u64, whole: u64) -> String {
    format!("{:.2}%", 100.0 * part as f64 / whole.max(1) as f64)
}

fn ratio(part: u64, whole: u64) -> String {
    format!("{:.2}", part as f64 / whole.max(1) as f64)
}
