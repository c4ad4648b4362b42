//! Where scans stand.
//!
//! The keys of a partition are in order, so a scan goes on behind the last key that it visited: a
//! key that is there all the time is returned whatever happens around it. The client holds a number
//! for that position. Positions are kept for the most recent cursors, so a cursor can be used
//! again; one that is too old, or not of this server's run, is not known, and its scan must begin
//! anew. Where the keys of a partition have no order, a position in its table takes the place of the key.

use std::collections::VecDeque;

use crate::random::Random;

/// The positions of a partition's most recent cursors.
#[derive(Debug)]
pub(crate) struct Cursors {
    /// The cursor of the first position.
    first: u64,
    positions: VecDeque<Position>,
    /// Bytes of all keys.
    bytes: usize,
    /// The most positions, and the most bytes of their keys.
    count_max: usize,
    bytes_max: usize,
}

#[derive(Debug)]
struct Position {
    db: usize,
    key: Box<[u8]>,
}

/// The most cursors that are known, of all partitions.
const COUNT_MAX: usize = 65_536;
/// The most bytes that their keys take, of all partitions; but for the last of each.
const BYTES_MAX: usize = 64 << 20;

impl Cursors {
    /// No cursor, of one of so many partitions. The first one will be random, so that those of an earlier run
    /// are not known.
    pub(crate) fn new(random: &mut Random, partitions: usize) -> Self {
        // Clients may keep cursors as signed or as floating-point numbers: 47 bits suit all, and
        // the number of the partition takes up to six of them.
        Self {
            first: (random.next() >> 23) + 1,
            positions: VecDeque::new(),
            bytes: 0,
            count_max: COUNT_MAX / partitions,
            bytes_max: BYTES_MAX / partitions,
        }
    }

    /// A cursor for the keys of `db` behind `key`.
    pub(crate) fn issue(&mut self, db: usize, key: &[u8]) -> u64 {
        while self.positions.len() >= self.count_max
            || (self.bytes + key.len() > self.bytes_max && !self.positions.is_empty())
        {
            self.bytes -= self.positions.pop_front().map_or(0, |position| position.key.len());
            self.first += 1;
        }
        self.bytes += key.len();
        self.positions.push_back(Position { db, key: key.into() });
        self.first + self.positions.len() as u64 - 1
    }

    /// The key behind which the scan with this cursor goes on.
    pub(crate) fn key(&self, db: usize, cursor: u64) -> Option<&[u8]> {
        let index = usize::try_from(cursor.checked_sub(self.first)?).ok()?;
        self.positions.get(index).filter(|position| position.db == db).map(|at| &*at.key)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cursor_can_be_used_again_until_too_many_others_are_issued() {
        let mut cursors = Cursors::new(&mut Random::new(), 1);
        let first = cursors.issue(0, b"first");
        assert!(first > 0 && first < 1 << 42);
        for _ in 1..COUNT_MAX {
            assert_eq!(cursors.key(0, first), Some(&b"first"[..]));
            cursors.issue(0, b"x");
        }
        cursors.issue(0, b"x");
        assert_eq!(cursors.key(0, first), None);
        assert_eq!(cursors.key(0, first + 1), Some(&b"x"[..]));
    }

    #[test]
    fn a_cursor_belongs_to_its_database_and_run() {
        let mut cursors = Cursors::new(&mut Random::new(), 1);
        let cursor = cursors.issue(3, b"key");
        assert_eq!(cursors.key(0, cursor), None);
        assert_eq!(cursors.key(3, cursor + 1), None);
        assert_eq!(cursors.key(3, 1), None);
    }

    #[test]
    fn long_keys_take_the_place_of_many_short_ones() {
        let mut cursors = Cursors::new(&mut Random::new(), 1);
        let long = vec![b'k'; 64 << 10];
        for _ in 0..3000 {
            let cursor = cursors.issue(0, &long);
            assert_eq!(cursors.key(0, cursor), Some(&long[..]));
        }
        assert!(cursors.bytes <= BYTES_MAX && cursors.positions.len() == BYTES_MAX / long.len());
    }
}
