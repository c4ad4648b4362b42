//! Key spaces: the tables of one schema, in every partition, and the numbers of their keys.
//!
//! The table of a key space is called `kv:` and its name, in which control characters and `%` are `%` and two hexadecimal
//! digits for each byte. A key space that is dropped while readers of past states may look at it is called `dropped:` and
//! a number until they are gone: then, or when the store is opened again, its table is dropped.

use std::fmt::Write;
use std::sync::Arc;

use halite_contract::{Durability, Error, KeySpaceId, Result, check_key_space_name};
use halite_sim::locks::Mutex;

use super::pairs::Pairs;
use super::place;
use crate::{Catalog, Table, Testbed};

/// The beginning of the names of tables of key spaces.
const PREFIX: &str = "kv:";

/// The beginning of the names of tables that are to be dropped.
const DROPPED: &str = "dropped:";

/// A key space.
pub(super) struct Space {
    pub(super) id: KeySpaceId,
    pub(super) name: String,
    /// Its table in each partition.
    pub(super) tables: Vec<Arc<Table>>,
    /// The number of its keys in each partition, once they were counted. It changes while the partition is locked.
    counts: Vec<Mutex<Option<u64>>>,
}

impl Space {
    /// The key space of this name, of which there are tables.
    pub(super) fn open(testbed: &Testbed, id: KeySpaceId, name: &str) -> Result<Self> {
        let all: Vec<_> = (0..testbed.partitions()).collect();
        let table = table_name(name);
        let tables = testbed.transact::<_, Error>(&all, Durability::Deferred, |tx| {
            all.iter().map(|&partition| Ok(tx.table(partition, &table)?)).collect()
        })?;
        let counts = all.iter().map(|_| Mutex::new(None)).collect();
        Ok(Self { id, name: name.to_owned(), tables, counts })
    }

    /// The number of keys in a partition, which is counted at first: that reads all of its rows. Some may be of writes that
    /// are not durable yet.
    pub(super) fn count(&self, testbed: &Testbed, partition: usize) -> Result<u64> {
        if let Some(count) = *self.counts[partition].lock() {
            return Ok(count);
        }
        testbed.transact(&[partition], Durability::Deferred, |tx| {
            let count = Pairs::new(tx, partition, &self.tables[partition]).count()?;
            *self.counts[partition].lock() = Some(count);
            Ok(count)
        })
    }

    /// Notes that keys came to a partition, or went, which is locked.
    pub(super) fn add(&self, partition: usize, more: i64) {
        let mut count = self.counts[partition].lock();
        *count = count.map(|count| count.saturating_add_signed(more));
    }
}

/// The name of a key space's table.
pub(super) fn table_name(space: &str) -> String {
    let mut name = PREFIX.to_owned();
    for letter in space.chars() {
        if letter != '%' && !letter.is_control() {
            name.push(letter);
            continue;
        }
        for byte in letter.encode_utf8(&mut [0; 4]).bytes() {
            let _ = write!(name, "%{byte:02x}");
        }
    }
    name
}

/// The key space that a table is of, if it is of one.
pub(super) fn space_of(table: &Table) -> Option<String> {
    let name = table.schema().name();
    let mut bytes = Vec::new();
    let mut rest = name.strip_prefix(PREFIX)?.as_bytes();
    while let [first, behind @ ..] = rest {
        (rest, _) = (behind, bytes.push(*first));
        if *first == b'%' {
            let (digits, behind) = behind.split_at_checked(2)?;
            let digits = str::from_utf8(digits).ok()?;
            *bytes.last_mut()? = u8::from_str_radix(digits, 16).ok()?;
            rest = behind;
        }
    }
    let space = String::from_utf8(bytes).ok()?;
    let is_one = check_key_space_name(&space).is_ok()
        && table_name(&space) == name
        && **table.schema() == place::schema(name).ok()?;
    is_one.then_some(space)
}

/// A name for a table that is to be dropped.
pub(super) fn dropped_name(catalog: &Catalog) -> String {
    let mut names = (0_u64..).map(|number| format!("{DROPPED}{number}"));
    names.find(|name| catalog.table(name).is_err()).expect("tables are fewer than numbers")
}

/// Whether a table is to be dropped.
pub(super) fn is_dropped(table: &Table) -> bool {
    table.schema().name().starts_with(DROPPED)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_of_a_key_space_has_a_name_that_leads_back_to_it() {
        let names = [
            "s",
            "100%",
            "%00",
            "a\0b\u{85}",
            "a \u{1f9c2}",
            &"\0".repeat(255),
            &"\u{85}".repeat(127),
        ];
        for name in names {
            let schema = place::schema(&table_name(name)).unwrap();
            let (catalog, id) = Catalog::new().create_table(schema).unwrap();
            let table = catalog.table_by_id(id).unwrap();
            assert_eq!(space_of(table).as_deref(), Some(name));
        }
    }

    #[test]
    fn other_tables_are_no_key_spaces() {
        for name in ["kv:", "kv:%", "kv:%6", "kv:%61", "kv:%zz", "kv:%FF", "s", "dropped:1"] {
            let (catalog, id) = Catalog::new().create_table(place::schema(name).unwrap()).unwrap();
            assert_eq!(space_of(catalog.table_by_id(id).unwrap()), None, "{name}");
        }
        let other = crate::TableSchema::builder("kv:a").column("key", crate::Type::Int32);
        let other = other.primary_key(["key"]).build().unwrap();
        let (catalog, id) = Catalog::new().create_table(other).unwrap();
        assert_eq!(space_of(catalog.table_by_id(id).unwrap()), None);
    }
}
