//! The encoding of one value in a key.

use crate::{
    Decimal, Timestamp, Type, Value, ValueRef,
    value::{ordered_bits, unordered_bits},
};

/// The end of text or bytes.
const END: u8 = 0x00;

/// The byte before one that would be the end or this byte itself; behind it, that byte plus one.
const ESCAPE: u8 = 0x01;

/// The byte before a value of a column that may be NULL, and the byte that is NULL itself.
pub(super) const PRESENT: u8 = 0x01;
pub(super) const NULL: u8 = 0x00;

fn put_bytes(to: &mut Vec<u8>, mut bytes: &[u8]) {
    while let Some(at) = bytes.iter().position(|&byte| byte <= ESCAPE) {
        to.extend_from_slice(&bytes[..at]);
        to.extend_from_slice(&[ESCAPE, bytes[at] + 1]);
        bytes = &bytes[at + 1..];
    }
    to.extend_from_slice(bytes);
    to.push(END);
}

/// Appends a value, which has the form of its column ([`Column::conform`](crate::Column::conform)), and is not NULL.
#[inline]
pub(super) fn put(to: &mut Vec<u8>, ty: Type, value: ValueRef<'_>) {
    match value {
        // The low bytes of a number are the number in fewer bytes, as it is in the range of its type.
        ValueRef::Int(integer) => match ty.width() {
            1 => to.extend_from_slice(&(integer as i8 ^ i8::MIN).to_be_bytes()),
            2 => to.extend_from_slice(&(integer as i16 ^ i16::MIN).to_be_bytes()),
            4 => to.extend_from_slice(&(integer as i32 ^ i32::MIN).to_be_bytes()),
            _ => to.extend_from_slice(&(integer ^ i64::MIN).to_be_bytes()),
        },
        ValueRef::UInt(integer) => match ty.width() {
            1 => to.extend_from_slice(&(integer as u8).to_be_bytes()),
            2 => to.extend_from_slice(&(integer as u16).to_be_bytes()),
            4 => to.extend_from_slice(&(integer as u32).to_be_bytes()),
            _ => to.extend_from_slice(&integer.to_be_bytes()),
        },
        ValueRef::Float(float) => to.extend_from_slice(&ordered_bits(float).to_be_bytes()),
        ValueRef::Decimal(decimal) => match ty.width() {
            8 => to.extend_from_slice(&(decimal.mantissa() as i64 ^ i64::MIN).to_be_bytes()),
            _ => to.extend_from_slice(&(decimal.mantissa() ^ i128::MIN).to_be_bytes()),
        },
        ValueRef::Text(text) => put_bytes(to, text.as_bytes()),
        ValueRef::Bytes(bytes) => put_bytes(to, bytes),
        ValueRef::Timestamp(Timestamp(moment)) => {
            to.extend_from_slice(&(moment ^ i64::MIN).to_be_bytes());
        }
        ValueRef::Null => unreachable!("NULL is one byte, which the key's encoder writes"),
    }
}

/// The encoded bytes of one value at the front of a key, text and bytes with their end; and the bytes behind them.
pub(super) fn split(ty: Type, key: &[u8]) -> Result<(&[u8], &[u8]), &'static str> {
    let len = match ty {
        Type::Char(_) | Type::VarChar(_) | Type::Bytes(_) => {
            1 + key.iter().position(|&byte| byte == END).ok_or("a text or its bytes do not end")?
        }
        _ => ty.width(),
    };
    key.split_at_checked(len).ok_or("it ends in the middle of a value")
}

/// The bytes of which [`put_bytes`] made these, the end among them.
fn bytes_of(encoded: &[u8]) -> Result<Vec<u8>, &'static str> {
    let mut bytes = Vec::with_capacity(encoded.len());
    let mut rest = encoded.iter();
    while let Some(&byte) = rest.next() {
        match byte {
            END => return Ok(bytes),
            ESCAPE => match rest.next() {
                Some(&escaped @ (1 | 2)) => bytes.push(escaped - 1),
                _ => return Err("it has an escaped byte of none that there is"),
            },
            _ => bytes.push(byte),
        }
    }
    Err("a text or its bytes do not end")
}

/// The value that [`split`] found.
pub(super) fn value(ty: Type, encoded: &[u8]) -> Result<Value, &'static str> {
    let number = || {
        let folded = encoded.iter().fold(0_u128, |number, &byte| number << 8 | u128::from(byte));
        (folded, 1_u128 << (8 * encoded.len() - 1))
    };
    // A number with the sign bit turned back, and its sign extended to 128 bits.
    let signed = || {
        let (number, sign) = number();
        (number as i128).wrapping_sub(sign as i128)
    };
    match ty {
        Type::Int8 | Type::Int16 | Type::Int32 | Type::Int64 => Ok(Value::Int(signed() as i64)),
        Type::UInt8 | Type::UInt16 | Type::UInt32 | Type::UInt64 => {
            Ok(Value::UInt(number().0 as u64))
        }
        Type::Float64 => Ok(Value::Float(unordered_bits(number().0 as u64))),
        Type::Decimal(_, scale) => {
            let decimal = Decimal::new(signed(), scale);
            decimal.map(Value::Decimal).map_err(|_| "it has a decimal of more than 38 digits")
        }
        Type::Char(_) | Type::VarChar(_) => {
            let text = String::from_utf8(bytes_of(encoded)?);
            text.map(|text| Value::Text(text.into())).map_err(|_| "it has text that is not UTF-8")
        }
        Type::Bytes(_) => Ok(Value::Bytes(bytes_of(encoded)?.into())),
        Type::Timestamp => Ok(Value::Timestamp(Timestamp(signed() as i64))),
    }
}
