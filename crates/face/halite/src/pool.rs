//! The pool of devices that a database lies on.

use std::path::PathBuf;

use halite_contract::{Devices, Feature, Pooled};

use crate::engines::{engines, offered};
use crate::{
    Builder, Database, LeafPlace, PoolStatus, Position, Progress, Result, ScrubReport, Topology,
};

impl Builder {
    /// The devices of a database that is made: it lies on a pool of them, with the redundancy that the topology asks for.
    /// Without a name of an [engine](Builder::engine), one that has pools makes it. A database that exists knows its
    /// devices.
    ///
    /// ```
    /// # let folder = tempfile::tempdir()?;
    /// # let path = folder.path().join("data");
    /// # let (one, two) = (folder.path().join("one"), folder.path().join("two"));
    /// use halite::{Database, Position};
    /// let topology = format!("mirror file:{} file:{}", one.display(), two.display());
    /// let db = Database::builder().topology(topology.parse()?).open(&path)?;
    /// db.set_offline(Position { class: 0, vdev: 0, leaf: 1 })?;
    /// db.key_space("fruit")?.put("apple", "green")?;
    /// db.set_online(Position { class: 0, vdev: 0, leaf: 1 })?;
    /// db.resilver(&mut |_, _| std::ops::ControlFlow::Continue(()))?;
    /// assert!(!db.pool_status()?.classes[0].vdevs[0].is_degraded);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn topology(mut self, topology: Topology) -> Self {
        for devices in devices() {
            *(devices.topology)(&mut self.options) = Some(topology.clone());
        }
        self.needs(Feature::Pool)
    }

    /// Folders in which devices are looked for that are not where they were when the database was last open.
    #[must_use]
    pub fn search(mut self, folders: Vec<PathBuf>) -> Self {
        for devices in devices() {
            *(devices.search)(&mut self.options) = folders.clone();
        }
        self
    }
}

/// The options for the devices of all engines that have some.
fn devices() -> impl Iterator<Item = &'static Devices> {
    engines().into_iter().filter_map(|engine| engine.devices.as_ref())
}

impl Database {
    fn pool(&self) -> Result<&dyn Pooled> {
        offered(&*self.engine, self.engine.capabilities().pooled, Feature::Pool)
    }

    /// The state of the devices.
    ///
    /// # Errors
    /// [`crate::Error::Lacks`].
    pub fn pool_status(&self) -> Result<PoolStatus> {
        Ok(self.pool()?.pool_status())
    }

    /// Takes a device away for a while: it is neither read nor written, also when the database is opened again.
    ///
    /// # Errors
    /// [`crate::Error::Lacks`]; there is no such device; the others do not have all data.
    pub fn set_offline(&self, at: Position) -> Result<()> {
        Ok(self.pool()?.set_offline(at)?)
    }

    /// Lets a device take part again that was offline, failed, or was missing and is back. If it missed writes, it has
    /// to be [resilvered](Database::resilver).
    ///
    /// # Errors
    /// [`crate::Error::Lacks`]; there is no such device, or another one is at its place.
    pub fn set_online(&self, at: Position) -> Result<()> {
        Ok(self.pool()?.set_online(at)?)
    }

    /// Puts a new device in the place of one; it has to be [resilvered](Database::resilver) then.
    ///
    /// # Errors
    /// [`crate::Error::Lacks`]; there is no such device; the new one is in use, too small, or cannot be made; the others
    /// do not have all data.
    pub fn replace(&self, at: Position, place: &LeafPlace) -> Result<()> {
        Ok(self.pool()?.replace(at, place)?)
    }

    /// Reads all space in use with all its redundancy, beside reads and writes, and repairs what is wrong. `progress` gets
    /// the bytes that were read, and all. When it breaks, the next scrub goes on there, also after the database was
    /// closed and opened.
    ///
    /// # Errors
    /// [`crate::Error::Lacks`]; a scrub or a resilver is under way. Lost data is no error, but in the report.
    pub fn scrub(&self, progress: Progress<'_>) -> Result<ScrubReport> {
        Ok(self.pool()?.scrub(progress)?)
    }

    /// Brings what they lack to the devices that missed writes. Otherwise as [`Database::scrub`].
    ///
    /// # Errors
    /// As [`Database::scrub`].
    pub fn resilver(&self, progress: Progress<'_>) -> Result<ScrubReport> {
        Ok(self.pool()?.resilver(progress)?)
    }
}
