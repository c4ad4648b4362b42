//! Rows as tables for a terminal of 100 columns.

use crate::grid::{COLUMNS, Grid, Line, RUN, grids};
use crate::quantity;
use crate::row::Row;

const WIDTH: usize = 100;
/// Columns whose cells are words; the others are numbers, and stand at the right.
const WORDS: usize = 2;
/// The longest subject or metric that is shown whole if space is short.
const WORD_MAX: usize = 28;

/// All rows, a table an experiment: parameters, subject, metric, value, least to largest repeat, how
/// much of the limit that is, and what the source reports. Parameters that a whole experiment shares
/// stand in its heading; if the others make the table too wide, they stand above the rows that share
/// them.
#[must_use]
pub fn render(rows: &[Row]) -> String {
    let mut out = String::new();
    for row in rows.iter().filter(|row| row.experiment == RUN) {
        if row.value == 1.0 {
            out += "interrupted: partial results\n";
        }
        let words =
            row.params.iter().map(|(name, value)| named(name, &quantity::param(name, value)));
        out += &wrapped("run", words);
    }
    for grid in grids(rows) {
        if !out.is_empty() {
            out.push('\n');
        }
        out +=
            &wrapped(grid.experiment, grid.common.iter().map(|(name, value)| named(name, value)));
        out += &with_columns(&grid).unwrap_or_else(|| with_headings(&grid));
    }
    out
}

/// Parameters as columns, if that is narrow enough.
fn with_columns(grid: &Grid<'_>) -> Option<String> {
    let count = grid.params.len();
    let header: Vec<String> =
        grid.params.iter().copied().chain(COLUMNS).map(str::to_owned).collect();
    let lines: Vec<Vec<String>> = grid
        .lines
        .iter()
        .map(|line| {
            let cells = line.cells().map(str::to_owned);
            line.params.iter().cloned().chain(cells).map(one_line).collect()
        })
        .collect();
    let widths = widths(&header, &lines);
    let width: usize = widths.iter().filter(|&&width| width > 0).map(|width| width + 2).sum();
    (width <= WIDTH).then(|| {
        std::iter::once(&header)
            .chain(&lines)
            .map(|line| laid_out(line, &widths, count + WORDS))
            .collect()
    })
}

/// Parameters as headings, subjects and metrics cut to [`WORD_MAX`].
fn with_headings(grid: &Grid<'_>) -> String {
    let cells = |line: &Line<'_>| -> Vec<String> {
        line.cells()
            .iter()
            .enumerate()
            .map(|(place, cell)| {
                let most = if place < WORDS { WORD_MAX - 6 * place } else { 16 };
                shortened(&one_line((*cell).to_owned()), most)
            })
            .collect()
    };
    let header: Vec<String> = COLUMNS.map(str::to_owned).to_vec();
    let lines: Vec<Vec<String>> = grid.lines.iter().map(cells).collect();
    let mut widths = widths(&header, &lines);
    widths[0] += 2;
    let mut out = laid_out(&header, &widths, WORDS);
    let mut above: Option<&[String]> = None;
    for (line, cells) in grid.lines.iter().zip(lines) {
        if above != Some(line.params.as_slice()) {
            above = Some(&line.params);
            let words = grid.params.iter().zip(&line.params).filter(|(_, value)| !value.is_empty());
            out += &wrapped("", words.map(|(name, value)| named(name, value)));
        }
        out += "  ";
        let mut indented = widths.clone();
        indented[0] -= 2;
        out += &laid_out(&cells, &indented, WORDS);
    }
    out
}

/// The widest cell of each column; 0 where all cells below the header are empty.
fn widths(header: &[String], lines: &[Vec<String>]) -> Vec<usize> {
    let widest = |place: usize| lines.iter().map(|line| line[place].chars().count()).max();
    header
        .iter()
        .enumerate()
        .map(|(place, name)| match widest(place).unwrap_or(0) {
            0 => 0,
            width => width.max(name.chars().count()),
        })
        .collect()
}

fn laid_out(cells: &[String], widths: &[usize], words: usize) -> String {
    let mut out = String::new();
    for (place, (cell, &width)) in cells.iter().zip(widths).enumerate() {
        match width {
            0 => {}
            _ if place < words => out += &format!("{cell:<width$}  "),
            _ => out += &format!("{cell:>width$}  "),
        }
    }
    format!("{}\n", out.trim_end())
}

/// Words behind a heading, on as many lines as they need.
fn wrapped(heading: &str, words: impl Iterator<Item = String>) -> String {
    let mut lines = vec![shortened(&one_line(heading.to_owned()), WIDTH)];
    for word in words {
        let word = shortened(&one_line(word), WIDTH - 2);
        let last = lines.len() - 1;
        let room = WIDTH.saturating_sub(lines[last].chars().count() + 2);
        if lines[last].is_empty() {
            lines[last] = word;
        } else if word.chars().count() <= room {
            lines[last] += &format!("  {word}");
        } else {
            lines.push(format!("  {word}"));
        }
    }
    lines.join("\n") + "\n"
}

fn named(name: &str, value: &str) -> String {
    format!("{name}={value}")
}

/// A name comes from outside: what would move the cursor is shown as its escape.
fn one_line(text: String) -> String {
    if text.chars().any(char::is_control) { text.escape_debug().to_string() } else { text }
}

fn shortened(text: &str, most: usize) -> String {
    if text.chars().count() <= most {
        return text.to_owned();
    }
    text.chars().take(most.saturating_sub(1)).chain(['…']).collect()
}
