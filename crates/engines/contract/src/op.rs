//! Operations and batches of them.

use std::ops::Range;

use crate::limits::{check_bound, check_key, check_value};
use crate::{KeyRange, Result};

/// A key space of one open store. Ids are not reused while the store is open.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct KeySpaceId(pub u32);

/// When a write is durable in the pool's domain.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Durability {
    /// The write is durable when its call returns, and before a read returns it: no crash takes back what a client was
    /// told.
    #[default]
    Immediate,
    /// After the next [`crate::Engine::sync`]; many writes then share one fence.
    Deferred,
}

/// One operation of an atomic write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Op<'a> {
    /// Sets the value of a key.
    Put {
        /// The key space.
        space: KeySpaceId,
        /// The key, at most [`crate::KEY_LEN_MAX`] bytes.
        key: &'a [u8],
        /// The value, at most [`crate::VALUE_LEN_MAX`] bytes.
        value: &'a [u8],
    },
    /// Removes a key, if it is there.
    Delete {
        /// The key space.
        space: KeySpaceId,
        /// The key.
        key: &'a [u8],
    },
    /// Removes every key from `start` up to, not including, `end`.
    DeleteRange {
        /// The key space.
        space: KeySpaceId,
        /// The first key of the range.
        start: &'a [u8],
        /// The first key behind the range; `None`: all from `start` on.
        end: Option<&'a [u8]>,
    },
}

impl Op<'_> {
    /// The key space that the operation is for.
    #[must_use]
    pub fn space(&self) -> KeySpaceId {
        match *self {
            Self::Put { space, .. }
            | Self::Delete { space, .. }
            | Self::DeleteRange { space, .. } => space,
        }
    }

    /// Checks the operation against the limits of every engine.
    ///
    /// # Errors
    /// [`crate::Error::KeyTooLong`], [`crate::Error::ValueTooLong`].
    pub fn check(&self) -> Result<()> {
        match *self {
            Self::Put { key, value, .. } => check_key(key).and_then(|()| check_value(value)),
            Self::Delete { key, .. } => check_key(key),
            Self::DeleteRange { start, end, .. } => {
                check_bound(start).and_then(|()| check_bound(end.unwrap_or_default()))
            }
        }
    }
}

/// Bytes that a batch keeps for the next operations.
const KEPT_BYTES_MAX: usize = 1 << 20;

/// A batch that owns its operations, to be filled in steps.
#[derive(Debug, Clone, Default)]
pub struct WriteBatch {
    bytes: Vec<u8>,
    ops: Vec<OwnedOp>,
}

#[derive(Debug, Clone)]
enum OwnedOp {
    Put { space: KeySpaceId, key: Range<usize>, value: Range<usize> },
    Delete { space: KeySpaceId, key: Range<usize> },
    DeleteRange { space: KeySpaceId, start: Range<usize>, end: Option<Range<usize>> },
}

impl WriteBatch {
    /// An empty batch.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds an operation.
    pub fn push(&mut self, op: &Op<'_>) {
        match *op {
            Op::Put { space, key, value } => self.put(space, key, value),
            Op::Delete { space, key } => self.delete(space, key),
            Op::DeleteRange { space, start, end } => {
                let (start, end) = (self.keep(start), end.map(|end| self.keep(end)));
                self.ops.push(OwnedOp::DeleteRange { space, start, end });
            }
        }
    }

    /// Adds a put.
    pub fn put(&mut self, space: KeySpaceId, key: &[u8], value: &[u8]) {
        let (key, value) = (self.keep(key), self.keep(value));
        self.ops.push(OwnedOp::Put { space, key, value });
    }

    /// Adds a delete.
    pub fn delete(&mut self, space: KeySpaceId, key: &[u8]) {
        let key = self.keep(key);
        self.ops.push(OwnedOp::Delete { space, key });
    }

    /// Adds the removal of every key in `range`.
    pub fn delete_range(&mut self, space: KeySpaceId, range: &KeyRange) {
        self.push(&Op::DeleteRange { space, start: range.start(), end: range.end() });
    }

    /// Adds the removal of every key that begins with `prefix`.
    pub fn delete_prefix(&mut self, space: KeySpaceId, prefix: &[u8]) {
        self.delete_range(space, &KeyRange::prefix(prefix));
    }

    /// The number of operations.
    #[must_use]
    pub fn len(&self) -> usize {
        self.ops.len()
    }

    /// Whether there is no operation.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.ops.is_empty()
    }

    /// Bytes of keys and values that the batch holds.
    #[must_use]
    pub fn byte_len(&self) -> usize {
        self.bytes.len()
    }

    /// Removes all operations and keeps memory for the next ones, but not that of large values.
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.bytes.shrink_to(KEPT_BYTES_MAX);
        self.ops.clear();
    }

    /// The operations, as [`crate::Engine::write`] takes them.
    #[must_use]
    pub fn ops(&self) -> Vec<Op<'_>> {
        let at = |range: &Range<usize>| &self.bytes[range.clone()];
        self.ops
            .iter()
            .map(|op| match op {
                OwnedOp::Put { space, key, value } => {
                    Op::Put { space: *space, key: at(key), value: at(value) }
                }
                OwnedOp::Delete { space, key } => Op::Delete { space: *space, key: at(key) },
                OwnedOp::DeleteRange { space, start, end } => {
                    Op::DeleteRange { space: *space, start: at(start), end: end.as_ref().map(at) }
                }
            })
            .collect()
    }

    fn keep(&mut self, bytes: &[u8]) -> Range<usize> {
        let start = self.bytes.len();
        self.bytes.extend_from_slice(bytes);
        start..self.bytes.len()
    }
}
