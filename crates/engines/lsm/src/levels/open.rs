//! Opens the levels, and removes the remains of a crash.

use std::collections::BTreeMap;
use std::sync::Arc;

use halite_cache::BlockCache;
use halite_disk::Disk;
use halite_sst::{TableId, ValueRef};
use parking_lot::Mutex;

use super::ballast::Ballast;
use super::edit::{NUMBER_MAX, State};
use super::error::{Error, Result};
use super::inner::{FLUSHES, Levels, Snapshots};
use super::manifest::{self, Current, Manifest};
use super::names::{self, CURRENT, Name, aside, parse, value_name};
use super::options::LevelsOptions;
use super::version::Files;
use crate::value_file;
use crate::values::Values;

/// Flaws that an opening found, and did not fail for.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// Tables that are missing or do not have their length: [`Error::Missing`], [`Error::Damaged`]. Reads that need
    /// them fail, others do not.
    pub damaged: Vec<Error>,
    /// Files that look like tables or manifests and are not this store's. They stay.
    pub foreign: Vec<String>,
}

impl Levels {
    /// Opens the levels of a store in a folder, or makes them if there is nothing of them.
    ///
    /// `snapshots` is asked before each compaction.
    ///
    /// # Errors
    /// [`Error::NoManifest`], [`Error::Missing`], [`Error::Damaged`], [`Error::Foreign`], [`Error::Misnamed`] or
    /// [`Error::Format`] for `CURRENT` and the manifest, the second of them too if there are fewer
    /// [`LevelsOptions::flushes`]; an error of the disk.
    pub fn open(
        disk: &Disk,
        store_id: u128,
        options: LevelsOptions,
        snapshots: Snapshots,
    ) -> Result<(Self, Report)> {
        let list: BTreeMap<_, _> = disk.list()?.into_iter().collect();
        let (manifest, mut state) = match list.contains_key(CURRENT) {
            true => Manifest::open(disk, store_id)?,
            false => create(disk, store_id, &list)?,
        };
        if let Some(error) = older_copy(&state, options.flushes) {
            return Err(error);
        }
        let report = tidy_up(disk, store_id, &list, &manifest, &state)?;
        let last = state.tables.keys().last().map_or(0, |number| number + 1);
        state.next_number = state.next_number.max(next_number(&list)?).max(last);
        let cache = Arc::new(BlockCache::new(options.cache_bytes, options.table.block_bytes));
        let graveyard = Mutex::default();
        let values = Values::new(disk, store_id);
        for (_, meta) in state.tables.values() {
            meta.values.iter().for_each(|value| values.add_of_levels(value));
        }
        let files = Arc::new(Files { disk: disk.clone(), store_id, cache, values, graveyard });
        let ballast = Ballast::open(disk, &options)?;
        Ok((Self::new(files, options, snapshots, manifest, state, ballast)?, report))
    }
}

impl Levels {
    /// Removes the store's files of large values that neither tables nor memory refer to, when all those of memory
    /// are known; or, with `sets_aside`, durably gives them the names of files that a repair sets aside: lost records
    /// may refer to them. Returns those that are another store's, and stay.
    ///
    /// # Errors
    /// An error of the disk.
    pub(crate) fn keep_values(&self, sets_aside: bool) -> Result<Vec<String>> {
        let Files { disk, store_id, values, .. } = &*self.inner.files;
        let mut foreign = Vec::new();
        let list: BTreeMap<_, _> = disk.list()?.into_iter().collect();
        for name in list.keys() {
            let Some(Name::Value(number)) = parse(name) else { continue };
            if values.contains(number) {
                continue;
            }
            let kept = is_ours(disk, *store_id, name).and_then(|is_ours| match is_ours {
                true if sets_aside => Ok(disk.rename(name, &aside(&list, name))?),
                true => Ok(disk.remove(name)?),
                false => {
                    foreign.push(name.clone());
                    Ok(())
                }
            });
            match kept {
                // A compaction has released it meanwhile.
                Err(Error::Disk(error)) if matches!(*error, halite_disk::Error::Missing { .. }) => {
                }
                kept => kept?,
            }
        }
        if sets_aside {
            disk.sync()?;
        }
        Ok(foreign)
    }
}

