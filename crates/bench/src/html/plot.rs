//! From rows to plots: which row is which point of which series in which panel.

use serde_json::Value;

use super::figures::{BY_EXPERIMENT, BY_METRIC, Figure, Form, matches};
use crate::LIMIT;
use crate::grid::{param_names, param_text};
use crate::row::Row;

/// A figure, ready to be drawn.
pub(crate) struct Plot<'a> {
    /// Whether its panels have bars; lines otherwise.
    pub(crate) bars: bool,
    /// What the horizontal axis is made of.
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
    /// What its rows share, and those of other panels do not.
    pub(crate) title: String,
    /// One a subject.
    pub(crate) series: Vec<Series<'a>>,
    /// The limits at each place of the horizontal axis, where all subjects have the same.
    pub(crate) limits: Vec<(f64, f64)>,
}

/// The values of one subject.
pub(crate) struct Series<'a> {
    /// Who.
    pub(crate) subject: &'a str,
    /// Where it is in the topic's list of subjects: its colour and marker.
    pub(crate) style: usize,
    /// The values, from left to right.
    pub(crate) points: Vec<Point<'a>>,
}

/// One row.
pub(crate) struct Point<'a> {
    /// Where.
    pub(crate) x: f64,
    /// In words.
    pub(crate) x_text: String,
    /// What.
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
        let metric = if figure.x.contains(&BY_METRIC) { "" } else { row.metric.as_str() };
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

/// How rows become a plot.
struct Shape<'s> {
    form: Form,
    x: &'s str,
    x_label: &'s str,
    y_label: String,
    split: Option<(&'static str, [&'static str; 2])>,
    same_scale: bool,
}

