//! The requirements beside the measurements: a row has both sides of a comparison and says whether the requirement
//! holds.

use serde_json::json;

use crate::{Params, Repeats, Row};

/// A bound of the left side, or of its ratio to the right one.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Bound {
    AtLeast(f64),
    AtMost(f64),
}

impl Bound {
    fn holds(self, value: f64) -> bool {
        match self {
            Self::AtLeast(least) => value >= least,
            Self::AtMost(most) => value <= most,
        }
    }

    fn param(self) -> (&'static str, f64) {
        match self {
            Self::AtLeast(least) => ("at-least", least),
            Self::AtMost(most) => ("at-most", most),
        }
    }
}

/// Parameters of the measurements that a row of a requirement repeats.
pub(crate) const SHOWN: [&str; 14] = [
    "ended",
    "index",
    "value-len",
    "mix",
    "pipeline",
    "load-percent",
    "distribution",
    "op",
    "order",
    "keys",
    "threads",
    "batch",
    "bytes",
    "fill",
];

/// The row of `experiment` with the value of `ours` by itself, or beside the value and subject of `theirs`.
pub(crate) fn row(experiment: &str, ours: &Row, theirs: Option<(&str, f64)>, bound: Bound) -> Row {
    let mut params = Params::new();
    params.insert("of".to_owned(), json!(format!("{} {}", ours.experiment, ours.metric)));
    for name in SHOWN.into_iter().chain(["records"]) {
        if let Some(value) = ours.params.get(name) {
            params.insert(name.to_owned(), value.clone());
        }
    }
    params.insert("ours".to_owned(), json!(ours.value));
    if let Some((subject, value)) = theirs {
        params.insert("beside".to_owned(), json!(subject));
        params.insert("theirs".to_owned(), json!(value));
    }
    params.insert("sides-unit".to_owned(), json!(ours.unit));
    let (name, limit) = bound.param();
    params.insert(name.to_owned(), json!(limit));
    let value = theirs.map_or(ours.value, |(_, value)| ours.value / value);
    params.insert("holds".to_owned(), json!(bound.holds(value)));
    let (metric, unit) = match theirs {
        Some(_) => ("ratio", "x"),
        None => ("value", ours.unit.as_str()),
    };
    let (metric, unit) = (metric.to_owned(), unit.to_owned());
    let repeats = Repeats { metric, unit, values: vec![value] };
    Row::of(experiment, &ours.subject, &params, &repeats).expect("one value has a median")
}
