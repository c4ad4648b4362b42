//! The stores of a trace to each line: when, and by which part of the code.

use std::collections::BTreeMap;

use halite_pmem::LINE;
use halite_sim::{Site, Trace, What};

use crate::Random;
use crate::disk::{LINE_LEN, Line};

/// The stores of a trace, by line.
pub(crate) struct Past<'a> {
    trace: &'a Trace,
    /// Line and event, ascending.
    stores: Vec<(u64, u32)>,
    /// The lines that each source file was the last to store to, in the order of their last stores.
    by_file: Vec<Vec<u64>>,
}

impl<'a> Past<'a> {
    /// The stores before the event `until`. Before the trace all bytes were zero.
    pub(crate) fn new(trace: &'a Trace, until: u32) -> Self {
        let mut stores = Vec::new();
        for (number, event) in (0..until).zip(&trace.events) {
            stores.extend(lines(event.what).map(|line| (line, number)));
        }
        stores.sort_unstable();
        let mut last: Vec<_> = stores
            .chunk_by(|a, b| a.0 == b.0)
            .filter_map(|of_line| of_line.last())
            .map(|&(line, event)| (event, line))
            .collect();
        last.sort_unstable();
        let mut by_file: BTreeMap<&str, Vec<u64>> = BTreeMap::new();
        for (event, line) in last {
            by_file.entry(trace.events[event as usize].site.file()).or_default().push(line);
        }
        Self { trace, stores, by_file: by_file.into_values().collect() }
    }

    fn stores_to(&self, from: u64, to: u64) -> &[(u64, u32)] {
        let at = |line| self.stores.partition_point(|(stored, _)| *stored < line);
        &self.stores[at(from)..at(to)]
    }

    /// The place in the code that stored to a line last, if there is one.
    pub(crate) fn site(&self, line: u64) -> Option<Site> {
        let (_, event) = self.stores_to(line, line + 1).last()?;
        Some(self.trace.events[*event as usize].site)
    }

    /// A line that was stored to. Each source file has the same chance, since the rarest structures
    /// matter most; of its lines the youngest are preferred, where a log ends.
    pub(crate) fn any_line(&self, random: &mut Random) -> u64 {
        let lines = &self.by_file[random.index(self.by_file.len())];
        let young = match random.below(100) {
            0..15 => 1,
            15..40 => lines.len().min(12),
            _ => lines.len(),
        };
        lines[lines.len() - 1 - random.index(young)]
    }

    /// The event before one of the stores to a range of lines, if there are any.
    pub(crate) fn any_moment(&self, from: u64, to: u64, random: &mut Random) -> Option<u32> {
        let stores = self.stores_to(from, to);
        (!stores.is_empty()).then(|| stores[random.index(stores.len())].1)
    }

    /// The content of a line before an event.
    pub(crate) fn version(&self, line: u64, before: u32) -> Line {
        let versions = self.versions(line).take_while(|(event, _)| *event < before);
        versions.last().map_or([0; LINE_LEN], |(_, version)| version)
    }

    /// Whether a line held these bytes once.
    pub(crate) fn once_held(&self, line: u64, bytes: &Line) -> bool {
        self.versions(line).any(|(_, version)| version == *bytes)
    }

    /// The content of a line behind each event that stored to it.
    fn versions(&self, line: u64) -> impl Iterator<Item = (u32, Line)> {
        let (mut version, start) = ([0; LINE_LEN], line * LINE);
        self.stores_to(line, line + 1).iter().map(move |&(_, event)| {
            if let What::Store { at, len, bytes, .. } = self.trace.events[event as usize].what {
                let stored = self.trace.stored(bytes, len);
                let (from, to) = (at.max(start), (at + u64::from(len)).min(start + LINE));
                version[(from - start) as usize..(to - start) as usize]
                    .copy_from_slice(&stored[(from - at) as usize..(to - at) as usize]);
            }
            (event, version)
        })
    }

    /// The lines behind an offset that were stored to.
    pub(crate) fn lines_behind(&self, at: u64) -> Vec<u64> {
        let mut lines: Vec<_> =
            self.stores_to(at / LINE, u64::MAX).iter().map(|(line, _)| *line).collect();
        lines.dedup();
        lines
    }
}

/// The lines that an event stores to.
pub(crate) fn lines(what: What) -> std::ops::Range<u64> {
    match what {
        What::Store { at, len, .. } => at / LINE..(at + u64::from(len)).div_ceil(LINE),
        _ => 0..0,
    }
}
