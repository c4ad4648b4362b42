//! The library `bit`: operations on the 32 lowest bits of numbers.

use mlua::{Lua, MultiValue, Table, Value};

use super::thrown::{bad_argument, type_name};

/// The library.
pub(super) fn table(lua: &Lua) -> mlua::Result<Table> {
    let table = lua.create_table()?;
    one(lua, &table, "tobit", |x| x)?;
    one(lua, &table, "bnot", |x| !x)?;
    one(lua, &table, "bswap", i32::swap_bytes)?;
    many(lua, &table, "band", |a, b| a & b)?;
    many(lua, &table, "bor", |a, b| a | b)?;
    many(lua, &table, "bxor", |a, b| a ^ b)?;
    shift(lua, &table, "lshift", |x, n| x << n)?;
    shift(lua, &table, "rshift", |x, n| (x as u32 >> n) as i32)?;
    shift(lua, &table, "arshift", |x, n| x >> n)?;
    shift(lua, &table, "rol", i32::rotate_left)?;
    shift(lua, &table, "ror", i32::rotate_right)?;
    table.set("tohex", lua.create_function(|lua, args: MultiValue| tohex(lua, &args))?)?;
    Ok(table)
}

/// A value as a number, if it is one, or a text of one.
pub(super) fn number(value: &Value) -> Option<f64> {
    match value {
        Value::Integer(number) => Some(*number as f64),
        Value::Number(number) => Some(*number),
        Value::String(text) => parse(&text.as_bytes()),
        _ => None,
    }
}

/// A text as a number, by the rules of Lua.
fn parse(text: &[u8]) -> Option<f64> {
    let text = std::str::from_utf8(text).ok()?.trim();
    let (sign, digits) = match text.strip_prefix('-') {
        Some(digits) => (-1.0, digits),
        None => (1.0, text.strip_prefix('+').unwrap_or(text)),
    };
    if let Some(hex) = digits.strip_prefix("0x").or_else(|| digits.strip_prefix("0X")) {
        return u64::from_str_radix(hex, 16).ok().map(|number| sign * number as f64);
    }
    let begins = digits.starts_with(|first: char| first.is_ascii_digit() || first == '.');
    digits.parse::<f64>().ok().filter(|_| begins).map(|number| sign * number)
}

/// The lowest bits of a number, which is rounded to the nearest integer.
fn bits(number: f64) -> i32 {
    (number + 6_755_399_441_055_744.0).to_bits() as u32 as i32
}

fn argument(lua: &Lua, args: &MultiValue, index: usize, name: &str) -> mlua::Result<i32> {
    let arg = args.get(index);
    arg.and_then(number).map(bits).ok_or_else(|| {
        let why = format!("number expected, got {}", type_name(arg));
        bad_argument(lua, index + 1, name, &why)
    })
}

fn one(lua: &Lua, table: &Table, name: &'static str, operate: fn(i32) -> i32) -> mlua::Result<()> {
    let function = lua
        .create_function(move |lua, args: MultiValue| argument(lua, &args, 0, name).map(operate))?;
    table.set(name, function)
}

fn many(
    lua: &Lua,
    table: &Table,
    name: &'static str,
    operate: fn(i32, i32) -> i32,
) -> mlua::Result<()> {
    let function = lua.create_function(move |lua, args: MultiValue| {
        let first = argument(lua, &args, 0, name)?;
        (1..args.len()).try_fold(first, |all, index| {
            argument(lua, &args, index, name).map(|next| operate(all, next))
        })
    })?;
    table.set(name, function)
}

fn shift(
    lua: &Lua,
    table: &Table,
    name: &'static str,
    operate: fn(i32, u32) -> i32,
) -> mlua::Result<()> {
    let function = lua.create_function(move |lua, args: MultiValue| {
        let number = argument(lua, &args, 0, name)?;
        let by = argument(lua, &args, 1, name)? as u32 & 31;
        Ok(operate(number, by))
    })?;
    table.set(name, function)
}

fn tohex(lua: &Lua, args: &MultiValue) -> mlua::Result<String> {
    let number = argument(lua, args, 0, "tohex")? as u32;
    let digits = if args.len() > 1 { argument(lua, args, 1, "tohex")? } else { 8 };
    let hex = format!("{number:08x}");
    let shown = &hex[8 - digits.unsigned_abs().min(8) as usize..];
    Ok(if digits < 0 { shown.to_ascii_uppercase() } else { shown.to_owned() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_32_bits() {
        let lua = Lua::new();
        lua.globals().set("bit", table(&lua).unwrap()).unwrap();
        for (code, expected) in [
            ("bit.tobit(0xffffffff)", "-1"),
            ("bit.tobit(2^40 + 5)", "5"),
            ("bit.bnot(0)", "-1"),
            ("bit.band(0xff, '0x0f', 7)", "7"),
            ("bit.bor(1, 2, 4)", "7"),
            ("bit.bxor(5, 1)", "4"),
            ("bit.lshift(1, 33)", "2"),
            ("bit.rshift(-1, 28)", "15"),
            ("bit.arshift(-16, 2)", "-4"),
            ("bit.rol(0x12345678, 12)", "1164411171"),
            ("bit.ror(0x12345678, 12)", "1736516421"),
            ("bit.bswap(0x12345678)", "2018915346"),
            ("bit.tohex(255)", "000000ff"),
            ("bit.tohex(255, -4)", "00FF"),
            ("bit.tohex(255, 99)", "000000ff"),
            ("pcall(bit.band)", "false"),
        ] {
            let result: String = lua.load(format!("return tostring(({code}))")).eval().unwrap();
            assert_eq!(result, expected, "{code}");
        }
    }
}
