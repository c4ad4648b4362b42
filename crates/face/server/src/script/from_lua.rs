//! The reply of a script, from the value that it returned.

use mlua::{Table, Value};

use super::limits::Limits;
use super::number;
use super::pattern::until_zero;
use crate::failure::{Failure, Outcome};
use crate::reply::{Protocol, Reply};

/// How deep tables may lie in each other: Redis' Lua stack has about as much room.
const DEPTH_MAX: usize = 1200;

/// Writes a value as a reply. `booleans` says whether the script has chosen RESP3, in which booleans are themselves.
pub(super) fn from_lua(
    value: &Value,
    booleans: bool,
    reply: &mut Reply<'_>,
    len_max: usize,
    limits: &Limits<'_>,
) -> Outcome {
    Writer { booleans, reply, len_max, limits }.value(value, 0)
}

struct Writer<'a, 'b> {
    booleans: bool,
    reply: &'a mut Reply<'b>,
    /// Beyond this length the rest is not written: the client is dropped.
    len_max: usize,
    limits: &'a Limits<'a>,
}

impl Writer<'_, '_> {
    /// Whether the rest need not be written.
    fn is_full(&self) -> bool {
        self.reply.out.len() > self.len_max
    }

    fn value(&mut self, value: &Value, depth: usize) -> Outcome {
        self.limits.step(20).map_err(failed)?;
        if self.is_full() {
            return Ok(());
        }
        if depth > DEPTH_MAX {
            self.reply.error(b"ERR reached lua stack limit");
            return Ok(());
        }
        match value {
            Value::String(text) => self.reply.bulk(&text.as_bytes()),
            Value::Integer(number) => self.reply.integer(*number),
            Value::Number(number) => self.reply.integer(number::truncated(*number)),
            Value::Boolean(truth) if self.booleans => self.boolean(*truth),
            Value::Boolean(true) => self.reply.integer(1),
            Value::Table(table) => return self.table(table, depth),
            _ => self.reply.null(),
        }
        Ok(())
    }

    fn table(&mut self, table: &Table, depth: usize) -> Outcome {
        if let Some(text) = text(table, "err")? {
            self.reply.error(until_zero(&text));
            return Ok(());
        }
        if let Some(text) = text(table, "ok")? {
            self.line(b'+', until_zero(&text));
            return Ok(());
        }
        match field(table, "double")? {
            Value::Number(number) => {
                self.double(number);
                return Ok(());
            }
            Value::Integer(number) => {
                self.double(number as f64);
                return Ok(());
            }
            _ => {}
        }
        if let Value::Table(pairs) = field(table, "map")? {
            return self.map(&pairs, depth);
        }
        if let Value::Table(members) = field(table, "set")? {
            return self.set(&members, depth);
        }
        if let Some(digits) = text(table, "big_number")? {
            match self.reply.protocol {
                Protocol::Resp2 => self.reply.bulk(&one_line(&digits)),
                Protocol::Resp3 => self.line(b'(', &digits),
            }
            return Ok(());
        }
        if let Value::Table(parts) = field(table, "verbatim_string")?
            && let (Some(format), Some(body)) = (text(&parts, "format")?, text(&parts, "string")?)
        {
            self.verbatim(&format, &body);
            return Ok(());
        }
        self.array(table, depth)
    }

    /// The elements up to the first that is missing.
    fn array(&mut self, table: &Table, depth: usize) -> Outcome {
        let mut len = 0;
        while !matches!(item(table, len + 1)?, Value::Nil) {
            len += 1;
        }
        self.reply.array(len);
        for index in 1..=len {
            if self.is_full() {
                break;
            }
            self.value(&item(table, index)?, depth + 1)?;
        }
        Ok(())
    }

    fn map(&mut self, pairs: &Table, depth: usize) -> Outcome {
        self.reply.map(pairs.pairs::<Value, Value>().count());
        for pair in pairs.pairs::<Value, Value>() {
            let (key, value) = pair.map_err(failed)?;
            if self.is_full() {
                break;
            }
            self.value(&key, depth + 1)?;
            self.value(&value, depth + 1)?;
        }
        Ok(())
    }

    fn set(&mut self, members: &Table, depth: usize) -> Outcome {
        self.reply.set(members.pairs::<Value, Value>().count());
        for pair in members.pairs::<Value, Value>() {
            let (member, _) = pair.map_err(failed)?;
            if self.is_full() {
                break;
            }
            self.value(&member, depth + 1)?;
        }
        Ok(())
    }

    fn double(&mut self, number: f64) {
        let text = number::shortest(number);
        match self.reply.protocol {
            Protocol::Resp2 => self.reply.bulk(text.as_bytes()),
            Protocol::Resp3 => self.line(b',', text.as_bytes()),
        }
    }

    fn boolean(&mut self, truth: bool) {
        match self.reply.protocol {
            Protocol::Resp2 => self.reply.flag(truth),
            Protocol::Resp3 => self.line(b'#', if truth { b"t" } else { b"f" }),
        }
    }

    fn verbatim(&mut self, format: &[u8], body: &[u8]) {
        match self.reply.protocol {
            Protocol::Resp2 => self.reply.bulk(body),
            Protocol::Resp3 => {
                let mut format = format.to_vec();
                format.resize(3, b' ');
                self.line(b'=', (body.len() + 4).to_string().as_bytes());
                self.reply.out.extend_from_slice(&format);
                self.reply.out.push(b':');
                self.reply.out.extend_from_slice(body);
                self.reply.out.extend_from_slice(b"\r\n");
            }
        }
    }

    /// A line of the protocol.
    fn line(&mut self, mark: u8, text: &[u8]) {
        self.reply.out.push(mark);
        self.reply.out.extend_from_slice(&one_line(text));
        self.reply.out.extend_from_slice(b"\r\n");
    }
}

/// Whether a value is an error that no command has made, which is counted as such already.
pub(super) fn is_new_error(table: &Table) -> bool {
    let is_known = matches!(field(table, "ignore_error_stats_update"), Ok(Value::Boolean(true)));
    !is_known && matches!(text(table, "err"), Ok(Some(_)))
}

/// A text whose line breaks are spaces.
fn one_line(text: &[u8]) -> Vec<u8> {
    text.iter().map(|&byte| if matches!(byte, b'\r' | b'\n') { b' ' } else { byte }).collect()
}

fn field(table: &Table, name: &str) -> Outcome<Value> {
    table.raw_get(name).map_err(failed)
}

fn item(table: &Table, index: usize) -> Outcome<Value> {
    table.raw_get(index).map_err(failed)
}

/// A field that is a text.
pub(super) fn text(table: &Table, name: &str) -> Outcome<Option<Vec<u8>>> {
    Ok(match field(table, name)? {
        Value::String(text) => Some(text.as_bytes().to_vec()),
        _ => None,
    })
}

/// There was no memory in the Lua state.
fn failed(error: mlua::Error) -> Failure {
    format!("ERR Error running script, {error}").into()
}
