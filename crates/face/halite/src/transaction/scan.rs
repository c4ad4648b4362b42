//! Scans of a transaction: the snapshot's pairs with its own writes among them.
//!
//! Both are in the order of keys, and the nearer of the two next keys is the next one. Where both have a key the
//! write counts, and where a range was deleted only writes do.

use std::collections::btree_map;
use std::fmt;

use halite_contract::{Direction, KeyRange, KeySpaceId, Scan};

use super::Transaction;
use super::write_set::{SpaceWrites, Written};
use crate::{Bytes, Result};

/// The pairs of a key space in a transaction, in order.
///
/// The pairs that it returned are part of the transaction's reads; keys that it did not reach are not. So a scan that
/// looks for the first suitable key, and then stops, does not conflict with writers behind that key.
pub struct TransactionIter<'a> {
    transaction: &'a Transaction,
    space: KeySpaceId,
    range: KeyRange,
    direction: Direction,
    scan: Scan,
    /// The next pair of the scan, if it was looked at.
    ahead: Option<Option<(Bytes, Bytes)>>,
    writes: Option<&'a SpaceWrites>,
    /// The transaction's writes in the range that are still to come, without the next one.
    written: btree_map::Range<'a, Box<[u8]>, Written>,
    next_written: Option<(&'a [u8], Option<&'a [u8]>)>,
    /// The number of this scan in the read set.
    number: Option<usize>,
    /// The last key that was returned.
    last: Option<Bytes>,
    has_ended: bool,
}

impl<'a> TransactionIter<'a> {
    pub(super) fn new(
        transaction: &'a Transaction,
        space: KeySpaceId,
        range: KeyRange,
        direction: Direction,
        scan: Scan,
    ) -> Self {
        let number = transaction.begin_scan(space, &range);
        let writes = transaction.writes.space(space);
        let mut iter = Self {
            transaction,
            space,
            writes,
            written: writes.map(|writes| writes.range(&range)).unwrap_or_default(),
            range,
            direction,
            scan,
            ahead: None,
            next_written: None,
            number,
            last: None,
            has_ended: false,
        };
        iter.next_written = iter.go_on_in_writes();
        iter
    }

    fn go_on_in_writes(&mut self) -> Option<(&'a [u8], Option<&'a [u8]>)> {
        let (key, value) = match self.direction {
            Direction::Forward => self.written.next(),
            Direction::Reverse => self.written.next_back(),
        }?;
        Some((key, value.as_deref()))
    }

    /// Looks at the next pair of the scan that is in no deleted range.
    fn look_ahead(&mut self) -> Result<()> {
        while self.ahead.is_none() {
            let next = self.scan.next().transpose()?;
            let is_deleted =
                |key: &[u8]| self.writes.is_some_and(|writes| writes.is_in_deleted(key));
            if next.as_ref().is_none_or(|(key, _)| !is_deleted(key)) {
                self.ahead = Some(next);
            }
        }
        Ok(())
    }

    fn find_next(&mut self) -> Result<Option<(Bytes, Bytes)>> {
        self.transaction.check_age()?;
        loop {
            self.look_ahead()?;
            let ahead = self.ahead.as_ref().and_then(Option::as_ref);
            let Some((key, value)) = self.next_written else {
                return Ok(self.ahead.take().flatten());
            };
            let order = ahead.map(|(ahead, _)| match self.direction {
                Direction::Forward => key.cmp(ahead),
                Direction::Reverse => ahead[..].cmp(key),
            });
            if order.is_some_and(|order| order.is_gt()) {
                return Ok(self.ahead.take().flatten());
            }
            if order.is_some_and(|order| order.is_eq()) {
                self.ahead = None;
            }
            self.next_written = self.go_on_in_writes();
            if let Some(value) = value {
                return Ok(Some((Bytes::from(key), Bytes::from(value))));
            }
        }
    }

    /// The part of the range that was read.
    fn read(&self) -> Option<KeyRange> {
        if self.has_ended {
            return Some(self.range.clone());
        }
        let last = self.last.as_ref()?;
        Some(match self.direction {
            Direction::Forward => {
                KeyRange::new(self.range.start(), Some([&last[..], &[0]].concat()))
            }
            Direction::Reverse => {
                KeyRange::new(last.to_vec(), self.range.end().map(<[u8]>::to_vec))
            }
        })
    }
}

impl Iterator for TransactionIter<'_> {
    type Item = Result<(Bytes, Bytes)>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.has_ended {
            return None;
        }
        let next = self.find_next();
        match &next {
            Ok(Some((key, _))) if self.number.is_some() => self.last = Some(key.clone()),
            Ok(Some(_)) => {}
            // After an error it is unknown whether the keys behind it were read.
            Ok(None) | Err(_) => self.has_ended = true,
        }
        next.transpose()
    }
}

impl Drop for TransactionIter<'_> {
    fn drop(&mut self) {
        if let Some(number) = self.number {
            self.transaction.end_scan(number, self.read());
        }
    }
}

impl fmt::Debug for TransactionIter<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TransactionIter").field("space", &self.space).finish_non_exhaustive()
    }
}
