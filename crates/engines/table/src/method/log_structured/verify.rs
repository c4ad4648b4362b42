//! Checks of the files, and the space that they take.

use std::collections::BTreeSet;

use halite_codec::Seed;
use halite_sst::Reads;

use super::LogStructured;
use super::entry::DELTA;
use super::manifest::{MANIFEST, State};
use super::merge::Indexed;
use super::run::{Part, Run, name_of, number_of, split};
use crate::method::Footprint;
use crate::method::redo_log::Logged;
use crate::{Catalog, Error, IndexId, Result};

impl LogStructured {
    /// Reads all that is stored. All commits are durable.
    pub(super) fn verify_files(&self) -> Result<()> {
        let state = State::read(&self.home.disk)?;
        let metas = self.levels.0.iter();
        let metas = metas.map(|level| level.iter().map(|run| (*run.meta).clone()).collect());
        if state.levels != metas.collect::<Vec<Vec<_>>>() || state.catalog != self.catalog {
            return Err(Error::damaged("the manifest", "it is not the one that was written"));
        }
        let named = self.levels.runs().map(|(_, run)| run.meta.number);
        let written = self.compaction.iter().flat_map(|compaction| &compaction.written);
        let known: BTreeSet<u64> = named.chain(written.chain(&self.garbage).copied()).collect();
        for (name, _) in self.home.disk.list()? {
            if number_of(&name).is_some_and(|number| !known.contains(&number)) {
                return Err(Error::damaged(name, "nothing leads to it"));
            }
        }
        for (_, run) in self.levels.runs() {
            run.table.check()?;
            verify_run(run, &self.catalog)?;
        }
        let (disk, store_id) = (&self.home.disk, self.home.store_id);
        self.log.check_files(disk, store_id, self.flushed, |_, batch| {
            Logged::read(batch, &self.catalog, Seed::of_store(store_id)).map(drop)
        })
    }

    /// Bytes by use: those of a run by the bytes that each index has in it.
    pub(super) fn used(&self) -> Result<Footprint> {
        let mut footprint = Footprint { log: self.log.bytes(), ..Footprint::default() };
        footprint.other = self.home.cache.used_bytes() + self.home.disk.open(MANIFEST)?.len();
        let mut add = |index, bytes: u64| match Indexed::of(&self.catalog, index) {
            Indexed::Rows(_) => footprint.table += bytes,
            Indexed::PrimaryKeys => footprint.index += bytes,
            Indexed::Dropped => footprint.other += bytes,
        };
        for (_, run) in self.levels.runs() {
            let all = run.meta.parts.iter().map(|part| part.bytes).sum::<u64>();
            for part in &run.meta.parts {
                let share = u128::from(run.meta.file_len) * u128::from(part.bytes);
                add(part.index, (share / u128::from(all.max(1))) as u64);
            }
        }
        for (index, part) in self.memtable.parts() {
            add(index, part.memory_bytes() as u64);
        }
        Ok(footprint)
    }
}

/// Checks that a run has the entries that the manifest says, of indexes that there are.
fn verify_run(run: &Run, catalog: &Catalog) -> Result<()> {
    let damaged = |why: &str| Error::damaged(name_of(run.meta.number), why);
    let mut parts: Vec<Part> = Vec::new();
    let (mut cursor, mut last) = (run.table.cursor(Reads::Ahead), Vec::new());
    cursor.first()?;
    while let Some(entry) = cursor.entry() {
        let (index, _) = split(entry.key)?;
        if *last == *entry.key {
            return Err(damaged("a key has two entries"));
        }
        if parts.last().is_none_or(|part| part.index != index) {
            parts.push(Part { index, entries: 0, bytes: 0 });
        }
        let part = parts.last_mut().expect("there is one");
        part.entries += 1;
        part.bytes += (entry.key.len() + entry.value.len()) as u64;
        if entry.kind == DELTA && matches!(Indexed::of(catalog, index), Indexed::PrimaryKeys) {
            return Err(damaged("a secondary index has a delta"));
        }
        last = entry.key.to_vec();
        cursor.forward()?;
    }
    let is_known = |index: IndexId| {
        let mut dropping = catalog.dropping().iter();
        catalog.index_by_id(index).is_some() || dropping.any(|dropping| dropping.id() == index.0)
    };
    if let Some(part) = parts.iter().find(|part| !is_known(part.index)) {
        return Err(damaged(&format!("it has entries of index {}, which is none", part.index.0)));
    }
    match parts == run.meta.parts {
        true => Ok(()),
        false => Err(damaged("it does not have the entries that the manifest says")),
    }
}
