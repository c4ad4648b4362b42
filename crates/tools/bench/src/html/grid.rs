//! Rows arranged for a table: one grid for each experiment, with the parameters that all its rows share stated once.

use super::quantity;
use crate::row::Row;

/// The experiment of the row that describes the run itself; docs/BENCH.md has its parameters.
pub(crate) const RUN: &str = "run";

/// The rows of one experiment.
pub(crate) struct Grid<'a> {
    /// Its name.
    pub(crate) experiment: &'a str,
    /// Parameters that all rows share, and their value.
    pub(crate) common: Vec<(&'a str, String)>,
    /// The others' names.
    pub(crate) params: Vec<&'a str>,
    /// The rows.
    pub(crate) lines: Vec<Line<'a>>,
}

/// One row.
pub(crate) struct Line<'a> {
    /// Values of [`Grid::params`], empty where the row lacks one.
    pub(crate) params: Vec<String>,
    /// As in [`Row::subject`].
    pub(crate) subject: &'a str,
    /// As in [`Row::metric`].
    pub(crate) metric: &'a str,
    /// The value with its unit.
    pub(crate) value: String,
    /// The spread from the least repeat to the largest.
    pub(crate) spread: String,
    /// How much of the limit the value is.
    pub(crate) of_limit: String,
    /// The source's value.
    pub(crate) source: String,
}

/// The columns behind the parameters.
pub(crate) const COLUMNS: [&str; 6] =
    ["subject", "metric", "value", "min–max", "of limit", "paper"];

impl Line<'_> {
    /// The cells of [`COLUMNS`].
    pub(crate) fn cells(&self) -> [&str; 6] {
        [self.subject, self.metric, &self.value, &self.spread, &self.of_limit, &self.source]
    }
}

/// One grid an experiment, in the order in which they first appear.
pub(crate) fn grids<'a>(rows: impl IntoIterator<Item = &'a Row>) -> Vec<Grid<'a>> {
    let mut by_experiment: Vec<(&str, Vec<&Row>)> = Vec::new();
    for row in rows.into_iter().filter(|row| row.experiment != RUN) {
        match by_experiment.iter_mut().find(|(name, _)| *name == row.experiment) {
            Some((_, rows)) => rows.push(row),
            None => by_experiment.push((&row.experiment, vec![row])),
        }
    }
    by_experiment.into_iter().map(|(experiment, rows)| grid(experiment, &rows)).collect()
}

/// Names of parameters, in the order in which they first appear.
pub(crate) fn param_names<'a>(rows: &[&'a Row]) -> Vec<&'a str> {
    let mut names: Vec<&str> = Vec::new();
    for name in rows.iter().flat_map(|row| row.params.keys()) {
        if !names.contains(&name.as_str()) {
            names.push(name);
        }
    }
    names
}

/// A row's value of a parameter; empty if the row lacks it.
pub(crate) fn param_text(row: &Row, name: &str) -> String {
    row.params.get(name).map(|value| quantity::param(name, value)).unwrap_or_default()
}

fn grid<'a>(experiment: &'a str, rows: &[&'a Row]) -> Grid<'a> {
    let mut common = Vec::new();
    let mut params = Vec::new();
    for name in param_names(rows) {
        let first = param_text(rows[0], name);
        if rows.iter().all(|row| param_text(row, name) == first) {
            common.push((name, first));
        } else {
            params.push(name);
        }
    }
    let line = |row: &&'a Row| Line {
        params: params.iter().map(|name| param_text(row, name)).collect(),
        subject: &row.subject,
        metric: &row.metric,
        value: quantity::text(row.value, &row.unit),
        spread: quantity::spread(row.min, row.max, &row.unit),
        of_limit: quantity::of_limit(row.value, row.limit),
        source: row.source.map(|source| quantity::text(source, &row.unit)).unwrap_or_default(),
    };
    Grid { experiment, common, lines: rows.iter().map(line).collect(), params }
}
