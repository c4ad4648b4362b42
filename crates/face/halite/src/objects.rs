//! Objects: byte strings of any length, with names, beside the key spaces.

use std::fmt;
use std::io::{self, ErrorKind, Read, Seek, SeekFrom, Write};
use std::sync::Arc;

use halite_contract::{Engine, Feature, ObjectIter};

use crate::engines::offered;
use crate::{AccessPattern, Bytes, Database, Durability, Error, ObjectInfo, Preference, Result};

impl Database {
    /// The object store called `name`, created durably if it does not exist. Names of object stores are apart from those
    /// of key spaces.
    ///
    /// ```
    /// # let folder = tempfile::tempdir()?;
    /// # let path = folder.path().join("data");
    /// use halite::Database;
    /// let db = Database::builder().engine("betree").open(&path)?;
    /// let photos = db.objects("photos")?;
    /// let photo = photos.create(b"2024/beach")?;
    /// photo.write_at(1000, b"sand")?;
    /// assert_eq!(photo.info()?.size, 1004);
    /// photos.rename(b"2024/beach", b"2024/sea")?;
    /// let names = photos.iter(b"2024/")?.map(|object| object.map(|(name, _)| name));
    /// assert_eq!(names.collect::<Result<Vec<_>, _>>()?, [b"2024/sea"]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::Lacks`]; the name is empty or too long; the errors of a write.
    pub fn objects(&self, name: &str) -> Result<ObjectStore> {
        let stores =
            offered(&*self.engine, self.engine.capabilities().object_stores, Feature::Objects)?;
        let inner = stores.objects(name)?;
        Ok(ObjectStore { engine: Arc::clone(&self.engine), name: name.into(), inner })
    }

    /// The object store called `name` if it exists.
    ///
    /// # Errors
    /// [`Error::Lacks`]; the errors of a read.
    pub fn find_objects(&self, name: &str) -> Result<Option<ObjectStore>> {
        match self.object_stores()?.iter().any(|store| store == name) {
            true => self.objects(name).map(Some),
            false => Ok(None),
        }
    }

    /// The names of the object stores that exist, in order.
    ///
    /// # Errors
    /// [`Error::Lacks`].
    pub fn object_stores(&self) -> Result<Vec<String>> {
        let stores =
            offered(&*self.engine, self.engine.capabilities().object_stores, Feature::Objects)?;
        Ok(stores.object_stores())
    }

    /// Removes an object store with all its objects, whole or not at all.
    ///
    /// # Errors
    /// [`Error::Lacks`]; there is none of that name; the errors of a write.
    pub fn drop_objects(&self, name: &str) -> Result<()> {
        let stores =
            offered(&*self.engine, self.engine.capabilities().object_stores, Feature::Objects)?;
        Ok(stores.drop_objects(name)?)
    }
}

/// Objects by name. Cloning it is cheap.
///
/// The engine says which names objects can have, and refuses others. Besides the errors that a method names, all of them
/// have those of the engine's reads and writes.
#[derive(Clone)]
pub struct ObjectStore {
    pub(crate) engine: Arc<dyn Engine>,
    pub(crate) name: Arc<str>,
    inner: Arc<dyn halite_contract::ObjectStore>,
}

impl ObjectStore {
    /// The name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The same objects, with another durability of writes through this handle and through objects that it opens.
    #[must_use]
    pub fn with_durability(&self, durability: Durability) -> Self {
        Self { inner: self.inner.with_durability(durability), ..self.clone() }
    }

    /// Creates an object of no bytes.
    ///
    /// # Errors
    /// There is an object of the name.
    pub fn create(&self, name: impl AsRef<[u8]>) -> Result<Object> {
        Ok(self.object(self.inner.create(name.as_ref())?))
    }

    /// Opens an object.
    ///
    /// # Errors
    /// There is no object of the name.
    pub fn open(&self, name: impl AsRef<[u8]>) -> Result<Object> {
        Ok(self.object(self.inner.open(name.as_ref())?))
    }

    /// Opens an object, or creates one of no bytes.
    ///
    /// # Errors
    /// Those of the type.
    pub fn open_or_create(&self, name: impl AsRef<[u8]>) -> Result<Object> {
        Ok(self.object(self.inner.open_or_create(name.as_ref())?))
    }

