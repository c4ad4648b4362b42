//! The check of a whole store.

use std::collections::HashSet;
use std::ops::Bound;

use halite_alloc::heap::{AnyPtr, Heap, NvPtr};

use super::garbage::{Garbage, Part};
use super::node::{CowKey, CowNode, HEAD, damaged};
use super::read::Reader;
use super::store::CowHeap;
use crate::index::Result;
use crate::index::btree::scan::{Direction, Scan};
use crate::index::btree::{Root, get, shape_of};
use crate::index::node::{self, Key};

impl CowHeap {
    /// Checks the current directory, its trees and the garbage, and hands over every pointer that a slot is reached by, but
    /// for those that entries lead to and the attached one. The group has to be synced.
    pub(crate) fn check(&self, heap: &Heap, visit: &mut dyn FnMut(AnyPtr)) -> Result<()> {
        visit(self.place.any());
        self.check_garbage(heap, visit)?;
        let reader = Reader { heap, shared: &self.shared, dirty: None };
        let mut seen = HashSet::new();
        for &root in self.directory.roots.values() {
            walk(reader, root, &mut seen, visit)?;
            check_order(reader, root)?;
        }
        Ok(())
    }

    fn check_garbage(&self, heap: &Heap, visit: &mut dyn FnMut(AnyPtr)) -> Result<()> {
        let (mut place, mut last, mut seen) = (self.directory.oldest, None, HashSet::new());
        let mut newest = NvPtr::<Garbage>::NULL;
        while !place.is_null() {
            let part = Part::read(heap, place)?;
            let is_behind = last <= Some(part.sequence) && seen.insert(place);
            if !is_behind || part.sequence > self.directory.sequence {
                return Err(damaged(place, "garbage is not in its order"));
            }
            visit(place.any());
            part.slots.iter().for_each(|&slot| visit(slot));
            last = Some(part.sequence);
            newest = place;
            place = part.next;
        }
        match newest == self.directory.newest {
            true => Ok(()),
            false => Err(damaged(newest, "the queue of garbage has another end")),
        }
    }
}

/// Visits all nodes of a tree and its long keys, parents first.
fn walk(
    reader: Reader<'_>,
    Root { id, level }: Root,
    seen: &mut HashSet<u64>,
    visit: &mut dyn FnMut(AnyPtr),
) -> Result<()> {
    let pointer = NvPtr::<CowNode>::from_word(id);
    if !seen.insert(id) {
        return Err(damaged(pointer, "it is in two places of the trees"));
    }
    visit(pointer.any());
    let slot = reader.slot(id, level)?;
    // It may have been checked when it was read first.
    reader.check(pointer, slot)?;
    let (node, shape) = (&slot[HEAD..], shape_of::<Reader<'_>>(level));
    for index in 0..node::count(node) {
        if index >= shape.keyless
            && let Key::Long(reference, len) = node::key(node, shape, index)
        {
            reader.key(reference, len)?;
            visit(NvPtr::<CowKey>::from_word(reference).any());
        }
        if level > 0 {
            let child = node::child(node, shape, index);
            walk(reader, Root { id: child, level: level - 1 }, seen, visit)?;
        }
    }
    Ok(())
}

/// Checks that the keys of a tree ascend, and that each is found.
fn check_order(reader: Reader<'_>, root: Root) -> Result<()> {
    let pointer = NvPtr::<CowNode>::from_word(root.id);
    let all = (Bound::Unbounded, Bound::Unbounded);
    let mut scan = Scan::new(&reader, Some(root), all, Direction::Forward)?;
    let mut last = None::<Vec<u8>>;
    while scan.advance()? {
        if last.is_some_and(|last| last.as_slice() >= scan.key()) {
            return Err(damaged(pointer, "the keys below it are not in order"));
        }
        // A key in the wrong subtree is not found.
        if get(&reader, Some(root), scan.key(), |_| ())?.is_none() {
            return Err(damaged(pointer, "a key below it is in the wrong place"));
        }
        last = Some(scan.key().to_vec());
    }
    Ok(())
}
