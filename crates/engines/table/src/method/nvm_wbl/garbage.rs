//! Garbage: entries and rows that no reader needs once a record covers the transaction that removed them. It is a queue in
//! DRAM; each item is looked at again before it is carried out, and what a crash forgets of it, a sweep finds (`sweep.rs`).

use std::collections::VecDeque;

use crate::{IndexId, TableId};

/// An entry or a row that may be superfluous.
#[derive(Debug, Clone)]
pub(super) enum Item {
    /// An entry of a secondary index, by its key in the tree.
    Entry { index: IndexId, key: Vec<u8> },
    /// A row, or a version of it that a crash left. Its entries are in the queue before it.
    Row { table: TableId, key: Vec<u8> },
}

/// The queue.
#[derive(Default)]
pub(super) struct Garbage {
    /// With the timestamps from which on no reader needs them.
    items: VecDeque<(u64, Item)>,
    /// Items that were carried out.
    done: u64,
}

impl Garbage {
    pub(super) fn push(&mut self, from: u64, item: Item) {
        self.items.push_back((from, item));
    }

    pub(super) fn is_empty(&self) -> bool {
        self.items.is_empty()
    }

    /// The item behind some others.
    pub(super) fn get(&self, behind: usize) -> Option<&(u64, Item)> {
        self.items.get(behind)
    }

    /// Takes the first items out, which were carried out.
    pub(super) fn drop_first(&mut self, count: usize) {
        self.items.drain(..count);
        self.done += count as u64;
    }

    /// Items that were ever there.
    pub(super) fn pushed(&self) -> u64 {
        self.done + self.items.len() as u64
    }

    /// Items that were carried out.
    pub(super) fn done(&self) -> u64 {
        self.done
    }
}
