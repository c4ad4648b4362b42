//! The storage classes that datasets prefer.

use halite_contract::{KeySpaceId, Preference, Result};

use crate::Betree;
use crate::purpose::Purpose;
use crate::record::Batch;

impl Betree {
    /// The storage class that a dataset prefers.
    ///
    /// # Errors
    /// [`halite_contract::Error::NoSuchKeySpace`].
    pub fn preference(&self, space: KeySpaceId) -> Result<Preference> {
        let catalogue = self.store.catalogue.load();
        catalogue.check(space)?;
        Ok(catalogue.preferences().get(space.0, None))
    }

    /// Sets the storage class that a dataset prefers for its leaves, buffers and large values, durably. It counts for what
    /// is written from then on; [`Betree::migrate`] moves the rest. A clone begins without a preference. Where the pool
    /// has fewer classes, the nearest one takes the data.
    ///
    /// # Errors
    /// [`halite_contract::Error::NoSuchKeySpace`]; those of a write.
    pub fn set_preference(&self, space: KeySpaceId, preference: Preference) -> Result<()> {
        let _changing = self.store.cataloguing.lock();
        let catalogue = self.store.catalogue.load_full();
        catalogue.check(space)?;
        let mut batch = Batch::default();
        let changed = catalogue.with_preference(space.0, None, preference, &mut batch);
        self.change(&batch, Purpose::Bookkeeping, changed)
    }
}
