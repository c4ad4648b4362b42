//! Commits that change objects.

use std::sync::Arc;

use halite_contract::{Error, KeyRange, Preference, Result};

use super::keys::{NEXT_ID, chunks_from, fixed_key, metadata_of, name_key};
use super::metadata::Metadata;
use super::shared::{Opened, Shared, State};
use crate::catalogue::Catalogue;
use crate::message::Kind;
use crate::record::{Batch, Mark};
use crate::store::Store;
use crate::store::commit::Commit;

/// The last id. Ranges of keys end at the id behind.
const ID_MAX: u64 = u64::MAX - 1;

/// Adds the removal of a range of keys.
pub(super) fn push_range(batch: &mut Batch, dataset: u32, range: &KeyRange) {
    batch.push_range(dataset, range.start(), range.end());
}

/// Adds the removal of all that an object has, but for its name.
pub(super) fn push_delete(batch: &mut Batch, shared: &Shared, id: u64) {
    push_range(batch, shared.chunks, &chunks_from(id, 0));
    push_range(batch, shared.metadata, &metadata_of(id));
}

fn push_fixed(batch: &mut Batch, shared: &Shared, id: u64, metadata: Metadata) {
    batch.push(shared.metadata, Kind::Insert, &fixed_key(id), &metadata.encode());
}

/// A change of an open object: the changes of a batch, and what `change` adds in the turn, when it knows the newest metadata
/// and returns the next one.
pub(super) struct Update<'a, F> {
    shared: &'a Shared,
    state: &'a State,
    batch: Batch,
    begun: Mark,
    change: F,
    next: Option<Metadata>,
    /// The storage class that the object is to prefer; then the caller holds [`Store::cataloguing`].
    preference: Option<Preference>,
    catalogue: Option<Catalogue>,
}

impl<'a, F> Update<'a, F>
where
    F: FnMut(Metadata, &mut Batch) -> Result<Metadata>,
{
    pub(super) fn new(shared: &'a Shared, state: &'a State, batch: Batch, change: F) -> Self {
        let begun = batch.mark();
        let (next, preference, catalogue) = (None, None, None);
        Self { shared, state, batch, begun, change, next, preference, catalogue }
    }

    /// The same, after which the object prefers a storage class.
    pub(super) fn preferring(mut self, preference: Preference) -> Self {
        self.preference = Some(preference);
        self
    }
}

impl<F> Commit for Update<'_, F>
where
    F: FnMut(Metadata, &mut Batch) -> Result<Metadata>,
{
    fn check(&mut self, store: &Store) -> Result<()> {
        self.shared.check()?;
        let metadata = self.state.metadata()?;
        // A turn that waits for room begins anew.
        self.batch.rewind(self.begun);
        let next = (self.change)(metadata, &mut self.batch)?;
        if next != metadata {
            push_fixed(&mut self.batch, self.shared, self.state.id, next);
        }
        if let Some(preference) = self.preference {
            let (before, of) = (store.catalogue.load(), (self.shared.chunks, Some(self.state.id)));
            let changed = before.with_preference(of.0, of.1, preference, &mut self.batch);
            self.catalogue = Some(changed);
        }
        self.next = Some(next);
        Ok(())
    }

    fn catalogue(&mut self) -> Option<Catalogue> {
        self.catalogue.take()
    }

    fn batch(&self) -> Option<&Batch> {
        Some(&self.batch)
    }

    fn appended(&mut self) {
        self.state.set(self.next);
    }
}

/// The creation of an object, whose name is held and has none.
pub(super) struct Create<'a> {
    shared: &'a Shared,
    name: &'a [u8],
    metadata: Metadata,
    batch: Batch,
    /// The id of the object, when it was committed.
    pub(super) id: u64,
}

impl<'a> Create<'a> {
    pub(super) fn new(shared: &'a Shared, name: &'a [u8], metadata: Metadata) -> Self {
        Self { shared, name, metadata, batch: Batch::default(), id: 0 }
    }
}

impl Commit for Create<'_> {
    fn check(&mut self, _store: &Store) -> Result<()> {
        self.shared.check()?;
        self.id = *self.shared.next_id.lock();
        if self.id > ID_MAX {
            let what = "the counter of objects".into();
            return Err(Error::Damaged { what, why: "all numbers were given".into() });
        }
        let (dataset, batch) = (self.shared.metadata, &mut self.batch);
        batch.rewind(Mark::default());
        batch.push(dataset, Kind::Insert, &name_key(self.name), &self.id.to_le_bytes());
        push_fixed(batch, self.shared, self.id, self.metadata);
        batch.push(dataset, Kind::Insert, &NEXT_ID, &(self.id + 1).to_le_bytes());
        Ok(())
    }

    fn batch(&self) -> Option<&Batch> {
        Some(&self.batch)
    }

    fn appended(&mut self) {
        *self.shared.next_id.lock() = self.id + 1;
    }
}

/// A change of names that are held, with which an object may go.
pub(super) struct Rename<'a> {
    shared: &'a Shared,
    batch: Batch,
    begun: Mark,
    /// The object that goes, and its handle, if it is open.
    gone: Option<u64>,
    deleted: Option<Opened>,
    catalogue: Option<Catalogue>,
}

impl<'a> Rename<'a> {
    pub(super) fn new(shared: &'a Arc<Shared>, batch: Batch, gone: Option<u64>) -> Self {
        let deleted = gone.and_then(|id| shared.opened(id));
        Self { shared, begun: batch.mark(), batch, gone, deleted, catalogue: None }
    }
}

impl Commit for Rename<'_> {
    fn check(&mut self, store: &Store) -> Result<()> {
        self.shared.check()?;
        // A turn that waits for room begins anew.
        self.batch.rewind(self.begun);
        let (catalogue, dataset) = (store.catalogue.load(), self.shared.chunks);
        let has_preference =
            |id: &u64| catalogue.preferences().get(dataset, Some(*id)) != Preference::None;
        // A dataset that is made at this moment may keep the entry in memory: no object ever gets the id again.
        self.catalogue = self.gone.filter(has_preference).map(|id| {
            catalogue.with_preference(dataset, Some(id), Preference::None, &mut self.batch)
        });
        Ok(())
    }

    fn catalogue(&mut self) -> Option<Catalogue> {
        self.catalogue.take()
    }

    fn batch(&self) -> Option<&Batch> {
        Some(&self.batch)
    }

    fn appended(&mut self) {
        if let Some(deleted) = &self.deleted {
            deleted.state.set(None);
        }
    }
}
