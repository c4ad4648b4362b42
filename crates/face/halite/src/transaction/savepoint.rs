//! Points within a transaction that it can go back to.
//!
//! A savepoint is a length of the undo log, which holds the previous value for each write since the first savepoint.

use halite_contract::KeySpaceId;

use super::write_set::{ENTRY_BYTES, Written, bytes_of};

/// A point within a transaction: [`Transaction::savepoint`](crate::Transaction::savepoint).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Savepoint {
    pub(super) transaction: u64,
    pub(super) number: u64,
}

/// The state that a write replaced.
pub(super) enum Undo {
    /// `before` is the earlier write of the key; `None` if the transaction had not written it.
    Key { space: KeySpaceId, key: Box<[u8]>, before: Option<Written> },
    /// The written keys in a range that was deleted.
    Range { space: KeySpaceId, removed: Vec<(Box<[u8]>, Written)> },
}

impl Undo {
    fn bytes(&self) -> usize {
        match self {
            Self::Key { key, before, .. } => {
                bytes_of(key, before.as_ref().and_then(|written| written.as_deref()))
            }
            Self::Range { removed, .. } => {
                let removed = removed.iter();
                ENTRY_BYTES
                    + removed.map(|(key, written)| bytes_of(key, written.as_deref())).sum::<usize>()
            }
        }
    }
}

/// The savepoints of a transaction and its undo log.
#[derive(Default)]
pub(super) struct Savepoints {
    /// Numbers, ascending, with how long the log was.
    points: Vec<(u64, usize)>,
    log: Vec<Undo>,
    next: u64,
    /// Bytes that the log takes.
    bytes: usize,
}

impl Savepoints {
    /// Adds a savepoint; its number.
    pub(super) fn add(&mut self) -> u64 {
        self.points.push((self.next, self.log.len()));
        self.next += 1;
        self.next - 1
    }

    /// Adds an entry to the undo log, if there is a savepoint.
    pub(super) fn note(&mut self, undo: impl FnOnce() -> Undo) {
        if !self.points.is_empty() {
            let undo = undo();
            self.bytes += undo.bytes();
            self.log.push(undo);
        }
    }

    /// Bytes that a note of a key costs at least.
    pub(super) fn cost(&self, key: &[u8]) -> usize {
        if self.points.is_empty() { 0 } else { bytes_of(key, None) }
    }

    /// Bytes of memory.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// The undo entries since a savepoint, the oldest first; the savepoints after it are discarded.
    pub(super) fn undo_to(&mut self, number: u64) -> Option<Vec<Undo>> {
        let at = self.points.binary_search_by_key(&number, |(number, _)| *number).ok()?;
        self.points.truncate(at + 1);
        let undone = self.log.split_off(self.points[at].1);
        self.bytes -= undone.iter().map(Undo::bytes).sum::<usize>();
        Some(undone)
    }
}
