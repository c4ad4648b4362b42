//! Objects beside the key spaces.

use std::sync::Arc;

use crate::{Engine, ObjectStore, Result};

/// An engine that has object stores: byte strings of any length, with names, in sets that have names, too.
pub trait ObjectStores: Engine {
    /// Opens an object store, or creates it durably. Its name is no name of a key space.
    ///
    /// # Errors
    /// The name is empty or too long; those of [`Engine::write`].
    fn objects(&self, name: &str) -> Result<Arc<dyn ObjectStore>>;

    /// The names of all object stores, in order.
    fn object_stores(&self) -> Vec<String>;

    /// Removes an object store with all its objects, whole or not at all.
    ///
    /// # Errors
    /// There is none of that name; those of [`Engine::write`].
    fn drop_objects(&self, name: &str) -> Result<()>;
}
