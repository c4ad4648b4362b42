//! A value that owns its text or bytes.

use std::{cmp::Ordering, fmt};

use super::{Decimal, Timestamp, ValueRef};

/// A value of a column that owns its text or bytes; [`Value::as_ref`] has the methods of both forms.
///
/// `Value::from` takes anything that converts into a [`ValueRef`].
#[derive(Clone, Debug)]
pub enum Value {
    /// No value.
    Null,
    /// An integer.
    Int(i64),
    /// An integer without a sign.
    UInt(u64),
    /// A floating-point number.
    Float(f64),
    /// An exact number.
    Decimal(Decimal),
    /// Text.
    Text(Box<str>),
    /// Any bytes.
    Bytes(Box<[u8]>),
    /// A moment.
    Timestamp(Timestamp),
}

impl Value {
    /// The value, borrowed.
    #[must_use]
    #[inline]
    pub fn as_ref(&self) -> ValueRef<'_> {
        match self {
            Self::Null => ValueRef::Null,
            Self::Int(integer) => ValueRef::Int(*integer),
            Self::UInt(integer) => ValueRef::UInt(*integer),
            Self::Float(float) => ValueRef::Float(*float),
            Self::Decimal(decimal) => ValueRef::Decimal(*decimal),
            Self::Text(text) => ValueRef::Text(text),
            Self::Bytes(bytes) => ValueRef::Bytes(bytes),
            Self::Timestamp(moment) => ValueRef::Timestamp(*moment),
        }
    }
}

impl<'a, T: Into<ValueRef<'a>>> From<T> for Value {
    fn from(value: T) -> Self {
        match value.into() {
            ValueRef::Null => Self::Null,
            ValueRef::Int(integer) => Self::Int(integer),
            ValueRef::UInt(integer) => Self::UInt(integer),
            ValueRef::Float(float) => Self::Float(float),
            ValueRef::Decimal(decimal) => Self::Decimal(decimal),
            ValueRef::Text(text) => Self::Text(text.into()),
            ValueRef::Bytes(bytes) => Self::Bytes(bytes.into()),
            ValueRef::Timestamp(moment) => Self::Timestamp(moment),
        }
    }
}

impl<'a> From<&'a Value> for ValueRef<'a> {
    #[inline]
    fn from(value: &'a Value) -> Self {
        value.as_ref()
    }
}

impl Ord for Value {
    fn cmp(&self, other: &Self) -> Ordering {
        self.as_ref().cmp(&other.as_ref())
    }
}

impl PartialOrd for Value {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Value {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Value {}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.as_ref().fmt(f)
    }
}
