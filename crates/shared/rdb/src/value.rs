//! A value, whatever form it has in a file.

use std::cmp::Ordering;

use crate::Stream;

/// A value of a key.
#[derive(Debug, Clone, PartialEq)]
pub enum Value {
    /// A string.
    String(Vec<u8>),
    /// The elements of a list, the head first.
    List(Vec<Vec<u8>>),
    /// The members of a set, no two alike, in any order.
    Set(Vec<Vec<u8>>),
    /// The fields of a hash, no two of one name, in any order.
    Hash(Vec<HashField>),
    /// The members of a sorted set with their scores, no two members alike. No score is NaN. Read ones are in the
    /// order of the set: by score, then by the bytes of the member.
    SortedSet(Vec<(Vec<u8>, f64)>),
    /// A stream.
    Stream(Stream),
    /// A value of a module, which only the module understands: it is passed over, and cannot be written.
    Module {
        /// The name of the module's type, of nine characters.
        name: String,
        /// The version of the module's own form.
        version: u16,
    },
}

impl Value {
    /// Whether this is a collection without elements. No key has one; a stream may be empty.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        match self {
            Self::List(elements) | Self::Set(elements) => elements.is_empty(),
            Self::Hash(fields) => fields.is_empty(),
            Self::SortedSet(members) => members.is_empty(),
            Self::String(_) | Self::Stream(_) | Self::Module { .. } => false,
        }
    }

    /// The name of the type, as the command TYPE says it.
    #[must_use]
    pub fn type_name(&self) -> &str {
        match self {
            Self::String(_) => "string",
            Self::List(_) => "list",
            Self::Set(_) => "set",
            Self::Hash(_) => "hash",
            Self::SortedSet(_) => "zset",
            Self::Stream(_) => "stream",
            Self::Module { name, .. } => name,
        }
    }
}

/// A field of a hash.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HashField {
    /// The name.
    pub name: Vec<u8>,
    /// The value.
    pub value: Vec<u8>,
    /// When the field expires, in milliseconds since 1970: from 1 to [`HashField::EXPIRES_MS_MAX`].
    pub expires_ms: Option<u64>,
}

impl HashField {
    /// The latest expiry that a field can have, in milliseconds since 1970.
    pub const EXPIRES_MS_MAX: u64 = (1 << 48) - 2;
}

/// The order of a sorted set.
pub(crate) fn in_set_order(one: &(Vec<u8>, f64), other: &(Vec<u8>, f64)) -> Ordering {
    let by_score = one.1.partial_cmp(&other.1).unwrap_or(Ordering::Equal);
    by_score.then_with(|| one.0.cmp(&other.0))
}
