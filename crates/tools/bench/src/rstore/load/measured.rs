//! The figures of all threads together.

use std::time::Duration;

use hdrhistogram::Histogram;

use super::recorder::{KINDS, Recorder, WINDOW_NS};
use super::{Pace, Shared, Target};
use crate::summary::deviation;
use crate::{Error, Result, Sample};

/// The percentiles that are reported, with their names.
const PERCENTILES: [(&str, f64); 4] =
    [("p50", 0.5), ("p99", 0.99), ("p99.9", 0.999), ("p99.99", 0.9999)];

/// The figures of a phase.
pub struct Measured {
    /// Replies in the measured time.
    pub operations: u64,
    /// Replies of the whole phase, the warm-up included.
    pub all_operations: u64,
    /// The measured time.
    pub duration: Duration,
    /// Requests that were due in it and had no reply long after it.
    pub unanswered: u64,
    keys: u64,
    windows: Vec<f64>,
    latencies: Vec<(&'static str, Histogram<u64>)>,
    /// How much later than due requests of an open loop were sent.
    delays: Option<Histogram<u64>>,
    busy: f64,
}

impl Measured {
    pub(super) fn of(
        target: &Target,
        shared: &Shared<'_>,
        recorders: Vec<Recorder>,
    ) -> Result<Self> {
        let wrong: u64 = recorders.iter().map(|recorder| recorder.wrong).sum();
        let replies: u64 = recorders.iter().map(|recorder| recorder.replies).sum();
        if let Some(first) = recorders.iter().find(|recorder| recorder.wrong > 0) {
            return Err(Error::Replies {
                server: target.name.clone(),
                wrong,
                replies: replies + wrong,
                first: first.first_wrong.clone(),
            });
        }
        let last_ns = recorders.iter().map(|recorder| recorder.last_ns).max().unwrap_or(0);
        let time_ns = match shared.pace {
            Pace::Operations(_) => last_ns,
            Pace::Closed(time) | Pace::Open { time, .. } => time.as_nanos() as u64,
        };
        let mut latencies = Vec::new();
        for (place, kind) in KINDS.into_iter().enumerate() {
            let all = merged(recorders.iter().map(|recorder| &recorder.latencies[place]));
            latencies.extend(all.filter(|all| !all.is_empty()).map(|all| (kind, all)));
        }
        if latencies.len() > 1 {
            let all = merged(latencies.iter().map(|(_, histogram)| histogram));
            latencies.extend(all.map(|all| ("latency", all)));
        }
        let is_open_loop = matches!(shared.pace, Pace::Open { .. });
        let delays = is_open_loop.then(|| merged(recorders.iter().map(|r| &r.delays))).flatten();
        // The last window may be a part of one.
        let count = (time_ns / WINDOW_NS) as usize;
        let in_window = |window: usize| -> u64 {
            recorders.iter().filter_map(|recorder| recorder.windows.get(window)).sum()
        };
        let per_second = |count: u64| count as f64 * 1e9 / WINDOW_NS as f64;
        let cpu_ns: u64 = recorders.iter().map(|recorder| recorder.cpu_ns).sum();
        let (begin_ns, _) = shared.measured_ns();
        let lifetime_ns = (begin_ns + time_ns) * recorders.len() as u64;
        Ok(Self {
            operations: replies,
            all_operations: recorders.iter().map(|recorder| recorder.all_replies).sum(),
            duration: Duration::from_nanos(time_ns),
            unanswered: recorders.iter().map(|recorder| recorder.unanswered).sum(),
            keys: recorders.iter().map(|recorder| recorder.keys).sum(),
            windows: (0..count).map(|window| per_second(in_window(window))).collect(),
            latencies,
            delays,
            busy: cpu_ns as f64 / lifetime_ns.max(1) as f64,
        })
    }

    /// Operations a second.
    #[must_use]
    pub fn throughput(&self) -> f64 {
        Sample::throughput(self.operations, self.duration).value
    }

    /// The latency that a part of all operations does not exceed, in ns; of a kind (`get`, `put`, `scan`), or of all
    /// (`latency`). `None` if there was no such operation.
    #[must_use]
    pub fn latency_ns(&self, kind: &str, quantile: f64) -> Option<u64> {
        let of_kind = |name: &str| self.latencies.iter().find(|(known, _)| *known == name);
        let found = of_kind(kind).or_else(|| match (kind, &self.latencies[..]) {
            ("latency", [only]) => Some(only),
            _ => None,
        });
        found.map(|(_, histogram)| histogram.value_at_quantile(quantile))
    }

    /// Returns all samples, as docs/BENCH.md lists them: of a schedule, the latencies of each kind of operation.
    #[must_use]
    pub fn samples(&self) -> Vec<Sample> {
        let mut samples = vec![Sample::throughput(self.operations, self.duration)];
        let mut add = |metric: &str, unit: &str, value: f64| {
            samples.push(Sample::new(metric, unit, value));
        };
        if let Some(deviation) = deviation(&self.windows) {
            add("throughput-stddev", "op/s", deviation);
        }
        if self.keys > 0 {
            add("keys", "key/s", self.keys as f64 / self.duration.as_secs_f64().max(1e-9));
        }
        // In a closed loop it is the number of connections that makes most of a latency.
        let is_open_loop = self.delays.is_some();
        let of_all = self.latencies.len().saturating_sub(1);
        let shown = if is_open_loop { &self.latencies[..] } else { &self.latencies[of_all..] };
        for (kind, histogram) in shown {
            let percentiles = if is_open_loop { &PERCENTILES[..] } else { &PERCENTILES[..3] };
            for (name, quantile) in percentiles.iter().copied() {
                let value = histogram.value_at_quantile(quantile) as f64;
                add(&format!("{kind}-{name}"), "ns", value);
            }
            if is_open_loop {
                add(&format!("{kind}-max"), "ns", histogram.max() as f64);
            }
        }
        if let Some(delays) = &self.delays {
            add("send-delay-p99.9", "ns", delays.value_at_quantile(0.999) as f64);
            add("unanswered", "op", self.unanswered as f64);
        }
        add("client-busy", "%", 100.0 * self.busy);
        samples
    }
}

fn merged<'a>(mut all: impl Iterator<Item = &'a Histogram<u64>>) -> Option<Histogram<u64>> {
    let mut sum = all.next()?.clone();
    for histogram in all {
        // All have the same bounds.
        let _ = sum.add(histogram);
    }
    Some(sum)
}
