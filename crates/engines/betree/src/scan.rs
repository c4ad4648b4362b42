//! Scans of a dataset: memtables above its tree, merged, as of a sequence.

use std::sync::Arc;

use halite_contract::{Bytes, Direction, KeyRange, Result};

use crate::layers::sources;
use crate::message::{Action, HeldMessage};
use crate::run::MergeCursor;
use crate::store::view::View;
use crate::tree::cursor::TreeCursor;
use crate::tree::lookup::{FoundValue, found_of, value_of};
use crate::tree::update::BoxedSource;
use crate::tree::{Context, Tree};

/// A scan in progress. It keeps the view that it reads.
pub(crate) struct StoreScan {
    context: Arc<Context>,
    merged: MergeCursor<BoxedSource>,
    dataset: u32,
    action: Option<Arc<Action>>,
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
        let sources = sources(context, &view, at, dataset, (range.start(), range.end()));
        Self::of_sources(context, view, dataset, sources, range, direction)
    }

    /// The pairs of a range of a tree, which a view keeps.
    pub(crate) fn of_tree(
        context: &Arc<Context>,
        view: Arc<View>,
        (dataset, tree): (u32, Tree),
        range: &KeyRange,
        direction: Direction,
    ) -> Self {
        let action = context.actions.of(dataset);
        let cursor = TreeCursor::new(context, tree, range.start(), range.end(), action);
        Self::of_sources(context, view, dataset, vec![Box::new(cursor)], range, direction)
    }

    fn of_sources(
        context: &Arc<Context>,
        view: Arc<View>,
        dataset: u32,
        sources: Vec<BoxedSource>,
        range: &KeyRange,
        direction: Direction,
    ) -> Self {
        let action = context.actions.of(dataset);
        let merged = MergeCursor::reader(sources, action.clone());
        let state = if range.is_empty() { State::Over } else { State::Before };
        Self {
            context: Arc::clone(context),
            merged,
            dataset,
            action,
            direction,
            state,
            _view: view,
        }
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
        self.next_by(value_of)
    }

    /// The next key, and its value, or where that lies.
    pub(crate) fn next_found(&mut self) -> crate::Result<Option<(Bytes, FoundValue)>> {
        if matches!(self.state, State::Over) {
            return Ok(None);
        }
        self.next_by(found_of)
    }

    /// The next key that has a value, and what `resolve` makes of its message.
    fn next_by<T>(
        &mut self,
        resolve: impl Fn(&Context, &[u8], HeldMessage, Option<&Action>) -> crate::Result<Option<T>>,
    ) -> crate::Result<Option<(Bytes, T)>> {
        loop {
            self.step()?;
            self.state = State::Within;
            let (Some((key, _)), Some(held)) = (self.merged.entry(), self.merged.held()) else {
                return Ok(None);
            };
            if let Some(value) = resolve(&self.context, key, held.clone(), self.action.as_deref())?
            {
                return Ok(Some((Bytes::from(key), value)));
            }
        }
    }

    /// An error of the dataset's action gets a name.
    fn explain(&self, error: crate::Error) -> halite_contract::Error {
        self.context.actions.explain(self.dataset, error).into()
    }

    /// The number of pairs.
    pub(crate) fn count_pairs(mut self) -> Result<u64> {
        let mut count = 0;
        while self.next_pair().map_err(|error| self.explain(error))?.is_some() {
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
        pair.map(|pair| pair.map_err(|error| self.explain(error)))
    }
}
