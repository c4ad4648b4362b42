//! The store: its trees in the dirty directory, and its opening.

use std::sync::Arc;

use halite_alloc::heap::{AnyPtr, Heap, NvPtr, Owner};
use halite_alloc::{Device, Error as SpaceError};
use halite_sim::locks::RwLockWriteGuard;

use super::batch::Batch;
use super::directory::{Directory, DirectorySlot, MASTER};
use super::node::{is_node_len, word};
use super::read::Reader;
use super::scan::CowHeapScan;
use super::shared::Shared;
use super::snapshot::{HeapSnapshot, word_of};
use super::writer::Writer;
use crate::component::Component;
use crate::cushion::Cushion;
use crate::index::btree::Root;
use crate::index::btree::put::put;
use crate::index::btree::remove::remove;
use crate::index::btree::scan::{Direction, Range};
use crate::index::node::entries::Entries;
use crate::index::{Error, KEY_LEN_MAX, Result};

/// The owner of the directory and of garbage: no tree's number.
pub(crate) const HOUSE: u32 = 1;

/// Chunks of the heap that are held back: a removal needs one for each kind of slot that it copies, at most. The slots of one
/// serve many removals, as each sync frees as many as were copied.
const CUSHION_MAX: usize = 8;

/// The fewest with which something may be added.
const CUSHION_MIN: usize = 2;

/// Copy-on-write trees in a heap, with one owner that changes them.
pub(crate) struct CowHeap {
    pub(super) shared: Arc<Shared>,
    /// The current directory, and its slot.
    pub(super) directory: Directory,
    pub(super) place: NvPtr<DirectorySlot>,
    pub(super) batch: Batch,
    pub(super) cushion: Cushion,
    scratch: Entries,
    /// The sequence of the last directory that dropped an owner.
    pub(super) dropped_at: u64,
    /// Whether a publication has failed, so that it may have happened or not.
    pub(super) is_lost: bool,
}

/// The changes of a statement beside the entries of trees.
pub(crate) struct Alteration {
    /// The slot, reserved, that the directory's attached word leads to.
    pub(crate) attached: AnyPtr,
    /// The trees and other owners that go, with all their slots.
    pub(crate) dropped: Vec<u32>,
}

impl CowHeap {
    /// Opens the store in the segments of `device`, which have no other user. Without a segment it makes one, with nodes of
    /// `node_len` bytes.
    ///
    /// # Panics
    /// If `node_len` is not a power of two from 256 to 16,384.
    pub(crate) fn open(device: &Device, node_len: usize) -> Result<Self> {
        assert!(is_node_len(node_len), "a node of {node_len} bytes");
        let heap = Heap::open(device)?;
        let master = heap.root(MASTER).map(NvPtr::from_word);
        let directory = match master {
            Some(place) => Directory::read(&heap, place)?,
            None => Directory::new(node_len),
        };
        let mut store = Self {
            shared: Arc::new(Shared::new(heap, directory.node_len)),
            place: master.unwrap_or(NvPtr::NULL),
            batch: Batch::of((*directory.roots).clone()),
            cushion: Cushion::new(CUSHION_MIN, CUSHION_MAX),
            scratch: Entries::default(),
            dropped_at: directory.sequence,
            is_lost: false,
            directory,
        };
        if master.is_none() {
            store.create()?;
        }
        Ok(store)
    }

    /// The heap that words lead into.
    pub(crate) fn shared(&self) -> &Shared {
        &self.shared
    }