    /// Whether there is an object of a name.
    ///
    /// # Errors
    /// Those of the type.
    pub fn exists(&self, name: impl AsRef<[u8]>) -> Result<bool> {
        Ok(self.inner.exists(name.as_ref())?)
    }

    /// Deletes an object, whole or not at all, at once for all handles of it.
    ///
    /// # Errors
    /// There is no object of the name.
    pub fn delete(&self, name: impl AsRef<[u8]>) -> Result<()> {
        Ok(self.inner.delete(name.as_ref())?)
    }

    /// Gives an object another name, which no object has.
    ///
    /// # Errors
    /// There is no object of the old name, or one of the new name.
    pub fn rename(&self, old: impl AsRef<[u8]>, new: impl AsRef<[u8]>) -> Result<()> {
        Ok(self.inner.rename(old.as_ref(), new.as_ref(), false)?)
    }

    /// Gives an object another name. The object that had it is deleted, in the same moment.
    ///
    /// # Errors
    /// There is no object of the old name.
    pub fn rename_replacing(&self, old: impl AsRef<[u8]>, new: impl AsRef<[u8]>) -> Result<()> {
        Ok(self.inner.rename(old.as_ref(), new.as_ref(), true)?)
    }

    /// The objects whose names begin with a prefix, in the order of the names, as they are now.
    ///
    /// # Errors
    /// Those of the type, also of each object.
    pub fn iter(&self, prefix: impl AsRef<[u8]>) -> Result<Objects> {
        Ok(Objects { iter: self.inner.iter(prefix.as_ref())?, _engine: Arc::clone(&self.engine) })
    }

    /// Makes every write that has returned durable.
    ///
    /// # Errors
    /// As [`Database::sync`].
    pub fn sync(&self) -> Result<()> {
        Ok(self.inner.sync()?)
    }

    fn object(&self, inner: Arc<dyn halite_contract::Object>) -> Object {
        Object { inner, _engine: Arc::clone(&self.engine) }
    }
}

impl fmt::Debug for ObjectStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ObjectStore").field("name", &self.name).finish_non_exhaustive()
    }
}

/// Objects and their names, of one state of an object store.
pub struct Objects {
    /// Dropped before the engine, which it reads.
    iter: ObjectIter,
    _engine: Arc<dyn Engine>,
}

impl Iterator for Objects {
    type Item = Result<(Vec<u8>, ObjectInfo)>;

    fn next(&mut self) -> Option<Self::Item> {
        Some(self.iter.next()?.map_err(Into::into))
    }
}

impl fmt::Debug for Objects {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Objects").finish_non_exhaustive()
    }
}

/// A handle of an object. It follows the object through renames; once the object is deleted, all methods fail.
///
/// Besides the errors that a method names, all of them have those of the engine's reads and writes.
#[derive(Clone)]
pub struct Object {
    /// Dropped before the engine, which it reads.
    inner: Arc<dyn halite_contract::Object>,
    _engine: Arc<dyn Engine>,
}

impl Object {
    /// The state of the object beside its bytes.
    ///
    /// # Errors
    /// Those of the type.
    pub fn info(&self) -> Result<ObjectInfo> {
        Ok(self.inner.info()?)
    }

    /// Reads bytes from `offset` on, of one state of the object. Returns how many there were: fewer than asked for only
    /// at the end of the object.
    ///
    /// # Errors
    /// Those of the type.
    pub fn read_at(&self, offset: u64, to: &mut [u8]) -> Result<usize> {
        Ok(self.inner.read_at(offset, to)?)
    }

    /// Writes bytes from `offset` on. Between the end of the object and there, it has zeros. The engine says up to which
    /// length a write is atomic.
    ///
    /// # Errors
    /// The object would be longer than any.
    pub fn write_at(&self, offset: u64, bytes: &[u8]) -> Result<()> {
        Ok(self.inner.write_at(offset, bytes)?)
    }

    /// Cuts the object, or appends zeros that take no room.
    ///
    /// # Errors
    /// The object would be longer than any.
    pub fn truncate(&self, size: u64) -> Result<()> {
        Ok(self.inner.truncate(size)?)
    }

