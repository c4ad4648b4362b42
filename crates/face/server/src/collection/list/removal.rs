//! Removals of many elements of a list, from the cheaper side: either those that go are removed one by one, or those that
//! stay are written anew, and the old ones are dropped as a whole.

use std::ops::Range;
use std::slice;

use super::{Elements, GAP, Inline, List, MIDDLE, State};
use crate::collection::packed::Packed;
use crate::collection::{check_ending, damaged, listpack};
use crate::counted_tree::CountedTree;
use crate::failure::Outcome;
use crate::store::{Order, Resident, Store};
use crate::stored::Type;

/// Elements that are written anew at once: a scan sees the state of its beginning, and nothing is changed beside it.
const MOVED_AT_ONCE: usize = 1024;

/// Elements of a list at which is looked at each removal whether it may be one record.
const LOOKED_AT: usize = 16;

impl List {
    /// Removes `count` elements from a number on, all of which are there.
    pub(crate) fn remove_range(&mut self, store: &mut Store, from: usize, count: usize) -> Outcome {
        let len = self.len(store)?;
        let removed = from..from + count;
        self.remove_ranges(store, slice::from_ref(&removed), &[0..from, from + count..len])
    }

    /// Removes all elements but those of a range, all of which are there.
    pub(crate) fn keep_range(&mut self, store: &mut Store, kept: Range<usize>) -> Outcome {
        let ends = [0..kept.start, kept.end..self.len(store)?];
        let removed: Vec<_> = ends.into_iter().filter(|range| !range.is_empty()).collect();
        self.remove_ranges(store, &removed, &[kept])
    }

    /// Removes elements by their numbers, which are in ascending order.
    pub(crate) fn remove_all(&mut self, store: &mut Store, indexes: &[usize]) -> Outcome {
        let len = self.len(store)?;
        let (mut removed, mut kept) = (Vec::<Range<usize>>::new(), Vec::new());
        let mut end = 0;
        for &index in indexes {
            match removed.last_mut() {
                Some(last) if last.end == index => last.end += 1,
                _ => {
                    kept.push(end..index);
                    removed.push(index..index + 1);
                }
            }
            end = index + 1;
        }
        kept.push(end..len);
        self.remove_ranges(store, &removed, &kept)
    }

    /// Removes the elements of some ranges; those of the others stay.
    fn remove_ranges(
        &mut self,
        store: &mut Store,
        removed: &[Range<usize>],
        kept: &[Range<usize>],
    ) -> Outcome {
        let count = |ranges: &[Range<usize>]| ranges.iter().map(ExactSizeIterator::len).sum();
        let (removed_count, kept_count): (usize, usize) = (count(removed), count(kept));
        if removed_count == 0 {
            return Ok(());
        }
        self.removed += removed_count;
        match self.state {
            _ if kept_count == 0 => {
                self.state = State::Packed(Inline::new());
                self.is_changed = true;
                Ok(())
            }
            State::Packed(_) => {
                self.remove_packed(removed);
                Ok(())
            }
            // Before the list is saved, its elements do not go with its record.
            State::Elements(elements) if kept_count < removed_count && !self.is_changed => {
                self.write_anew(store, &elements, kept)
            }
            State::Elements(elements) => self.remove_elements(store, &elements, removed),
        }
    }

    fn remove_packed(&mut self, removed: &[Range<usize>]) {
        let State::Packed(inline) = &mut self.state else { return };
        let mut rest = Packed::new(Type::List);
        let mut ranges = removed.iter().peekable();
        for (index, (_, bytes)) in inline.packed.iter().enumerate() {
            ranges.next_if(|range| range.end <= index);
            if ranges.peek().is_none_or(|range| index < range.start) {
                rest.push(bytes);
            }
        }
        *inline = Inline::of(rest);
        self.is_changed = true;
    }

    fn remove_elements(
        &mut self,
        store: &mut Store,
        elements: &Elements,
        removed: &[Range<usize>],
    ) -> Outcome {
        // From the end on, so that the numbers before stay the same.
        for index in removed.iter().rev().flat_map(|range| range.clone().rev()) {
            check_ending(store)?;
            if let Some(position) = self.positions(store, elements)?.get(index) {
                store.remove_element(elements, &position.to_be_bytes())?;
                self.positions(store, elements)?.remove_at(index);
            }
        }
        self.has_changed_elements = true;
        Ok(())
    }

    /// Writes the elements of some ranges under a new number; with the old one, the others go when the list is saved.
    fn write_anew(
        &mut self,
        store: &mut Store,
        elements: &Elements,
        kept: &[Range<usize>],
    ) -> Outcome {
        if self.pack(store, elements, kept)? {
            return Ok(());
        }
        let renewed = store.new_elements(self.db, &self.key)?;
        let mut positions = CountedTree::default();
        for range in kept {
            for from in range.clone().step_by(MOVED_AT_ONCE) {
                check_ending(store)?;
                let count = MOVED_AT_ONCE.min(range.end - from);
                let first = self.element_key(store, elements, from)?;
                let moved = store.scan(elements, &first, Order::Ascending)?.take(count);
                for (_, element) in moved.collect::<Result<Vec<_>, _>>()? {
                    let position = MIDDLE + positions.len() as u64 * GAP;
                    store.put_element(&renewed, &position.to_be_bytes(), &element)?;
                    positions.insert(position);
                }
            }
        }
        store.resident(&renewed, |_| Ok(Resident::Positions(positions)))?;
        self.state = State::Elements(renewed);
        self.is_changed = true;
        Ok(())
    }

    /// The key of the element with a number, which is there.
    fn element_key(
        &self,
        store: &mut Store,
        elements: &Elements,
        index: usize,
    ) -> Outcome<[u8; 8]> {
        let position = self.positions(store, elements)?.get(index);
        let position = position.ok_or_else(|| damaged(&self.key, "an element is missing"))?;
        Ok(position.to_be_bytes())
    }

    /// Makes a list of elements one record if it has become so small.
    pub(super) fn pack_if_small(&mut self, store: &mut Store) -> Outcome {
        let State::Elements(elements) = self.state else { return Ok(()) };
        // Elements that the list got just now do not go with its record.
        if self.removed == 0 || self.is_changed {
            return Ok(());
        }
        let len = self.len(store)?;
        let half = store.inline_limits.list_len_max() / 2;
        // The size is not known, and of a longer list is looked at now and then.
        if self.removed > 1 || len <= LOOKED_AT || len == half || len.is_power_of_two() {
            self.pack(store, &elements, slice::from_ref(&(0..len)))?;
        }
        Ok(())
    }

    /// Makes the elements of some ranges one record if they are small enough together; returns whether they are.
    fn pack(
        &mut self,
        store: &mut Store,
        elements: &Elements,
        kept: &[Range<usize>],
    ) -> Outcome<bool> {
        let len = kept.iter().map(ExactSizeIterator::len).sum();
        if len > store.inline_limits.list_len_max() / 2 {
            return Ok(false);
        }
        let mut inline = Inline::new();
        for range in kept.iter().filter(|range| !range.is_empty()) {
            let first = self.element_key(store, elements, range.start)?;
            for pair in store.scan(elements, &first, Order::Ascending)?.take(range.len()) {
                let (_, element) = pair?;
                let bytes = inline.listpack_len + listpack::entry_len(&element);
                if !store.inline_limits.takes_list_back(len, bytes) {
                    return Ok(false);
                }
                inline.insert(inline.packed.end(), &element);
            }
        }
        self.state = State::Packed(inline);
        self.is_changed = true;
        Ok(true)
    }
}
