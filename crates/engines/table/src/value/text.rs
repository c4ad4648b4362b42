//! Values from text, as files of comma-separated values have them.

use super::{Decimal, Timestamp, Type, Value};
use crate::{Error, Result};

/// The bytes of `\x` and two hexadecimal digits each.
fn bytes_of(text: &str) -> Option<Vec<u8>> {
    let digits = text.strip_prefix("\\x")?.as_bytes();
    let digit = |byte: u8| char::from(byte).to_digit(16).map(|digit| digit as u8);
    let pairs = digits.chunks(2).map(|pair| match *pair {
        [high, low] => Some(digit(high)? << 4 | digit(low)?),
        _ => None,
    });
    pairs.collect()
}

impl Type {
    /// The value of this type that a text says, in the form in which values are displayed; never NULL.
    ///
    /// Whether the value fits the column (its range, digits and length) is found when a row is made of it.
    ///
    /// # Errors
    /// [`Error::NotParsed`].
    pub fn parse(self, text: &str) -> Result<Value> {
        let fails = |hint| move || Error::not_a(self, text, hint);
        match self {
            Self::Int8 | Self::Int16 | Self::Int32 | Self::Int64 => {
                let parsed = text.parse().map(Value::Int);
                parsed.ok().ok_or_else(fails("write an integer of its range"))
            }
            Self::UInt8 | Self::UInt16 | Self::UInt32 | Self::UInt64 => {
                let parsed = text.parse().map(Value::UInt);
                parsed.ok().ok_or_else(fails("write an integer of its range, without a sign"))
            }
            Self::Float64 => {
                let parsed = text.parse().map(Value::Float);
                parsed.ok().ok_or_else(fails("write a number such as -1.5e10, or inf, or NaN"))
            }
            Self::Decimal(..) => text.parse::<Decimal>().map(Value::Decimal),
            Self::Char(_) | Self::VarChar(_) => Ok(Value::Text(text.into())),
            Self::Bytes(_) => bytes_of(text)
                .map(|bytes| Value::Bytes(bytes.into()))
                .ok_or_else(fails("write \\x and two hexadecimal digits for each byte")),
            Self::Timestamp => text.parse::<Timestamp>().map(Value::Timestamp),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn what_is_no_value_of_the_type_is_refused_with_the_type_in_the_message() {
        for (ty, text) in [
            (Type::Int8, "1.5"),
            (Type::Int64, "9223372036854775808"),
            (Type::UInt8, "-1"),
            (Type::Float64, "one"),
            (Type::Decimal(12, 2), "1,5"),
            (Type::Bytes(4), "00"),
            (Type::Bytes(4), "\\x0"),
            (Type::Bytes(4), "\\x0g"),
            (Type::Bytes(4), "\\xé"),
            (Type::Timestamp, "now"),
        ] {
            let error = ty.parse(text).unwrap_err().to_string();
            let name = ty.to_string();
            assert!(
                error.contains(name.split('(').next().unwrap()) && error.contains(text),
                "{error}"
            );
        }
    }

    proptest! {
        #[test]
        fn what_is_displayed_is_read(
            int in any::<i64>(), uint in any::<u64>(), bits in any::<u64>(), text in ".{0,9}",
            bytes in prop::collection::vec(any::<u8>(), 0..9),
        ) {
            let (float, decimal) = (f64::from_bits(bits), Decimal::new(int.into(), (uint % 39) as u8).unwrap());
            let cases = [
                (Type::Int64, Value::from(int)),
                (Type::UInt64, Value::from(uint)),
                (Type::Float64, Value::from(float)),
                (Type::Decimal(38, 20), Value::from(decimal)),
                (Type::VarChar(90), Value::from(text.as_str())),
                (Type::Bytes(9), Value::from(bytes.as_slice())),
                (Type::Timestamp, Value::from(Timestamp(int))),
            ];
            for (ty, value) in cases {
                prop_assert_eq!(ty.parse(&value.to_string()).unwrap(), value);
            }
        }
    }
}
