//! The places of columns in the fixed part of a row.
//!
//! ```text
//! fixed part = cells of long columns, 8 bytes each, in the order of the columns   from byte 0: aligned words
//!            | columns of 8 and 16 bytes
//!            | columns of 4 bytes | of 2 bytes | of 1 byte, and short text and bytes
//!            | null bitmap: one bit for each column that may be NULL, 1 = NULL
//!            | zeros up to a multiple of 8 bytes
//! ```
//!
//! So every number is aligned to its width, and alignment takes no byte but at the end. Within a group, columns stand
//! in the order of the schema. The bytes of a column that is NULL are zeros. 1,024 columns of 56 bytes and their bitmap
//! take 56.1 KiB: the fixed part stays below its limit of 64 KiB whatever the columns are.
//!
//! Numbers are little-endian. Short text and bytes: `CHAR(n ≤ 56)` is padded with blanks; `VARCHAR(n ≤ 55)` and
//! `BYTES(n ≤ 55)` have their length in a byte before them, and zeros behind them.

use crate::{Column, Decimal, Timestamp, Type, ValueRef};

/// Bytes of a cell, and the unit of the fixed part.
const WORD: usize = 8;

/// The place of a column in the fixed part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// The offset of its bytes.
    pub offset: usize,
    /// The number of its bytes: 8, if it is long.
    pub width: usize,
    /// Whether the bytes are a cell.
    pub is_long: bool,
    /// The byte of the null bitmap that has its bit.
    null_byte: usize,
    /// Its bit there; 0 if the column is never NULL.
    null_mask: u8,
}

impl Place {
    /// Whether the column is NULL; the fixed part is whole.
    #[inline]
    pub(crate) fn is_null(&self, fixed: &[u8]) -> bool {
        self.null_mask != 0 && fixed[self.null_byte] & self.null_mask != 0
    }

    #[inline]
    pub(crate) fn set_null(&self, fixed: &mut [u8], null: bool) {
        if self.null_mask != 0 {
            let byte = &mut fixed[self.null_byte];
            *byte = if null { *byte | self.null_mask } else { *byte & !self.null_mask };
        }
    }

    /// The column's bytes in a whole fixed part.
    #[inline]
    pub(crate) fn of<'a>(&self, fixed: &'a [u8]) -> &'a [u8] {
        &fixed[self.offset..self.offset + self.width]
    }

    #[inline]
    pub(crate) fn of_mut<'a>(&self, fixed: &'a mut [u8]) -> &'a mut [u8] {
        &mut fixed[self.offset..self.offset + self.width]
    }
}

/// The places of all columns of a table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Layout {
    places: Box<[Place]>,
    long: Box<[usize]>,
    fixed_len: usize,
}

impl Layout {
    pub(super) fn of(columns: &[Column]) -> Self {
        let none = Place { offset: 0, width: 0, is_long: false, null_byte: 0, null_mask: 0 };
        let mut places = vec![none; columns.len()];
        let mut offset = 0;
        for alignment in [0, 8, 4, 2, 1] {
            for (place, column) in places.iter_mut().zip(columns) {
                let is_long = column.ty().is_long();
                let group = if is_long { 0 } else { column.ty().alignment() };
                if group == alignment {
                    let width = column.ty().width();
                    *place = Place { offset, width, is_long, ..none };
                    offset += width;
                }
            }
        }
        let nullable = places.iter_mut().zip(columns).filter(|(_, column)| column.is_nullable());
        let mut bits = 0;
        for (bit, (place, _)) in nullable.enumerate() {
            (place.null_byte, place.null_mask) = (offset + bit / 8, 1 << (bit % 8));
            bits = bit + 1;
        }
        let fixed_len = (offset + bits.div_ceil(8)).next_multiple_of(WORD);
        let long = (0..columns.len()).filter(|&column| places[column].is_long).collect();
        Self { places: places.into(), long, fixed_len }
    }

