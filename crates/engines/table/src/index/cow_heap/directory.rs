//! The directory: the roots of the trees, and what else a synced state leads to.
//!
//! ```text
//!  check u64 | sequence u64 | attached u64 | oldest garbage u64 | newest u64 | node length u32 | trees u32
//!  | (root u64, tree u32, level u32) x trees
//! ```
//!
//! The attached word is the user's: a pointer to a slot of its own. Each publication of the store writes the directory
//! anew, with the next sequence, and swings the master to it: the named root of the heap.

use std::collections::BTreeMap;
use std::sync::Arc;

use halite_alloc::heap::{Heap, NvPtr, Owner, Publication, Tag, Tagged};

use super::garbage::{Garbage, NEXT_AT};
use super::node::{damaged, has_check, is_node_len, seal, word};
use crate::index::Result;
use crate::index::btree::{LEVELS_MAX, Root};

/// The name of the root that leads to the current directory.
pub(super) const MASTER: &str = "master";

const HEAD: usize = 48;
const TREE: usize = 16;

/// The slot of a directory.
#[derive(Debug)]
pub(super) enum DirectorySlot {}

impl Tagged for DirectorySlot {
    const TAG: Tag = Tag::new(52);
}

/// The roots of trees that have entries, by their numbers.
pub(super) type Roots = BTreeMap<u32, Root>;

/// A synced state.
#[derive(Debug, Clone)]
pub(super) struct Directory {
    pub(super) sequence: u64,
    pub(super) attached: u64,
    pub(super) oldest: NvPtr<Garbage>,
    pub(super) newest: NvPtr<Garbage>,
    pub(super) node_len: usize,
    pub(super) roots: Arc<Roots>,
}

impl Directory {
    /// That of a store without entries.
    pub(super) fn new(node_len: usize) -> Self {
        let (oldest, newest, roots) = (NvPtr::NULL, NvPtr::NULL, Arc::default());
        Self { sequence: 0, attached: 0, oldest, newest, node_len, roots }
    }

    /// Reads and checks the directory in a slot.
    pub(super) fn read(heap: &Heap, place: NvPtr<DirectorySlot>) -> Result<Self> {
        let slot = heap.read(place)?;
        let no_check = || damaged(place, "the directory does not have its check");
        let head = slot.get(..HEAD).ok_or_else(no_check)?;
        let short = |at| u32::from_le_bytes(*head[at..].first_chunk().expect("there are four"));
        let (node_len, trees) = (short(40) as usize, short(44) as usize);
        let len = trees.checked_mul(TREE).and_then(|len| len.checked_add(HEAD));
        let bytes = len.and_then(|len| slot.get(..len)).ok_or_else(no_check)?;
        if !has_check(heap.salt(), place, bytes) {
            return Err(no_check());
        }
        let mut roots = Roots::new();
        for tree in bytes[HEAD..].chunks_exact(TREE) {
            let (id, last) = (word(tree, 0), word(tree, 8));
            let (number, level) = (last as u32, last >> 32);
            if level >= LEVELS_MAX as u64 || Owner::new(number).is_none() {
                return Err(damaged(place, "the directory has no tree like that"));
            }
            roots.insert(number, Root { id, level: level as u8 });
        }
        if !is_node_len(node_len) {
            return Err(damaged(place, "the directory has a wrong length of nodes"));
        }
        Ok(Self {
            sequence: word(head, 8),
            attached: word(head, 16),
            oldest: NvPtr::from_word(word(head, 24)),
            newest: NvPtr::from_word(word(head, 32)),
            node_len,
            roots: Arc::new(roots),
        })
    }

    /// Writes the directory to a slot that it reserves.
    pub(super) fn write(&self, heap: &mut Heap, owner: Owner) -> Result<NvPtr<DirectorySlot>> {
        let mut bytes = vec![0; 8];
        let words = [self.sequence, self.attached, self.oldest.word(), self.newest.word()];
        bytes.extend(words.into_iter().flat_map(u64::to_le_bytes));
        bytes.extend((self.node_len as u32).to_le_bytes());
        bytes.extend((self.roots.len() as u32).to_le_bytes());
        for (&tree, root) in self.roots.iter() {
            bytes.extend(root.id.to_le_bytes());
            bytes.extend((u64::from(tree) | u64::from(root.level) << 32).to_le_bytes());
        }
        let place = heap.reserve::<DirectorySlot>(owner, bytes.len() as u64)?;
        seal(heap.salt(), place, &mut bytes);
        heap.write(place, 0, &bytes)?;
        Ok(place)
    }

    /// Takes all garbage behind one out of the queue, if the caller asks for that (behind null, all that there is), and puts
    /// other garbage at its end, of which each leads to the next.
    pub(super) fn queue(
        &mut self,
        cut_behind: Option<NvPtr<Garbage>>,
        written: &[NvPtr<Garbage>],
        publication: &mut Publication,
    ) {
        let last = cut_behind.unwrap_or(self.newest);
        if cut_behind.is_none() && written.is_empty() {
            return;
        }
        let first = written.first().copied().unwrap_or(NvPtr::NULL);
        match last.is_null() {
            true => self.oldest = first,
            false => publication.store(last, NEXT_AT, first.word()),
        }
        self.newest = written.last().copied().unwrap_or(last);
    }
}
