//! The limits: the best figures that the experiments before found, which other results are compared
//! with.

use super::{bandwidth, persist, read};
use crate::{Params, Result, Row, Run, RunOptions};

/// The experiment's name in rows.
pub const NAME: &str = "device.limits";

/// The number of its measurements: zero.
#[must_use]
pub fn plan(_: &RunOptions) -> u64 {
    0
}

/// Adds a row for each limit that was measured in this run: `read-latency` is that of random reads in the largest
/// working set, the others are the best of all rows, with the peaks of the paper (table 2).
///
/// # Errors
/// None.
pub fn run(run: &mut Run<'_>) -> Result<()> {
    let rows = run.rows();
    let least = |a: &&Row, b: &&Row| a.value.total_cmp(&b.value);
    let of = |experiment: &'static str| rows.iter().filter(move |row| row.experiment == experiment);
    let latency = |subject: &'static str| {
        of(read::NAME)
            .filter(|row| row.metric == "latency" && row.params["pattern"] == "random")
            .filter(|row| row.subject == subject)
            .max_by_key(|row| row.params["bytes"].as_u64())
    };
    let rate = |subjects: &'static [&str]| {
        of(bandwidth::NAME).filter(|row| subjects.contains(&row.subject.as_str())).max_by(least)
    };
    let persisted = of(persist::NAME).min_by(least);
    let limits = [
        ("pool", "read-latency", latency("pool"), Some(300.0)),
        ("pool", "persist-latency", persisted, None),
        ("pool", "read-bandwidth", rate(&["load"]), Some(39.1e9)),
        ("pool", "write-bandwidth", rate(&["store+clwb", "non-temporal"]), Some(12.5e9)),
        ("dram", "read-latency", latency("dram"), Some(85.0)),
        ("dram", "read-bandwidth", rate(&["dram-load"]), Some(113.8e9)),
        ("dram", "write-bandwidth", rate(&["dram-store"]), Some(92.5e9)),
    ];
    let limits: Vec<Row> = limits
        .into_iter()
        .filter_map(|(subject, metric, row, source)| {
            Some(Row {
                experiment: NAME.to_owned(),
                subject: subject.to_owned(),
                params: Params::new(),
                metric: metric.to_owned(),
                source,
                ..row?.clone()
            })
        })
        .collect();
    limits.into_iter().for_each(|row| run.push(row));
    Ok(())
}
