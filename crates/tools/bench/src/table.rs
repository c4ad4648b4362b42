//! The rows of a run as tables for people.
//!
//! Each experiment has a heading with the parameters that all its rows share. If parameters vary, the
//! one with the most values is laid out in columns: a table for each metric and for each combination
//! of the others, with a line for each subject. If none varies, there is one table, with a line for
//! each metric and a column for each subject. Figures are medians; the last column has the widest
//! spread of the repeats in its line, (max - min) / median.

use std::fmt::Write;

use serde_json::Value;

use crate::row::Row;
use crate::run::LIMIT;

/// Columns of text that a table takes at most; more of them continue below.
const WIDTH: usize = 110;

/// Tables of all rows.
#[must_use]
pub fn table(rows: &[Row]) -> String {
    let mut text = String::new();
    for experiment in distinct(rows.iter().map(|row| row.experiment.as_str())) {
        let rows: Vec<_> = rows.iter().filter(|row| row.experiment == experiment).collect();
        if !text.is_empty() {
            text.push('\n');
        }
        describe(&mut text, experiment, &rows);
    }
    text
}

fn describe(text: &mut String, experiment: &str, rows: &[&Row]) {
    let names = distinct(rows.iter().flat_map(|row| row.params.keys().map(String::as_str)));
    let subjects = distinct(rows.iter().map(|row| row.subject.as_str()));
    let (shared, rest): (Vec<&str>, Vec<&str>) =
        names.into_iter().partition(|name| values(rows, name).len() == 1);
    let (of_subject, varying): (Vec<&str>, Vec<&str>) = rest.into_iter().partition(|name| {
        subjects.iter().all(|subject| {
            values(rows.iter().filter(|row| row.subject == *subject), name).len() == 1
        })
    });

    let first = &rows[0].params;
    let pairs: Vec<_> = shared.iter().map(|name| pair(name, first.get(*name))).collect();
    wrap(text, &format!("{experiment}:"), &pairs);
    for subject in subjects {
        let row = rows.iter().find(|row| row.subject == subject);
        let own =
            |name: &&str| row.and_then(|row| row.params.get(*name)).map(|v| pair(name, Some(v)));
        let pairs: Vec<_> = of_subject.iter().filter_map(own).collect();
        if !pairs.is_empty() {
            wrap(text, &format!("  {subject}:"), &pairs);
        }
    }

    let across = varying.iter().rev().max_by_key(|name| values(rows, name).len()).copied();
    let Some(across) = across else { return by_metric(text, rows) };
    let others: Vec<_> = varying.iter().filter(|name| **name != across).copied().collect();
    let combination = |row: &Row| -> Vec<Option<Value>> {
        others.iter().map(|name| row.params.get(*name).cloned()).collect()
    };
    for values in distinct(rows.iter().map(|row| combination(row))) {
        let rows: Vec<_> = rows.iter().filter(|row| combination(row) == values).copied().collect();
        for metric in distinct(rows.iter().map(|row| row.metric.as_str())) {
            let rows: Vec<_> = rows.iter().filter(|row| row.metric == metric).copied().collect();
            let mut heading = vec![format!("{metric}, {}", rows[0].unit)];
            heading.extend(others.iter().zip(&values).map(|(name, v)| pair(name, v.as_ref())));
            let _ = writeln!(text, "\n  {}", heading.join("  "));
            by_value(text, &rows, across);
        }
    }
}

/// A line for each subject, a column for each value of the parameter `across`.
fn by_value(text: &mut String, rows: &[&Row], across: &str) {
    let columns = values(rows, across);
    let at = |subject: &str, column: &Option<&Value>| {
        let here = |row: &&&Row| row.subject == subject && row.params.get(across) == *column;
        rows.iter().find(here).copied()
    };
    let mut lines = Vec::new();
    let subjects = distinct(rows.iter().map(|row| row.subject.as_str()));
    for subject in &subjects {
        let cells: Vec<_> = columns.iter().map(|column| at(subject, column)).collect();
        lines.push(line(subject, &cells, |row| Some(row.value)).with_spread(&cells));
        if cells.iter().flatten().any(|row| row.source.is_some()) {
            lines.push(line("  the source says", &cells, |row| row.source));
        }
    }
    if !subjects.contains(&LIMIT) {
        let limited = |column: &Option<&Value>| {
            let here = |row: &&&Row| row.limit.is_some() && row.params.get(across) == *column;
            rows.iter().find(here).copied()
        };
        let cells: Vec<_> = columns.iter().map(limited).collect();
        if cells.iter().any(Option::is_some) {
            lines.push(line(LIMIT, &cells, |row| row.limit));
        }
    }
    let header = columns.iter().map(|value| shown(*value)).collect();
    lay_out(text, across, header, &lines);
}

