//! A stream.

use std::fmt;

/// A stream: its entries, its counters, and its groups of consumers.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Stream {
    /// The entries, in the order of their ids.
    pub entries: Vec<Entry>,
    /// The id of the last entry that was ever added.
    pub last_id: Id,
    /// The highest id of a deleted entry.
    pub max_deleted_id: Id,
    /// The number of entries that were ever added.
    pub entries_added: u64,
    /// The groups.
    pub groups: Vec<Group>,
}

/// The id of an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Id {
    /// Milliseconds since 1970, usually.
    pub ms: u64,
    /// The number among the entries of the millisecond.
    pub sequence: u64,
}

impl Id {
    /// The id.
    #[must_use]
    pub const fn new(ms: u64, sequence: u64) -> Self {
        Self { ms, sequence }
    }

    /// The bytes of the id, which are in the order of ids.
    pub(crate) fn to_bytes(self) -> [u8; 16] {
        (u128::from(self.ms) << 64 | u128::from(self.sequence)).to_be_bytes()
    }

    pub(crate) fn from_bytes(bytes: [u8; 16]) -> Self {
        let number = u128::from_be_bytes(bytes);
        Self { ms: (number >> 64) as u64, sequence: number as u64 }
    }
}

impl fmt::Display for Id {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.ms, self.sequence)
    }
}

/// An entry of a stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// The id.
    pub id: Id,
    /// The fields, each with its value, in their order; a name may come more than once.
    pub fields: Vec<(Vec<u8>, Vec<u8>)>,
}

/// A group of consumers.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Group {
    /// The name.
    pub name: Vec<u8>,
    /// The id of the last entry that was delivered.
    pub last_id: Id,
    /// The number of entries that were delivered; `None` if it is not known.
    pub entries_read: Option<u64>,
    /// The consumers, in the order of their names.
    pub consumers: Vec<Consumer>,
    /// The entries that were delivered and not acknowledged, in the order of their ids.
    pub pending: Vec<Pending>,
}

/// A consumer of a group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Consumer {
    /// The name.
    pub name: Vec<u8>,
    /// When the consumer last tried to read, in milliseconds since 1970.
    pub seen_ms: i64,
    /// When the consumer last got an entry, in milliseconds since 1970; `None` if it never did.
    pub active_ms: Option<i64>,
}

/// An entry that was delivered and not acknowledged.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pending {
    /// The entry's id. The entry itself may be deleted.
    pub id: Id,
    /// The consumer that has it: its index in [`Group::consumers`].
    pub consumer: usize,
    /// When it was last delivered, in milliseconds since 1970.
    pub delivered_ms: i64,
    /// How often it was delivered.
    pub deliveries: u64,
}
