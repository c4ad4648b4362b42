//! Changes of a turn become durable together, before its requests are answered.

use halite_sim::planted;

use super::{Result, Store};

impl Store {
    /// Collects a little garbage of the parts here; returns whether there was any. An error of a part is reported by
    /// its next write.
    pub(crate) fn collect_ahead(&self) -> bool {
        let mut parts = self.parts.iter().flatten();
        parts.any(|part| self.db.collect_ahead(part.number).unwrap_or(false))
    }

    /// Makes all changes to the parts here durable, if there are any.
    pub(crate) fn sync(&mut self) -> Result<()> {
        for part in self.parts.iter_mut().flatten().filter(|part| part.unsynced) {
            planted!(
                "server.first-partition-synced-alone",
                if part.number == 0 {
                    self.db.sync_partition(part.number)?;
                },
                self.db.sync_partition(part.number)?
            );
            part.unsynced = false;
        }
        Ok(())
    }

    /// Waits for nothing any more: the changes so far may be durable or not.
    pub(crate) fn abandon_syncs(&mut self) {
        self.parts.iter_mut().flatten().for_each(|part| part.unsynced = false);
    }

    /// Gives all changes to the operating system: the end of the process does not take them.
    pub(crate) fn hand_over(&self) -> Result<()> {
        self.db.hand_over()
    }

    /// Makes all changes to all partitions durable.
    pub(crate) fn sync_all(&mut self) -> Result<()> {
        self.db.sync()?;
        self.parts.iter_mut().flatten().for_each(|part| part.unsynced = false);
        Ok(())
    }

    /// Whether the parts here have changes since the last [`Store::sync`].
    #[inline]
    pub(crate) fn is_unsynced(&self) -> bool {
        self.parts.iter().flatten().any(|part| part.unsynced)
    }

    /// Takes a snapshot of all keys, and returns it with its database.
    pub(crate) fn snapshot(&self) -> Result<(halite::Database, halite::Snapshot)> {
        Ok((self.db.clone(), self.db.take_snapshot()?))
    }
}
