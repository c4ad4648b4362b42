//! MEMORY: the memory of keys, in the pool and in DRAM.

use std::fmt::Write as _;
use std::sync::atomic::Ordering;

use crate::call::{Call, is};
use crate::collection::list::List;
use crate::collection::map::Map;
use crate::collection::sorted_set::SortedSet;
use crate::collection::stream::Stream;
use crate::failure::{Outcome, SYNTAX};
use crate::report::{Details, Report};
use crate::service::Service;
use crate::stored::{Stored, Type, collection_id};

/// Elements of a larger collection that are looked at if the client does not say how many.
const SAMPLES: usize = 5;

/// Replies with the bytes of the pool that a key's record takes, and those of a larger collection's elements, as some of
/// them say, and of what is known of it in DRAM.
pub(super) fn usage(call: &mut Call<'_>) -> Outcome {
    let samples = match (call.args.get(3), call.args.len()) {
        (None, _) => SAMPLES,
        (Some(word), 5) if is(word, "SAMPLES") && call.integer(4)? >= 0 => {
            match call.integer(4)? as usize {
                0 => usize::MAX,
                samples => samples,
            }
        }
        _ => return Err(SYNTAX.into()),
    };
    let key = call.arg(2);
    match call.service.store.get(call.client.db, key)? {
        Some(value) => {
            let mut bytes = call.service.store.space_of(key.len(), &value);
            if let Some(id) = collection_id(value.bytes()) {
                bytes += bytes_of_elements(call, &value, id, samples)?;
            }
            call.reply().integer(bytes as i64);
        }
        None => call.reply().null(),
    }
    Ok(())
}

fn bytes_of_elements(call: &mut Call<'_>, value: &Stored, id: u64, samples: usize) -> Outcome<u64> {
    let (db, key, store) =
        (call.client.db, call.args.get(2).unwrap_or_default(), &mut call.service.store);
    let elements = store.elements(db, key, id);
    let of = value.value_type()?;
    if of == Type::Stream {
        let stream = Stream::find(store, db, key)?;
        return stream.map_or(Ok(0), |stream| stream.space(store, samples));
    }
    let (mut bytes, count) = store.space_of_elements(&elements, &[], samples)?;
    if count == samples as u64 {
        let len = match of {
            Type::List => List::find(store, db, key)?.map(|list| list.len(store)),
            Type::SortedSet => SortedSet::find(store, db, key)?.map(|set| set.records(store)),
            Type::Hash | Type::Set => {
                let map = Map::find(store, db, key, of)?;
                map.map(|map| map.len(store).map(|len| len as usize))
            }
            Type::String | Type::Stream => None,
        };
        if let Some(len) = len {
            bytes = (u128::from(bytes) * len? as u128 / u128::from(count.max(1))) as u64;
        }
    }
    Ok(bytes + store.known_resident(&elements).map_or(0, |resident| resident.bytes() as u64))
}

/// Memory that the server accounts for, in bytes. The rest of the process is the allocator's overhead.
pub(super) struct Used {
    /// All of it.
    pub(super) total: u64,
    /// Bytes that the process had in memory when the server started: code, stacks, tables.
    pub(super) program: u64,
    /// Live records, wherever in memory they lie.
    pub(super) dataset: u64,
    /// Requests and replies of clients.
    pub(super) buffers: u64,
    /// Deadlines of keys, orders of larger collections, the use of keys.
    pub(super) state: u64,
}

impl Used {
    pub(super) fn of(service: &Service, stats: &halite::Stats, report: &Report) -> Self {
        let buffers = report.buffer_bytes as u64;
        let state = report.state_bytes as u64;
        let program = service.shared.memory_of_program.load(Ordering::Relaxed);
        let total = stats.memory_bytes() + program + buffers + state;
        Self { total, program, dataset: stats.live_bytes.min(total), buffers, state }
    }

    /// Memory that holds no live records.
    pub(super) fn overhead(&self) -> u64 {
        self.total - self.dataset
    }
}

