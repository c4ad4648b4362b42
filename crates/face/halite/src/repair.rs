//! Repairing a database that does not open, or that has lost files.

use std::path::Path;

use crate::backup::finish_before_opening;
use crate::engines::repair_any;
use crate::{Builder, RepairReport, Result};

impl Builder {
    /// Says what [`Builder::repair`] would do to the database in the folder `path`, and changes nothing of what it
    /// holds.
    ///
    /// # Errors
    /// As [`Builder::repair`].
    pub fn examine(self, path: impl AsRef<Path>) -> Result<RepairReport> {
        self.repair_or_not(path.as_ref(), false)
    }

    /// Lets the database in the folder `path` open without the files beside the pool that are missing or cannot be
    /// read. What was in these is lost; they are set aside under a name that ends in `.damaged`, and not removed.
    ///
    /// Nothing is changed where nothing is wrong. Without the manifest, all tables that can be read are
    /// merged into new ones: that needs room for them twice, and keys that were removed may be seen again.
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
    /// [`crate::Error::NoRepair`] where the engine keeps everything in the pool; what keeps the pool itself from being
    /// opened: it is held by another process or damaged, for example; what the disk says, such as that there is no
    /// room.
    pub fn repair(self, path: impl AsRef<Path>) -> Result<RepairReport> {
        self.repair_or_not(path.as_ref(), true)
    }

    fn repair_or_not(self, path: &Path, for_good: bool) -> Result<RepairReport> {
        finish_before_opening(path)?;
        repair_any(self.engine.as_deref(), &self.engine_options(path), for_good)
    }
}
