//! The server as exporters, monitors and frameworks see it: INFO, the metrics, and what COMMAND tells.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};

use crate::common::{self, Client, Running, wait_for_blocked};

on_threads! {
    info_has_the_fields_that_exporters_read
    info_counts_all_threads_also_within_scripts
    waits_and_watches_are_counted
    metrics_are_well_formed_and_have_the_commands
    commands_are_documented_with_their_arguments
}

/// The fields of INFO, by name.
fn fields(text: &str) -> BTreeMap<String, String> {
    let lines = text.trim_matches('"').split("\\r\\n");
    let pairs = lines.filter(|line| !line.starts_with('#')).filter_map(|line| line.split_once(':'));
    pairs.map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
}

fn number(fields: &BTreeMap<String, String>, name: &str) -> u64 {
    let value = fields.get(name).unwrap_or_else(|| panic!("no {name}"));
    value.parse().unwrap_or_else(|_| panic!("{name}:{value}"))
}

/// Names of Redis 7.2, by section.
#[rustfmt::skip]
const SECTIONS: &[(&str, &str)] = &[
    ("server", "redis_version redis_git_sha1 redis_git_dirty redis_build_id redis_mode os arch_bits monotonic_clock \
        multiplexing_api atomicvar_api process_id process_supervised run_id tcp_port server_time_usec uptime_in_seconds \
        uptime_in_days hz configured_hz lru_clock executable config_file io_threads_active"),
    ("clients", "connected_clients cluster_connections maxclients client_recent_max_input_buffer \
        client_recent_max_output_buffer blocked_clients tracking_clients clients_in_timeout_table total_blocking_keys \
        total_blocking_keys_on_nokey"),
    ("memory", "used_memory used_memory_human used_memory_rss used_memory_rss_human used_memory_peak \
        used_memory_peak_human used_memory_peak_perc used_memory_overhead used_memory_startup used_memory_dataset \
        used_memory_dataset_perc allocator_allocated allocator_active allocator_resident total_system_memory \
        total_system_memory_human used_memory_lua used_memory_vm_eval used_memory_lua_human used_memory_scripts_eval \
        number_of_cached_scripts number_of_functions number_of_libraries used_memory_vm_functions used_memory_vm_total \
        used_memory_vm_total_human used_memory_functions used_memory_scripts used_memory_scripts_human maxmemory \
        maxmemory_human maxmemory_policy allocator_frag_ratio allocator_frag_bytes allocator_rss_ratio \
        allocator_rss_bytes rss_overhead_ratio rss_overhead_bytes mem_fragmentation_ratio mem_fragmentation_bytes \
        mem_not_counted_for_evict mem_replication_backlog mem_total_replication_buffers mem_clients_slaves \
        mem_clients_normal mem_cluster_links mem_aof_buffer mem_allocator active_defrag_running \
        lazyfree_pending_objects lazyfreed_objects"),
    ("persistence", "loading async_loading current_cow_peak current_cow_size current_cow_size_age current_fork_perc \
        current_save_keys_processed current_save_keys_total rdb_changes_since_last_save rdb_bgsave_in_progress \
        rdb_last_save_time rdb_last_bgsave_status rdb_last_bgsave_time_sec rdb_current_bgsave_time_sec rdb_saves \
        rdb_last_cow_size rdb_last_load_keys_expired rdb_last_load_keys_loaded aof_enabled aof_rewrite_in_progress \
        aof_rewrite_scheduled aof_last_rewrite_time_sec aof_current_rewrite_time_sec aof_last_bgrewrite_status \
        aof_rewrites aof_rewrites_consecutive_failures aof_last_write_status aof_last_cow_size module_fork_in_progress \
        module_fork_last_cow_size aof_current_size aof_base_size aof_pending_rewrite aof_buffer_length \
        aof_pending_bio_fsync aof_delayed_fsync"),
    ("stats", "total_connections_received total_commands_processed instantaneous_ops_per_sec total_net_input_bytes \
        total_net_output_bytes total_net_repl_input_bytes total_net_repl_output_bytes instantaneous_input_kbps \
        instantaneous_output_kbps instantaneous_input_repl_kbps instantaneous_output_repl_kbps rejected_connections \
        sync_full sync_partial_ok sync_partial_err expired_keys expired_stale_perc expired_time_cap_reached_count \
        expire_cycle_cpu_milliseconds evicted_keys evicted_clients total_eviction_exceeded_time \
        current_eviction_exceeded_time keyspace_hits keyspace_misses pubsub_channels pubsub_patterns \
        pubsubshard_channels latest_fork_usec total_forks migrate_cached_sockets slave_expires_tracked_keys \
        active_defrag_hits active_defrag_misses active_defrag_key_hits active_defrag_key_misses \
        total_active_defrag_time current_active_defrag_time tracking_total_keys tracking_total_items \
        tracking_total_prefixes unexpected_error_replies total_error_replies dump_payload_sanitizations \
        total_reads_processed total_writes_processed io_threaded_reads_processed io_threaded_writes_processed \
        reply_buffer_shrinks reply_buffer_expands acl_access_denied_auth acl_access_denied_cmd acl_access_denied_key \
        acl_access_denied_channel"),
    ("replication", "role connected_slaves master_failover_state master_replid master_replid2 master_repl_offset \
        second_repl_offset repl_backlog_active repl_backlog_size repl_backlog_first_byte_offset repl_backlog_histlen"),
    ("cpu", "used_cpu_sys used_cpu_user used_cpu_sys_children used_cpu_user_children used_cpu_sys_main_thread \
        used_cpu_user_main_thread"),
    ("cluster", "cluster_enabled"),
];

