//! The write set of a transaction that is not committed.
//!
//! Of each key only the last write counts, so a write is an entry of an ordered map, which reads and scans look
//! at before the snapshot. The deletion of a range removes the entries in it and is noted beside them. So a
//! commit deletes ranges first and then writes keys, in whichever order they came.
//!
//! As long as there are savepoints, each change is noted in the undo log.

use std::collections::{BTreeMap, btree_map};
use std::ops::Bound;

use halite_contract::{KeyRange, KeySpaceId, Op};

use super::savepoint::{Savepoints, Undo};

/// Bytes of memory that an entry of a map takes besides its keys and values, roughly.
pub(super) const ENTRY_BYTES: usize = 96;

/// The value that a write gives to a key; `None` for a deletion.
pub(super) type Written = Option<Box<[u8]>>;

/// The writes to one key space.
#[derive(Default)]
pub(super) struct SpaceWrites {
    keys: BTreeMap<Box<[u8]>, Written>,
    /// Ranges that were deleted before the writes of `keys`.
    deleted: Vec<KeyRange>,
}

/// The writes of a transaction.
#[derive(Default)]
pub(super) struct WriteSet {
    spaces: BTreeMap<KeySpaceId, SpaceWrites>,
    savepoints: Savepoints,
    /// Bytes of memory.
    bytes: usize,
}

impl SpaceWrites {
    /// The write to a key: `None` if there is none, `Some(None)` if it is a deletion.
    pub(super) fn get(&self, key: &[u8]) -> Option<Option<&[u8]>> {
        match self.keys.get(key) {
            Some(written) => Some(written.as_deref()),
            None => self.is_in_deleted(key).then_some(None),
        }
    }

    /// Whether a key is in a range that was deleted.
    pub(super) fn is_in_deleted(&self, key: &[u8]) -> bool {
        self.deleted.iter().any(|range| range.contains(key))
    }

    /// The keys in a range that were written one by one.
    pub(super) fn range(&self, range: &KeyRange) -> btree_map::Range<'_, Box<[u8]>, Written> {
        self.keys.range::<[u8], _>(bounds(range))
    }
}

/// The bounds of a range as a map takes them.
fn bounds(range: &KeyRange) -> (Bound<&[u8]>, Bound<&[u8]>) {
    let end = match range.end() {
        // The bounds of an empty range may be in reverse order, on which a map's range would panic.
        Some(_) if range.is_empty() => Bound::Excluded(range.start()),
        Some(end) => Bound::Excluded(end),
        None => Bound::Unbounded,
    };
    (Bound::Included(range.start()), end)
}

/// Bytes of memory that a write takes.
pub(super) fn bytes_of(key: &[u8], value: Option<&[u8]>) -> usize {
    ENTRY_BYTES + key.len() + value.map_or(0, <[u8]>::len)
}

fn bytes_of_range(range: &KeyRange) -> usize {
    ENTRY_BYTES + range.start().len() + range.end().map_or(0, <[u8]>::len)
}

impl WriteSet {
    /// The writes to a key space, if there are any.
    pub(super) fn space(&self, space: KeySpaceId) -> Option<&SpaceWrites> {
        self.spaces.get(&space)
    }

    /// Whether there are no writes.
    pub(super) fn is_empty(&self) -> bool {
        self.spaces.values().all(|space| space.keys.is_empty() && space.deleted.is_empty())
    }

    /// Bytes of memory, with those of the undo log.
    pub(super) fn bytes(&self) -> usize {
        self.bytes + self.savepoints.bytes()
    }

    /// Bytes that [`WriteSet::write`] may add.
    pub(super) fn cost(&self, key: &[u8], value: Option<&[u8]>) -> usize {
        bytes_of(key, value) + self.savepoints.cost(key)
    }

    /// Sets a key, or deletes it.
    pub(super) fn write(&mut self, space: KeySpaceId, key: &[u8], value: Option<&[u8]>) {
        self.bytes += bytes_of(key, value);
        let keys = &mut self.spaces.entry(space).or_default().keys;
        let before = keys.insert(key.into(), value.map(Into::into));
        if let Some(before) = &before {
            self.bytes -= bytes_of(key, before.as_deref());
        }
        self.savepoints.note(|| Undo::Key { space, key: key.into(), before });
    }

    /// Deletes a range.
    pub(super) fn delete_range(&mut self, space: KeySpaceId, range: &KeyRange) {
        let SpaceWrites { keys, deleted } = self.spaces.entry(space).or_default();
        let inside: Vec<Box<[u8]>> =
            keys.range::<[u8], _>(bounds(range)).map(|(key, _)| key.clone()).collect();
        let mut removed = Vec::new();
        for key in inside {
            if let Some(written) = keys.remove(&key) {
                self.bytes -= bytes_of(&key, written.as_deref());
                removed.push((key, written));
            }
        }
        self.bytes += bytes_of_range(range);
        deleted.push(range.clone());
        self.savepoints.note(|| Undo::Range { space, removed });
    }

