//! Values as the data commands print and take them: those of a server's key spaces without their tags.
//!
//! A database says by a note whether the values in its key spaces `db<N>` have tags (`halite_server::stored`). One that
//! a program made by itself may have such key spaces without: they are read as they are, and not written to.

use std::borrow::Cow;
use std::path::{Path, PathBuf};

use halite::{Database, KeySpace};
use halite_server::stored::{is_note, is_of_values, is_tagged, make_note, tagged, untagged};

use crate::folder::in_database;
use crate::{Error, Result, escape};

/// How the values of a database are read.
pub(crate) struct Values {
    path: PathBuf,
    have_tags: bool,
}

impl Values {
    pub(crate) fn of(db: &Database) -> Result<Self> {
        let have_tags = is_tagged(db).map_err(|error| in_form(db.path(), error))?;
        Ok(Self { path: db.path().to_owned(), have_tags })
    }

    /// Those of a running server, whose address stands for a path in errors.
    pub(crate) fn of_server(address: &str) -> Self {
        Self { path: address.into(), have_tags: true }
    }

    /// The value of a key, of its stored form in the key space called `space`.
    pub(crate) fn plain<'a>(&self, space: &str, key: &[u8], stored: &'a [u8]) -> Result<&'a [u8]> {
        if !self.have_tags || !is_of_values(space) {
            return Ok(stored);
        }
        untagged(stored).map_err(|source| Error::Value {
            path: self.path.clone(),
            space: space.to_owned(),
            key: escape::to_text(key),
            source,
        })
    }
}

/// Lets a database say that its values have tags, before a key space called `space` is made or written to. The note
/// itself is a key space, too.
pub(crate) fn prepare(db: &Database, space: &str) -> Result<()> {
    if !is_of_values(space) && !is_note(space) {
        return Ok(());
    }
    make_note(db).map_err(|error| in_form(db.path(), error))
}

/// Refuses to remove keys from the key space called `space` where a newer form may have more of a value than its
/// record.
pub(crate) fn check_removal(db: &Database, space: &str) -> Result<()> {
    match is_of_values(space) {
        true => Values::of(db).map(drop),
        false => Ok(()),
    }
}

/// Refuses to remove or rename the note that values have tags.
pub(crate) fn check_not_note(name: &str) -> Result<()> {
    match is_note(name) {
        true => Err(Error::input(escape::to_text(name.as_bytes()), "it is the server's own")),
        false => Ok(()),
    }
}

/// Refuses to give the values of the key space called `old` to one called `new`, where values have another form.
pub(crate) fn check_form(old: &str, new: &str) -> Result<()> {
    if is_of_values(old) == is_of_values(new) {
        return Ok(());
    }
    let name = escape::to_text(new.as_bytes());
    let why = match is_of_values(old) {
        true => format!("the values of `{old}` have tags of the server; choose a name as `{old}`"),
        false => "values of a name as this have tags of the server; choose another name".to_owned(),
    };
    Err(Error::input(name, why))
}

/// The key space with the deadlines of the keys of a server's, if there is one.
pub(crate) fn companion(db: &Database, space: &KeySpace) -> halite::Result<Option<KeySpace>> {
    match is_of_values(space.name()) {
        true => db.find_key_space(&deadlines_of(space.name())),
        false => Ok(None),
    }
}

/// The name of the key space with the deadlines of the keys of another.
pub(crate) fn deadlines_of(name: &str) -> String {
    format!("{name}:expires")
}

/// The name of the key space with the elements of the collections of another.
pub(crate) fn elements_of(name: &str) -> String {
    format!("{name}:elements")
}

/// Refuses a change of a server's key space which its keys' deadlines would not follow.
pub(crate) fn check_companions(db: &Database, space: &KeySpace, change: &str) -> Result<()> {
    let failed = |error| in_database(db.path(), error);
    match companion(db, space).map_err(failed)? {
        Some(deadlines) if !deadlines.is_empty().map_err(failed)? => {
            let why = format!(
                "keys of it have times to live, in `{}`, which would not follow to {change}; let them expire, or \
                 take a backup instead",
                deadlines.name()
            );
            Err(Error::input(space.name(), why))
        }
        _ => Ok(()),
    }
}

/// The stored form of a value in the key space called `space`.
pub(crate) fn stored<'a>(space: &str, value: &'a [u8]) -> Cow<'a, [u8]> {
    if is_of_values(space) { Cow::Owned(tagged(value)) } else { Cow::Borrowed(value) }
}

/// An error of the values in `path`, or of their form.
pub(crate) fn in_form(path: &Path, error: halite_server::Error) -> Error {
    match error {
        halite_server::Error::Database(source) => in_database(path, source),
        source => Error::Form { path: path.to_owned(), source },
    }
}
