//! The library `struct`: values in bytes, by a format.
//!
//! `<` and `>` set the order of bytes, `!n` the alignment; `b`, `h`, `l`, `T` and `in` are signed integers of 1, 2, 8, 8
//! and n bytes, unsigned in upper case; `f` and `d` are floating-point numbers, `cn` n characters, `s` a string that
//! ends with a zero byte, and `x` a byte of padding.

use std::rc::Rc;

use mlua::{Lua, MultiValue, Table, Value};

use super::bit;
use super::desk::Desk;
use super::limits::{Limits, with_limits};
use super::number;
use super::thrown::{bad_argument, fail, type_name};

/// Bytes of the largest integer.
const INTEGER_LEN_MAX: usize = 32;
/// Values that are packed or unpacked: each takes a place that Lua has few of.
const VALUES_MAX: usize = 4000;
/// Arguments that a function looks at; the others give their places up.
const ARGUMENTS: usize = 3;

/// The library.
pub(super) fn table(lua: &Lua, desk: &Rc<Desk>) -> mlua::Result<Table> {
    let table = lua.create_table()?;
    table.set("pack", with_limits(lua, desk, pack)?)?;
    table.set("unpack", with_limits(lua, desk, unpack)?)?;
    table.set("size", with_limits(lua, desk, size)?)?;
    Ok(table)
}

/// A format that is read option by option.
struct Format {
    bytes: Vec<u8>,
    at: usize,
    is_little: bool,
    align: usize,
}

/// An option, and the bytes that its value takes.
struct Item {
    option: u8,
    size: usize,
}

impl Format {
    fn new(lua: &Lua, args: &MultiValue, function: &str) -> mlua::Result<Self> {
        let bytes = text(lua, args, 0, function)?;
        Ok(Self { bytes, at: 0, is_little: true, align: 1 })
    }

    /// A number at this place of the format.
    fn number(&mut self, lua: &Lua, default: usize) -> mlua::Result<usize> {
        let mut number: Option<usize> = None;
        while let Some(digit) = self.bytes.get(self.at).filter(|byte| byte.is_ascii_digit()) {
            let digit = usize::from(digit - b'0');
            let next = number.unwrap_or(0) * 10 + digit;
            if next > i32::MAX as usize {
                return Err(fail(lua, "integral size overflow"));
            }
            number = Some(next);
            self.at += 1;
        }
        Ok(number.unwrap_or(default))
    }

    /// The next option that stands for a value or for padding.
    fn next(&mut self, lua: &Lua, function: &str) -> mlua::Result<Option<Item>> {
        loop {
            let Some(&option) = self.bytes.get(self.at) else { return Ok(None) };
            self.at += 1;
            let size = match option {
                b'b' | b'B' | b'x' => 1,
                b'h' | b'H' => 2,
                b'f' => 4,
                b'l' | b'L' | b'T' | b'd' => 8,
                b's' => 0,
                b'c' => self.number(lua, 1)?,
                b'i' | b'I' => {
                    let size = self.number(lua, 4)?;
                    if size > INTEGER_LEN_MAX {
                        let why = format!(
                            "integral size {size} is larger than limit of {INTEGER_LEN_MAX}"
                        );
                        return Err(fail(lua, why));
                    }
                    size
                }
                b' ' => continue,
                b'<' => {
                    self.is_little = true;
                    continue;
                }
                b'>' => {
                    self.is_little = false;
                    continue;
                }
                b'!' => {
                    let align = self.number(lua, 8)?;
                    if !align.is_power_of_two() {
                        let why = format!("alignment {align} is not a power of 2");
                        return Err(fail(lua, why));
                    }
                    self.align = align;
                    continue;
                }
                // Only packing and unpacking know that there is no such option.
                other if other.is_ascii_alphanumeric() && function == "size" => continue,
                other => {
                    let why = format!("invalid format option '{}'", char::from(other));
                    return Err(bad_argument(lua, 1, function, &why));
                }
            };
            return Ok(Some(Item { option, size }));
        }
    }

    /// Bytes of padding in front of an item behind `len` bytes.
    fn padding(&self, len: usize, item: &Item) -> usize {
        let size = item.size.min(self.align);
        if item.option == b'c' || size <= 1 || !size.is_power_of_two() {
            return 0;
        }
        (size - (len & (size - 1))) & (size - 1)
    }
}