    /// Bytes that [`WriteSet::delete_range`] adds.
    pub(super) fn cost_of_range(range: &KeyRange) -> usize {
        bytes_of_range(range)
    }

    /// Notes the present, to be brought back.
    pub(super) fn savepoint(&mut self) -> u64 {
        self.savepoints.add()
    }

    /// Takes back the writes since a savepoint. Returns whether a savepoint of this number exists.
    pub(super) fn rollback_to(&mut self, savepoint: u64) -> bool {
        let Some(undone) = self.savepoints.undo_to(savepoint) else { return false };
        for undo in undone.into_iter().rev() {
            self.undo(undo);
        }
        true
    }

    fn undo(&mut self, undo: Undo) {
        match undo {
            Undo::Key { space, key, before } => {
                let keys = &mut self.spaces.entry(space).or_default().keys;
                if let Some(written) = keys.remove(&key) {
                    self.bytes -= bytes_of(&key, written.as_deref());
                }
                if let Some(before) = before {
                    self.bytes += bytes_of(&key, before.as_deref());
                    keys.insert(key, before);
                }
            }
            Undo::Range { space, removed } => {
                let SpaceWrites { keys, deleted } = self.spaces.entry(space).or_default();
                if let Some(range) = deleted.pop() {
                    self.bytes -= bytes_of_range(&range);
                }
                for (key, written) in removed {
                    self.bytes += bytes_of(&key, written.as_deref());
                    keys.insert(key, written);
                }
            }
        }
    }

    /// The operations of a commit.
    pub(super) fn ops(&self) -> Vec<Op<'_>> {
        let mut ops = Vec::new();
        for (&space, writes) in &self.spaces {
            let ranges = writes.deleted.iter();
            ops.extend(ranges.map(|range| Op::DeleteRange {
                space,
                start: range.start(),
                end: range.end(),
            }));
            ops.extend(writes.keys.iter().map(|(key, written)| match written {
                Some(value) => Op::Put { space, key, value },
                None => Op::Delete { space, key },
            }));
        }
        ops
    }

    /// The keys that were written one by one.
    pub(super) fn keys(&self) -> impl Iterator<Item = (KeySpaceId, &[u8])> {
        let spaces = self.spaces.iter();
        spaces.flat_map(|(&space, writes)| writes.keys.keys().map(move |key| (space, &key[..])))
    }

    /// The ranges that were deleted.
    pub(super) fn ranges(&self) -> impl Iterator<Item = (KeySpaceId, &KeyRange)> {
        let spaces = self.spaces.iter();
        spaces.flat_map(|(&space, writes)| writes.deleted.iter().map(move |range| (space, range)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SPACE: KeySpaceId = KeySpaceId(7);

    fn range(start: &[u8], end: &[u8]) -> KeyRange {
        KeyRange::new(start, Some(end.to_vec()))
    }

    #[test]
    fn the_last_write_of_a_key_counts() {
        let mut writes = WriteSet::default();
        writes.write(SPACE, b"a", Some(b"1"));
        writes.write(SPACE, b"b", Some(b"1"));
        writes.delete_range(SPACE, &range(b"a", b"b"));
        writes.write(SPACE, b"aa", Some(b"2"));
        writes.write(SPACE, b"b", None);
        let space = writes.space(SPACE).unwrap();
        assert_eq!(space.get(b"a"), Some(None));
        assert_eq!(space.get(b"aa"), Some(Some(&b"2"[..])));
        assert_eq!(space.get(b"b"), Some(None));
        assert_eq!(space.get(b"c"), None);
        let ops = writes.ops();
        let expected = [
            Op::DeleteRange { space: SPACE, start: b"a", end: Some(b"b") },
            Op::Put { space: SPACE, key: b"aa", value: b"2" },
            Op::Delete { space: SPACE, key: b"b" },
        ];
        assert_eq!(ops, expected);
    }

    #[test]
    fn bytes_come_back_with_what_took_them() {
        let mut writes = WriteSet::default();
        assert!(writes.is_empty());
        let outer = writes.savepoint();
        writes.write(SPACE, b"a", Some(b"1234"));
        let before = (writes.ops().len(), writes.bytes());
        let inner = writes.savepoint();
        writes.write(SPACE, b"a", Some(b"12"));
        writes.delete_range(SPACE, &range(b"a", b"c"));
        writes.write(SPACE, b"b", Some(b"1"));
        assert!(writes.rollback_to(inner));
        assert_eq!((writes.ops().len(), writes.bytes()), before);
        assert_eq!(writes.space(SPACE).unwrap().get(b"a"), Some(Some(&b"1234"[..])));
        assert!(writes.rollback_to(outer) && writes.is_empty() && writes.bytes() == 0);
        assert!(!writes.rollback_to(inner), "it came after the outer one");
        assert!(writes.rollback_to(outer), "it can be gone back to again");
    }
}
