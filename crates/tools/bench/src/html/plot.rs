//! From rows to plots: which row is which point of which series in which panel.

use serde_json::Value;

use super::figures::{BY_EXPERIMENT, BY_PERCENTILE, Figure, Form, matches};
use super::grid::{param_names, param_text};
use super::shape::Shape;
use crate::LIMIT;
use crate::row::Row;

/// A figure, ready to be drawn.
pub(crate) struct Plot<'a> {
    /// Whether its panels have bars; lines otherwise.
    pub(crate) bars: bool,
    /// The parameter or value of the horizontal axis.
    pub(crate) x: X,
    /// Its name.
    pub(crate) x_label: String,
    /// The name of the axis of values.
    pub(crate) y_label: String,
    /// The unit of all values.
    pub(crate) unit: &'a str,
    /// Parameters that all rows share.
    pub(crate) common: Vec<String>,
    /// The panels.
    pub(crate) panels: Vec<Panel<'a>>,
    /// Whether they share the axis of values.
    pub(crate) same_scale: bool,
    /// Values that no chart can show.
    pub(crate) hidden: usize,
}

/// The horizontal axis, or the groups of bars.
pub(crate) enum X {
    /// Numbers.
    Numbers {
        /// Lengths in bytes.
        lengths: bool,
        /// Spread by their logarithm.
        log: bool,
    },
    /// Names, at 0, 1, 2...
    Names(Vec<String>),
}

/// One chart of a figure.
pub(crate) struct Panel<'a> {
    /// The parameters that its rows share and other panels do not.
    pub(crate) title: String,
    /// One a subject.
    pub(crate) series: Vec<Series<'a>>,
    /// The limits at each place of the horizontal axis, where all subjects have the same.
    pub(crate) limits: Vec<(f64, f64)>,
}

/// The values of one subject.
pub(crate) struct Series<'a> {
    /// The subject.
    pub(crate) subject: &'a str,
    /// The place in the topic's list of subjects: its colour and marker.
    pub(crate) style: usize,
    /// The values, from left to right.
    pub(crate) points: Vec<Point<'a>>,
}

/// One row.
pub(crate) struct Point<'a> {
    /// The place on the axis.
    pub(crate) x: f64,
    /// The place in words.
    pub(crate) x_text: String,
    /// The row of the figure.
    pub(crate) row: &'a Row,
}

/// The plots of `figure`, one a unit, and the rows that it takes.
pub(crate) fn chosen<'a>(
    figure: &Figure,
    rows: &[&'a Row],
    styles: &[&str],
) -> (Vec<Plot<'a>>, Vec<&'a Row>) {
    let wanted = |row: &&&Row| matches(figure.metric, &row.metric) && (figure.keep)(row);
    let mut groups: Vec<(&str, &str, Vec<&'a Row>)> = Vec::new();
    for &row in rows.iter().filter(wanted) {
        // Different metrics share a plot only where they are its horizontal axis.
        let metric = if figure.x.contains(&BY_PERCENTILE) { "" } else { row.metric.as_str() };
        match groups.iter_mut().find(|group| (group.0, group.1) == (metric, row.unit.as_str())) {
            Some(group) => group.2.push(row),
            None => groups.push((metric, &row.unit, vec![row])),
        }
    }
    let (mut plots, mut taken) = (Vec::new(), Vec::new());
    for (metric, _, rows) in groups {
        let has = |name: &&&str| {
            name.starts_with('@') || rows.iter().any(|r| r.params.contains_key(**name))
        };
        let Some(x) = figure.x.iter().find(has).copied().or(figure.x.is_empty().then_some(""))
        else {
            continue;
        };
        let named =
            if figure.y_label.is_empty() { sentence(metric) } else { figure.y_label.to_owned() };
        let shape = Shape {
            form: figure.form,
            x,
            x_label: figure.x_label,
            y_label: named,
            split: figure.split,
            same_scale: figure.same_scale,
        };
        if let Some(plot) = shape.plot(&rows, styles) {
            let drawn = plot.panels.iter().flat_map(|panel| &panel.series);
            taken.extend(drawn.flat_map(|series| series.points.iter().map(|point| point.row)));
            taken.extend(rows.iter().filter(|row| row.subject == LIMIT));
            plots.push(plot);
        }
    }
    (plots, taken)
}

/// A plot of rows that no figure takes: all of one metric and unit. The parameter with the most
/// numbers is the horizontal axis; without one, each value is a bar.
pub(crate) fn general<'a>(rows: &[&'a Row], styles: &[&str]) -> Option<Plot<'a>> {
    let distinct = |name: &str| {
        let mut texts: Vec<String> = rows.iter().map(|row| param_text(row, name)).collect();
        texts.sort();
        texts.dedup();
        texts.len()
    };
    let names = param_names(rows);
    let numeric =
        |name: &&&str| rows.iter().all(|row| row.params.get(**name).is_some_and(Value::is_number));
    let widest =
        names.iter().filter(numeric).filter(|n| distinct(n) >= 3).max_by_key(|n| distinct(n));
    let group = names.iter().filter(|name| distinct(name) >= 2).max_by_key(|name| distinct(name));
    let several = rows.iter().any(|row| row.experiment != rows[0].experiment);
    let x = match (widest.or(group), several) {
        (Some(name), _) => name,
        (None, true) => BY_EXPERIMENT,
        (None, false) => "",
    };
    let form = match widest {
        Some(name) if is_wide(rows, name) => Form::LinesLog,
        Some(_) => Form::Lines,
        None => Form::Bars,
    };
    let y_label = sentence(&rows.first()?.metric);
    let x_label = sentence(x.trim_start_matches('@'));
    Shape { form, x, x_label: &x_label, y_label, split: None, same_scale: true }.plot(rows, styles)
}

/// Whether the numbers are better shown by their logarithm.
fn is_wide(rows: &[&Row], name: &str) -> bool {
    let numbers = || rows.iter().filter_map(|row| row.params.get(name)?.as_f64());
    let (least, most) = (numbers().fold(f64::INFINITY, f64::min), numbers().fold(0.0, f64::max));
    least > 0.0 && most / least > 16.0
}

fn sentence(name: &str) -> String {
    let mut chars = name.chars();
    match chars.next() {
        Some(first) => {
            first.to_uppercase().chain(chars).collect::<String>().replace(['-', '_'], " ")
        }
        None => String::new(),
    }
}
