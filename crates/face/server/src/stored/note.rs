//! The note that the values in a database's key spaces `db<N>` have tags.
//!
//! The note is the name of a key space, `server:<version>`: the names of key spaces are known before any record can be
//! read. Its version is the highest of the values' forms (`value`), or 3 where sorted sets may have their order stored: to
//! change only the scores, as a server that does not know of it would, makes the order a wrong one. A server, and a
//! command of `halite` that writes there, makes it before the first key space `db<N>`, and none removes it. So where there are such key spaces and no
//! note, values lie there without tags: a server refuses the database, and `halite dump` prints them as they are.

use crate::Error;

/// The key space whose name is the note of the first version. It also has the server's own records.
pub(crate) const SPACE: &str = "server:1";

/// The key space whose name is the note of values that may be more than their record.
const COLLECTIONS: &str = "server:2";

/// The key space whose name is the note of sorted sets that may have their order stored.
const ORDERS: &str = "server:3";

/// The highest version of a note that is known.
const NEWEST: u64 = 3;

/// The beginning of the names of all versions of the note.
const PREFIX: &str = "server:";

/// Whether a key space holds values of a server's clients, by its name: `db` and a number.
#[must_use]
pub fn is_of_values(name: &str) -> bool {
    let number = name.strip_prefix("db").unwrap_or("");
    !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit())
}

/// Whether a key space is the note, by its name.
#[must_use]
pub fn is_note(name: &str) -> bool {
    version_of(name).is_some()
}

/// Whether the values in the key spaces `db<N>` of a database have tags. Those that a program wrote by itself have
/// none.
///
/// # Errors
/// [`Error::NewerForm`], and the errors of the database.
pub fn is_tagged(db: &halite::Database) -> Result<bool, Error> {
    match check_note(db) {
        Err(Error::Untagged { .. }) => Ok(false),
        checked => checked,
    }
}

/// Makes the note, if it is not there, for a program that is going to write tagged strings.
///
/// # Errors
/// [`Error::Untagged`], [`Error::NewerForm`], and the errors of the database.
pub fn make_note(db: &halite::Database) -> Result<(), Error> {
    if !check_note(db)? {
        db.key_space(SPACE)?;
    }
    Ok(())
}

/// The notes of a server, which may write values of any form, and orders of sorted sets if it stores them.
pub(crate) fn notes(stores_order: bool) -> Vec<&'static str> {
    [SPACE, COLLECTIONS].into_iter().chain(stores_order.then_some(ORDERS)).collect()
}

/// Makes the notes of a server.
pub(crate) fn make_newest_note(db: &halite::Database, stores_order: bool) -> Result<(), Error> {
    make_note(db)?;
    notes(stores_order).into_iter().try_for_each(|name| db.key_space(name).map(drop))?;
    Ok(())
}

/// The version of a note, if a key space's name is one: there is room for versions up to 9. Other names that begin so
/// are of programs that make key spaces themselves.
fn version_of(name: &str) -> Option<u64> {
    let version = name.strip_prefix(PREFIX)?;
    (1..=9).find(|known: &u64| known.to_string() == version)
}

/// Whether there is a note; otherwise there are no values.
pub(crate) fn check_note(db: &halite::Database) -> Result<bool, Error> {
    let spaces = db.key_spaces()?;
    let versions = spaces.iter().filter_map(|space| version_of(space.name()));
    match versions.max() {
        Some(found) if found > NEWEST => Err(Error::NewerForm { found, known: NEWEST }),
        Some(_) => Ok(true),
        None => match spaces.iter().find(|space| is_of_values(space.name())) {
            Some(space) => Err(Error::Untagged { space: space.name().to_owned() }),
            None => Ok(false),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn database(spaces: &[&str]) -> halite::Database {
        let db = halite::Database::builder().max_size(64 << 20).in_memory().unwrap();
        spaces.iter().for_each(|name| drop(db.key_space(name).unwrap()));
        db
    }

    #[test]
    fn the_name_is_of_the_version() {
        assert_eq!(version_of(SPACE), Some(1));
        assert_eq!(version_of(COLLECTIONS), Some(super::super::value::VERSION.into()));
        assert_eq!(version_of(ORDERS), Some(NEWEST));
    }

    #[test]
    fn key_spaces_of_values_are_known_by_their_names() {
        for name in ["db0", "db15", "db4294967295"] {
            assert!(is_of_values(name), "{name}");
        }
        for name in ["db", "db0:expires", "server:1", "fruit", "db-1", "xdb0", ""] {
            assert!(!is_of_values(name), "{name}");
        }
    }

    #[test]
    fn a_note_says_what_a_database_holds() {
        let db = database(&["fruit", "server:side", "server:8080", "server:01", "server:+2"]);
        assert!(!is_tagged(&db).unwrap(), "there are no values yet");
        make_note(&db).unwrap();
        make_note(&db).unwrap();
        assert!(is_tagged(&db).unwrap());

        let db = database(&["db3"]);
        assert!(!is_tagged(&db).unwrap());
        assert!(matches!(make_note(&db), Err(Error::Untagged { space }) if space == "db3"));

        let db = database(&["db3", "server:1", "server:2", "server:3", "server:4"]);
        for failed in [is_tagged(&db).map(drop), make_note(&db)] {
            assert!(matches!(failed, Err(Error::NewerForm { found: 4, known: 3 })));
        }
    }
}
