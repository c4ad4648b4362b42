//! Changes of the catalogue: a dataset more, or one less.

use halite_contract::{Durability, Result};

use crate::catalogue::Catalogue;
use crate::purpose::Purpose;
use crate::record::Batch;
use crate::store::Store;
use crate::store::commit::Commit;

/// A change of the catalogue.
struct Recatalogue<'a> {
    catalogue: Option<Catalogue>,
    appended: &'a mut dyn FnMut(),
}

impl Commit for Recatalogue<'_> {
    fn check(&mut self, _store: &Store) -> Result<()> {
        Ok(())
    }

    fn appended(&mut self) {
        (self.appended)();
    }

    fn catalogue(&mut self) -> Option<Catalogue> {
        self.catalogue.take()
    }
}

impl Store {
    /// Changes the datasets, while the caller holds [`Store::cataloguing`]. `appended` runs in the turn.
    pub(crate) fn recatalogue(
        &self,
        batch: &Batch,
        purpose: Purpose,
        catalogue: Catalogue,
        appended: &mut dyn FnMut(),
    ) -> Result<()> {
        let mut commit = Recatalogue { catalogue: Some(catalogue), appended };
        self.commit(batch, purpose, Durability::Immediate, &mut commit)
    }
}
