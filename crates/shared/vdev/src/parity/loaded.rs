//! The columns of an extent, as far as their leaves give them.
//!
//! To reconstruct a part of a column, the same part of the others is needed. So what is loaded is the *window* of every
//! column that covers the wanted range: from the first row byte to the last that the range touches in any column.

use std::ops::Range;

use super::geometry::{Column, Columns};
use crate::member::Standing;
use crate::members::Members;
use crate::scrub::Findings;

/// The window of a column.
pub(crate) struct Part {
    pub(crate) bytes: Vec<u8>,
    /// Whether its leaf has every write and works: it is relied on before others.
    pub(crate) is_current: bool,
}

pub(crate) struct Loaded<'a> {
    columns: &'a Columns,
    /// In every column.
    window: Range<usize>,
    /// The columns that their leaves gave.
    pub(crate) data: Vec<Option<Part>>,
    pub(crate) parity: Vec<Option<Part>>,
    /// The data columns that the range touches.
    pub(crate) touched: Vec<usize>,
}

impl<'a> Loaded<'a> {
    pub(crate) fn read(
        members: &Members,
        columns: &'a Columns,
        range: &Range<usize>,
        findings: &mut Findings,
    ) -> Self {
        let touched: Vec<_> = (0..columns.data.len())
            .filter(|&number| !columns.data[number].part(range).is_empty())
            .collect();
        let parts = || touched.iter().map(|&number| columns.data[number].part(range));
        let start = parts().map(|part| part.start).min().unwrap_or(0);
        let window = start..parts().map(|part| part.end).max().unwrap_or(0);
        let mut load = |column: &Column| {
            let within = clamp(&window, column);
            let member = members.get(column.leaf);
            let mut bytes = vec![0; within.len()];
            match member.read(column.run, within.start, &mut bytes) {
                Ok(()) => {
                    let is_current = member.standing() == Standing::Current;
                    findings.note(format!("{}: readable", member.name()));
                    Some(Part { bytes, is_current })
                }
                Err(error) => {
                    findings.unread(&error);
                    None
                }
            }
        };
        let data = columns.data.iter().map(&mut load).collect();
        let parity = columns.parity.iter().map(&mut load).collect();
        Self { columns, window, data, parity, touched }
    }

    /// How long the window of a data column is.
    pub(crate) fn len(&self, number: usize) -> usize {
        clamp(&self.window, &self.columns.data[number]).len()
    }

    /// Copies the bytes of `range` from the windows of the data columns.
    pub(crate) fn gather(&self, data: &[&[u8]], range: &Range<usize>, to: &mut [u8]) {
        for &number in &self.touched {
            let column = &self.columns.data[number];
            let part = column.part(range);
            let from = &data[number][part.start - self.window.start..][..part.len()];
            to[column.at + part.start - range.start..][..part.len()].copy_from_slice(from);
        }
    }

    /// Whether the leaf of a data column gave these bytes as a part of it.
    pub(crate) fn has(&self, number: usize, part: &Range<usize>, bytes: &[u8]) -> bool {
        self.data[number].as_ref().is_some_and(|found| {
            found.bytes[part.start - self.window.start..][..part.len()] == *bytes
        })
    }
}

/// The window of a column that may be shorter than others.
fn clamp(window: &Range<usize>, column: &Column) -> Range<usize> {
    let end = column.run.byte_len();
    window.start.min(end)..window.end.min(end)
}
