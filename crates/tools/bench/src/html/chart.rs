//! The common parts of charts of lines and of bars: markers, tooltips, and the axis of values.
//!
//! Charts are SVG, 360 units wide, which is about the width of a phone at one pixel a unit. Colours, strokes and sizes
//! of text come from the page's style sheet by class, so that they follow the reader's theme and the width of the
//! chart.

use super::markup::{escape, number};
use super::plot::{Panel, Plot, Point};
use super::quantity;
use super::scale::{Kind, Scale, drawable};

/// Units of a chart's width.
pub(crate) const WIDTH: f64 = 360.0;
/// Units that a character takes, at most, on average.
pub(crate) const CHAR: f64 = 6.9;
/// Colours and markers; further series have the same ones with a dashed line.
const STYLES: usize = 8;
/// The range of positive values from which on an axis shows their logarithm.
const WIDE: f64 = 40.0;
/// Limits and sources are shown up to so many times the largest value: beyond that, the values would
/// be at the foot of an empty chart.
const FAR: f64 = 4.0;

/// The classes of a series: its colour, and its dashes.
pub(crate) fn classes(style: usize) -> String {
    match style / STYLES {
        0 => format!("s{}", style % STYLES),
        round => format!("s{} d{}", style % STYLES, round.min(2)),
    }
}

/// The outline of a series' marker around a place.
pub(crate) fn marker(style: usize, x: f64, y: f64, radius: f64) -> String {
    let corners: &[(f64, f64)] = match style % STYLES {
        0 => {
            let (r, x) = (radius * 0.95, x - radius * 0.95);
            return format!(
                "M{} {}a{r:.1} {r:.1} 0 1 0 {d:.1} 0a{r:.1} {r:.1} 0 1 0 -{d:.1} 0z",
                number(x),
                number(y),
                d = 2.0 * r
            );
        }
        1 => &[(-0.9, -0.9), (1.8, 0.0), (0.0, 1.8), (-1.8, 0.0)],
        2 => &[(0.0, -1.2), (1.15, 2.1), (-2.3, 0.0)],
        3 => &[(0.0, -1.3), (1.2, 1.3), (-1.2, 1.3), (-1.2, -1.3)],
        4 => &[(0.0, 1.2), (1.15, -2.1), (-2.3, 0.0)],
        5 => &[(-1.1, -1.1), (2.2, 0.0), (-2.2, 2.2), (2.2, 0.0)],
        6 => &[(1.2, 0.0), (-2.1, 1.15), (0.0, -2.3)],
        _ => &[(-1.2, -0.5), (2.4, 0.0), (0.0, 1.0), (-2.4, 0.0)],
    };
    let mut path = String::new();
    for (place, (dx, dy)) in corners.iter().enumerate() {
        let (command, dx, dy) = match place {
            0 => ('M', x + dx * radius, y + dy * radius),
            _ => ('l', dx * radius, dy * radius),
        };
        path += &format!("{command}{} {}", number(dx), number(dy));
    }
    path + "z"
}

/// The tooltip of a value.
pub(crate) fn tip(subject: &str, point: &Point<'_>) -> String {
    let row = point.row;
    let mut text = match point.x_text.as_str() {
        "" => format!("{subject}: "),
        place => format!("{subject}, {place}: "),
    };
    text += &quantity::text(row.value, &row.unit);
    let spread = quantity::spread(row.min, row.max, &row.unit);
    if !spread.is_empty() {
        text += &format!(" ({spread})");
    }
    let of_limit = quantity::of_limit(row.value, row.limit);
    if !of_limit.is_empty() {
        text += &format!(", {of_limit} of the limit");
    }
    escape(&text)
}

/// The tooltip of a source's value.
pub(crate) fn source_tip(subject: &str, point: &Point<'_>, source: f64) -> String {
    let place = if point.x_text.is_empty() { String::new() } else { format!(", {}", point.x_text) };
    escape(&format!("paper: {subject}{place}: {}", quantity::text(source, &point.row.unit)))
}

/// The axis of values of these panels.
pub(crate) fn value_scale<'p, 'a: 'p>(
    panels: impl IntoIterator<Item = &'p Panel<'a>>,
    bars: bool,
) -> Scale {
    let (mut values, mut marks) = (Vec::new(), Vec::new());
    for panel in panels {
        for row in panel.series.iter().flat_map(|s| &s.points).map(|point| point.row) {
            values.extend([row.value, row.min, row.max].into_iter().filter(|v| drawable(*v)));
            marks.extend(row.source.into_iter().chain(row.limit));
        }
    }
    let most = values.iter().copied().fold(0.0, f64::max);
    let least = values.iter().copied().fold(f64::INFINITY, f64::min);
    values.extend(marks.into_iter().filter(|&mark| mark.abs() <= FAR * most));
    if !bars && least > 0.0 && most / least > WIDE {
        return Scale::new(Kind::Log10, &values, true, 5);
    }
    values.push(0.0);
    Scale::new(Kind::Linear, &values, true, if bars { 4 } else { 5 })
}

/// Ticks of the axis of values, in words.
pub(crate) fn tick(value: f64, unit: &str) -> String {
    // Sums of steps are not exact.
    let value = if value.abs() < 1e-300 { 0.0 } else { value };
    if value == 0.0 { "0".to_owned() } else { quantity::Quantity::of(value, unit).tick() }
}

/// The label of the axis of values, with its unit.
pub(crate) fn value_label(plot: &Plot<'_>) -> String {
    match quantity::unit_of_axis(plot.unit).as_str() {
        "" => plot.y_label.clone(),
        unit => format!("{} ({unit})", plot.y_label),
    }
}

/// A text at a place.
pub(crate) fn text(class: &str, x: f64, y: f64, words: &str) -> String {
    let class = if class.is_empty() { String::new() } else { format!(" class=\"{class}\"") };
    format!("<text{class} x=\"{}\" y=\"{}\">{}</text>", number(x), number(y), escape(words))
}

/// A straight line.
pub(crate) fn line(class: &str, from: (f64, f64), to: (f64, f64)) -> String {
    let [x1, y1, x2, y2] = [from.0, from.1, to.0, to.1].map(number);
    format!("<path class=\"{class}\" d=\"M{x1} {y1}L{x2} {y2}\"/>")
}

/// The chart around its parts.
pub(crate) fn svg(label: &str, height: f64, parts: &str) -> String {
    format!(
        "<svg role=\"img\" aria-label=\"{}\" viewBox=\"0 0 {WIDTH} {}\">{parts}</svg>",
        escape(label),
        number(height)
    )
}

/// Returns at most `most` characters.
pub(crate) fn shortened(text: &str, most: usize) -> String {
    if text.chars().count() <= most {
        return text.to_owned();
    }
    text.chars().take(most.saturating_sub(1)).chain(['…']).collect()
}
