//! Keys that clients watch (WATCH).

use super::watches::Watch;
use super::{Result, Store};

impl Store {
    /// Watches `key`: any change to it from now on shows in [`Store::has_changed`].
    pub(crate) fn watch(&mut self, db: usize, key: &[u8]) -> Result<Watch> {
        // A key that has expired by now is gone already, and its removal no change.
        self.contains(db, key)?;
        let partition = self.partition_of(key);
        Ok(self.part_mut(partition).watches.add(db, key))
    }

    /// Ends a watch. If its part is elsewhere, the watch comes back.
    pub(crate) fn unwatch(&mut self, watch: Watch) -> Option<Watch> {
        let partition = self.partition_of(&watch.key);
        match &mut self.parts[partition] {
            Some(part) => {
                part.watches.remove(&watch);
                None
            }
            None => Some(watch),
        }
    }

    /// Whether the key of `watch` was changed, or has expired, since the watch began.
    pub(crate) fn has_changed(&mut self, watch: &Watch) -> Result<bool> {
        self.contains(watch.db, &watch.key)?;
        if self.is_paused && self.is_due(self.spot(watch.db, &watch.key), &watch.key)? {
            return Ok(true);
        }
        Ok(self.part(self.partition_of(&watch.key)).watches.has_changed(watch))
    }
}
