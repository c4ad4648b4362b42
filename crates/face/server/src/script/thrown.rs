//! The errors that functions of Rust raise in a script.
//!
//! Lua gets them as userdata, and the sandbox makes values of them before a script sees them: texts, or tables with a
//! field `err`.

use std::fmt;

use mlua::{Error, Lua, Value};

/// An error that a function raises in a script.
#[derive(Debug)]
pub(super) enum Thrown {
    /// A text.
    Text(Vec<u8>),
    /// A table with this field `err`.
    Reply(Vec<u8>),
    /// The same, of the error of a command, which is counted already.
    Failed(Vec<u8>),
    /// The script must not go on.
    Abort,
}

impl fmt::Display for Thrown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Text(text) | Self::Reply(text) | Self::Failed(text) => {
                f.write_str(&String::from_utf8_lossy(text))
            }
            Self::Abort => f.write_str("the script is stopped"),
        }
    }
}

impl std::error::Error for Thrown {}

impl From<Thrown> for Error {
    fn from(thrown: Thrown) -> Self {
        Self::external(thrown)
    }
}

/// The name by which the sandbox's own code is compiled.
pub(super) const SANDBOX: &str = "=halite";

/// An error with the place in front where the running function was called: by a script, and not by the sandbox.
pub(super) fn fail(lua: &Lua, text: impl AsRef<[u8]>) -> Error {
    let place = (1..FRAMES).find_map(|level| {
        let frame = lua.inspect_stack(level, |frame| {
            let source = frame.source();
            let is_sandbox = source.source.as_deref() == Some(SANDBOX);
            let place = source.short_src.zip(frame.current_line());
            (!is_sandbox).then(|| place.map(|(source, line)| format!("{source}:{line}: ")))
        });
        frame.unwrap_or(Some(None))
    });
    let mut message = place.flatten().unwrap_or_default().into_bytes();
    message.extend_from_slice(text.as_ref());
    Thrown::Text(message).into()
}

/// Frames of the stack that are looked at for one of a script.
const FRAMES: usize = 30;

/// The source and the line of a frame that is a script's: of the innermost one from `level` on.
pub(super) fn place(lua: &Lua, level: usize) -> (Option<String>, Option<usize>) {
    for level in level..level + FRAMES {
        let frame = lua.inspect_stack(level, |frame| {
            let source = frame.source();
            let is_own = source.what == "C" || source.source.as_deref() == Some(SANDBOX);
            (!is_own)
                .then(|| (source.source.map(|source| source.into_owned()), frame.current_line()))
        });
        match frame {
            None => break,
            Some(Some(place)) => return place,
            Some(None) => {}
        }
    }
    (None, None)
}

/// The error of a wrong argument of a function, counted from 1: in the name by which a script has called the function, if
/// that is known.
pub(super) fn bad_argument(lua: &Lua, number: usize, function: &str, why: &str) -> Error {
    let (name, is_method) = name_of_call(lua).unwrap_or_else(|| (function.to_owned(), false));
    fail(
        lua,
        match (number, is_method) {
            (1, true) => format!("calling '{name}' on bad self ({why})"),
            (_, true) => format!("bad argument #{} to '{name}' ({why})", number.saturating_sub(1)),
            (_, false) => format!("bad argument #{number} to '{name}' ({why})"),
        },
    )
}

/// The name by which the running function was called, or the sandbox's that it works for, and whether that was the call of
/// a method. A function that `pcall` has called has none; `None`: a call in the place of its caller has left no name.
fn name_of_call(lua: &Lua) -> Option<(String, bool)> {
    let is_sandbox = |level| {
        let frame =
            lua.inspect_stack(level, |frame| frame.source().source.as_deref() == Some(SANDBOX));
        frame == Some(true)
    };
    let caller = (1..FRAMES).find(|level| !is_sandbox(*level))?;
    match lua.inspect_stack(caller, |frame| frame.source().what) {
        Some("tail") => return None,
        None | Some("C") => return Some(("?".to_owned(), false)),
        Some(_) => {}
    }
    lua.inspect_stack(caller - 1, |frame| {
        let names = frame.names();
        let name = names.name.map_or("?".to_owned(), |name| name.into_owned());
        (name, names.name_what == Some("method"))
    })
}

/// The name of a value's type.
pub(super) fn type_name(value: Option<&Value>) -> &'static str {
    match value {
        None => "no value",
        Some(Value::Integer(_)) => "number",
        Some(Value::LightUserData(_) | Value::Error(_)) => "userdata",
        Some(value) => value.type_name(),
    }
}

/// The value that a script sees of an error.
pub(super) fn value_of(lua: &Lua, error: Value) -> mlua::Result<Value> {
    let Value::Error(why) = &error else { return Ok(error) };
    match why.downcast_ref::<Thrown>() {
        Some(Thrown::Text(text)) => lua.create_string(text).map(Value::String),
        Some(Thrown::Reply(text)) => error_table(lua, text, false),
        Some(Thrown::Failed(text)) => error_table(lua, text, true),
        Some(Thrown::Abort) => Ok(error),
        None => lua.create_string(root(why).to_string()).map(Value::String),
    }
}

/// Whether an error means that the script must not go on.
pub(super) fn is_abort(error: &Value) -> bool {
    let Value::Error(why) = error else { return false };
    matches!(why.downcast_ref(), Some(Thrown::Abort))
}

/// The innermost error.
fn root(error: &Error) -> &Error {
    match error {
        Error::CallbackError { cause, .. } | Error::BadArgument { cause, .. } => root(cause),
        _ => error,
    }
}

/// A table that is an error reply, and says whether it is counted already.
pub(super) fn error_table(lua: &Lua, text: &[u8], is_counted: bool) -> mlua::Result<Value> {
    let table = lua.create_table_with_capacity(0, 2)?;
    table.raw_set("err", lua.create_string(text)?)?;
    if is_counted {
        table.raw_set("ignore_error_stats_update", true)?;
    }
    Ok(Value::Table(table))
}
