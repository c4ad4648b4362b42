//! Messages that hold the bytes they are made of, which are shared and not copied.

use std::ops::{Deref, Range};

use halite_codec::Plain;
use halite_pmem::Pinned;

use super::kinds::{Kind, Message};

/// Immutable bytes in memory.
#[derive(Clone)]
pub(crate) enum Block {
    /// In DRAM, shared with the cache.
    Cached(Plain),
    /// In persistent memory, where they are stored. They stay there as long as this is held.
    InPlace(Pinned),
}

impl Deref for Block {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        match self {
            Self::Cached(bytes) => bytes,
            Self::InPlace(bytes) => bytes,
        }
    }
}

/// The bytes of a message.
#[derive(Clone)]
pub(crate) enum Payload {
    /// A part of a block.
    Shared(Block, Range<usize>),
    /// Bytes of its own.
    Owned(Vec<u8>),
}

impl Deref for Payload {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        match self {
            Self::Shared(block, range) => &block[range.clone()],
            Self::Owned(bytes) => bytes,
        }
    }
}

/// A message that may outlive its source.
#[derive(Clone)]
pub(crate) struct HeldMessage {
    pub(crate) kind: Kind,
    pub(crate) payload: Payload,
}

impl HeldMessage {
    /// The message.
    #[inline]
    pub(crate) fn message(&self) -> Message<'_> {
        Message { kind: self.kind, payload: &self.payload }
    }
}

impl From<Message<'_>> for HeldMessage {
    fn from(message: Message<'_>) -> Self {
        Self { kind: message.kind, payload: Payload::Owned(message.payload.to_vec()) }
    }
}
