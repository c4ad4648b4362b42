//! Pairs of the rows of a range, as a scan of their table meets them.
//!
//! Pieces are gathered until the row of another pair comes. The pairs of long keys that begin alike come in no order:
//! they are gathered too, and sorted. So it takes the memory of one pair, or of all such long keys with their values.

use std::mem::take;
use std::ops::ControlFlow;

use super::place::{KEY, KEY_MAX, PART, PIECE, PIECE_BITS, VALUE, split_head};
use crate::index::Direction;
use crate::{Error, Result, RowRef};

/// A key and its value.
pub(super) type Pair = (Vec<u8>, Vec<u8>);

/// The error of rows that are no pairs.
pub(super) fn damaged(why: &str) -> Error {
    Error::damaged("a pair of a key space", why)
}

/// The pairs of rows.
pub(super) struct Gather<V> {
    direction: Direction,
    visit: V,
    /// The key column of the rows, and the number of the long key.
    column: Vec<u8>,
    number: u32,
    /// The pieces of the pair by their numbers, in the order of the scan.
    pieces: Vec<(u32, Vec<u8>)>,
    /// The pairs of long keys with this key column.
    alike: Vec<Pair>,
}

impl<V: FnMut(Pair) -> Result<ControlFlow<()>>> Gather<V> {
    pub(super) fn new(direction: Direction, visit: V) -> Self {
        let (column, pieces, alike) = Default::default();
        Self { direction, visit, column, number: 0, pieces, alike }
    }

    /// Takes the next row.
    pub(super) fn row(&mut self, row: RowRef<'_>) -> Result<ControlFlow<()>> {
        let (column, part) = (row.get(KEY)?.bytes()?, row.uint(PART)? as u32);
        let (number, piece) = (part >> PIECE_BITS, part & ((1 << PIECE_BITS) - 1));
        if number > 0 && column.len() != KEY_MAX {
            return Err(damaged("it is stored as one of a long key, and its key is short"));
        }
        let is_same_column = column == self.column;
        if !is_same_column || number != self.number {
            let of_next = is_same_column && number > 0;
            if self.end_pair()?.is_break() || (!of_next && self.end_alike()?.is_break()) {
                return Ok(ControlFlow::Break(()));
            }
            (self.column, self.number) = (column.to_vec(), number);
        }
        self.pieces.push((piece, row.get(VALUE)?.bytes()?.to_vec()));
        Ok(ControlFlow::Continue(()))
    }

    /// Visits the pairs that are left, behind the last row.
    pub(super) fn end(&mut self) -> Result<ControlFlow<()>> {
        match self.end_pair()? {
            ControlFlow::Continue(()) => self.end_alike(),
            end => Ok(end),
        }
    }

    fn end_pair(&mut self) -> Result<ControlFlow<()>> {
        let mut pieces = take(&mut self.pieces);
        if pieces.is_empty() {
            return Ok(ControlFlow::Continue(()));
        }
        if self.direction == Direction::Reverse {
            pieces.reverse();
        }
        let last = pieces.len() - 1;
        let is_whole = |(at, (piece, bytes)): (usize, &(u32, Vec<u8>))| {
            *piece as usize == at && (at == last || bytes.len() == PIECE)
        };
        if !pieces.iter().enumerate().all(is_whole) {
            return Err(damaged("it lacks a piece"));
        }
        let mut pieces = pieces.into_iter().map(|(_, bytes)| bytes);
        let mut value = pieces.next().expect("there is one");
        pieces.for_each(|piece| value.extend(piece));
        if self.number == 0 {
            return (self.visit)((self.column.clone(), value));
        }
        let (rest, value) = split_head(&value)?;
        self.alike.push(([&self.column, rest].concat(), value.to_vec()));
        Ok(ControlFlow::Continue(()))
    }

    fn end_alike(&mut self) -> Result<ControlFlow<()>> {
        let mut alike = take(&mut self.alike);
        alike.sort_unstable();
        if alike.windows(2).any(|two| two[0].0 == two[1].0) {
            return Err(damaged("its key is there twice"));
        }
        if self.direction == Direction::Reverse {
            alike.reverse();
        }
        for pair in alike {
            if (self.visit)(pair)?.is_break() {
                return Ok(ControlFlow::Break(()));
            }
        }
        Ok(ControlFlow::Continue(()))
    }
}
