//! The cursors of scans over ordered keys.
//!
//! The keys of a partition are in order, so a scan goes on behind the last key that it visited: a key that exists
//! during the whole scan is returned, however other keys change. A client holds a number, not a key: a cursor, for
//! which the partition keeps the key. A cursor may be used again, and by other clients.
//!
//! Cursors are kept while there is room. Then those are dropped first that their scans have passed: whose next cursor
//! was used, or that led to the end of the partition. Of the others, the least recently used one is dropped: its scan
//! was abandoned, or thousands of other scans began between two of its steps and were abandoned. A cursor that was
//! dropped, or is of an earlier run of the server, is not known, and its scan must begin anew: no key is skipped
//! silently.

use std::collections::{BTreeMap, HashMap};

use fastrand::Rng;

/// The cursors of a partition.
#[derive(Debug)]
pub(crate) struct Cursors {
    next: u64,
    positions: HashMap<u64, Position>,
    /// All cursors, the one first that is forgotten first.
    order: BTreeMap<Rank, u64>,
    /// Counts the uses of cursors.
    uses: u64,
    /// Bytes of all positions.
    bytes: usize,
    bytes_max: usize,
}

#[derive(Debug)]
struct Position {
    db: usize,
    key: Box<[u8]>,
    /// The cursor that the scan had before.
    before: Option<u64>,
    rank: Rank,
}

/// Whether the scan has yet to go on from a cursor, and when that was last used.
type Rank = (bool, u64);

/// The most bytes that cursors take, of all partitions; but for the last of each.
const BYTES_MAX: usize = 64 << 20;
/// The memory of a cursor beside its key, in bytes, about.
const POSITION_LEN: usize = 160;

impl Cursors {
    /// No cursor, of one of so many partitions. The first one will be random, so that those of an earlier run
    /// are not known.
    pub(crate) fn new(random: &mut Rng, partitions: usize) -> Self {
        Self {
            // Clients may keep cursors as signed or as floating-point numbers: 47 bits suit all, and
            // the number of the partition takes up to six of them.
            next: (random.u64(..) >> 23) + 1,
            positions: HashMap::new(),
            order: BTreeMap::new(),
            uses: 0,
            bytes: 0,
            bytes_max: BYTES_MAX / partitions,
        }
    }

    /// A cursor for the keys of `db` behind `key`, for a scan that has gone on from the cursor `before`.
    pub(crate) fn issue(&mut self, db: usize, key: &[u8], before: Option<u64>) -> u64 {
        let len = key.len() + POSITION_LEN;
        while self.bytes + len > self.bytes_max
            && let Some((_, oldest)) = self.order.pop_first()
        {
            let gone = self.positions.remove(&oldest);
            self.bytes -= gone.map_or(0, |position| position.key.len() + POSITION_LEN);
        }
        let cursor = self.next;
        self.next += 1;
        self.uses += 1;
        let rank = (true, self.uses);
        self.bytes += len;
        self.positions.insert(cursor, Position { db, key: key.into(), before, rank });
        self.order.insert(rank, cursor);
        cursor
    }

    /// The key behind which the scan with this cursor goes on, as it does now.
    pub(crate) fn use_again(&mut self, db: usize, cursor: u64) -> Option<Box<[u8]>> {
        let position = self.positions.get(&cursor).filter(|position| position.db == db)?;
        let (key, before) = (position.key.clone(), position.before);
        self.note(cursor, true);
        if let Some(before) = before {
            self.pass(before);
        }
        Some(key)
    }

    /// The scan with this cursor has gone on.
    pub(crate) fn pass(&mut self, cursor: u64) {
        self.note(cursor, false);
    }

    fn note(&mut self, cursor: u64, is_needed: bool) {
        let Some(position) = self.positions.get_mut(&cursor) else { return };
        self.uses += 1;
        self.order.remove(&position.rank);
        position.rank = (is_needed, self.uses);
        self.order.insert(position.rank, cursor);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::generator;

    const PARTITIONS: usize = 64;
    /// More than there is room for.
    const STEPS: usize = 2 * BYTES_MAX / PARTITIONS / POSITION_LEN;

    #[test]
    fn a_scan_takes_its_own_cursors_place_and_not_that_of_one_that_rests() {
        let mut cursors = Cursors::new(&mut generator(), PARTITIONS);
        let resting = cursors.issue(0, b"resting", None);
        let first = cursors.issue(0, b"x", None);
        let mut cursor = first;
        for _ in 0..STEPS {
            assert_eq!(cursors.use_again(0, cursor).as_deref(), Some(&b"x"[..]));
            cursor = cursors.issue(0, b"x", Some(cursor));
        }
        assert_eq!(cursors.use_again(0, first), None);
        assert_eq!(cursors.use_again(0, resting).as_deref(), Some(&b"resting"[..]));
        assert_eq!(cursors.positions.len(), cursors.order.len());
        assert!(cursors.bytes <= BYTES_MAX / PARTITIONS && cursors.positions.len() > STEPS / 3);
    }

    #[test]
    fn a_scan_that_goes_on_outlives_those_that_are_left() {
        let mut cursors = Cursors::new(&mut generator(), PARTITIONS);
        let left = cursors.issue(0, b"left", None);
        let mut cursor = cursors.issue(0, b"x", None);
        for step in 0..STEPS {
            cursors.issue(0, b"left", None);
            if step % (STEPS / 10) == 0 {
                assert!(cursors.use_again(0, cursor).is_some());
                cursor = cursors.issue(0, b"x", Some(cursor));
            }
        }
        assert!(cursors.use_again(0, cursor).is_some());
        assert_eq!(cursors.use_again(0, left), None);
    }

    #[test]
    fn a_cursor_belongs_to_its_database_and_run() {
        let mut cursors = Cursors::new(&mut generator(), 1);
        let cursor = cursors.issue(3, b"key", None);
        assert_eq!(cursors.use_again(0, cursor), None);
        assert_eq!(cursors.use_again(3, cursor + 1), None);
        assert_eq!(cursors.use_again(3, 1), None);
    }

    #[test]
    fn long_keys_take_the_place_of_many_short_ones() {
        let mut cursors = Cursors::new(&mut generator(), 1);
        let long = vec![b'k'; 64 << 10];
        for _ in 0..3000 {
            let cursor = cursors.issue(0, &long, None);
            assert_eq!(cursors.use_again(0, cursor).as_deref(), Some(&long[..]));
        }
        let len = long.len() + POSITION_LEN;
        assert!(cursors.bytes <= BYTES_MAX && cursors.positions.len() == BYTES_MAX / len);
    }
}