fn text(lua: &Lua, args: &MultiValue, index: usize, function: &str) -> mlua::Result<Vec<u8>> {
    let text = match args.get(index) {
        Some(arg @ (Value::String(_) | Value::Integer(_) | Value::Number(_))) => {
            lua.coerce_string(arg.clone())?
        }
        _ => None,
    };
    text.map(|text| text.as_bytes().to_vec()).ok_or_else(|| {
        let why = format!("string expected, got {}", type_name(args.get(index)));
        bad_argument(lua, index + 1, function, &why)
    })
}

fn number(lua: &Lua, args: &MultiValue, index: usize, function: &str) -> mlua::Result<f64> {
    args.get(index).and_then(bit::number).ok_or_else(|| {
        let why = format!("number expected, got {}", type_name(args.get(index)));
        bad_argument(lua, index + 1, function, &why)
    })
}

fn pack(lua: &Lua, limits: &Limits<'_>, args: MultiValue) -> mlua::Result<Value> {
    if args.len() > VALUES_MAX {
        return Err(fail(lua, "too many values to pack"));
    }
    let mut format = Format::new(lua, &args, "pack")?;
    let (mut out, mut index) = (Vec::new(), 1);
    while let Some(item) = format.next(lua, "pack")? {
        limits.step(1)?;
        let padding = format.padding(out.len(), &item);
        out.resize(out.len() + padding, 0);
        if item.option == b'x' {
            out.push(0);
            continue;
        }
        match item.option {
            b'c' | b's' => {
                let text = text(lua, &args, index, "pack")?;
                limits.step(text.len() / 16)?;
                let size = if item.size == 0 { text.len() } else { item.size };
                let Some(text) = text.get(..size) else {
                    return Err(bad_argument(lua, index + 2, "pack", "string too short"));
                };
                out.extend_from_slice(text);
                if item.option == b's' {
                    out.push(0);
                }
            }
            b'f' => {
                let bytes = (number(lua, &args, index, "pack")? as f32).to_le_bytes();
                put(&mut out, &bytes, 4, format.is_little);
            }
            b'd' => {
                let bytes = number(lua, &args, index, "pack")?.to_le_bytes();
                put(&mut out, &bytes, 8, format.is_little);
            }
            _ => {
                let number = number(lua, &args, index, "pack")?;
                let bits = number::bits(number);
                put(&mut out, &bits.to_le_bytes(), item.size, format.is_little);
            }
        }
        limits.check_len(out.len())?;
        index += 1;
    }
    lua.create_string(out).map(Value::String)
}

/// Adds the lowest `size` bytes of a number, which are given in little-endian order.
fn put(out: &mut Vec<u8>, bytes: &[u8], size: usize, is_little: bool) {
    let start = out.len();
    out.extend(bytes.iter().copied().chain(std::iter::repeat(0)).take(size));
    if !is_little {
        out[start..].reverse();
    }
}

fn unpack(lua: &Lua, limits: &Limits<'_>, mut args: MultiValue) -> mlua::Result<MultiValue> {
    args.truncate(ARGUMENTS);
    let mut format = Format::new(lua, &args, "unpack")?;
    let data = text(lua, &args, 1, "unpack")?;
    let position = match args.get(2) {
        None | Some(Value::Nil) => 1.0,
        Some(_) => number(lua, &args, 2, "unpack")?,
    };
    if position.is_nan() || position < 1.0 {
        return Err(bad_argument(lua, 3, "unpack", "offset must be 1 or greater"));
    }
    let mut at = position as usize - 1;
    let too_short = || bad_argument(lua, 2, "unpack", "data string too short");
    let mut values = MultiValue::new();
    while let Some(item) = format.next(lua, "unpack")? {
        limits.step(1)?;
        at = at.saturating_add(format.padding(at, &item));
        let bytes = data.get(at..).and_then(|rest| rest.get(..item.size)).ok_or_else(too_short)?;
        if values.len() >= VALUES_MAX {
            return Err(fail(lua, "too many results to unpack"));
        }
        at += item.size;
        let value = match item.option {
            b'x' => continue,
            b'c' if item.size == 0 => {
                let Some(len) = values.pop_back().as_ref().and_then(bit::number) else {
                    return Err(fail(lua, "format 'c0' needs a previous size"));
                };
                let len = if len < 0.0 { usize::MAX } else { len as usize };
                let text = data[at..].get(..len).ok_or_else(too_short)?;
                at += len;
                Value::String(lua.create_string(text)?)
            }
            b'c' => Value::String(lua.create_string(bytes)?),
            b's' => {
                let Some(len) = data[at..].iter().position(|&byte| byte == 0) else {
                    return Err(fail(lua, "unfinished string in data"));
                };
                limits.step(len / 16)?;
                let text = &data[at..at + len];
                at += len + 1;
                Value::String(lua.create_string(text)?)
            }
            b'f' => {
                let bits = unsigned(bytes, format.is_little) as u32;
                Value::Number(f64::from(f32::from_bits(bits)))
            }
            b'd' => Value::Number(f64::from_bits(unsigned(bytes, format.is_little))),
            option => Value::Number(integer(
                unsigned(bytes, format.is_little),
                item.size,
                option.is_ascii_lowercase(),
            )),
        };
        values.push_back(value);
    }
    values.push_back(Value::Number(at as f64 + 1.0));
    Ok(values)
}

