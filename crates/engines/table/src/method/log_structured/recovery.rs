//! Opening: the state of the manifest, and what the log has behind it.

use std::collections::BTreeSet;
use std::sync::Arc;

use halite_cache::BlockCache;
use halite_codec::Seed;
use halite_disk::Disk;
use halite_sst::TableId;

use super::entry::Entry;
use super::levels::Levels;
use super::maintenance::Due;
use super::manifest::{MANIFEST, State, UNFINISHED};
use super::memtable::Memtable;
use super::run::{BLOCK, Home, Meta, Run, key_of, name_of, number_of};
use super::{Coalescing, LogStructured, Options, Ticket};
use crate::method::redo_log::{Logged, LoggedChange, RedoLog};
use crate::{Catalog, Change, Error, IndexId, Result, Row, Table};

impl LogStructured {
    pub(super) fn recover(disk: &Disk, store_id: u128, options: Options) -> Result<Self> {
        let state = State::read(disk)?;
        if state.store_id != store_id {
            return Err(other_store(
                disk.path().join(MANIFEST).display(),
                state.store_id,
                store_id,
            ));
        }
        let State { next_number, log: flushed, catalog, levels, .. } = state;
        let cache = Arc::new(BlockCache::new(options.cache_bytes, BLOCK));
        let home = Home { disk: disk.clone(), store_id, cache };
        // A killed process may have renamed a manifest that is not durable yet: from now on it counts.
        disk.sync()?;
        let next_number = remove_unnamed(&home, &levels, next_number)?;
        let levels = open_levels(&home, levels)?;
        let mut redo =
            Redo { levels: &levels, catalog: &catalog, memtable: Memtable::new(options.node_len) };
        let seed = Seed::of_store(store_id);
        let replay = |_, batch: &[u8]| redo.batch(Logged::read(batch, &catalog, seed)?);
        let log = RedoLog::open(disk, store_id, options.log, (flushed, flushed), replay)?;
        let memtable = redo.memtable;
        Ok(Self {
            home,
            options,
            catalog,
            log,
            memtable,
            levels,
            flushed,
            next_number,
            compaction: None,
            garbage: Vec::new(),
            merged: Vec::new(),
            due: Due::after(&options, (0, 0), 1),
            is_idle: false,
            committed: Ticket::default(),
        })
    }
}

#[cold]
fn other_store(what: impl ToString, found: u128, wanted: u128) -> Error {
    let why = format!("it is of another store or partition: of {found:032x}, not of {wanted:032x}");
    Error::Foreign { what: what.to_string().into(), why: why.into() }
}

/// Removes the files that the manifest does not name: of a flush or a compaction that a crash ended, and of one whose
/// inputs were still to be removed. Returns a number above those of all runs.
fn remove_unnamed(home: &Home, levels: &[Vec<Meta>], next_number: u64) -> Result<u64> {
    let named: BTreeSet<u64> = levels.iter().flatten().map(|run| run.number).collect();
    let mut next_number = next_number;
    for (name, _) in home.disk.list()? {
        if name == UNFINISHED {
            home.disk.remove(&name)?;
        }
        let Some(number) = number_of(&name).filter(|number| !named.contains(number)) else {
            continue;
        };
        // A file that is not whole has none.
        let found = TableId::of_file(&home.disk.open(&name)?, &name);
        if let Ok(TableId { store_id, .. }) = found
            && store_id != home.store_id
        {
            return Err(other_store(name, store_id, home.store_id));
        }
        home.disk.remove(&name)?;
        let too_large = || Error::damaged(name.clone(), "its number is too large");
        next_number = next_number.max(number.checked_add(1).ok_or_else(too_large)?);
    }
    Ok(next_number)
}

