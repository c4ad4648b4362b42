//! Makes a manifest of what there is.
//!
//! Where the manifest is whole, the tables that it names and that can be read stay where they are, and the others
//! are left out. Where it is not, all tables of the store that can be read are merged, tree by tree, into
//! the last level; that needs room for them twice. Tables that cannot be read are set aside under a name that
//! ends in `.damaged`; they are not removed, and neither is anything that belongs to another store.
//!
//! What a repair cannot know:
//! - what was in tables that are lost. Older versions of their keys, if there are any, and keys that they said
//!   are deleted, are seen again.
//! - which tables a compaction had replaced, if a crash kept it from removing them and the manifest is lost. What
//!   they say is older than what replaced them, but of keys whose tombstones were left out: these are
//!   seen again.
//! - the memtables and words of edits that are lost. [`Repaired::is_rebuilt`] says that there may be such: then
//!   memtables may be in the levels that the manifest does not know of, and what is in them may be older than what
//!   the levels have.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use halite_disk::Disk;

use super::compaction::Task;
use super::edit::{LEVELS, Place, State, TableMeta};
use super::manifest::{self, Current, Manifest};
use super::names::{self, CURRENT, Name, parse};
use super::open::{next_number, remove_unfinished};
use super::options::LevelsOptions;
use super::pick::Compaction;
use super::version::{Files, TableFile, TreeVersion};
use crate::sst::{BlockCache, Error, Result, Table, TableId};

/// What a repair did.
#[derive(Clone, Debug)]
pub struct Repaired {
    /// Tables that the store has now.
    pub tables: u64,
    /// Entries in them.
    pub entries: u64,
    /// What was wrong: with the manifest or `CURRENT`, and with each table that is lost.
    pub lost: Vec<Error>,
    /// Whether the manifest was lost, and all tables were merged.
    pub is_rebuilt: bool,
}

/// Makes the levels of a store whole again, without what cannot be read. Nobody else may have them open.
///
/// # Errors
/// What the disk says, above all if there is no room; then everything is as it was, but for
/// tables set aside. [`Error::Foreign`] if `CURRENT` is another store's.
pub fn repair(disk: &Disk, store_id: u128, options: &LevelsOptions) -> Result<Repaired> {
    let list: BTreeMap<_, _> = disk.list()?.into_iter().collect();
    remove_unfinished(disk, &list)?;
    let mut lost = Vec::new();
    let (state, is_whole) = known(disk, store_id, &list, &mut lost)?;
    let cache = Arc::new(BlockCache::new(options.cache_bytes, options.table.block_bytes));
    let graveyard = Default::default();
    let files = Arc::new(Files { disk: disk.clone(), store_id, cache, graveyard });

    let mut readable = BTreeMap::new();
    let mut damaged = Vec::new();
    for number in numbers(&list) {
        if is_whole && !state.tables.contains_key(&number) {
            continue;
        }
        let name = names::table(number);
        match read(&files, &name, number) {
            Ok((tree, meta)) => {
                readable.insert(number, (tree, meta));
            }
            Err(Error::Disk(error)) => return Err(Error::Disk(error)),
            Err(error) => {
                if !matches!(error, Error::Foreign { .. }) {
                    damaged.push(name);
                }
                lost.push(error);
            }
        }
    }
    let missing = |number: &&u64| is_whole && !list.contains_key(&names::table(**number));
    let missing = state.tables.keys().filter(missing);
    lost.extend(missing.map(|number| Error::Missing { file: names::table(*number) }));

    let numbers = AtomicU64::new(next_number(&list)?.max(state.next_number));
    let mut repaired = State { tables: BTreeMap::new(), ..state.clone() };
    if is_whole {
        let stays = state.tables.into_iter().filter(|(number, _)| readable.contains_key(number));
        repaired.tables = stays.collect();
    } else {
        repaired.tables = merged(&files, options, &numbers, &readable)?;
    }
    let number = numbers.fetch_add(1, Ordering::Relaxed);
    repaired.next_number = number + 1;
    Manifest::create(disk, store_id, number, &repaired)?.close()?;

    // From here on they are what the next opening would remove.
    for number in readable.keys().filter(|number| !repaired.tables.contains_key(number)) {
        disk.remove(&names::table(*number))?;
    }
    for name in damaged {
        disk.rename(&name, &format!("{name}.damaged"))?;
    }
    disk.sync()?;
    Ok(Repaired {
        tables: repaired.tables.len() as u64,
        entries: repaired.tables.values().map(|(_, meta)| meta.entries).sum(),
        lost,
        is_rebuilt: !is_whole,
    })
}

