//! The library `cmsgpack`: MessagePack.

use std::rc::Rc;

use mlua::{Lua, MultiValue, Table, Value};

use super::bit;
use super::desk::Desk;
use super::lifted::Lifted;
use super::limits::{Limits, with_limits};
use super::number;
use super::thrown::{bad_argument, fail, type_name};

/// How deep tables are packed: those below are nil.
const NESTING_MAX: usize = 16;
/// How deep tables are unpacked.
const DEPTH_MAX: usize = 1000;
/// Values that a function takes or returns: each takes a place that Lua has few of.
const VALUES_MAX: usize = 4000;
/// Arguments that a function looks at; the others give their places up.
const ARGUMENTS: usize = 3;

/// The library.
pub(super) fn table(lua: &Lua, desk: &Rc<Desk>) -> mlua::Result<Table> {
    let table = lua.create_table()?;
    table.set("_NAME", "cmsgpack")?;
    table.set("_VERSION", "lua-cmsgpack 0.4.0")?;
    table.set("_COPYRIGHT", "Copyright (C) 2012, Salvatore Sanfilippo")?;
    table.set("_DESCRIPTION", "MessagePack C implementation for Lua")?;
    table.set("pack", with_limits(lua, desk, pack)?)?;
    table.set("unpack", with_limits(lua, desk, unpack)?)?;
    table.set("unpack_one", with_limits(lua, desk, unpack_one)?)?;
    table.set("unpack_limit", with_limits(lua, desk, unpack_limit)?)?;
    Ok(table)
}

fn pack(lua: &Lua, limits: &Limits<'_>, args: MultiValue) -> mlua::Result<Value> {
    if args.is_empty() {
        return Err(bad_argument(lua, 0, "pack", "MessagePack pack needs input."));
    }
    if args.len() > VALUES_MAX {
        return Err(bad_argument(lua, 0, "pack", "Too many arguments for MessagePack pack."));
    }
    let mut out = Vec::new();
    for arg in &args {
        pack_value(limits, &mut out, arg, 0)?;
    }
    limits.check_len(out.len())?;
    lua.create_string(out).map(Value::String)
}

fn pack_value(
    limits: &Limits<'_>,
    out: &mut Vec<u8>,
    value: &Value,
    level: usize,
) -> mlua::Result<()> {
    limits.step(10)?;
    limits.check_len(out.len())?;
    match value {
        Value::String(text) => pack_string(out, &text.as_bytes()),
        Value::Boolean(truth) => out.push(if *truth { 0xc3 } else { 0xc2 }),
        Value::Integer(number) => pack_integer(out, *number),
        Value::Number(number) => pack_number(out, *number),
        Value::Table(table) if level < NESTING_MAX => return pack_table(limits, out, table, level),
        _ => out.push(0xc0),
    }
    Ok(())
}

fn pack_string(out: &mut Vec<u8>, text: &[u8]) {
    match text.len() {
        len @ 0..32 => out.push(0xa0 | len as u8),
        len @ 32..=0xff => out.extend([0xd9, len as u8]),
        len => pack_len(out, len, 0xda),
    }
    out.extend_from_slice(text);
}

/// A length of 16 bits behind `mark`, or one of 32 bits behind the next one.
fn pack_len(out: &mut Vec<u8>, len: usize, mark: u8) {
    match u16::try_from(len) {
        Ok(len) => {
            out.push(mark);
            out.extend_from_slice(&len.to_be_bytes());
        }
        Err(_) => {
            out.push(mark + 1);
            out.extend_from_slice(&(len as u32).to_be_bytes());
        }
    }
}

fn pack_number(out: &mut Vec<u8>, number: f64) {
    const LIMIT: f64 = 9_223_372_036_854_775_808.0;
    if number.fract() == 0.0 && (-LIMIT..LIMIT).contains(&number) {
        return pack_integer(out, number as i64);
    }
    let single = number as f32;
    if f64::from(single) == number {
        out.push(0xca);
        out.extend_from_slice(&single.to_be_bytes());
    } else {
        out.push(0xcb);
        out.extend_from_slice(&number.to_be_bytes());
    }
}

