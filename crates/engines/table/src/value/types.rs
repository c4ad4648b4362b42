//! The types of columns, and the bytes that a value of each takes in a row.

use std::{fmt, str::FromStr};

use crate::Error;

/// Bytes that a field of variable length may have at most: 1 MiB.
pub const FIELD_LEN_MAX: u32 = 1 << 20;

/// The widest text and bytes in the fixed part of a row: with the head of a slot they would fill a line.
pub(crate) const SHORT_WIDTH_MAX: u32 = 56;

/// A type of a column.
///
/// | type | values | bytes in the fixed part of a row |
/// |---|---|---|
/// | `Int8` to `Int64`, `UInt8` to `UInt64` | integers | 1 to 8 |
/// | `Float64` | IEEE 754; one NaN, above all numbers; no negative zero | 8 |
/// | `Decimal(p, s)` | exact: p digits, s of them behind the point | 8 if p ≤ 18, else 16 |
/// | `Char(n)` | text of at most n bytes of UTF-8; blanks at its end do not count | n if n ≤ 56, else a cell |
/// | `VarChar(n)` | text of at most n bytes of UTF-8 | 1 + n if n ≤ 55, else a cell |
/// | `Bytes(n)` | any bytes, at most n | 1 + n if n ≤ 55, else a cell |
/// | `Timestamp` | microseconds since 1970-01-01 00:00 UTC | 8 |
///
/// A cell has 8 bytes, and says where the field's bytes are. A `Decimal` of 16 bytes has no cell: it is a fixed column.
/// Text and bytes that would fit a line as a slot of their own are in the fixed part, too: they save a reader that line, and a
/// writer a state and a cell.
///
/// Lengths count bytes, not characters, so that a type says how much space a field may take. `Char(n)` is padded with
/// blanks in SQL's sense: two values that differ in blanks at the end are the same value, and the value that is read
/// has none. Values of `Char` compare by their bytes without these blanks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Type {
    /// A signed integer of 8 bits.
    Int8,
    /// A signed integer of 16 bits.
    Int16,
    /// A signed integer of 32 bits.
    Int32,
    /// A signed integer of 64 bits.
    Int64,
    /// An unsigned integer of 8 bits.
    UInt8,
    /// An unsigned integer of 16 bits.
    UInt16,
    /// An unsigned integer of 32 bits.
    UInt32,
    /// An unsigned integer of 64 bits.
    UInt64,
    /// A floating-point number of 64 bits.
    Float64,
    /// An exact number: its digits (1 to 38), and how many of them stand behind the point.
    Decimal(u8, u8),
    /// Text that SQL pads with blanks: its greatest length in bytes.
    Char(u32),
    /// Text: its greatest length in bytes.
    VarChar(u32),
    /// Any bytes: their greatest number.
    Bytes(u32),
    /// A moment, in microseconds.
    Timestamp,
}

impl Type {
    /// Bytes that a value takes in the fixed part of a row.
    #[must_use]
    #[inline]
    pub const fn width(self) -> usize {
        match self {
            Self::Int8 | Self::UInt8 => 1,
            Self::Int16 | Self::UInt16 => 2,
            Self::Int32 | Self::UInt32 => 4,
            Self::Int64 | Self::UInt64 | Self::Float64 | Self::Timestamp => 8,
            Self::Decimal(precision, _) => match precision {
                ..=18 => 8,
                _ => 16,
            },
            Self::Char(_) | Self::VarChar(_) | Self::Bytes(_) if self.is_long() => 8,
            Self::Char(len) => len as usize,
            Self::VarChar(len) | Self::Bytes(len) => 1 + len as usize,
        }
    }

    /// Whether the fixed part has a cell for the column, and the field's bytes are elsewhere.
    #[must_use]
    #[inline]
    pub const fn is_long(self) -> bool {
        match self {
            Self::Char(len) => len > SHORT_WIDTH_MAX,
            Self::VarChar(len) | Self::Bytes(len) => len >= SHORT_WIDTH_MAX,
            _ => false,
        }
    }

    /// The alignment of a value in the fixed part: 8 for cells and for all values of whole words.
    pub(crate) const fn alignment(self) -> usize {
        match (self.is_text_or_bytes() && !self.is_long(), self.width()) {
            (true, _) => 1,
            (false, width) if width > 8 => 8,
            (false, width) => width,
        }
    }

