//! Ranges of a value's bits, as BITCOUNT and BITPOS take them: in bytes or in bits, from either end.

use crate::call::is;
use crate::failure::{Outcome, SYNTAX};

/// The unit of a range's ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Unit {
    Byte,
    Bit,
}

impl Unit {
    /// The unit that the last word of a request names; without one, bytes.
    pub(super) fn parse(word: Option<&[u8]>) -> Outcome<Self> {
        match word {
            None => Ok(Self::Byte),
            Some(word) if is(word, "BYTE") => Ok(Self::Byte),
            Some(word) if is(word, "BIT") => Ok(Self::Bit),
            Some(_) => Err(SYNTAX.into()),
        }
    }

    fn bits(self) -> u64 {
        match self {
            Self::Byte => 8,
            Self::Bit => 1,
        }
    }
}

/// The first bit of a range, and the bit behind its last one, in a value of so many bytes; `None` if the range is
/// empty. Negative ends count from the end of the value, and both ends are included.
pub(super) fn bits(len: usize, start: i64, end: i64, unit: Unit) -> Option<(u64, u64)> {
    let units = (len as u64 * 8 / unit.bits()) as i64;
    let from_end = |position: i64| if position < 0 { (units + position).max(0) } else { position };
    let (start, end) = (from_end(start), from_end(end).min(units - 1));
    if start > end {
        return None;
    }
    Some((start as u64 * unit.bits(), (end as u64 + 1) * unit.bits()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ends_are_in_their_unit_and_clipped() {
        for (len, start, end, unit, expected) in [
            (3, 0, -1, Unit::Byte, Some((0, 24))),
            (3, 1, 1, Unit::Byte, Some((8, 16))),
            (3, -2, 99, Unit::Byte, Some((8, 24))),
            (3, -9, -9, Unit::Byte, Some((0, 8))),
            (3, 2, 1, Unit::Byte, None),
            (3, 3, 9, Unit::Byte, None),
            (0, 0, -1, Unit::Byte, None),
            (3, 5, -1, Unit::Bit, Some((5, 24))),
            (3, i64::MIN, i64::MAX, Unit::Bit, Some((0, 24))),
        ] {
            assert_eq!(bits(len, start, end, unit), expected, "{start} {end} {unit:?}");
        }
    }
}
