//! Needless and careless requests of a store to its pool.

use std::collections::BTreeMap;
use std::ops::AddAssign;

use halite_pmem::LINE;
use halite_sim::{Site, Trace, What};

use crate::Rules;

/// A habit that a trace shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Lint {
    /// A line was flushed to which no store had been made.
    CleanFlush,
    /// A line was flushed again before its fence, without a store in between.
    SecondFlush,
    /// A fence had no flush and no streamed store to wait for.
    EmptyFence,
    /// A line was stored to between its flush and its fence.
    StoreBeforeFence,
    /// A publication whose proof is of bytes that are not certainly durable.
    UnfencedPublication,
}

impl Lint {
    /// Returns the lint's name in a few words.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::CleanFlush => "flush of a clean line",
            Self::SecondFlush => "line flushed twice before its fence",
            Self::EmptyFence => "fence with nothing pending",
            Self::StoreBeforeFence => "store to a line between its flush and its fence",
            Self::UnfencedPublication => "publication of unfenced data",
        }
    }

    /// Whether it breaks a guarantee wherever it occurs. The others only cost time, and a read after a crash that has
    /// to make sure of bytes that an earlier process may have left unfenced cannot avoid that cost.
    #[must_use]
    pub fn is_wrong(self) -> bool {
        matches!(self, Self::StoreBeforeFence | Self::UnfencedPublication)
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    Dirty,
    Flushed,
}

/// How often each habit was met, by the place in the code; and out of how many chances.
#[derive(Debug, Clone, Default)]
pub struct Lints {
    is_off: bool,
    met: BTreeMap<(Lint, Site), (u64, u64)>,
}

impl Lints {
    /// The counts are meaningful only under the rules of memory.
    #[must_use]
    pub fn new(rules: Rules) -> Self {
        Self { is_off: rules != Rules::Memory, met: BTreeMap::new() }
    }

    /// The habits that occurred: habit, place, how often, and out of how many chances.
    pub fn met(&self) -> impl Iterator<Item = (Lint, Site, u64, u64)> {
        let met = self.met.iter().filter(|(_, (count, _))| *count > 0);
        met.map(|(&(lint, site), &(count, chances))| (lint, site, count, chances))
    }

    fn count(&mut self, lint: Lint, site: Site, count: u64, chances: u64) {
        let met = self.met.entry((lint, site)).or_default();
        *met = (met.0 + count, met.1 + chances);
    }

    /// Examines the trace of a store that began with a durable pool.
    pub fn see(&mut self, trace: &Trace) {
        if self.is_off {
            return;
        }
        let mut lines: BTreeMap<u64, State> = BTreeMap::new();
        for event in &trace.events {
            let site = event.site;
            match event.what {
                What::Store { at, len, .. } => {
                    let stored = at / LINE..(at + u64::from(len)).div_ceil(LINE);
                    let early = stored
                        .clone()
                        .filter(|line| lines.insert(*line, State::Dirty) == Some(State::Flushed));
                    let early = early.count() as u64;
                    self.count(Lint::StoreBeforeFence, site, early, stored.end - stored.start);
                }
                What::Flush { at, len } => {
                    let range = at / LINE..(at + len).div_ceil(LINE);
                    let (count, mut unclean, mut twice) = (range.end - range.start, 0, 0);
                    for (_, state) in lines.range_mut(range) {
                        unclean += 1;
                        twice += u64::from(*state == State::Flushed);
                        *state = State::Flushed;
                    }
                    self.count(Lint::CleanFlush, site, count - unclean, count);
                    self.count(Lint::SecondFlush, site, twice, count);
                }
                What::Fence { first, count } => {
                    let before = lines.len();
                    for &(at, len) in trace.fenced(first, count) {
                        let range = at / LINE..(at + len).div_ceil(LINE);
                        let flushed: Vec<_> = lines
                            .range(range)
                            .filter(|(_, state)| **state == State::Flushed)
                            .map(|(line, _)| *line)
                            .collect();
                        for line in flushed {
                            lines.remove(&line);
                        }
                    }
                    self.count(Lint::EmptyFence, site, u64::from(lines.len() == before), 1);
                }
                What::SyncFile => lines.clear(),
                What::Publish { at, len } => {
                    let range = at / LINE..(at + len).div_ceil(LINE);
                    let unfenced = len > 0 && lines.range(range).next().is_some();
                    self.count(Lint::UnfencedPublication, site, u64::from(unfenced), 1);
                }
                What::Kill => lines.values_mut().for_each(|state| *state = State::Dirty),
                What::Sync { .. }
                | What::SyncFailed { .. }
                | What::Rewrite { .. }
                | What::Length { .. }
                | What::Link
                | What::SyncFolder
                | What::Disk { .. }
                | What::Mark(_) => {}
            }
        }
    }
}

impl AddAssign for Lints {
    fn add_assign(&mut self, other: Self) {
        for ((lint, site), (count, chances)) in other.met {
            self.count(lint, site, count, chances);
        }
    }
}
