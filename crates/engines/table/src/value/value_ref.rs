//! A value that borrows its text or bytes.

use std::{cmp::Ordering, fmt};

use super::{Decimal, Timestamp, canonical};
use crate::{Error, Result};

/// A value of a column, borrowed from a row, a key or a caller: 32 bytes, `Copy`.
///
/// A column takes a value of its own kind that fits: integers of any width, signed or not, if they are in the column's
/// range; integers and decimals for a `DECIMAL`, if they are exact with its digits. Nothing is rounded or cut.
///
/// ```
/// use halite_table::ValueRef;
/// let values: [ValueRef; 4] = halite_table::values![7, "text", None::<i64>, b"bytes"];
/// assert_eq!(values[0].int()?, 7);
/// # Ok::<_, halite_table::Error>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub enum ValueRef<'a> {
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
    Text(&'a str),
    /// Any bytes.
    Bytes(&'a [u8]),
    /// A moment.
    Timestamp(Timestamp),
}

impl<'a> ValueRef<'a> {
    /// The kind of the value, for messages.
    #[must_use]
    pub const fn kind(self) -> &'static str {
        match self {
            Self::Null => "NULL",
            Self::Int(_) | Self::UInt(_) => "an integer",
            Self::Float(_) => "a floating-point number",
            Self::Decimal(_) => "a decimal",
            Self::Text(_) => "text",
            Self::Bytes(_) => "bytes",
            Self::Timestamp(_) => "a timestamp",
        }
    }

    /// Whether there is no value.
    #[must_use]
    #[inline]
    pub const fn is_null(self) -> bool {
        matches!(self, Self::Null)
    }

    #[cold]
    fn is_no(self, wanted: &'static str) -> Error {
        Error::NotOfKind { wanted, found: self.kind() }
    }

    /// The integer.
    ///
    /// # Errors
    /// [`Error::NotOfKind`], if the value is no integer (NULL is none), or beyond `i64`; so for the methods below.
    #[inline]
    pub fn int(self) -> Result<i64> {
        match self {
            Self::Int(integer) => Ok(integer),
            Self::UInt(integer) if integer <= i64::MAX as u64 => Ok(integer as i64),
            _ => Err(self.is_no("an integer of 64 bits with a sign")),
        }
    }

    /// The integer that is not negative.
    ///
    /// # Errors
    /// See [`ValueRef::int`].
    #[inline]
    pub fn uint(self) -> Result<u64> {
        match self {
            Self::UInt(integer) => Ok(integer),
            Self::Int(integer) if integer >= 0 => Ok(integer as u64),
            _ => Err(self.is_no("an integer that is not negative")),
        }
    }

    /// The floating-point number.
    ///
    /// # Errors
    /// See [`ValueRef::int`].
    #[inline]
    pub fn float(self) -> Result<f64> {
        match self {
            Self::Float(float) => Ok(float),
            _ => Err(self.is_no("a floating-point number")),
        }
    }

    /// The exact number: a decimal or an integer.
    ///
    /// # Errors
    /// See [`ValueRef::int`].
    #[inline]
    pub fn decimal(self) -> Result<Decimal> {
        match self {
            Self::Decimal(decimal) => Ok(decimal),
            Self::Int(integer) => Ok(integer.into()),
            Self::UInt(integer) => Ok(integer.into()),
            _ => Err(self.is_no("a decimal")),
        }
    }

    /// The text.
    ///
    /// # Errors
    /// See [`ValueRef::int`].
    #[inline]
    pub fn text(self) -> Result<&'a str> {
        match self {
            Self::Text(text) => Ok(text),
            _ => Err(self.is_no("text")),
        }
    }

    /// The bytes.
    ///
    /// # Errors
    /// See [`ValueRef::int`].
    #[inline]
    pub fn bytes(self) -> Result<&'a [u8]> {
        match self {
            Self::Bytes(bytes) => Ok(bytes),
            _ => Err(self.is_no("bytes")),
        }
    }

    /// The moment.
    ///
    /// # Errors
    /// See [`ValueRef::int`].
    #[inline]
    pub fn timestamp(self) -> Result<Timestamp> {
        match self {
            Self::Timestamp(moment) => Ok(moment),
            _ => Err(self.is_no("a timestamp")),
        }
    }

    /// The value's kind in the order of values: integers and decimals are one.
    const fn rank(self) -> u8 {
        match self {
            Self::Null => 0,
            Self::Int(_) | Self::UInt(_) | Self::Decimal(_) => 1,
            Self::Float(_) => 2,
            Self::Text(_) => 3,
            Self::Bytes(_) => 4,
            Self::Timestamp(_) => 5,
        }
    }
}

