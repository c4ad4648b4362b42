//! The figures of a run.

use std::fmt::Write;
use std::time::Duration;

use halite_workload::tpcc::mix::Kind;
use halite_workload::tpcc::{Report, RunOptions, Scale};
use serde_json::{Map, Value, json};

use super::store::Tables;
use crate::size::{count, grouped};

/// The durability that a commit of the run waits for; the domain of the database says which failures it survives.
const DURABILITY: &str = "each transaction serializable, durable at its commit";

/// The latencies that are told.
const PERCENTILES: [(&str, f64); 5] =
    [("p50", 50.0), ("p95", 95.0), ("p99", 99.0), ("p99.9", 99.9), ("max", 100.0)];

/// The figures of a run on the tables of a store.
pub(super) struct Figures<'a> {
    pub(super) report: &'a Report,
    pub(super) options: &'a RunOptions,
    pub(super) tables: &'a Tables,
}

impl Figures<'_> {
    /// Why the figures are not those of the benchmark, beside what all of them lack.
    fn notes(&self) -> Vec<&'static str> {
        let notes = [
            (!self.is_full(), "the rows are fewer than those of TPC-C: the figures mean nothing"),
            (!self.options.mix.is_permitted(), "the mix is not one that TPC-C permits"),
            (self.report.exceeds_terminals(), "more orders than its terminals can enter"),
        ];
        notes.into_iter().filter(|(is_so, _)| *is_so).map(|(_, note)| note).collect()
    }

    fn is_full(&self) -> bool {
        let scale = self.report.scale;
        scale == Scale::full(scale.warehouses)
    }

    /// The latency of a kind at a percentile, if the kind was run.
    fn latency(&self, kind: Kind, percentile: f64) -> Option<Duration> {
        let latencies = &self.report.measured.latencies[kind as usize];
        let nanos = match percentile {
            100.0 => latencies.max(),
            _ => latencies.value_at_quantile(percentile / 100.0),
        };
        (!latencies.is_empty()).then(|| Duration::from_nanos(nanos))
    }

    /// Transactions that were rolled back: New-Order alone has such.
    fn rollbacks(&self, kind: Kind) -> u64 {
        if kind == Kind::NewOrder { self.report.measured.rolled_back } else { 0 }
    }

    pub(super) fn as_text(&self) -> String {
        let (report, tables) = (self.report, self.tables);
        let mut text = String::new();
        let mut row = |name: &str, value: String| {
            // A string takes every write.
            let _ = writeln!(text, "{name:<14}{value}");
        };
        let waits = if report.waits { "on" } else { "off" };
        row(Report::NAME, format!("{:.1} tpmC, key and think times {waits}", report.tpm()));
        row(
            "run",
            format!(
                "{}, {}, {:.2} s, {}, {:.1} a second",
                count(report.scale.warehouses.into(), "warehouse"),
                count(self.options.threads.into(), "thread"),
                report.elapsed.as_secs_f64(),
                count(report.transactions(), "transaction"),
                report.per_second(),
            ),
        );
        let partitions = tables.partitions.map(|partitions| count(partitions as u64, "partition"));
        row(
            "engine",
            [Some(tables.engine.clone()), partitions]
                .into_iter()
                .flatten()
                .collect::<Vec<_>>()
                .join(", "),
        );
        row("durability", DURABILITY.to_owned());
        row("domain", format!("{}: {}", tables.domain, tables.domain.guarantee()));
        let measured = &report.measured;
        row(
            "deliveries",
            format!(
                "{}, {} without one, {} late",
                count(measured.delivered, "order"),
                count(measured.skipped, "district"),
                grouped(measured.late_deliveries),
            ),
        );
        for note in self.notes() {
            row("note", note.to_owned());
        }
        text.push('\n');
        self.table(&mut text);
        text
    }

    fn table(&self, text: &mut String) {
        let names = PERCENTILES.map(|(name, _)| format!("{:>10}", format!("{name} ms"))).concat();
        // A string takes every write.
        let _ = writeln!(
            text,
            "{:<14}{:>10}{:>9}{names}{:>11}{:>9}",
            "transaction", "count", "share", "rollbacks", "retries"
        );
        for kind in Kind::ALL {
            let latencies = PERCENTILES.map(|(_, percentile)| {
                let latency = self.latency(kind, percentile);
                let latency = latency.map_or("-".to_owned(), |latency| {
                    format!("{:.3}", latency.as_secs_f64() * 1000.0)
                });
                format!("{latency:>10}")
            });
            let _ = writeln!(
                text,
                "{kind:<14}{:>10}{:>8.2}%{}{:>11}{:>9}",
                grouped(self.report.count(kind)),
                self.report.share_percent(kind),
                latencies.concat(),
                grouped(self.rollbacks(kind)),
                grouped(self.report.measured.retries[kind as usize]),
            );
        }
    }

    pub(super) fn as_json(&self) -> Value {
        let (report, measured, tables) = (self.report, &self.report.measured, self.tables);
        let of = |kind: Kind| {
            let latencies = PERCENTILES.map(|(name, percentile)| {
                let latency = self.latency(kind, percentile);
                (name.to_owned(), latency.map(|latency| latency.as_secs_f64()).into())
            });
            let figures = json!({
                "count": report.count(kind),
                "share_percent": report.share_percent(kind),
                "latency_seconds": Map::from_iter(latencies),
                "rollbacks": self.rollbacks(kind),
                "retries": measured.retries[kind as usize],
            });
            (kind.name().to_owned(), figures)
        };
        json!({
            "benchmark": Report::NAME,
            "tpmc": report.tpm(),
            "think_times": report.waits,
            "warehouses": report.scale.warehouses,
            "full_scale": self.is_full(),
            "threads": self.options.threads,
            "mix_percent": self.options.mix.percent(),
            "seconds": report.elapsed.as_secs_f64(),
            "interrupted": report.is_broken_off,
            "count": report.transactions(),
            "per_second": report.per_second(),
            "engine": tables.engine,
            "partitions": tables.partitions,
            "durability": DURABILITY,
            "domain": tables.domain.name(),
            "survives_power_cut": tables.domain.survives_power_cut(),
            "transactions": Map::from_iter(Kind::ALL.map(of)),
            "order_lines": measured.lines,
            "remote_order_lines": measured.remote_lines,
            "remote_payments": measured.remote_payments,
            "delivered_orders": measured.delivered,
            "districts_without_order": measured.skipped,
            "late_deliveries": measured.late_deliveries,
            "notes": self.notes(),
        })
    }
}
