//! The libraries of functions, in the settings of the database.

use halite::Durability;

use super::lengths::check_lengths;
use super::opened::Opened;
use super::{Result, Store};

impl Store {
    /// The texts of the libraries of functions.
    pub(crate) fn libraries(&self) -> Result<Vec<Vec<u8>>> {
        self.opened().libraries()
    }

    /// Removes libraries, and then adds some by name and text, together. They are durable afterwards.
    pub(crate) fn change_libraries(
        &mut self,
        removed: &[&str],
        added: &[(&str, &[u8])],
    ) -> Result<()> {
        let mut batch = self.db.batch();
        let settings = &self.opened().settings;
        for name in removed {
            batch.delete(settings, Opened::library_key(name));
        }
        for (name, text) in added {
            check_lengths(&Opened::library_key(name), text)?;
            batch.put(settings, Opened::library_key(name), text);
        }
        batch.commit_with(Durability::Immediate)
    }
}
