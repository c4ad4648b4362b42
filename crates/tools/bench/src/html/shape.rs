//! How rows become the panels, series and points of a plot.

use std::collections::HashMap;

use serde_json::Value;

use super::figures::{BY_EXPERIMENT, BY_PERCENTILE, Form, percentile};
use super::grid::{param_names, param_text};
use super::plot::{Panel, Plot, Point, Series, X};
use super::quantity;
use super::scale::drawable;
use crate::LIMIT;
use crate::row::Row;

/// The parameter for the durability of a store's acknowledged writes. It belongs to the subject: as a parameter it
/// would separate stores that are to be compared.
pub(crate) const DURABILITY: &str = "durability";

/// Parameters that belong to the subject alone.
const OF_SUBJECT: [&str; 2] = [DURABILITY, "server-threads"];

/// The settings by which a plot is made.
pub(crate) struct Shape<'s> {
    /// As in [`super::figures::Figure::form`].
    pub(crate) form: Form,
    /// The horizontal axis or the groups; empty for neither.
    pub(crate) x: &'s str,
    /// Its name.
    pub(crate) x_label: &'s str,
    /// The name of the axis of values.
    pub(crate) y_label: String,
    /// As in [`super::figures::Figure::split`].
    pub(crate) split: Option<(&'static str, [&'static str; 2])>,
    /// Whether all panels have the same axis of values.
    pub(crate) same_scale: bool,
}

impl Shape<'_> {
    /// The plot of these rows, all of one unit; `None` if there is no value to draw.
    pub(crate) fn plot<'a>(self, rows: &[&'a Row], styles: &[&str]) -> Option<Plot<'a>> {
        let first = rows.first()?;
        let (x, bars) = self.axis(rows);
        let facets = self.facets(rows);
        let same = |name: &&str| {
            let text = param_text(first, name);
            *name != self.x && rows.iter().all(|row| param_text(row, name) == text)
        };
        let common = param_names(rows).into_iter().filter(same);
        let common = common.map(|name| labelled(first, name)).collect();

        let mut panels: Vec<Panel<'a>> = Vec::new();
        let mut hidden = 0;
        for &row in rows {
            let x_text = self.text(row);
            let place = match &x {
                X::Numbers { .. } => self.number(row),
                X::Names(names) => names.iter().position(|name| *name == x_text).map(|p| p as f64),
            };
            let Some(place) = place else { continue };
            hidden += usize::from(!drawable(row.value));
            let (subject, title) = self.panel(row, &facets, rows);
            let panel = found_or_pushed(
                &mut panels,
                |panel| panel.title == title,
                || Panel { title: title.clone(), series: Vec::new(), limits: Vec::new() },
            );
            let series = found_or_pushed(
                &mut panel.series,
                |one| one.subject == subject,
                || Series {
                    subject,
                    style: styles.iter().position(|style| *style == subject).unwrap_or(0),
                    points: Vec::new(),
                },
            );
            series.points.push(Point { x: place, x_text, row });
        }
        if !bars {
            // Where all points are at one place, there is no line to see; another figure has them.
            panels.retain(|panel| {
                let mut places = panel.series.iter().flat_map(|series| &series.points).map(|p| p.x);
                let first = places.next();
                places.any(|place| Some(place) != first)
            });
        }
        panels.iter_mut().for_each(settle);
        (!panels.is_empty()).then(|| Plot {
            bars,
            x,
            x_label: self.x_label.to_owned(),
            y_label: self.y_label,
            unit: &first.unit,
            common,
            panels,
            same_scale: self.same_scale,
            hidden,
        })
    }

    /// The horizontal axis, and whether the plot has bars.
    fn axis(&self, rows: &[&Row]) -> (X, bool) {
        let mut numbers: Vec<f64> = rows.iter().filter_map(|row| self.number(row)).collect();
        let only_numbers = numbers.len() == rows.len();
        numbers.sort_by(f64::total_cmp);
        numbers.dedup();
        // A single place makes no line.
        let bars = self.form == Form::Bars || (only_numbers && numbers.len() < 2);
        if only_numbers && !bars {
            let log = self.form == Form::LinesLog && numbers[0] > 0.0;
            return (X::Numbers { lengths: quantity::is_length(self.x), log }, bars);
        }
        let mut rows: Vec<&Row> = rows.to_vec();
        if only_numbers {
            let number = |row: &Row| self.number(row).unwrap_or(0.0);
            rows.sort_by(|a, b| number(a).total_cmp(&number(b)));
        }
        let mut names: Vec<String> = Vec::new();
        for name in rows.into_iter().map(|row| self.text(row)) {
            if !names.contains(&name) {
                names.push(name);
            }
        }
        (X::Names(names), bars)
    }

    /// The parameters that part rows into panels: those with more than one value at the same place of
    /// the same experiment.
    fn facets<'a>(&self, rows: &[&'a Row]) -> Vec<&'a str> {
        let parts = |name: &&str| {
            let mut seen: HashMap<(&str, String), String> = HashMap::new();
            rows.iter().any(|row| {
                let text = param_text(row, name);
                *seen.entry((&row.experiment, self.text(row))).or_insert_with(|| text.clone())
                    != text
            })
        };
        let names = param_names(rows).into_iter();
        names.filter(|name| *name != self.x && !OF_SUBJECT.contains(name)).filter(parts).collect()
    }

    /// The series and the panel of a row.
    fn panel<'a>(&self, row: &'a Row, facets: &[&str], rows: &[&Row]) -> (&'a str, String) {
        let mut parts: Vec<String> = Vec::new();
        if self.x == BY_PERCENTILE {
            if rows.iter().any(|other| other.experiment != row.experiment) {
                parts.push(short(&row.experiment).to_owned());
            }
            let operation =
                |row: &'a Row| percentile(&row.metric).map_or("", |(operation, _)| operation);
            parts.push(operation(row).to_owned());
        }
        let mut subject = row.subject.as_str();
        if let Some((ending, [without, with])) = self.split {
            let stripped = subject.strip_suffix(ending);
            parts.push(if stripped.is_some() { with } else { without }.to_owned());
            subject = stripped.unwrap_or(subject);
        }
        parts.extend(facets.iter().map(|name| labelled(row, name)));
        parts.retain(|part| !part.is_empty() && part != "latency");
        (subject, parts.join(" · "))
    }

    /// Returns the place of a row in words.
    fn text(&self, row: &Row) -> String {
        match self.x {
            BY_EXPERIMENT => short(&row.experiment).to_owned(),
            BY_PERCENTILE => {
                percentile(&row.metric).map_or(&*row.metric, |(_, rank)| rank).to_owned()
            }
            "" => String::new(),
            name => param_text(row, name),
        }
    }

    /// Returns the place of a row, if that is a number.
    fn number(&self, row: &Row) -> Option<f64> {
        row.params.get(self.x).and_then(Value::as_f64)
    }
}

