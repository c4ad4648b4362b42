//! Objects: byte strings of any length, with names, beside the key spaces.

use std::sync::Arc;
use std::time::SystemTime;

use crate::{Bytes, Durability, Result};

/// The storage class that a dataset or an object is to lie in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Preference {
    /// No preference: the store's.
    #[default]
    None,
    /// The fastest class.
    Fastest,
    /// The class behind the fastest.
    Fast,
    /// The class behind these.
    Slow,
    /// The slowest class.
    Slowest,
}

/// The way in which an object is used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum AccessPattern {
    /// Not known.
    #[default]
    Unknown,
    /// Mostly reads, at any place.
    ReadMostly,
    /// Mostly writes, at any place.
    WriteMostly,
    /// Reads and writes from the first byte to the last.
    Sequential,
    /// Reads and writes at any place.
    Random,
}

/// The state of an object beside its bytes and its custom metadata.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ObjectInfo {
    /// The number that no other object of the object store ever gets.
    pub id: u64,
    /// Bytes.
    pub size: u64,
    /// The time of the last change of the bytes, or of the creation.
    pub mtime: SystemTime,
    /// The storage class that it is to lie in.
    pub preference: Preference,
    /// The way in which it is used.
    pub access_pattern: AccessPattern,
}

/// Objects in the order of their names, each an error if it is damaged.
pub type ObjectIter = Box<dyn Iterator<Item = Result<(Vec<u8>, ObjectInfo)>> + Send>;

/// Objects by name. The engine says which names there can be; it refuses others by an error of its own.
///
/// Besides the errors that a method names, all of them have those of reads and writes.
pub trait ObjectStore: Send + Sync {
    /// The same objects, with another durability of writes to them through this handle, and through objects that it
    /// opens.
    fn with_durability(&self, durability: Durability) -> Arc<dyn ObjectStore>;

    /// Creates an object of no bytes.
    ///
    /// # Errors
    /// There is an object of the name.
    fn create(&self, name: &[u8]) -> Result<Arc<dyn Object>>;

    /// Opens an object.
    ///
    /// # Errors
    /// There is no object of the name.
    fn open(&self, name: &[u8]) -> Result<Arc<dyn Object>>;

    /// Opens an object, or creates one of no bytes.
    ///
    /// # Errors
    /// Those of the type.
    fn open_or_create(&self, name: &[u8]) -> Result<Arc<dyn Object>>;

    /// Whether there is an object of a name.
    ///
    /// # Errors
    /// Those of the type.
    fn exists(&self, name: &[u8]) -> Result<bool>;

    /// Deletes an object, whole or not at all.
    ///
    /// # Errors
    /// There is no object of the name.
    fn delete(&self, name: &[u8]) -> Result<()>;

    /// Gives an object another name. An object that has that name is deleted in the same moment, if `replaces` allows it.
    ///
    /// # Errors
    /// There is no object of the old name; there is one of the new name, and `replaces` is false.
    fn rename(&self, old: &[u8], new: &[u8], replaces: bool) -> Result<()>;

    /// The objects whose names begin with a prefix, in the order of the names, of one state.
    ///
    /// # Errors
    /// Those of the type.
    fn iter(&self, prefix: &[u8]) -> Result<ObjectIter>;

    /// Makes every write that has returned durable.
    ///
    /// # Errors
    /// As [`Engine::sync`](crate::Engine::sync).
    fn sync(&self) -> Result<()>;
}

/// A handle of an object. It follows the object through renames; once the object is deleted, all methods fail.
///
/// Besides the errors that a method names, all of them have those of reads and writes.
pub trait Object: Send + Sync {
    /// The state of the object beside its bytes.
    ///
    /// # Errors
    /// Those of the type.
    fn info(&self) -> Result<ObjectInfo>;

    /// Reads bytes from `offset` on, of one state of the object. Returns how many there were: fewer than asked for only
    /// at the end of the object.
    ///
    /// # Errors
    /// Those of the type.
    fn read_at(&self, offset: u64, to: &mut [u8]) -> Result<usize>;

    /// Writes bytes from `offset` on. Between the end of the object and there, it has zeros.
    ///
    /// # Errors
    /// The object would be longer than any.
    fn write_at(&self, offset: u64, bytes: &[u8]) -> Result<()>;

    /// Cuts the object, or appends zeros that take no room.
    ///
    /// # Errors
    /// The object would be longer than any.
    fn truncate(&self, size: u64) -> Result<()>;

    /// Custom metadata, if there is any of that key.
    ///
    /// # Errors
    /// Those of the type.
    fn metadata(&self, key: &[u8]) -> Result<Option<Bytes>>;

    /// All custom metadata, in the order of the keys.
    ///
    /// # Errors
    /// Those of the type.
    fn list_metadata(&self) -> Result<Vec<(Vec<u8>, Bytes)>>;

    /// Sets custom metadata.
    ///
    /// # Errors
    /// [`Error::ValueTooLong`](crate::Error::ValueTooLong).
    fn set_metadata(&self, key: &[u8], value: &[u8]) -> Result<()>;

    /// Removes custom metadata, if there is any of that key.
    ///
    /// # Errors
    /// Those of the type.
    fn delete_metadata(&self, key: &[u8]) -> Result<()>;

    /// Sets the storage class that the object is to lie in.
    ///
    /// # Errors
    /// Those of the type.
    fn set_preference(&self, preference: Preference) -> Result<()>;

    /// Sets the way in which the object is used.
    ///
    /// # Errors
    /// Those of the type.
    fn set_access_pattern(&self, access_pattern: AccessPattern) -> Result<()>;
}