fn numbers(list: &BTreeMap<String, u64>) -> impl Iterator<Item = u64> {
    list.keys().filter_map(|name| match parse(name) {
        Some(Name::Table(number)) => Some(number),
        _ => None,
    })
}

/// What can be read of the manifest, and whether that is all of it.
fn known(
    disk: &Disk,
    store_id: u128,
    list: &BTreeMap<String, u64>,
    lost: &mut Vec<Error>,
) -> Result<(State, bool)> {
    let found = manifest::current(disk, store_id);
    if let Ok(current) = &found {
        match manifest::replay(disk, store_id, *current, false) {
            Ok((state, ..)) => return Ok((state, true)),
            Err(error) => lost.push(error),
        }
    }
    let current = match found {
        Ok(current) => Some(current),
        Err(error @ (Error::Foreign { .. } | Error::Disk(_))) => return Err(error),
        Err(error) => {
            lost.push(match error {
                Error::Missing { .. } if !list.contains_key(CURRENT) => Error::NoManifest,
                error => error,
            });
            let ours = list.keys().filter_map(|name| match parse(name) {
                Some(Name::Manifest(number)) => Some(number),
                _ => None,
            });
            let newest = ours.filter(|number| manifest::is_ours(disk, store_id, *number)).max();
            newest.map(|number| Current { number, durable: 0 })
        }
    };
    let partial = current.and_then(|current| manifest::replay(disk, store_id, current, true).ok());
    Ok((partial.map(|(state, ..)| state).unwrap_or_default(), false))
}

/// Reads all of a table.
fn read(files: &Files, name: &str, number: u64) -> Result<(u32, TableMeta)> {
    let id = TableId { store_id: files.store_id, number };
    let table = Table::open(&files.disk, name, id, &files.cache)?;
    table.check()?;
    let properties = table.properties();
    Ok((properties.tree, TableMeta::of(number, table.file_len(), properties)))
}

/// All tables of each tree as one run of the last level.
fn merged(
    files: &Arc<Files>,
    options: &LevelsOptions,
    numbers: &AtomicU64,
    tables: &BTreeMap<u64, (u32, TableMeta)>,
) -> Result<BTreeMap<u64, (Place, TableMeta)>> {
    let mut trees: BTreeMap<u32, Vec<Arc<TableFile>>> = BTreeMap::new();
    for (tree, meta) in tables.values() {
        trees.entry(*tree).or_default().push(TableFile::new(meta.clone(), files));
    }
    let mut outputs = Vec::new();
    for (tree, tables) in trees {
        let inputs = runs(tables).into_iter().map(|tables| (0, tables)).collect();
        let to_level = LEVELS - 1;
        let compaction =
            Compaction { tree, version: Arc::new(TreeVersion::default()), inputs, to_level };
        let task = Task {
            files,
            options,
            numbers,
            snapshots: &[],
            stop: &AtomicBool::new(false),
            compaction: &compaction,
            external: None,
        };
        outputs.push((tree, task.run()?));
    }
    files.disk.sync()?;
    let mut merged = BTreeMap::new();
    for (tree, mut outputs) in outputs {
        let place = Place { tree, level: LEVELS - 1, run: 0 };
        merged.extend(outputs.keep().into_iter().map(|meta| (meta.number, (place, meta))));
    }
    Ok(merged)
}

/// Tables as a few runs without overlap, so that few of them are read at once.
fn runs(mut tables: Vec<Arc<TableFile>>) -> Vec<Vec<Arc<TableFile>>> {
    tables.sort_by(|a, b| a.meta.span.first.cmp(&b.meta.span.first));
    let mut runs: Vec<Vec<Arc<TableFile>>> = Vec::new();
    for table in tables {
        let fits = |run: &&mut Vec<Arc<TableFile>>| {
            run.last().is_some_and(|last| last.meta.span.is_before(&table.meta.span.first))
        };
        match runs.iter_mut().find(fits) {
            Some(run) => run.push(table),
            None => runs.push(vec![table]),
        }
    }
    runs
}