/// An experiment's name without its family.
fn short(experiment: &str) -> &str {
    experiment.split_once('.').map_or(experiment, |(_, name)| name)
}

fn found_or_pushed<T>(
    list: &mut Vec<T>,
    is: impl Fn(&T) -> bool,
    new: impl FnOnce() -> T,
) -> &mut T {
    let place = list.iter().position(is).unwrap_or_else(|| {
        list.push(new());
        list.len() - 1
    });
    &mut list[place]
}

/// Sorts the points, and finds the limits that all subjects share. The subject that is the limit is
/// then no series of its own.
fn settle(panel: &mut Panel<'_>) {
    let mut limits: Vec<(f64, f64)> = Vec::new();
    let mut shared = true;
    for series in &mut panel.series {
        series.points.sort_by(|a, b| a.x.total_cmp(&b.x));
        for point in &series.points {
            let Some(limit) = point.row.limit.filter(|limit| drawable(*limit)) else { continue };
            match limits.iter().find(|(x, _)| *x == point.x) {
                Some((_, known)) => shared &= (known - limit).abs() <= 0.01 * limit.abs(),
                None => limits.push((point.x, limit)),
            }
        }
    }
    limits.sort_by(|a, b| a.0.total_cmp(&b.0));
    if shared {
        panel.limits = limits;
    }
    if !panel.limits.is_empty() && panel.series.iter().any(|series| series.subject != LIMIT) {
        panel.series.retain(|series| series.subject != LIMIT);
    }
}

/// A parameter as a reader wants it: numbers with their name, words without.
fn labelled(row: &Row, name: &str) -> String {
    match row.params.get(name) {
        None => String::new(),
        Some(Value::String(text)) if text != "none" => text.clone(),
        Some(Value::Number(number)) if name == "threads" => {
            format!("{number} thread{}", if number.as_u64() == Some(1) { "" } else { "s" })
        }
        Some(_) => format!("{name} {}", param_text(row, name)),
    }
}
