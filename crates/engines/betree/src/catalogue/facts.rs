//! Facts about datasets that few of them have: the action of their messages, and how much copies have made their keys longer.

use std::sync::Arc;

use halite_contract::KeySpaceId;

use super::{ACTION, CATALOGUE, Catalogue, GROWTH};
use crate::message::Kind;
use crate::record::Batch;

impl Catalogue {
    /// The name of the action of a dataset's messages.
    pub(crate) fn action(&self, dataset: u32) -> Option<&Arc<str>> {
        self.actions.get(&dataset)
    }

    /// The datasets that have actions.
    pub(crate) fn actions(&self) -> impl Iterator<Item = (u32, &Arc<str>)> {
        self.actions.iter().map(|(dataset, name)| (*dataset, name))
    }

    /// The catalogue in which a dataset has an action, and its change, which is added to a batch.
    pub(crate) fn with_action(
        &self,
        space: KeySpaceId,
        name: &Arc<str>,
        batch: &mut Batch,
    ) -> Self {
        let mut changed = self.clone();
        changed.actions.insert(space.0, Arc::clone(name));
        let key = [&[ACTION], &space.0.to_be_bytes()[..]].concat();
        batch.push(CATALOGUE, Kind::Insert, &key, name.as_bytes());
        changed
    }

    /// Bytes by which copies may have made the keys of a dataset longer than those of puts.
    pub(crate) fn growth(&self, dataset: u32) -> usize {
        self.growths.get(&dataset).copied().unwrap_or_default() as usize
    }

    /// The catalogue in which the keys of a dataset may be so much longer, and its change, which is added to a batch.
    pub(crate) fn with_growth(&self, space: KeySpaceId, growth: usize, batch: &mut Batch) -> Self {
        let mut changed = self.clone();
        if growth > self.growth(space.0) {
            let growth = growth as u32;
            changed.growths.insert(space.0, growth);
            let key = [&[GROWTH], &space.0.to_be_bytes()[..]].concat();
            batch.push(CATALOGUE, Kind::Insert, &key, &growth.to_le_bytes());
        }
        changed
    }

    /// Forgets what is known of a dataset's keys, and adds that to a batch.
    pub(super) fn forget(&mut self, id: u32, batch: &mut Batch) {
        if self.actions.get(&id).is_some() {
            self.actions.remove(&id);
            let key = [&[ACTION], &id.to_be_bytes()[..]].concat();
            batch.push(CATALOGUE, Kind::Delete, &key, &[]);
        }
        if self.growths.get(&id).is_some() {
            self.growths.remove(&id);
            let key = [&[GROWTH], &id.to_be_bytes()[..]].concat();
            batch.push(CATALOGUE, Kind::Delete, &key, &[]);
        }
    }
}