fn info_has_the_fields_that_exporters_read() {
    let server = Running::start();
    let mut client = server.client();
    client.check(&[("SET a 1", "+OK"), ("SET b 1 EX 100", "+OK")]);
    for (section, names) in SECTIONS {
        let found = fields(&client.ask(&format!("INFO {section}")));
        for name in names.split_whitespace() {
            assert!(found.contains_key(name), "no {name} in {section}: {found:?}");
        }
    }
    let two = client.ask("INFO cpu keyspace");
    assert!(two.contains("# CPU\\r\\n") && two.contains("# Keyspace\\r\\n"), "{two}");
    assert!(two.contains("db0:keys=2,expires=1,avg_ttl="), "{two}");
    let memory = fields(&client.ask("INFO memory"));
    assert!(number(&memory, "used_memory_peak") >= number(&memory, "used_memory"));
    assert!(number(&memory, "total_system_memory") > number(&memory, "used_memory_startup"));
    assert!(number(&memory, "used_memory_rss") > 0);
    // The clock's ticks take the samples.
    common::eventually("a flow of commands", || {
        let stats = fields(&client.ask("INFO stats"));
        number(&stats, "instantaneous_ops_per_sec") > 0
    });
    let stats = fields(&client.ask("INFO stats"));
    assert!(number(&stats, "total_reads_processed") > 10, "{stats:?}");
    assert!(number(&stats, "total_writes_processed") > 10, "{stats:?}");
    client.check(&[("CONFIG RESETSTAT", "+OK")]);
    let stats = fields(&client.ask("INFO stats"));
    assert!(number(&stats, "total_reads_processed") < 10, "{stats:?}");
    client.ask("AUTH nobody wrong");
    let stats = fields(&client.ask("INFO stats"));
    assert_eq!(number(&stats, "acl_access_denied_auth"), 1);
}

