//! An object store: the names of objects.

use std::sync::Arc;
use std::time::SystemTime;

use halite_contract::{Durability, Error, Result};

use super::change::{Create, Rename, push_delete};
use super::handle::{Object, Writing};
use super::keys::{name_key, name_of, names};
use super::limits::{check_name, shown};
use super::metadata::{Metadata, ObjectInfo};
use super::reading::{find, info_of, metadata_of, read_id};
use super::shared::{Reader, Shared};
use crate::Error as BetreeError;
use crate::message::Kind;
use crate::purpose::Purpose;
use crate::record::Batch;
use crate::scan::StoreScan;
use crate::store::commit::Commit;

/// Objects by name. A clone is another handle of the same objects, with the same durability.
///
/// Names have 1 to [`NAME_LEN_MAX`](super::NAME_LEN_MAX) bytes of any values; all methods refuse others with
/// [`crate::Error::ObjectName`]. They fail with [`crate::Error::Closed`] once the engine is closed, with
/// [`crate::Error::NoSuchObjectStore`] once the object store is dropped, and with the errors of the engine's reads and
/// writes.
#[derive(Clone)]
pub struct ObjectStore {
    shared: Arc<Shared>,
    writing: Writing,
}

impl ObjectStore {
    pub(super) fn new(shared: Arc<Shared>) -> Self {
        let clock = Arc::new(SystemTime::now);
        let writing = Writing { durability: Durability::default(), clock };
        Self { shared, writing }
    }

    /// The handle, with another durability of its writes, and of those of objects that are opened through it.
    #[must_use]
    pub fn with_durability(mut self, durability: Durability) -> Self {
        self.writing.durability = durability;
        self
    }

    /// The handle, with a clock that tells the times of changes, also of objects that are opened through it.
    #[must_use]
    pub fn with_clock(mut self, clock: impl Fn() -> SystemTime + Send + Sync + 'static) -> Self {
        self.writing.clock = Arc::new(clock);
        self
    }

    /// Creates an object of no bytes.
    ///
    /// # Errors
    /// [`crate::Error::ObjectExists`].
    pub fn create(&self, name: &[u8]) -> Result<Object> {
        check_name(name)?;
        let _held = self.shared.hold(name);
        match self.find(name)? {
            Some(_) => Err(BetreeError::ObjectExists { object: shown(name) }.into()),
            None => self.create_held(name),
        }
    }

    /// Opens an object.
    ///
    /// # Errors
    /// [`crate::Error::NoSuchObject`].
    pub fn open(&self, name: &[u8]) -> Result<Object> {
        check_name(name)?;
        let _held = self.shared.hold(name);
        let id = self.find(name)?.ok_or_else(|| no_such(name))?;
        self.open_held(id)
    }

    /// Opens an object, or creates one of no bytes.
    ///
    /// # Errors
    /// Those of the type.
    pub fn open_or_create(&self, name: &[u8]) -> Result<Object> {
        check_name(name)?;
        let _held = self.shared.hold(name);
        match self.find(name)? {
            Some(id) => self.open_held(id),
            None => self.create_held(name),
        }
    }

    /// Whether there is an object of a name.
    ///
    /// # Errors
    /// Those of the type.
    pub fn exists(&self, name: &[u8]) -> Result<bool> {
        check_name(name)?;
        Ok(self.find(name)?.is_some())
    }

    /// The state of an object beside its bytes, without opening it.
    ///
    /// # Errors
    /// [`crate::Error::NoSuchObject`].
    pub fn info(&self, name: &[u8]) -> Result<ObjectInfo> {
        check_name(name)?;
        let (reader, dataset) = (self.shared.reader()?, self.shared.metadata);
        let id = find(&reader, dataset, name)?.ok_or_else(|| no_such(name))?;
        info_of(&reader, dataset, id)?.ok_or_else(|| without_metadata(id))
    }

    /// Deletes an object, whole or not at all, at once for all handles of it.
    ///
    /// # Errors
    /// [`crate::Error::NoSuchObject`].
    pub fn delete(&self, name: &[u8]) -> Result<()> {
        check_name(name)?;
        let _held = self.shared.hold(name);
        let id = self.find(name)?.ok_or_else(|| no_such(name))?;
        let mut batch = Batch::default();
        batch.push(self.shared.metadata, Kind::Delete, &name_key(name), &[]);
        push_delete(&mut batch, &self.shared, id);
        self.rename_held(batch, Purpose::Removal, Some(id))
    }

