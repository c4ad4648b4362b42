//! Changes of a tree, and how a transaction shows them.

use halite_alloc::heap::{Heap, NvPtr, Owner};

use super::leaf::count;
use super::node::{LeafNode, LongKey};
use crate::index::Result;

/// A change of a tree.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Change<'a> {
    /// The key has this value, whether it was there or not.
    Put(&'a [u8], u64),
    /// The key is not there.
    Remove(&'a [u8]),
}

impl<'a> Change<'a> {
    /// The key that it is about.
    #[must_use]
    pub fn key(&self) -> &'a [u8] {
        let (Self::Put(key, _) | Self::Remove(key)) = *self;
        key
    }
}

/// A word of a leaf that shows what was prepared.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WordChange {
    /// The leaf.
    pub leaf: NvPtr<LeafNode>,
    /// Where the word is in it.
    pub at: u64,
    /// The word until then.
    pub before: u64,
    /// The word that shows the entries that were added, and those no more that were removed.
    pub after: u64,
    /// A key of the leaf that changes.
    pub key: Vec<u8>,
}

impl WordChange {
    /// Whether it leaves fewer entries than there were.
    pub(super) fn removes(&self) -> bool {
        count(self.after) < count(self.before)
    }
}

/// The slot of a long key, and the bytes that it was reserved for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KeySlot {
    /// The slot.
    pub pointer: NvPtr<LongKey>,
    /// The key's length.
    pub len: u64,
}

/// Changes that nothing shows yet. To show them, a transaction activates the new keys, stores each word and frees the old
/// keys, under an undo log of its own ([`Prepared::show`]).
#[derive(Debug, Default)]
pub struct Prepared {
    /// The words to be stored.
    pub words: Vec<WordChange>,
    /// Slots of long keys to be activated: written, and durable by the next fence.
    pub new_keys: Vec<KeySlot>,
    /// Slots of long keys to be freed.
    pub old_keys: Vec<KeySlot>,
}

impl Prepared {
    /// Shows the changes. No fence but as for all changes of the heap.
    ///
    /// # Errors
    /// The heap's.
    pub fn show(&self, heap: &mut Heap) -> Result<()> {
        for key in &self.new_keys {
            heap.activate(key.pointer)?;
        }
        for word in &self.words {
            heap.store_word(word.leaf, word.at, word.after)?;
        }
        for key in &self.old_keys {
            heap.free(key.pointer)?;
        }
        Ok(())
    }

    /// Takes changes back that were shown since the last fence; `owner` is the tree's. No fence but as for all changes of the heap.
    ///
    /// # Errors
    /// The heap's.
    pub fn take_back(&self, heap: &mut Heap, owner: Owner) -> Result<()> {
        for key in &self.old_keys {
            heap.restore(key.pointer, owner, key.len)?;
        }
        for word in &self.words {
            heap.store_word(word.leaf, word.at, word.before)?;
        }
        for key in &self.new_keys {
            heap.free(key.pointer)?;
        }
        Ok(())
    }

    /// Gives up changes that were not shown.
    ///
    /// # Errors
    /// The heap's.
    pub fn give_up(&self, heap: &mut Heap) -> Result<()> {
        for key in &self.new_keys {
            heap.cancel(key.pointer)?;
        }
        Ok(())
    }
}
