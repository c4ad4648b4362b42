//! Object stores as the commands find them.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::Args;
use halite::{Database, Feature, Object, ObjectStore};

use crate::folder::{check_folder, in_database, open, open_with};
use crate::place::Escapes;
use crate::{Error, Result, escape};

/// The object store that commands use if none is named.
const DEFAULT_STORE: &str = "objects";

/// The name of an object that is being put, until it is whole. One process at a time has the database open: an object
/// that is left under it was not finished, and the next one takes its place.
const UNFINISHED: &[u8] = b"\0unfinished";

/// The place of objects: a database and an object store in it.
#[derive(Debug, Args)]
pub(crate) struct ObjectPlace {
    /// The database's folder
    pub(crate) path: PathBuf,

    /// The object store
    #[arg(long, value_name = "NAME", default_value = DEFAULT_STORE)]
    pub(crate) store: String,

    #[command(flatten)]
    pub(crate) escapes: Escapes,
}

impl ObjectPlace {
    /// The name of an object that an argument stands for.
    pub(crate) fn name(&self, argument: &OsString) -> Result<Vec<u8>> {
        let name = self.escapes.key(argument)?;
        match name == UNFINISHED {
            true => Err(Error::input(
                escape::to_text(&name),
                "the name is that of objects that are not finished; choose another one",
            )),
            false => Ok(name),
        }
    }

    /// Opens the database, and the object store in it. The default one need not exist yet: `None` stands for an empty
    /// one.
    pub(crate) fn find(&self) -> Result<(Database, Option<ObjectStore>)> {
        let db = open(&self.path)?;
        let failed = |error| in_database(&self.path, error);
        let found = db.find_objects(&self.store).map_err(failed)?;
        if found.is_none() && self.store != DEFAULT_STORE {
            return Err(no_store(&db, &self.store)?);
        }
        Ok((db, found))
    }

    /// Opens the database and the object store for writing, and creates what does not exist.
    pub(crate) fn open_or_create(&self) -> Result<(Database, ObjectStore)> {
        check_folder(&self.path)?;
        let db = open_with(Database::builder().needs(Feature::Objects), &self.path)?;
        let store = db.objects(&self.store).map_err(|error| in_database(&self.path, error))?;
        Ok((db, store))
    }

    /// The store, if it has the object.
    pub(crate) fn with_object(
        &self,
        store: Option<ObjectStore>,
        name: &[u8],
    ) -> Result<ObjectStore> {
        let failed = |error| in_database(&self.path, error);
        let has = |store: &ObjectStore| store.exists(name).map_err(failed);
        match store {
            Some(store) if has(&store)? => Ok(store),
            _ => Err(Error::NoObject {
                path: self.path.clone(),
                store: self.store.clone(),
                name: escape::to_text(name),
            }),
        }
    }

    /// Opens an object that exists.
    pub(crate) fn object(&self, argument: &OsString) -> Result<(Database, Object)> {
        let name = self.name(argument)?;
        let (db, store) = self.find()?;
        let store = self.with_object(store, &name)?;
        let object = store.open(&name).map_err(|error| in_database(&self.path, error))?;
        Ok((db, object))
    }
}

/// The error that there is no object store of a name.
pub(crate) fn no_store(db: &Database, name: &str) -> Result<Error> {
    let stores = db.object_stores().map_err(|error| in_database(db.path(), error))?;
    let names: Vec<_> = stores.iter().map(|name| format!("`{name}`")).collect();
    let existing = if names.is_empty() { "none".to_owned() } else { names.join(", ") };
    let (path, store) = (db.path().to_owned(), name.to_owned());
    Ok(Error::NoObjectStore { path, store, existing })
}

/// Creates an object of no bytes that gets its name when it is finished.
pub(crate) fn begin(store: &ObjectStore) -> halite::Result<Object> {
    give_up(store)?;
    store.create(UNFINISHED)
}

/// Gives the object that was begun its name, and deletes the object that has it.
pub(crate) fn finish(store: &ObjectStore, name: &[u8]) -> halite::Result<()> {
    store.rename_replacing(UNFINISHED, name)
}

/// Deletes the object that was begun, if there is one.
pub(crate) fn give_up(store: &ObjectStore) -> halite::Result<()> {
    match store.exists(UNFINISHED)? {
        true => store.delete(UNFINISHED),
        false => Ok(()),
    }
}
