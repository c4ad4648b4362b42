//! Values of columns as text: in files, in JSON, and on the command line.

use std::str;

use halite_table::{Column, KeySchema, TableSchema, Type, Value, ValueRef};
use serde_json::json;

use super::csv::{Field, Reader, Record};
use crate::{Error, Result};

/// The value of a column that a field says. An empty field without quotes is NULL; in a column of text that has to have
/// a value, it is empty text.
pub(super) fn value_of(column: &Column, field: Field<'_>) -> std::result::Result<Value, String> {
    let is_text = matches!(column.ty(), Type::Char(_) | Type::VarChar(_));
    let wrong = |why: String| format!("column {:?}: {why}", column.name());
    let text = str::from_utf8(field.bytes).map_err(|_| wrong("it is not UTF-8".to_owned()))?;
    if text.is_empty() && !field.is_quoted && (column.is_nullable() || !is_text) {
        return Ok(Value::Null);
    }
    column.ty().parse(text).map_err(|error| wrong(error.to_string()))
}

/// The beginning of a key that an argument says: values with commas between them, as in a file.
pub(super) fn prefix(
    option: &str,
    text: &str,
    schema: &TableSchema,
    key: &KeySchema,
) -> Result<Vec<u8>> {
    let wrong = |why: String| Error::Usage(format!("{option} {text:?}: {why}"));
    let (mut reader, mut record) =
        (Reader::new(option.to_owned(), text.as_bytes()), Record::default());
    reader.read(&mut record)?;
    let columns = key.columns().map(|number| &schema.columns()[number]);
    let values = columns.zip(record.fields()).map(|(column, field)| value_of(column, field));
    let mut values = values.collect::<std::result::Result<Vec<_>, _>>().map_err(wrong)?;
    // More values than columns: the key says so.
    values.resize(record.fields().len(), Value::Null);
    if values.is_empty() {
        return Err(wrong("it has no value; an empty text is \"\"".to_owned()));
    }
    let values: Vec<_> = values.iter().map(Value::as_ref).collect();
    key.prefix(&values).map_err(|error| wrong(error.to_string()))
}

/// A value in JSON: integers, and floating-point numbers that JSON has, are numbers; all else is its text.
pub(super) fn json_of(value: ValueRef<'_>) -> serde_json::Value {
    match value {
        ValueRef::Null => serde_json::Value::Null,
        ValueRef::Int(integer) => json!(integer),
        ValueRef::UInt(integer) => json!(integer),
        ValueRef::Float(float) if float.is_finite() => json!(float),
        ValueRef::Text(text) => json!(text),
        other => json!(other.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn field(bytes: &[u8], is_quoted: bool) -> Field<'_> {
        Field { bytes, is_quoted }
    }

    #[test]
    fn an_empty_field_is_null_unless_it_is_text() {
        let may = |ty| Column::new("c", ty, true);
        let must = |ty| Column::new("c", ty, false);
        let empty = field(b"", false);
        assert_eq!(value_of(&may(Type::VarChar(3)), empty), Ok(Value::Null));
        assert_eq!(value_of(&may(Type::VarChar(3)), field(b"", true)), Ok(Value::from("")));
        assert_eq!(value_of(&must(Type::Char(3)), empty), Ok(Value::from("")));
        assert_eq!(value_of(&must(Type::Int8), empty), Ok(Value::Null));
        assert!(
            value_of(&may(Type::Int8), field(b"", true)).unwrap_err().starts_with("column \"c\": ")
        );
        let not_utf8 = value_of(&may(Type::Char(3)), field(b"\xff", false)).unwrap_err();
        assert_eq!(not_utf8, "column \"c\": it is not UTF-8");
    }

    #[test]
    fn an_argument_is_the_beginning_of_a_key() {
        let schema = TableSchema::builder("t").column("a", Type::VarChar(9));
        let schema = schema.column("b", Type::Int8).primary_key(["a", "b"]).build().unwrap();
        let key = schema.primary_key();
        let prefix = |text| prefix("--from", text, &schema, key);
        let expected = key.encode(&halite_table::values!["x,y", -1]).unwrap();
        assert_eq!(prefix("\"x,y\",-1").unwrap(), expected);
        assert_eq!(prefix("\"\"").unwrap(), key.prefix(&halite_table::values![""]).unwrap());
        for text in ["", "x,y", "x,1,2", "x,1000", "\"x"] {
            assert!(prefix(text).is_err(), "{text}");
        }
    }

    #[test]
    fn numbers_that_json_does_not_have_are_text() {
        assert_eq!(json_of(u64::MAX.into()), json!(u64::MAX));
        assert_eq!(json_of(f64::NAN.into()), json!("NaN"));
        assert_eq!(json_of((&[0_u8, 255]).into()), json!("\\x00ff"));
        assert_eq!(json_of(ValueRef::Null), serde_json::Value::Null);
    }
}
