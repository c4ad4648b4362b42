//! The databases, once they can be opened.

use halite::KeySpace;

use super::Result;
use super::database::Database;
use super::order;
use super::part::Part;
use super::rehoming;
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
    /// Larger sorted sets that are made have their order stored.
    pub(super) stores_order: bool,
}

/// Whether larger sorted sets that are made have their order stored, and not only in DRAM: where the engine hands records
/// on to files, there may be more keys than DRAM has room for.
fn stores_order(db: &halite::Database) -> bool {
    db.stats().is_tiered
}

impl Opened {
    /// Opens `count` databases, and makes those that are not there.
    pub(crate) fn open(db: &halite::Database, count: usize) -> std::result::Result<Self, Error> {
        let stores_order = stores_order(db);
        stored::make_newest_note(db, stores_order)?;
        let settings = db.key_space(stored::SPACE)?;
        let order = match settings.get(order::KEY)? {
            Some(record) => order::decode(&record, count)?,
            None => (0..count).collect(),
        };
        let databases = (0..order.len()).map(|number| Database::open(db, number));
        let databases: Vec<Database> = databases.collect::<Result<_>>()?;
        if !rehoming::are_home(db, &settings)? {
            rehoming::rehome(db, &settings, &databases)?;
        }
        Ok(Self { databases, settings, order, stores_order })
    }

    /// The keys under which the server's own records lie: their partitions have to be there before the databases can be
    /// opened.
    pub(crate) const KEYS: [&[u8]; 2] = [order::KEY, rehoming::KEY];

    /// Whether elements are in the partitions of their collections, by a record that is there. Otherwise all partitions
    /// are needed.
    pub(crate) fn are_home(db: &halite::Database) -> Result<bool> {
        match db.find_key_space(stored::SPACE)? {
            Some(settings) => rehoming::are_home(db, &settings),
            None => Ok(false),
        }
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
        let notes = stored::notes(stores_order(db)).into_iter().map(str::to_owned);
        let mut names = (0..count).flat_map(Database::names).chain(notes);
        Ok(names.all(|name| spaces.iter().any(|space| space.name() == name)))
    }

    /// For each database of a closed server the index of its key spaces, as far as the record knows it.
    pub(crate) fn places(db: &halite::Database) -> Result<Vec<usize>> {
        let Some(settings) = db.find_key_space(stored::SPACE)? else { return Ok(Vec::new()) };
        let record = settings.get(order::KEY)?;
        record.map_or(Ok(Vec::new()), |record| order::decode(&record, 0))
    }

    /// The part of a partition, without what it knows of its keys.
    pub(crate) fn part(&self, db: &halite::Database, number: usize) -> Part {
        Part::new(number, &self.order, self.databases.len(), db.partitions(), &mut generator())
    }

    /// Reads what a part knows of its keys in DRAM; false: the server ends.
    pub(crate) fn read(&self, part: &mut Part, ending: &Ending) -> Result<bool> {
        part.read(&self.databases, ending)
    }
}
