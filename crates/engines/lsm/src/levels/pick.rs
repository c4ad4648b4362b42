//! The choice of the next compaction.
//!
//! The last level has almost everything; each level above it may have a part of that, until one may have no
//! more than [`LevelsOptions::base_bytes`]: the *base*, which is merged into from above, and above which
//! levels are empty. So a small tree has one level, and space is wasted only for a fraction of the last one.
//! A level's score is how many times its target it has, and that of level 0 how many times
//! [`LevelsOptions::runs_min`] runs; the highest is the next one. Of the level, the table goes for which
//! the least of the next level is written anew.

use std::collections::HashSet;
use std::sync::Arc;

use halite_sst::Span;

use super::edit::LEVELS;
use super::options::LevelsOptions;
use super::version::{Run, TableFile, TreeVersion};

/// How large levels may be.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Shape {
    /// The level that is merged into from above.
    pub(crate) base: usize,
    /// The bytes that each level may have; the last one has no limit.
    targets: [f64; LEVELS],
}

impl Shape {
    pub(crate) fn of(level_bytes: &[u64; LEVELS], options: &LevelsOptions) -> Self {
        let last = LEVELS - 1;
        let mut targets = [0.0; LEVELS];
        targets[last] = f64::INFINITY;
        let mut base = last;
        let mut target = level_bytes[1..].iter().copied().max().unwrap_or(0) as f64;
        while target > options.base_bytes as f64 && base > 1 {
            target /= options.ratio as f64;
            base -= 1;
            targets[base] = target;
        }
        // Entries that are merged in from above are newer than all that are there.
        let first_used = (1..LEVELS).find(|level| level_bytes[*level] > 0);
        Self { base: first_used.map_or(base, |level| level.min(base)), targets }
    }

    /// Returns the bytes by which levels exceed their targets.
    pub(crate) fn debt(&self, level_bytes: &[u64; LEVELS]) -> f64 {
        let beyond = |level: usize| (level_bytes[level] as f64 - self.targets[level]).max(0.0);
        (1..LEVELS - 1).map(beyond).sum()
    }
}

/// Tables that become others, in another level.
pub(crate) struct Compaction {
    pub(crate) tree: u32,
    pub(crate) version: Arc<TreeVersion>,
    /// Runs, the newer before the older: the level of each, and its tables.
    pub(crate) inputs: Vec<(usize, Vec<Arc<TableFile>>)>,
    pub(crate) to_level: usize,
}

impl Compaction {
    pub(crate) fn tables(&self) -> impl Iterator<Item = (usize, &Arc<TableFile>)> {
        self.inputs
            .iter()
            .flat_map(|(level, tables)| tables.iter().map(move |table| (*level, table)))
    }

    /// Whether no table has to be written anew: the tables of one run go where no table is in their way, and have no
    /// tombstones that could be left out.
    pub(crate) fn is_move(&self) -> bool {
        let has_none = |table: &Arc<TableFile>| table.meta.deletes + table.meta.range_deletes == 0;
        match &self.inputs[..] {
            [(level, tables)] => *level != self.to_level && tables.iter().all(has_none),
            _ => false,
        }
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.tables().map(|(_, table)| table.meta.file_len).sum()
    }
}

fn is_free(tables: &[Arc<TableFile>], busy: &HashSet<u64>) -> bool {
    tables.iter().all(|table| !busy.contains(&table.meta.number))
}

/// All tables that have to be merged with entries from above with keys of `span`: all of level 0, and those that
/// overlap in the base. `None` if one of them is busy.
pub(crate) fn into_base(
    tree: u32,
    version: &Arc<TreeVersion>,
    span: Option<&Span>,
    busy: &HashSet<u64>,
    options: &LevelsOptions,
) -> Option<Compaction> {
    let to_level = Shape::of(&version.level_bytes(), options).base;
    let mut inputs: Vec<_> = version.levels[0].iter().map(|run| (0, run.tables.clone())).collect();
    let mut hull = span.cloned();
    for table in inputs.iter().flat_map(|(_, tables)| tables) {
        hull.get_or_insert_with(|| table.meta.span.clone()).extend(&table.meta.span);
    }
    let below =
        |run: &Arc<Run>| hull.as_ref().map_or(&[][..], |hull| run.overlapping_span(hull)).to_vec();
    let below: Vec<_> = version.levels[to_level].iter().flat_map(below).collect();
    if !below.is_empty() {
        inputs.push((to_level, below));
    }
    let is_free = inputs.iter().all(|(_, tables)| is_free(tables, busy));
    is_free.then(|| Compaction { tree, version: Arc::clone(version), inputs, to_level })
}