    /// Bytes of the fixed part: a multiple of 8.
    #[must_use]
    #[inline]
    pub fn fixed_len(&self) -> usize {
        self.fixed_len
    }

    /// The numbers of the columns with cells, in the order of the cells: the cell of the first is at byte 0, that of
    /// the second at byte 8.
    #[must_use]
    #[inline]
    pub fn long(&self) -> &[usize] {
        &self.long
    }

    /// The places of the columns, by their numbers.
    #[must_use]
    #[inline]
    pub fn places(&self) -> &[Place] {
        &self.places
    }
}

/// The words for a number whose width is that of its place: an assertion of the layout.
const WIDTH: &str = "a column's place is as wide as its type";

/// The value of a column that is neither long nor NULL.
#[inline]
pub(crate) fn read(ty: Type, bytes: &[u8]) -> Result<ValueRef<'_>, &'static str> {
    #[inline]
    fn array<const N: usize>(bytes: &[u8]) -> [u8; N] {
        bytes.try_into().expect(WIDTH)
    }
    Ok(match ty {
        Type::Int8 => ValueRef::Int(i8::from_le_bytes(array(bytes)).into()),
        Type::Int16 => ValueRef::Int(i16::from_le_bytes(array(bytes)).into()),
        Type::Int32 => ValueRef::Int(i32::from_le_bytes(array(bytes)).into()),
        Type::Int64 => ValueRef::Int(i64::from_le_bytes(array(bytes))),
        Type::UInt8 => ValueRef::UInt(u8::from_le_bytes(array(bytes)).into()),
        Type::UInt16 => ValueRef::UInt(u16::from_le_bytes(array(bytes)).into()),
        Type::UInt32 => ValueRef::UInt(u32::from_le_bytes(array(bytes)).into()),
        Type::UInt64 => ValueRef::UInt(u64::from_le_bytes(array(bytes))),
        Type::Float64 => ValueRef::Float(f64::from_le_bytes(array(bytes))),
        Type::Timestamp => ValueRef::Timestamp(Timestamp(i64::from_le_bytes(array(bytes)))),
        Type::Decimal(_, scale) => {
            let mantissa = match bytes.len() {
                8 => i64::from_le_bytes(array(bytes)).into(),
                _ => i128::from_le_bytes(array(bytes)),
            };
            let decimal = Decimal::new(mantissa, scale);
            ValueRef::Decimal(decimal.map_err(|_| "a decimal has more than 38 digits")?)
        }
        Type::Char(_) => ValueRef::Text(text(bytes)?.trim_end_matches(' ')),
        Type::VarChar(_) => ValueRef::Text(text(short(bytes)?)?),
        Type::Bytes(_) => ValueRef::Bytes(short(bytes)?),
    })
}

#[inline]
fn text(bytes: &[u8]) -> Result<&str, &'static str> {
    std::str::from_utf8(bytes).map_err(|_| "its text is not UTF-8")
}

/// Bytes with their number before them.
#[inline]
fn short(bytes: &[u8]) -> Result<&[u8], &'static str> {
    let (&len, bytes) = bytes.split_first().expect(WIDTH);
    bytes.get(..usize::from(len)).ok_or("its bytes are more than its type allows")
}

/// Writes a value, which has the form of its column and is neither long nor NULL, over the column's bytes.
#[inline]
pub(crate) fn write(to: &mut [u8], value: ValueRef<'_>) {
    let width = to.len();
    match value {
        // The low bytes of a number are the number in fewer bytes, as it is in the range of its type.
        ValueRef::Int(integer) => to.copy_from_slice(&integer.to_le_bytes()[..width]),
        ValueRef::UInt(integer) => to.copy_from_slice(&integer.to_le_bytes()[..width]),
        ValueRef::Float(float) => to.copy_from_slice(&float.to_le_bytes()),
        ValueRef::Timestamp(Timestamp(moment)) => to.copy_from_slice(&moment.to_le_bytes()),
        ValueRef::Decimal(decimal) => {
            to.copy_from_slice(&decimal.mantissa().to_le_bytes()[..width]);
        }
        ValueRef::Text(_) | ValueRef::Bytes(_) | ValueRef::Null => {
            unreachable!("text, bytes and NULL are written by their column's type")
        }
    }
}

