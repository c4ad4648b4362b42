//! CoW: copy-on-write updates of trees in a file (Arulraj, "Copy-on-Write Updates Engine").
//!
//! A tree of [`CowFile`] has the rows of a table by their primary keys; another one for each secondary index has its
//! entries, with the primary keys that they lead to. The catalog is a value in a tree of its own. The dirty directory has
//! the commits since the last sync, and the master record is swung for all of them at once: group commit. There is no
//! log, and nothing to recover: a crash leaves the current directory.
//!
//! Room for the pages of a transaction is there before it is a part of a group. One for which the device has no room, or a
//! long one, is a group of its own, so that a refusal is its alone.
//!
//! A commit costs no sync, and copies of the pages from the roots to the leaves that were not copied in the group yet; a
//! sync costs two, whatever the group has. A row that has changed is written again as a whole.

mod snapshot;

use halite_codec::Seed;
use halite_disk::Disk;
use halite_sim::planted;

pub use self::snapshot::Snapshot;
use super::{Footprint, Method, Rows, Ticket, View};
use crate::catalog::Dropping;
use crate::index::Direction;
use crate::index::cow_file::{CowFile, CowScan, Options};
use crate::write_set::{EntryWrite, RowWrite, WriteSet};
use crate::{Catalog, Error, IndexId, KeyRange, Result, Row, Table};

/// The tree that has the catalog, and its key.
const CATALOG: u32 = 0;
const CATALOG_KEY: &[u8] = b"catalog";

/// Pages that a change of a row or of an index takes at most, as long as its key and value are short: those of a path, and
/// as many of splits.
const PAGES_A_CHANGE: u64 = 12;

/// A transaction that may take more pages is a group of its own.
const GROUPED_PAGES_MAX: u64 = 2_048;

/// The storage of a partition in a copy-on-write file.
#[derive(Debug)]
pub struct Cow {
    file: CowFile,
    catalog: Catalog,
    /// The last commit.
    committed: Ticket,
    /// The last durable one.
    durable: Ticket,
    /// Why commits are lost.
    lost: Option<Box<str>>,
}

impl Cow {
    /// Makes the storage of a partition without tables, in a file of a folder, for a store of this id.
    ///
    /// # Errors
    /// Those of [`CowFile::create`].
    pub fn create(disk: &Disk, name: &str, store_id: u128, options: Options) -> Result<Self> {
        Self::of(CowFile::create(disk, name, store_id, options)?)
    }

    /// Opens the storage of a partition of the store of this id.
    ///
    /// # Errors
    /// Those of [`CowFile::open`]; [`Error::Damaged`] for the catalog.
    pub fn open(disk: &Disk, name: &str, store_id: u128, options: Options) -> Result<Self> {
        Self::of(CowFile::open(disk, name, store_id, options)?)
    }

    fn of(file: CowFile) -> Result<Self> {
        let stored = file.get(CATALOG, CATALOG_KEY)?;
        let catalog = match stored {
            Some(bytes) => Catalog::decode(&bytes, seed(&file))?,
            None => Catalog::new(),
        };
        let (committed, durable) = (Ticket::default(), Ticket::default());
        Ok(Self { file, catalog, committed, durable, lost: None })
    }

    /// A reader of what was durable at the last sync, which stays as it is, on any thread.
    ///
    /// # Errors
    /// [`Error::Lost`].
    pub fn snapshot(&self) -> Result<Snapshot> {
        self.check()?;
        Ok(Snapshot::new(self.file.snapshot(), self.catalog.clone()))
    }

    fn check(&self) -> Result<()> {
        match &self.lost {
            Some(why) => Err(Error::Lost { why: why.clone() }),
            None => Ok(()),
        }
    }

    /// Does something to the dirty directory, whole or not at all. If commits of the group before it are lost with it,
    /// nothing is read or written any more.
    fn change(&mut self, change: impl FnOnce(&mut Self) -> Result<()>) -> Result<()> {
        self.check()?;
        let done = change(self);
        if let Err(error) = &done {
            self.file.abort();
            if self.durable < self.committed {
                self.lost = Some(error.to_string().into());
            }
        }
        done
    }

    fn write(&mut self, writes: &WriteSet) -> Result<()> {
        for (table, key, RowWrite { after, .. }) in writes.rows() {
            let tree = self.catalog.table_by_id(table)?.primary().0;
            match after {
                Some(row) => self.file.put(tree, key, row.bytes())?,
                None => self.file.remove(tree, key)?,
            };
        }
        for (IndexId(tree), entry, EntryWrite { after, .. }) in writes.entries() {
            match after {
                Some(key) => self.file.put(tree, entry, key)?,
                None => self.file.remove(tree, entry)?,
            };
        }
        Ok(())
    }

    /// Pages that a transaction takes at most.
    fn pages_of(&self, writes: &WriteSet) -> u64 {
        let of = |key: &[u8], value: usize| {
            PAGES_A_CHANGE + 2 * (key.len() + value) as u64 / self.file.page_len() as u64
        };
        let rows = writes.rows().map(|(_, key, RowWrite { after, .. })| {
            of(key, after.as_ref().map_or(0, |row| row.bytes().len()))
        });
        let entries = writes.entries().map(|(_, entry, EntryWrite { after, .. })| {
            of(entry, after.as_ref().map_or(0, Vec::len))
        });
        rows.sum::<u64>() + entries.sum::<u64>()
    }

