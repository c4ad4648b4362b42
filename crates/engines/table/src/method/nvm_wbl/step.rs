//! A step of a sync: changes that become durable together, by one publication.

use std::collections::{BTreeMap, BTreeSet};

use halite_alloc::heap::{Heap, NvPtr, Publication};

use super::head::Head;
use super::shared::Kept;
use crate::index::nonvolatile::{Change, NonVolatileTree, Prepared};
use crate::tuple::cancel;
use crate::{IndexId, Result, TableId};

/// What a step changes.
#[derive(Default)]
pub(super) struct Step {
    pub(super) publication: Publication,
    /// The words that keys of indexes lead to; `None` for a key that goes.
    pub(super) entries: BTreeMap<IndexId, BTreeMap<Vec<u8>, Option<u64>>>,
    /// The heads that it changes.
    pub(super) heads: BTreeSet<u64>,
    /// The rows of the group whose versions it links, with their heads; and whether those are new.
    pub(super) rows: Vec<(TableId, Vec<u8>, NvPtr<Head>, bool)>,
    /// Versions that leave their heads, and views need.
    pub(super) kept: Vec<(u64, Kept)>,
    /// Items of the garbage that it carries out.
    pub(super) items: usize,
    /// Slots and words that it changes.
    pub(super) weight: usize,
}

impl Step {
    pub(super) fn is_empty(&self) -> bool {
        self.weight == 0
    }

    /// Has an index lead to something by a key.
    pub(super) fn put(&mut self, index: IndexId, key: Vec<u8>, word: u64) {
        self.entries.entry(index).or_default().insert(key, Some(word));
    }

    /// Has a key of an index go, unless the step has it lead to something.
    pub(super) fn remove(&mut self, index: IndexId, key: Vec<u8>) {
        self.entries.entry(index).or_default().entry(key).or_insert(None);
    }

    /// Prepares the changes of indexes, and has the publication show them. Returns what was prepared. One
    /// fence if an index is added to: its entries are durable before the publication shows them.
    pub(super) fn prepare(
        &mut self,
        heap: &mut Heap,
        tree: impl Fn(IndexId) -> Result<NonVolatileTree>,
    ) -> Result<Vec<(NonVolatileTree, Prepared)>> {
        let mut all: Vec<(NonVolatileTree, Prepared)> = Vec::new();
        let mut adds = false;
        for (&index, entries) in &self.entries {
            let changes = entries.iter().map(|(key, word)| match word {
                Some(word) => Change::Put(key, *word),
                None => Change::Remove(key),
            });
            let prepared = tree(index)
                .and_then(|tree| Ok((tree, tree.prepare(heap, &changes.collect::<Vec<_>>())?)));
            match prepared {
                Ok(prepared) => all.push(prepared),
                Err(error) => {
                    all.iter().try_for_each(|(_, prepared)| prepared.give_up(heap))?;
                    return Err(error);
                }
            }
            adds |= entries.values().any(Option::is_some);
        }
        for (_, Prepared { words, new_keys, old_keys }) in &all {
            new_keys.iter().for_each(|key| self.publication.activate(key.pointer));
            old_keys.iter().for_each(|key| self.publication.free(key.pointer));
            words.iter().for_each(|word| self.publication.store(word.leaf, word.at, word.after));
        }
        if adds {
            heap.fence()?;
        }
        Ok(all)
    }

    /// Gives up what the step has reserved.
    pub(super) fn give_up(&self, heap: &mut Heap) -> Result<()> {
        let new = self.rows.iter().filter(|(.., is_new)| *is_new);
        let new: Vec<_> = new.map(|(_, _, head, _)| head.any()).collect();
        cancel(heap, &new)
    }
}
