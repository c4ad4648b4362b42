//! Prepares changes of entries, unseen.

use halite_alloc::heap::{Heap, NvPtr};

use super::additions::{Addition, Additions};
use super::descend::{Found, Path};
use super::leaf::{Key, hash, key_max, present, present_at};
use super::node::{LongKey, seed};
use super::prepared::{Change, KeySlot, Prepared, WordChange};
use super::rewrite::{Added, Plan};
use super::split::Item;
use super::tree::{NonVolatileTree, damaged};
use crate::component::Component;
use crate::index::{Error, KEY_LEN_MAX, Result};

/// Entries that are added to a leaf at once, so that a publication has room for the leaves that they need.
const ADDED_MAX: usize = 1024;

impl NonVolatileTree {
    /// Prepares changes, whose keys ascend. What readers find stays as it is.
    ///
    /// The caller shows the changes, or gives them up, before it prepares others of the tree; and no undo log has a word of
    /// the tree to be stored.
    ///
    /// No fence, if each leaf has room for what is added to it, and none of them is of the newest two publications. Else two
    /// for a leaf that is split: what was stored before becomes durable, and the publication; and those of
    /// the slabs that the heap makes.
    ///
    /// # Errors
    /// [`Error::KeyTooLong`]; [`Error::DamagedNode`]; the heap's, also if it has no room. Then nothing is prepared.
    ///
    /// # Panics
    /// If a key is not above the one before it.
    pub fn prepare(&self, heap: &mut Heap, changes: &[Change<'_>]) -> Result<Prepared> {
        let _in = Component::Index.enter();
        let ascend = changes.is_sorted_by(|one, other| one.key() < other.key());
        assert!(ascend, "the changes of a tree are in the order of their keys");
        if let Some(long) = changes.iter().find(|change| change.key().len() > KEY_LEN_MAX) {
            return Err(Error::KeyTooLong { len: long.key().len() });
        }
        let mut prepared = Prepared::default();
        let mut left = changes;
        while let Some(first) = left.first() {
            let done = self.path(heap, first.key()).and_then(|path| {
                let is_its = |key: &[u8]| path.high.as_ref().is_none_or(|high| key < &high[..]);
                let count = left.partition_point(|change| is_its(change.key()));
                self.prepare_leaf(heap, &path, &left[..count], &mut prepared)
            });
            match done {
                Ok(done) => left = &left[done..],
                Err(error) => {
                    // A medium that failed refuses this, too.
                    let _ = prepared.give_up(heap);
                    return Err(error);
                }
            }
        }
        Ok(prepared)
    }

    /// Prepares changes of one leaf, or as many of them as one publication takes. Returns how many those are.
    fn prepare_leaf(
        &self,
        heap: &mut Heap,
        path: &Path,
        changes: &[Change<'_>],
        prepared: &mut Prepared,
    ) -> Result<usize> {
        let mut plan = self.plan(heap, path, changes)?;
        let done = plan.done;
        prepared.old_keys.append(&mut plan.old_keys);
        for Added { item, key_at } in &mut plan.added {
            if key_at.is_none() && item.key.len() > key_max(self.leaf_len()) {
                item.long = Some(self.write_long_key(heap, &item.key, prepared)?);
            }
        }
        let mut fitting = Vec::with_capacity(plan.added.len());
        for Added { item, key_at } in &plan.added {
            let key = item.stored_key();
            match plan.additions.add(&key, item.hash, item.value, *key_at) {
                Some(addition) => fitting.push(addition),
                None => break,
            }
        }
        if fitting.len() < plan.added.len() {
            let cut = changes.get(done).map(Change::key);
            if !self.rewrite(heap, path, &plan, (fitting.len(), cut), &mut prepared.words)? {
                return Ok(done);
            }
        }
        for Addition { at, entry, key, .. } in fitting {
            if let Some((at, key)) = key {
                heap.write(path.leaf, at as u64, &key)?;
            }
            heap.write(path.leaf, at as u64, &entry)?;
        }
        if plan.additions.bits != plan.before {
            let seed = seed(self.salt, path.leaf);
            prepared.words.push(WordChange {
                leaf: path.leaf,
                at: present_at(self.leaf_len()),
                before: present(plan.before, seed),
                after: present(plan.additions.bits, seed),
                key: changes[0].key().to_vec(),
            });
        }
        Ok(done)
    }

    /// Finds out what changes of a leaf come to.
    fn plan(&self, heap: &Heap, path: &Path, changes: &[Change<'_>]) -> Result<Plan> {
        let leaf = self.leaf(heap, path.leaf)?;
        let additions = Additions::to(leaf).map_err(|damage| damaged(path.leaf, damage))?;
        let (added, old_keys) = (Vec::new(), Vec::new());
        let mut plan = Plan { before: leaf.bits(), additions, added, old_keys, done: 0 };
        let found = Found { leaf: path.leaf, may_have: path.may_have() };
        for change in changes {
            if plan.added.len() == ADDED_MAX {
                break;
            }
            plan.done += 1;
            let key = change.key();
            let hash = hash(key, self.salt);
            let there = self.find(heap, found, leaf, (key, hash))?;
            let value = match *change {
                Change::Put(_, value) => Some(value),
                Change::Remove(_) => None,
            };
            if there.map(|entry| entry.value) == value {
                continue;
            }
            let mut long = None;
            if let Some(entry) = there {
                plan.additions.remove(entry.place);
                if let Key::Elsewhere(pointer, len) = entry.key {
                    match value {
                        Some(_) => long = Some(pointer),
                        None => plan.old_keys.push(KeySlot { pointer, len: len as u64 }),
                    }
                }
            }
            if let Some(value) = value {
                let key = key.to_vec();
                let item = Item { key, hash, value, long, before: false, after: true };
                plan.added.push(Added { item, key_at: there.map(|entry| entry.key_at) });
            }
        }
        Ok(plan)
    }

    fn write_long_key(
        &self,
        heap: &mut Heap,
        key: &[u8],
        prepared: &mut Prepared,
    ) -> Result<NvPtr<LongKey>> {
        let len = key.len() as u64;
        let pointer = heap.reserve(self.owner, len)?;
        prepared.new_keys.push(KeySlot { pointer, len });
        heap.write(pointer, 0, key)?;
        heap.flush(pointer)?;
        Ok(pointer)
    }
}
