//! The storage classes that key spaces and objects lie in.

use halite_contract::{Engine, Feature, Tiered};

use crate::engines::offered;
use crate::{KeyRange, KeySpace, MigrationReport, ObjectStore, Preference, Progress, Result};

fn tiers(engine: &dyn Engine) -> Result<&dyn Tiered> {
    offered(engine, engine.capabilities().tiered, Feature::Tiers)
}

/// Storage classes. Class 0 is the fastest. Besides the errors that a method names, all of them have
/// [`crate::Error::Lacks`], those of reads and writes, and [`crate::EngineError::NoSuchKeySpace`] if the key space was
/// dropped.
///
/// ```
/// # let folder = tempfile::tempdir()?;
/// # let path = folder.path().join("data");
/// use halite::{Database, KeyRange, Preference};
/// let topology = "file:fast@64M ; file:slow".parse()?;
/// let db = Database::builder().topology(topology).open(&path)?;
/// let logs = db.key_space("logs")?;
/// logs.put("2024", "x".repeat(1000))?;
/// // The data that is there moves, and later data goes there at once.
/// let moved = logs.migrate(&KeyRange::all(), 1, &mut |_, _| std::ops::ControlFlow::Continue(()))?;
/// assert!(moved.is_complete && moved.moved_bytes > 0);
/// logs.set_preference(Preference::Slowest)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
impl KeySpace {
    /// The storage class that the key space prefers.
    ///
    /// # Errors
    /// Those of the block.
    pub fn preference(&self) -> Result<Preference> {
        Ok(tiers(&*self.engine)?.preference(self.id)?)
    }

    /// Sets the storage class that the key space prefers, durably, for all that is written from then on.
    ///
    /// # Errors
    /// Those of the block.
    pub fn set_preference(&self, preference: Preference) -> Result<()> {
        Ok(tiers(&*self.engine)?.set_preference(self.id, preference)?)
    }

    /// Moves a range of keys to a class, beside reads and writes. Snapshots keep their data where it is. `progress` gets
    /// the bytes that were looked at, and about all of them, and may stop it: moved data stays moved.
    ///
    /// # Errors
    /// There is no such class, or it is full.
    pub fn migrate(
        &self,
        range: &KeyRange,
        class: u8,
        progress: Progress<'_>,
    ) -> Result<MigrationReport> {
        Ok(tiers(&*self.engine)?.migrate(self.id, range, class, progress)?)
    }
}

impl ObjectStore {
    /// Moves an object to a storage class, as [`KeySpace::migrate`] does with keys.
    ///
    /// # Errors
    /// [`crate::Error::Lacks`]; there is no such object, or no such class, or it is full; the errors of reads and writes.
    pub fn migrate(
        &self,
        name: impl AsRef<[u8]>,
        class: u8,
        progress: Progress<'_>,
    ) -> Result<MigrationReport> {
        let tiers = tiers(&*self.engine)?;
        Ok(tiers.migrate_object(&self.name, name.as_ref(), class, progress)?)
    }
}