/// Opens all runs, of which those of a level below the first have no key in common.
fn open_levels(home: &Home, levels: Vec<Vec<Meta>>) -> Result<Levels> {
    let mut opened = Vec::new();
    for (number, metas) in levels.into_iter().enumerate() {
        let level = metas.into_iter().map(|meta| home.open(meta)).collect::<Result<Vec<Run>>>()?;
        if let Some(pair) = level.windows(2).find(|pair| pair[0].span().1 >= pair[1].span().0)
            && number > 0
        {
            let why = "its keys are not behind those of the run before";
            return Err(Error::damaged(name_of(pair[1].meta.number), why));
        }
        opened.push(level);
    }
    Ok(Levels(opened))
}

/// The replay of the log into a memtable.
struct Redo<'a> {
    levels: &'a Levels,
    catalog: &'a Catalog,
    memtable: Memtable,
}

impl Redo<'_> {
    /// Redoes a transaction. The entries that its rows had go first: another one of its rows may have taken one.
    fn batch(&mut self, batch: Logged<'_>) -> Result<()> {
        let Logged::Transaction(rows) = batch else {
            return Err(Error::damaged(
                "the log",
                "it has a catalog, which belongs to the manifest",
            ));
        };
        let mut added: Vec<(IndexId, Vec<u8>, &[u8])> = Vec::new();
        for row in &rows {
            let (table, key) = (&*row.table, row.key.as_slice());
            let (entry, before, after) = self.redone(table, key, &row.change)?;
            self.set(table.primary(), key, entry)?;
            for index in table.indexes() {
                let of = |row: &Row| row.view(table.schema())?.index_entry(index.schema);
                let before: Option<Vec<u8>> = before.as_ref().map(of).transpose()?;
                let after: Option<Vec<u8>> = after.as_ref().map(of).transpose()?;
                if before == after {
                    continue;
                }
                if let Some(entry) = before {
                    self.set(index.id, &entry, Entry::Tombstone)?;
                }
                added.extend(after.map(|entry| (index.id, entry, key)));
            }
        }
        for (index, entry, key) in added {
            self.set(index, &entry, Entry::Whole(key.to_vec()))?;
        }
        Ok(())
    }

    /// The entry of a row that changed, and the row before and after, where indexes may want them.
    fn redone(
        &self,
        table: &Table,
        key: &[u8],
        change: &LoggedChange<'_>,
    ) -> Result<(Entry, Option<Row>, Option<Row>)> {
        Ok(match change {
            LoggedChange::Insertion(row) => {
                (Entry::Whole(row.bytes().to_vec()), None, Some(row.clone()))
            }
            LoggedChange::Deletion(row) => (Entry::Tombstone, Some(row.clone()), None),
            LoggedChange::Update(columns) => {
                let changes = columns.iter().map(|it| Change::new(it.column, it.after));
                let changes: Vec<Change<'_>> = changes.collect();
                let is_indexed = |change: &Change<'_>| {
                    let mut indexes = table.schema().indexes().iter();
                    indexes.any(|index| index.key().has(change.column))
                };
                if !changes.iter().any(is_indexed) {
                    return Ok((Entry::of_changes(&changes), None, None));
                }
                let before = self.row(table, key)?;
                let after = before.view(table.schema())?.with(&changes)?;
                (Entry::of_update(&changes, &after), Some(before), Some(after))
            }
        })
    }

    fn set(&mut self, index: IndexId, key: &[u8], entry: Entry) -> Result<()> {
        let table = self.catalog.index_by_id(index);
        let schema = table.map(|(table, _)| table.schema().as_ref());
        let entry = self.memtable.coalesced((index, key), entry, schema)?;
        self.memtable.set(index, key, entry);
        Ok(())
    }

    /// The row that an update changes.
    fn row(&self, table: &Table, key: &[u8]) -> Result<Row> {
        let mut entries = Coalescing::default();
        if let Some(entry) = self.memtable.get(table.primary(), key) {
            entries.add(entry.parts())?;
        }
        self.levels.collect(&key_of(table.primary(), key), &mut entries)?;
        let found = entries.settle(Some(table.schema()))?;
        let row = found.map(|bytes| Row::from_bytes(table.schema(), bytes)).transpose()?;
        row.ok_or_else(|| {
            let why = format!("an update has no row at the key {}", key.escape_ascii());
            Error::damaged("a batch of the log", why)
        })
    }
}
