//! What was measured.

use std::fmt;
use std::time::Duration;

use serde_json::{Value, json};

use crate::{Counters, KvOptions, Store, Summary};

/// A phase of the workload.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    /// Durable puts of every record, in random order.
    Load,
    /// Durable puts of every record once more, in another order.
    Overwrite,
    /// Gets of random existing records.
    Get,
    /// Pairs read by short scans.
    Scan,
    /// Records that are there again after a clean close, by the time that opening takes.
    Reopen,
    /// Records that are there again after the process was killed.
    ReopenAfterKill,
}

impl Phase {
    /// The name: `put`, `overwrite`, `get`, `scan`, `reopen` or `reopen-killed`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Load => "put",
            Self::Overwrite => "overwrite",
            Self::Get => "get",
            Self::Scan => "scan",
            Self::Reopen => "reopen",
            Self::ReopenAfterKill => "reopen-killed",
        }
    }

    /// What its rate counts.
    #[must_use]
    pub fn unit(self) -> &'static str {
        match self {
            Self::Load | Self::Overwrite => "puts/s",
            Self::Get => "gets/s",
            Self::Scan => "pairs/s",
            Self::Reopen | Self::ReopenAfterKill => "records/s",
        }
    }
}

impl fmt::Display for Phase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// One phase of one store in one repeat.
pub(crate) struct Measured {
    pub(crate) operations: u64,
    pub(crate) duration: Duration,
    pub(crate) traffic: Option<halite::Traffic>,
    pub(crate) counters: Option<Counters>,
}

/// Traffic to the medium per put, over all repeats.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PutTraffic {
    /// Fences.
    pub fences: f64,
    /// Write-backs.
    pub flushes: f64,
    /// Lines of 64 bytes.
    pub lines: f64,
    /// Blocks of 256 bytes.
    pub media_blocks: f64,
}

/// One phase of one store.
#[derive(Debug, Clone)]
pub struct PhaseRow {
    /// The store's name.
    pub store: String,
    /// What its puts survive.
    pub durability: String,
    /// The phase.
    pub phase: Phase,
    /// Its rate in each repeat, in [`Phase::unit`].
    pub rates: Vec<f64>,
    operations: u64,
    traffic: Option<halite::Traffic>,
    index_bytes_per_record: Option<f64>,
}

impl PhaseRow {
    /// The repeats' rates in short.
    #[must_use]
    pub fn rate(&self) -> Summary {
        Summary::of(&self.rates).unwrap_or(Summary { min: 0.0, median: 0.0, max: 0.0 })
    }

    /// Traffic per put, if this is a phase of puts of a store that counts.
    #[must_use]
    pub fn put_traffic(&self) -> Option<PutTraffic> {
        if !matches!(self.phase, Phase::Load | Phase::Overwrite) {
            return None;
        }
        let traffic = self.traffic?;
        let per_put = |count: u64| count as f64 / self.operations as f64;
        Some(PutTraffic {
            fences: per_put(traffic.fences),
            flushes: per_put(traffic.flushes),
            lines: per_put(traffic.lines),
            media_blocks: per_put(traffic.media_blocks),
        })
    }

    /// Bytes of DRAM that the index takes for a record at the end of the phase, if the store counts.
    #[must_use]
    pub fn index_bytes_per_record(&self) -> Option<f64> {
        self.index_bytes_per_record
    }

    fn to_json(&self) -> Value {
        let rate = self.rate();
        let mut row = json!({
            "store": self.store,
            "phase": self.phase.name(),
            "unit": self.phase.unit(),
            "median": rate.median,
            "min": rate.min,
            "max": rate.max,
            "repeats": self.rates,
            "durability": self.durability,
        });
        if let Some(traffic) = self.put_traffic() {
            row["per_put"] = json!({
                "fences": traffic.fences,
                "flushes": traffic.flushes,
                "lines": traffic.lines,
                "media_blocks": traffic.media_blocks,
            });
        }
        if let Some(bytes) = self.index_bytes_per_record {
            row["index_bytes_per_record"] = json!(bytes);
        }
        row
    }
}

/// How much faster one store is than the best of others, in one phase.
#[derive(Debug, Clone, PartialEq)]
pub struct Ratio {
    /// The median rate over the best of the others' median rates.
    pub ratio: f64,
    /// Who that is.
    pub best: String,
}

/// All rows of a run.
#[derive(Debug, Clone)]
pub struct Report {
    options: KvOptions,
    rows: Vec<PhaseRow>,
}

impl Report {
    pub(crate) fn new(options: &KvOptions) -> Self {
        Self { options: options.clone(), rows: Vec::new() }
    }