/// The lowest 8 bytes of a number.
fn unsigned(bytes: &[u8], is_little: bool) -> u64 {
    let add = |number: u64, byte: &u8| number << 8 | u64::from(*byte);
    match is_little {
        true => bytes.iter().rev().fold(0, add),
        false => bytes.iter().fold(0, add),
    }
}

fn integer(bits: u64, size: usize, is_signed: bool) -> f64 {
    if !is_signed {
        return bits as f64;
    }
    let unused = 64 - 8 * size.clamp(1, 8) as u32;
    ((bits << unused) as i64 >> unused) as f64
}

fn size(lua: &Lua, limits: &Limits<'_>, mut args: MultiValue) -> mlua::Result<usize> {
    args.truncate(ARGUMENTS);
    let mut format = Format::new(lua, &args, "size")?;
    let mut len: usize = 0;
    while let Some(item) = format.next(lua, "size")? {
        limits.step(1)?;
        if item.option == b's' {
            return Err(bad_argument(lua, 1, "size", "option 's' has no fixed size"));
        }
        if item.option == b'c' && item.size == 0 {
            return Err(bad_argument(lua, 1, "size", "option 'c0' has no fixed size"));
        }
        len += format.padding(len, &item) + item.size;
        if len > i32::MAX as usize {
            return Err(bad_argument(lua, 1, "size", "format too large"));
        }
    }
    Ok(len)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_packed_and_unpacked() {
        let lua = Lua::new();
        lua.globals().set("struct", table(&lua, &Rc::new(Desk::new())).unwrap()).unwrap();
        for (code, expected) in [
            ("#struct.pack('!8bl', 1, 2)", "16"),
            ("struct.pack('>I2', 258):byte(1)", "1"),
            ("struct.pack('<I2', 258):byte(1)", "2"),
            ("struct.unpack('b', struct.pack('B', 255))", "-1"),
            ("struct.unpack('>i8', struct.pack('>i8', -5))", "-5"),
            ("struct.unpack('d', struct.pack('d', 1.25))", "1.25"),
            ("struct.unpack('f', struct.pack('f', 1.25))", "1.25"),
            ("struct.unpack('s', 'abc\\0def')", "abc"),
            ("struct.unpack('Bc0', '\\3abcdef')", "abc"),
            ("select(2, struct.unpack('c2', 'abc'))", "3"),
            ("struct.unpack('B', 'abc', 3)", "99"),
            ("struct.size('bhil')", "15"),
            ("struct.size('!8bhil')", "16"),
        ] {
            let result: String = lua.load(format!("return tostring(({code}))")).eval().unwrap();
            assert_eq!(result, expected, "{code}");
        }
        for (code, expected) in [
            ("struct.unpack('i4', 'abc')", "data string too short"),
            ("struct.unpack('s', 'abc')", "unfinished string in data"),
            ("struct.unpack('c0', 'abc')", "format 'c0' needs a previous size"),
            ("struct.pack('c5', 'abc')", "string too short"),
            ("struct.pack('!3', 1)", "alignment 3 is not a power of 2"),
            ("struct.pack('i33', 1)", "integral size 33 is larger than limit of 32"),
            ("struct.pack('q', 1)", "invalid format option 'q'"),
        ] {
            let error = lua.load(code).exec().unwrap_err().to_string();
            assert!(error.contains(expected), "{code}: {error}");
        }
    }
}
