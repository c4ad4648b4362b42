//! A topic of the page: its figures, the rows that no figure takes, and the table of all rows.

use std::collections::HashSet;

use super::chart::{classes, line, marker, value_scale};
use super::figures::Topic;
use super::grid::param_text;
use super::markup::escape;
use super::plot::{Plot, chosen, general};
use super::shape::DURABILITY;
use super::{bars, lines, tables};
use crate::LIMIT;
use crate::row::Row;

/// The inside of a topic's section.
pub(crate) fn section(topic: Option<&Topic>, rows: &[&Row]) -> String {
    let figures = topic.map_or(&[][..], |topic| topic.figures);
    let styles = subjects(topic, rows);
    let mut html = String::new();
    let mut taken: HashSet<*const Row> = HashSet::new();
    for figure in figures {
        let (plots, rows) = chosen(figure, rows, &styles);
        taken.extend(rows.iter().map(|row| std::ptr::from_ref(*row)));
        for (place, plot) in plots.iter().enumerate() {
            let mut title = match figure.number {
                "" => figure.title.to_owned(),
                number => format!("{number}: {}", figure.title),
            };
            // Plots of one figure differ in their metric or their unit.
            if plots.len() > 1 {
                let what = if figure.y_label.is_empty() { &plot.y_label } else { plot.unit };
                title += &format!(" ({what})");
            }
            html += &drawn(plot, &title, if place == 0 { figure.caption } else { "" }, &styles);
        }
    }
    let others: Vec<&Row> =
        rows.iter().copied().filter(|row| !taken.contains(&std::ptr::from_ref(*row))).collect();
    let table_only = topic.is_some_and(|topic| topic.table_open);
    let others = if table_only { String::new() } else { general_figures(&others, &styles) };
    html += &match (others.as_str(), html.as_str()) {
        ("", _) => String::new(),
        (_, "") => others,
        _ => format!("<details><summary>Other metrics</summary>\n{others}</details>\n"),
    };
    let open = html.is_empty();
    durabilities(rows) + &html + &tables::details(rows, open)
}

/// The durability of each subject's acknowledged writes, if the rows have it.
fn durabilities(rows: &[&Row]) -> String {
    let mut lines: Vec<String> = Vec::new();
    for row in rows.iter().filter(|row| row.subject != LIMIT) {
        let durability = param_text(row, DURABILITY);
        let line = format!("{}: {durability}", row.subject);
        if !durability.is_empty() && !lines.contains(&line) {
            lines.push(line);
        }
    }
    let items: String = lines.iter().map(|line| format!("<li>{}\n", escape(line))).collect();
    if items.is_empty() {
        return items;
    }
    format!("<p class=\"soft\">Durability:</p>\n<ul class=\"soft\">\n{items}</ul>\n")
}

/// The subjects of a topic, in the order of the rows: the place is the colour.
fn subjects<'a>(topic: Option<&Topic>, rows: &[&'a Row]) -> Vec<&'a str> {
    let endings =
        || topic.into_iter().flat_map(|topic| topic.figures).filter_map(|figure| figure.split);
    let mut subjects: Vec<&str> = Vec::new();
    for row in rows.iter().filter(|row| row.subject != LIMIT) {
        let ending = endings().find_map(|(ending, _)| row.subject.strip_suffix(ending));
        let subject = ending.unwrap_or(&row.subject);
        if !subjects.contains(&subject) {
            subjects.push(subject);
        }
    }
    subjects
}

/// A figure for each metric. Counts per operation are constant, or nearly: a table shows them best.
fn general_figures(rows: &[&Row], styles: &[&str]) -> String {
    let mut metrics: Vec<(&str, &str, Vec<&Row>)> = Vec::new();
    for &row in rows.iter().filter(|row| !row.unit.ends_with("/op")) {
        match metrics
            .iter_mut()
            .find(|(metric, unit, _)| *metric == row.metric && *unit == row.unit)
        {
            Some((_, _, rows)) => rows.push(row),
            None => metrics.push((&row.metric, &row.unit, vec![row])),
        }
    }
    let plots =
        metrics.iter().filter_map(|(metric, _, rows)| Some((metric, general(rows, styles)?)));
    plots.map(|(metric, plot)| drawn(&plot, metric, "", styles)).collect()
}

