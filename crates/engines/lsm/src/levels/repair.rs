//! Makes a manifest of the tables that there are.
//!
//! Where the manifest is whole, the tables that it names and that can be read stay where they are, and the others
//! are left out. Where it is not, all tables of the store that can be read are merged, tree by tree, into
//! the last level; that needs room for them twice. Tables that cannot be read are set aside under a name that
//! ends in `.damaged`; they are not removed, and neither is anything that belongs to another store. Files of large
//! values to which only lost tables referred are set aside by the next opening of the store ([`super::open`]), which
//! knows to which of them the memory refers.
//!
//! Limits of a repair; it cannot recover:
//! - the content of tables that are lost. Older versions of their keys, if there are any, and keys that they deleted,
//!   are seen again.
//! - which tables a compaction had replaced, if a crash kept it from removing them and the manifest is lost. Their
//!   entries are older than those that replaced them, but of keys whose tombstones were left out: these are seen
//!   again.
//! - the memtables and words of edits that are lost. [`Repaired::is_rebuilt`] says that there may be such: then
//!   memtables may be in the levels that the manifest does not know of, and their records may be older than those
//!   that the levels have.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use halite_cache::BlockCache;
use halite_disk::Disk;

use super::check::read;
use super::compaction::Task;
use super::edit::{LEVELS, Place, State, TableMeta};
use super::emptying::Terms;
use super::error::{Error, Result};
use super::inner::FLUSHES;
use super::manifest::{self, Current, Manifest};
use super::names::{self, CURRENT, Name, aside, parse};
use super::open::{next_number, older_copy, remove_unfinished};
use super::options::LevelsOptions;
use super::pick::Compaction;
use super::version::{Files, TableFile, TreeVersion};
use crate::values::Values;
use halite_contract::Health;

/// The outcome of a repair, or of one that was only examined.
#[derive(Clone, Debug)]
pub struct Repaired {
    /// Tables that can be read, and stay or, where the manifest was lost, are merged.
    pub tables: u64,
    /// Entries in them.
    pub entries: u64,
    /// The errors that were found: of the manifest or `CURRENT`, and of each table that is lost.
    pub lost: Vec<Error>,
    /// The names that files which are set aside get: their own, and behind it `.damaged`, or `.2.damaged` and so on
    /// if an earlier repair has left one.
    pub set_aside: Vec<String>,
    /// Whether the manifest was lost, and all tables were merged.
    pub is_rebuilt: bool,
}

/// The state of a store's levels, as it was found.
pub(crate) struct Findings {
    files: Arc<Files>,
    list: BTreeMap<String, u64>,
    /// The part of the manifest that can be read.
    state: State,
    /// Whether that is all of it.
    is_whole: bool,
    readable: BTreeMap<u64, (u32, TableMeta)>,
    lost: Vec<Error>,
    /// Files of the store that cannot be read, and the names that they get.
    set_aside: Vec<(String, String)>,
}

/// Reports the changes that [`repair`] would make, and makes none. The levels must not be open.
///
/// # Errors
/// As [`repair`].
pub fn examine(disk: &Disk, store_id: u128, options: &LevelsOptions) -> Result<Repaired> {
    Ok(Findings::of(disk, store_id, options, false)?.into_repaired())
}

/// Makes the levels of a store whole again, without the files that cannot be read. They must not be open. Where
/// nothing is wrong, nothing is changed.
///
/// A repair that fails, or that is cut short, is to be done again. Until then nothing is lost: damaged tables have
/// their new names before a manifest is without them. Only a damaged manifest gets its new name last, as its readable
/// part is needed until then; if that fails, the next opening may remove it.
///
/// # Errors
/// An error of the disk, above all if there is no room. [`Error::Foreign`] if `CURRENT` is another store's,
/// [`Error::Format`] if a file is of another version, [`Error::Nothing`] if nothing is the store's.
pub fn repair(disk: &Disk, store_id: u128, options: &LevelsOptions) -> Result<Repaired> {
    Findings::of(disk, store_id, options, false)?.repair(options)
}

