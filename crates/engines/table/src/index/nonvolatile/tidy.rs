//! Merges leaves that have become empty, or nearly.

use std::collections::BTreeSet;

use halite_alloc::heap::{Heap, NvPtr};

use super::descend::Path;
use super::graft::Edit;
use super::inner::{Child, children};
use super::leaf::{ENTRIES_MAX, room};
use super::node::LeafNode;
use super::prepared::WordChange;
use super::split::{Item, bytes, pieces};
use super::tree::{Between, NonVolatileTree};
use crate::component::Component;
use crate::index::Result;

impl NonVolatileTree {
    /// Merges leaves from which changes that were shown have removed entries with their neighbours below the same parent: those
    /// that are less than a quarter full, if both then take at most three quarters of a leaf. A
    /// leaf without entries goes. Nothing else may be prepared in the tree, and no undo log has a word of it to be stored:
    /// it has at least been stored that it does not, which becomes durable before any leaf is freed.
    ///
    /// Two fences for each parent whose leaves are merged, none if no leaf is.
    ///
    /// # Errors
    /// [`crate::index::Error::DamagedNode`]; the heap's. Then some leaves may not be merged.
    pub fn tidy(&self, heap: &mut Heap, words: &[WordChange]) -> Result<()> {
        let _in = Component::Index.enter();
        let fewer = words.iter().filter(|word| word.removes());
        let mut keys: Vec<&[u8]> = fewer.map(|word| &word.key[..]).collect();
        keys.sort_unstable();
        let mut left = &keys[..];
        while let Some(first) = left.first() {
            let path = self.path(heap, first)?;
            let is_its = |key: &[u8]| path.parent_high.as_ref().is_none_or(|high| key < &high[..]);
            let count = left.partition_point(|key| is_its(key));
            self.tidy_parent(heap, &path, &left[..count])?;
            left = &left[count..];
        }
        Ok(())
    }

    /// Merges children of the last node of a path, which have some keys.
    fn tidy_parent(&self, heap: &mut Heap, path: &Path, keys: &[&[u8]]) -> Result<()> {
        let Some((step, above)) = path.steps.split_last() else { return Ok(()) };
        let inner = self.inner(heap, step.node, Between::ALL)?;
        let all = children(inner, &path.lows[above.len()]);
        let touched: BTreeSet<usize> = keys.iter().map(|key| inner.child_of(key)).collect();
        let count = all.len();
        let mut edit = Edit::default();
        let made = self.merge(heap, (all, path.parent_high.as_deref()), &touched, &mut edit);
        let made = made.and_then(|all| match all.len() == count {
            true => Ok(false),
            false => self.rebuild(heap, (&path.steps, &path.lows), all, &mut edit).map(|()| true),
        });
        match made {
            Ok(false) => Ok(()),
            made => edit.finish(heap, made.map(drop)),
        }
    }

    /// Merges those of some leaves that are small and were touched. Returns the leaves that there are then.
    fn merge(
        &self,
        heap: &mut Heap,
        (all, high): (Vec<Child>, Option<&[u8]>),
        touched: &BTreeSet<usize>,
        edit: &mut Edit,
    ) -> Result<Vec<Child>> {
        let room = room(self.leaf_len());
        let mut merged: Vec<Run> = Vec::new();
        for (index, child) in all.iter().enumerate() {
            let is_touched = touched.contains(&index);
            let after_small = merged.last().is_some_and(|run| run.is_small);
            let mut run = Run { low: child.low.clone(), ..Run::default() };
            run.leaves.push(NvPtr::from_word(child.word));
            // A leaf is read only if it may be merged.
            if is_touched || after_small || touched.contains(&(index + 1)) {
                let high = all.get(index + 1).map(|next| &next.low[..]).or(high);
                let may_have = Between { low: &child.low, high };
                run.items = self.items(heap, (run.leaves[0], may_have), u64::MAX)?;
                run.is_read = true;
                run.is_small = is_touched && bytes(&run.items) < room / 4;
            }
            if run.is_small && run.items.is_empty() {
                edit.free(run.leaves[0]);
                continue;
            }
            if let Some(last) = merged.last_mut()
                && (last.is_small || run.is_small && last.is_read)
                && bytes(&last.items) + bytes(&run.items) <= room / 4 * 3
                && last.items.len() + run.items.len() <= ENTRIES_MAX
            {
                last.items.append(&mut run.items);
                last.leaves.append(&mut run.leaves);
                last.is_small = bytes(&last.items) < room / 4;
                continue;
            }
            merged.push(run);
        }
        let mut left = Vec::with_capacity(merged.len());
        for Run { low, leaves, items, .. } in merged {
            let word = match leaves[..] {
                [leaf] => leaf.word(),
                _ => {
                    leaves.iter().for_each(|&leaf| edit.free(leaf));
                    let mut piece = pieces(&items, self.leaf_len(), room).swap_remove(0);
                    let leaf = self.write_leaf(heap, &mut piece.leaf)?;
                    edit.activate(leaf);
                    leaf.word()
                }
            };
            left.push(Child { low, word });
        }
        Ok(left)
    }
}

/// Leaves beside each other that become one.
#[derive(Default)]
struct Run {
    low: Vec<u8>,
    leaves: Vec<NvPtr<LeafNode>>,
    items: Vec<Item>,
    is_read: bool,
    is_small: bool,
}
