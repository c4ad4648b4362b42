//! The large values of a batch, which are written before the batch goes to the log.

use halite_contract::Result;
use halite_sim::locks::RwLockReadGuard;

use crate::allocation::Purpose;
use crate::large::write_large;
use crate::message::NOT_ENTERED;
use crate::storage::Extent;
use crate::store::Store;

/// A value that a batch puts, and its number there.
#[derive(Clone, Copy)]
pub(crate) struct NumberedValue<'a> {
    pub(crate) number: usize,
    pub(crate) dataset: u32,
    pub(crate) key: &'a [u8],
    pub(crate) value: &'a [u8],
}

/// The large values of a batch, written for it. They are freed, unless the batch keeps them.
pub(crate) struct WrittenLarge<'a> {
    store: &'a Store,
    /// The references, by the number of the value.
    references: Vec<(usize, Vec<u8>)>,
    extents: Vec<Extent>,
    /// Held until the batch is committed: a pass over all extents begins when it knows of these.
    _writing: RwLockReadGuard<'a, ()>,
}

impl<'a> WrittenLarge<'a> {
    /// Writes the large ones among the values of keys of datasets, durably, with one sync. Their numbers ascend. Where
    /// there is no room, it is sought once in what was replaced or removed since the last time.
    pub(crate) fn write<'v>(
        store: &'a Store,
        values: impl Iterator<Item = NumberedValue<'v>> + Clone,
    ) -> Result<Self> {
        match Self::try_write(store, values.clone()) {
            Err(error) if error.lacks_space() && store.room.take_removed() => {
                store.make_room()?;
                Self::try_write(store, values)
            }
            written => written,
        }
    }

    fn try_write<'v>(
        store: &'a Store,
        values: impl Iterator<Item = NumberedValue<'v>>,
    ) -> Result<Self> {
        let _writing = store.writing_large.read();
        let mut written = Self { store, references: Vec::new(), extents: Vec::new(), _writing };
        let catalogue = store.catalogue.load();
        let placement = store.settings.tree.placement;
        for NumberedValue { number, dataset, key, value } in values {
            if (value.len() as u64) < store.trees.settings.large_value_bytes {
                continue;
            }
            let placed = catalogue.preferences().placed(placement, dataset);
            let class = placed.large_value(key, value.len() as u64);
            let (trees, to) = (&store.trees, &mut written.extents);
            let large = write_large(trees, class, Purpose::Data, NOT_ENTERED, value, to)?;
            let mut reference = Vec::new();
            large.encode(&mut reference);
            written.references.push((number, reference));
        }
        if !written.extents.is_empty() {
            let synced = store.trees.storage.sync();
            // The other writes that the sync was for need not be durable either.
            synced.inspect_err(|error| store.health.poison(error.to_string()))?;
            store.tell_of_stale_leaves()?;
        }
        Ok(written)
    }

    /// The reference to the value of a number, if that is a large one.
    pub(crate) fn of(&self, number: usize) -> Option<&[u8]> {
        let found = self.references.binary_search_by_key(&number, |(of, _)| *of);
        found.ok().map(|at| &self.references[at].1[..])
    }

    /// Leaves the extents to the batch, which is committed.
    pub(crate) fn keep(mut self) {
        if !self.extents.is_empty() {
            // They may have replaced others.
            self.store.room.note_removal();
        }
        self.extents.clear();
    }
}

impl Drop for WrittenLarge<'_> {
    fn drop(&mut self) {
        // If the store takes no more writes, the batch may be in the log: the next opening decides.
        if self.store.health.check().is_ok() {
            for extent in self.extents.drain(..) {
                let _ = self.store.trees.storage.recycle(extent, false);
            }
        }
    }
}
