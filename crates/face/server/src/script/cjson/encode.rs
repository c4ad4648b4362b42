//! JSON from values of Lua.

use mlua::{Table, Value};

use super::super::limits::Limits;
use super::super::number::general;
use super::super::thrown::type_name;
use super::{DEPTH_MAX, Invalid, Options, Wrong};

/// The JSON of a value; `Err`: why there is none.
pub(super) fn encode(
    options: &Options,
    limits: &Limits<'_>,
    value: &Value,
) -> Result<Vec<u8>, Wrong> {
    let mut writer = Writer { options, limits, out: Vec::new() };
    writer.value(value, 0)?;
    Ok(writer.out)
}

struct Writer<'a> {
    options: &'a Options,
    limits: &'a Limits<'a>,
    out: Vec<u8>,
}

impl Writer<'_> {
    fn value(&mut self, value: &Value, depth: i64) -> Result<(), Wrong> {
        self.limits.step(10)?;
        self.limits.check_len(self.out.len())?;
        match value {
            Value::String(text) => self.string(&text.as_bytes()),
            Value::Integer(number) => return self.number(*number as f64),
            Value::Number(number) => return self.number(*number),
            Value::Boolean(true) => self.out.extend_from_slice(b"true"),
            Value::Boolean(false) => self.out.extend_from_slice(b"false"),
            Value::Nil => self.out.extend_from_slice(b"null"),
            Value::LightUserData(data) if data.0.is_null() => self.out.extend_from_slice(b"null"),
            Value::Table(table) => return self.table(table, depth + 1),
            other => return Err(refused(other, "type not supported")),
        }
        Ok(())
    }

    fn table(&mut self, table: &Table, depth: i64) -> Result<(), Wrong> {
        if depth > self.options.encode_depth_max.min(DEPTH_MAX) {
            return Err(Wrong::Text(format!("Cannot serialise, excessive nesting ({depth})")));
        }
        match self.array_len(table)? {
            Some(len) => self.array(table, len, depth),
            None => self.object(table, depth),
        }
    }

    /// The length of a table that is an array.
    fn array_len(&self, table: &Table) -> Result<Option<i64>, Wrong> {
        let (mut max, mut count) = (0, 0);
        for pair in table.pairs::<Value, Value>() {
            self.limits.step(1)?;
            let index = match pair?.0 {
                Value::Integer(index) if index > 0 => index,
                _ => return Ok(None),
            };
            max = index.max(max);
            count += 1;
        }
        let Options { sparse_ratio, sparse_safe, converts_sparse, .. } = *self.options;
        let is_sparse =
            sparse_ratio > 0 && max > sparse_ratio.saturating_mul(count) && max > sparse_safe;
        match is_sparse {
            true if converts_sparse => Ok(None),
            true => {
                let why = "Cannot serialise table: excessively sparse array";
                Err(Wrong::Text(why.to_owned()))
            }
            false => Ok(Some(max).filter(|&max| max > 0)),
        }
    }

    fn array(&mut self, table: &Table, len: i64, depth: i64) -> Result<(), Wrong> {
        self.out.push(b'[');
        for index in 1..=len {
            if index > 1 {
                self.out.push(b',');
            }
            self.value(&table.raw_get(index)?, depth)?;
        }
        self.out.push(b']');
        Ok(())
    }

    fn object(&mut self, table: &Table, depth: i64) -> Result<(), Wrong> {
        self.out.push(b'{');
        let mut is_first = true;
        for pair in table.pairs::<Value, Value>() {
            let (key, value) = pair?;
            if !std::mem::take(&mut is_first) {
                self.out.push(b',');
            }
            match &key {
                Value::String(text) => self.string(&text.as_bytes()),
                Value::Integer(_) | Value::Number(_) => {
                    self.out.push(b'"');
                    self.value(&key, depth)?;
                    self.out.push(b'"');
                }
                other => return Err(refused(other, "table key must be a number or string")),
            }
            self.out.push(b':');
            self.value(&value, depth)?;
        }
        self.out.push(b'}');
        Ok(())
    }

    fn number(&mut self, number: f64) -> Result<(), Wrong> {
        if number.is_finite() {
            let text = general(number, self.options.precision as usize);
            self.out.extend_from_slice(text.as_bytes());
            return Ok(());
        }
        match self.options.encode_invalid {
            Invalid::Refuse => {
                let why = "Cannot serialise number: must not be NaN or Inf";
                return Err(Wrong::Text(why.to_owned()));
            }
            Invalid::Null => self.out.extend_from_slice(b"null"),
            Invalid::Allow if number.is_nan() => self.out.extend_from_slice(b"nan"),
            Invalid::Allow if number < 0.0 => self.out.extend_from_slice(b"-inf"),
            Invalid::Allow => self.out.extend_from_slice(b"inf"),
        }
        Ok(())
    }

    fn string(&mut self, text: &[u8]) {
        self.out.push(b'"');
        for &byte in text {
            match byte {
                b'"' => self.out.extend_from_slice(b"\\\""),
                b'\\' => self.out.extend_from_slice(b"\\\\"),
                b'/' => self.out.extend_from_slice(b"\\/"),
                8 => self.out.extend_from_slice(b"\\b"),
                b'\t' => self.out.extend_from_slice(b"\\t"),
                b'\n' => self.out.extend_from_slice(b"\\n"),
                12 => self.out.extend_from_slice(b"\\f"),
                b'\r' => self.out.extend_from_slice(b"\\r"),
                0..32 | 127 => self.out.extend_from_slice(format!("\\u{byte:04x}").as_bytes()),
                _ => self.out.push(byte),
            }
        }
        self.out.push(b'"');
    }
}

fn refused(value: &Value, why: &str) -> Wrong {
    Wrong::Text(format!("Cannot serialise {}: {why}", type_name(Some(value))))
}