    /// Whether values are text or bytes, of any length up to the type's.
    pub(crate) const fn is_text_or_bytes(self) -> bool {
        matches!(self, Self::Char(_) | Self::VarChar(_) | Self::Bytes(_))
    }
}

/// The type as SQL writes it.
impl fmt::Display for Type {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Int8 => f.write_str("INT8"),
            Self::Int16 => f.write_str("INT16"),
            Self::Int32 => f.write_str("INT32"),
            Self::Int64 => f.write_str("INT64"),
            Self::UInt8 => f.write_str("UINT8"),
            Self::UInt16 => f.write_str("UINT16"),
            Self::UInt32 => f.write_str("UINT32"),
            Self::UInt64 => f.write_str("UINT64"),
            Self::Float64 => f.write_str("FLOAT64"),
            Self::Decimal(precision, scale) => write!(f, "DECIMAL({precision},{scale})"),
            Self::Char(len) => write!(f, "CHAR({len})"),
            Self::VarChar(len) => write!(f, "VARCHAR({len})"),
            Self::Bytes(len) => write!(f, "BYTES({len})"),
            Self::Timestamp => f.write_str("TIMESTAMP"),
        }
    }
}

/// The type that a text names, in letters of either case: the form in which types are displayed.
impl FromStr for Type {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        const HINT: &str = "write INT8 to INT64, UINT8 to UINT64, FLOAT64, DECIMAL(12,2), CHAR(8), VARCHAR(20), \
                            BYTES(16) or TIMESTAMP";
        let unknown = || Error::not_a("type of a column", text, HINT);
        let (name, numbers) = match text.trim().split_once('(') {
            None => (text.trim(), Vec::new()),
            Some((name, rest)) => {
                let numbers = rest.strip_suffix(')').ok_or_else(unknown)?.split(',');
                let numbers = numbers.map(|number| number.trim().parse::<u32>().ok());
                (name.trim_end(), numbers.collect::<Option<_>>().ok_or_else(unknown)?)
            }
        };
        match (name.to_ascii_uppercase().as_str(), &numbers[..]) {
            ("INT8", []) => Ok(Self::Int8),
            ("INT16", []) => Ok(Self::Int16),
            ("INT32", []) => Ok(Self::Int32),
            ("INT64", []) => Ok(Self::Int64),
            ("UINT8", []) => Ok(Self::UInt8),
            ("UINT16", []) => Ok(Self::UInt16),
            ("UINT32", []) => Ok(Self::UInt32),
            ("UINT64", []) => Ok(Self::UInt64),
            ("FLOAT64", []) => Ok(Self::Float64),
            ("TIMESTAMP", []) => Ok(Self::Timestamp),
            // Numbers that no such type can have are found when a schema is built of it.
            ("DECIMAL", &[precision, scale]) => {
                let digits = |number| u8::try_from(number).unwrap_or(u8::MAX);
                Ok(Self::Decimal(digits(precision), digits(scale)))
            }
            ("CHAR", &[len]) => Ok(Self::Char(len)),
            ("VARCHAR", &[len]) => Ok(Self::VarChar(len)),
            ("BYTES", &[len]) => Ok(Self::Bytes(len)),
            _ => Err(unknown()),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::strategies;

    proptest! {
        #[test]
        fn a_type_is_read_as_it_is_displayed(ty in strategies::ty()) {
            let text = ty.to_string();
            prop_assert_eq!(text.parse::<Type>().unwrap(), ty);
            prop_assert_eq!(text.to_lowercase().replace(',', " , ").parse::<Type>().unwrap(), ty);
        }
    }

    #[test]
    fn what_is_no_type_is_refused() {
        for text in [
            "",
            "int",
            "INT64()",
            "INT64(8)",
            "DECIMAL",
            "DECIMAL(1)",
            "DECIMAL(1,2,3)",
            "CHAR",
            "CHAR(-1)",
            "CHAR(x)",
            "CHAR(1",
            "CHAR(1))",
            "VARCHAR(5000000000)",
            "TEXT(3)",
        ] {
            let error = text.parse::<Type>().unwrap_err().to_string();
            assert!(
                error.starts_with(&format!("{text:?} is no type of a column; write INT8")),
                "{error}"
            );
        }
    }
}
