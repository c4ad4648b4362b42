//! Charts of values over a number, or over a few names: a line for each subject, a band from the least repeat to the
//! largest, hollow markers for the source's values, a dashed line for the limit.

use super::chart::{
    CHAR, WIDTH, classes, line, marker, source_tip, svg, text, tick, tip, value_label,
};
use super::markup::number;
use super::plot::{Panel, Plot, Series, X};
use super::quantity;
use super::scale::{Kind, Scale};

const HEIGHT: f64 = 240.0;
const TOP: f64 = 24.0;
const FOOT: f64 = HEIGHT - 40.0;
const RIGHT: f64 = WIDTH - 12.0;
/// More points than these have a marker only now and then.
const MARKERS: usize = 14;

/// The chart of one panel.
pub(crate) fn draw(plot: &Plot<'_>, panel: &Panel<'_>, values: &Scale, label: &str) -> String {
    let ticks: Vec<(f64, String)> =
        values.ticks().iter().map(|&t| (t, tick(t, plot.unit))).collect();
    let widest = ticks.iter().map(|(_, words)| words.chars().count()).max().unwrap_or(0);
    let left = 8.0 + CHAR * widest as f64;
    let y = values.over(FOOT, TOP);
    let x = x_scale(plot, panel).over(left + 8.0, RIGHT - 6.0);

    let name = value_label(plot) + if values.is_log() { ", log scale" } else { "" };
    let mut parts = text("name", 2.0, 12.0, &name);
    for (value, words) in &ticks {
        if let Some(at) = y.at(*value) {
            parts += &line("grid", (left, at), (RIGHT, at));
            parts += &text("end", left - 5.0, at + 4.0, words);
        }
    }
    parts += &line("axis", (left, FOOT), (RIGHT, FOOT));
    parts += &x_ticks(plot, &x, left);
    parts += &text("mid", (left + RIGHT) / 2.0, HEIGHT - 5.0, &plot.x_label);
    for series in &panel.series {
        parts += &band(series, &x, &y);
    }
    parts += &limit(plot, panel, &x, &y);
    for series in &panel.series {
        parts += &drawn(series, &x, &y);
    }
    for series in &panel.series {
        parts += &markers(series, &x, &y);
    }
    parts += &sources(panel, &x, &y);
    svg(label, HEIGHT, &parts)
}

fn x_scale(plot: &Plot<'_>, panel: &Panel<'_>) -> Scale {
    match &plot.x {
        X::Names(names) => {
            // Half a step of room at both ends.
            let ends = [-0.3, names.len() as f64 - 0.7];
            Scale::new(Kind::Linear, &ends, false, names.len())
        }
        X::Numbers { lengths, log } => {
            let places = panel.series.iter().flat_map(|series| &series.points).map(|p| p.x);
            let kind = match (log, lengths) {
                (true, _) => Kind::Log2,
                (false, true) => Kind::LinearBinary,
                (false, false) => Kind::Linear,
            };
            Scale::new(kind, &places.collect::<Vec<_>>(), false, 8)
        }
    }
}

/// Draws as many labels as have room.
fn x_ticks(plot: &Plot<'_>, x: &Scale, left: f64) -> String {
    let ticks: Vec<(f64, String)> = match &plot.x {
        X::Names(names) => {
            names.iter().enumerate().map(|(place, name)| (place as f64, name.clone())).collect()
        }
        X::Numbers { lengths, .. } => {
            let words = |value: f64| match lengths {
                true if value.fract() == 0.0 && value >= 0.0 => quantity::length(value as u64),
                _ if value.fract() == 0.0 && value.abs() < 1e5 => format!("{value}"),
                _ => tick(value, ""),
            };
            x.ticks().iter().map(|&value| (value, words(value))).collect()
        }
    };
    let widest = ticks.iter().map(|(_, words)| words.chars().count()).max().unwrap_or(0);
    let room = ((RIGHT - left) / (CHAR * widest as f64 + 10.0)).floor().max(1.0) as usize;
    let mut parts = String::new();
    for (value, words) in ticks.iter().step_by(ticks.len().div_ceil(room).max(1)) {
        if let Some(at) = x.at(*value) {
            parts += &line("axis", (at, FOOT), (at, FOOT + 4.0));
            // The last one ends where the chart does.
            let half = CHAR * words.chars().count() as f64 / 2.0;
            parts += &text("mid", at.min(WIDTH - half), FOOT + 17.0, words);
        }
    }
    parts
}