impl Shape<'_> {
    fn plot<'a>(self, rows: &[&'a Row], styles: &[&str]) -> Option<Plot<'a>> {
        let first = rows.first()?;
        let x_of = |row: &Row| match self.x {
            BY_EXPERIMENT => {
                row.experiment.split_once('.').map_or(&*row.experiment, |(_, n)| n).to_owned()
            }
            BY_METRIC => row.metric.strip_prefix("latency-").unwrap_or(&row.metric).to_owned(),
            "" => String::new(),
            name => param_text(row, name),
        };
        let number = |row: &Row| row.params.get(self.x).and_then(Value::as_f64);
        let mut numbers: Vec<f64> = rows.iter().filter_map(|row| number(row)).collect();
        let only_numbers = numbers.len() == rows.len();
        numbers.sort_by(f64::total_cmp);
        numbers.dedup();
        // One place is no line.
        let bars = self.form == Form::Bars || (only_numbers && numbers.len() < 2);
        let x = if only_numbers && !bars {
            let log = self.form == Form::LinesLog && numbers[0] > 0.0;
            X::Numbers { lengths: crate::quantity::is_length(self.x), log }
        } else {
            let mut names: Vec<String> = Vec::new();
            let mut sorted: Vec<&&Row> = rows.iter().collect();
            if only_numbers {
                sorted
                    .sort_by(|a, b| number(a).unwrap_or(0.0).total_cmp(&number(b).unwrap_or(0.0)));
            }
            for name in sorted.into_iter().map(|row| x_of(row)) {
                if !names.contains(&name) {
                    names.push(name);
                }
            }
            X::Names(names)
        };

        let others: Vec<&str> =
            param_names(rows).into_iter().filter(|name| *name != self.x).collect();
        let varies =
            |name: &&&str| rows.iter().any(|row| param_text(row, name) != param_text(first, name));
        let facets: Vec<&str> = others.iter().filter(varies).copied().collect();
        let common = others.iter().filter(|name| !facets.contains(name));
        let common = common.map(|name| labelled(first, name)).collect();
        let experiments =
            self.x == BY_METRIC && rows.iter().any(|row| row.experiment != first.experiment);

        let mut panels: Vec<Panel<'a>> = Vec::new();
        let mut hidden = 0;
        for &row in rows {
            let place = match &x {
                X::Numbers { .. } => number(row),
                X::Names(names) => {
                    names.iter().position(|name| *name == x_of(row)).map(|p| p as f64)
                }
            };
            let Some(place) = place else { continue };
            hidden += usize::from(!super::scale::drawable(row.value));
            let (subject, split) = match self.split {
                Some((ending, [without, with])) => match row.subject.strip_suffix(ending) {
                    Some(subject) => (subject, Some(with)),
                    None => (row.subject.as_str(), Some(without)),
                },
                None => (row.subject.as_str(), None),
            };
            let experiment = experiments.then(|| {
                row.experiment.split_once('.').map_or(&*row.experiment, |(_, name)| name).to_owned()
            });
            let facets =
                facets.iter().map(|name| labelled(row, name)).filter(|label| !label.is_empty());
            let title = experiment.into_iter().chain(split.map(str::to_owned)).chain(facets);
            let title = title.collect::<Vec<_>>().join(" · ");
            let panel = match panels.iter_mut().position(|panel| panel.title == title) {
                Some(place) => &mut panels[place],
                None => {
                    panels.push(Panel { title, series: Vec::new(), limits: Vec::new() });
                    let last = panels.len() - 1;
                    &mut panels[last]
                }
            };
            let series = match panel.series.iter_mut().position(|series| series.subject == subject)
            {
                Some(place) => &mut panel.series[place],
                None => {
                    let style = styles.iter().position(|style| *style == subject).unwrap_or(0);
                    panel.series.push(Series { subject, style, points: Vec::new() });
                    let last = panel.series.len() - 1;
                    &mut panel.series[last]
                }
            };
            series.points.push(Point { x: place, x_text: x_of(row), row });
        }
        if !bars {
            // Where all points are at one place, there is no line to see; another figure has them.
            panels.retain(|panel| {
                let mut places = panel.series.iter().flat_map(|series| &series.points).map(|p| p.x);
                let first = places.next();
                places.any(|place| Some(place) != first)
            });
        }
        // The limit of a log is that of the naive ones too, which have no subject of that name.
        for panel in &mut panels {
            panel.settle();
        }
        if panels.is_empty() {
            return None;
        }
        let Self { x_label, y_label, same_scale, .. } = self;
        let x_label = x_label.to_owned();
        Some(Plot {
            bars,
            x,
            x_label,
            y_label,
            unit: &first.unit,
            common,
            panels,
            same_scale,
            hidden,
        })
    }
}

impl Panel<'_> {
    /// Sorts the points, and finds the limits that all subjects share. The subject that is the limit
    /// is then no series of its own.
    fn settle(&mut self) {
        let mut limits: Vec<(f64, f64)> = Vec::new();
        let mut shared = true;
        for series in &mut self.series {
            series.points.sort_by(|a, b| a.x.total_cmp(&b.x));
            for point in &series.points {
                let Some(limit) = point.row.limit.filter(|limit| super::scale::drawable(*limit))
                else {
                    continue;
                };
                match limits.iter().find(|(x, _)| *x == point.x) {
                    Some((_, known)) => shared &= (known - limit).abs() <= 0.01 * limit.abs(),
                    None => limits.push((point.x, limit)),
                }
            }
        }
        limits.sort_by(|a, b| a.0.total_cmp(&b.0));
        if shared {
            self.limits = limits;
        }
        if !self.limits.is_empty() && self.series.iter().any(|series| series.subject != LIMIT) {
            self.series.retain(|series| series.subject != LIMIT);
        }
    }
}

/// A parameter as a reader wants it: numbers with their name, words without.
fn labelled(row: &Row, name: &str) -> String {
    match row.params.get(name) {
        None => String::new(),
        Some(Value::String(text)) => text.clone(),
        Some(Value::Number(number)) if name == "threads" => {
            format!("{number} thread{}", if number.as_u64() == Some(1) { "" } else { "s" })
        }
        Some(_) => format!("{name} {}", param_text(row, name)),
    }
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