/// The order of values (see the module's opening). Text compares by its bytes.
impl Ord for ValueRef<'_> {
    fn cmp(&self, other: &Self) -> Ordering {
        match (*self, *other) {
            (Self::Int(one), Self::Int(two)) => one.cmp(&two),
            (Self::UInt(one), Self::UInt(two)) => one.cmp(&two),
            (Self::Float(one), Self::Float(two)) => canonical(one).total_cmp(&canonical(two)),
            (Self::Text(one), Self::Text(two)) => one.cmp(two),
            (Self::Bytes(one), Self::Bytes(two)) => one.cmp(two),
            (Self::Timestamp(one), Self::Timestamp(two)) => one.cmp(&two),
            (one, two) => match (one.decimal(), two.decimal()) {
                (Ok(one), Ok(two)) => one.cmp(&two),
                _ => one.rank().cmp(&two.rank()),
            },
        }
    }
}

impl PartialOrd for ValueRef<'_> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for ValueRef<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for ValueRef<'_> {}

/// The text that [`Type::parse`](super::Type::parse) reads; bytes are `\x` and two hexadecimal digits each. NULL is
/// written as `NULL`, which no type reads: a format of rows has a sign of its own for it.
impl fmt::Display for ValueRef<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Null => f.write_str("NULL"),
            Self::Int(integer) => integer.fmt(f),
            Self::UInt(integer) => integer.fmt(f),
            Self::Float(float) => float.fmt(f),
            Self::Decimal(decimal) => decimal.fmt(f),
            Self::Text(text) => f.write_str(text),
            Self::Bytes(bytes) => {
                f.write_str("\\x")?;
                bytes.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
            }
            Self::Timestamp(moment) => moment.fmt(f),
        }
    }
}

macro_rules! from {
    ($($from:ty => $variant:ident as $into:ty),* $(,)?) => {$(
        impl<'a> From<$from> for ValueRef<'a> {
            #[inline]
            fn from(value: $from) -> Self {
                Self::$variant(<$into>::from(value))
            }
        }
    )*};
}

from! {
    i8 => Int as i64, i16 => Int as i64, i32 => Int as i64, i64 => Int as i64,
    u8 => UInt as u64, u16 => UInt as u64, u32 => UInt as u64, u64 => UInt as u64,
    f64 => Float as f64,
    Decimal => Decimal as Decimal,
    &'a str => Text as &'a str,
    &'a [u8] => Bytes as &'a [u8],
    Timestamp => Timestamp as Timestamp,
}

impl<'a> From<&'a String> for ValueRef<'a> {
    #[inline]
    fn from(text: &'a String) -> Self {
        Self::Text(text)
    }
}

impl<'a> From<&'a Vec<u8>> for ValueRef<'a> {
    #[inline]
    fn from(bytes: &'a Vec<u8>) -> Self {
        Self::Bytes(bytes)
    }
}

impl<'a, const N: usize> From<&'a [u8; N]> for ValueRef<'a> {
    #[inline]
    fn from(bytes: &'a [u8; N]) -> Self {
        Self::Bytes(bytes)
    }
}

/// `None` is NULL.
impl<'a, T: Into<ValueRef<'a>>> From<Option<T>> for ValueRef<'a> {
    #[inline]
    fn from(value: Option<T>) -> Self {
        value.map_or(Self::Null, Into::into)
    }
}

/// An array of [`ValueRef`]s of anything that converts into one: `values![1, "text", None::<i64>]`.
#[macro_export]
macro_rules! values {
    ($($value:expr),* $(,)?) => { [$($crate::ValueRef::from($value)),*] };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_has_32_bytes() {
        assert_eq!(size_of::<ValueRef<'_>>(), 32);
    }

    #[test]
    fn the_order_is_nulls_numbers_floats_text_bytes_moments() {
        let ordered = crate::values![
            None::<i64>,
            i64::MIN,
            Decimal::new(-15, 1).unwrap(),
            -1,
            0_u8,
            Decimal::new(99, 2).unwrap(),
            1_u64,
            Decimal::new(101, 2).unwrap(),
            i64::MAX,
            u64::MAX,
            f64::NEG_INFINITY,
            -0.5,
            0.0,
            f64::INFINITY,
            f64::NAN,
            "",
            "a",
            "a ",
            "ab",
            b"",
            b"\0",
            Timestamp(-1),
            Timestamp(0),
        ];
        for (at, one) in ordered.iter().enumerate() {
            for (by, two) in ordered.iter().enumerate() {
                assert_eq!(one.cmp(two), at.cmp(&by), "{one} {two}");
            }
        }
        let same = crate::values![5_i8, 5_u64, Decimal::new(500, 2).unwrap()];
        assert!(same.iter().all(|one| same.iter().all(|two| one == two)));
        assert_eq!(ValueRef::from(-0.0), ValueRef::from(0.0));
    }

    #[test]
    fn a_value_of_another_kind_is_an_error_that_names_both() {
        let error = ValueRef::from("x").int().unwrap_err().to_string();
        assert!(error.contains("text") && error.contains("integer"), "{error}");
        assert!(ValueRef::Null.text().is_err());
        assert!(ValueRef::from(u64::MAX).int().is_err());
        assert!(ValueRef::from(-1).uint().is_err());
        assert_eq!(ValueRef::from(3_u8).int().unwrap(), 3);
        assert_eq!(ValueRef::from(3).decimal().unwrap(), Decimal::from(3));
    }
}