/// A line for each metric, a column for each subject.
fn by_metric(text: &mut String, rows: &[&Row]) {
    let subjects = distinct(rows.iter().map(|row| row.subject.as_str()));
    let mut lines = Vec::new();
    for (metric, unit) in distinct(rows.iter().map(|row| (row.metric.as_str(), row.unit.as_str())))
    {
        let of_metric = || rows.iter().filter(|row| row.metric == metric && row.unit == unit);
        let at = |subject: &&str| of_metric().find(|row| row.subject == *subject).copied();
        let cells: Vec<_> = subjects.iter().map(at).collect();
        let name = format!("{metric}, {unit}");
        lines.push(line(&name, &cells, |row| Some(row.value)).with_spread(&cells));
        for (name, figure) in [
            ("  the source says", (|row: &Row| row.source) as fn(&Row) -> Option<f64>),
            ("  limit", |row| row.limit),
        ] {
            if cells.iter().flatten().any(|row| figure(row).is_some()) {
                lines.push(line(name, &cells, figure));
            }
        }
    }
    lay_out(text, "", subjects.iter().map(ToString::to_string).collect(), &lines);
}

struct Line {
    name: String,
    cells: Vec<String>,
    spread: String,
}

impl Line {
    fn with_spread(mut self, cells: &[Option<&Row>]) -> Self {
        let spread = |row: &&Row| (row.max - row.min) / row.value;
        let spreads = cells.iter().flatten().map(spread).filter(|spread| spread.is_finite());
        if let Some(widest) = spreads.max_by(f64::total_cmp) {
            self.spread = format!("{:.0} %", widest * 100.0);
        }
        self
    }
}

fn line(name: &str, cells: &[Option<&Row>], figure: impl Fn(&Row) -> Option<f64>) -> Line {
    let cell = |row: &Option<&Row>| {
        row.and_then(|row| Some(self::figure(figure(row)?, &row.unit))).unwrap_or_default()
    };
    Line { name: name.to_owned(), cells: cells.iter().map(cell).collect(), spread: String::new() }
}

/// Writes lines under a header, in as many parts as the width requires.
fn lay_out(text: &mut String, corner: &str, header: Vec<String>, lines: &[Line]) {
    let len = |text: &str| text.chars().count();
    let names = lines.iter().map(|line| len(&line.name)).chain([len(corner)]);
    let name_width = names.max().unwrap_or(0);
    let cells = lines.iter().flat_map(|line| &line.cells).chain(&header);
    let width = cells.map(|cell| len(cell)).max().unwrap_or(0);
    let per_part = (WIDTH.saturating_sub(name_width + 12) / (width + 2)).max(1);
    for start in (0..header.len()).step_by(per_part) {
        let part = start..(start + per_part).min(header.len());
        let mut put = |name: &str, cells: &[String], spread: &str| {
            let _ = write!(text, "    {name:<name_width$}");
            for cell in &cells[part.clone()] {
                let _ = write!(text, "  {cell:>width$}");
            }
            let line_len = text.trim_end().len();
            if spread.is_empty() {
                text.truncate(line_len);
                text.push('\n');
            } else {
                let _ = writeln!(text, "  {spread:>6}");
            }
        };
        put(corner, &header, "spread");
        for line in lines {
            put(&line.name, &line.cells, &line.spread);
        }
    }
}

/// Writes pairs behind a name, in lines of no more than the width.
fn wrap(text: &mut String, name: &str, pairs: &[String]) {
    let mut len = name.chars().count();
    text.push_str(name);
    for pair in pairs {
        if len + 2 + pair.chars().count() > WIDTH {
            text.push_str("\n  ");
            len = 2;
        }
        len += 2 + pair.chars().count();
        text.push_str("  ");
        text.push_str(pair);
    }
    text.push('\n');
}

fn pair(name: &str, value: Option<&Value>) -> String {
    format!("{name}={}", shown(value))
}

fn shown(value: Option<&Value>) -> String {
    match value {
        None => "-".to_owned(),
        Some(Value::String(text)) => text.clone(),
        Some(value) => value.to_string(),
    }
}

/// The values that rows have of a parameter, in the order in which they appear.
fn values<'r, 'a: 'r>(
    rows: impl IntoIterator<Item = &'r &'a Row>,
    name: &str,
) -> Vec<Option<&'a Value>> {
    distinct(rows.into_iter().map(|row| row.params.get(name)))
}

fn distinct<T: PartialEq>(items: impl IntoIterator<Item = T>) -> Vec<T> {
    let mut found = Vec::new();
    for item in items {
        if !found.contains(&item) {
            found.push(item);
        }
    }
    found
}

