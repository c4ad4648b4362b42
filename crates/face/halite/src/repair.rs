//! Repairing a database that does not open, or that has lost files.

use std::path::Path;

use crate::backup::finish_before_opening;
use crate::engines::repair_any;
use crate::{Builder, RepairReport, Result};

impl Builder {
    /// Reports the repairs that [`Builder::repair`] would make to the database in the folder `path`, and changes none
    /// of its data.
    ///
    /// # Errors
    /// As [`Builder::repair`].
    pub fn examine(self, path: impl AsRef<Path>) -> Result<RepairReport> {
        self.repair_or_not(path.as_ref(), false)
    }

    /// Lets the database in the folder `path` open without the files beside the pool that are missing or cannot be
    /// read. The data in these files is lost; the files are renamed so that their names end in `.damaged`, and are not
    /// removed.
    ///
    /// A database without defects is not changed. Without the manifest, all tables that can be read are merged into new
    /// ones: that needs room for them twice, and keys that were removed may reappear.
    ///
    /// ```
    /// # let folder = tempfile::tempdir()?;
    /// # let path = folder.path().join("data");
    /// use halite::Database;
    /// let db = Database::builder().engine("lsm").open(&path)?;
    /// db.key_space("fruit")?.put("apple", "green")?;
    /// drop(db);
    /// std::fs::remove_file(path.join("levels/CURRENT"))?;
    /// assert!(Database::open(&path).is_err());
    ///
    /// assert!(!Database::builder().examine(&path)?.is_whole());
    /// let report = Database::builder().repair(&path)?;
    /// assert_eq!(report.lost[0].what, "levels/CURRENT");
    /// assert!(Database::open(&path)?.find_key_space("fruit")?.is_some());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`crate::Error::NoRepair`] where the engine keeps all its data in the pool; the errors that keep the pool itself
    /// from being opened, because another process holds it or it is damaged, for example; the errors of the disk, such
    /// as a full one.
    pub fn repair(self, path: impl AsRef<Path>) -> Result<RepairReport> {
        self.repair_or_not(path.as_ref(), true)
    }

    fn repair_or_not(self, path: &Path, for_good: bool) -> Result<RepairReport> {
        finish_before_opening(path)?;
        repair_any(self.engine.as_deref(), &self.engine_options(path), for_good)
    }
}