fn info_counts_all_threads_also_within_scripts() {
    let server = Running::start();
    let mut clients: Vec<Client> = (0..6).map(|_| server.client()).collect();
    let mut client = server.client();
    for (at, other) in clients.iter_mut().enumerate() {
        other.check(&[(&format!("SET key{at} v EX 100"), "+OK"), ("GET nosuch", "nil")]);
    }
    let sum = |text: &str| {
        let fields = fields(text);
        ["keyspace_misses", "connected_clients"].map(|name| number(&fields, name))
    };
    let plain = sum(&client.ask("INFO"));
    assert_eq!(plain, [6, 7]);
    let script = "return redis.call('INFO')";
    for keys in [&["0"][..], &["1", "key0"], &["2", "key0", "key1"]] {
        let words = [&["EVAL", script][..], keys].concat();
        let told = client.call(&words);
        assert_eq!(sum(&told), plain, "{keys:?}");
        assert!(told.contains("db0:keys=6,expires=6,"), "{told}");
    }
    // The writes of such a script before that are there once.
    let script = "redis.call('INCR', 'count') return redis.call('INFO', 'commandstats')";
    let told = client.call(&["EVAL", script, "1", "count"]);
    assert!(told.contains("cmdstat_set:calls=6,"), "{told}");
    client.check(&[("GET count", "\"1\""), ("MULTI", "+OK"), ("INFO stats", "+QUEUED")]);
    let told = client.ask("EXEC");
    assert!(told.contains("keyspace_misses:6\\r"), "{told}");
}

fn waits_and_watches_are_counted() {
    let server = Running::start();
    let (mut first, mut second, mut third) = (server.client(), server.client(), server.client());
    first.send_line("BLPOP a b 0");
    wait_for_blocked(&server, 1);
    second.send_line("BLPOP b c 1000");
    third.check(&[("WATCH a", "+OK")]);
    let mut client = server.client();
    common::eventually("two clients wait", || {
        let clients = fields(&client.ask("INFO clients"));
        let names = ["blocked_clients", "clients_in_timeout_table", "total_blocking_keys"];
        names.map(|name| number(&clients, name)) == [2, 1, 3]
    });
    assert_eq!(number(&fields(&client.ask("INFO clients")), "watching_clients"), 1);
    client.check(&[("RPUSH b x y", ":2")]);
    assert_eq!(first.reply(), "[\"b\", \"x\"]");
    assert_eq!(second.reply(), "[\"b\", \"y\"]");
}

fn http(addr: SocketAddr) -> String {
    let mut socket = TcpStream::connect(addr).unwrap();
    socket.write_all(b"GET /metrics HTTP/1.1\r\n\r\n").unwrap();
    let mut reply = String::new();
    socket.read_to_string(&mut reply).unwrap();
    reply.split_once("\r\n\r\n").unwrap().1.to_owned()
}

/// The values of metrics by name and labels. Fails if the text is not well-formed.
fn parse_metrics(text: &str) -> BTreeMap<String, f64> {
    let (mut values, mut types, mut helped) = (BTreeMap::new(), BTreeMap::new(), BTreeSet::new());
    assert!(text.ends_with('\n'));
    for line in text.lines() {
        if let Some(rest) = line.strip_prefix("# HELP ") {
            let (name, help) = rest.split_once(' ').unwrap();
            assert!(helped.insert(name.to_owned()) && !help.is_empty(), "{line}");
        } else if let Some(rest) = line.strip_prefix("# TYPE ") {
            let (name, kind) = rest.split_once(' ').unwrap();
            assert!(["counter", "gauge", "histogram"].contains(&kind), "{line}");
            assert!(helped.contains(name), "{line}");
            assert!(types.insert(name.to_owned(), kind.to_owned()).is_none(), "{line}");
        } else {
            let (series, value) = line.rsplit_once(' ').unwrap();
            let name = series.split('{').next().unwrap();
            let base = ["_bucket", "_sum", "_count"].iter().find_map(|end| {
                name.strip_suffix(end)
                    .filter(|base| types.get(*base).is_some_and(|kind| kind == "histogram"))
            });
            assert!(types.contains_key(base.unwrap_or(name)), "{line}");
            assert!(series.len() == name.len() || series.ends_with("\"}"), "{line}");
            let value: f64 = value.parse().unwrap_or_else(|_| panic!("{line}"));
            assert!(values.insert(series.to_owned(), value).is_none(), "{line}");
        }
    }
    values
}

