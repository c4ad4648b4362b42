//! A whole run, invented: every experiment, with shapes like those of real ones. The numbers mean
//! nothing.

use halite_bench::{Params, Row};
use serde_json::{Value, json};

/// Rows, and the noise by which they differ a little.
struct Rows {
    rows: Vec<Row>,
    noise: u64,
}

impl Rows {
    fn noise(&mut self) -> f64 {
        self.noise = self.noise.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (self.noise >> 40) as f64 / (1u64 << 24) as f64 - 0.5
    }

    fn add(
        &mut self,
        experiment: &str,
        subject: &str,
        params: &Value,
        metric: (&str, &str),
        value: f64,
    ) -> &mut Row {
        let value = value * (1.0 + 0.03 * self.noise());
        let spread = 0.02 + 0.06 * self.noise().abs();
        self.rows.push(Row {
            experiment: experiment.to_owned(),
            subject: subject.to_owned(),
            params: params.as_object().cloned().unwrap_or_else(Params::new),
            metric: metric.0.to_owned(),
            unit: metric.1.to_owned(),
            value,
            min: value * (1.0 - spread),
            max: value * (1.0 + spread),
            limit: None,
            source: None,
        });
        let last = self.rows.len() - 1;
        &mut self.rows[last]
    }
}

const THROUGHPUT: (&str, &str) = ("throughput", "op/s");
const LATENCY: (&str, &str) = ("latency", "ns");
const BANDWIDTH: (&str, &str) = ("bandwidth", "B/s");

/// All of it.
pub(crate) fn rows(interrupted: bool) -> Vec<Row> {
    let mut rows = Rows { rows: Vec::new(), noise: 1 };
    device(&mut rows);
    logs(&mut rows);
    pages(&mut rows);
    cells(&mut rows);
    interleaving(&mut rows);
    stores(&mut rows);
    servers(&mut rows);
    let run = rows.add("run", "halite", &json!({
        "version": "0.1.0", "processor": "Intel(R) Xeon(R) Platinum 8488C", "cores": 2,
        "kernel": "6.8.0-1021", "folder": "/dev/shm", "domain": "process", "profile": "none", "seed": 1,
        "quick": false, "repeats": 5,
        "command": "halite bench all --json run.json --report run",
    }), ("interrupted", ""), 0.0);
    run.value = f64::from(u8::from(interrupted));
    (run.min, run.max) = (run.value, run.value);
    rows.rows
}

fn device(rows: &mut Rows) {
    for (pattern, factor) in [("random", 1.0), ("sequential", 0.08)] {
        for shift in 12..=32 {
            let bytes = 1u64 << shift;
            let steps = [(48e3, 2.0), (2e6, 9.0), (480e6, 70.0), (f64::INFINITY, 140.0)];
            let level =
                steps.iter().find(|(size, _)| (bytes as f64) <= *size).map_or(140.0, |s| s.1);
            let ns = f64::max(level * factor, 1.4);
            rows.add(
                "device.read",
                "load",
                &json!({"bytes": bytes, "pattern": pattern}),
                LATENCY,
                ns,
            );
        }
    }
    let persists = [
        ("clflush", [380.0, 250.0, 270.0]),
        ("clflushopt", [360.0, 190.0, 215.0]),
        ("clwb", [350.0, 180.0, 210.0]),
        ("stream", [190.0, 175.0, 240.0]),
    ];
    for (place, pattern) in ["same", "sequential", "random"].into_iter().enumerate() {
        for (subject, ns) in persists {
            let row = rows.add(
                "device.persist",
                subject,
                &json!({"pattern": pattern}),
                LATENCY,
                ns[place],
            );
            row.source = (place == 1).then_some(100.0);
        }
    }
    for op in ["read", "write"] {
        for threads in [1, 2] {
            for bytes in [64, 128, 192, 256, 512, 1024, 4096, 1 << 20] {
                let subjects: &[&str] =
                    if op == "read" { &["load"] } else { &["store", "store-clwb", "stream"] };
                for (place, subject) in subjects.iter().enumerate() {
                    let most = if op == "read" { 11e9 } else { 5e9 + 2e9 * place as f64 };
                    let full = f64::from(bytes) / (f64::from(bytes) + 160.0);
                    let value = most * full * f64::from(threads).powf(0.9);
                    let params = json!({"op": op, "bytes": bytes, "threads": threads});
                    let row = rows.add("device.bandwidth", subject, &params, BANDWIDTH, value);
                    row.source = (bytes == 1 << 20 && threads == 2 && *subject != "store")
                        .then_some(if op == "read" { 39.1e9 } else { 12.5e9 });
                }
            }
        }
    }
    for (subject, most) in [("scan", 11e9), ("lookup", 1.2e9)] {
        for (beside, factor) in
            [("nothing", 1.0), ("scan", 0.72), ("lookup", 0.93), ("log", 0.88), ("page", 0.61)]
        {
            let params = json!({"beside": beside, "threads": 1});
            rows.add("device.interference", subject, &params, BANDWIDTH, most * factor).limit =
                Some(most);
        }
    }
    for (metric, unit, profile, value) in [
        ("read", "ns", 300.0, 310.0),
        ("persist", "ns", 100.0, 108.0),
        ("write", "B/s", 12.5e9, 12.1e9),
    ] {
        let row = rows.add("device.profile", "optane", &json!({}), (metric, unit), value);
        row.source = Some(profile);
    }
}