/// Replies with the figures that Redis has, and with those of the store.
pub(super) fn stats(call: &mut Call<'_>) -> Outcome {
    let stats = call.service.store.stats();
    let used = Used::of(call.service, &stats, &call.service.report(Details::default()));
    let shared = &call.service.shared;
    let peak = shared.memory_peak.fetch_max(used.total, Ordering::Relaxed).max(used.total);
    let (_, script_bytes) = shared.scripts.size();
    let allocated = stats.live_bytes + stats.index_bytes;
    let mut numbers = vec![
        ("peak.allocated", peak),
        ("total.allocated", used.total),
        ("startup.allocated", shared.memory_at_start.load(Ordering::Relaxed)),
        ("replication.backlog", 0),
        ("clients.slaves", 0),
        ("clients.normal", shared.client_memory.total() as u64),
        ("cluster.links", 0),
        ("aof.buffer", 0),
        ("lua.caches", script_bytes as u64),
        ("functions.caches", 0),
        ("dataset.bytes", used.dataset),
        ("overhead.total", used.overhead()),
        ("index.bytes", stats.index_bytes),
        ("cache.bytes", stats.cache_bytes),
        ("volatile.bytes", stats.volatile_bytes),
        ("clients.buffers", used.buffers),
        ("keys.state-bytes", used.state),
        ("pool.bytes", stats.pool_bytes),
        ("pool.bytes-max", stats.pool_bytes_max),
        ("pool.dead-bytes", stats.dead_bytes),
        ("pool.free-bytes", stats.free_bytes),
    ];
    match stats.is_tiered {
        false => numbers.extend([
            ("keys.count", stats.records),
            ("keys.bytes-per-key", allocated / stats.records.max(1)),
        ]),
        // The number of keys is not known; the figures on memory are for the newest versions.
        true => {
            numbers.push(("versions.in-memory", stats.records));
            let of_files =
                [("levels.bytes", "level_bytes"), ("levels.value-bytes", "value_file_bytes")];
            let known = of_files.iter().map(|(name, own)| Some((*name, stats.figure(own)?)));
            numbers.extend(known.flatten());
        }
    }
    let percent = |part: u64, whole: u64| format!("{}", 100.0 * part as f64 / whole.max(1) as f64);
    let shares = [
        ("dataset.percentage", percent(used.dataset, used.total)),
        ("peak.percentage", percent(used.total, peak)),
    ];
    let mut reply = call.reply();
    reply.map(numbers.len() + shares.len());
    for (name, number) in numbers {
        reply.bulk(name.as_bytes());
        reply.integer(number as i64);
    }
    for (name, share) in shares {
        reply.bulk(name.as_bytes());
        reply.decimal(&share);
    }
    Ok(())
}

/// The allocator of the C library keeps no figures that could be told.
pub(super) fn malloc_stats(call: &mut Call<'_>) -> Outcome {
    call.reply().verbatim("Stats not supported for the current allocator");
    Ok(())
}

/// Accepted: the allocator gives memory back by itself.
pub(super) fn purge(call: &mut Call<'_>) -> Outcome {
    call.reply().ok();
    Ok(())
}

pub(super) fn doctor(call: &mut Call<'_>) -> Outcome {
    let stats = call.service.store.stats();
    let mut text = String::new();
    let percent = |part: u64, whole: u64| 100 * part / whole.max(1);
    let filled = percent(stats.live_bytes, stats.pool_bytes_max);
    // Where there are levels, a full pool hands on to them.
    if filled >= 90 && !stats.is_tiered {
        let _ = writeln!(
            text,
            "Live records take {filled} % of the {} bytes that the pool may grow to: at its limit, \
             writes get OOM errors. Remove keys, or serve it with a larger --max-size.",
            stats.pool_bytes_max
        );
    }
    let dead = percent(stats.dead_bytes, stats.pool_bytes);
    if dead >= 50 && !stats.is_tiered {
        let _ = writeln!(text, "Dead records take {dead} % of the pool until they are collected.");
    }
    if text.is_empty() {
        let _ = writeln!(text, "Nothing is wrong: {filled} % of the pool's limit is in use.");
    }
    call.reply().verbatim(&text);
    Ok(())
}

pub(super) fn help(call: &mut Call<'_>) -> Outcome {
    call.reply().simples(&[
        "MEMORY <subcommand> [<arg> [value] [opt] ...]. Subcommands are:",
        "DOCTOR",
        "    Reports problems of memory.",
        "MALLOC-STATS",
        "    Tells of the allocator, which keeps no figures.",
        "PURGE",
        "    Gives memory back, as far as the allocator does not by itself.",
        "STATS",
        "    Reports the memory of the pool and of the index in DRAM.",
        "USAGE <key> [SAMPLES <count>]",
        "    Tells the bytes of the pool that a key and its value take.",
        "HELP",
        "    Prints this help.",
    ]);
    Ok(())
}
