//! Moves of cursors, and the positions in a list where they lead.

use proptest::prelude::*;

use super::super::{MergeCursor, RunCursor, Source};
use super::model::{Key, Owned, keys};
use crate::Result;
use crate::message::Message;

#[derive(Debug, Clone)]
pub(super) enum Move {
    First,
    Last,
    Seek(Key),
    SeekBefore(Key),
    Next,
    Prev,
}

pub(super) fn moves() -> impl Strategy<Value = Vec<Move>> {
    let step = prop_oneof![
        1 => Just(Move::First),
        1 => Just(Move::Last),
        2 => keys().prop_map(Move::Seek),
        2 => keys().prop_map(Move::SeekBefore),
        6 => Just(Move::Next),
        6 => Just(Move::Prev),
    ];
    prop::collection::vec(step, 0..60)
}

/// The moves that both sorts of cursors have.
pub(super) trait Moved {
    fn go(&mut self, to: &Move) -> Result<()>;
    fn here(&self) -> Option<(&[u8], Message<'_>)>;
}

impl Moved for RunCursor {
    fn go(&mut self, to: &Move) -> Result<()> {
        match to {
            Move::First => self.first(),
            Move::Last => self.last(),
            Move::Seek(key) => self.seek(key),
            Move::SeekBefore(key) => self.seek_before(key),
            Move::Next => self.next(),
            Move::Prev => self.prev(),
        }
    }

    fn here(&self) -> Option<(&[u8], Message<'_>)> {
        let entry = self.entry();
        assert_eq!(entry.map(|(key, _)| key), self.key());
        if let Some((_, message)) = entry {
            assert_eq!(self.message().message(), message);
        }
        entry
    }
}

impl<S: Source> Moved for MergeCursor<S> {
    fn go(&mut self, to: &Move) -> Result<()> {
        match to {
            Move::First => self.first(),
            Move::Last => self.last(),
            Move::Seek(key) => self.seek(key),
            Move::SeekBefore(key) => self.seek_before(key),
            Move::Next => self.next(),
            Move::Prev => self.prev(),
        }
    }

    fn here(&self) -> Option<(&[u8], Message<'_>)> {
        self.entry()
    }
}

/// Where in a list a move leads from a position.
pub(super) fn position(list: &[(Key, Owned)], at: Option<usize>, to: &Move) -> Option<usize> {
    let at = match to {
        Move::First => Some(0),
        Move::Last => list.len().checked_sub(1),
        Move::Seek(key) => Some(list.partition_point(|(other, _)| other < key)),
        Move::SeekBefore(key) => list.partition_point(|(other, _)| other < key).checked_sub(1),
        Move::Next => at.map(|at| at + 1),
        Move::Prev => at.and_then(|at| at.checked_sub(1)),
    };
    at.filter(|&at| at < list.len())
}

/// Moves a cursor, which is then where the list says.
pub(super) fn walk(cursor: &mut impl Moved, list: &[(Key, Owned)], moves: &[Move]) {
    let mut at = None;
    for to in moves {
        cursor.go(to).unwrap();
        at = position(list, at, to);
        let here = cursor
            .here()
            .map(|(key, message)| (key.to_vec(), (message.kind, message.payload.to_vec())));
        assert_eq!(here.as_ref(), at.map(|at| &list[at]), "{to:?}");
    }
}

/// All that a cursor meets from one end to the other.
pub(super) fn all(cursor: &mut impl Moved, is_forward: bool) -> Result<Vec<(Key, Owned)>> {
    let (start, step) =
        if is_forward { (Move::First, Move::Next) } else { (Move::Last, Move::Prev) };
    let mut found = Vec::new();
    cursor.go(&start)?;
    while let Some((key, message)) = cursor.here() {
        found.push((key.to_vec(), (message.kind, message.payload.to_vec())));
        cursor.go(&step)?;
    }
    Ok(found)
}
