//! Libraries of functions.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;
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

/// All libraries.
#[derive(Debug, Clone, Default)]
pub(crate) struct Libraries {
    by_name: BTreeMap<String, Arc<Library>>,
    /// By name of a function in lower case, as all are found: its library, and its place there.
    functions: HashMap<String, (Arc<Library>, usize)>,
}

impl Libraries {
    /// All of them, by name.
    pub(crate) fn iter(&self) -> impl ExactSizeIterator<Item = &Arc<Library>> {
        self.by_name.values()
    }

    /// The library of this name.
    pub(crate) fn get(&self, name: &str) -> Option<&Arc<Library>> {
        self.by_name.get(name)
    }

    /// The number of functions.
    pub(crate) fn function_count(&self) -> usize {
        self.functions.len()
    }

    /// The function of this name, with its library.
    pub(crate) fn function(&self, name: &[u8]) -> Option<(&Arc<Library>, &FunctionInfo)> {
        let name = std::str::from_utf8(name).ok()?.to_ascii_lowercase();
        let (library, index) = self.functions.get(&name)?;
        Some((library, library.functions.get(*index)?))
    }

    /// Adds a library in the place of one of the same name; `Err`: a function that another library has.
    pub(crate) fn insert(&mut self, library: Arc<Library>) -> Result<(), String> {
        let mut own = HashSet::new();
        let mut is_taken = |function: &&FunctionInfo| {
            let name = function.name.to_ascii_lowercase();
            let owner = self.functions.get(&name);
            owner.is_some_and(|(owner, _)| owner.name != library.name) || !own.insert(name)
        };
        if let Some(taken) = library.functions.iter().find(&mut is_taken) {
            return Err(taken.name.clone());
        }
        self.remove(&library.name);
        for (index, function) in library.functions.iter().enumerate() {
            let name = function.name.to_ascii_lowercase();
            self.functions.insert(name, (Arc::clone(&library), index));
        }
        self.by_name.insert(library.name.clone(), library);
        Ok(())
    }

    /// Removes a library; false: there is none of this name.
    pub(crate) fn remove(&mut self, name: &str) -> bool {
        let Some(library) = self.by_name.remove(name) else { return false };
        for function in &library.functions {
            self.functions.remove(&function.name.to_ascii_lowercase());
        }
        true
    }
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
