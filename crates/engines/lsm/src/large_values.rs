//! Large values on their way into a batch and out of memory.
//!
//! Before a batch enters the ring, its large values are written to files ([`Store::write_large`]): a writer that
//! waits for the disk has no turn. After a commit, the engine looks for the files that the batch hides
//! ([`Store::look_for_hidden`]), and removes those whose hiding is durable and which no snapshot sees
//! ([`Store::let_values_go`]). [`crate::values`] has the state of each file.

use std::collections::{BTreeMap, HashMap};
use std::ops::Bound;
use std::sync::Arc;

use halite_contract::{Error, KeyRange, Op, Result};
use halite_disk::Disk;
use halite_index::Direction;
use halite_sst::ValueRef;
use halite_wal::{Found, Logged};

use crate::address::Address;
use crate::error::Error as LsmError;
use crate::failure::{from_levels, from_replay};
use crate::fragment;
use crate::layer::Layer;
use crate::layout;
use crate::levels;
use crate::read::At;
use crate::record::Kind;
use crate::scan::bounds;
use crate::store::Store;
use crate::values::Written;
use crate::version::file_of;
use crate::wal;

/// The large values of a batch, by the places of their operations.
#[derive(Default)]
pub(crate) struct Large<'a>(Vec<(usize, Written<'a>)>);

impl Large<'_> {
    /// The file of an operation's value, if it has one.
    pub(crate) fn of(&self, number: usize) -> Option<&ValueRef> {
        let at = self.0.binary_search_by_key(&number, |(number, _)| *number).ok()?;
        Some(&self.0[at].1.value)
    }

    /// Lets the files stay.
    pub(crate) fn keep(&mut self) {
        self.0.iter_mut().for_each(|(_, written)| written.keep());
    }
}