/// Writes the text or bytes of a short column over the column's bytes.
#[inline]
pub(crate) fn write_short(to: &mut [u8], ty: Type, bytes: &[u8]) {
    match ty {
        Type::Char(_) => {
            to.fill(b' ');
            to[..bytes.len()].copy_from_slice(bytes);
        }
        _ => {
            to.fill(0);
            to[0] = bytes.len() as u8;
            to[1..=bytes.len()].copy_from_slice(bytes);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn layout(columns: &[(Type, bool)]) -> Layout {
        let columns: Vec<Column> =
            columns.iter().map(|&(ty, nullable)| Column::new("c", ty, nullable)).collect();
        Layout::of(&columns)
    }

    #[test]
    fn cells_come_first_and_alignment_takes_no_byte() {
        let layout = layout(&[
            (Type::Int8, false),
            (Type::VarChar(100), true),
            (Type::Int16, true),
            (Type::Decimal(38, 2), false),
            (Type::Char(3), false),
            (Type::Int64, false),
            (Type::Bytes(56), false),
            (Type::UInt32, false),
            (Type::VarChar(7), false),
        ]);
        let places: Vec<(usize, usize)> =
            layout.places().iter().map(|place| (place.offset, place.width)).collect();
        assert_eq!(
            places,
            [(46, 1), (0, 8), (44, 2), (16, 16), (47, 3), (32, 8), (8, 8), (40, 4), (50, 8)]
        );
        assert_eq!(layout.long(), [1, 6]);
        assert_eq!(layout.fixed_len(), 64);
        assert_eq!((layout.places()[1].null_byte, layout.places()[1].null_mask), (58, 1));
        assert_eq!((layout.places()[2].null_byte, layout.places()[2].null_mask), (58, 2));
        assert_eq!(layout.places()[0].null_mask, 0);
    }

    #[test]
    fn places_never_overlap_and_numbers_are_aligned() {
        let types = [
            Type::Int8,
            Type::Int16,
            Type::Int32,
            Type::Int64,
            Type::Float64,
            Type::Decimal(18, 0),
            Type::Decimal(19, 0),
            Type::Char(56),
            Type::Char(57),
            Type::VarChar(55),
            Type::VarChar(56),
            Type::Bytes(1),
            Type::Timestamp,
        ];
        for start in 0..types.len() {
            for count in 1..40 {
                let columns: Vec<(Type, bool)> = (0..count)
                    .map(|at| (types[(start + at * at) % types.len()], at % 3 == 0))
                    .collect();
                let layout = layout(&columns);
                let mut used = vec![false; layout.fixed_len()];
                for (place, (ty, _)) in layout.places().iter().zip(&columns) {
                    assert_eq!(place.offset % ty.alignment(), 0, "{ty}");
                    used[place.offset..][..place.width].iter_mut().for_each(|used| {
                        assert!(!*used);
                        *used = true;
                    });
                }
                let columns_len: usize = columns.iter().map(|(ty, _)| ty.width()).sum();
                let nulls = columns.iter().filter(|(_, nullable)| *nullable).count().div_ceil(8);
                assert!(used[..columns_len].iter().all(|&used| used));
                assert_eq!(layout.fixed_len(), (columns_len + nulls).next_multiple_of(8));
            }
        }
        for ty in types {
            let widest = vec![(ty, true); super::super::COLUMNS_MAX];
            assert!(self::layout(&widest).fixed_len() <= 64 << 10, "{ty}");
        }
    }
}
