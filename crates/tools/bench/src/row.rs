//! The rows that every experiment yields, and their stable form in JSON.

use serde_json::{Map, Value, json};

use crate::Summary;

/// The parameters of an experiment: names and values, in the order in which tables show them.
pub type Params = Map<String, Value>;

/// One figure of one subject.
///
/// In JSON a run is an array of such rows, each an object with all of these fields in this order;
/// docs/BENCH.md has the names of the experiments and their metrics.
#[derive(Debug, Clone, PartialEq)]
pub struct Row {
    /// The experiment: `blocks.log`, `device.read`, `kv.ycsb-a`.
    pub experiment: String,
    /// The measured system: `poplog`, `halite`, `rocksdb`.
    pub subject: String,
    /// The parameters.
    pub params: Params,
    /// The metric: `throughput`, `latency-p99`, `fences`.
    pub metric: String,
    /// The unit: `op/s`, `ns`, `B/s`, `1/op`.
    pub unit: String,
    /// The median of the repeats.
    pub value: f64,
    /// The least of the repeats.
    pub min: f64,
    /// The largest of the repeats.
    pub max: f64,
    /// The physical limit measured in the same run, in the same unit, where there is one.
    pub limit: Option<f64>,
    /// The source's value, in the same unit, if the source has it.
    pub source: Option<f64>,
}

impl Row {
    /// A row of repeats; `None` without repeats.
    #[must_use]
    pub fn of(experiment: &str, subject: &str, params: &Params, sample: &Repeats) -> Option<Self> {
        let summary = Summary::of(&sample.values)?;
        Some(Self {
            experiment: experiment.to_owned(),
            subject: subject.to_owned(),
            params: params.clone(),
            metric: sample.metric.clone(),
            unit: sample.unit.clone(),
            value: summary.median,
            min: summary.min,
            max: summary.max,
            limit: None,
            source: None,
        })
    }

    /// The object in JSON.
    #[must_use]
    pub fn to_json(&self) -> Value {
        json!({
            "experiment": self.experiment,
            "subject": self.subject,
            "params": self.params,
            "metric": self.metric,
            "unit": self.unit,
            "value": self.value,
            "min": self.min,
            "max": self.max,
            "limit": self.limit,
            "source": self.source,
        })
    }
}

/// One metric of one measurement.
#[derive(Debug, Clone, PartialEq)]
pub struct Sample {
    /// As in [`Row::metric`].
    pub metric: String,
    /// As in [`Row::unit`].
    pub unit: String,
    /// The figure.
    pub value: f64,
}

impl Sample {
    /// A figure.
    #[must_use]
    pub fn new(metric: impl Into<String>, unit: impl Into<String>, value: f64) -> Self {
        Self { metric: metric.into(), unit: unit.into(), value }
    }

    /// Returns so many operations in that time, as `throughput` in `op/s`.
    #[must_use]
    pub fn throughput(operations: u64, time: std::time::Duration) -> Self {
        Self::new("throughput", "op/s", operations as f64 / time.as_secs_f64().max(1e-9))
    }
}

/// All repeats of one metric.
#[derive(Debug, Clone, PartialEq)]
pub struct Repeats {
    /// As in [`Row::metric`].
    pub metric: String,
    /// As in [`Row::unit`].
    pub unit: String,
    /// One value a repeat.
    pub values: Vec<f64>,
}
