//! Opening a database, and finding a key space in it.

use std::fs;
use std::io::ErrorKind;
use std::path::Path;

use halite::{Batch, Builder, Database, IndexKind, KeySpace};

use crate::place::DEFAULT_SPACE;
use crate::{Error, Result, values};

/// Opens the database in `path`, which must be there: reading never creates one.
pub(crate) fn open(path: &Path) -> Result<Database> {
    check_exists(path)?;
    open_with(Database::builder().create(false), path)
}

/// Checks that there is a database in `path`.
pub(crate) fn check_exists(path: &Path) -> Result<()> {
    check_folder(path)?;
    match Database::exists(path) {
        true => Ok(()),
        false => Err(Error::NoDatabase { path: path.to_owned() }),
    }
}

/// `builder`, with a change log that retains so many bytes if they are given.
pub(crate) fn with_change_log(builder: Builder, bytes: Option<u64>) -> Builder {
    match bytes {
        Some(bytes) => builder.change_log(bytes),
        None => builder,
    }
}

/// `builder`, with an index if one is given.
pub(crate) fn with_index(builder: Builder, index: Option<IndexKind>) -> Builder {
    match index {
        Some(index) => builder.index(index),
        None => builder,
    }
}

/// Opens the database in `path` as `builder` says.
pub(crate) fn open_with(builder: Builder, path: &Path) -> Result<Database> {
    builder.open(path).map_err(|source| in_database(path, source))
}

/// Checks that `path` is a folder, or free for one.
pub(crate) fn check_folder(path: &Path) -> Result<()> {
    match fs::metadata(path) {
        Ok(metadata) if metadata.is_dir() => Ok(()),
        Ok(_) => Err(Error::NotAFolder { path: path.to_owned() }),
        Err(error) if error.kind() == ErrorKind::NotFound && !path.as_os_str().is_empty() => Ok(()),
        Err(error) if error.kind() == ErrorKind::NotADirectory => {
            Err(Error::NotAFolder { path: path.to_owned() })
        }
        Err(error) => Err(Error::io(format!("`{}`", path.display()), error)),
    }
}

/// An error of the database in `path`.
pub(crate) fn in_database(path: &Path, source: halite::Error) -> Error {
    Error::Database { path: path.to_owned(), source }
}

/// The key space called `name`. The default one need not exist yet: `None` stands for an empty one.
pub(crate) fn find_space(db: &Database, name: &str) -> Result<Option<KeySpace>> {
    match need_space(db, name) {
        Err(Error::NoKeySpace { .. }) if name == DEFAULT_SPACE => Ok(None),
        found => found.map(Some),
    }
}

/// The key space called `name`, which has to exist.
pub(crate) fn need_space(db: &Database, name: &str) -> Result<KeySpace> {
    let spaces = db.key_spaces().map_err(|error| in_database(db.path(), error))?;
    if let Some(found) = spaces.iter().find(|space| space.name() == name) {
        return Ok(found.clone());
    }
    let names: Vec<_> = spaces.iter().map(|space| format!("`{}`", space.name())).collect();
    let existing = if names.is_empty() { "none".to_owned() } else { names.join(", ") };
    Err(Error::NoKeySpace { path: db.path().to_owned(), space: name.to_owned(), existing })
}

/// A key space to write to. A value in a key space of the server gets its tag.
///
/// The server keeps the deadlines of the keys of `db0` in the key space `db0:expires`. A key that
/// is written or removed here loses its deadline, as with the server's SET and DEL: else the server
/// would remove the new value when the old one's time is up.
pub(crate) struct WriteSpace {
    space: KeySpace,
    deadlines: Option<KeySpace>,
}

impl WriteSpace {
    /// The key space called `name`, created if it does not exist.
    pub(crate) fn create(db: &Database, name: &str) -> Result<Self> {
        values::prepare(db, name)?;
        let space = db.key_space(name).and_then(|space| Self::of(db, space));
        space.map_err(|error| in_database(db.path(), error))
    }

    /// An existing key space.
    pub(crate) fn of(db: &Database, space: KeySpace) -> halite::Result<Self> {
        let deadlines = db.find_key_space(&values::deadlines_of(space.name()))?;
        Ok(Self { space, deadlines })
    }

    pub(crate) fn put(&self, batch: &mut Batch, key: &[u8], value: &[u8]) -> halite::Result<()> {
        batch.put(&self.space, key, values::stored(self.space.name(), value));
        self.forget_deadline(batch, key)
    }

    /// Removes `key`; says whether it was there.
    pub(crate) fn delete(&self, batch: &mut Batch, key: &[u8]) -> halite::Result<bool> {
        batch.delete(&self.space, key);
        self.forget_deadline(batch, key)?;
        self.space.contains_key(key)
    }

    fn forget_deadline(&self, batch: &mut Batch, key: &[u8]) -> halite::Result<()> {
        if let Some(deadlines) = &self.deadlines
            && deadlines.contains_key(key)?
        {
            batch.delete(deadlines, key);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::values::Values;

    #[test]
    fn a_key_that_is_written_loses_its_deadline() {
        let folder = tempfile::tempdir().unwrap();
        let db = Database::open(folder.path().join("data")).unwrap();
        let first = WriteSpace::create(&db, "db0").unwrap();
        let (keys, deadlines) = (first.space, db.key_space("db0:expires").unwrap());
        for key in ["put", "deleted", "left"] {
            keys.put(key, "old").unwrap();
            deadlines.put(key, [0; 8]).unwrap();
        }
        let space = WriteSpace::create(&db, "db0").unwrap();
        let mut batch = db.batch();
        space.put(&mut batch, b"put", b"new").unwrap();
        assert!(space.delete(&mut batch, b"deleted").unwrap());
        assert!(!space.delete(&mut batch, b"never there").unwrap());
        batch.commit().unwrap();
        let stored = keys.get("put").unwrap().unwrap();
        assert_eq!(Values::of(&db).unwrap().plain("db0", b"put", &stored).unwrap(), b"new");
        assert_eq!(stored.len(), 4);
        assert_eq!(keys.len().unwrap(), 2);
        assert_eq!(deadlines.len().unwrap(), 1);
        assert!(deadlines.contains_key("left").unwrap());
    }
}