/// A figure: title, caption, legend and charts.
fn drawn(plot: &Plot<'_>, title: &str, caption: &str, styles: &[&str]) -> String {
    let shared = value_scale(&plot.panels, plot.bars);
    let mut charts: Vec<(String, String)> = Vec::new();
    for panel in &plot.panels {
        let own = value_scale([panel], plot.bars);
        let scale = if plot.same_scale { &shared } else { &own };
        let x = plot.x_label.to_lowercase();
        let by = if x.is_empty() { String::new() } else { format!(" by {x}") };
        let of = if panel.title.is_empty() { String::new() } else { format!(", {}", panel.title) };
        let label = format!(
            "{title}{of}: {}{by}; the table below has the values",
            plot.y_label.to_lowercase()
        );
        if plot.bars {
            charts.extend(bars::draw(plot, panel, scale, &label));
        } else {
            charts.push((panel.title.clone(), lines::draw(plot, panel, scale, &label)));
        }
    }
    let one = if charts.len() == 1 { " class=\"one\"" } else { "" };
    let mut html = format!("<figure{one}>\n<figcaption>\n<h4>{}</h4>\n", escape(title));
    if !caption.is_empty() {
        html += &format!("<p>{}</p>\n", escape(caption));
    }
    let common: Vec<&str> =
        plot.common.iter().map(String::as_str).filter(|text| !text.is_empty()).collect();
    if !common.is_empty() {
        html += &format!("<p class=\"soft\">{}</p>\n", escape(&common.join(" · ")));
    }
    html += &legend(plot, styles);
    html += "</figcaption>\n<div class=\"panels\">\n";
    for (title, chart) in charts {
        let title = if title.is_empty() { title } else { format!("<h5>{}</h5>\n", escape(&title)) };
        html += &format!("<div>{title}{chart}</div>\n");
    }
    html += "</div>\n";
    if plot.hidden > 0 {
        html += &format!(
            "<p class=\"soft\">Not in the chart: {} value(s) that no axis can show.</p>\n",
            plot.hidden
        );
    }
    html + "</figure>\n"
}

/// Names for lines; bars have theirs beside them. The meaning of the paper's markers and of the limit's line.
fn legend(plot: &Plot<'_>, styles: &[&str]) -> String {
    let series = || plot.panels.iter().flat_map(|panel| &panel.series);
    let item = |swatch: String, name: &str| {
        format!(
            "<li><svg viewBox=\"0 0 34 14\" aria-hidden=\"true\">{swatch}</svg>{}\n",
            escape(name)
        )
    };
    let mut items = String::new();
    for (style, name) in styles.iter().enumerate() {
        if !plot.bars && series().any(|series| series.subject == *name) {
            let classes = classes(style);
            let stroke = line(&format!("line {classes}"), (1.0, 7.0), (33.0, 7.0));
            let mark = marker(style, 17.0, 7.0, 4.4);
            items += &item(format!("{stroke}<path class=\"mark {classes}\" d=\"{mark}\"/>"), name);
        }
    }
    let mut sources = series().flat_map(|series| &series.points).map(|point| point.row.source);
    if sources.any(|source| source.is_some()) {
        let style = if plot.bars { 3 } else { 0 };
        let mark = marker(style, 17.0, 7.0, 5.0);
        items += &item(format!("<path class=\"paper\" d=\"{mark}\"/>"), "paper (hollow)");
    }
    if series().flat_map(|series| &series.points).any(|point| point.row.limit.is_some()) {
        items += &item(line("limit", (1.0, 7.0), (33.0, 7.0)), "limit measured in this run");
    }
    if items.is_empty() { items } else { format!("<ul class=\"legend\">\n{items}</ul>\n") }
}
