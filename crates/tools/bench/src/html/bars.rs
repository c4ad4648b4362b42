//! Charts of horizontal bars: groups under headings, a bar for each subject with its name and value, so that a phone
//! needs no legend; a whisker from the least repeat to the largest, a hollow marker for the source's value, a dashed
//! line for the limit.

use super::chart::{
    CHAR, WIDTH, classes, line, shortened, source_tip, svg, text, tick, tip, value_label,
};
use super::markup::number;
use super::plot::{Panel, Plot, Point, X};
use super::quantity;
use super::scale::Scale;

const BAR: f64 = 17.0;
const HEADING: f64 = 20.0;
const TOP: f64 = 6.0;
/// A panel of more bars than these becomes one a group.
const BARS: usize = 16;
/// Characters of a subject that are shown; the tooltip has all.
const NAME: usize = 18;

/// The charts of one panel, and a title for each: the panel's, or its groups'.
pub(crate) fn draw(
    plot: &Plot<'_>,
    panel: &Panel<'_>,
    values: &Scale,
    label: &str,
) -> Vec<(String, String)> {
    let names: &[String] = match &plot.x {
        X::Names(names) => names,
        X::Numbers { .. } => &[],
    };
    let places: Vec<usize> =
        (0..names.len()).filter(|place| bars(panel, *place).next().is_some()).collect();
    let count: usize = panel.series.iter().map(|series| series.points.len()).sum();
    if count <= BARS || places.len() < 2 {
        return vec![(panel.title.clone(), chart(plot, panel, names, &places, values, label))];
    }
    places
        .iter()
        .map(|&place| {
            let parts: Vec<&str> = [&*names[place], &*panel.title]
                .into_iter()
                .filter(|part| !part.is_empty())
                .collect();
            let title = parts.join(" · ");
            let label = format!("{label}, {title}");
            let chart = chart(plot, panel, &[], &[place], values, &label);
            (title, chart)
        })
        .collect()
}

/// The bars of one group, from top to bottom.
fn bars<'p, 'a>(
    panel: &'p Panel<'a>,
    place: usize,
) -> impl Iterator<Item = (&'a str, usize, &'p Point<'a>)> {
    panel.series.iter().flat_map(move |series| {
        let here = series.points.iter().filter(move |point| point.x as usize == place);
        here.map(|point| (series.subject, series.style, point))
    })
}

fn chart(
    plot: &Plot<'_>,
    panel: &Panel<'_>,
    names: &[String],
    places: &[usize],
    values: &Scale,
    label: &str,
) -> String {
    let all = || places.iter().flat_map(|&place| bars(panel, place));
    let longest = all().map(|(subject, ..)| subject.chars().count()).max().unwrap_or(0).min(NAME);
    let value_of = |point: &Point<'_>| {
        let value = quantity::Quantity::of(point.row.value, &point.row.unit);
        shortened(&value.short(), 12)
    };
    let widest = all().map(|(.., point)| value_of(point).chars().count()).max().unwrap_or(0);
    let left = 8.0 + CHAR * longest as f64;
    let right = WIDTH - 10.0 - CHAR * widest as f64;
    let x = values.over(left, right);
    let zero = x.at(0.0).unwrap_or(left);

    let (mut bodies, mut y) = (String::new(), TOP);
    for &place in places {
        if let Some(name) = names.get(place).filter(|name| !name.is_empty()) {
            bodies += &text("group", 2.0, y + 14.0, &shortened(name, 48));
            y += HEADING;
        }
        for (subject, style, point) in bars(panel, place) {
            let (row, middle) = (point.row, y + BAR / 2.0);
            bodies += &text("end", left - 5.0, middle + 4.0, &shortened(subject, NAME));
            let tip = tip(subject, point);
            let mut end = zero;
            if let Some(at) = x.at(row.value) {
                end = at;
                bodies += &format!(
                    "<rect class=\"bar {}\" x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\"><title>{tip}</title></rect>",
                    classes(style),
                    number(zero.min(at)),
                    number(y + 2.0),
                    number((at - zero).abs().max(0.5)),
                    number(BAR - 4.0),
                );
            }
            if let (Some(low), Some(high)) = (x.at(row.min), x.at(row.max))
                && high - low > 1.0
            {
                bodies += &line("whisker", (low, middle), (high, middle));
                end = end.max(high);
            }
            if let Some((source, at)) = row.source.and_then(|source| Some((source, x.at(source)?)))
            {
                bodies += &format!(
                    "<path class=\"paper\" d=\"{}\"><title>{}</title></path>",
                    super::chart::marker(3, at, middle, 4.0),
                    source_tip(subject, point, source)
                );
                // The value stands behind the bar, unless the marker is there.
                if (end - 4.0..end + 10.0).contains(&at) {
                    end = at + 5.0;
                }
            }
            let words = value_of(point);
            // Neighbours with the same limit share one line.
            if let Some(at) = row.limit.and_then(|limit| x.at(limit)) {
                bodies += &line("limit", (at, y), (at, y + BAR));
                if (end - 4.0..end + 8.0 + CHAR * words.chars().count() as f64).contains(&at) {
                    end = at + 2.0;
                }
            }
            bodies += &text("", end.max(zero) + 5.0, middle + 4.0, &words);
            y += BAR;
        }
        y += 4.0;
    }
    let mut parts = String::new();
    let mut free_from = 0.0;
    for &value in values.ticks() {
        let Some(at) = x.at(value) else { continue };
        parts += &line("grid", (at, TOP), (at, y));
        let words = tick(value, plot.unit);
        let half = CHAR * words.chars().count() as f64 / 2.0;
        if at - half >= free_from {
            parts += &text("mid", at, y + 13.0, &words);
            free_from = at + half + 8.0;
        }
    }
    parts += &line("axis", (zero, TOP), (zero, y));
    parts += &bodies;
    parts += &text("mid", (left + right) / 2.0, y + 29.0, &value_label(plot));
    svg(label, y + 34.0, &parts)
}
