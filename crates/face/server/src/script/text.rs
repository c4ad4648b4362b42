//! The functions of the library `string` that Lua's own could do harm with.
//!
//! Those on patterns can work for ever, and the others for long: these here count their steps. `gmatch`, and `gsub`
//! with a function or a table, are in `bootstrap.lua`, which asks here for one match after the other.

use std::ops::Range;
use std::rc::Rc;

use mlua::{Function as LuaFunction, IntoLua, Lua, LuaString, MultiValue, Table, Value};

use super::desk::Desk;
use super::limits::Limits;
use super::pattern::{Capture, Matcher, Wrong, until_zero};
use super::thrown::{SANDBOX, bad_argument, fail, type_name};
use super::{bit, number, watch};

/// Characters without which a pattern stands for itself.
const SPECIALS: &[u8] = b"^$*+?.([%-";

/// The functions by their names; those of `bootstrap.lua` are built from `next_match` and `replace`.
pub(super) fn table(lua: &Lua, desk: &Rc<Desk>) -> mlua::Result<Table> {
    let table = lua.create_table()?;
    let add = |name: &str, function: Function| {
        let desk = Rc::clone(desk);
        let made = lua.create_function(move |lua, args: (Value, Value, Value, Value)| {
            let args = [args.0, args.1, args.2, args.3];
            function(lua, &Limits::new(lua, &desk), args)
        })?;
        table.raw_set(name, made)
    };
    add("find", |lua, limits, args| find(lua, limits, args, true))?;
    add("match", |lua, limits, args| find(lua, limits, args, false))?;
    add("next_match", next_match)?;
    add("replace", replace)?;
    add("rep", repeat)?;
    add("lower", |lua, limits, args| {
        change(lua, limits, args, "lower", |bytes| bytes.make_ascii_lowercase())
    })?;
    add("upper", |lua, limits, args| {
        change(lua, limits, args, "upper", |bytes| bytes.make_ascii_uppercase())
    })?;
    add("reverse", |lua, limits, args| change(lua, limits, args, "reverse", <[u8]>::reverse))?;
    let (own, lua_format) = (Rc::clone(desk), lua.load(FORMAT).set_name(SANDBOX).eval()?);
    let format = move |lua: &Lua, args| format_text(lua, &own, &lua_format, args);
    table.raw_set("format", lua.create_function(format)?)?;
    Ok(table)
}

/// Lua's own function, which says whether it has failed.
const FORMAT: &str = "local format, pcall = string.format, pcall; return function(...) return pcall(format, ...) end";

/// Texts of more bytes than this, or more arguments, take so long that the clock is looked at before.
const LONG: usize = 10_000;
const MANY: usize = 10;

/// `format`.
fn format_text(
    lua: &Lua,
    desk: &Rc<Desk>,
    lua_format: &LuaFunction,
    args: MultiValue,
) -> mlua::Result<Value> {
    let is_long = |arg: &Value| arg.as_string().is_some_and(|text| text.as_bytes().len() > LONG);
    if args.len() > MANY || args.iter().any(is_long) {
        watch::check(lua, desk)?;
    }
    let (is_fine, result): (bool, Value) = lua_format.call(args)?;
    if is_fine {
        return Ok(result);
    }
    let why = result.as_string().map(|why| why.as_bytes().to_vec()).unwrap_or_default();
    let text = std::str::from_utf8(&why).unwrap_or_default();
    let parts = text.strip_prefix("bad argument #").and_then(|rest| rest.split_once(" to '?' ("));
    Err(
        match parts.and_then(|(number, why)| Some((number.parse().ok()?, why.strip_suffix(')')?))) {
            Some((number, why)) => bad_argument(lua, number, "format", why),
            None => fail(lua, why),
        },
    )
}

