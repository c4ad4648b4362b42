//! The databases, once they can be opened.

use halite::KeySpace;

use super::Result;
use super::database::Database;
use super::order;
use super::part::Part;
use crate::ending::Ending;
use crate::random::generator;
use crate::{Error, stored};

/// The keys of libraries begin with this.
const LIBRARY_PREFIX: &[u8] = b"library:";

/// The key spaces of the databases, and their order when they were opened.
pub(crate) struct Opened {
    pub(super) databases: Vec<Database>,
    /// The key space of the order.
    pub(super) settings: KeySpace,
    pub(super) order: Vec<usize>,
}

impl Opened {
    /// The key under which the order lies: its partition has to be there before the databases can be opened.
    pub(crate) const ORDER_KEY: &[u8] = order::KEY;

    /// Opens `count` databases, and makes those that are not there.
    pub(crate) fn open(db: &halite::Database, count: usize) -> std::result::Result<Self, Error> {
        stored::make_note(db)?;
        let settings = db.key_space(stored::SPACE)?;
        let order = match settings.get(order::KEY)? {
            Some(record) => order::decode(&record, count)?,
            None => (0..count).collect(),
        };
        let databases = (0..order.len()).map(|number| Database::open(db, number));
        Ok(Self { databases: databases.collect::<Result<_>>()?, settings, order })
    }

    /// The key under which a library lies, in the key space of the order.
    pub(super) fn library_key(name: &str) -> Vec<u8> {
        [LIBRARY_PREFIX, name.as_bytes()].concat()
    }

    /// The texts of the libraries. Waits until all partitions are recovered.
    pub(crate) fn libraries(&self) -> Result<Vec<Vec<u8>>> {
        let records = self.settings.prefix(LIBRARY_PREFIX)?;
        records.map(|record| Ok(record?.1.to_vec())).collect()
    }

    /// Whether all key spaces exist.
    pub(crate) fn exist(db: &halite::Database, count: usize) -> std::result::Result<bool, Error> {
        if !stored::check_note(db)? {
            return Ok(false);
        }
        let spaces = db.key_spaces()?;
        let mut names = (0..count).flat_map(Database::names);
        Ok(names.all(|name| spaces.iter().any(|space| space.name() == name)))
    }

    /// The part of a partition, without the deadlines of its keys.
    pub(crate) fn part(&self, db: &halite::Database, number: usize) -> Part {
        Part::new(number, &self.order, self.databases.len(), db.partitions(), &mut generator())
    }

    /// Reads the deadlines of a part's keys; false: the server ends.
    pub(crate) fn read_deadlines(&self, part: &mut Part, ending: &Ending) -> Result<bool> {
        part.read_deadlines(&self.databases, ending)
    }
}
