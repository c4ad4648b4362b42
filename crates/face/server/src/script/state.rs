//! The Lua state of a thread.
//!
//! It is made when the thread runs its first script, and made anew after it has lacked memory, or when all scripts were
//! forgotten. A Lua state cannot leave its thread.

use std::cell::RefCell;
use std::collections::{HashMap, HashSet};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use mlua::chunk::ChunkMode;
use mlua::{Error, Function, Lua, LuaOptions, LuaString, StdLib, Table, Value};

use super::desk::Desk;
use super::library::{FunctionInfo, Library, Registering};
use super::registry::{Registry, Script};
use super::settings::ScriptSettings;
use super::sha1::{self, Digest};
use super::thrown::value_of;
use super::{
    api, bit, cjson, cmsgpack, flags, from_lua, number, random, structs, text, thrown, watch,
};
use crate::address::Address;
use crate::client::Client;
use crate::failure::{Failure, Outcome};
use crate::service::Service;

/// Scripts that a thread has compiled, above which it forgets all of them.
const COMPILED_MAX: usize = 2000;

/// The name by which scripts are compiled.
const SCRIPT_NAME: &str = "@user_script";
/// The name by which libraries are compiled.
const LIBRARY_NAME: &str = "@user_function";

thread_local! {
    static STATE: RefCell<Option<State>> = const { RefCell::new(None) };
}

/// A Lua state, and what it has of the server's scripts.
pub(super) struct State {
    pub(super) lua: Lua,
    pub(super) desk: Rc<Desk>,
    exports: Exports,
    /// Stands for the client in a script.
    pub(super) client: Option<Box<Client>>,
    /// The libraries that are loaded.
    libraries: HashMap<String, Arc<Library>>,
    /// The scripts that are compiled.
    compiled: HashSet<Digest>,
    /// The run of the server that it belongs to: a thread may run several, one after the other.
    run_id: String,
    /// How often all scripts had been forgotten.
    flushes: u64,
    memory_max: usize,
    /// Bytes that were last reported.
    reported: u64,
}

/// The functions that `bootstrap.lua` returns.
struct Exports {
    /// The table of all that. It also keeps the names of sources, which the parser does not while it works.
    _all: Table,
    script_environment: Table,
    library_environment: Table,
    keep_script: Function,
    keep_library: Function,
    run_script: Function,
    run_function: Function,
    run_library: Function,
}

impl State {
    /// The state of this thread.
    pub(super) fn take(service: &Service) -> Outcome<Self> {
        let registry = &service.shared.scripts;
        let kept = STATE.with_borrow_mut(Option::take);
        if let Some(state) = kept {
            let settings = &service.settings.scripts;
            let is_of_now = state.run_id == service.run_id && state.flushes == registry.flushes();
            if is_of_now
                && state.memory_max == settings.memory_max
                && state.compiled.len() < COMPILED_MAX
            {
                return Ok(state);
            }
            state.drop_counted(registry);
        }
        Self::new(service).map_err(|error| failed(&error))
    }

    fn new(service: &Service) -> mlua::Result<Self> {
        let settings = &service.settings.scripts;
        let (lua, desk, exports) = make(settings)?;
        let (addr, laddr) = (Address::nowhere(), Address::nowhere());
        let mut client = Client::new(Client::GUEST, addr, laddr, -1, service.now);
        client.authenticated = true;
        Ok(Self {
            lua,
            desk,
            exports,
            client: Some(Box::new(client)),
            libraries: HashMap::new(),
            compiled: HashSet::new(),
            run_id: service.run_id.clone(),
            flushes: service.shared.scripts.flushes(),
            memory_max: settings.memory_max,
            reported: 0,
        })
    }

    /// Keeps the state for the next script, unless it lacks memory.
    pub(super) fn put_back(mut self, registry: &Registry, lacked_memory: bool) {
        let half = self.memory_max / 2;
        if lacked_memory
            || self.lua.used_memory() > half
                && (self.lua.gc_collect().is_err() || self.lua.used_memory() > half)
        {
            return self.drop_counted(registry);
        }
        let bytes = self.lua.used_memory() as u64;
        registry.state_bytes.fetch_add(bytes.wrapping_sub(self.reported), Ordering::Relaxed);
        self.reported = bytes;
        STATE.with_borrow_mut(|kept| *kept = Some(self));
    }

