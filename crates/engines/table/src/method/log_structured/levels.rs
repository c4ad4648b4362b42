//! The levels of runs (O'Neil et al.; leveled as in LevelDB).
//!
//! ```text
//!  level 0   [a ....... z] [a ..... y] [c ....... z]     whole flushed memtables, the newest first
//!  level 1   [a .. f][g .. m][n .. z]                    runs without a key in common, in their order
//!  level 2   [a..b][c..d][e..f] ...                      ten times as many bytes, and so on
//! ```
//!
//! The entry of a key in a level is newer than all in the levels below. A get asks each run of level 0 and one of each
//! level below, first its filter, until a whole row or a tombstone is found.

use std::collections::VecDeque;

use halite_sst::{Found, Reads, SEQUENCE_MAX, hash_key};

use super::Options;
use super::entry::Coalescing;
use super::merge::Source;
use super::run::Run;
use crate::component::Component;
use crate::index::Direction;
use crate::{KeyRange, Result};

/// The most levels: the last has no limit.
pub(super) const LEVELS_MAX: usize = 8;

/// The runs of each level.
#[derive(Clone, Default)]
pub(super) struct Levels(pub(super) Vec<Vec<Run>>);

/// The runs that are merged to others, or written anew in their place.
pub(super) struct Task {
    /// The level that the outputs are in.
    pub(super) to_level: usize,
    /// The inputs, the newest first: each group is a source.
    pub(super) inputs: Vec<Vec<Run>>,
    /// Whether a run is only written without what was dropped.
    pub(super) is_rewriting: bool,
}

impl Levels {
    pub(super) fn level(&self, number: usize) -> &[Run] {
        self.0.get(number).map_or(&[], Vec::as_slice)
    }

    /// All runs with their levels.
    pub(super) fn runs(&self) -> impl Iterator<Item = (usize, &Run)> {
        let levels = self.0.iter().enumerate();
        levels.flat_map(|(number, level)| level.iter().map(move |run| (number, run)))
    }

    /// Adds the entries of a key, the newest first, until they are settled.
    pub(super) fn collect(&self, key: &[u8], entries: &mut Coalescing) -> Result<()> {
        let _in = Component::Index.enter();
        let hash = hash_key(key);
        let others = self.0.iter().skip(1).filter_map(|level| run_of(level, key));
        for run in self.level(0).iter().chain(others) {
            if entries.is_settled() {
                break;
            }
            if !run.overlaps((key, key)) {
                continue;
            }
            if let Some(Found { kind, value, .. }) =
                run.table.get_hashed(key, hash, SEQUENCE_MAX)?
            {
                entries.add((kind, &value))?;
            }
        }
        Ok(())
    }

    /// The sources of a range of keys, the newest first.
    pub(super) fn sources<'a>(
        &self,
        range: &KeyRange,
        direction: Direction,
    ) -> Result<Vec<Source<'a>>> {
        let mut sources = Vec::new();
        for (number, level) in self.0.iter().enumerate() {
            let is_within = |run: &&Run| {
                let (first, last) = run.span();
                range.from.as_slice() <= last && range.to.as_deref().is_none_or(|to| first < to)
            };
            let tables = level.iter().filter(is_within).map(|run| run.table.clone());
            let groups: Vec<VecDeque<_>> = match (number, direction) {
                (0, _) => tables.map(|table| VecDeque::from([table])).collect(),
                (_, Direction::Forward) => vec![tables.collect()],
                (_, Direction::Reverse) => vec![tables.rev().collect()],
            };
            for group in groups {
                sources.push(Source::of_runs(group, range.clone(), direction, Reads::Cached)?);
            }
        }
        Ok(sources)
    }

    /// Whether a level below one may have a key.
    pub(super) fn is_below(&self, level: usize, key: &[u8]) -> bool {
        self.0.iter().skip(level + 1).any(|level| run_of(level, key).is_some())
    }

    /// The bytes of a level.
    fn bytes(&self, number: usize) -> u64 {
        self.level(number).iter().map(|run| run.meta.file_len).sum()
    }

    /// The merge that is due the most, if one is: of level 0, when it has as many runs as it may have, or of a run of a
    /// level that is longer than it may be: the first behind the last one that was merged, as `last` says.
    pub(super) fn pick(&self, options: &Options, last: &[Vec<u8>]) -> Option<Task> {
        let fullness = |number: usize| {
            let (is, may) = match number {
                0 => (self.level(0).len() as u64, options.level0_max as u64),
                _ => (self.bytes(number), options.level_bytes(number)),
            };
            is as f64 / may.max(1) as f64
        };
        let levels = 0..self.0.len().min(LEVELS_MAX - 1);
        let due = levels.map(|number| (number, fullness(number))).filter(|(_, full)| *full >= 1.0);
        let (number, _) = due.max_by(|one, two| one.1.total_cmp(&two.1))?;
        if number == 0 {
            return Some(self.down(0, self.level(0).to_vec()));
        }
        let level = self.level(number);
        let after = last.get(number).map_or(&[][..], Vec::as_slice);
        let next = level.iter().find(|run| run.span().0 > after).or(level.first())?;
        Some(self.down(number, vec![next.clone()]))
    }

    /// The merge of runs of a level with those of the next that have keys between theirs.
    pub(super) fn down(&self, number: usize, upper: Vec<Run>) -> Task {
        let first = upper.iter().map(|run| run.span().0).min().unwrap_or_default();
        let last = upper.iter().map(|run| run.span().1).max().unwrap_or_default();
        let lower = self.level(number + 1).iter().filter(|run| run.overlaps((first, last)));
        let lower = lower.cloned().collect();
        let mut inputs: Vec<Vec<Run>> = upper.into_iter().map(|run| vec![run]).collect();
        inputs.push(lower);
        Task { to_level: number + 1, inputs, is_rewriting: false }
    }

    /// The levels with the outputs of a task in place of its inputs.
    pub(super) fn with(&self, task: &Task, outputs: Vec<Run>) -> Self {
        let mut levels = self.0.clone();
        levels.resize(levels.len().max(task.to_level + 1), Vec::new());
        let is_input = |run: &Run| {
            let mut inputs = task.inputs.iter().flatten();
            inputs.any(|input| input.meta.number == run.meta.number)
        };
        if task.to_level == 0 {
            // A run of level 0 keeps its place among the others.
            let mut outputs = Some(outputs);
            levels[0] = std::mem::take(&mut levels[0])
                .into_iter()
                .flat_map(|run| match is_input(&run) {
                    true => outputs.take().unwrap_or_default(),
                    false => vec![run],
                })
                .collect();
            return Self(levels);
        }
        levels.iter_mut().for_each(|level| level.retain(|run| !is_input(run)));
        levels[task.to_level].extend(outputs);
        levels[task.to_level].sort_by(|one, two| one.span().0.cmp(two.span().0));
        while levels.last().is_some_and(Vec::is_empty) {
            levels.pop();
        }
        Self(levels)
    }

    /// The levels with the run of a flushed memtable.
    pub(super) fn with_flushed(&self, run: Run) -> Self {
        let mut levels = self.0.clone();
        levels.resize(levels.len().max(1), Vec::new());
        levels[0].insert(0, run);
        Self(levels)
    }
}

/// The run of a level without overlaps that may have a key.
fn run_of<'r>(level: &'r [Run], key: &[u8]) -> Option<&'r Run> {
    let at = level.partition_point(|run| run.span().1 < key);
    level.get(at).filter(|run| run.span().0 <= key)
}