impl Store {
    /// Writes the large values among operations, durably. Two syncs for each.
    ///
    /// # Errors
    /// [`LsmError::ValuesFull`]; an error of the disk. A folder that cannot be synced is the end of all writes.
    pub(crate) fn write_large(&self, ops: &[Op<'_>]) -> Result<Large<'_>> {
        let mut large = Large::default();
        for (number, op) in ops.iter().enumerate() {
            let Op::Put { value, .. } = op else { continue };
            if value.len() as u64 >= self.limits.large_value_bytes {
                self.check_healthy()?;
                // A sync of the pool that failed is the last.
                layout::raise(self.memory.home(), layout::ROOT, layout::WITH_VALUES)
                    .inspect_err(|error| self.poison_by(error))?;
                let written = self.levels.write_value(value, self.visible()).map_err(no_room);
                // Nothing is handed on any more: without an error, others would go on until the pool is full.
                let written = written.inspect_err(|error| {
                    if !self.levels.values().is_disk_synced() {
                        self.poison(&error.to_string());
                    }
                })?;
                large.0.push((number, written));
            }
        }
        Ok(large)
    }

    /// Notes the large values of committed operations, and the versions that they hide. `tree_of` maps keys to trees.
    pub(crate) fn note_large(
        &self,
        ops: &[Op<'_>],
        mut large: Large<'_>,
        tree_of: impl Fn(&[u8]) -> usize,
    ) {
        large.keep();
        let values = self.levels.values();
        let full = |op: &Op<'_>, key: &[u8]| [&op.space().0.to_be_bytes(), key].concat();
        for (number, written) in &large.0 {
            if let Op::Put { key, .. } = &ops[*number] {
                values.committed(written.value.number, tree_of(key), &full(&ops[*number], key));
            }
        }
        if !values.is_any_in_memory() {
            return;
        }
        for op in ops {
            match op {
                Op::Put { key, .. } | Op::Delete { key, .. } => {
                    let full = full(op, key);
                    if values.may_have(&full) {
                        self.look_for_hidden(tree_of(key), &full);
                    }
                }
                Op::DeleteRange { space, start, end } => {
                    let range = KeyRange::new(*start, end.map(<[u8]>::to_vec));
                    let (start, end) = bounds(*space, &range);
                    self.look_for_hidden_within(&start, &end);
                }
            }
        }
    }

    /// Looks whether a newer version hides large values of a key in memory.
    fn look_for_hidden(&self, tree: usize, key: &[u8]) {
        let values = self.levels.values();
        // First: these versions are committed by now, so the newest version is not older than they are.
        let mut numbers = values.of_key(tree, key);
        if numbers.is_empty() {
            return;
        }
        // Damage is reported to the readers of the key. Its files stay.
        if let Ok(Some((sequence, file))) = self.newest_in_memory(tree, key, At::Latest) {
            numbers.retain(|number| file.is_none_or(|file| file.number != *number));
            values.hide(&numbers, sequence);
        }
    }

    /// Looks whether newer versions hide large values in memory of keys from `start` up to `end`, with their key
    /// spaces.
    pub(crate) fn look_for_hidden_within(&self, start: &[u8], end: &[u8]) {
        for tree in 0..self.trees.len() {
            let keys = self.levels.values().keys_within(tree, start, end);
            keys.iter().for_each(|key| self.look_for_hidden(tree, key));
        }
    }

    /// Removes the files whose versions are hidden for good.
    pub(crate) fn let_values_go(&self) {
        let values = self.levels.values();
        if !values.has_hidden() || !values.let_go(&self.snapshots.kept(self.commits.visible_word()))
        {
            return;
        }
        if self.has_threads() {
            self.signals.wake();
        } else {
            values.bury();
        }
    }

    /// Adds the files that versions in memory refer to, but for versions that newer ones hide.
    pub(crate) fn find_values(&self) -> Result<()> {
        for (tree, of_tree) in self.trees.iter().enumerate() {
            let view = of_tree.view();
            let mut found = Vec::new();
            for memtable in view.memtables() {
                collect(&**memtable, &mut found)?;
            }
            for global in view.global_indexes() {
                collect(&**global, &mut found)?;
            }
            drop(view);
            for (key, value) in found {
                self.levels.pass_number(value.number);
                // Where a record beside it is damaged, the file may be needed; reads of the key report the damage.
                let is_needed = match self.newest_in_memory(tree, &key, At::Latest) {
                    Ok(newest) => newest.and_then(|(_, file)| file) == Some(value),
                    Err(_) => true,
                };
                if is_needed {
                    self.levels.values().add_of_memory(&value, tree, &key);
                }
            }
        }
        Ok(())
    }

    /// Adds the files that the log refers to, but for those that later records hide, and those of trees whose levels
    /// have the batch: `flushed`.
    pub(crate) fn find_logged_values(
        &self,
        disk: &Disk,
        store_id: u128,
        flushed: &[u64],
    ) -> Result<()> {
        let mut shown = Shown::default();
        let (identity, known) = (wal::of_store(store_id), layout::known_of_log(self.memory.home()));
        Found::read(disk, identity, known, |batch| {
            shown.pass(batch, flushed, |value| self.levels.pass_number(value.number));
            Ok(())
        })
        .map_err(from_replay)?;
        for (tree, keys) in shown.0 {
            for (key, value) in keys {
                self.levels.values().add_of_memory(&value, tree, &key);
            }
        }
        Ok(())
    }
}

/// By tree: keys whose newest version is a large value.
#[derive(Default)]
struct Shown(HashMap<usize, BTreeMap<Box<[u8]>, ValueRef>>);

impl Shown {
    /// Goes on behind a batch of the log.
    fn pass(&mut self, batch: &Logged<'_>, flushed: &[u64], mut note: impl FnMut(&ValueRef)) {
        let last = batch.sequence + u64::from(batch.records) - 1;
        for (tree, records) in wal::fragments(batch) {
            if flushed.get(tree).is_none_or(|flushed| last <= *flushed) {
                continue;
            }
            let shown = self.0.entry(tree).or_default();
            for (_, record) in fragment::records(records) {
                match record.kind() {
                    Some(Kind::PutFile) => {
                        // The replay reports a value that is no reference.
                        let Ok(value) = ValueRef::of_bytes(record.value()) else { continue };
                        note(&value);
                        shown.insert(record.key().into(), value);
                    }
                    Some(Kind::Put | Kind::PutPieces | Kind::Delete) => {
                        shown.remove(record.key());
                    }
                    Some(Kind::RangeDelete) => {
                        shown.retain(|key, _| **key < *record.key() || **key >= *record.value());
                    }
                    Some(Kind::Piece) | None => {}
                }
            }
        }
    }
}

/// Adds the large values that a layer refers to.
fn collect(layer: &impl Layer, found: &mut Vec<(Box<[u8]>, ValueRef)>) -> Result<()> {
    let all = Bound::Unbounded;
    let mut cursor = layer.index().cursor_of_versions(all, all, Direction::Ascending);
    while let Some(entry) = cursor.next(layer.index(), layer) {
        let address = Address::from_bits(entry);
        let Some(zones) = layer.zones_of(address) else { continue };
        // A damaged record is reported when it is read.
        let Ok(record) = zones.checked(address) else { continue };
        if record.kind() == Some(Kind::PutFile)
            && let Ok(file) = file_of(zones, address, &record)
        {
            found.push((record.key().into(), file));
        }
    }
    Ok(())
}

/// The error of a large value that could not be written.
fn no_room(error: levels::Error) -> Error {
    match error {
        levels::Error::Disk(reason) if matches!(*reason, halite_disk::Error::NoSpace { .. }) => {
            LsmError::ValuesFull { reason: Arc::clone(&reason) }.into()
        }
        error => from_levels(error),
    }
}
