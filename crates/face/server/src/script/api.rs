//! The table `redis` of scripts.

use std::rc::Rc;

use mlua::{Function, Lua, MultiValue, Table, Value};

use super::desk::{Abort, Desk, Errand, LOGGED_LEN_MAX};
use super::lifted::Lifted;
use super::limits::Limits;
use super::pattern::until_zero;
use super::thrown::{Thrown, error_table};
use super::{bit, library, number, sha1, to_lua, watch};
use crate::commands::connection::REDIS_VERSION;
use crate::reply::Protocol;

/// The table `redis`.
pub(super) fn redis(lua: &Lua, desk: &Rc<Desk>) -> mlua::Result<Table> {
    let redis = lua.create_table()?;
    redis.set("call", caller(lua, desk, true)?)?;
    redis.set("pcall", caller(lua, desk, false)?)?;
    redis.set("error_reply", lua.create_function(error_reply)?)?;
    redis.set("status_reply", lua.create_function(status_reply)?)?;
    redis.set("sha1hex", with_desk(lua, desk, sha1hex)?)?;
    redis.set("log", with_desk(lua, desk, log)?)?;
    redis.set("setresp", with_desk(lua, desk, setresp)?)?;
    redis.set("set_repl", lua.create_function(set_repl)?)?;
    redis.set("replicate_commands", lua.create_function(|_, _: MultiValue| Ok(true))?)?;
    redis.set("breakpoint", lua.create_function(|_, _: MultiValue| Ok(false))?)?;
    redis.set("debug", lua.create_function(|_, _: MultiValue| Ok(()))?)?;
    redis.set("acl_check_cmd", with_desk(lua, desk, acl_check_cmd)?)?;
    for (name, value) in [
        ("LOG_DEBUG", 0),
        ("LOG_VERBOSE", 1),
        ("LOG_NOTICE", 2),
        ("LOG_WARNING", 3),
        ("REPL_NONE", 0),
        ("REPL_AOF", 1),
        ("REPL_SLAVE", 2),
        ("REPL_REPLICA", 2),
        ("REPL_ALL", 3),
    ] {
        redis.set(name, value)?;
    }
    redis.set("REDIS_VERSION", REDIS_VERSION)?;
    redis.set("REDIS_VERSION_NUM", version_number())?;
    Ok(redis)
}

/// `redis.register_function`.
pub(super) fn register_function(lua: &Lua, desk: &Rc<Desk>) -> mlua::Result<Function> {
    with_desk(lua, desk, |_, desk, args| {
        let registered = library::register(&mut desk.registering.borrow_mut(), args);
        registered.map_err(|why| raised(why).into())
    })
}

/// The version as a number: a byte for each of its parts.
fn version_number() -> u32 {
    REDIS_VERSION.split('.').fold(0, |number, part| number << 8 | part.parse().unwrap_or(0))
}

fn with_desk<R: mlua::IntoLuaMulti + 'static>(
    lua: &Lua,
    desk: &Rc<Desk>,
    function: fn(&Lua, &Rc<Desk>, MultiValue) -> mlua::Result<R>,
) -> mlua::Result<Function> {
    let desk = Rc::clone(desk);
    lua.create_function(move |lua, args| function(lua, &desk, args))
}

/// An error in the form of one of the server.
fn raised(text: impl AsRef<[u8]>) -> Thrown {
    Thrown::Reply([b"ERR ", text.as_ref()].concat())
}

/// `redis.call`, which raises errors, or `redis.pcall`, which returns them.
fn caller(lua: &Lua, desk: &Rc<Desk>, raises: bool) -> mlua::Result<Function> {
    let desk = Rc::clone(desk);
    lua.create_function(move |lua, args| match call(lua, &desk, args)? {
        Ok(value) => Ok(value),
        Err(refused) if raises => Err(refused.into()),
        Err(Thrown::Failed(text)) => error_table(lua, &text, true),
        Err(refused) => error_table(lua, refused.to_string().as_bytes(), false),
    })
}