fn pack_integer(out: &mut Vec<u8>, number: i64) {
    let bytes = number.to_be_bytes();
    let (mark, len) = match number {
        -32..=0x7f => return out.push(number as u8),
        0x80..=0xff => (0xcc, 1),
        0x100..=0xffff => (0xcd, 2),
        0x1_0000..=0xffff_ffff => (0xce, 4),
        0x1_0000_0000.. => (0xcf, 8),
        -0x80..=-33 => (0xd0, 1),
        -0x8000..=-0x81 => (0xd1, 2),
        -0x8000_0000..=-0x8001 => (0xd2, 4),
        ..=-0x8000_0001 => (0xd3, 8),
    };
    out.push(mark);
    out.extend_from_slice(&bytes[8 - len..]);
}

fn pack_table(
    limits: &Limits<'_>,
    out: &mut Vec<u8>,
    table: &Table,
    level: usize,
) -> mlua::Result<()> {
    let (mut count, mut max, mut is_array) = (0, 0, true);
    for pair in table.pairs::<Value, Value>() {
        limits.step(1)?;
        match pair?.0 {
            Value::Integer(index) if index > 0 => max = index.max(max),
            _ => is_array = false,
        }
        count += 1;
    }
    if is_array && max == count as i64 {
        match count {
            0..16 => out.push(0x90 | count as u8),
            _ => pack_len(out, count, 0xdc),
        }
        for index in 1..=count {
            pack_value(limits, out, &table.raw_get(index)?, level + 1)?;
        }
        return Ok(());
    }
    match count {
        0..16 => out.push(0x80 | count as u8),
        _ => pack_len(out, count, 0xde),
    }
    for pair in table.pairs::<Value, Value>() {
        let (key, value) = pair?;
        pack_value(limits, out, &key, level + 1)?;
        pack_value(limits, out, &value, level + 1)?;
    }
    Ok(())
}

fn unpack(lua: &Lua, limits: &Limits<'_>, mut args: MultiValue) -> mlua::Result<MultiValue> {
    args.truncate(ARGUMENTS);
    let bytes = string_argument(lua, &args, "unpack")?;
    unpack_values(lua, limits, &bytes, (0, 0), false)
}

fn unpack_one(lua: &Lua, limits: &Limits<'_>, mut args: MultiValue) -> mlua::Result<MultiValue> {
    args.truncate(ARGUMENTS);
    let bytes = string_argument(lua, &args, "unpack_one")?;
    let offset = optional(lua, &args, 1, "unpack_one")?;
    unpack_values(lua, limits, &bytes, (1, offset), true)
}

fn unpack_limit(lua: &Lua, limits: &Limits<'_>, mut args: MultiValue) -> mlua::Result<MultiValue> {
    args.truncate(ARGUMENTS);
    let bytes = string_argument(lua, &args, "unpack_limit")?;
    let Some(limit) = args.get(1).and_then(bit::number) else {
        let why = format!("number expected, got {}", type_name(args.get(1)));
        return Err(bad_argument(lua, 2, "unpack_limit", &why));
    };
    let offset = optional(lua, &args, 2, "unpack_limit")?;
    unpack_values(lua, limits, &bytes, (limit as i64, offset), true)
}

fn string_argument(lua: &Lua, args: &MultiValue, name: &str) -> mlua::Result<Vec<u8>> {
    let text = match args.front() {
        Some(arg @ (Value::String(_) | Value::Integer(_) | Value::Number(_))) => {
            lua.coerce_string(arg.clone())?
        }
        _ => None,
    };
    text.map(|text| text.as_bytes().to_vec()).ok_or_else(|| {
        let why = format!("string expected, got {}", type_name(args.front()));
        bad_argument(lua, 1, name, &why)
    })
}

fn optional(lua: &Lua, args: &MultiValue, index: usize, name: &str) -> mlua::Result<i64> {
    match args.get(index) {
        None | Some(Value::Nil) => Ok(0),
        arg => arg.and_then(bit::number).map(number::truncated).ok_or_else(|| {
            let why = format!("number expected, got {}", type_name(arg));
            bad_argument(lua, index + 1, name, &why)
        }),
    }
}