const LOGS: [(&str, f64, f64); 6] = [
    ("classic", 2.0, 1.0),
    ("header", 2.6, 1.0),
    ("header-dancing", 2.0, 1.0),
    ("rawl", 1.05, 1.015),
    ("poplog", 1.0, 1.0),
    ("epoch", 0.97, 1.016),
];

fn logs(rows: &mut Rows) {
    for bytes in (16..=512).step_by(16) {
        let params = json!({"bytes": bytes});
        let lines = f64::from(bytes + 16).max(64.0) / 64.0;
        let limit = 1e9 / (190.0 + 22.0 * (lines.ceil() - 1.0));
        for naive in [false, true] {
            for (subject, persists, grow) in LOGS {
                let bytes = f64::from(bytes) * grow + 16.0;
                let aligned = bytes % 64.0 < 1.0;
                let each = if naive && !aligned { 330.0 } else { 190.0 };
                let ns = each * persists + 22.0 * (bytes / 64.0).ceil();
                let name = if naive { format!("{subject}-naive") } else { subject.to_owned() };
                rows.add("blocks.log", &name, &params, THROUGHPUT, 1e9 / ns).limit = Some(limit);
                rows.add("blocks.log", &name, &params, ("fences", "1/op"), persists.round());
                rows.add("blocks.log", &name, &params, ("lines", "1/op"), (bytes / 64.0).ceil());
            }
        }
        rows.add("blocks.log", "limit", &params, THROUGHPUT, limit).limit = Some(limit);
    }
    for bytes in [64, 128, 256, 512] {
        for (subject, persists, _) in LOGS {
            let zero = if matches!(subject, "rawl" | "poplog") { 120.0 } else { 8.0 };
            let ns = 190.0 * persists + f64::from(bytes) * 0.4 + zero;
            let row = rows.add(
                "blocks.log-cycle",
                subject,
                &json!({"bytes": bytes}),
                THROUGHPUT,
                1e9 / ns,
            );
            row.limit = Some(1e9 / (195.0 + f64::from(bytes) * 0.35));
        }
    }
}

fn pages(rows: &mut Rows) {
    for page in [4096, 16384, 65536] {
        for threads in [1, 2] {
            let lines = page / 64;
            let mut dirty = 1;
            while dirty <= lines {
                let share = 1.6e9 * f64::from(threads).powf(0.85);
                let cow = share / f64::from(page) * 4.0;
                let log = share / (f64::from(dirty) * 170.0 + 900.0);
                let params = json!({"page": page, "dirty": dirty, "threads": threads});
                for (subject, value) in [
                    ("cow", cow),
                    ("cow-dirty", cow * 0.7),
                    ("µlog", log),
                    ("hybrid", cow.max(log)),
                    ("checksum", cow * 0.93),
                    ("libpmemblk", cow * 0.6),
                ] {
                    let row =
                        rows.add("blocks.page", subject, &params, ("throughput", "pages/s"), value);
                    row.limit = Some(cow * 1.12);
                    row.source =
                        (page == 16384 && dirty == 256 && threads == 1 && subject == "cow")
                            .then_some(300e3);
                }
                dirty *= 2;
            }
        }
    }
}

