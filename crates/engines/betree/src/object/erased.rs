//! Object stores and objects, as callers that do not know the engine have them.

use std::sync::Arc;

use halite_contract::{Bytes, Durability, ObjectIter, Result};

use super::handle::Object;
use super::metadata::{AccessPattern, ObjectInfo, Preference};
use super::names::ObjectStore;

type AnyObject = Arc<dyn halite_contract::Object>;

impl halite_contract::ObjectStore for ObjectStore {
    fn with_durability(&self, durability: Durability) -> Arc<dyn halite_contract::ObjectStore> {
        Arc::new(self.clone().with_durability(durability))
    }

    fn create(&self, name: &[u8]) -> Result<AnyObject> {
        Ok(Arc::new(self.create(name)?))
    }

    fn open(&self, name: &[u8]) -> Result<AnyObject> {
        Ok(Arc::new(self.open(name)?))
    }

    fn open_or_create(&self, name: &[u8]) -> Result<AnyObject> {
        Ok(Arc::new(self.open_or_create(name)?))
    }

    fn exists(&self, name: &[u8]) -> Result<bool> {
        self.exists(name)
    }

    fn delete(&self, name: &[u8]) -> Result<()> {
        self.delete(name)
    }

    fn rename(&self, old: &[u8], new: &[u8], replaces: bool) -> Result<()> {
        match replaces {
            true => self.rename_replacing(old, new),
            false => self.rename(old, new),
        }
    }

    fn iter(&self, prefix: &[u8]) -> Result<ObjectIter> {
        Ok(Box::new(self.iter(prefix)?))
    }

    fn sync(&self) -> Result<()> {
        self.sync()
    }
}

impl halite_contract::Object for Object {
    fn info(&self) -> Result<ObjectInfo> {
        self.info()
    }

    fn read_at(&self, offset: u64, to: &mut [u8]) -> Result<usize> {
        self.read_at(offset, to)
    }

    fn write_at(&self, offset: u64, bytes: &[u8]) -> Result<()> {
        self.write_at(offset, bytes)
    }

    fn truncate(&self, size: u64) -> Result<()> {
        self.truncate(size)
    }

    fn metadata(&self, key: &[u8]) -> Result<Option<Bytes>> {
        self.metadata(key)
    }

    fn list_metadata(&self) -> Result<Vec<(Vec<u8>, Bytes)>> {
        self.list_metadata()
    }

    fn set_metadata(&self, key: &[u8], value: &[u8]) -> Result<()> {
        self.set_metadata(key, value)
    }

    fn delete_metadata(&self, key: &[u8]) -> Result<()> {
        self.delete_metadata(key)
    }

    fn set_preference(&self, preference: Preference) -> Result<()> {
        self.set_preference(preference)
    }

    fn set_access_pattern(&self, access_pattern: AccessPattern) -> Result<()> {
        self.set_access_pattern(access_pattern)
    }
}