impl Findings {
    /// Examines the levels. Where no file is the store's, the folder is another's, unless it is known to be ours.
    pub(crate) fn of(
        disk: &Disk,
        store_id: u128,
        options: &LevelsOptions,
        is_ours: bool,
    ) -> Result<Self> {
        let list: BTreeMap<_, _> = disk.list()?.into_iter().collect();
        let (mut lost, mut set_aside) = (Vec::new(), Vec::new());
        let (state, is_whole) = known(disk, store_id, &list, &mut lost)?;
        for error in &lost {
            // A manifest under the name of another, too: nothing else would keep the next opening from removing it.
            if let Error::Damaged { file, .. } | Error::Misnamed { file, .. } = error {
                set_aside.push((file.clone(), aside(&list, file)));
            }
        }
        let cache = Arc::new(BlockCache::new(options.cache_bytes, options.table.block_bytes));
        let graveyard = Default::default();
        let values = Values::new(disk, store_id);
        let files = Arc::new(Files { disk: disk.clone(), store_id, cache, values, graveyard });
        let mut readable = BTreeMap::new();
        for number in numbers(&list) {
            if is_whole && !state.tables.contains_key(&number) {
                continue;
            }
            let name = names::table(number);
            let known = state.tables.get(&number).filter(|_| is_whole);
            let table = read(&files, number, known.map(|(place, meta)| (place.tree, meta)));
            match table.map_err(|error| of_file(&name, error)) {
                Ok(table) => {
                    readable.insert(number, table);
                }
                Err(error @ (Error::Disk(_) | Error::Format { .. } | Error::NotBuiltIn { .. })) => {
                    return Err(error);
                }
                Err(error) => {
                    if !matches!(error, Error::Foreign { .. }) {
                        set_aside.push((name.clone(), aside(&list, &name)));
                    }
                    lost.push(error);
                }
            }
        }
        let missing = |number: &&u64| is_whole && !list.contains_key(&names::table(**number));
        let missing = state.tables.keys().filter(missing);
        lost.extend(missing.map(|number| Error::Missing { file: names::table(*number) }));
        lost.extend(older_copy(&state, options.flushes).filter(|_| is_whole));
        let has_manifest = !state.is_empty() || newest_manifest(disk, store_id, &list).is_some();
        let names_ours = manifest::current(disk, store_id).is_ok();
        let is_ours = is_ours || has_manifest || names_ours || !readable.is_empty();
        if !is_whole && !is_ours {
            return Err(Error::Nothing);
        }
        Ok(Self { files, list, state, is_whole, readable, lost, set_aside })
    }

    /// Whether something is wrong.
    pub(crate) fn is_damaged(&self) -> bool {
        !self.lost.is_empty()
    }

    /// See [`repair`].
    pub(crate) fn repair(self, options: &LevelsOptions) -> Result<Repaired> {
        if !self.is_damaged() {
            return Ok(self.into_repaired());
        }
        let Self { files, list, state, readable, .. } = &self;
        let (disk, store_id) = (&files.disk, files.store_id);
        remove_unfinished(disk, list)?;
        let numbers = AtomicU64::new(next_number(list)?.max(state.next_number));
        let mut repaired = State { tables: BTreeMap::new(), ..state.clone() };
        // So these levels are not taken for an older copy again; those that they may be a copy of are one from now on.
        let flushes = repaired.words.entry(FLUSHES.to_owned()).or_default();
        *flushes = options.flushes.max(*flushes) + 1;
        if self.is_whole {
            let tables = state.tables.iter().filter(|(number, _)| readable.contains_key(number));
            repaired.tables = tables.map(|(number, table)| (*number, table.clone())).collect();
        } else {
            repaired.tables = merged(files, options, &numbers, readable)?;
        }
        // The next opening removes tables that the new manifest does not have, and `CURRENT` is written anew. A damaged
        // manifest would be needed if this had to be done again.
        let is_manifest =
            |(name, _): &&(String, String)| matches!(parse(name), Some(Name::Manifest(_)));
        let (manifests, others): (Vec<_>, Vec<_>) = self.set_aside.iter().partition(is_manifest);
        for (name, aside) in others {
            disk.rename(name, aside)?;
        }
        disk.sync()?;
        let number = numbers.fetch_add(1, Ordering::Relaxed);
        repaired.next_number = number + 1;
        Manifest::create(disk, store_id, number, &repaired)?.close()?;
        for (name, aside) in manifests {
            disk.rename(name, aside)?;
        }
        // Removes these tables, as the next opening would.
        for number in readable.keys().filter(|number| !repaired.tables.contains_key(number)) {
            disk.remove(&names::table(*number))?;
        }
        disk.sync()?;
        Ok(self.into_repaired())
    }

