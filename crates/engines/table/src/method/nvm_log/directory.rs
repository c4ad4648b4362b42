//! The memtables of an index, and the slot that lists them.
//!
//! ```text
//! building u64 | check u64 | bytes u64 | words u64, check u64 | memtable..        the mutable one first, then the newest
//! memtable:  header of the tree u64 | bytes u64 | blocks of the filter u64 | slot of the filter u64..
//! ```
//!
//! A root leads to the directory of each index. A change of the list is a new directory, by one publication with all that
//! the list gains and loses. The first word leads to the tree that a compaction is building, or is zero: what that tree has
//! counts only once it is listed, and after a crash it is dropped. `bytes` is how many the mutable memtable has, about: it
//! is stored now and then, and nothing depends on it but when a memtable is full.

use halite_alloc::heap::{Heap, NvPtr, Publication, Tag, Tagged};
use xxhash_rust::xxh3::xxh3_64_with_seed;

use super::filter::Filter;
use super::memtable::{Memtable, owners};
use super::{FIRST_OWNER, MEMTABLES_MAX};
use crate::index::nonvolatile::NonVolatileTree;
use crate::method::catalog_slot::{OWNERS_END, owner};
use crate::method::house::{HOUSE, root_of};
use crate::{Error, IndexId, Result};

/// Where the words are.
const BUILDING_AT: u64 = 0;
const BUILDING_CHECK_AT: u64 = 8;
const BYTES_AT: u64 = 16;

/// The slot of a directory.
#[derive(Debug)]
pub(super) enum Directory {}

impl Tagged for Directory {
    const TAG: Tag = Tag::new(23);
}

/// An index: its memtables.
#[derive(Debug)]
pub(super) struct LogIndex {
    directory: NvPtr<Directory>,
    /// The mutable memtable, and the immutable ones behind it, the newest first.
    pub(super) memtables: Vec<Memtable>,
    /// The tree that a compaction is building.
    pub(super) building: Option<NonVolatileTree>,
    /// The bytes of the mutable memtable that are stored.
    stored: u64,
}

impl LogIndex {
    /// Writes the directory of an index in the place of another one, which the publication frees, or of none.
    pub(super) fn write(
        heap: &mut Heap,
        index: IndexId,
        (memtables, building): (Vec<Memtable>, Option<NonVolatileTree>),
        before: Option<&Self>,
        publication: &mut Publication,
    ) -> Result<Self> {
        let list: Vec<u64> = memtables.iter().flat_map(encode).collect();
        let directory = heap.reserve::<Directory>(owner(HOUSE), 8 * (5 + list.len()) as u64)?;
        let seed = seed(heap, directory);
        let stored = memtables[0].bytes;
        let head = [
            building.map_or(0, |tree| tree.header().word()),
            check(&[building.map_or(0, |tree| tree.header().word())], seed),
            stored,
            list.len() as u64,
            check(&list, seed),
        ];
        let bytes: Vec<u8> = head.iter().chain(&list).flat_map(|word| word.to_le_bytes()).collect();
        heap.write(directory, 0, &bytes)?;
        publication.activate(directory);
        publication.set_root(&root_of(index), directory.word());
        if let Some(before) = before {
            publication.free(before.directory);
        }
        Ok(Self { directory, memtables, building, stored })
    }

    /// Reads the directory that a root's word leads to.
    pub(super) fn read(heap: &Heap, index: IndexId, word: u64) -> Result<Self> {
        let damaged = |why| Error::damaged(format!("the directory of index {}", index.0), why);
        let directory = NvPtr::<Directory>::from_word(word);
        let seed = seed(heap, directory);
        let bytes = heap.read(directory)?;
        let words: Vec<u64> =
            bytes.as_chunks().0.iter().map(|&word| u64::from_le_bytes(word)).collect();
        let [building, building_check, stored, len, list_check, rest @ ..] = &words[..] else {
            return Err(damaged("it is too short"));
        };
        let list = usize::try_from(*len).ok().and_then(|len| rest.get(..len));
        let list = list.filter(|list| check(list, seed) == *list_check);
        if check(&[*building], seed) != *building_check {
            return Err(damaged("the word of what is built does not have its check"));
        }
        let mut list = list.ok_or_else(|| damaged("it does not have its check"))?;
        let mut memtables = Vec::new();
        while !list.is_empty() && memtables.len() <= MEMTABLES_MAX {
            let parts = decode(list).ok_or_else(|| damaged("its parts are not whole"))?;
            let (header, bytes, filter) = (parts.header, parts.bytes, parts.filter);
            memtables.push(Memtable { tree: open_tree(heap, header)?, bytes, filter });
            list = parts.rest;
        }
        let Some(mutable) = memtables.first_mut().filter(|_| list.is_empty()) else {
            return Err(damaged("it has no memtable, or too many"));
        };
        mutable.bytes = *stored;
        let building = match *building {
            0 => None,
            header => Some(open_tree(heap, header)?),
        };
        Ok(Self { directory, memtables, building, stored: *stored })
    }