type Args = [Value; 4];
type Function = fn(&Lua, &Limits<'_>, Args) -> mlua::Result<MultiValue>;

/// An argument that is a text, or a number, whose text it is.
fn text(lua: &Lua, args: &Args, index: usize, name: &str) -> mlua::Result<LuaString> {
    match &args[index] {
        Value::String(text) => Ok(text.clone()),
        Value::Integer(whole) => lua.create_string(number::general(*whole as f64, 14)),
        Value::Number(value) => lua.create_string(number::general(*value, 14)),
        other => {
            let why = format!("string expected, got {}", type_name(Some(other)));
            Err(bad_argument(lua, index + 1, name, &why))
        }
    }
}

/// An argument that is a whole number, if it is given.
fn whole(lua: &Lua, args: &Args, index: usize, name: &str) -> mlua::Result<Option<i64>> {
    match &args[index] {
        Value::Nil => Ok(None),
        value => match bit::number(value) {
            Some(number) => Ok(Some(number::truncated(number))),
            None => {
                let why = format!("number expected, got {}", type_name(Some(value)));
                Err(bad_argument(lua, index + 1, name, &why))
            }
        },
    }
}

/// The error of a pattern. The steps that it was stopped at tell why.
fn wrong(lua: &Lua, limits: &Limits<'_>, wrong: Wrong) -> mlua::Error {
    match wrong {
        Wrong::Pattern(why) => fail(lua, why),
        Wrong::Stopped => match limits.step(usize::MAX) {
            Err(stopped) => stopped,
            Ok(()) => fail(lua, "the pattern was stopped"),
        },
    }
}

/// The captures of a match.
fn captures(
    lua: &Lua,
    limits: &Limits<'_>,
    matcher: &Matcher<'_>,
    subject: &[u8],
    found: &Range<usize>,
    values: &mut MultiValue,
) -> mlua::Result<()> {
    for index in 0..matcher.count() {
        let capture = matcher.capture(index, found);
        values.push_back(match capture.map_err(|why| wrong(lua, limits, why))? {
            Capture::Text(start, len) => {
                Value::String(lua.create_string(&subject[start..start + len])?)
            }
            Capture::Position(at) | Capture::Open(at) => Value::Number(at as f64 + 1.0),
        });
    }
    Ok(())
}

/// `find`, or `match`.
fn find(lua: &Lua, limits: &Limits<'_>, args: Args, finds: bool) -> mlua::Result<MultiValue> {
    let name = if finds { "find" } else { "match" };
    let (subject, pattern) = (text(lua, &args, 0, name)?, text(lua, &args, 1, name)?);
    let first = whole(lua, &args, 2, name)?.unwrap_or(1);
    let (subject, whole_pattern) = (subject.as_bytes(), pattern.as_bytes());
    let (subject, whole_pattern) = (&*subject, &*whole_pattern);
    let from = match first {
        1.. => (first - 1).min(subject.len() as i64),
        0 => 0,
        _ => first.saturating_add(subject.len() as i64).max(0),
    } as usize;
    let pattern = until_zero(whole_pattern);
    let is_plain = finds
        && (!matches!(args[3], Value::Nil | Value::Boolean(false))
            || !pattern.iter().any(|byte| SPECIALS.contains(byte)));
    let mut values = MultiValue::new();
    if is_plain {
        if let Some(start) = plain(limits, &subject[from..], whole_pattern)? {
            values.push_back(Value::Number((from + start + 1) as f64));
            values.push_back(Value::Number((from + start + whole_pattern.len()) as f64));
            return Ok(values);
        }
        values.push_back(Value::Nil);
        return Ok(values);
    }
    let (pattern, is_anchored) = match pattern {
        [b'^', pattern @ ..] => (pattern, true),
        pattern => (pattern, false),
    };
    let step = |steps| limits.step(steps).is_ok();
    let mut matcher = Matcher::new(subject, pattern, &step);
    match matcher.find(from, is_anchored).map_err(|why| wrong(lua, limits, why))? {
        Some(found) => {
            if finds {
                values.push_back(Value::Number(found.start as f64 + 1.0));
                values.push_back(Value::Number(found.end as f64));
            }
            if !finds || matcher.level() > 0 {
                captures(lua, limits, &matcher, subject, &found, &mut values)?;
            }
        }
        None => values.push_back(Value::Nil),
    }
    Ok(values)
}

/// The place of a text in another one.
fn plain(limits: &Limits<'_>, subject: &[u8], wanted: &[u8]) -> mlua::Result<Option<usize>> {
    let Some((&first, rest)) = wanted.split_first() else { return Ok(Some(0)) };
    let mut at = 0;
    while let Some(tried) = subject.get(at..) {
        let Some(skipped) = tried.iter().position(|&byte| byte == first) else { break };
        if tried.len() - skipped < wanted.len() {
            break;
        }
        if tried[skipped + 1..].starts_with(rest) {
            limits.step((at + skipped) / 16)?;
            return Ok(Some(at + skipped));
        }
        limits.step(1 + skipped / 16 + rest.len() / 16)?;
        at += skipped + 1;
    }
    Ok(None)
}

/// The first match from a place on, counted from 0, for `gmatch` and `gsub`: the place behind it, its first byte, and its
/// captures; or nothing. A fourth argument says that the pattern is anchored.
fn next_match(lua: &Lua, limits: &Limits<'_>, args: Args) -> mlua::Result<MultiValue> {
    let (subject, pattern) = (text(lua, &args, 0, "gmatch")?, text(lua, &args, 1, "gmatch")?);
    let from = whole(lua, &args, 2, "gmatch")?.unwrap_or(0).max(0) as usize;
    let (subject, pattern) = (subject.as_bytes(), pattern.as_bytes());
    let (subject, pattern) = (&*subject, until_zero(&pattern));
    let is_anchored = matches!(args[3], Value::Boolean(true));
    let pattern = if is_anchored { pattern.get(1..).unwrap_or_default() } else { pattern };
    let step = |steps| limits.step(steps).is_ok();
    let mut matcher = Matcher::new(subject, pattern, &step);
    let mut values = MultiValue::new();
    let found = matcher.find(from, is_anchored).map_err(|why| wrong(lua, limits, why))?;
    if let Some(found) = found {
        values.push_back(Value::Number(found.end as f64));
        values.push_back(Value::Number(found.start as f64));
        captures(lua, limits, &matcher, subject, &found, &mut values)?;
    }
    Ok(values)
}

/// `gsub` with a text: the text with replacements, and their number.
fn replace(lua: &Lua, limits: &Limits<'_>, args: Args) -> mlua::Result<MultiValue> {
    const NAME: &str = "gsub";
    let (subject, pattern) = (text(lua, &args, 0, NAME)?, text(lua, &args, 1, NAME)?);
    let replacement = text(lua, &args, 2, NAME)?;
    let max = whole(lua, &args, 3, NAME)?.unwrap_or(i64::MAX);
    let (subject, pattern) = (subject.as_bytes(), pattern.as_bytes());
    let (subject, replacement) = (&*subject, replacement.as_bytes());
    let (pattern, is_anchored) = match until_zero(&pattern) {
        [b'^', pattern @ ..] => (pattern, true),
        pattern => (pattern, false),
    };
    let step = |steps| limits.step(steps).is_ok();
    let mut matcher = Matcher::new(subject, pattern, &step);
    let (mut out, mut from, mut copied, mut count) = (Vec::new(), 0, 0, 0);
    while count < max && from <= subject.len() {
        let found = matcher.find(from, is_anchored).map_err(|why| wrong(lua, limits, why))?;
        let Some(found) = found else { break };
        count += 1;
        out.extend_from_slice(&subject[copied..found.start]);
        put(lua, limits, &mut out, &matcher, (subject, &found), &replacement)?;
        limits.check_len(out.len())?;
        copied = found.end;
        // Behind an empty match, the next one is looked for from the next character on.
        from = if found.is_empty() { found.end + 1 } else { found.end };
        if is_anchored {
            break;
        }
    }
    out.extend_from_slice(subject.get(copied..).unwrap_or_default());
    limits.check_len(out.len())?;
    let text = Value::String(lua.create_string(out)?);
    Ok(MultiValue::from_iter([text, Value::Number(count as f64)]))
}

/// Adds a replacement, in which `%1` stands for the first capture.
fn put(
    lua: &Lua,
    limits: &Limits<'_>,
    out: &mut Vec<u8>,
    matcher: &Matcher<'_>,
    (subject, found): (&[u8], &Range<usize>),
    replacement: &[u8],
) -> mlua::Result<()> {
    limits.step(1 + replacement.len() / 16)?;
    let mut bytes = replacement.iter();
    while let Some(&byte) = bytes.next() {
        if byte != b'%' {
            out.push(byte);
            continue;
        }
        match bytes.next() {
            Some(b'0') => out.extend_from_slice(&subject[found.clone()]),
            Some(&digit) if digit.is_ascii_digit() => {
                let index = usize::from(digit - b'1');
                let capture = matcher.capture(index, found);
                match capture.map_err(|why| wrong(lua, limits, why))? {
                    Capture::Text(start, len) => {
                        out.extend_from_slice(&subject[start..start + len])
                    }
                    Capture::Position(at) | Capture::Open(at) => {
                        out.extend_from_slice((at + 1).to_string().as_bytes())
                    }
                }
            }
            Some(&other) => out.push(other),
            // In C, the zero byte behind the text.
            None => out.push(0),
        }
        limits.check_len(out.len())?;
    }
    Ok(())
}

/// `rep`.
fn repeat(lua: &Lua, limits: &Limits<'_>, args: Args) -> mlua::Result<MultiValue> {
    let text = text(lua, &args, 0, "rep")?;
    let Some(times) = whole(lua, &args, 1, "rep")? else {
        let why = format!("number expected, got {}", type_name(Some(&args[1])));
        return Err(bad_argument(lua, 2, "rep", &why));
    };
    let bytes = text.as_bytes();
    let times = usize::try_from(times).unwrap_or(0);
    let len = bytes.len().saturating_mul(times);
    limits.check_len(len)?;
    limits.step(len / 16)?;
    one(lua, if len == 0 { Vec::new() } else { bytes.repeat(times) })
}

/// A function that changes the bytes of a text.
fn change(
    lua: &Lua,
    limits: &Limits<'_>,
    args: Args,
    name: &str,
    change: fn(&mut [u8]),
) -> mlua::Result<MultiValue> {
    let mut bytes = text(lua, &args, 0, name)?.as_bytes().to_vec();
    limits.step(bytes.len() / 16)?;
    change(&mut bytes);
    one(lua, bytes)
}

fn one(lua: &Lua, bytes: Vec<u8>) -> mlua::Result<MultiValue> {
    lua.create_string(bytes)?.into_lua(lua).map(|text| MultiValue::from_iter([text]))
}

#[cfg(test)]
mod tests {
    use mlua::{Error, Function as LuaFunction};
    use proptest::prelude::*;

    use super::*;

    /// A result as text, or the error's.
    fn shown(result: mlua::Result<MultiValue>) -> String {
        match result {
            Ok(values) => format!("{:?}", values.iter().map(plain_value).collect::<Vec<_>>()),
            Err(error) => {
                let mut error = &error;
                while let Error::CallbackError { cause, .. } = error {
                    error = cause;
                }
                let text = error.to_string();
                let text = text.lines().next().unwrap_or_default();
                text.strip_prefix("runtime error: ").unwrap_or(text).to_owned()
            }
        }
    }

    fn plain_value(value: &Value) -> String {
        match value {
            Value::String(text) => format!("{:?}", text.as_bytes()),
            Value::Integer(number) => (*number as f64).to_string(),
            Value::Number(number) => number.to_string(),
            other => format!("{other:?}"),
        }
    }

    struct Both {
        lua: Lua,
        own: Table,
        of_lua: Table,
    }

    impl Both {
        fn new() -> Self {
            let lua = Lua::new();
            let own = table(&lua, &Rc::new(Desk::new())).unwrap();
            let of_lua = lua.globals().get("string").unwrap();
            Self { lua, own, of_lua }
        }

        #[track_caller]
        fn check(&self, own: &str, of_lua: &str, args: &[&dyn Fn(&Lua) -> Value]) {
            let call = |table: &Table, name: &str| {
                let args: MultiValue = args.iter().map(|arg| arg(&self.lua)).collect();
                shown(table.get::<LuaFunction>(name).unwrap().call(args))
            };
            assert_eq!(call(&self.own, own), call(&self.of_lua, of_lua));
        }
    }

    fn bytes(bytes: &[u8]) -> impl Fn(&Lua) -> Value + '_ {
        move |lua| Value::String(lua.create_string(bytes).unwrap())
    }

    fn pattern() -> impl Strategy<Value = Vec<u8>> {
        let pieces = prop_oneof![
            Just("a"),
            Just("b"),
            Just("."),
            Just("%a"),
            Just("%D"),
            Just("%s"),
            Just("%w"),
            Just("%p"),
            Just("[ab]"),
            Just("[^a]"),
            Just("[%a-]"),
            Just("[a-c]"),
            Just("[]]"),
            Just("[^]]"),
            Just("["),
            Just("]"),
            Just("("),
            Just(")"),
            Just("()"),
            Just("*"),
            Just("+"),
            Just("-"),
            Just("?"),
            Just("%1"),
            Just("%2"),
            Just("%0"),
            Just("%b()"),
            Just("%bab"),
            Just("%b"),
            Just("%f[a]"),
            Just("%f[^%a]"),
            Just("%f"),
            Just("^"),
            Just("$"),
            Just("%"),
            Just("%."),
            Just("\0"),
            Just("%z"),
            Just("[%z]"),
            Just("é"),
        ];
        prop::collection::vec(pieces, 0..8).prop_map(|pieces| pieces.concat().into_bytes())
    }

    fn subject() -> impl Strategy<Value = Vec<u8>> {
        prop::collection::vec(prop::sample::select(&b"aabbc() 1.\0]\xe9"[..]), 0..12)
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(4000))]
        #[test]
        fn patterns_match_as_in_lua(
            subject in subject(), pattern in pattern(), replacement in "[ab%0-3]{0,4}",
            init in -14i64..14, max in -1i64..4, plain: bool,
        ) {
            let both = Both::new();
            let (subject, pattern) = (bytes(&subject), bytes(&pattern));
            let init = |_: &Lua| Value::Integer(init);
            let plain = |_: &Lua| Value::Boolean(plain);
            let replacement = bytes(replacement.as_bytes());
            let max = |_: &Lua| Value::Integer(max);
            both.check("find", "find", &[&subject, &pattern, &init, &plain]);
            both.check("find", "find", &[&subject, &pattern]);
            both.check("match", "match", &[&subject, &pattern, &init]);
            both.check("replace", "gsub", &[&subject, &pattern, &replacement]);
            both.check("replace", "gsub", &[&subject, &pattern, &replacement, &max]);
        }

        #[test]
        fn texts_change_as_in_lua(subject in prop::collection::vec(any::<u8>(), 0..20), times in -2i64..5) {
            let both = Both::new();
            let subject = bytes(&subject);
            let times = |_: &Lua| Value::Integer(times);
            both.check("rep", "rep", &[&subject, &times]);
            for name in ["lower", "upper", "reverse"] {
                both.check(name, name, &[&subject]);
            }
        }
    }

    #[test]
    fn a_pattern_may_have_many_repetitions() {
        let both = Both::new();
        for (subject, item) in [("a", "a?"), ("b", "a?"), ("a", "a*"), ("a", "a-"), ("a", ".?")] {
            let subject = subject.repeat(3000).into_bytes();
            let pattern = item.repeat(3000).into_bytes();
            both.check("find", "find", &[&bytes(&subject), &bytes(&pattern)]);
        }
        let (subject, pattern) = ("a".repeat(201), "a?".repeat(201));
        let found: (f64, f64) =
            both.own.get::<LuaFunction>("find").unwrap().call((subject, pattern)).unwrap();
        assert_eq!(found, (1.0, 201.0));
    }

    #[test]
    fn arguments_are_converted_as_in_lua() {
        let both = Both::new();
        let number = |_: &Lua| Value::Number(12.5);
        let two = |lua: &Lua| Value::String(lua.create_string("2").unwrap());
        both.check("find", "find", &[&number, &two]);
        both.check("rep", "rep", &[&number, &two]);
        let refused = both.own.get::<LuaFunction>("rep").unwrap().call((true, 2));
        assert_eq!(shown(refused), "bad argument #1 to '?' (string expected, got boolean)");
        let refused = both.own.get::<LuaFunction>("find").unwrap().call(("a", "b", true));
        assert_eq!(shown(refused), "bad argument #3 to '?' (number expected, got boolean)");
        both.check("upper", "upper", &[&number]);
    }
}
