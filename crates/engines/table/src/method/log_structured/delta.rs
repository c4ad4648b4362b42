//! A delta: the columns of a row that an update has changed, with their new values.
//!
//! ```text
//! delta = (column varint | value)..      ascending columns
//! value = 0                              NULL
//!       | 1 | varint, zigzag             an integer
//!       | 2 | varint                     one without a sign
//!       | 3 | u64                        a floating-point number's bits
//!       | 4 | scale u8 | u128            a decimal
//!       | 5, 6 | length varint | bytes   text, bytes
//!       | 7 | u64                        a moment
//! ```
//!
//! Values have their kind with them, so that a delta is read without a schema. The schema has the last word when a delta
//! is applied to a row: a value that its column does not take is damage.

use halite_codec::{Reader, put_bytes, put_varint};

use crate::{Change, Decimal, Timestamp, ValueRef};

/// A defect in words.
type Parsed<T> = Result<T, &'static str>;

/// The delta of these changes, of which the columns ascend.
pub(super) fn encode(changes: &[Change<'_>]) -> Vec<u8> {
    let mut delta = Vec::new();
    for Change { column, value } in changes {
        put_varint(&mut delta, *column as u64);
        put_value(&mut delta, *value);
    }
    delta
}

fn put_value(to: &mut Vec<u8>, value: ValueRef<'_>) {
    match value {
        ValueRef::Null => to.push(0),
        ValueRef::Int(integer) => {
            to.push(1);
            put_varint(to, (integer << 1 ^ integer >> 63) as u64);
        }
        ValueRef::UInt(integer) => {
            to.push(2);
            put_varint(to, integer);
        }
        ValueRef::Float(float) => {
            to.push(3);
            to.extend_from_slice(&float.to_bits().to_le_bytes());
        }
        ValueRef::Decimal(decimal) => {
            to.extend_from_slice(&[4, decimal.scale()]);
            to.extend_from_slice(&decimal.mantissa().to_le_bytes());
        }
        ValueRef::Text(text) => {
            to.push(5);
            put_bytes(to, text.as_bytes());
        }
        ValueRef::Bytes(bytes) => {
            to.push(6);
            put_bytes(to, bytes);
        }
        ValueRef::Timestamp(Timestamp(moment)) => {
            to.push(7);
            to.extend_from_slice(&moment.to_le_bytes());
        }
    }
}

/// The changes of a delta.
pub(super) fn decode(delta: &[u8]) -> Parsed<Vec<Change<'_>>> {
    let mut reader = Reader(delta);
    let mut changes: Vec<Change<'_>> = Vec::new();
    while !reader.is_empty() {
        let column = reader.varint_u32().map_err(|error| error.reason())? as usize;
        let value = value(&mut reader)?;
        if changes.last().is_some_and(|last| last.column >= column) {
            return Err("its columns do not ascend");
        }
        changes.push(Change { column, value });
    }
    match changes.is_empty() {
        true => Err("it changes nothing"),
        false => Ok(changes),
    }
}

fn value<'a>(reader: &mut Reader<'a>) -> Parsed<ValueRef<'a>> {
    let mut read = || -> halite_codec::Result<Parsed<ValueRef<'a>>> {
        Ok(Ok(match reader.u8()? {
            0 => ValueRef::Null,
            1 => {
                let zigzag = reader.varint()?;
                ValueRef::Int((zigzag >> 1) as i64 ^ -((zigzag & 1) as i64))
            }
            2 => ValueRef::UInt(reader.varint()?),
            3 => ValueRef::Float(f64::from_bits(reader.u64()?)),
            4 => {
                let (scale, mantissa) = (reader.u8()?, reader.u128()? as i128);
                match Decimal::new(mantissa, scale) {
                    Ok(decimal) => ValueRef::Decimal(decimal),
                    Err(_) => return Ok(Err("a decimal has more than 38 digits")),
                }
            }
            5 => match std::str::from_utf8(reader.bytes()?) {
                Ok(text) => ValueRef::Text(text),
                Err(_) => return Ok(Err("a text is not UTF-8")),
            },
            6 => ValueRef::Bytes(reader.bytes()?),
            7 => ValueRef::Timestamp(Timestamp(reader.u64()? as i64)),
            _ => return Ok(Err("a value is of no kind")),
        }))
    };
    read().map_err(|error| error.reason())?
}

/// The delta that has the effect of several, of which the first is the newest.
pub(super) fn merge(deltas: &[impl AsRef<[u8]>]) -> Parsed<Vec<u8>> {
    let mut merged: Vec<Change<'_>> = Vec::new();
    for delta in deltas {
        for change in decode(delta.as_ref())? {
            if let Err(at) = merged.binary_search_by_key(&change.column, |other| other.column) {
                merged.insert(at, change);
            }
        }
    }
    Ok(encode(&merged))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::values;

    #[test]
    fn every_value_comes_back_and_the_newest_of_a_column_counts() {
        let decimal = Decimal::new(-123_456_789_012_345_678_901, 4).unwrap();
        let values = values![
            None::<i64>,
            0,
            -1,
            i64::MIN,
            i64::MAX,
            u64::MAX,
            -0.5,
            decimal,
            "text",
            b"",
            Timestamp(-7),
        ];
        let changes = values.iter().enumerate();
        let changes: Vec<_> =
            changes.map(|(column, &value)| Change { column: 3 * column, value }).collect();
        let delta = encode(&changes);
        assert_eq!(decode(&delta).unwrap(), changes);
        for len in 1..delta.len() {
            // A delta that is cut within a change is refused.
            let whole = decode(&delta[..len]).is_ok_and(|found| found == changes[..found.len()]);
            assert!(whole || decode(&delta[..len]).is_err());
        }
        let newer = encode(&[Change::new(1, "new"), Change::new(3, 5)]);
        let merged = merge(&[&newer, &delta]).unwrap();
        let merged = decode(&merged).unwrap();
        assert_eq!(merged.len(), changes.len() + 1);
        assert_eq!(merged[1..3], [Change::new(1, "new"), Change::new(3, 5)]);
        assert_eq!(merged[3], changes[2]);
        for bytes in [&[][..], &[0, 9], &[2, 0, 2, 0], &[2, 0, 1, 0], &[0, 5, 1, 0xff]] {
            assert!(decode(bytes).is_err(), "{bytes:?}");
        }
    }
}
