//! The pairs of a key space in one partition, as a transaction sees and changes them.

use std::ops::ControlFlow;
use std::sync::Arc;

use halite_contract::KeyRange;

use super::gather::{Gather, Pair, damaged};
use super::place::{
    self, PART, PIECE, PIECE_BITS, VALUE, head, long_rows, row_key, split, split_head,
};
use crate::index::Direction;
use crate::{Change, Error, Result, Row, Table, Transaction, ValueRef};

/// The pairs of a key space in one partition.
pub(super) struct Pairs<'t, 'a> {
    tx: &'t mut Transaction<'a>,
    partition: usize,
    table: Arc<Table>,
}

/// Where a pair is, or would be.
struct Found<'k> {
    /// The key column.
    column: &'k [u8],
    /// The part of the first row.
    first: u32,
    /// The bytes before its value.
    head: Vec<u8>,
}

impl<'t, 'a> Pairs<'t, 'a> {
    pub(super) fn new(tx: &'t mut Transaction<'a>, partition: usize, table: &Arc<Table>) -> Self {
        Self { tx, partition, table: table.clone() }
    }

    /// The value of a key.
    pub(super) fn get(&mut self, key: &[u8]) -> Result<Option<Vec<u8>>> {
        let Found { column, first, head } = self.find(key)?;
        let Some(mut value) = self.piece(column, first)? else { return Ok(None) };
        let mut is_full = value.len() == PIECE;
        for part in parts(first).skip(1) {
            if !is_full {
                break;
            }
            let piece = self.piece(column, part)?.unwrap_or_default();
            is_full = piece.len() == PIECE;
            value.extend(piece);
        }
        match value.split_at_checked(head.len()) {
            Some((found, behind)) if found == head => Ok(Some(behind.to_vec())),
            _ => Err(damaged("the rest of its key has changed")),
        }
    }

    /// Sets the value of a key. Returns whether there was one.
    pub(super) fn put(&mut self, key: &[u8], value: &[u8]) -> Result<bool> {
        let Found { column, first, head } = self.find(key)?;
        let joined;
        let mut rest = value;
        if !head.is_empty() {
            joined = [&head, value].concat();
            rest = &joined;
        }
        let mut was_there = false;
        for part in parts(first) {
            let (piece, behind) = rest.split_at(rest.len().min(PIECE));
            let old = self.set_piece(column, part, piece)?;
            was_there |= part == first && old.is_some();
            rest = behind;
            if rest.is_empty() {
                if old == Some(PIECE) {
                    self.delete_from(column, part + 1)?;
                }
                break;
            }
        }
        Ok(was_there)
    }

    /// Removes a key. Returns whether it was there.
    pub(super) fn delete(&mut self, key: &[u8]) -> Result<bool> {
        let Found { column, first, .. } = self.find(key)?;
        self.delete_from(column, first)
    }

    /// Visits the pairs of a range, until the visitor breaks.
    pub(super) fn scan(
        &mut self,
        range: &KeyRange,
        direction: Direction,
        mut visit: impl FnMut(Pair) -> Result<ControlFlow<()>>,
    ) -> Result<()> {
        if range.is_empty() {
            return Ok(());
        }
        let rows = place::rows(&self.table, range)?;
        let mut gather = Gather::new(direction, |pair: Pair| match range.contains(&pair.0) {
            true => visit(pair),
            false => Ok(ControlFlow::Continue(())),
        });
        let mut ended = ControlFlow::Continue(());
        let scanned = (&*self.table, None);
        self.tx.scan(self.partition, scanned, &rows, direction, |_, row| {
            ended = gather.row(row)?;
            Ok(ended)
        })?;
        match ended {
            ControlFlow::Continue(()) => gather.end().map(drop),
            ControlFlow::Break(()) => Ok(()),
        }
    }

    /// The number of keys: reads all rows.
    pub(super) fn count(&mut self) -> Result<u64> {
        let mut count = 0;
        let (all, forward) = (crate::KeyRange::all(), Direction::Forward);
        let scanned = (&*self.table, None);
        self.tx.scan(self.partition, scanned, &all, forward, |_, row| {
            count += u64::from(row.uint(PART)? & ((1 << PIECE_BITS) - 1) == 0);
            Ok(ControlFlow::Continue(()))
        })?;
        Ok(count)
    }

    /// Finds the place of a key: that of a long one among all that begin alike.
    fn find<'k>(&mut self, key: &'k [u8]) -> Result<Found<'k>> {
        let (column, rest) = split(key);
        if rest.is_empty() {
            return Ok(Found { column, first: 0, head: Vec::new() });
        }
        let rows = long_rows(&self.table, column)?;
        // The number of the key, or the first one that is free.
        let mut number = 1;
        let scanned = (&*self.table, None);
        self.tx.scan(self.partition, scanned, &rows, Direction::Forward, |_, row| {
            let part = row.uint(PART)? as u32;
            let (of_row, piece) = (part >> PIECE_BITS, part & ((1 << PIECE_BITS) - 1));
            if piece > 0 {
                return Ok(ControlFlow::Continue(()));
            }
            let (found, _) = split_head(row.get(VALUE)?.bytes()?)?;
            if found == rest {
                number = of_row;
                return Ok(ControlFlow::Break(()));
            }
            number += u32::from(of_row == number);
            Ok(ControlFlow::Continue(()))
        })?;
        if number >= u32::MAX >> PIECE_BITS {
            let key = self.table.schema().primary_key().name().into();
            return Err(Error::KeyTooLong { key, len: column.len() + rest.len() });
        }
        Ok(Found { column, first: number << PIECE_BITS, head: head(rest) })
    }

    fn piece(&mut self, column: &[u8], part: u32) -> Result<Option<Vec<u8>>> {
        let key = row_key(&self.table, column, part)?;
        let Some(row) = self.tx.get(self.partition, &self.table, &key)? else { return Ok(None) };
        let view = row.view(self.table.schema())?;
        Ok(Some(view.get(VALUE)?.bytes()?.to_vec()))
    }

    /// Sets a piece. Returns the length of the one that was there.
    fn set_piece(&mut self, column: &[u8], part: u32, piece: &[u8]) -> Result<Option<usize>> {
        let key = row_key(&self.table, column, part)?;
        let schema = self.table.schema().clone();
        let Some(old) = self.tx.get(self.partition, &self.table, &key)? else {
            let (column, value) = (ValueRef::Bytes(column), ValueRef::Bytes(piece));
            let row = Row::from_values(&schema, &[column, ValueRef::UInt(part.into()), value])?;
            return self.tx.insert(self.partition, &self.table, &row).map(|()| None);
        };
        let len = old.view(&schema)?.get(VALUE)?.bytes()?.len();
        let change = [Change::new(VALUE, piece)];
        self.tx.update(self.partition, &self.table, &key, &change)?;
        Ok(Some(len))
    }

    /// Removes the pieces from a part on. Returns whether there was one.
    fn delete_from(&mut self, column: &[u8], first: u32) -> Result<bool> {
        for part in parts(first) {
            let Some(piece) = self.piece(column, part)? else { return Ok(part > first) };
            let key = row_key(&self.table, column, part)?;
            self.tx.delete(self.partition, &self.table, &key)?;
            if piece.len() < PIECE {
                break;
            }
        }
        Ok(true)
    }
}

/// The parts of a pair from one on.
fn parts(first: u32) -> std::ops::RangeInclusive<u32> {
    first..=first | ((1 << PIECE_BITS) - 1)
}