    /// The heap, for slots that entries lead to: those that a transaction reserves are handed to [`CowHeap::add`].
    pub(crate) fn heap_mut(&self) -> RwLockWriteGuard<'_, Heap> {
        self.shared.heap.write()
    }

    /// The word that was attached last.
    pub(crate) fn attached(&self) -> u64 {
        self.directory.attached
    }

    /// Whether commits may be lost, so that the store has to be opened again.
    pub(crate) fn is_lost(&self) -> bool {
        self.is_lost
    }

    fn root(&self, tree: u32) -> Option<Root> {
        self.batch.roots.get(&tree).copied()
    }

    /// The word of a key in a tree, as the commits have it. A tree without entries need not exist.
    pub(crate) fn get(&self, tree: u32, key: &[u8]) -> Result<Option<u64>> {
        let _in = Component::Index.enter();
        let (heap, dirty) = (self.shared.heap(), Some(&self.batch.dirty));
        word_of(Reader { heap: &heap, shared: &self.shared, dirty }, self.root(tree), key)
    }

    /// The entries of a range of a tree.
    pub(crate) fn scan(
        &self,
        tree: u32,
        range: Range<'_>,
        direction: Direction,
    ) -> CowHeapScan<'_> {
        let dirty = Some(&self.batch.dirty);
        CowHeapScan::new(&self.shared, dirty, self.root(tree), range, direction)
    }

    /// A reader of the current directory, which stays as it is.
    pub(crate) fn snapshot(&self) -> HeapSnapshot {
        let Directory { sequence, roots, .. } = &self.directory;
        HeapSnapshot::new(Arc::clone(&self.shared), *sequence, Arc::clone(roots))
    }

    /// Sets the word of a key in a tree, in a transaction. Returns the former one.
    pub(crate) fn put(&mut self, tree: u32, key: &[u8], value: u64) -> Result<Option<u64>> {
        let _in = Component::Index.enter();
        if key.len() > KEY_LEN_MAX {
            return Err(Error::KeyTooLong { len: key.len() });
        }
        let mut before = None;
        self.change(tree, |writer, root| {
            put(writer, root, key, &value.to_le_bytes(), true, |old| before = Some(word(old, 0)))
        })?;
        Ok(before)
    }

    /// Removes an entry of a tree, in a transaction. Returns its word.
    pub(crate) fn remove(&mut self, tree: u32, key: &[u8]) -> Result<Option<u64>> {
        let _in = Component::Index.enter();
        let mut before = None;
        self.change(tree, |writer, root| {
            remove(writer, root, key, |old| before = Some(word(old, 0)))
        })?;
        Ok(before)
    }

    fn change(
        &mut self,
        tree: u32,
        change: impl FnOnce(&mut Writer<'_>, &mut Option<Root>) -> Result<bool>,
    ) -> Result<()> {
        let before = self.root(tree);
        let mut root = before;
        let mut writer = Writer {
            heap: &mut self.shared.heap.write(),
            shared: &self.shared,
            batch: &mut self.batch,
            owner: owner(tree),
            scratch: &mut self.scratch,
        };
        change(&mut writer, &mut root)?;
        if root != before {
            self.batch.set_root(tree, root);
        }
        Ok(())
    }

    /// Takes slots in that the transaction has reserved, and that its entries lead to.
    pub(crate) fn add(&mut self, slots: impl IntoIterator<Item = AnyPtr>) {
        slots.into_iter().for_each(|slot| self.batch.add(slot));
    }

    /// Does without slots to which no entry leads from the transaction on.
    pub(crate) fn drop_slots(&mut self, slots: impl IntoIterator<Item = AnyPtr>) {
        slots.into_iter().for_each(|slot| self.batch.drop_slot(slot));
    }

    /// Finishes the transaction: it is one of the group that the next sync makes durable.
    pub(crate) fn finish(&mut self) -> Result<()> {
        let _in = Component::Recovery.enter();
        let done = self.batch.finish(&mut self.shared.heap.write());
        self.losing(done)
    }

    /// Undoes the transaction: the group is as before it.
    pub(crate) fn undo(&mut self) -> Result<()> {
        let done = self.batch.undo(&mut self.shared.heap.write());
        self.losing(done)
    }

    fn losing(&mut self, done: Result<()>) -> Result<()> {
        self.is_lost |= done.is_err();
        done
    }

    /// Slots that the group and its transaction activate and free.
    pub(crate) fn changes(&self) -> usize {
        self.batch.changes()
    }

    /// Holds back the space that removals may need.
    pub(crate) fn hold_space(&mut self) -> Result<()> {
        Ok(self.cushion.fill(&mut self.shared.heap.write(), owner(HOUSE))?)
    }

    /// Lets that space be used. Returns whether there was any.
    pub(crate) fn give_space(&mut self) -> Result<bool> {
        Ok(self.cushion.give(&mut self.shared.heap.write())?)
    }
}

/// The owner of a tree's slots.
///
/// # Panics
/// If the number is none of a tree: its user checks it.
pub(super) fn owner(tree: u32) -> Owner {
    Owner::new(tree).expect("numbers of trees are checked")
}

/// Whether an error says that there is no room.
pub(crate) fn is_full(error: &Error) -> bool {
    matches!(error, Error::Heap(SpaceError::Full { .. }))
}
