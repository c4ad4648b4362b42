//! The page: a description of the run, its contents, and the topics.

use super::figures::{OTHERS, Topic, matches};
use super::grid::RUN;
use super::markup::escape;
use super::quantity;
use super::topic;
use crate::row::Row;
use crate::topics;

const STYLE: &str = include_str!("style.css");

/// A part of the report: a heading, and the topics under it with their rows.
struct Part<'a> {
    title: &'static str,
    topics: Vec<(String, Option<&'static Topic>, Vec<&'a Row>)>,
}

/// The whole page.
pub(crate) fn page(rows: &[Row]) -> String {
    let parts = parts(rows);
    let mut html = format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta name=\"color-scheme\" content=\"light dark\">\n\
         <title>Halite: measurements</title>\n<style>\n{STYLE}</style>\n</head>\n<body>\n<main>\n\
         <h1>Halite: measurements</h1>\n"
    );
    html += &head(rows);
    if parts.is_empty() {
        html += "<p>Nothing was measured.</p>\n";
    } else {
        html += "<p class=\"soft\">Each value is the median of its repeats; bands and whiskers reach from the \
                 least to the largest. Point at a value to read it; the tables have all of them. The figures \
                 that are numbered redraw those of van Renen et al., <cite>Building blocks for persistent \
                 memory</cite> (VLDB Journal, 2020), and those of Lersch's thesis and of Yan et al. where these are named: hollow \
                 markers are their values, from other hardware, where the text gives them.</p>\n";
        html += &contents(&parts);
    }
    let mut number = 0;
    for part in &parts {
        html += &format!("<h2>{}</h2>\n", escape(part.title));
        for (title, topic, rows) in &part.topics {
            number += 1;
            html += &format!("<section id=\"t{number}\">\n<h3>{}</h3>\n", escape(title));
            html += &topic::section(*topic, rows);
            html += "</section>\n";
        }
    }
    html + "</main>\n</body>\n</html>\n"
}

/// The description of the run, and whether it is complete.
fn head(rows: &[Row]) -> String {
    let mut html = String::new();
    for row in rows.iter().filter(|row| row.experiment == RUN) {
        if row.metric == "interrupted" && row.value == 1.0 {
            html +=
                "<p class=\"banner\" role=\"status\">Interrupted: these are partial results.</p>\n";
        }
        html += "<dl>\n";
        for (name, value) in &row.params {
            let value = quantity::param(name, value);
            html += &format!("<dt>{}<dd>{}\n", escape(&name.replace('_', " ")), escape(&value));
        }
        html += "</dl>\n";
    }
    html
}

fn contents(parts: &[Part<'_>]) -> String {
    let mut html = "<nav aria-label=\"Contents\">\n".to_owned();
    let mut number = 0;
    for part in parts {
        html += &format!("<b>{}</b>\n<ul>\n", escape(part.title));
        for (title, topic, _) in &part.topics {
            number += 1;
            let figures = topic.map_or(&[][..], |topic| topic.figures);
            let numbers =
                figures.iter().map(|figure| figure.number).filter(|number| !number.is_empty());
            let numbers = numbers.collect::<Vec<_>>().join(", ");
            let numbers = if numbers.is_empty() {
                numbers
            } else {
                format!(" <small class=\"soft\">{numbers}</small>")
            };
            html += &format!("<li><a href=\"#t{number}\">{}</a>{numbers}\n", escape(title));
        }
        html += "</ul>\n";
    }
    html + "</nav>\n"
}

/// Gives each row to the first topic that takes its experiment; experiments without a topic become topics of their own.
fn parts(rows: &[Row]) -> Vec<Part<'_>> {
    let mut left: Vec<&Row> = rows.iter().filter(|row| row.experiment != RUN).collect();
    let mut parts: Vec<Part<'_>> = Vec::new();
    let mut add =
        |title, topic| match parts.iter_mut().position(|part: &mut Part<'_>| part.title == title) {
            Some(place) => parts[place].topics.push(topic),
            None => parts.push(Part { title, topics: vec![topic] }),
        };
    for topic in topics::all() {
        let takes =
            |row: &&Row| topic.experiments.iter().any(|name| matches(name, &row.experiment));
        let (taken, others): (Vec<&Row>, Vec<&Row>) = left.into_iter().partition(takes);
        left = others;
        if !taken.is_empty() {
            add(topic.part, (topic.title.to_owned(), Some(topic), taken));
        }
    }
    while let Some(first) = left.first().copied() {
        let (taken, others): (Vec<&Row>, Vec<&Row>) =
            left.into_iter().partition(|row| row.experiment == first.experiment);
        left = others;
        add(OTHERS, (first.experiment.clone(), None, taken));
    }
    parts
}