    /// Gives an object another name, which has none.
    ///
    /// # Errors
    /// [`crate::Error::NoSuchObject`]; [`crate::Error::ObjectExists`].
    pub fn rename(&self, old: &[u8], new: &[u8]) -> Result<()> {
        self.rename_by(old, new, false)
    }

    /// Gives an object another name. The object that had it is deleted, in the same moment.
    ///
    /// # Errors
    /// [`crate::Error::NoSuchObject`].
    pub fn rename_replacing(&self, old: &[u8], new: &[u8]) -> Result<()> {
        self.rename_by(old, new, true)
    }

    fn rename_by(&self, old: &[u8], new: &[u8], may_replace: bool) -> Result<()> {
        check_name(old)?;
        check_name(new)?;
        let _held = self.shared.hold_both(old, new);
        let (reader, dataset) = (self.shared.reader()?, self.shared.metadata);
        let id = find(&reader, dataset, old)?.ok_or_else(|| no_such(old))?;
        if old == new {
            return Ok(());
        }
        let replaced = find(&reader, dataset, new)?;
        let mut batch = Batch::default();
        batch.push(dataset, Kind::Delete, &name_key(old), &[]);
        batch.push(dataset, Kind::Insert, &name_key(new), &id.to_le_bytes());
        if let Some(replaced) = replaced {
            if !may_replace {
                return Err(BetreeError::ObjectExists { object: shown(new) }.into());
            }
            push_delete(&mut batch, &self.shared, replaced);
        }
        self.rename_held(batch, Purpose::Put, replaced)
    }

    /// The objects whose names begin with a prefix, in the order of the names, of one state.
    ///
    /// # Errors
    /// Those of the type, also of each object.
    pub fn iter(&self, prefix: &[u8]) -> Result<Objects> {
        let (reader, dataset) = (self.shared.reader()?, self.shared.metadata);
        let names = reader.scan(dataset, &names(prefix));
        Ok(Objects { reader, dataset, names })
    }

    /// Makes every write durable that has returned.
    ///
    /// # Errors
    /// Those of the log.
    pub fn sync(&self) -> Result<()> {
        self.shared.store()?.sync()
    }

    fn find(&self, name: &[u8]) -> Result<Option<u64>> {
        find(&self.shared.reader()?, self.shared.metadata, name)
    }

    fn commit(&self, purpose: Purpose, commit: &mut dyn Commit) -> Result<()> {
        let none = Batch::default();
        self.shared.store()?.commit(&none, purpose, self.writing.durability, commit)
    }

    fn create_held(&self, name: &[u8]) -> Result<Object> {
        let metadata = Metadata { mtime: self.writing.now(), ..Metadata::default() };
        let mut create = Create::new(&self.shared, name, metadata);
        self.commit(Purpose::Put, &mut create)?;
        Ok(Object::new(self.shared.open(create.id, metadata), self.writing.clone()))
    }

    fn open_held(&self, id: u64) -> Result<Object> {
        let opened = match self.shared.opened(id) {
            Some(opened) => opened,
            None => {
                let metadata = metadata_of(&self.shared.reader()?, self.shared.metadata, id)?;
                self.shared.open(id, metadata.ok_or_else(|| without_metadata(id))?)
            }
        };
        Ok(Object::new(opened, self.writing.clone()))
    }

    /// Commits the change of names that are held, with which an object may go.
    fn rename_held(&self, batch: Batch, purpose: Purpose, gone: Option<u64>) -> Result<()> {
        self.commit(purpose, &mut Rename::new(&self.shared, batch, gone))
    }
}

fn no_such(name: &[u8]) -> Error {
    BetreeError::NoSuchObject { object: shown(name) }.into()
}

fn without_metadata(id: u64) -> Error {
    Error::Damaged { what: format!("object #{id}"), why: "it has a name, but no metadata".into() }
}

/// Objects and their names, of one state of an object store.
pub struct Objects {
    reader: Reader,
    dataset: u32,
    names: StoreScan,
}

impl Iterator for Objects {
    type Item = Result<(Vec<u8>, ObjectInfo)>;

    fn next(&mut self) -> Option<Self::Item> {
        let pair = self.names.next()?;
        Some(pair.and_then(|(key, value)| {
            let id = read_id(&value)?;
            let info = info_of(&self.reader, self.dataset, id)?;
            Ok((name_of(&key).to_vec(), info.ok_or_else(|| without_metadata(id))?))
        }))
    }
}
