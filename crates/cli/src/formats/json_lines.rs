//! JSON lines: an object on each line.
//!
//! ```text
//! {"key": "greeting", "value": "hello"}               text (UTF-8)
//! {"key_base64": "AAE=", "value_base64": "/w=="}      any bytes, in standard base64
//! {"space": "db0:expires", "key": ..., "value": ...}  a record that names its key space
//! ```
//!
//! A key may also be a number, and a value may be of any type: they are then stored as their JSON text. With a key
//! field chosen by `--key`, any object is a record: the field's value → the object's text. Blank lines are skipped.

use std::collections::BTreeMap;
use std::io::{self, BufRead, Write};
use std::rc::Rc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::value::RawValue;

use super::Record;
use super::lines::Lines;
use crate::Result;

/// The fields of an object, each as its text: numbers keep all their digits.
type Object<'a> = BTreeMap<String, &'a RawValue>;
type Parsed<T> = std::result::Result<T, String>;

pub(super) fn read<'a, R: BufRead + 'a>(
    mut lines: Lines<R>,
    key_field: Option<&'a str>,
) -> impl Iterator<Item = Result<Record>> + 'a {
    std::iter::from_fn(move || {
        lines.next_record(|line| {
            let line = line.trim_ascii();
            if line.is_empty() {
                return Ok(None);
            }
            let object: Object<'_> = serde_json::from_slice(line).map_err(|error| {
                let what = if line.starts_with(b"{") { "not JSON" } else { "not a JSON object" };
                format!("{what}: {error}")
            })?;
            let record = match key_field {
                Some(field) => object_by_key(&object, field, line),
                None => pair(&object),
            };
            record.map(Some)
        })
    })
}

fn object_by_key(object: &Object<'_>, field: &str, text: &[u8]) -> Parsed<Record> {
    let key = object.get(field).ok_or_else(|| format!("no field `{field}`"))?;
    Ok(Record { space: None, key: key_text(field, key)?, value: text.to_vec() })
}

fn pair(object: &Object<'_>) -> Parsed<Record> {
    let key = match (object.get("key"), object.get("key_base64")) {
        (Some(key), None) => key_text("key", key)?,
        (None, Some(key)) => base64_text("key_base64", key)?,
        (None, None) => return Err("no field `key`; choose another with --key FIELD".into()),
        (Some(_), Some(_)) => return Err("both `key` and `key_base64`; give one".into()),
    };
    let value = match (object.get("value"), object.get("value_base64")) {
        (Some(value), None) => string(value).unwrap_or_else(|| value.get().to_owned()).into_bytes(),
        (None, Some(value)) => base64_text("value_base64", value)?,
        (None, None) => {
            return Err("no field `value`; to store whole objects, choose --key FIELD".into());
        }
        (Some(_), Some(_)) => return Err("both `value` and `value_base64`; give one".into()),
    };
    let space = match object.get("space") {
        Some(space) => {
            let name = string(space).ok_or("the field `space` is not a string")?;
            Some(Rc::from(name))
        }
        None => None,
    };
    Ok(Record { space, key, value })
}

fn key_text(field: &str, key: &RawValue) -> Parsed<Vec<u8>> {
    let is_number = key.get().starts_with(|char: char| char == '-' || char.is_ascii_digit());
    string(key)
        .or_else(|| is_number.then(|| key.get().to_owned()))
        .map(String::into_bytes)
        .ok_or_else(|| format!("the field `{field}` is neither a string nor a number"))
}

fn base64_text(field: &str, text: &RawValue) -> Parsed<Vec<u8>> {
    let text = string(text).ok_or_else(|| format!("the field `{field}` is not a string"))?;
    STANDARD.decode(text).map_err(|error| format!("the field `{field}` is not base64: {error}"))
}

fn string(value: &RawValue) -> Option<String> {
    serde_json::from_str(value.get()).ok()
}

pub(super) fn write(
    out: &mut impl Write,
    space: Option<&str>,
    key: &[u8],
    value: Option<&[u8]>,
) -> io::Result<()> {
    out.write_all(b"{")?;
    if let Some(space) = space {
        write_json_bytes(out, "space", space.as_bytes())?;
        out.write_all(b",")?;
    }
    write_json_bytes(out, "key", key)?;
    if let Some(value) = value {
        out.write_all(b",")?;
        write_json_bytes(out, "value", value)?;
    }
    out.write_all(b"}\n")
}

/// Writes the field `name` of an object: text as it is, other bytes as `name_base64`.
pub(crate) fn write_json_bytes(out: &mut impl Write, name: &str, bytes: &[u8]) -> io::Result<()> {
    match std::str::from_utf8(bytes) {
        Ok(text) => {
            write!(out, "\"{name}\":")?;
            serde_json::to_writer(out, text).map_err(io::Error::from)
        }
        Err(_) => {
            write!(
                out,
                "\"{name}_base64\":\"{}\"",
                base64::display::Base64Display::new(bytes, &STANDARD)
            )
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read_all(text: &str, key_field: Option<&str>) -> Result<Vec<Record>> {
        read(Lines::new("people.jsonl".into(), text.as_bytes()), key_field).collect()
    }

    #[test]
    fn a_chosen_field_is_the_key_and_the_object_the_value() {
        let text = "{\"id\": 12345678901234567890123, \"n\": 1.50}\n\n  {\"id\":\"k\\u00f6\"}\r\n";
        let records = read_all(text, Some("id")).unwrap();
        assert_eq!(records[0].key, b"12345678901234567890123");
        assert_eq!(records[0].value, b"{\"id\": 12345678901234567890123, \"n\": 1.50}");
        assert_eq!(records[1].key, "kö".as_bytes());
        assert_eq!(records[1].value, b"{\"id\":\"k\\u00f6\"}");
    }

    #[test]
    fn a_value_that_is_not_a_string_is_its_json() {
        let records = read_all("{\"key\":1,\"value\":{\"a\": [1]}}\n", None).unwrap();
        assert_eq!((&records[0].key[..], &records[0].value[..]), (&b"1"[..], &b"{\"a\": [1]}"[..]));
    }

    #[test]
    fn a_wrong_line_is_named_with_its_reason() {
        for (text, key_field, why) in [
            ("{\"id\":1}\n{\"name\":2}\n", Some("id"), "people.jsonl:2: no field `id`"),
            ("{\"id\":null}", Some("id"), "people.jsonl:1: the field `id` is neither"),
            ("{\"id\":1}", None, "people.jsonl:1: no field `key`; choose another with --key"),
            ("{\"key\":1}", None, "people.jsonl:1: no field `value`"),
            ("{\"key\":1", None, "people.jsonl:1: not JSON: "),
            ("[1]", None, "people.jsonl:1: not a JSON object: "),
            ("{\"key_base64\":\"%\",\"value\":1}", None, "people.jsonl:1: the field `key_base64`"),
            ("{\"key\":1,\"value\":1,\"value_base64\":\"\"}", None, "people.jsonl:1: both `value`"),
        ] {
            let error = read_all(text, key_field).unwrap_err().to_string();
            assert!(error.starts_with(why), "{error}");
        }
    }
}
