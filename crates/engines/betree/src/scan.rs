//! Scans of a dataset: memtables above its tree, merged, as of a sequence.

use std::sync::Arc;

use halite_contract::{Bytes, Direction, KeyRange, Result};

use crate::memtable::MemtableSource;
use crate::record::{DATASET, end_of, full_key};
use crate::run::MergeCursor;
use crate::store::view::View;
use crate::tree::cursor::TreeCursor;
use crate::tree::lookup::value_of;
use crate::tree::update::BoxedSource;
use crate::tree::{Context, Tree};

/// A scan in progress. It keeps the view that it reads.
pub(crate) struct StoreScan {
    context: Arc<Context>,
    merged: MergeCursor<BoxedSource>,
    direction: Direction,
    state: State,
    /// Dropped last.
    _view: Arc<View>,
}

enum State {
    Before,
    Within,
    Over,
}

impl StoreScan {
    /// The pairs of a range, in a direction.
    pub(crate) fn new(
        context: &Arc<Context>,
        view: Arc<View>,
        at: u64,
        dataset: u32,
        range: &KeyRange,
        direction: Direction,
    ) -> Self {
        let lo = full_key(dataset, range.start());
        let hi = range.end().map_or_else(|| end_of(dataset).to_vec(), |end| full_key(dataset, end));
        let mut sources: Vec<BoxedSource> = Vec::new();
        let (memtables, tree) = view.of(dataset, at);
        for memtable in memtables {
            let memtable = Arc::clone(memtable);
            let source = MemtableSource::new(memtable, (&lo, Some(&hi)), DATASET, at, None);
            sources.push(Box::new(source));
        }
        let tree = tree.cloned().unwrap_or_else(Tree::empty);
        sources.push(Box::new(TreeCursor::new(context, tree, range.start(), range.end(), None)));
        Self::of_sources(context, view, sources, range, direction)
    }

    /// The pairs of a range of a tree, which a view keeps.
    pub(crate) fn of_tree(
        context: &Arc<Context>,
        view: Arc<View>,
        tree: Tree,
        range: &KeyRange,
        direction: Direction,
    ) -> Self {
        let cursor = TreeCursor::new(context, tree, range.start(), range.end(), None);
        Self::of_sources(context, view, vec![Box::new(cursor)], range, direction)
    }

    fn of_sources(
        context: &Arc<Context>,
        view: Arc<View>,
        sources: Vec<BoxedSource>,
        range: &KeyRange,
        direction: Direction,
    ) -> Self {
        let merged = MergeCursor::reader(sources, None);
        let state = if range.is_empty() { State::Over } else { State::Before };
        Self { context: Arc::clone(context), merged, direction, state, _view: view }
    }

    /// Goes to the next key that has a message.
    fn step(&mut self) -> crate::Result<()> {
        match (&self.state, self.direction) {
            (State::Before, Direction::Forward) => self.merged.first(),
            (State::Before, Direction::Reverse) => self.merged.last(),
            (_, Direction::Forward) => self.merged.next(),
            (_, Direction::Reverse) => self.merged.prev(),
        }
    }

    fn next_pair(&mut self) -> crate::Result<Option<(Bytes, Bytes)>> {
        loop {
            self.step()?;
            self.state = State::Within;
            let (Some((key, _)), Some(held)) = (self.merged.entry(), self.merged.held()) else {
                return Ok(None);
            };
            if let Some(value) = value_of(&self.context, key, held.clone(), None)? {
                return Ok(Some((Bytes::from(key), value)));
            }
        }
    }

    /// The number of pairs.
    pub(crate) fn count_pairs(mut self) -> Result<u64> {
        let mut count = 0;
        while self.next_pair()?.is_some() {
            count += 1;
            if matches!(self.state, State::Over) {
                break;
            }
        }
        Ok(count)
    }
}

impl Iterator for StoreScan {
    type Item = Result<(Bytes, Bytes)>;

    fn next(&mut self) -> Option<Self::Item> {
        if matches!(self.state, State::Over) {
            return None;
        }
        let pair = self.next_pair().transpose();
        if !matches!(pair, Some(Ok(_))) {
            self.state = State::Over;
        }
        pair.map(|pair| pair.map_err(Into::into))
    }
}