/// Unpacks up to `limit` values, all of them if that is 0, from `offset` on. `tells_end`: the place behind them comes
/// first, or -1 if that is the end.
fn unpack_values(
    lua: &Lua,
    limits: &Limits<'_>,
    bytes: &[u8],
    (limit, offset): (i64, i64),
    tells_end: bool,
) -> mlua::Result<MultiValue> {
    let len = bytes.len();
    if offset < 0 || limit < 0 {
        let why = format!("Invalid request to unpack with offset of {offset} and limit of {len}.");
        return Err(fail(lua, why));
    }
    if offset as usize > len {
        let why = format!("Start offset {offset} greater than input length {len}.");
        return Err(fail(lua, why));
    }
    let lifted = limits.lift()?;
    let mut reader = Reader { lua, limits, lifted: &lifted, bytes, at: offset as usize };
    let mut values = MultiValue::new();
    let limit = if limit == 0 { usize::MAX } else { limit as usize };
    while reader.at < len && values.len() < limit {
        if values.len() >= VALUES_MAX {
            return Err(fail(lua, "too many values to unpack"));
        }
        values.push_back(reader.value(0).map_err(|wrong| match wrong {
            Wrong::Lua(error) => error,
            Wrong::Format => fail(lua, "Bad data format in input."),
            Wrong::End => fail(lua, "Missing bytes in input."),
        })?);
    }
    if tells_end {
        let end = if reader.at < len { reader.at as f64 } else { -1.0 };
        values.push_front(Value::Number(end));
    }
    Ok(values)
}

enum Wrong {
    Format,
    End,
    Lua(mlua::Error),
}

impl From<mlua::Error> for Wrong {
    fn from(error: mlua::Error) -> Self {
        Self::Lua(error)
    }
}