fn metrics_are_well_formed_and_have_the_commands() {
    let server = Running::start_with(|config| {
        config.metrics = Some(SocketAddr::from(([127, 0, 0, 1], 0)));
    });
    let mut client = server.client();
    client.check(&[
        ("SET a x", "+OK"),
        ("GET a", "\"x\""),
        ("GET b", "nil"),
        ("INCR a", "-ERR value is not an integer or out of range"),
        ("GET", "-ERR wrong number of arguments for 'get' command"),
        ("OBJECT ENCODING a", "\"embstr\""),
        ("CONFIG RESETSTAT", "+OK"),
    ]);
    let values = parse_metrics(&http(server.metrics.unwrap()));
    for (series, expected) in [
        ("halite_command_duration_seconds_count{command=\"get\"}", 2.0),
        ("halite_command_duration_seconds_bucket{command=\"get\",le=\"+Inf\"}", 2.0),
        ("halite_command_duration_seconds_count{command=\"object|encoding\"}", 1.0),
        ("halite_command_failed_calls_total{command=\"incr\"}", 1.0),
        ("halite_command_rejected_calls_total{command=\"get\"}", 1.0),
        ("halite_error_replies_total{code=\"ERR\"}", 2.0),
    ] {
        assert_eq!(values.get(series), Some(&expected), "{series}");
    }
    let buckets = values.iter().filter(|(series, _)| series.contains("_bucket{command=\"set\""));
    let mut counts: Vec<f64> = buckets.map(|(_, count)| *count).collect();
    counts.sort_by(f64::total_cmp);
    assert_eq!((counts.len(), counts.last()), (14, Some(&1.0)));
    assert!(values["halite_command_duration_seconds_sum{command=\"set\"}"] > 0.0);
}

fn commands_are_documented_with_their_arguments() {
    let server = Running::start();
    let mut client = server.client();
    client.ask("HELLO 3");
    let all = client.ask("COMMAND DOCS");
    assert!(all.contains("\"zrevrangebyscore\": {\"summary\": "), "{all}");
    let get = client.ask("COMMAND DOCS get");
    assert_eq!(
        get,
        "{\"get\": {\"summary\": \"Returns the value of a key\", \"since\": \"1.0.0\", \"group\": \"string\", \
         \"complexity\": \"O(1)\", \"arguments\": [{\"name\": \"key\", \"type\": \"key\", \"display_text\": \"key\", \
         \"key_spec_index\": :0}]}}"
    );
    let set = client.ask("COMMAND DOCS set");
    for part in [
        "\"history\": ~[[\"2.6.12\", \"",
        "{\"name\": \"seconds\", \"type\": \"integer\", \"display_text\": \"seconds\", \"token\": \"EX\"}",
        "{\"name\": \"keepttl\", \"type\": \"pure-token\", \"display_text\": \"keepttl\", \"token\": \"KEEPTTL\"}",
        "{\"name\": \"condition\", \"type\": \"oneof\", \"flags\": ~[+optional], \"arguments\": [",
    ] {
        assert!(set.contains(part), "{part} in {set}");
    }
    let rename = client.ask("COMMAND DOCS rename");
    assert!(rename.contains("\"newkey\", \"key_spec_index\": :1}"), "{rename}");
    let sort = client.ask("COMMAND DOCS sort");
    assert!(
        sort.contains("\"token\": \"GET\", \"flags\": ~[+optional, +multiple, +multiple_token]"),
        "{sort}"
    );
    let getset = client.ask("COMMAND DOCS getset");
    assert!(
        getset.contains("\"doc_flags\": ~[+deprecated], \"deprecated_since\": \"6.2.0\""),
        "{getset}"
    );
    let config = client.ask("COMMAND DOCS config");
    assert!(config.contains("\"subcommands\": {\"config|get\": {"), "{config}");
    assert!(
        client
            .ask("COMMAND DOCS config|set")
            .contains("\"type\": \"block\", \"flags\": ~[+multiple]")
    );
    client.check(&[("COMMAND DOCS nosuch", "{}")]);
}
