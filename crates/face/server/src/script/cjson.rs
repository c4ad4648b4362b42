//! The library `cjson`: JSON.

use std::cell::RefCell;
use std::rc::Rc;

use mlua::{Function, LightUserData, Lua, MultiValue, Table, Value};

use super::bit;
use super::desk::Desk;
use super::limits::Limits;
use super::thrown::{bad_argument, fail, type_name};

mod decode;
mod encode;

/// How deep tables may lie in each other at all: each takes a place that Lua has few of.
const DEPTH_MAX: i64 = 1200;

/// Arguments that a function looks at, to find that there are too many; the others give their places up.
const ARGUMENTS: usize = 4;

/// The options of an instance of the library.
#[derive(Debug, Clone)]
struct Options {
    /// Whether arrays with too many holes are objects.
    converts_sparse: bool,
    /// An array is sparse whose length is more than so many times the number of its elements; 0: none is.
    sparse_ratio: i64,
    /// Arrays of up to this length are not sparse.
    sparse_safe: i64,
    encode_depth_max: i64,
    decode_depth_max: i64,
    /// Digits of numbers.
    precision: i64,
    keeps_buffer: bool,
    encode_invalid: Invalid,
    decodes_invalid: bool,
}

/// How numbers are encoded that JSON does not have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Invalid {
    Refuse,
    Allow,
    Null,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            converts_sparse: false,
            sparse_ratio: 2,
            sparse_safe: 10,
            encode_depth_max: 1000,
            decode_depth_max: 1000,
            precision: 14,
            keeps_buffer: true,
            encode_invalid: Invalid::Refuse,
            decodes_invalid: true,
        }
    }
}

type Shared = Rc<RefCell<Options>>;

/// An instance of the library.
pub(super) fn table(lua: &Lua, desk: &Rc<Desk>) -> mlua::Result<Table> {
    let options = Shared::default();
    let table = lua.create_table()?;
    table.set("_NAME", "cjson")?;
    table.set("_VERSION", "2.1.0")?;
    table.set("null", Value::LightUserData(LightUserData(std::ptr::null_mut())))?;
    let own = Rc::clone(desk);
    table.set("new", lua.create_function(move |lua, _: MultiValue| self::table(lua, &own))?)?;
    table.set("encode", with_limits(lua, &options, desk, encode)?)?;
    table.set("decode", with_limits(lua, &options, desk, decode)?)?;
    table.set("encode_sparse_array", with_options(lua, &options, sparse_array)?)?;
    table.set(
        "encode_max_depth",
        with_options(lua, &options, |lua, options, args| {
            integer(
                lua,
                &args,
                "encode_max_depth",
                &mut options.encode_depth_max,
                i64::from(i32::MAX),
            )
        })?,
    )?;
    table.set(
        "decode_max_depth",
        with_options(lua, &options, |lua, options, args| {
            integer(
                lua,
                &args,
                "decode_max_depth",
                &mut options.decode_depth_max,
                i64::from(i32::MAX),
            )
        })?,
    )?;
    table.set(
        "encode_number_precision",
        with_options(lua, &options, |lua, options, args| {
            integer(lua, &args, "encode_number_precision", &mut options.precision, 14)
        })?,
    )?;
    table.set(
        "encode_keep_buffer",
        with_options(lua, &options, |lua, options, args| {
            check_count(lua, &args, 1, "encode_keep_buffer")?;
            set_flag(lua, &args, 0, "encode_keep_buffer", &mut options.keeps_buffer)?;
            Ok(options.keeps_buffer)
        })?,
    )?;
    table.set("encode_invalid_numbers", with_options(lua, &options, encode_invalid)?)?;
    table.set(
        "decode_invalid_numbers",
        with_options(lua, &options, |lua, options, args| {
            check_count(lua, &args, 1, "decode_invalid_numbers")?;
            set_flag(lua, &args, 0, "decode_invalid_numbers", &mut options.decodes_invalid)?;
            Ok(options.decodes_invalid)
        })?,
    )?;
    Ok(table)
}

fn with_options<R: mlua::IntoLuaMulti + 'static>(
    lua: &Lua,
    options: &Shared,
    function: fn(&Lua, &mut Options, MultiValue) -> mlua::Result<R>,
) -> mlua::Result<Function> {
    let options = Rc::clone(options);
    lua.create_function(move |lua, mut args: MultiValue| {
        args.truncate(ARGUMENTS);
        function(lua, &mut options.borrow_mut(), args)
    })
}