    pub(crate) fn add(&mut self, store: &dyn Store, phase: Phase, measured: Measured) {
        let place = self.place(store.name(), phase);
        let row = match place {
            Some(place) => &mut self.rows[place],
            None => {
                self.rows.push(PhaseRow {
                    store: store.name().to_owned(),
                    durability: store.durability(),
                    phase,
                    rates: Vec::new(),
                    operations: 0,
                    traffic: None,
                    index_bytes_per_record: None,
                });
                let last = self.rows.len() - 1;
                &mut self.rows[last]
            }
        };
        let seconds = measured.duration.as_secs_f64().max(1e-9);
        row.rates.push(measured.operations as f64 / seconds);
        row.operations += measured.operations;
        if let Some(traffic) = measured.traffic {
            let sum = row.traffic.unwrap_or_default();
            row.traffic = Some(halite::Traffic {
                loads: sum.loads + traffic.loads,
                stores: sum.stores + traffic.stores,
                flushes: sum.flushes + traffic.flushes,
                fences: sum.fences + traffic.fences,
                lines: sum.lines + traffic.lines,
                media_blocks: sum.media_blocks + traffic.media_blocks,
            });
        }
        row.index_bytes_per_record = measured
            .counters
            .filter(|counters| counters.records > 0)
            .map(|counters| counters.index_bytes as f64 / counters.records as f64);
    }

    /// The rows: phase by phase, and in each, store by store.
    #[must_use]
    pub fn rows(&self) -> &[PhaseRow] {
        &self.rows
    }

    /// The row of one phase of one store.
    #[must_use]
    pub fn row(&self, store: &str, phase: Phase) -> Option<&PhaseRow> {
        self.place(store, phase).map(|place| &self.rows[place])
    }

    /// How `store` compares with the best of `others` in `phase`; `None` if there is no figure.
    #[must_use]
    pub fn ratio(&self, store: &str, others: &[&str], phase: Phase) -> Option<Ratio> {
        let own = self.row(store, phase)?.rate().median;
        let rows = others.iter().filter_map(|other| self.row(other, phase));
        let best = rows.max_by(|a, b| a.rate().median.total_cmp(&b.rate().median))?;
        Some(Ratio { ratio: own / best.rate().median, best: best.store.clone() })
    }

    /// Everything for machines.
    #[must_use]
    pub fn to_json(&self) -> Value {
        let options = &self.options;
        json!({
            "workload": "kv",
            "options": {
                "records": options.records,
                "key_len": options.key_len,
                "value_len": options.value_len,
                "overwrite": options.overwrite,
                "gets": options.gets,
                "scans": options.scans,
                "scan_len": options.scan_len,
                "repeats": options.repeats,
                "seed": options.seed,
            },
            "rows": self.rows.iter().map(PhaseRow::to_json).collect::<Vec<_>>(),
        })
    }

    fn place(&self, store: &str, phase: Phase) -> Option<usize> {
        self.rows.iter().position(|row| row.store == store && row.phase == phase)
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let options = &self.options;
        writeln!(
            f,
            "{} records of {} + {} bytes, one thread, {} repeats, seed {}; rates in thousands",
            options.records, options.key_len, options.value_len, options.repeats, options.seed
        )?;
        let width = self.rows.iter().map(|row| row.store.len()).max().unwrap_or(0).max(5);
        writeln!(
            f,
            "{:<13}  {:<width$}  {:>10}  {:>10}  {:>10}  {:<11}  {:>8}  durability",
            "phase", "store", "median", "min", "max", "unit", "ns each"
        )?;
        for row in &self.rows {
            let rate = row.rate();
            writeln!(
                f,
                "{:<13}  {:<width$}  {:>10.1}  {:>10.1}  {:>10.1}  {:<11}  {:>8.0}  {}",
                row.phase,
                row.store,
                rate.median / 1e3,
                rate.min / 1e3,
                rate.max / 1e3,
                format!("k {}", row.phase.unit()),
                1e9 / rate.median,
                row.durability,
            )?;
        }
        for row in &self.rows {
            if let Some(traffic) = row.put_traffic() {
                writeln!(
                    f,
                    "{}, per {}: {:.3} fences, {:.3} flushes, {:.3} lines of 64 B, \
                     {:.3} media blocks of 256 B",
                    row.store,
                    row.phase,
                    traffic.fences,
                    traffic.flushes,
                    traffic.lines,
                    traffic.media_blocks
                )?;
            }
            if let (Phase::Load, Some(bytes)) = (row.phase, row.index_bytes_per_record) {
                writeln!(f, "{}, index: {bytes:.1} bytes of DRAM a record", row.store)?;
            }
        }
        Ok(())
    }
}