    fn drop_counted(self, registry: &Registry) {
        registry.state_bytes.fetch_sub(self.reported, Ordering::Relaxed);
    }

    /// Compiles a script, if it is not yet.
    pub(super) fn compile(&mut self, script: &Script) -> Outcome {
        if self.compiled.contains(&script.digest) {
            return Ok(());
        }
        let compiled =
            compile(&self.lua, script.code(), SCRIPT_NAME, self.exports.script_environment.clone());
        let function = compiled.map_err(|why| {
            Failure::quoting("ERR Error compiling script (new function): ", &why, "")
        })?;
        debug_assert_eq!(self.desk.next_look.get(), Duration::MAX, "the last run has ended");
        let kept = self.exports.keep_script.call::<()>((sha1::text(&script.digest), function));
        kept.map_err(|error| failed(&error))?;
        self.compiled.insert(script.digest);
        Ok(())
    }

    /// Loads a library, if it is not yet.
    pub(super) fn load(&mut self, library: &Arc<Library>) -> Outcome {
        if self.libraries.get(&library.name).is_some_and(|loaded| Arc::ptr_eq(loaded, library)) {
            return Ok(());
        }
        self.desk.clear(Instant::now(), Duration::MAX);
        let known = Duration::MAX;
        let (_, callbacks) = register(&self.lua, &self.desk, &self.exports, &library.body, known)?;
        let kept = self.exports.keep_library.call::<()>((library.name.as_str(), callbacks));
        kept.map_err(|error| failed(&error))?;
        self.libraries.insert(library.name.clone(), Arc::clone(library));
        Ok(())
    }

    /// Calls a script. Its values come from the state alone: the service is lent to the bell.
    pub(super) fn run_script(
        &self,
        digest: &Digest,
        keys: Table,
        args: Table,
    ) -> mlua::Result<(bool, Value)> {
        self.exports.run_script.call((sha1::text(digest), keys, args))
    }

    /// Calls a function of a library that is loaded.
    pub(super) fn run_function(
        &self,
        library: &str,
        name: &str,
        keys: Table,
        args: Table,
    ) -> mlua::Result<(bool, Value)> {
        self.exports.run_function.call((library, name, keys, args))
    }
}

/// How long the code of a library may run while it is loaded for the first time. Code that has ended once ends again, as
/// it sees nothing but itself, and may then be as slow as the machine is.
const LOADING_TIME_MAX: Duration = Duration::from_millis(500);

/// Finds out the functions that a new library registers.
pub(crate) fn inspect(body: &[u8], settings: &ScriptSettings) -> Outcome<Library> {
    inspect_within(body, settings, LOADING_TIME_MAX)
}

/// Finds out the functions of a library that was loaded before.
pub(super) fn inspect_known(body: &[u8], settings: &ScriptSettings) -> Outcome<Library> {
    inspect_within(body, settings, Duration::MAX)
}

/// Finds out the functions that a library registers, in a state of its own.
fn inspect_within(body: &[u8], settings: &ScriptSettings, time_max: Duration) -> Outcome<Library> {
    let name = flags::of_library(body)?.0;
    let (lua, desk, exports) = make(settings).map_err(|error| failed(&error))?;
    let before = lua.used_memory();
    let (functions, _) = register(&lua, &desk, &exports, body, time_max)?;
    let loaded_len = lua.used_memory().saturating_sub(before);
    Ok(Library::new(name, body.to_vec(), functions, loaded_len))
}

