//! The keys of a database, as an RDB file.

use std::io::{self, Write};

use halite::{Database, EngineError, KeySpace};
use halite_rdb::{Key, Value, Version, Writer};
use halite_server::{Keys, database_places, stored};
use indicatif::ProgressBar;

use crate::folder::in_database;
use crate::interrupt::Interrupt;
use crate::values::{Values, companion, deadlines_of, elements_of, in_form};
use crate::{Error, Result, output};

/// Writes the keys of the server's key spaces among `spaces`, each as one of its database.
pub(crate) fn export(
    db: &Database,
    (spaces, values): (&[KeySpace], &Values),
    out: impl Write,
    (bar, interrupt): (&ProgressBar, &Interrupt),
    failed: impl Fn(io::Error) -> Error,
) -> Result<()> {
    let in_database = |error| in_database(db.path(), error);
    let databases = databases(db, spaces)?;
    let mut collections = Collections::of(db, &databases)?;
    let mut writer = Writer::new(out, collections.version()).map_err(&failed)?;
    writer.aux(b"halite-ver", env!("CARGO_PKG_VERSION").as_bytes()).map_err(&failed)?;
    writer.aux(b"redis-bits", b"64").map_err(&failed)?;
    for &(database, space) in &databases {
        let mut pairs = space.iter().map_err(in_database)?.peekable();
        if pairs.peek().is_none() {
            continue;
        }
        // How many keys follow is a hint that can be left out: some engines would have to count them.
        writer.select_db(database).map_err(&failed)?;
        let deadlines = companion(db, space).map_err(in_database)?;
        for pair in pairs {
            interrupt.check()?;
            let (name, stored) = pair.map_err(in_database)?;
            let value = match values.plain(space.name(), &name, &stored) {
                Err(Error::Value { source: stored::Unreadable::NoString { .. }, .. }) => {
                    match collections.value(database, &name)? {
                        Some(value) => value,
                        None => continue,
                    }
                }
                string => Value::String(string?.to_vec()),
            };
            let deadline = match &deadlines {
                Some(deadlines) => deadlines.get(&name).map_err(in_database)?,
                None => None,
            };
            let deadline = deadline.map(|record| deadline_of(&name, &record)).transpose();
            let expires_ms = deadline.map_err(in_database)?;
            let expires_ms = expires_ms.map(|at| i64::try_from(at).unwrap_or(i64::MAX));
            let key = Key { expires_ms, ..Key::new(name.to_vec(), value) };
            writer.key(&key).map_err(&failed)?;
            bar.inc(1);
        }
    }
    writer.finish().map_err(&failed).map(drop)
}

/// The deadline in the record of a key, in milliseconds since 1970.
fn deadline_of(key: &[u8], record: &[u8]) -> halite::Result<u64> {
    let deadline = <[u8; 8]>::try_from(record).map_err(|_| EngineError::Damaged {
        what: format!("the deadline of `{}`", key.escape_ascii()),
        why: format!("it has {} bytes instead of 8", record.len()),
    })?;
    Ok(u64::from_be_bytes(deadline))
}

/// The collections of the databases that are written.
struct Collections<'a> {
    db: &'a Database,
    /// So many databases are opened.
    count: usize,
    /// The keys, once there is a collection.
    keys: Option<Keys>,
    has_expiring_fields: bool,
}

impl<'a> Collections<'a> {
    fn of(db: &'a Database, databases: &[(u32, &KeySpace)]) -> Result<Self> {
        let count = databases.iter().map(|(database, _)| *database as usize + 1).max();
        let (count, keys, has_expiring_fields) = (count.unwrap_or(0), None, false);
        let mut collections = Self { db, count, keys, has_expiring_fields };
        let mut has_elements = false;
        for (_, space) in databases {
            let elements = db.find_key_space(&elements_of(space.name()));
            let is_empty = elements.and_then(|found| found.map_or(Ok(true), |at| at.is_empty()));
            has_elements |= !is_empty.map_err(|error| in_database(db.path(), error))?;
        }
        if has_elements {
            let keys = collections.keys()?;
            let mut numbers = databases.iter().map(|(database, _)| *database as usize);
            let has_expiring_fields = numbers.any(|number| keys.has_expiring_fields(number));
            collections.has_expiring_fields = has_expiring_fields;
        }
        Ok(collections)
    }

    /// The oldest version of the format that has all of them.
    fn version(&self) -> Version {
        match self.has_expiring_fields {
            true => Version::Redis74,
            false => Version::Redis70,
        }
    }

    fn keys(&mut self) -> Result<&mut Keys> {
        match &mut self.keys {
            Some(keys) => Ok(keys),
            none => {
                let opened = Keys::open(self.db, self.count);
                Ok(none.insert(opened.map_err(|error| in_form(self.db.path(), error))?))
            }
        }
    }

    fn value(&mut self, database: u32, key: &[u8]) -> Result<Option<Value>> {
        let value = self.keys()?.value(database as usize, key);
        value.map_err(|error| in_form(self.db.path(), error))
    }
}

/// The server's key spaces, by the numbers of their databases. Others are named in a warning.
fn databases<'a>(db: &Database, spaces: &'a [KeySpace]) -> Result<Vec<(u32, &'a KeySpace)>> {
    let places = database_places(db).map_err(|error| in_database(db.path(), error))?;
    let mut databases = Vec::new();
    for space in spaces {
        let number = space.name().strip_prefix("db").and_then(|number| number.parse::<u32>().ok());
        match number.filter(|_| stored::is_of_values(space.name())) {
            Some(place) => {
                let database = places.iter().position(|at| *at == place as usize);
                databases.push((database.map_or(place, |database| database as u32), space));
            }
            None if is_servers(spaces, space) => {}
            None => output::message(format_args!(
                "warning: the key space `{}` is none of a database of Redis, and left out",
                space.name()
            )),
        }
    }
    databases.sort_by_key(|(database, _)| *database);
    Ok(databases)
}

/// Whether a key space has the deadlines or the elements of the keys of another, or is the server's note.
fn is_servers(spaces: &[KeySpace], space: &KeySpace) -> bool {
    let is_of = |other: &KeySpace| {
        let name = other.name();
        stored::is_of_values(name)
            && [deadlines_of(name), elements_of(name)].iter().any(|of| of == space.name())
    };
    stored::is_note(space.name()) || spaces.iter().any(is_of)
}
