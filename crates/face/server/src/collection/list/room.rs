//! Room between the positions of elements: where there is none left, elements nearby get other positions.
//!
//! The elements that move are those of a window around the place, which is doubled until positions in it can lie far
//! enough apart. So where many elements are inserted at one place, each costs a few writes, whatever the list's length is.

use super::{GAP, List, MIDDLE};
use crate::collection::damaged;
use crate::counted_tree::{CountedTree, Numbers};
use crate::failure::Outcome;
use crate::store::{Elements, Order, Store};

/// Elements of the smallest window.
const WINDOW: usize = 32;

/// Between the new positions, at least.
const NEW_GAP: u64 = 1 << 8;

impl List {
    /// Makes room before the element with a number, which is neither the first nor behind the last.
    pub(super) fn make_room(
        &mut self,
        store: &mut Store,
        elements: &Elements,
        index: usize,
    ) -> Outcome {
        let positions = self.positions(store, elements)?;
        let mut width = WINDOW;
        let (from, low, gap) = loop {
            let from = index.saturating_sub(width / 2);
            let to = (index + width / 2).min(positions.len());
            if from == 0 && to == positions.len() {
                return self.renumber(store, elements);
            }
            let (low, high) = around(positions, from, to);
            let gap = (high - low) / (to - from + 1) as u64;
            if gap >= NEW_GAP {
                break (from, low, gap);
            }
            width *= 2;
        };
        let count = (index + width / 2).min(positions.len()) - from;
        self.place(store, elements, from, count, (low + gap, gap))
    }

    /// Gives all elements new positions, around the middle.
    pub(super) fn renumber(&mut self, store: &mut Store, elements: &Elements) -> Outcome {
        let count = self.positions(store, elements)?.len();
        let first = MIDDLE - count as u64 / 2 * GAP;
        self.place(store, elements, 0, count, (first, GAP))
    }

    /// Gives `count` elements, from a number on, positions from `first` on with gaps between them.
    fn place(
        &mut self,
        store: &mut Store,
        elements: &Elements,
        from: usize,
        count: usize,
        (first, gap): (u64, u64),
    ) -> Outcome {
        let missing = || damaged(&self.key, "an element is missing");
        let start = self.positions(store, elements)?.get(from).ok_or_else(missing)?;
        let scan = store.scan(elements, &start.to_be_bytes(), Order::Ascending)?;
        let moved: Vec<_> = scan.take(count).collect::<Result<_, _>>()?;
        for (position, _) in &moved {
            store.remove_element(elements, position)?;
        }
        for ((_, element), nth) in moved.iter().zip(0..) {
            store.put_element(elements, &(first + nth * gap).to_be_bytes(), element)?;
        }
        self.has_changed_elements = true;
        let positions = self.positions(store, elements)?;
        for _ in &moved {
            positions.remove_at(from);
        }
        for nth in 0..moved.len() as u64 {
            positions.insert(first + nth * gap);
        }
        Ok(())
    }
}

/// The positions before and behind a window; where it has an end of the list, there is free space beside it.
fn around(positions: &CountedTree<Numbers>, from: usize, to: usize) -> (u64, u64) {
    let beside = GAP * (to - from) as u64;
    let at = |index| positions.get(index).unwrap_or(MIDDLE);
    let low = from.checked_sub(1).map_or_else(|| at(0).saturating_sub(beside), at);
    let high = match to == positions.len() {
        true => at(to - 1).saturating_add(beside),
        false => at(to),
    };
    (low, high)
}