/// Executes a command, and returns its reply, or its error.
fn call(
    lua: &Lua,
    desk: &Rc<Desk>,
    args: MultiValue,
) -> mlua::Result<std::result::Result<Value, Thrown>> {
    if args.is_empty() {
        let text = "Please specify at least one argument for this redis lib call";
        return Ok(Err(raised(text)));
    }
    if !lay(lua, desk, &args)? {
        let text = "Lua redis lib command arguments must be strings or integers";
        return Ok(Err(raised(text)));
    }
    // Each argument takes a place that the values of the reply may need.
    drop(args);
    if !desk.ring(Errand::Execute)? {
        return Err(raised("redis.call/pcall can only be called inside a script invocation").into());
    }
    if let Some(why) = desk.abort.get() {
        return Err(watch::stop(lua, desk, why));
    }
    let reply = desk.reply.borrow();
    match to_lua::error_text(&reply) {
        Some(text) => Ok(Err(Thrown::Failed(text.to_vec()))),
        None => to_lua::to_lua(lua, &reply, &Lifted::new(lua, desk)?).map(Ok),
    }
}

/// Lays words on the desk; false: some value is no word.
fn lay(lua: &Lua, desk: &Rc<Desk>, args: &MultiValue) -> mlua::Result<bool> {
    let limits = Limits::new(lua, desk);
    let words = &mut *desk.words.borrow_mut();
    words.clear();
    for arg in args {
        match arg {
            Value::String(text) => {
                let text = text.as_bytes();
                limits.check_len(words.bytes.len() + text.len())?;
                words.push(&text);
            }
            Value::Integer(number) => words.push(number::shortest(*number as f64).as_bytes()),
            Value::Number(number) => words.push(number::shortest(*number).as_bytes()),
            _ => return Ok(false),
        }
    }
    Ok(true)
}

/// The only argument of a function, if that is a string.
fn only_string(args: &MultiValue) -> Option<Vec<u8>> {
    match args.front() {
        Some(Value::String(text)) if args.len() == 1 => Some(text.as_bytes().to_vec()),
        _ => None,
    }
}

fn error_reply(lua: &Lua, args: MultiValue) -> mlua::Result<Value> {
    let Some(text) = only_string(&args) else {
        return error_table(lua, b"ERR wrong number or type of arguments", false);
    };
    let text = until_zero(&text);
    let text = text.strip_prefix(b"-").unwrap_or(text);
    let (code, message) = match text.iter().position(|&byte| byte == b' ') {
        Some(space) => (&text[..space], &text[space + 1..]),
        None => (&b"ERR"[..], text),
    };
    let table = lua.create_table_with_capacity(0, 1)?;
    table.raw_set("err", lua.create_string([code, b" ", trimmed(message)].concat())?)?;
    Ok(Value::Table(table))
}

/// A text without line breaks at its ends.
fn trimmed(mut text: &[u8]) -> &[u8] {
    while let [b'\r' | b'\n', rest @ ..] | [rest @ .., b'\r' | b'\n'] = text {
        text = rest;
    }
    text
}

fn status_reply(lua: &Lua, args: MultiValue) -> mlua::Result<Value> {
    let Some(text) = only_string(&args) else {
        return error_table(lua, b"ERR wrong number or type of arguments", false);
    };
    let table = lua.create_table_with_capacity(0, 1)?;
    table.raw_set("ok", lua.create_string(text)?)?;
    Ok(Value::Table(table))
}

fn sha1hex(lua: &Lua, desk: &Rc<Desk>, args: MultiValue) -> mlua::Result<Value> {
    // A long text takes time.
    watch::check(lua, desk)?;
    if args.len() != 1 {
        return Err(raised("wrong number of arguments").into());
    }
    let text = args.front().and_then(|arg| lua.coerce_string(arg.clone()).ok().flatten());
    let digest = text.map_or_else(|| sha1::digest(b""), |text| sha1::digest(&text.as_bytes()));
    lua.create_string(digest).map(Value::String)
}

