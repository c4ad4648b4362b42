//! Sources of a merge: sorted messages above deleted ranges.

use super::deleted_ranges::DeletedRanges;
use crate::message::HeldMessage;
use crate::{Error, Result};

/// A move of a source that does not begin where it is.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Move<'a> {
    First,
    Last,
    Seek(&'a [u8]),
    SeekBefore(&'a [u8]),
}

/// A position in sorted messages, at most one a key, of keys within bounds: at a message, or at none.
///
/// A new one is at none, and so is one that was moved beyond either end, or whose move failed. A step from none leads
/// to none.
pub(crate) trait Source {
    /// Begins to read what a move to a place needs, if that takes time. The move follows.
    fn ask(&mut self, _place: Move<'_>) {}

    /// Goes to the first message.
    fn first(&mut self) -> Result<()>;

    /// Goes to the last message.
    fn last(&mut self) -> Result<()>;

    /// Goes to the first message whose key is not below `key`.
    fn seek(&mut self, key: &[u8]) -> Result<()>;

    /// Goes to the last message whose key is below `key`.
    fn seek_before(&mut self, key: &[u8]) -> Result<()>;

    /// Goes to the next message.
    fn next(&mut self) -> Result<()>;

    /// Goes to the message before.
    fn prev(&mut self) -> Result<()>;

    /// Does a move.
    fn go(&mut self, place: Move<'_>) -> Result<()> {
        match place {
            Move::First => self.first(),
            Move::Last => self.last(),
            Move::Seek(key) => self.seek(key),
            Move::SeekBefore(key) => self.seek_before(key),
        }
    }

    /// Goes to none.
    fn leave(&mut self);

    /// The key of the message that it is at.
    fn key(&self) -> Option<&[u8]>;

    /// The message that it is at.
    ///
    /// # Panics
    /// If it is at none.
    fn message(&self) -> HeldMessage;

    /// The message that it is at, which the caller does not ask for again.
    ///
    /// # Panics
    /// If it is at none.
    fn take_message(&mut self) -> HeldMessage {
        self.message()
    }

    /// The deleted ranges within the bounds. They are older than the messages.
    fn deleted_ranges(&self) -> &DeletedRanges;

    /// The error of the message that it is or was at, which has a defect.
    fn damaged(&self, why: &str) -> Error;
}

impl<S: Source + ?Sized> Source for Box<S> {
    fn ask(&mut self, place: Move<'_>) {
        (**self).ask(place);
    }

    fn first(&mut self) -> Result<()> {
        (**self).first()
    }

    fn last(&mut self) -> Result<()> {
        (**self).last()
    }

    fn seek(&mut self, key: &[u8]) -> Result<()> {
        (**self).seek(key)
    }

    fn seek_before(&mut self, key: &[u8]) -> Result<()> {
        (**self).seek_before(key)
    }

    fn next(&mut self) -> Result<()> {
        (**self).next()
    }

    fn prev(&mut self) -> Result<()> {
        (**self).prev()
    }

    fn leave(&mut self) {
        (**self).leave();
    }

    fn key(&self) -> Option<&[u8]> {
        (**self).key()
    }

    fn message(&self) -> HeldMessage {
        (**self).message()
    }

    fn take_message(&mut self) -> HeldMessage {
        (**self).take_message()
    }

    fn deleted_ranges(&self) -> &DeletedRanges {
        (**self).deleted_ranges()
    }

    fn damaged(&self, why: &str) -> Error {
        (**self).damaged(why)
    }
}
