//! The keys of an RDB file, into a database.

use std::collections::BTreeMap;
use std::io::Read;
use std::rc::Rc;
use std::time::{SystemTime, UNIX_EPOCH};

use halite::Database;
use halite_rdb::{Event, Key, Limits, Reader, Value};
use halite_server::database_places;

use crate::folder::in_database;
use crate::formats::Record;
use crate::interrupt::Interrupt;
use crate::loader::Loader;
use crate::{Error, Result, escape, output, size};

/// The warnings and counts of a load, beside its records.
#[derive(Debug, Default)]
pub(crate) struct Extras {
    /// Commands that were carried out.
    pub(crate) commands: u64,
    /// Keys that had expired and were passed over.
    pub(crate) expired: u64,
    /// Values of modules that were passed over, by the names of their types.
    modules: BTreeMap<String, u64>,
    /// Libraries of functions that were passed over.
    functions: u64,
}

impl Extras {
    /// Keys that were passed over.
    pub(crate) fn skipped(&self) -> u64 {
        self.expired + self.modules.values().sum::<u64>()
    }

    /// Says what was passed over although it is data.
    pub(crate) fn warn(&self) {
        for (name, count) in &self.modules {
            let values = size::count(*count, "value");
            output::message(format_args!("warning: {values} of the module type {name} left out"));
        }
        if self.functions > 0 {
            let count = size::grouped(self.functions);
            output::message(format_args!(
                "warning: libraries of functions left out: {count}; load them with FUNCTION LOAD"
            ));
        }
    }
}

/// Puts the keys of the file `input`, which errors call `name`, into the database of `loader`.
pub(crate) fn load_rdb(
    name: &str,
    input: impl Read,
    db: &Database,
    loader: &mut Loader<'_>,
    extras: &mut Extras,
    interrupt: &Interrupt,
) -> Result<()> {
    let refused = |source| Error::Rdb { thing: name.to_owned(), source };
    let mut reader = Reader::new(input, Limits::default()).map_err(refused)?;
    let mut import = Import::new(db, name.to_owned(), Some(now_ms()))?;
    while !interrupt.is_raised()
        && let Some(event) = reader.next_event().map_err(refused)?
    {
        import.add(loader, extras, event)?;
    }
    Ok(())
}

fn now_ms() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
}

/// Takes the parts of an RDB file one after the other.
pub(super) struct Import {
    /// The file, for errors.
    name: String,
    /// For each database the number of its key space.
    places: Vec<usize>,
    /// The key space of the keys that follow.
    space: Rc<str>,
    /// Keys that have expired by then are passed over, in milliseconds since 1970.
    now_ms: Option<i64>,
}

impl Import {
    /// An import of the file called `name`. With `now_ms`, keys that have expired by then are passed over.
    pub(super) fn new(db: &Database, name: String, now_ms: Option<i64>) -> Result<Self> {
        let places = database_places(db).map_err(|error| in_database(db.path(), error))?;
        let mut import = Self { name, places, space: "".into(), now_ms };
        import.select(0);
        Ok(import)
    }

    fn select(&mut self, database: u32) {
        let place = self.places.get(database as usize).copied();
        self.space = format!("db{}", place.unwrap_or(database as usize)).into();
    }

    pub(super) fn add(
        &mut self,
        loader: &mut Loader<'_>,
        extras: &mut Extras,
        event: Event,
    ) -> Result<()> {
        match event {
            Event::SelectDb(database) => self.select(database),
            Event::Function(_) => extras.functions += 1,
            Event::Key(key) => {
                let is_over = |at: i64| self.now_ms.is_some_and(|now_ms| at <= now_ms);
                match &key.value {
                    value if value.is_empty() => {}
                    _ if key.expires_ms.is_some_and(is_over) => extras.expired += 1,
                    Value::Module { name, .. } => {
                        *extras.modules.entry(name.clone()).or_default() += 1;
                    }
                    _ => self.put_value(loader, *key)?,
                }
            }
            // Notes, hints, and what modules have beside their values.
            _ => {}
        }
        Ok(())
    }

    /// Puts a value into the key space that was selected, in its stored form.
    ///
    /// This is the place to extend for collections: it has those of `halite_rdb::Value`, of which the server has a
    /// stored form, and puts them with the key's deadline into one batch.
    fn put_value(&self, loader: &mut Loader<'_>, key: Key) -> Result<()> {
        let deadline = key.expires_ms.map(|at| u64::try_from(at).unwrap_or(0));
        match key.value {
            Value::String(value) => {
                let space = Some(Rc::clone(&self.space));
                let record = Record { space, key: key.name, value };
                record.check().map_err(|why| self.refused(&record.key, &why.to_string()))?;
                loader.add_until(&record, deadline)
            }
            collection => {
                let why = format!("it is a {}; only strings can be loaded", collection.type_name());
                Err(self.refused(&key.name, &why))
            }
        }
    }

    fn refused(&self, key: &[u8], why: &str) -> Error {
        Error::input(&self.name, format_args!("the key `{}`: {why}", escape::to_text(key)))
    }
}