fn log(_: &Lua, desk: &Rc<Desk>, args: MultiValue) -> mlua::Result<()> {
    if args.len() < 2 {
        return Err(raised("redis.log() requires two arguments or more.").into());
    }
    let level = match args.front() {
        Some(Value::Integer(level)) => *level,
        Some(Value::Number(level)) => *level as i64,
        _ => return Err(raised("First argument must be a number (log level).").into()),
    };
    if !(0..=3).contains(&level) {
        return Err(raised("Invalid debug level.").into());
    }
    let mut texts = args;
    texts.pop_front();
    {
        let words = &mut *desk.words.borrow_mut();
        words.clear();
        for (index, text) in texts.iter().enumerate() {
            // No more of a line is shown.
            if words.bytes.len() > LOGGED_LEN_MAX {
                break;
            }
            if index > 0 {
                words.bytes.push(b' ');
            }
            match text {
                Value::String(text) => words.bytes.extend_from_slice(&text.as_bytes()),
                Value::Integer(number) => {
                    words.bytes.extend_from_slice(number.to_string().as_bytes())
                }
                Value::Number(value) => {
                    words.bytes.extend_from_slice(number::general(*value, 14).as_bytes());
                }
                _ => {}
            }
        }
    }
    // Of the levels, the debugging ones are not written by default.
    if level >= 2 {
        desk.ring(Errand::Log)?;
    }
    Ok(())
}

/// An argument as a whole number; 0 if it is none.
fn whole(arg: Option<&Value>) -> i64 {
    arg.and_then(bit::number).map_or(0, number::truncated)
}

fn setresp(_: &Lua, desk: &Rc<Desk>, args: MultiValue) -> mlua::Result<()> {
    if args.len() != 1 {
        return Err(raised("redis.setresp() requires one argument.").into());
    }
    desk.protocol.set(match whole(args.front()) {
        2 => Protocol::Resp2,
        3 => Protocol::Resp3,
        _ => return Err(raised("RESP version must be 2 or 3.").into()),
    });
    Ok(())
}

fn set_repl(_: &Lua, args: MultiValue) -> mlua::Result<()> {
    if args.len() != 1 {
        return Err(raised("redis.set_repl() requires two arguments.").into());
    }
    match whole(args.front()) {
        0..=3 => Ok(()),
        _ => {
            let text =
                "Invalid replication flags. Use REPL_AOF, REPL_REPLICA, REPL_ALL or REPL_NONE.";
            Err(raised(text).into())
        }
    }
}

fn acl_check_cmd(lua: &Lua, desk: &Rc<Desk>, args: MultiValue) -> mlua::Result<bool> {
    if args.is_empty() {
        let text = "Please specify at least one argument for this redis lib call";
        return Err(raised(text).into());
    }
    if !lay(lua, desk, &args)? {
        let text = "Lua redis lib command arguments must be strings or integers";
        return Err(raised(text).into());
    }
    if !desk.ring(Errand::CheckRights)? {
        let text = "redis.acl_check_cmd can only be called inside a script invocation";
        return Err(raised(text).into());
    }
    match desk.reply.borrow().first() {
        Some(may) => Ok(*may == 1),
        None => Err(raised("Invalid command passed to redis.acl_check_cmd()").into()),
    }
}

/// The value of a script that was stopped.
pub(super) fn abort_text(why: Abort) -> &'static str {
    match why {
        Abort::Killed => "ERR Script killed by user with SCRIPT KILL...",
        Abort::TooLong => "ERR Script killed: it ran for longer than script-time-limit allows.",
        Abort::Elsewhere | Abort::Failed => "ERR Script aborted.",
    }
}