struct Reader<'a> {
    lua: &'a Lua,
    limits: &'a Limits<'a>,
    lifted: &'a Lifted<'a>,
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Reader<'a> {
    fn take(&mut self, len: usize) -> Result<&'a [u8], Wrong> {
        let rest = &self.bytes[self.at..];
        let taken = rest.get(..len).ok_or(Wrong::End)?;
        self.at += len;
        Ok(taken)
    }

    fn unsigned(&mut self, len: usize) -> Result<u64, Wrong> {
        Ok(self.take(len)?.iter().fold(0, |number, &byte| number << 8 | u64::from(byte)))
    }

    fn signed(&mut self, len: usize) -> Result<Value, Wrong> {
        let unused = 64 - 8 * len as u32;
        let number = (self.unsigned(len)? << unused) as i64 >> unused;
        Ok(Value::Number(number as f64))
    }

    fn value(&mut self, depth: usize) -> Result<Value, Wrong> {
        if depth > DEPTH_MAX {
            return Err(Wrong::Format);
        }
        self.limits.step(10)?;
        self.lifted.check()?;
        let mark = self.take(1)?[0];
        match mark {
            0..0x80 => Ok(Value::Number(f64::from(mark))),
            0xe0.. => Ok(Value::Number(f64::from(mark as i8))),
            0xc0 => Ok(Value::Nil),
            0xc2 => Ok(Value::Boolean(false)),
            0xc3 => Ok(Value::Boolean(true)),
            0xcc..=0xcf => {
                // As in Redis, one of 64 bits has a sign after all.
                let number = self.unsigned(1 << (mark - 0xcc))? as i64;
                Ok(Value::Number(number as f64))
            }
            0xd0..=0xd3 => self.signed(1 << (mark - 0xd0)),
            0xca => {
                let bits = self.unsigned(4)? as u32;
                Ok(Value::Number(f64::from(f32::from_bits(bits))))
            }
            0xcb => Ok(Value::Number(f64::from_bits(self.unsigned(8)?))),
            0xa0..0xc0 => self.string(usize::from(mark & 0x1f)),
            0xd9..=0xdb => {
                let len = self.unsigned(1 << (mark - 0xd9))? as usize;
                self.string(len)
            }
            0x90..0xa0 => self.array(usize::from(mark & 0x0f), depth),
            0xdc | 0xdd => {
                let len = self.unsigned(if mark == 0xdc { 2 } else { 4 })? as usize;
                self.array(len, depth)
            }
            0x80..0x90 => self.map(usize::from(mark & 0x0f), depth),
            0xde | 0xdf => {
                let len = self.unsigned(if mark == 0xde { 2 } else { 4 })? as usize;
                self.map(len, depth)
            }
            _ => Err(Wrong::Format),
        }
    }

    fn string(&mut self, len: usize) -> Result<Value, Wrong> {
        let bytes = self.take(len)?;
        Ok(Value::String(self.lua.create_string(bytes)?))
    }

    fn array(&mut self, len: usize, depth: usize) -> Result<Value, Wrong> {
        let table = self.lua.create_table()?;
        for index in 1..=len {
            table.raw_set(index, self.value(depth + 1)?)?;
        }
        Ok(Value::Table(table))
    }

    fn map(&mut self, len: usize, depth: usize) -> Result<Value, Wrong> {
        let table = self.lua.create_table()?;
        for _ in 0..len {
            let key = self.value(depth + 1)?;
            let value = self.value(depth + 1)?;
            let is_key = match &key {
                Value::Nil => false,
                Value::Number(number) => !number.is_nan(),
                _ => true,
            };
            if !is_key {
                return Err(Wrong::Format);
            }
            table.raw_set(key, value)?;
        }
        Ok(Value::Table(table))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lua() -> Lua {
        let lua = Lua::new();
        lua.globals().set("cmsgpack", table(&lua, &Rc::new(Desk::new())).unwrap()).unwrap();
        let hex = "function hex(s) return (s:gsub('.', function(c) return ('%02x'):format(c:byte()) end)) end";
        lua.load(hex).exec().unwrap();
        lua
    }

    #[test]
    fn values_are_packed_as_short_as_they_can_be() {
        let lua = lua();
        for (code, expected) in [
            (
                "1, 127, 128, 256, 65536, 4294967296",
                "017fccf0".replace("f0", "80") + "cd0100ce00010000cf0000000100000000",
            ),
            ("-1, -32, -33, -129, -40000", "ffe0d0dfd1ff7fd2ffff63c0".to_owned()),
            ("1.5, 0.1, true, false, nil", "ca3fc00000cb3fb999999999999ac3c2c0".to_owned()),
            ("'abc', {1, 2}, {a = 1}, {}", "a3616263920102".to_owned() + "81a1610190"),
        ] {
            let result: String =
                lua.load(format!("return hex(cmsgpack.pack({code}))")).eval().unwrap();
            assert_eq!(result, expected, "{code}");
        }
    }

    #[test]
    fn packed_values_are_unpacked() {
        let lua = lua();
        for (code, expected) in [
            ("select('#', cmsgpack.unpack(cmsgpack.pack(1, nil, 'x')))", "3"),
            ("cmsgpack.unpack(cmsgpack.pack({a = {1, 2, 3.25}})).a[3]", "3.25"),
            ("cmsgpack.unpack(cmsgpack.pack(-40000))", "-40000"),
            ("cmsgpack.unpack_one(cmsgpack.pack(1, 2))", "1"),
            ("select(2, cmsgpack.unpack_one(cmsgpack.pack(7, 8), 1))", "8"),
            ("cmsgpack.unpack_limit(cmsgpack.pack(1, 2, 3), 3)", "-1"),
            ("#cmsgpack.unpack(cmsgpack.pack(('x'):rep(70000)))", "70000"),
        ] {
            let result: String = lua.load(format!("return tostring(({code}))")).eval().unwrap();
            assert_eq!(result, expected, "{code}");
        }
        for (code, expected) in [
            ("cmsgpack.unpack('\\193')", "Bad data format in input."),
            ("cmsgpack.unpack('\\217\\5a')", "Missing bytes in input."),
            ("cmsgpack.pack()", "MessagePack pack needs input."),
            ("cmsgpack.unpack_one('a', 5)", "Start offset 5 greater than input length 1."),
        ] {
            let error = lua.load(code).exec().unwrap_err().to_string();
            let hex = error.contains(&expected.bytes().map(|b| b as char).collect::<String>());
            assert!(hex, "{code}: {error}");
        }
    }
}
