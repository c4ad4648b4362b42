//! The keys of a database, as an RDB file.

use std::io::{self, Write};

use halite::{Database, KeySpace};
use halite_rdb::{Key, Value, Version, Writer};
use halite_server::{database_places, stored};
use indicatif::ProgressBar;

use crate::folder::in_database;
use crate::interrupt::Interrupt;
use crate::values::{Values, companion, deadlines_of};
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
    let mut writer = Writer::new(out, Version::Redis72).map_err(&failed)?;
    writer.aux(b"halite-ver", env!("CARGO_PKG_VERSION").as_bytes()).map_err(&failed)?;
    writer.aux(b"redis-bits", b"64").map_err(&failed)?;
    for (database, space) in databases(db, spaces)? {
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
            // The place to extend for collections: the value of any stored form.
            let value = Value::String(values.plain(space.name(), &name, &stored)?.to_vec());
            let deadline = match &deadlines {
                Some(deadlines) => deadlines.get(&name).map_err(in_database)?,
                None => None,
            };
            let expires_ms =
                deadline.and_then(|record| Some(u64::from_be_bytes(record[..].try_into().ok()?)));
            let expires_ms = expires_ms.map(|at| i64::try_from(at).unwrap_or(i64::MAX));
            let key = Key { expires_ms, ..Key::new(name.to_vec(), value) };
            writer.key(&key).map_err(&failed)?;
            bar.inc(1);
        }
    }
    writer.finish().map_err(&failed).map(drop)
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

/// Whether a key space has the deadlines of the keys of another, or is the server's note.
fn is_servers(spaces: &[KeySpace], space: &KeySpace) -> bool {
    let is_of = |other: &KeySpace| {
        stored::is_of_values(other.name()) && deadlines_of(other.name()) == space.name()
    };
    stored::is_note(space.name()) || spaces.iter().any(is_of)
}