/// Runs the code of a library, and returns the functions that it registers.
fn register(
    lua: &Lua,
    desk: &Rc<Desk>,
    exports: &Exports,
    body: &[u8],
    time_max: Duration,
) -> Outcome<(Vec<FunctionInfo>, Table)> {
    let (_, code) = flags::of_library(body)?;
    let environment = exports.library_environment.clone();
    let function = compile(lua, code, LIBRARY_NAME, environment)
        .map_err(|why| Failure::quoting("ERR Error compiling function: ", &why, ""))?;
    let callbacks = lua.create_table().map_err(|error| failed(&error))?;
    desk.registering.replace(Some(Registering { functions: Vec::new(), callbacks }));
    desk.load_until(time_max);
    let ran = exports.run_library.call::<(bool, Value)>(function);
    desk.rest();
    let registered = desk.registering.replace(None);
    if desk.abort.replace(None).is_some() {
        watch::watch(lua, desk).map_err(|error| failed(&error))?;
        return Err("ERR Error registering functions: ERR FUNCTION LOAD timeout".into());
    }
    match ran.map_err(|error| failed(&error))? {
        (true, _) => {}
        (false, why) => {
            let why = match &why {
                Value::Table(why) => from_lua::text(why, "err")?.unwrap_or_default(),
                why => why.to_string().unwrap_or_default().into_bytes(),
            };
            return Err(Failure::quoting("ERR Error registering functions: ", &why, ""));
        }
    }
    match registered {
        Some(Registering { functions, callbacks }) if !functions.is_empty() => {
            Ok((functions, callbacks))
        }
        _ => Err("ERR No functions registered".into()),
    }
}

/// Branches that code may have, and operators that make some: Lua's parser takes time by the square of their number, and
/// cannot be interrupted.
const BRANCHES_MAX: usize = 10_000;

/// The error of code that has more.
const TANGLED: &[u8] = b"control structure too long";

/// Whether code has more branches than that.
fn is_tangled(code: &[u8]) -> bool {
    if code.len() <= 2 * BRANCHES_MAX {
        return false;
    }
    let is_of_name = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'_';
    let is_branch = |word: &&[u8]| [&b"elseif"[..], b"break", b"or", b"and"].contains(word);
    code.split(|byte| !is_of_name(byte)).filter(is_branch).count() > BRANCHES_MAX
}

/// Compiles code; `Err`: why that fails.
fn compile(
    lua: &Lua,
    code: &[u8],
    name: &str,
    environment: Table,
) -> std::result::Result<Function, Vec<u8>> {
    if is_tangled(code) {
        return Err(TANGLED.to_vec());
    }
    // Compiled code, which is not trusted, begins with this character.
    if code.first() == Some(&27) {
        return Err(format!("{}:1: unexpected symbol near 'char(27)'", &name[1..]).into_bytes());
    }
    let chunk = lua.load(code).set_name(name).set_mode(ChunkMode::Text);
    chunk.set_environment(environment).into_function().map_err(|error| match error {
        Error::SyntaxError { message, .. } if message.contains(char::REPLACEMENT_CHARACTER) => {
            syntax_error(lua, code, name).unwrap_or(message.into_bytes())
        }
        Error::SyntaxError { message, .. } => message.into_bytes(),
        error => error.to_string().into_bytes(),
    })
}

/// The message of Lua's parser about code, with the bytes of the code that it quotes.
fn syntax_error(lua: &Lua, code: &[u8], name: &str) -> Option<Vec<u8>> {
    let load: Function = lua.globals().get("loadstring").ok()?;
    let code = lua.create_string(code).ok()?;
    let (_, message): (Value, Option<LuaString>) = load.call((code, name)).ok()?;
    Some(message?.as_bytes().to_vec())
}

/// An error of the state itself.
pub(super) fn failed(error: &Error) -> Failure {
    match error {
        Error::MemoryError(_) => "ERR Error running script, not enough memory".into(),
        error => {
            let text = error.to_string();
            let first = text.lines().next().unwrap_or_default();
            format!("ERR Error running script, {first}").into()
        }
    }
}