/// The error of levels that took fewer runs from memory than the store's own.
pub(crate) fn older_copy(state: &State, wanted: u64) -> Option<Error> {
    let flushes = state.words.get(FLUSHES).copied().unwrap_or(0);
    let why = format!(
        "memory gave {flushes} of its runs to these levels, and {wanted} to the store's: this is an older copy; \
         name the folder that has all, or go on with what is here by `halite repair`"
    );
    (flushes < wanted).then(|| Error::damaged(CURRENT, "flushes", why))
}

/// A number above that of every file.
pub(crate) fn next_number(list: &BTreeMap<String, u64>) -> Result<u64> {
    let numbers = list.keys().filter_map(|name| match parse(name) {
        Some(Name::Table(number) | Name::Value(number) | Name::Manifest(number)) => {
            Some((name, number))
        }
        _ => None,
    });
    let last = numbers.max_by_key(|(_, number)| *number);
    match last {
        Some((name, number)) if number > NUMBER_MAX => {
            Err(Error::damaged(name, "name", "its number is too large; move it away"))
        }
        last => Ok(last.map_or(0, |(_, number)| number) + 1),
    }
}

/// Makes the levels of a new store.
fn create(disk: &Disk, store_id: u128, list: &BTreeMap<String, u64>) -> Result<(Manifest, State)> {
    for name in list.keys() {
        match parse(name) {
            Some(Name::Table(_)) => return Err(Error::NoManifest),
            // An opening that was interrupted just here has left one with nothing in it.
            Some(Name::Manifest(number)) => {
                let whole = Current { number, durable: 0 };
                let found = manifest::replay(disk, store_id, whole, false);
                if !found.is_ok_and(|(state, edits, _)| edits == 1 && state.is_empty()) {
                    return Err(Error::NoManifest);
                }
            }
            _ => {}
        }
    }
    remove_unfinished(disk, list)?;
    let number = next_number(list)?;
    let state = State { next_number: number + 1, ..State::default() };
    Ok((Manifest::create(disk, store_id, number, &state)?, state))
}

/// Removes files that are not whole.
pub(crate) fn remove_unfinished(disk: &Disk, list: &BTreeMap<String, u64>) -> Result<()> {
    for name in list.keys().filter(|name| parse(name) == Some(Name::Unfinished)) {
        match disk.remove(name) {
            Err(halite_disk::Error::Missing { .. }) | Ok(()) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

/// Whether a table or manifest is this store's, as far as its first or last bytes say so.
pub(crate) fn is_ours(disk: &Disk, store_id: u128, name: &str) -> Result<bool> {
    Ok(match parse(name) {
        Some(Name::Table(number)) => {
            let id = TableId::of_file(&disk.open(name)?, name);
            id.is_ok_and(|id| id == TableId { store_id, number })
        }
        Some(Name::Value(number)) => value_file::is_ours(disk, store_id, number)?,
        Some(Name::Manifest(number)) => manifest::is_ours(disk, store_id, number),
        _ => false,
    })
}

/// Removes files of the store that are not needed, and reports those that are needed and not there.
fn tidy_up(
    disk: &Disk,
    store_id: u128,
    list: &BTreeMap<String, u64>,
    manifest: &Manifest,
    state: &State,
) -> Result<Report> {
    let mut report = Report::default();
    remove_unfinished(disk, list)?;
    for name in list.keys() {
        let is_needed = match parse(name) {
            Some(Name::Table(number)) => state.tables.contains_key(&number),
            Some(Name::Manifest(number)) => number == manifest.number(),
            // Memory may need it, too ([`Levels::keep_values`]).
            _ => true,
        };
        if is_needed {
            continue;
        }
        match is_ours(disk, store_id, name)? {
            true => disk.remove(name)?,
            false => report.foreign.push(name.clone()),
        }
    }
    for (number, (_, meta)) in &state.tables {
        let value = |value: &ValueRef| (value_name(value.number), value_file::file_len(value.len));
        let table = (names::table(*number), meta.file_len);
        for (file, wanted) in std::iter::once(table).chain(meta.values.iter().map(value)) {
            match list.get(&file) {
                None => report.damaged.push(Error::Missing { file }),
                Some(len) if *len != wanted => {
                    let why = format!("it has {len} bytes, and should have {wanted}");
                    report.damaged.push(Error::damaged(&file, "file", why));
                }
                Some(_) => {}
            }
        }
    }
    Ok(report)
}