/// Draws the band from the least repeat to the largest; a bar where only one point has them.
fn band(series: &Series<'_>, x: &Scale, y: &Scale) -> String {
    let spread: Vec<(f64, f64, f64)> = series
        .points
        .iter()
        .filter(|point| point.row.min <= point.row.max)
        .filter_map(|point| Some((x.at(point.x)?, y.at(point.row.min)?, y.at(point.row.max)?)))
        .collect();
    if spread.iter().all(|(_, low, high)| low - high < 0.5) {
        return String::new();
    }
    if let [(x, low, high)] = spread[..] {
        return line(&format!("line {}", classes(series.style)), (x, low), (x, high));
    }
    let there = spread.iter().map(|(x, _, high)| (x, high));
    let back = spread.iter().rev().map(|(x, low, _)| (x, low));
    format!("<path class=\"band {}\" d=\"{}z\"/>", classes(series.style), path(there.chain(back)))
}

fn drawn(series: &Series<'_>, x: &Scale, y: &Scale) -> String {
    let points: Vec<(f64, f64)> = series
        .points
        .iter()
        .filter_map(|point| Some((x.at(point.x)?, y.at(point.row.value)?)))
        .collect();
    if points.len() < 2 {
        return String::new();
    }
    let points = points.iter().map(|(x, y)| (x, y));
    format!("<path class=\"line {}\" d=\"{}\"/>", classes(series.style), path(points))
}

fn markers(series: &Series<'_>, x: &Scale, y: &Scale) -> String {
    let mut parts = String::new();
    let stride = series.points.len().div_ceil(MARKERS).max(1);
    for (place, point) in series.points.iter().enumerate() {
        let Some(x) = x.at(point.x) else { continue };
        if let Some(y) = y.at(point.row.value) {
            let seen = if place % stride == 0 { "mark" } else { "spot" };
            parts += &format!(
                "<path class=\"{seen} {}\" d=\"{}\"><title>{}</title></path>",
                classes(series.style),
                marker(series.style, x, y, 3.4),
                tip(series.subject, point)
            );
        }
    }
    parts
}

/// The source's values: in a subject's colour, or without one if the source reports one value for several subjects.
fn sources(panel: &Panel<'_>, x: &Scale, y: &Scale) -> String {
    let all =
        || panel.series.iter().flat_map(|one| one.points.iter().map(move |point| (one, point)));
    let mut seen: Vec<(f64, f64)> = Vec::new();
    let mut parts = String::new();
    for (series, point) in all() {
        let Some(source) = point.row.source.filter(|source| !seen.contains(&(point.x, *source)))
        else {
            continue;
        };
        let (Some(at), Some(height)) = (x.at(point.x), y.at(source)) else { continue };
        seen.push((point.x, source));
        let same = all().filter(|(_, p)| p.x == point.x && p.row.source == Some(source));
        let names: Vec<&str> = same.map(|(series, _)| series.subject).collect();
        let (class, style) = match names[..] {
            [_] => (format!("hollow {}", classes(series.style)), series.style),
            _ => ("paper".to_owned(), 0),
        };
        parts += &format!(
            "<path class=\"{class}\" d=\"{}\"><title>{}</title></path>",
            marker(style, at, height, 5.0),
            source_tip(&names.join(", "), point, source)
        );
    }
    parts
}

/// A dashed line where all subjects have the same limit, and one in each subject's colour otherwise.
fn limit(plot: &Plot<'_>, panel: &Panel<'_>, x: &Scale, y: &Scale) -> String {
    let seen = panel.limits.iter().filter_map(|(at, limit)| Some((x.at(*at)?, y.at(*limit)?)));
    let seen: Vec<(f64, f64)> = seen.collect();
    if let ([first, ..], [.., last]) = (&panel.limits[..], &panel.limits[..])
        && seen.is_empty()
    {
        let (low, high) = (first.1.min(last.1), first.1.max(last.1));
        let words = match quantity::spread(low, high, plot.unit).as_str() {
            "" => quantity::text(high, plot.unit),
            spread => spread.to_owned(),
        };
        return text("end", RIGHT, 12.0, &format!("limit above: {words}"));
    }
    if panel.limits.is_empty() {
        let own = |series: &Series<'_>| -> String {
            let places = series.points.iter().filter_map(|point| Some((point.x, point.row.limit?)));
            let seen = places.filter_map(|(at, limit)| Some((x.at(at)?, y.at(limit)?)));
            dashed(&format!("limit own {}", classes(series.style)), &seen.collect::<Vec<_>>(), x)
        };
        return panel.series.iter().map(own).collect();
    }
    dashed("limit", &seen, x)
}

/// A line through these points; through the whole chart, if there is only one.
fn dashed(class: &str, points: &[(f64, f64)], x: &Scale) -> String {
    match points {
        [] => String::new(),
        [(_, y)] => line(class, (x.from(), *y), (RIGHT, *y)),
        _ => {
            format!("<path class=\"{class}\" d=\"{}\"/>", path(points.iter().map(|(x, y)| (x, y))))
        }
    }
}

fn path<'p>(points: impl Iterator<Item = (&'p f64, &'p f64)>) -> String {
    let mut path = String::new();
    for (place, (x, y)) in points.enumerate() {
        path += &format!("{}{} {}", if place == 0 { 'M' } else { 'L' }, number(*x), number(*y));
    }
    path
}