    /// Custom metadata, if there is any of that key.
    ///
    /// # Errors
    /// Those of the type.
    pub fn metadata(&self, key: impl AsRef<[u8]>) -> Result<Option<Bytes>> {
        Ok(self.inner.metadata(key.as_ref())?)
    }

    /// All custom metadata, in the order of the keys.
    ///
    /// # Errors
    /// Those of the type.
    pub fn list_metadata(&self) -> Result<Vec<(Vec<u8>, Bytes)>> {
        Ok(self.inner.list_metadata()?)
    }

    /// Sets custom metadata. The time of the last change stays.
    ///
    /// # Errors
    /// [`crate::EngineError::ValueTooLong`].
    pub fn set_metadata(&self, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Result<()> {
        Ok(self.inner.set_metadata(key.as_ref(), value.as_ref())?)
    }

    /// Removes custom metadata, if there is any of that key.
    ///
    /// # Errors
    /// Those of the type.
    pub fn delete_metadata(&self, key: impl AsRef<[u8]>) -> Result<()> {
        Ok(self.inner.delete_metadata(key.as_ref())?)
    }

    /// Sets the storage class that the object is to lie in.
    ///
    /// # Errors
    /// Those of the type.
    pub fn set_preference(&self, preference: Preference) -> Result<()> {
        Ok(self.inner.set_preference(preference)?)
    }

    /// Sets the way in which the object is used.
    ///
    /// # Errors
    /// Those of the type.
    pub fn set_access_pattern(&self, access_pattern: AccessPattern) -> Result<()> {
        Ok(self.inner.set_access_pattern(access_pattern)?)
    }

    /// A reader and writer with a position, which is the first byte.
    ///
    /// ```
    /// # let folder = tempfile::tempdir()?;
    /// # let path = folder.path().join("data");
    /// use std::io::{Read, Seek, SeekFrom, Write};
    /// let db = halite::Database::builder().engine("betree").open(&path)?;
    /// let object = db.objects("notes")?.create("today")?;
    /// let mut cursor = object.cursor();
    /// cursor.write_all(b"rain, then sun")?;
    /// cursor.seek(SeekFrom::End(-3))?;
    /// let mut read = String::new();
    /// cursor.read_to_string(&mut read)?;
    /// assert_eq!(read, "sun");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn cursor(&self) -> ObjectCursor<'_> {
        ObjectCursor { object: self, position: 0 }
    }
}

impl fmt::Debug for Object {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Object").finish_non_exhaustive()
    }
}

/// A position in an object. Reads and writes move it on; it may be behind the end.
///
/// [`Write::flush`] has nothing to do: a write is durable when the handle's durability says so.
#[derive(Debug)]
pub struct ObjectCursor<'a> {
    object: &'a Object,
    position: u64,
}

/// Bytes of a write through a cursor, at most.
const WRITE_MAX: usize = 1 << 20;

/// An error of an object, as one of a stream.
fn from_object(error: Error) -> io::Error {
    let kind = match () {
        () if error.damage().is_some() => ErrorKind::InvalidData,
        () if error.lacks_space() => ErrorKind::StorageFull,
        () => ErrorKind::Other,
    };
    io::Error::new(kind, error)
}

impl Read for ObjectCursor<'_> {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        let read = self.object.read_at(self.position, to).map_err(from_object)?;
        self.position += read as u64;
        Ok(read)
    }
}

impl Write for ObjectCursor<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let bytes = &bytes[..bytes.len().min(WRITE_MAX)];
        self.object.write_at(self.position, bytes).map_err(from_object)?;
        self.position += bytes.len() as u64;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Seek for ObjectCursor<'_> {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        let position = match to {
            SeekFrom::Start(position) => Some(position),
            SeekFrom::Current(by) => self.position.checked_add_signed(by),
            SeekFrom::End(by) => {
                self.object.info().map_err(from_object)?.size.checked_add_signed(by)
            }
        };
        let why = "an object has no position before its first byte, and none that has no number";
        self.position = position.ok_or_else(|| io::Error::new(ErrorKind::InvalidInput, why))?;
        Ok(self.position)
    }
}