    /// The mutable memtable.
    pub(super) fn mutable(&self) -> &Memtable {
        &self.memtables[0]
    }

    /// The immutable ones, the newest first.
    pub(super) fn immutable(&self) -> &[Memtable] {
        &self.memtables[1..]
    }

    /// The directory's slot.
    pub(super) fn directory(&self) -> NvPtr<Directory> {
        self.directory
    }

    /// The trees of all memtables, and the one that is built.
    pub(super) fn trees(&self) -> impl Iterator<Item = &NonVolatileTree> {
        self.memtables.iter().map(|memtable| &memtable.tree).chain(&self.building)
    }

    /// Has a publication lead to the tree that is built, or to none.
    pub(super) fn set_building(
        &self,
        heap: &Heap,
        building: Option<&NonVolatileTree>,
        publication: &mut Publication,
    ) {
        let word = building.map_or(0, |tree| tree.header().word());
        publication.store(self.directory, BUILDING_AT, word);
        let check = check(&[word], seed(heap, self.directory));
        publication.store(self.directory, BUILDING_CHECK_AT, check);
    }

    /// Has a publication drop the index.
    pub(super) fn drop(&self, index: IndexId, publication: &mut Publication) {
        publication.remove_root(&root_of(index));
        publication.free(self.directory);
        self.trees().flat_map(owners).for_each(|owner| publication.drop_owner(owner));
    }

    /// Counts bytes by which the mutable memtable grows, and stores the count when it has grown by a sixteenth of those
    /// that fill it.
    pub(super) fn count(&mut self, heap: &mut Heap, growth: i64, full: u64) -> Result<()> {
        let mutable = &mut self.memtables[0];
        mutable.bytes = mutable.bytes.saturating_add_signed(growth);
        if mutable.bytes < full && mutable.bytes.saturating_sub(self.stored) > full / 16 {
            self.stored = mutable.bytes;
            heap.store_word(self.directory, BYTES_AT, self.stored)?;
        }
        Ok(())
    }
}

fn encode(memtable: &Memtable) -> Vec<u64> {
    let filter = memtable.filter.iter();
    let blocks = memtable.filter.as_ref().map_or(0, |filter| filter.blocks() as u64);
    let head = [memtable.tree.header().word(), memtable.bytes, blocks];
    head.into_iter()
        .chain(filter.flat_map(|filter| filter.slots()).map(|slot| slot.word()))
        .collect()
}

/// A memtable of a list.
struct Parts<'a> {
    header: u64,
    bytes: u64,
    filter: Option<Filter>,
    rest: &'a [u64],
}

fn decode(list: &[u64]) -> Option<Parts<'_>> {
    let (&[header, bytes, blocks], rest) = list.split_first_chunk()?;
    let slots = usize::try_from(Filter::slots_of(blocks)).ok()?;
    let (slots, rest) = rest.split_at_checked(slots)?;
    let filter = match blocks {
        0 => None,
        _ => Some(Filter::of(blocks, slots.iter().map(|&slot| NvPtr::from_word(slot)).collect())?),
    };
    Some(Parts { header, bytes, filter, rest })
}

/// Opens the tree of a memtable.
fn open_tree(heap: &Heap, header: u64) -> Result<NonVolatileTree> {
    let tree = NonVolatileTree::open(heap, NvPtr::from_word(header))?;
    let number = tree.owner().number();
    match number >= FIRST_OWNER && number % 2 == 0 && number + 1 < OWNERS_END {
        true => Ok(tree),
        false => {
            let what = format!("the memtable at {header:#018x}");
            Err(Error::damaged(what, "its tree has the owner of something else"))
        }
    }
}

fn seed(heap: &Heap, directory: NvPtr<Directory>) -> u64 {
    heap.salt() ^ directory.word()
}

fn check(words: &[u64], seed: u64) -> u64 {
    let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
    xxh3_64_with_seed(&bytes, seed)
}