/// A figure in few digits: times in the unit that suits them, rates and sizes with a prefix.
fn figure(value: f64, unit: &str) -> String {
    let scale: &[(f64, &str)] = match unit {
        "ns" => &[(1e9, " s"), (1e6, " ms"), (1e3, " µs"), (1.0, " ns"), (0.0, " ns")],
        "bool" => return if value == 0.0 { "no".to_owned() } else { "yes".to_owned() },
        _ => &[(1e9, " G"), (1e6, " M"), (1e4, " k"), (0.0, "")],
    };
    let found = scale.iter().find(|(least, _)| value.abs() >= *least);
    let (unit_value, suffix) = found.copied().unwrap_or((1.0, ""));
    let (scaled, suffix) = match suffix {
        " k" => (value / 1e3, suffix),
        _ if unit_value == 0.0 => (value, suffix),
        _ => (value / unit_value, suffix),
    };
    let digits = match scaled.abs() {
        whole if whole.fract() == 0.0 && suffix.is_empty() => 0,
        large if large >= 100.0 => 0,
        middle if middle >= 10.0 => 1,
        small if small >= 1.0 => 2,
        _ => 3,
    };
    format!("{scaled:.digits$}{suffix}")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn row(subject: &str, params: &Value, metric: &str, unit: &str, value: f64) -> Row {
        Row {
            experiment: "blocks.log".into(),
            subject: subject.into(),
            params: params.as_object().unwrap().clone(),
            metric: metric.into(),
            unit: unit.into(),
            value,
            min: value * 0.9,
            max: value * 1.1,
            limit: None,
            source: None,
        }
    }

    fn contains(text: &str, line: &[&str]) -> bool {
        text.lines().any(|has| has.split_whitespace().eq(line.iter().copied()))
    }

    #[test]
    fn a_parameter_that_varies_is_laid_out_in_columns() {
        let mut rows = Vec::new();
        for (size, factor) in [(64, 1.0), (128, 2.0)] {
            let params = json!({ "threads": 1, "entry": size });
            rows.push(row("rawl", &params, "throughput", "op/s", 1.5e6 * factor));
            rows.push(Row {
                source: Some(4e6),
                limit: Some(5e6),
                ..row("ours", &params, "throughput", "op/s", 2e6 * factor)
            });
            rows.push(row("ours", &params, "fences", "1/op", 1.0));
        }
        let text = table(&rows);
        assert!(contains(&text, &["blocks.log:", "threads=1"]), "{text}");
        assert!(contains(&text, &["throughput,", "op/s"]), "{text}");
        assert!(contains(&text, &["entry", "64", "128", "spread"]), "{text}");
        assert!(contains(&text, &["rawl", "1.50", "M", "3.00", "M", "20", "%"]), "{text}");
        assert!(contains(&text, &["the", "source", "says", "4.00", "M", "4.00", "M"]), "{text}");
        assert!(contains(&text, &["limit", "5.00", "M", "5.00", "M"]), "{text}");
        assert!(contains(&text, &["ours", "1", "1", "20", "%"]), "{text}");
    }

    #[test]
    fn without_one_there_is_a_column_for_each_subject() {
        let of = |durability: &str| json!({ "records": 10, "durability": durability });
        let rows = [
            row("halite", &of("fenced"), "throughput", "op/s", 1234.0),
            row("halite", &of("fenced"), "put-p99", "ns", 1500.0),
            row("lmdb", &of("synced"), "throughput", "op/s", 617.0),
        ];
        let text = table(&rows);
        assert!(contains(&text, &["blocks.log:", "records=10"]), "{text}");
        assert!(contains(&text, &["halite:", "durability=fenced"]), "{text}");
        assert!(contains(&text, &["halite", "lmdb", "spread"]), "{text}");
        assert!(contains(&text, &["throughput,", "op/s", "1234", "617", "20", "%"]), "{text}");
        assert!(contains(&text, &["put-p99,", "ns", "1.50", "µs", "20", "%"]), "{text}");
    }

    #[test]
    fn wide_tables_continue_below_and_keep_every_column() {
        let rows: Vec<_> = (0..60)
            .map(|size| row("rawl", &json!({ "entry": size * 64 }), "throughput", "op/s", 1e6))
            .collect();
        let text = table(&rows);
        assert!(text.lines().all(|line| line.chars().count() <= WIDTH + 4), "{text}");
        let shown: usize = text
            .lines()
            .filter(|line| line.trim_start().starts_with("rawl"))
            .map(|line| line.matches(" M").count())
            .sum();
        assert_eq!(shown, 60, "{text}");
    }
}
