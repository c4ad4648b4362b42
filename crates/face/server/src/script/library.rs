//! A library of functions, and what it registers.

use std::sync::atomic::{AtomicBool, Ordering};

use mlua::{Function, MultiValue, Table, Value};

use super::flags::{ScriptFlags, valid_name};

/// A library.
#[derive(Debug)]
pub(crate) struct Library {
    pub(crate) name: String,
    /// All of its text, the first line included.
    pub(crate) body: Vec<u8>,
    pub(crate) functions: Vec<FunctionInfo>,
    /// Bytes that it takes in a Lua state, once a thread has loaded it.
    pub(crate) loaded_len: usize,
    /// Some function has named a key of another thread that it has not declared.
    pub(super) roams: AtomicBool,
}

impl Library {
    pub(super) fn new(
        name: String,
        body: Vec<u8>,
        functions: Vec<FunctionInfo>,
        loaded_len: usize,
    ) -> Self {
        Self { name, body, functions, loaded_len, roams: AtomicBool::new(false) }
    }

    /// Whether it may name keys that it has not declared.
    pub(crate) fn roams(&self) -> bool {
        self.roams.load(Ordering::Relaxed)
    }
}

/// A function that a library has registered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct FunctionInfo {
    pub(crate) name: String,
    pub(crate) description: Option<Vec<u8>>,
    pub(crate) flags: ScriptFlags,
}

/// The functions that a library registers while it is loaded.
#[derive(Debug)]
pub(super) struct Registering {
    pub(super) functions: Vec<FunctionInfo>,
    /// By name.
    pub(super) callbacks: Table,
}

type Registered<T> = Result<T, &'static str>;

/// Registers a function; `registering` is there while a library is loaded.
pub(super) fn register(registering: &mut Option<Registering>, args: MultiValue) -> Registered<()> {
    let Some(registering) = registering else {
        return Err("redis.register_function can only be called on FUNCTION LOAD command");
    };
    let (info, callback) = match args.len() {
        1 => named(args.front())?,
        2 => positional(&args)?,
        _ => return Err("wrong number of arguments to redis.register_function"),
    };
    if valid_name(info.name.as_bytes()).is_none() {
        return Err(
            "Library names can only contain letters, numbers, or underscores(_) and must be at least one character long",
        );
    }
    if registering.functions.iter().any(|known| known.name == info.name) {
        return Err("Function already exists in the library");
    }
    let kept = registering.callbacks.raw_set(info.name.as_str(), callback);
    kept.map_err(|_| "there is no memory for the function")?;
    registering.functions.push(info);
    Ok(())
}

fn positional(args: &MultiValue) -> Registered<(FunctionInfo, Function)> {
    let name = match args.front() {
        Some(name @ (Value::String(_) | Value::Integer(_) | Value::Number(_))) => name.to_string(),
        _ => return Err("first argument to redis.register_function must be a string"),
    };
    let Some(Value::Function(callback)) = args.get(1) else {
        return Err("second argument to redis.register_function must be a function");
    };
    let name = name.unwrap_or_default();
    let info = FunctionInfo { name, description: None, flags: ScriptFlags::default() };
    Ok((info, callback.clone()))
}

/// A table of named arguments.
fn named(arg: Option<&Value>) -> Registered<(FunctionInfo, Function)> {
    let Some(Value::Table(table)) = arg else {
        return Err(
            "calling redis.register_function with a single argument is only applicable to Lua table (representing named arguments).",
        );
    };
    let (mut name, mut description, mut callback) = (None, None, None);
    let mut flags = ScriptFlags::default();
    for pair in table.pairs::<Value, Value>() {
        let (key, value) = match pair {
            Ok((Value::String(key), value)) => (key, value),
            Ok((Value::Integer(_) | Value::Number(_), _)) => {
                return Err("unknown argument given to redis.register_function");
            }
            _ => return Err("named argument key given to redis.register_function is not a string"),
        };
        match (&*key.as_bytes().to_ascii_lowercase(), value) {
            (b"function_name", Value::String(text)) => name = Some(text.to_string_lossy()),
            (b"function_name", _) => {
                return Err(
                    "function_name argument given to redis.register_function must be a string",
                );
            }
            (b"description", Value::String(text)) => description = Some(text.as_bytes().to_vec()),
            (b"description", _) => {
                return Err(
                    "description argument given to redis.register_function must be a string",
                );
            }
            (b"callback", Value::Function(function)) => callback = Some(function),
            (b"callback", _) => {
                return Err(
                    "callback argument given to redis.register_function must be a function",
                );
            }
            (b"flags", Value::Table(names)) => flags = named_flags(&names)?,
            (b"flags", _) => {
                return Err(
                    "flags argument to redis.register_function must be a table representing function flags",
                );
            }
            _ => return Err("unknown argument given to redis.register_function"),
        }
    }
    let name = name.ok_or("redis.register_function must get a function name argument")?;
    let callback = callback.ok_or("redis.register_function must get a callback argument")?;
    Ok((FunctionInfo { name, description, flags }, callback))
}

fn named_flags(names: &Table) -> Registered<ScriptFlags> {
    let mut flags = ScriptFlags::default();
    for index in 1.. {
        match names.raw_get(index) {
            Ok(Value::String(name)) if flags.add(&name.as_bytes()) => {}
            Ok(Value::Nil) => return Ok(flags),
            _ => break,
        }
    }
    Err("unknown flag given")
}
