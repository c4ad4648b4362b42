//! The large values of a batch, which are written before the batch goes to the log.

use halite_contract::Result;
use halite_sim::locks::RwLockReadGuard;
use halite_sim::planted;

use crate::allocation::Purpose;
use crate::large::{piece_bytes, write_large, write_piece};
use crate::message::{LargeValue, NOT_ENTERED};
use crate::storage::{Extent, Writes};
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
    /// Writes the large ones among the values of keys of datasets side by side, durably, with one sync behind all. Their
    /// numbers ascend. Where there is no room, it is sought once in the space of values that were replaced or removed.
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
        // Dropped before `written`, which frees the extents: no write goes on then.
        let mut writes = Writes::new(&store.trees.storage);
        for NumberedValue { number, dataset, key, value } in values {
            if (value.len() as u64) < store.trees.settings.large_value_bytes {
                continue;
            }
            written.check_room(value.len() as u64)?;
            let placed = catalogue.preferences().placed(placement, dataset);
            let class = placed.large_value(key, value.len() as u64);
            let (trees, to) = (&store.trees, (&mut writes, &mut written.extents));
            let large = write_large(trees, class, Purpose::Data, NOT_ENTERED, value, to)?;
            let mut reference = Vec::new();
            large.encode(&mut reference);
            written.references.push((number, reference));
        }
        writes.finish()?;
        written.sync()?;
        Ok(written)
    }

    /// Refuses a value that takes the room that grafts need when they are flushed.
    fn check_room(&self, len: u64) -> Result<()> {
        let view = self.store.view();
        match view.grafts.is_empty() || self.store.has_room_for(&view, len)? {
            true => Ok(()),
            false => Err(self.store.no_room()),
        }
    }

    /// Makes what was written durable.
    #[track_caller]
    fn sync(&self) -> Result<()> {
        if self.extents.is_empty() {
            return Ok(());
        }
        planted!("betree.value-not-synced", return Ok(()));
        self.store.trees.storage.sync()?;
        self.store.tell_of_stale_leaves()
    }

    /// Writes one value of a length, durably, of which `next` reads pieces up to a length. Returns the reference, too.
    pub(crate) fn in_pieces(
        store: &'a Store,
        len: u64,
        next: &mut dyn FnMut(&mut Vec<u8>, usize) -> Result<()>,
    ) -> Result<(Self, Vec<u8>)> {
        let _writing = store.writing_large.read();
        let mut written = Self { store, references: Vec::new(), extents: Vec::new(), _writing };
        written.check_room(len)?;
        let (context, birth) = (&*store.trees, store.trees.epoch());
        let class = context.spill(store.settings.tree.placement.large_values);
        let mut large = LargeValue { entered: NOT_ENTERED, len, birth, pieces: Vec::new() };
        let (mut left, mut bytes) = (len, Vec::new());
        while left > 0 {
            let purpose = Purpose::Data;
            next(&mut bytes, piece_bytes(context, class, purpose, len))?;
            left -= bytes.len() as u64;
            let extents = &mut written.extents;
            large.pieces.push(write_piece(context, class, (purpose, birth), &bytes, extents)?);
        }
        written.sync()?;
        let mut reference = Vec::new();
        large.encode(&mut reference);
        Ok((written, reference))
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
        planted!("betree.value-freed-with-its-record", (), self.extents.clear());
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