/// The compaction of a tree that is most urgent, and how urgent; `None` if none is.
///
/// `base_is_busy` says that a thread merges into the base, or waits to.
pub(crate) fn pick(
    tree: u32,
    version: &Arc<TreeVersion>,
    busy: &HashSet<u64>,
    base_is_busy: bool,
    options: &LevelsOptions,
) -> Option<(f64, Compaction)> {
    let shape = Shape::of(&version.level_bytes(), options);
    let mut scores = vec![(version.levels[0].len() as f64 / options.runs_min as f64, 0)];
    for level in 1..LEVELS - 1 {
        let tables = version.levels[level].iter().flat_map(|run| &run.tables);
        let waiting = tables.filter(|table| !busy.contains(&table.meta.number));
        let bytes: u64 = waiting.map(|table| table.meta.file_len).sum();
        if bytes > 0 {
            // A level that should be empty is as full as the smallest that should not.
            let target = shape.targets[level];
            let smallest = options.base_bytes as f64 / options.ratio as f64;
            let score = bytes as f64 / if target > 0.0 { target } else { smallest };
            scores.push((if target > 0.0 { score } else { 1.0 + score }, level));
        }
    }
    scores.retain(|(score, _)| *score >= 1.0);
    scores.sort_by(|a, b| b.0.total_cmp(&a.0));
    scores.into_iter().find_map(|(score, level)| {
        let compaction = match level {
            _ if base_is_busy && level <= shape.base => None,
            0 => into_base(tree, version, None, busy, options),
            level => down(tree, version, level, busy),
        };
        compaction.map(|compaction| (score, compaction))
    })
}

/// One table of a level with the tables that it overlaps in the next.
fn down(
    tree: u32,
    version: &Arc<TreeVersion>,
    level: usize,
    busy: &HashSet<u64>,
) -> Option<Compaction> {
    let to_level = level + 1;
    let below = |table: &TableFile| {
        version.levels[to_level]
            .first()
            .map_or(&[][..], |run| run.overlapping_span(&table.meta.span))
    };
    let tables = version.levels[level].iter().flat_map(|run| &run.tables);
    let candidates =
        tables.filter(|table| !busy.contains(&table.meta.number) && is_free(below(table), busy));
    let cost = |table: &TableFile| {
        let bytes: u64 = below(table).iter().map(|table| table.meta.file_len).sum();
        bytes as f64 / table.meta.file_len.max(1) as f64
    };
    let table = candidates.min_by(|a, b| cost(a).total_cmp(&cost(b)))?;
    let mut inputs = vec![(level, vec![Arc::clone(table)])];
    let below = below(table);
    if !below.is_empty() {
        inputs.push((to_level, below.to_vec()));
    }
    Some(Compaction { tree, version: Arc::clone(version), inputs, to_level })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_appear_as_the_last_one_grows() {
        let options = LevelsOptions { base_bytes: 100, ratio: 10, ..LevelsOptions::default() };
        let base = |bytes| Shape::of(&bytes, &options).base;
        assert_eq!(base([0; LEVELS]), 6);
        assert_eq!(base([0, 0, 0, 0, 0, 0, 100]), 6);
        assert_eq!(base([0, 0, 0, 0, 0, 0, 101]), 5);
        assert_eq!(base([0, 0, 0, 0, 0, 0, 5000]), 4);
        assert_eq!(base([0, 0, 0, 1, 0, 0, 5000]), 3, "newer data is above older");
        assert_eq!(base([0, 0, 0, 0, 0, 0, u64::MAX]), 1);
        let shape = Shape::of(&[0, 0, 0, 0, 60, 400, 5000], &options);
        assert_eq!(shape.targets[4..6], [50.0, 500.0]);
        assert_eq!(shape.debt(&[0, 0, 0, 0, 60, 400, 5000]), 10.0);
    }
}
