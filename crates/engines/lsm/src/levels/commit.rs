//! Makes changes durable, then visible; and releases files.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use halite_sim::planted;
use parking_lot::MutexGuard;

use super::compaction::Outputs;
use super::edit::{Edit, TableMeta};
use super::error::{Error, Result};
use super::inner::{Change, Inner, Locked};
use super::manifest::{Manifest, Unappended};
use super::names;
use super::version::{Files, TableFile, TreeVersion};

/// A change as an edit.
pub(super) fn edit_of(tree: u32, change: &Change) -> Edit {
    let memtables = change.memtables.map(|id| (tree, id)).into_iter().collect();
    Edit { memtables, words: change.words.clone(), ..Edit::default() }
}

/// The files of large values that tables refer to.
pub(super) fn values_of<'a>(
    tables: impl Iterator<Item = &'a TableMeta>,
) -> impl Iterator<Item = u64> {
    tables.flat_map(|table| &table.values).map(|value| value.number)
}

impl Inner {
    /// Makes an edit durable, and then the tree's version the one after it.
    pub(super) fn commit(
        &self,
        tree: u32,
        mut edit: Edit,
        outputs: &mut Outputs,
        bytes_compacted: u64,
        bytes_added: u64,
    ) -> Result<()> {
        let mut locked = self.locked.lock();
        let changed = self.changed_by(tree, &edit);
        let kept: HashSet<u64> = values_of(edit.added.iter().map(|(_, meta)| meta)).collect();
        if let Some((one, other)) = changed.as_ref().and_then(|(new, _)| new.overlap()) {
            let why = format!("tables {one} and {other} would overlap");
            return Err(Error::damaged("a table", "the order of what is merged", why));
        }
        if planted!("lsm.table-names-not-synced", false, !outputs.tables.is_empty()) {
            // The names of the tables, before the manifest says that they are there.
            self.files.disk.sync()?;
        }
        edit.next_number = Some(self.numbers.load(Ordering::Relaxed));
        self.make_durable(&mut locked, &edit, outputs)?;
        let bytes_written = outputs.keep().iter().map(|table| table.file_len).sum();
        for (counter, bytes) in [
            (&self.counters.edits, 1),
            (&self.counters.bytes_written, bytes_written),
            (&self.counters.bytes_compacted, bytes_compacted),
            (&self.counters.bytes_added, bytes_added),
        ] {
            counter.fetch_add(bytes, Ordering::Relaxed);
        }
        if let Some((new, removed)) = changed {
            // Readers see the edited version of the tree.
            self.trees.write().insert(tree, new);
            removed.iter().for_each(|table| table.remove());
            let values = values_of(removed.iter().map(|table| &table.meta));
            let mut gone: Vec<u64> = values.filter(|number| !kept.contains(number)).collect();
            if !gone.is_empty() {
                // A merge that comes part by part has referred in earlier edits to files of the tables that its last
                // edit removes.
                let tables = locked.state.tables.values();
                let listed: HashSet<u64> = values_of(tables.map(|(_, meta)| meta)).collect();
                gone.retain(|number| !listed.contains(number));
            }
            self.files.values.release(&gone);
        }
        drop(locked);
        self.measure_pressure();
        Ok(())
    }

    pub(super) fn make_durable(
        &self,
        locked: &mut MutexGuard<'_, Locked>,
        edit: &Edit,
        outputs: &mut Outputs,
    ) -> Result<()> {
        let applied = "an edit of what is there";
        if locked.manifest.is_to_be_followed(self.options.manifest_bytes_max) {
            let mut state = locked.state.clone();
            state.apply(edit.clone()).expect(applied);
            let number = self.numbers.fetch_add(1, Ordering::Relaxed);
            state.next_number = number + 1;
            let Files { disk, store_id, .. } = &*self.files;
            let manifest = Manifest::create(disk, *store_id, number, &state)?;
            let old = std::mem::replace(&mut locked.manifest, manifest).number();
            locked.state = state;
            // If the file stays, the next opening removes it.
            let _ = disk.remove(&names::manifest(old));
            // The new manifest does not have them.
            let uncertain = std::mem::take(&mut locked.uncertain);
            self.files.graveyard.lock().extend(uncertain);
            return Ok(());
        }
        if let Err(Unappended { error, may_count }) = locked.manifest.append(edit) {
            if may_count {
                // Until a new manifest says that they are none, they may be tables.
                locked.uncertain.extend(outputs.keep().iter().map(|table| table.number));
            }
            return Err(error);
        }
        locked.state.apply(edit.clone()).expect(applied);
        Ok(())
    }

    /// The version of a tree behind an edit, and the tables that it removes, if it concerns any.
    fn changed_by(
        &self,
        tree: u32,
        edit: &Edit,
    ) -> Option<(Arc<TreeVersion>, Vec<Arc<TableFile>>)> {
        if edit.added.is_empty() && edit.removed.is_empty() {
            return None;
        }
        let old = self.version(tree).unwrap_or_default();
        let tables = old.runs().flat_map(|(_, run)| &run.tables);
        let gone =
            |table: &&Arc<TableFile>| edit.removed.iter().any(|(.., n)| *n == table.meta.number);
        let removed: BTreeMap<u64, &Arc<TableFile>> =
            tables.filter(gone).map(|table| (table.meta.number, table)).collect();
        let added = edit.added.iter().map(|(place, meta)| match removed.get(&meta.number) {
            Some(moved) => (*place, Arc::clone(moved)),
            None => (*place, TableFile::new(meta.clone(), &self.files)),
        });
        let added: Vec<_> = added.collect();
        let from: Vec<_> =
            edit.removed.iter().map(|(_, level, number)| (*level, *number)).collect();
        let is_moved = |number: &u64| added.iter().any(|(_, table)| table.meta.number == *number);
        let gone = removed.iter().filter(|(number, _)| !is_moved(number));
        let gone = gone.map(|(_, table)| Arc::clone(table)).collect();
        Some((Arc::new(old.changed(&from, &added)), gone))
    }

    /// Removes the files of tables that no reader uses any more.
    pub(super) fn bury(&self) {
        let dead = std::mem::take(&mut *self.files.graveyard.lock());
        for number in dead {
            // If the file stays, the next opening removes it.
            let _ = self.files.disk.remove(&names::table(number));
        }
        self.files.values.bury();
    }
}