    pub(crate) fn into_repaired(self) -> Repaired {
        let Self { readable, lost, set_aside, is_whole, .. } = self;
        let entries = readable.values().map(|(_, meta)| meta.entries).sum();
        let set_aside = set_aside.into_iter().map(|(_, aside)| aside).collect();
        Repaired { tables: readable.len() as u64, entries, lost, set_aside, is_rebuilt: !is_whole }
    }
}

/// An error of a file. A part that the device cannot read is damaged, and no reason to leave the other files.
fn of_file(file: &str, error: Error) -> Error {
    match error {
        Error::Disk(error) if error.is_unreadable() => {
            Error::damaged(file, "file", error.to_string())
        }
        error => error,
    }
}

fn numbers(list: &BTreeMap<String, u64>) -> impl Iterator<Item = u64> {
    list.keys().filter_map(|name| match parse(name) {
        Some(Name::Table(number)) => Some(number),
        _ => None,
    })
}

/// The part of the manifest that can be read, and whether that is all of it.
fn known(
    disk: &Disk,
    store_id: u128,
    list: &BTreeMap<String, u64>,
    lost: &mut Vec<Error>,
) -> Result<(State, bool)> {
    let found = manifest::current(disk, store_id).map_err(|error| of_file(CURRENT, error));
    if let Ok(current) = &found {
        let replayed = manifest::replay(disk, store_id, *current, false);
        match replayed.map_err(|error| of_file(&names::manifest(current.number), error)) {
            Ok((state, ..)) => return Ok((state, true)),
            Err(error @ (Error::Format { .. } | Error::Disk(_))) => return Err(error),
            Err(error) => lost.push(error),
        }
    }
    let current = match found {
        Ok(current) => Some(current),
        Err(error @ (Error::Foreign { .. } | Error::Format { .. } | Error::Disk(_))) => {
            return Err(error);
        }
        Err(error) => {
            lost.push(match error {
                Error::Missing { .. } if !list.contains_key(CURRENT) => Error::NoManifest,
                error => error,
            });
            let newest = newest_manifest(disk, store_id, list);
            newest.map(|number| Current { number, durable: 0 })
        }
    };
    let partial = current.and_then(|current| manifest::replay(disk, store_id, current, true).ok());
    Ok((partial.map(|(state, ..)| state).unwrap_or_default(), false))
}

/// Returns the newest manifest of the store, even if `CURRENT` names another.
fn newest_manifest(disk: &Disk, store_id: u128, list: &BTreeMap<String, u64>) -> Option<u64> {
    let manifests = list.keys().filter_map(|name| match parse(name) {
        Some(Name::Manifest(number)) => Some(number),
        _ => None,
    });
    manifests.filter(|number| manifest::is_ours(disk, store_id, *number)).max()
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
            health: &Health::default(),
            compaction: &compaction,
            external: None,
            terms: Terms::default(),
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

#[cfg(test)]
mod tests {
    use std::io;

    use super::*;

    #[test]
    fn what_the_device_cannot_read_is_damaged_and_other_errors_stay() {
        let (device, handles) = (5, 23);
        let error = |number| {
            let (path, action) = ("000007.sst".into(), "read the file");
            let source = io::Error::from_raw_os_error(number);
            of_file("000007.sst", halite_disk::Error::Io { path, action, source }.into())
        };
        assert_eq!(error(device).file(), Some("000007.sst"));
        assert!(matches!(error(device), Error::Damaged { .. }));
        assert!(matches!(error(handles), Error::Disk(_)));
    }
}
