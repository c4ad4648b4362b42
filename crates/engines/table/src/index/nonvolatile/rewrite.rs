//! Writes a leaf that has no room for what is added to it as new leaves, by one publication.

use halite_alloc::heap::{Heap, NvPtr};

use super::additions::{Additions, LeafBuilder};
use super::descend::Path;
use super::graft::Edit;
use super::inner::Child;
use super::leaf::{Key, present, present_at, room};
use super::node::{LeafNode, seed};
use super::prepared::{KeySlot, WordChange};
use super::split::{Item, Piece, bytes, even, pieces, separator};
use super::tree::{Between, NonVolatileTree, damaged};
use crate::index::Result;

/// An entry that is to be added to a leaf.
pub(super) struct Added {
    pub(super) item: Item,
    /// Where its key is in the leaf, if it is there.
    pub(super) key_at: Option<usize>,
}

/// The changes of a leaf.
pub(super) struct Plan {
    /// The entries that are there.
    pub(super) before: u64,
    /// The entries that will be there, of those that were, and of the additions for which there is room.
    pub(super) additions: Additions,
    pub(super) added: Vec<Added>,
    pub(super) old_keys: Vec<KeySlot>,
    /// How many changes it is about.
    pub(super) done: usize,
}

impl NonVolatileTree {
    /// Writes a leaf anew, which has room for the first `fitting` additions of its plan. If there are changes of the leaf
    /// behind those of the plan, `cut` is the first of their keys, and its leaf will have no unseen entries. Returns whether
    /// the old leaf stays, with the additions that it has room for.
    pub(super) fn rewrite(
        &self,
        heap: &mut Heap,
        path: &Path,
        plan: &Plan,
        (fitting, cut): (usize, Option<&[u8]>),
        words: &mut Vec<WordChange>,
    ) -> Result<bool> {
        let mut items = self.items(heap, (path.leaf, path.may_have()), plan.additions.bits)?;
        let leaf_len = self.leaf_len();
        let added = || plan.added.iter().map(|added| added.item.clone());
        // Keys that come in order leave full leaves behind.
        let is_behind = items.last().is_none_or(|last| last.key < plan.added[fitting].item.key);
        let used = bytes(&items) + bytes(&added().take(fitting).collect::<Vec<_>>());
        let stays = is_behind && used > room(leaf_len) / 4 * 3;
        let (mut behind, mut full) = (Vec::new(), room(leaf_len));
        let mut low = path.may_have().low.to_vec();
        if stays {
            let fitted = plan.added[..fitting].last().map(|added| &added.item.key);
            let last = fitted.max(items.last().map(|item| &item.key));
            let last = last.expect("a full leaf has entries");
            low = separator(last, &plan.added[fitting].item.key);
            items = added().skip(fitting).collect();
        } else {
            let at =
                cut.map_or(items.len(), |cut| items.partition_point(|item| &item.key[..] < cut));
            behind = items.split_off(at);
            items.extend(added());
            items.sort_by(|one, other| (&one.key, other.before).cmp(&(&other.key, one.before)));
            full = even(&items, leaf_len);
        }
        let mut new = pieces(&items, leaf_len, full);
        new[0].low = low;
        if let Some(cut) = cut {
            let low = separator(&items.last().expect("there are additions").key, cut);
            let mut rest = pieces(&behind, leaf_len, room(leaf_len));
            let empty =
                || Piece { low: Vec::new(), leaf: LeafBuilder::new(leaf_len), key: cut.to_vec() };
            new.push(Piece { low, ..rest.pop().unwrap_or_else(empty) });
        }
        let mut edit = Edit::default();
        let made = self.replace_leaf(heap, path, (new, stays), &mut edit);
        match made {
            Ok(shown) => {
                edit.finish(heap, Ok(()))?;
                words.extend(shown);
                Ok(stays)
            }
            Err(error) => edit.finish(heap, Err(error)).map(|()| stays),
        }
    }

    /// The entries of a leaf in the order of their keys. Those of some bits will stay.
    pub(super) fn items(
        &self,
        heap: &Heap,
        (pointer, may_have): (NvPtr<LeafNode>, Between<'_>),
        stay: u64,
    ) -> Result<Vec<Item>> {
        let leaf = self.leaf(heap, pointer)?;
        let mut items = Vec::new();
        for entry in leaf.entries() {
            let entry = entry.map_err(|damage| damaged(pointer, damage))?;
            let (key, hash) = self.checked_key(heap, pointer, &entry, may_have)?;
            let long = match entry.key {
                Key::Here(_) => None,
                Key::Elsewhere(pointer, _) => Some(pointer),
            };
            let after = stay >> entry.place & 1 != 0;
            let (key, value) = (key.to_vec(), entry.value);
            items.push(Item { key, hash, value, long, before: true, after });
        }
        items.sort_by(|one, other| one.key.cmp(&other.key));
        Ok(items)
    }

    /// Puts new leaves in the place of one, or behind it if it stays. Returns the words that will show what is added to them.
    fn replace_leaf(
        &self,
        heap: &mut Heap,
        path: &Path,
        (new, stays): (Vec<Piece>, bool),
        edit: &mut Edit,
    ) -> Result<Vec<WordChange>> {
        let (mut children, mut words) = (Vec::new(), Vec::new());
        if stays {
            let low = path.may_have().low.to_vec();
            children.push(Child { low, word: path.leaf.word() });
        } else {
            edit.free(path.leaf);
        }
        for Piece { low, mut leaf, key } in new {
            let pointer = self.write_leaf(heap, &mut leaf)?;
            edit.activate(pointer);
            children.push(Child { low, word: pointer.word() });
            if leaf.before != leaf.after {
                let seed = seed(self.salt, pointer);
                let (before, after) = (present(leaf.before, seed), present(leaf.after, seed));
                let at = present_at(self.leaf_len());
                words.push(WordChange { leaf: pointer, at, before, after, key });
            }
        }
        let index = path.steps.last().map_or(0, |step| step.index);
        self.graft(heap, (&path.steps, &path.lows), index..index + 1, children, edit)?;
        Ok(words)
    }
}
