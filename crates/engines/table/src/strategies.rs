//! Random types, values and schemas for property tests.

use proptest::{collection::vec, prelude::*};

use crate::{Column, Decimal, TableSchema, Timestamp, Type, Value, ValueRef};

/// Any type that a column may have, short and long ones.
pub(crate) fn ty() -> impl Strategy<Value = Type> {
    let len = || prop_oneof![1..=12_u32, Just(300)];
    prop_oneof![
        Just(Type::Int8),
        Just(Type::Int16),
        Just(Type::Int32),
        Just(Type::Int64),
        Just(Type::UInt8),
        Just(Type::UInt16),
        Just(Type::UInt32),
        Just(Type::UInt64),
        Just(Type::Float64),
        Just(Type::Timestamp),
        (1..=38_u8, 0..=38_u8)
            .prop_map(|(precision, scale)| Type::Decimal(precision, scale.min(precision))),
        len().prop_map(Type::Char),
        len().prop_map(Type::VarChar),
        len().prop_map(Type::Bytes),
    ]
}

/// Text of at most `len` bytes of few characters, so that prefixes and blanks are frequent.
fn text(len: u32) -> impl Strategy<Value = String> {
    let character = prop_oneof![
        Just('a'),
        Just('b'),
        Just(' '),
        Just('\0'),
        Just('\x01'),
        Just('\x02'),
        Just('é'),
        any::<char>()
    ];
    vec(character, 0..=len.min(24) as usize).prop_map(move |characters| {
        let mut text = String::new();
        for character in characters {
            if text.len() + character.len_utf8() <= len as usize {
                text.push(character);
            }
        }
        text
    })
}

/// Integers near zero and near both ends of `bits` bits.
fn integer(bits: u32) -> impl Strategy<Value = i64> {
    let wide = any::<i64>().prop_map(move |integer| integer >> (64 - bits));
    let end = (i64::MAX >> (64 - bits)) - 2;
    prop_oneof![
        wide,
        -3..=3_i64,
        (0..=2_i64).prop_map(move |by| end + by),
        (0..=2_i64).prop_map(move |by| -end - 3 + by),
    ]
}

/// A value of the type, not NULL, in the form of its column.
pub(crate) fn value(ty: Type) -> BoxedStrategy<Value> {
    let bits = 8 * ty.width() as u32;
    match ty {
        Type::Int8 | Type::Int16 | Type::Int32 | Type::Int64 => {
            integer(bits).prop_map(Value::from).boxed()
        }
        Type::UInt8 | Type::UInt16 | Type::UInt32 | Type::UInt64 => integer(bits)
            .prop_map(move |bits_| Value::from(bits_ as u64 & u64::MAX >> (64 - bits)))
            .boxed(),
        Type::Float64 => {
            let any = any::<u64>().prop_map(f64::from_bits);
            let few = prop::sample::select(vec![
                0.0,
                -0.0,
                1.0,
                -1.0,
                f64::INFINITY,
                f64::NAN,
                -f64::NAN,
            ]);
            prop_oneof![any, few].prop_map(Value::from).boxed()
        }
        Type::Decimal(precision, scale) => {
            let limit = 10_i128.pow(precision.into());
            let near = (-2..=2_i128).prop_map(move |by| by % limit);
            let any = any::<i128>().prop_map(move |bits| bits % limit);
            let end = prop::sample::select(vec![limit - 1, 1 - limit]);
            let mantissa = prop_oneof![near, any, end];
            mantissa
                .prop_map(move |mantissa| Value::from(Decimal::new(mantissa, scale).unwrap()))
                .boxed()
        }
        Type::Char(len) | Type::VarChar(len) => {
            text(len).prop_map(|text| Value::from(text.as_str())).boxed()
        }
        Type::Bytes(len) => {
            let byte = prop_oneof![0..3_u8, any::<u8>()];
            vec(byte, 0..=len.min(24) as usize)
                .prop_map(|bytes| Value::from(bytes.as_slice()))
                .boxed()
        }
        Type::Timestamp => integer(64).prop_map(|moment| Value::from(Timestamp(moment))).boxed(),
    }
}

/// A value that the column takes.
pub(crate) fn value_of(column: &Column) -> BoxedStrategy<Value> {
    match column.is_nullable() {
        true => prop_oneof![1 => Just(Value::Null), 3 => value(column.ty())].boxed(),
        false => value(column.ty()),
    }
}

/// A schema of 1 to 12 columns; the first is the primary key, and never NULL.
pub(crate) fn schema() -> impl Strategy<Value = TableSchema> {
    vec((ty(), any::<bool>()), 1..=12).prop_map(|columns| {
        let mut builder = TableSchema::builder("t");
        for (number, (ty, nullable)) in columns.into_iter().enumerate() {
            let name = format!("c{number}");
            builder = match nullable && number > 0 {
                true => builder.nullable(&name, ty),
                false => builder.column(&name, ty),
            };
        }
        builder.primary_key(["c0"]).build().unwrap()
    })
}

/// The values of a row of the schema.
pub(crate) fn values_of(schema: &TableSchema) -> impl Strategy<Value = Vec<Value>> + use<> {
    schema.columns().iter().map(value_of).collect::<Vec<_>>()
}

/// The values, borrowed.
pub(crate) fn borrowed(values: &[Value]) -> Vec<ValueRef<'_>> {
    values.iter().map(Value::as_ref).collect()
}

/// The values in the form of their columns.
pub(crate) fn conformed<'a>(columns: &[Column], values: &'a [Value]) -> Vec<ValueRef<'a>> {
    let pairs = columns.iter().zip(values);
    pairs.map(|(column, value)| column.conform(value.as_ref()).unwrap()).collect()
}
