//! The figures of the report, and the rows that each is drawn from.
//!
//! A topic takes the rows of its experiments; its figures are drawn from those of them that have their metric. Rows
//! that no figure takes are drawn by [`super::plot`]'s general choice, and every row is in the topic's table.

use crate::row::Row;

/// The names for the horizontal axis, or for the groups of bars: parameters, and these two.
pub(crate) const BY_EXPERIMENT: &str = "@experiment";
/// See [`BY_EXPERIMENT`]; for the metrics that [`PERCENTILES`] names.
pub(crate) const BY_PERCENTILE: &str = "@percentile";
/// The metrics `get-p50`, `get-p99.9`, `put-max`...
pub(crate) const PERCENTILES: &str = "@percentiles";

/// How a figure is drawn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Form {
    /// Values over a number, evenly spaced.
    Lines,
    /// Values over the logarithm of a number.
    LinesLog,
    /// A bar a value.
    Bars,
}

/// Experiments that belong together.
pub(crate) struct Topic {
    /// The part of the report that it is in.
    pub(crate) part: &'static str,
    /// The heading.
    pub(crate) title: &'static str,
    /// Their names; one that ends in `*` is a prefix.
    pub(crate) experiments: &'static [&'static str],
    /// The figures.
    pub(crate) figures: &'static [Figure],
    /// Whether the table is the topic's main content, and so unfolded.
    pub(crate) table_open: bool,
}

/// A figure.
pub(crate) struct Figure {
    /// Its number in van Renen's paper, or in another source that it names; empty if no source has it.
    pub(crate) number: &'static str,
    /// Its title.
    pub(crate) title: &'static str,
    /// The finding in it, and that of the paper.
    pub(crate) caption: &'static str,
    /// The metric; a prefix, if it ends in `*`; all, if it is `*`.
    pub(crate) metric: &'static str,
    /// How it is drawn.
    pub(crate) form: Form,
    /// The horizontal axis or the groups: the first of these that rows have.
    pub(crate) x: &'static [&'static str],
    /// The label of that axis.
    pub(crate) x_label: &'static str,
    /// The label of the axis of values.
    pub(crate) y_label: &'static str,
    /// Subjects that end so have a panel of their own, beside that of the others: the ending and the
    /// two panels' names.
    pub(crate) split: Option<(&'static str, [&'static str; 2])>,
    /// Whether all panels have the same axis of values.
    pub(crate) same_scale: bool,
    /// Which rows it is about.
    pub(crate) keep: fn(&Row) -> bool,
}

/// Whether `name` is `pattern`, begins with the part of `pattern` before the `*` at its end, or is one of the
/// [`PERCENTILES`].
pub(crate) fn matches(pattern: &str, name: &str) -> bool {
    if pattern == PERCENTILES {
        return percentile(name).is_some();
    }
    match pattern.strip_suffix('*') {
        Some(prefix) => name.starts_with(prefix),
        None => name == pattern,
    }
}

/// Splits `get-p99.9` into `get` and `p99.9`.
pub(crate) fn percentile(metric: &str) -> Option<(&str, &str)> {
    let (operation, rank) = metric.rsplit_once('-')?;
    let digits = rank.strip_prefix('p').is_some_and(|digits| digits.parse::<f64>().is_ok());
    (digits || rank == "max").then_some((operation, rank))
}

const fn all(_: &Row) -> bool {
    true
}

/// The common settings of most figures.
pub(crate) const LINES: Figure = Figure {
    number: "",
    title: "",
    caption: "",
    metric: "throughput",
    form: Form::Lines,
    x: &[],
    x_label: "",
    y_label: "Throughput",
    split: None,
    same_scale: true,
    keep: all,
};

/// The part and the heading of rows that no topic takes.
pub(crate) const OTHERS: &str = "Other experiments";
