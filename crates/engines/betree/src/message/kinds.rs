//! The kinds of messages.

use halite_codec::Reader;

use super::Parsed;
use super::large_value::LargeValue;

/// The kind of a message: 3 bits where it is stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// The key has no value.
    Delete = 0,
    /// The payload is the value.
    Insert = 1,
    /// The payload changes ranges of the value.
    Upsert = 2,
    /// The payload refers to extents that have the value.
    InsertLarge = 3,
    /// The payload refers to extents, and changes the value that they have.
    PatchedLarge = 4,
    /// The payload is patches, of which some are for the dataset's [`MessageAction`](super::MessageAction).
    Custom = 5,
    /// The payload is a value, and patches that could not be applied to it yet.
    PatchedInsert = 6,
}

impl Kind {
    /// The kind of a stored number.
    pub(crate) fn of_code(code: u8) -> Parsed<Self> {
        Ok(match code {
            0 => Self::Delete,
            1 => Self::Insert,
            2 => Self::Upsert,
            3 => Self::InsertLarge,
            4 => Self::PatchedLarge,
            5 => Self::Custom,
            6 => Self::PatchedInsert,
            _ => return Err("a message is of an unknown kind"),
        })
    }

    /// Whether the value after the message does not depend on the value before.
    pub(crate) fn is_complete(self) -> bool {
        !matches!(self, Self::Upsert | Self::Custom)
    }
}

/// A change of one key's value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Message<'a> {
    pub(crate) kind: Kind,
    pub(crate) payload: &'a [u8],
}

impl<'a> Message<'a> {
    /// The message that deletes.
    pub(crate) const DELETE: Message<'static> = Message { kind: Kind::Delete, payload: &[] };

    /// The message that sets a value.
    #[cfg(test)]
    pub(crate) fn insert(value: &'a [u8]) -> Self {
        Self { kind: Kind::Insert, payload: value }
    }

    /// The value in extents of its own that the message refers to.
    pub(crate) fn large(self) -> Parsed<Option<LargeValue>> {
        match self.kind {
            Kind::InsertLarge => LargeValue::of_bytes(self.payload).map(Some),
            Kind::PatchedLarge => self.patched().map(|(large, _)| Some(large)),
            _ => Ok(None),
        }
    }

    /// The payload that refers to another value in extents of its own, in the way in which the message does.
    pub(crate) fn with_large(self, large: &LargeValue) -> Parsed<Vec<u8>> {
        let mut to = Vec::new();
        large.encode(&mut to);
        if self.kind == Kind::PatchedLarge {
            let (_, patch) = self.patched()?;
            to.push(patch.kind as u8);
            to.extend_from_slice(patch.payload);
        }
        Ok(to)
    }

    /// The reference and the patch of a `PatchedLarge`.
    pub(super) fn patched(self) -> Parsed<(LargeValue, Message<'a>)> {
        let mut reader = Reader(self.payload);
        let large = LargeValue::decode(&mut reader)?;
        let kind = Kind::of_code(reader.u8()?)?;
        if kind.is_complete() {
            return Err("a large value is patched by a message that does not change it");
        }
        Ok((large, Message { kind, payload: reader.0 }))
    }
}