    fn sum(&self, tree: IndexId) -> Result<u64> {
        let mut scan = self.file.scan(tree.0, KeyRange::all().bounds(), Direction::Forward)?;
        let mut sum = 0;
        while let Some((key, value)) = scan.next()? {
            sum += (key.len() + value.len()) as u64;
        }
        Ok(sum)
    }
}

impl Drop for Cow {
    fn drop(&mut self) {
        // A partition that is closed keeps its commits. If this fails, they are lost like those of a crash.
        if self.lost.is_none() && !std::thread::panicking() {
            let _ = self.file.commit();
        }
    }
}

fn seed(file: &CowFile) -> Seed {
    Seed::of_store(file.store_id())
}

impl Method for Cow {
    fn name(&self) -> &'static str {
        "cow"
    }

    fn catalog(&self) -> &Catalog {
        &self.catalog
    }

    fn get(&self, table: &Table, key: &[u8]) -> Result<Option<Row>> {
        self.check()?;
        let stored = self.file.get(table.primary().0, key)?;
        stored.map(|bytes| Row::from_bytes(table.schema(), bytes)).transpose()
    }

    fn entry(&self, table: &Table, position: usize, entry: &[u8]) -> Result<Option<Vec<u8>>> {
        self.check()?;
        planted!("table.cow-entry-not-looked-up", return Ok(None));
        Ok(self.file.get(id_of(table, Some(position)).0, entry)?)
    }

    fn scan<'a>(
        &'a self,
        table: &'a Table,
        position: Option<usize>,
        range: &KeyRange,
        direction: Direction,
    ) -> Result<Box<dyn Rows + 'a>> {
        self.check()?;
        let scan = self.file.scan(id_of(table, position).0, range.bounds(), direction)?;
        let get = |key: &[u8]| self.get(table, key);
        Ok(Box::new(CowRows { get, table, is_primary: position.is_none(), scan }))
    }

    fn commit(&mut self, writes: &WriteSet) -> Result<Ticket> {
        self.check()?;
        let pages = self.pages_of(writes);
        let is_alone = pages > GROUPED_PAGES_MAX || !self.file.make_room(pages as u32)?;
        if is_alone {
            self.sync()?;
        }
        self.change(|cow| {
            cow.write(writes)?;
            if is_alone {
                cow.file.commit()?;
            }
            Ok(())
        })?;
        self.committed.0 += 1;
        if is_alone {
            self.durable = self.committed;
        }
        Ok(self.committed)
    }

    fn sync(&mut self) -> Result<Ticket> {
        self.change(|cow| planted!("table.cow-sync-does-nothing", Ok(()), Ok(cow.file.commit()?)))?;
        self.durable = self.committed;
        Ok(self.durable)
    }

    fn alter(&mut self, catalog: Catalog) -> Result<()> {
        self.sync()?;
        self.change(|cow| {
            let bytes = catalog.encode(seed(&cow.file));
            cow.file.put(CATALOG, CATALOG_KEY, &bytes)?;
            Ok(cow.file.commit()?)
        })?;
        self.catalog = catalog;
        Ok(())
    }

    fn reclaim(&mut self) -> Result<bool> {
        let Some(&dropping) = self.catalog.dropping().first() else { return Ok(true) };
        self.sync()?;
        if let Dropping::Index(IndexId(tree)) = dropping {
            self.change(|cow| Ok(cow.file.clear(tree)?))?;
        }
        let catalog = self.catalog.reclaimed(&[dropping]);
        self.alter(catalog)?;
        Ok(self.catalog.dropping().is_empty())
    }

    fn view(&self) -> Result<Box<dyn View>> {
        Ok(Box::new(self.snapshot()?))
    }

    fn footprint(&self) -> Result<Footprint> {
        self.check()?;
        let (pages, ..) = self.file.pages();
        let mut footprint = Footprint::default();
        for table in self.catalog.tables() {
            footprint.table += self.sum(table.primary())?;
            for index in table.indexes() {
                footprint.index += self.sum(index.id)?;
            }
        }
        let all = u64::from(pages) * self.file.page_len() as u64;
        footprint.other = all.saturating_sub(footprint.table + footprint.index);
        Ok(footprint)
    }

    fn verify(&mut self) -> Result<()> {
        self.sync()?;
        self.file.verify()?;
        Ok(())
    }
}

/// The tree of an index.
fn id_of(table: &Table, position: Option<usize>) -> IndexId {
    position.map_or(table.primary(), |position| {
        table.indexes().nth(position).expect("the caller has it from the table").id
    })
}

/// A scan of a tree, which leads to rows; `get` reads one by its primary key.
struct CowRows<'a, G> {
    get: G,
    table: &'a Table,
    is_primary: bool,
    scan: CowScan<'a>,
}

impl<G: Fn(&[u8]) -> Result<Option<Row>>> Rows for CowRows<'_, G> {
    fn next(&mut self) -> Result<Option<(Vec<u8>, Row)>> {
        let Some((key, value)) = self.scan.next()? else { return Ok(None) };
        let row = if self.is_primary {
            Row::from_bytes(self.table.schema(), value.into_owned())?
        } else {
            (self.get)(&value)?.ok_or_else(|| self.table.dangling(key))?
        };
        Ok(Some((key.to_vec(), row)))
    }
}
