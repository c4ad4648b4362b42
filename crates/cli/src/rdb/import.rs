//! The keys of an RDB file, into a database.

use std::collections::BTreeMap;
use std::io::Read;
use std::time::{SystemTime, UNIX_EPOCH};

use halite::Database;
use halite_rdb::{Event, Key, Limits, Reader, Value};
use halite_server::Keys;

use crate::interrupt::Interrupt;
use crate::loader::Loader;
use crate::{Error, Result, escape, output, size, values};

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
    let mut import = Import::new(db, name.to_owned(), Some(now_ms()));
    let mut add_all = || -> Result<()> {
        while !interrupt.is_raised()
            && let Some(event) = reader.next_event().map_err(refused)?
        {
            import.add(loader, extras, event)?;
        }
        Ok(())
    };
    let added = add_all();
    added.and(import.finish())
}

fn now_ms() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
}

/// The databases that are there at first; more are made as a file names them.
const DATABASES: usize = 16;

/// The most databases.
const DATABASES_MAX: usize = 1 << 14;

/// Bytes of keys and values after which they are made durable, so that a crash loses no more than this.
const SYNC_BYTES: u64 = 64 << 20;

/// Takes the parts of an RDB file one after the other.
pub(super) struct Import<'a> {
    db: &'a Database,
    /// The file, for errors.
    name: String,
    /// The keys, once there is one.
    keys: Option<Keys>,
    /// The database of the keys that follow.
    database: usize,
    unsynced_bytes: u64,
    /// Keys that have expired by then are passed over, in milliseconds since 1970.
    now_ms: Option<i64>,
}

impl<'a> Import<'a> {
    /// An import of the file called `name`. With `now_ms`, keys that have expired by then are passed over.
    pub(super) fn new(db: &'a Database, name: String, now_ms: Option<i64>) -> Self {
        Self { db, name, keys: None, database: 0, unsynced_bytes: 0, now_ms }
    }

    pub(super) fn add(
        &mut self,
        loader: &mut Loader<'_>,
        extras: &mut Extras,
        event: Event,
    ) -> Result<()> {
        match event {
            Event::SelectDb(database) => self.database = database as usize,
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

    /// Puts a value in the place of what its key has.
    fn put_value(&mut self, loader: &mut Loader<'_>, key: Key) -> Result<()> {
        let deadline = key.expires_ms.map(|at| u64::try_from(at).unwrap_or(0));
        let bytes = key.name.len() as u64 + len_of(&key.value);
        let (db, database) = (self.db, self.database);
        let put = self.keys()?.put(database, &key.name, key.value, deadline);
        put.map_err(|error| match error {
            halite_server::Error::Value { why } => self.refused(&key.name, &why),
            error => values::in_form(db.path(), error),
        })?;
        loader.note(bytes);
        self.unsynced_bytes += bytes;
        if self.unsynced_bytes >= SYNC_BYTES {
            self.sync()?;
        }
        Ok(())
    }

    /// The keys, with the database that was selected.
    fn keys(&mut self) -> Result<&mut Keys> {
        let (db, database) = (self.db, self.database);
        let has_it = |keys: &Keys| keys.databases().contains(&database);
        if !self.keys.as_ref().is_some_and(has_it) {
            if database >= DATABASES_MAX {
                let why = format!(
                    "it has keys of database {database}; there are {DATABASES_MAX} at most"
                );
                return Err(Error::input(&self.name, why));
            }
            self.finish()?;
        }
        match &mut self.keys {
            Some(keys) => Ok(keys),
            none => {
                let opened = Keys::open(db, DATABASES.max(database + 1));
                Ok(none.insert(opened.map_err(|error| values::in_form(db.path(), error))?))
            }
        }
    }

    fn sync(&mut self) -> Result<()> {
        self.unsynced_bytes = 0;
        let synced = self.keys.as_mut().map_or(Ok(()), Keys::sync);
        synced.map_err(|error| values::in_form(self.db.path(), error))
    }

    /// Makes all keys durable; others may change the database now.
    pub(super) fn finish(&mut self) -> Result<()> {
        let synced = self.sync();
        self.keys = None;
        synced
    }

    fn refused(&self, key: &[u8], why: &str) -> Error {
        Error::input(&self.name, format_args!("the key `{}`: {why}", escape::to_text(key)))
    }
}

/// Bytes of a value's strings.
fn len_of(value: &Value) -> u64 {
    let sum = |strings: &[Vec<u8>]| strings.iter().map(Vec::len).sum::<usize>() as u64;
    match value {
        Value::String(string) => string.len() as u64,
        Value::List(strings) | Value::Set(strings) => sum(strings),
        Value::Hash(fields) => {
            fields.iter().map(|field| (field.name.len() + field.value.len()) as u64).sum()
        }
        Value::SortedSet(members) => {
            members.iter().map(|(member, _)| (member.len() + size_of::<f64>()) as u64).sum()
        }
        Value::Stream(stream) => {
            let fields = stream.entries.iter().flat_map(|entry| &entry.fields);
            fields.map(|(name, value)| (name.len() + value.len()) as u64).sum()
        }
        Value::Module { .. } => 0,
    }
}
