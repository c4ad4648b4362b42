//! Rows in columns, for people.

use std::io::{self, Write};

/// Rows by which the widths of the columns are found.
const SAMPLE: usize = 100;

/// The widest that a column gets: a longer cell moves those behind it.
const WIDTH_MAX: usize = 40;

/// A table that is written while its rows come.
pub(super) struct Aligned<W> {
    out: W,
    /// Whether the cells of a column stand at its right side.
    is_right: Vec<bool>,
    /// The heading, and the first rows, until there are enough of them.
    sample: Vec<Vec<String>>,
    widths: Option<Vec<usize>>,
}

impl<W: Write> Aligned<W> {
    pub(super) fn new(out: W, columns: Vec<(String, bool)>) -> Self {
        let (heading, is_right) = columns.into_iter().unzip();
        Self { out, is_right, sample: vec![heading], widths: None }
    }

    pub(super) fn row(&mut self, cells: Vec<String>) -> io::Result<()> {
        match &self.widths {
            Some(widths) => line(&mut self.out, &cells, widths, &self.is_right),
            None => {
                self.sample.push(cells);
                if self.sample.len() > SAMPLE { self.write_sample() } else { Ok(()) }
            }
        }
    }

    /// Writes what is left.
    pub(super) fn finish(mut self) -> io::Result<()> {
        if self.widths.is_none() {
            self.write_sample()?;
        }
        self.out.flush()
    }

    fn write_sample(&mut self) -> io::Result<()> {
        let sample = std::mem::take(&mut self.sample);
        let width = |column: usize| {
            let widest = sample.iter().map(|cells| cells[column].chars().count()).max();
            widest.unwrap_or(0).min(WIDTH_MAX)
        };
        let widths: Vec<_> = (0..self.is_right.len()).map(width).collect();
        for cells in &sample {
            line(&mut self.out, cells, &widths, &self.is_right)?;
        }
        self.widths = Some(widths);
        Ok(())
    }
}

fn line(
    out: &mut impl Write,
    cells: &[String],
    widths: &[usize],
    is_right: &[bool],
) -> io::Result<()> {
    let mut line = String::new();
    for ((cell, &width), &is_right) in cells.iter().zip(widths).zip(is_right) {
        let padded = if is_right { format!("{cell:>width$}") } else { format!("{cell:<width$}") };
        line.push_str(&padded);
        line.push_str("  ");
    }
    writeln!(out, "{}", line.trim_end())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn print(rows: &[[&str; 2]]) -> String {
        let mut out = Vec::new();
        let columns = vec![("id".to_owned(), true), ("name".to_owned(), false)];
        let mut table = Aligned::new(&mut out, columns);
        for row in rows {
            table.row(row.map(str::to_owned).to_vec()).unwrap();
        }
        table.finish().unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn cells_stand_below_each_other() {
        assert_eq!(print(&[]), "id  name\n");
        assert_eq!(print(&[["1", "é"], ["200", "x"]]), " id  name\n  1  é\n200  x\n");
    }

    #[test]
    fn the_first_rows_say_how_wide_a_column_is() {
        let mut rows = vec![["1", "x"]; 150];
        rows[120] = ["10000", "y"];
        let text = print(&rows);
        assert_eq!(text.lines().count(), 151);
        assert_eq!(text.lines().nth(121), Some("10000  y"));
        assert_eq!(text.lines().nth(122), Some(" 1  x"));
    }
}
