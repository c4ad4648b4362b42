//! What is certainly on the medium, and how to put a medium into another state and back.
//!
//! Nothing here copies a pool. A change of the durable bytes is a few lines, remembered so that it can
//! be taken back; the live memory of the [`Medium`] is brought up to date line by line, before a store
//! opens on it.

use halite_pmem::{LINE, Medium, ModelFile, Trace, What};
use xxhash_rust::xxh3::xxh3_64_with_seed;

pub(crate) const LINE_LEN: usize = LINE as usize;

pub(crate) type Line = [u8; LINE_LEN];

/// The durable bytes, and the medium on which stores open.
pub(crate) struct Disk {
    pub(crate) medium: Medium,
    bytes: Vec<u8>,
    pub(crate) file: ModelFile,
    /// A sum over all lines that are not zero: two disks with one sum have the same bytes.
    sum: u64,
    undo: Vec<(u64, Line)>,
    /// Lines in which the medium may differ from the durable bytes.
    stale: Vec<u64>,
}

/// A state to go back to.
#[derive(Clone, Copy)]
pub(crate) struct Moment {
    undo_len: usize,
    file: ModelFile,
}

impl Disk {
    /// The disk of a medium that nothing was ever stored on.
    pub(crate) fn new(medium: Medium) -> Self {
        let bytes = vec![0; medium.capacity() as usize];
        let file = medium.file();
        Self { medium, bytes, file, sum: 0, undo: Vec::new(), stale: Vec::new() }
    }

    pub(crate) fn line(&self, line: u64) -> &Line {
        let start = line as usize * LINE_LEN;
        self.bytes[start..start + LINE_LEN].as_array().expect("as long as a line")
    }

    /// Identifies the state: bytes, length, name, and the count of failures.
    pub(crate) fn identity(&self) -> u64 {
        let ModelFile { named, len, unsafe_shutdowns } = self.file;
        let shutdowns = unsafe_shutdowns.map_or(0, |count| count + 1);
        let mut file = [0; 24];
        file[..8].copy_from_slice(&len.to_le_bytes());
        file[8..16].copy_from_slice(&shutdowns.to_le_bytes());
        file[16] = named.into();
        self.sum ^ xxh3_64_with_seed(&file, 0)
    }

    /// Makes bytes durable.
    pub(crate) fn change(&mut self, mut at: u64, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            let (line, start) = (at / LINE, (at % LINE) as usize);
            let (part, rest) = bytes.split_at(bytes.len().min(LINE_LEN - start));
            let mut new = *self.line(line);
            new[start..start + part.len()].copy_from_slice(part);
            self.change_line(line, &new);
            (at, bytes) = (at + part.len() as u64, rest);
        }
    }

    pub(crate) fn change_line(&mut self, line: u64, new: &Line) {
        let old = *self.line(line);
        if old != *new {
            self.undo.push((line, old));
            self.set_line(line, &old, new);
        }
    }

    fn set_line(&mut self, line: u64, old: &Line, new: &Line) {
        self.sum = self.sum.wrapping_sub(sum_of(line, old)).wrapping_add(sum_of(line, new));
        let start = line as usize * LINE_LEN;
        self.bytes[start..start + LINE_LEN].copy_from_slice(new);
        self.stale.push(line);
    }

    /// Makes all bytes zero.
    pub(crate) fn clear(&mut self) {
        // What is not zero was changed once.
        let mut lines: Vec<_> = self.undo.iter().map(|(line, _)| *line).collect();
        lines.sort_unstable();
        lines.dedup();
        lines.into_iter().for_each(|line| self.change_line(line, &[0; LINE_LEN]));
    }

    pub(crate) fn now(&self) -> Moment {
        Moment { undo_len: self.undo.len(), file: self.file }
    }

    /// Goes back to an earlier moment.
    pub(crate) fn go_back(&mut self, moment: Moment) {
        while self.undo.len() > moment.undo_len
            && let Some((line, old)) = self.undo.pop()
        {
            let new = *self.line(line);
            self.set_line(line, &new, &old);
        }
        self.file = moment.file;
    }

    /// Forgets how to go back.
    pub(crate) fn forget_moments(&mut self) {
        self.undo.clear();
    }

    /// Remembers that a store ran on the medium.
    pub(crate) fn was_used(&mut self, trace: &Trace) {
        for event in &trace.events {
            if let What::Store { at, len, .. } = event.what {
                self.stale.extend(at / LINE..(at + u64::from(len)).div_ceil(LINE));
            }
        }
    }

    /// Puts the medium into the durable state. What happens on it then depends on that state alone.
    pub(crate) fn show(&mut self) {
        self.stale.sort_unstable();
        self.stale.dedup();
        let bytes = &self.bytes;
        let parts = self.stale.drain(..).map(|line| {
            let start = line as usize * LINE_LEN;
            (line * LINE, &bytes[start..start + LINE_LEN])
        });
        self.medium.restore(self.file, parts);
        self.medium.seed(self.identity());
    }
}

fn sum_of(line: u64, bytes: &Line) -> u64 {
    if *bytes == [0; LINE_LEN] { 0 } else { xxh3_64_with_seed(bytes, line) }
}
