//! The calls for migration.

use halite_contract::{KeyRange, KeySpaceId, MigrationReport, Progress, Result};

use super::MigrationRound;
use crate::{Betree, Error};

impl Betree {
    /// Moves a range of keys of a dataset to a storage class, beside reads and writes: the leaves that have some of them,
    /// the buffers that have no others, and their large values. Snapshots keep what they have where it is. Data
    /// that is written later goes where its placement says ([`Betree::set_preference`]). `progress` gets the bytes that
    /// were looked at, and about all of them, and may stop it: what was moved stays moved.
    ///
    /// # Errors
    /// [`halite_contract::Error::NoSuchKeySpace`]; [`Error::NoSuchClass`]; [`Error::ClassFull`], when a part
    /// was moved; those of a flush, and of reading what moves.
    pub fn migrate(
        &self,
        space: KeySpaceId,
        range: &KeyRange,
        class: u8,
        progress: Progress<'_>,
    ) -> Result<MigrationReport> {
        self.store.catalogue.load().check(space)?;
        self.store.check_class(class)?;
        self.store.migrate_range(space.0, range, class, progress)
    }

    /// Moves an object of an object store to a storage class, as [`Betree::migrate`] does with keys. Chunks in leaves move
    /// with all that these have.
    ///
    /// # Errors
    /// [`Error::NoSuchObjectStore`]; [`Error::NoSuchObject`]; [`Error::NoSuchClass`]; [`Error::ClassFull`]; those of
    /// [`Betree::objects`] and of [`Betree::migrate`].
    pub fn migrate_object(
        &self,
        store: &str,
        name: &[u8],
        class: u8,
        progress: Progress<'_>,
    ) -> Result<MigrationReport> {
        self.store.check_class(class)?;
        if !self.object_stores().iter().any(|other| other == store) {
            return Err(Error::NoSuchObjectStore { name: store.to_owned() }.into());
        }
        let (dataset, range) = self.objects(store)?.open(name)?.chunks();
        self.store.migrate_range(dataset, &range, class, progress)
    }

    /// Does a round of automatic migration now, beside that of its period.
    ///
    /// # Errors
    /// [`Error::MigrationOff`]; those of reading nodes, and of a checkpoint.
    pub fn migrate_now(&self) -> Result<MigrationRound> {
        self.store.migrate_round(&|| true)
    }
}