fn with_limits(
    lua: &Lua,
    options: &Shared,
    desk: &Rc<Desk>,
    function: fn(&Lua, &Options, &Limits<'_>, MultiValue) -> mlua::Result<Value>,
) -> mlua::Result<Function> {
    let (options, desk) = (Rc::clone(options), Rc::clone(desk));
    lua.create_function(move |lua, mut args: MultiValue| {
        args.truncate(ARGUMENTS);
        function(lua, &options.borrow(), &Limits::new(lua, &desk), args)
    })
}

/// Why a value is not converted.
enum Wrong {
    Text(String),
    Lua(mlua::Error),
}

impl From<mlua::Error> for Wrong {
    fn from(error: mlua::Error) -> Self {
        Self::Lua(error)
    }
}

impl Wrong {
    fn raised(self, lua: &Lua) -> mlua::Error {
        match self {
            Self::Text(why) => fail(lua, why),
            Self::Lua(error) => error,
        }
    }
}

fn encode(
    lua: &Lua,
    options: &Options,
    limits: &Limits<'_>,
    args: MultiValue,
) -> mlua::Result<Value> {
    let value = only(lua, args, "encode")?;
    let json = encode::encode(options, limits, &value).map_err(|wrong| wrong.raised(lua))?;
    lua.create_string(json).map(Value::String)
}

fn decode(
    lua: &Lua,
    options: &Options,
    limits: &Limits<'_>,
    args: MultiValue,
) -> mlua::Result<Value> {
    let value = only(lua, args, "decode")?;
    let text = match &value {
        Value::String(text) => Some(text.clone()),
        Value::Integer(_) | Value::Number(_) => lua.coerce_string(value.clone())?,
        _ => None,
    };
    let Some(text) = text else {
        let why = format!("string expected, got {}", type_name(Some(&value)));
        return Err(bad_argument(lua, 1, "decode", &why));
    };
    decode::decode(lua, options, limits, &text.as_bytes()).map_err(|wrong| wrong.raised(lua))
}

fn only(lua: &Lua, mut args: MultiValue, name: &str) -> mlua::Result<Value> {
    match args.pop_front() {
        Some(value) if args.is_empty() => Ok(value),
        _ => Err(bad_argument(lua, 1, name, "expected 1 argument")),
    }
}

fn check_count(lua: &Lua, args: &MultiValue, max: usize, name: &str) -> mlua::Result<()> {
    match args.len() > max {
        true => Err(bad_argument(lua, max + 1, name, "found too many arguments")),
        false => Ok(()),
    }
}

/// Sets an option from 1 to `max`, if an argument is given, and returns it.
fn integer(
    lua: &Lua,
    args: &MultiValue,
    name: &str,
    option: &mut i64,
    max: i64,
) -> mlua::Result<i64> {
    check_count(lua, args, 1, name)?;
    set_integer(lua, args, 0, name, option, 1..=max)?;
    Ok(*option)
}

fn set_integer(
    lua: &Lua,
    args: &MultiValue,
    index: usize,
    name: &str,
    option: &mut i64,
    range: std::ops::RangeInclusive<i64>,
) -> mlua::Result<()> {
    let arg = match args.get(index) {
        None | Some(Value::Nil) => return Ok(()),
        Some(arg) => arg,
    };
    let Some(number) = bit::number(arg) else {
        let why = format!("number expected, got {}", type_name(Some(arg)));
        return Err(bad_argument(lua, index + 1, name, &why));
    };
    let number = number as i64;
    if !range.contains(&number) {
        let why = format!("expected integer between {} and {}", range.start(), range.end());
        return Err(bad_argument(lua, index + 1, name, &why));
    }
    *option = number;
    Ok(())
}

fn set_flag(
    lua: &Lua,
    args: &MultiValue,
    index: usize,
    name: &str,
    option: &mut bool,
) -> mlua::Result<()> {
    match args.get(index) {
        None | Some(Value::Nil) => {}
        Some(Value::Boolean(flag)) => *option = *flag,
        Some(Value::String(text)) if text == "on" => *option = true,
        Some(Value::String(text)) if text == "off" => *option = false,
        Some(value @ (Value::String(_) | Value::Integer(_) | Value::Number(_))) => {
            let why = format!("invalid option '{}'", value.to_string()?);
            return Err(bad_argument(lua, index + 1, name, &why));
        }
        other => {
            let why = format!("string expected, got {}", type_name(other));
            return Err(bad_argument(lua, index + 1, name, &why));
        }
    }
    Ok(())
}

fn sparse_array(
    lua: &Lua,
    options: &mut Options,
    args: MultiValue,
) -> mlua::Result<(bool, i64, i64)> {
    const NAME: &str = "encode_sparse_array";
    check_count(lua, &args, 3, NAME)?;
    set_flag(lua, &args, 0, NAME, &mut options.converts_sparse)?;
    let numbers = 0..=i64::from(i32::MAX);
    set_integer(lua, &args, 1, NAME, &mut options.sparse_ratio, numbers.clone())?;
    set_integer(lua, &args, 2, NAME, &mut options.sparse_safe, numbers)?;
    Ok((options.converts_sparse, options.sparse_ratio, options.sparse_safe))
}

fn encode_invalid(lua: &Lua, options: &mut Options, args: MultiValue) -> mlua::Result<Value> {
    const NAME: &str = "encode_invalid_numbers";
    check_count(lua, &args, 1, NAME)?;
    match args.front() {
        Some(Value::String(text)) if text == "null" => options.encode_invalid = Invalid::Null,
        _ => {
            let mut allows = options.encode_invalid == Invalid::Allow;
            set_flag(lua, &args, 0, NAME, &mut allows)?;
            if !matches!(args.front(), None | Some(Value::Nil)) {
                options.encode_invalid = if allows { Invalid::Allow } else { Invalid::Refuse };
            }
        }
    }
    match options.encode_invalid {
        Invalid::Null => lua.create_string("null").map(Value::String),
        invalid => Ok(Value::Boolean(invalid == Invalid::Allow)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(cases: &[(&str, &str)]) {
        let lua = Lua::new();
        lua.globals().set("cjson", table(&lua, &Rc::new(Desk::new())).unwrap()).unwrap();
        for (code, expected) in cases {
            let code =
                format!("local ok, why = pcall(function() return {code} end) return tostring(why)");
            let result: String = lua.load(&code).eval().unwrap();
            let result = result.lines().next().unwrap_or_default();
            assert!(result.contains(expected), "{code}: {result}, and not {expected}");
        }
    }

    #[test]
    fn values_are_encoded() {
        check(&[
            (
                "cjson.encode({1, 2.5, 'a/\"\\n', true, cjson.null})",
                "[1,2.5,\"a\\/\\\"\\n\",true,null]",
            ),
            ("cjson.encode({a = {}})", "{\"a\":{}}"),
            ("cjson.encode({[1] = 1, [3] = 3})", "[1,null,3]"),
            (
                "cjson.encode({[1] = 1, [30] = 3})",
                "Cannot serialise table: excessively sparse array",
            ),
            ("cjson.encode(1e15)", "1e+15"),
            ("cjson.encode(0 / 0)", "Cannot serialise number: must not be NaN or Inf"),
            ("cjson.encode(print)", "Cannot serialise function: type not supported"),
            (
                "cjson.encode({[true] = 1})",
                "Cannot serialise boolean: table key must be a number or string",
            ),
            ("cjson.encode({[1.5] = 1})", "{\"1.5\":1}"),
            ("cjson.encode('\\0\\127')", "\"\\u0000\\u007f\""),
            ("cjson.encode(1, 2)", "bad argument #1 to 'encode' (expected 1 argument)"),
        ]);
    }

    #[test]
    fn texts_are_decoded() {
        // Tests have small stacks.
        let thread = std::thread::Builder::new().stack_size(16 << 20).spawn(decode_texts).unwrap();
        thread.join().unwrap();
    }

    fn decode_texts() {
        check(&[
            ("cjson.decode('[1, -2.5e3, \"\\\\u00e9\\\\ud83d\\\\ude00\"]')[3]", "\u{e9}\u{1f600}"),
            ("cjson.decode('{\"a\": [true, null]}').a[2] == cjson.null", "true"),
            ("cjson.decode('[1, -2.5e3]')[2]", "-2500"),
            ("cjson.decode('')", "Expected value but found T_END at character 1"),
            ("cjson.decode('{')", "Expected object key string but found T_END at character 2"),
            (
                "cjson.decode('[1 2]')",
                "Expected comma or array end but found T_NUMBER at character 4",
            ),
            ("cjson.decode('{\"a\" 1}')", "Expected colon but found T_NUMBER at character 6"),
            ("cjson.decode('[1]x')", "Expected the end but found invalid token at character 4"),
            (
                "cjson.decode('\"\\\\x\"')",
                "Expected value but found invalid escape code at character 2",
            ),
            ("cjson.decode('nul')", "Expected value but found invalid token at character 1"),
            ("cjson.decode(('['):rep(1001))", "Found too many nested data structures (1001)"),
        ]);
    }

    #[test]
    fn options_are_of_an_instance() {
        check(&[
            ("cjson.encode_max_depth(2) + cjson.new().encode_max_depth()", "1002"),
            ("cjson.encode({{{}}})", "Cannot serialise, excessive nesting (3)"),
            ("cjson.encode_number_precision(15)", "expected integer between 1 and 14"),
            ("cjson.encode_number_precision(3) + cjson.encode(2/3)", "3.667"),
            ("cjson.encode_sparse_array(true)", "true"),
            ("cjson.encode({[100] = 1})", "{\"100\":1}"),
            ("cjson.encode_keep_buffer(false)", "false"),
        ]);
    }
}