fn cells(rows: &mut Rows) {
    for op in ["write", "read", "dependent-read"] {
        for (pattern, far) in [("sequential", 0.0), ("random", 80.0)] {
            for bytes in (16..=128).step_by(16) {
                let size = f64::from(bytes);
                for (subject, write, read) in [
                    ("cow", 390.0, 9.0),
                    ("log", 400.0, 5.0),
                    ("fam-scalar", 225.0, 14.0),
                    ("fam-avx2", 215.0, 9.0),
                    ("fam-avx512", 212.0, 8.0),
                ] {
                    let ns = if op == "write" {
                        write + far * 0.5 + size * 0.7
                    } else {
                        read + size * 0.08 + far * if op == "read" { 0.3 } else { 1.0 }
                    };
                    let params = json!({"op": op, "pattern": pattern, "bytes": bytes});
                    let row = rows.add("blocks.cell", subject, &params, THROUGHPUT, 1e9 / ns);
                    row.limit = (op == "write").then_some(1e9 / (190.0 + far * 0.5));
                }
            }
        }
    }
}

fn interleaving(rows: &mut Rows) {
    for group in [1, 2, 4, 8, 12, 16, 20, 24, 32, 48, 64] {
        let n = f64::from(group);
        for (subject, most) in
            [("futures", 5.4), ("by-hand", 5.8), ("reads-only", 1.1), ("writes-only", 4.1)]
        {
            let value = 1.1e6
                * (1.0 + (most - 1.0) * (1.0 - (-n / 7.0).exp())
                    - (most - 1.0) * (1.0 - (-1.0f64 / 7.0).exp()));
            rows.add(
                "blocks.insert",
                subject,
                &json!({"group": group, "profile": "optane"}),
                THROUGHPUT,
                value,
            );
        }
        for profile in ["none", "optane"] {
            for (subject, most) in [("futures", 4.4), ("by-hand", 4.7)] {
                let most = if profile == "none" { most * 0.5 } else { most };
                let value = 3e6 * (1.0 + (most - 1.0) * (1.0 - (-n / 7.0).exp()));
                rows.add(
                    "blocks.lookup",
                    subject,
                    &json!({"group": group, "profile": profile}),
                    THROUGHPUT,
                    value,
                );
            }
        }
    }
    for (subject, ns) in [("futures", 6.4), ("by-hand", 3.1), ("call", 1.2)] {
        rows.add("blocks.switch", subject, &json!({}), LATENCY, ns);
    }
}

const STORES: [(&str, f64); 5] =
    [("halite", 1.0), ("rocksdb", 0.22), ("lmdb", 0.3), ("fjall", 0.18), ("redb", 0.12)];

fn durability(store: &str) -> &'static str {
    if store == "halite" {
        "each put fenced; crashes of the process"
    } else {
        "synced after each put"
    }
}

fn stores(rows: &mut Rows) {
    let latencies = |rows: &mut Rows, experiment: &str, store: &str, params: &Value, ns: f64| {
        for (metric, factor) in [
            ("get-p50", 0.8),
            ("get-p90", 1.4),
            ("get-p99", 3.0),
            ("get-p99.9", 11.0),
            ("get-max", 900.0),
        ] {
            rows.add(experiment, store, params, (metric, "ns"), ns * factor);
        }
    };
    for (workload, most) in
        [("a", 1.5e6), ("b", 2.4e6), ("c", 2.9e6), ("d", 2.6e6), ("e", 2.1e5), ("f", 1.1e6)]
    {
        for (store, part) in STORES {
            let experiment = format!("kv.ycsb-{workload}");
            let params =
                json!({"records": 1_000_000, "threads": 1, "durability": durability(store)});
            rows.add(&experiment, store, &params, THROUGHPUT, most * part);
            rows.add(&experiment, store, &params, ("fences", "1/op"), 0.5);
            latencies(rows, &experiment, store, &params, 1e9 / (most * part));
        }
    }
    for distribution in ["uniform", "self-similar", "zipfian"] {
        for op in ["insert", "lookup", "update", "delete", "scan"] {
            for (store, part) in STORES {
                let most = if op == "scan" { 3e5 } else { 2e6 };
                let params = json!({"op": op, "distribution": distribution, "threads": 1});
                rows.add("kv.pibench", store, &params, THROUGHPUT, most * part);
                latencies(rows, "kv.pibench", store, &params, 1e9 / (most * part));
            }
        }
    }
    for (experiment, unit, most) in [
        ("kv.load", "op/s", 1.3e6),
        ("kv.get", "op/s", 3.1e6),
        ("kv.scan", "pairs/s", 2.2e7),
        ("kv.reopen", "records/s", 9e6),
    ] {
        for (store, part) in STORES {
            rows.add(
                experiment,
                store,
                &json!({"records": 1_000_000}),
                ("throughput", unit),
                most * part.sqrt(),
            );
        }
    }
}

