//! The commands that wait for EXEC.

use std::ops::Range;

use crate::admission::admitted::Admitted;
use crate::commands::Command;
use crate::resp::Args;

/// Commands in the order in which they came, with copies of their words.
#[derive(Debug, Default)]
pub(crate) struct Queue {
    commands: Vec<(&'static Command, Range<usize>)>,
    ranges: Vec<Range<usize>>,
    bytes: Vec<u8>,
    /// A command was refused: EXEC must not execute the others, which are not kept.
    aborted: bool,
}

impl Queue {
    /// Adds a command, unless the transaction is aborted.
    pub(crate) fn push(&mut self, admitted: Admitted<'_>) {
        if self.aborted {
            return;
        }
        let first = self.ranges.len();
        for arg in admitted.args() {
            let start = self.bytes.len();
            self.bytes.extend_from_slice(arg);
            self.ranges.push(start..self.bytes.len());
        }
        self.commands.push((admitted.command(), first..self.ranges.len()));
    }

    /// Gives the transaction up.
    pub(crate) fn abort(&mut self) {
        *self = Self { aborted: true, ..Self::default() };
    }

    /// Whether EXEC must not execute it.
    pub(crate) fn is_aborted(&self) -> bool {
        self.aborted
    }

    /// The commands.
    pub(crate) fn iter(&self) -> impl Iterator<Item = Admitted<'_>> {
        self.commands.iter().map(|(command, range)| {
            Admitted::kept(command, Args::new(&self.bytes, &self.ranges[range.clone()]))
        })
    }

    /// The number of commands.
    pub(crate) fn len(&self) -> usize {
        self.commands.len()
    }

    /// Bytes of memory that the commands take.
    pub(crate) fn byte_len(&self) -> usize {
        self.bytes.capacity()
            + self.ranges.capacity() * size_of::<Range<usize>>()
            + self.commands.capacity() * size_of::<(&Command, Range<usize>)>()
    }
}