/// Makes a state.
fn make(settings: &ScriptSettings) -> mlua::Result<(Lua, Rc<Desk>, Exports)> {
    let libraries = StdLib::TABLE | StdLib::STRING | StdLib::MATH;
    let lua = Lua::new_with(libraries, LuaOptions::new().catch_rust_panics(false))?;
    let desk = Rc::new(Desk::new());
    let native = native(&lua, &desk)?;
    let names = [thrown::SANDBOX, SCRIPT_NAME, LIBRARY_NAME].map(|name| lua.create_string(name));
    let bootstrap = lua.load(include_str!("bootstrap.lua")).set_name(thrown::SANDBOX);
    let exports: Table = bootstrap.into_function()?.call(native)?;
    for name in names {
        exports.raw_push(name?)?;
    }
    let exports = Exports {
        _all: exports.clone(),
        script_environment: exports.get("script_environment")?,
        library_environment: exports.get("library_environment")?,
        keep_script: exports.get("keep_script")?,
        keep_library: exports.get("keep_library")?,
        run_script: exports.get("run_script")?,
        run_function: exports.get("run_function")?,
        run_library: exports.get("run_library")?,
    };
    lua.set_globals(exports.script_environment.clone())?;
    lua.set_memory_limit(settings.memory_max)?;
    desk.memory_max.set(settings.memory_max);
    watch::watch(&lua, &desk)?;
    Ok((lua, desk, exports))
}

/// The functions of Rust that the sandbox is made of.
fn native(lua: &Lua, desk: &Rc<Desk>) -> mlua::Result<Table> {
    let native = lua.create_table()?;
    native.set("thrown", lua.create_function(value_of)?)?;
    native.set("is_abort", lua.create_function(|_, why: Value| Ok(thrown::is_abort(&why)))?)?;
    native.set("place", lua.create_function(|lua, level| Ok(thrown::place(lua, level)))?)?;
    let bad_argument = |lua: &Lua, (number, name, why): (usize, String, String)| {
        Err::<(), _>(thrown::bad_argument(lua, number, &name, &why))
    };
    native.set("bad_argument", lua.create_function(bad_argument)?)?;
    native.set("clock", lua.create_function(|_, ()| Ok(cpu_seconds()))?)?;
    native.set("redis", api::redis(lua, desk)?)?;
    native.set("register_function", api::register_function(lua, desk)?)?;
    native.set("cjson", cjson::table(lua, desk)?)?;
    native.set("cmsgpack", cmsgpack::table(lua, desk)?)?;
    native.set("struct", structs::table(lua, desk)?)?;
    native.set("text", text::table(lua, desk)?)?;
    native.set(
        "is_tangled",
        lua.create_function(|_, code: mlua::LuaString| Ok(is_tangled(&code.as_bytes())))?,
    )?;
    let own = Rc::clone(desk);
    native.set("check", lua.create_function(move |lua, ()| watch::check(lua, &own))?)?;
    native.set("bit", bit::table(lua)?)?;
    let own = Rc::clone(desk);
    native.set("random", lua.create_function(move |lua, args| random_number(lua, &own, &args))?)?;
    let own = Rc::clone(desk);
    native.set(
        "randomseed",
        lua.create_function(move |lua, args: mlua::MultiValue| {
            let Some(seed) = args.front().and_then(bit::number) else {
                let why = format!("number expected, got {}", thrown::type_name(args.front()));
                return Err(thrown::bad_argument(lua, 1, "randomseed", &why));
            };
            own.random.set(random::seeded(number::truncated(seed) as i32));
            Ok(())
        })?,
    )?;
    Ok(native)
}

/// `math.random`.
fn random_number(lua: &Lua, desk: &Desk, args: &mlua::MultiValue) -> mlua::Result<Value> {
    let (state, number) = random::next(desk.random.get());
    desk.random.set(state);
    let unit = random::unit(number);
    let bound = |index: usize| match args.get(index).and_then(bit::number) {
        Some(number) => Ok(number::truncated(number) as i32),
        None => {
            let why = format!("number expected, got {}", thrown::type_name(args.get(index)));
            Err(thrown::bad_argument(lua, index + 1, "random", &why))
        }
    };
    let (low, high, last) = match args.len() {
        0 => return Ok(Value::Number(unit)),
        1 => (1, bound(0)?, 1),
        2 => (bound(0)?, bound(1)?, 2),
        _ => return Err(thrown::fail(lua, "wrong number of arguments")),
    };
    if low > high {
        return Err(thrown::bad_argument(lua, last, "random", "interval is empty"));
    }
    let count = high.wrapping_sub(low).wrapping_add(1);
    Ok(Value::Number((unit * f64::from(count)).floor() + f64::from(low)))
}

/// The seconds for which the thread has run: `os.clock`.
fn cpu_seconds() -> f64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}