const SERVERS: [(&str, f64); 5] = [
    ("halite", 1.0),
    ("redis-always", 0.6),
    ("redis-everysec", 0.65),
    ("memcached", 1.05),
    ("rocksdb", 0.4),
];

fn servers(rows: &mut Rows) {
    for (server, part) in SERVERS {
        let durability = format!("as {server} has it");
        let with = |params: Value| {
            let mut params = params;
            params["durability"] = json!(durability);
            params["server-threads"] = json!(1);
            params
        };
        let measured = ("measured", "bool");
        rows.add("rstore.subject", server, &json!({"version": "1"}), measured, 0.0);
        for value_len in [1000, 100] {
            let size = if value_len == 1000 { 0.6 } else { 1.0 };
            for (mix, write) in [("read-heavy", 0.1), ("balanced", 0.5), ("write-heavy", 0.9)] {
                let shared = || json!({"value-len": value_len, "mix": mix, "records": 1_000_000});
                for (pipeline, most) in [(1, 150e3), (16, 800e3)] {
                    let mut params = with(shared());
                    params["pipeline"] = json!(pipeline);
                    let rate = most * part * size * (1.2 - 0.4 * write);
                    rows.add("rstore.throughput", server, &params, THROUGHPUT, rate);
                }
                rows.add("rstore.capacity", server, &with(shared()), THROUGHPUT, 150e3 * part);
                for percent in [20, 40, 60, 80] {
                    let mut params = with(shared());
                    params["load-percent"] = json!(percent);
                    for (rank, factor) in [
                        ("p50", 1.0),
                        ("p99", 3.0),
                        ("p99.9", 9.0),
                        ("p99.99", 30.0),
                        ("max", 90.0),
                    ] {
                        let ns = 40e3 * factor / part / (1.0 - f64::from(percent) / 110.0);
                        for kind in ["get", "put", "latency"] {
                            let metric = format!("{kind}-{rank}");
                            rows.add("rstore.tail", server, &params, (&metric, "ns"), ns);
                        }
                    }
                    rows.add("rstore.tail", server, &params, ("send-delay-p99.9", "ns"), 20e3);
                }
            }
            let params = with(json!({"value-len": value_len}));
            let bytes = f64::from(value_len) + 80.0;
            rows.add("rstore.memory", server, &params, ("dram", "B/record"), bytes / part);
            rows.add("rstore.memory", server, &params, ("storage", "B/record"), bytes);
            let cost = rows.add("rstore.memory", server, &params, ("cost", "$"), 150.0 / part);
            cost.source = Some(200.0);
        }
        for count in [10, 100, 300, 500, 1000] {
            let (params, rate) = (with(json!({"count": count})), 2e6 * part / f64::from(count));
            rows.add("rstore.scans", server, &params, THROUGHPUT, rate);
        }
        for ended in ["killed", "stopped"] {
            let params = with(json!({"ended": ended, "records": 10_000_000}));
            rows.add("rstore.recovery", server, &params, ("first-answer", "ns"), 1e8 / part);
            rows.add("rstore.recovery", server, &params, ("all-answers", "ns"), 2e8 / part);
        }
        rows.add("rstore.scaling", server, &with(json!({"pipeline": 16})), THROUGHPUT, 6e5 * part);
        let params = with(json!({"before": "rstore.throughput", "value-len": 100}));
        rows.add("rstore.load", server, &params, THROUGHPUT, 7e5 * part);
    }
    for (server, part) in [("halite", 1.0), ("rocksdb", 0.4)] {
        for distribution in ["uniform", "zipfian"] {
            for (fill, left) in [(30, 1.0), (90, 0.93)] {
                let params = json!({"fill": fill, "distribution": distribution});
                rows.add("rstore.gc", server, &params, THROUGHPUT, 5e5 * part * left);
                rows.add("rstore.gc-tail", server, &params, ("put-p99.9", "ns"), 4e5 / left / part);
            }
            let params = json!({"distribution": distribution});
            let metric = ("throughput-drop", "%");
            rows.add("rstore.gc-cost", server, &params, metric, 7.0 / part).source = Some(7.0);
        }
        for (fill, optimum) in [(70, 1.88), (80, 2.69), (90, 5.18)] {
            let params = json!({"fill": fill});
            let metric = ("collection-amplification", "x");
            let row = rows.add("rstore.gc-amplification", server, &params, metric, optimum / part);
            row.limit = Some(optimum);
            let metric = ("write-amplification", "x");
            rows.add("rstore.gc-amplification", server, &params, metric, 1.5 * optimum);
        }
    }
}
