//! A run of a script, or of a function of a library.

use std::sync::Arc;
use std::time::{Duration, Instant};

use mlua::{Lua, Table, Value};

use super::api::abort_text;
use super::desk::{Abort, Desk};
use super::executor::{Executor, LOOK, Undo};
use super::flags::ScriptFlags;
use super::from_lua::{self, from_lua};
use super::library::{FunctionInfo, Library};
use super::lifted::{Lifted, SLOT};
use super::limits::Limits;
use super::pattern::until_zero;
use super::registry::Script;
use super::sha1;
use super::state::{State, failed};
use super::to_lua;
use crate::call::Call;
use crate::clock::unix_time;
use crate::failure::{Failure, Outcome};
use crate::reply::{Protocol, Reply};
use crate::resp::Args;
use crate::service::Service;
use crate::tracking::Tracking;

/// The code to run.
#[derive(Clone, Copy)]
pub(crate) enum Program<'a> {
    Script(&'a Arc<Script>),
    Function(&'a Arc<Library>, &'a FunctionInfo),
}

impl Program<'_> {
    fn flags(&self) -> ScriptFlags {
        match self {
            Self::Script(script) => script.flags,
            Self::Function(_, function) => function.flags,
        }
    }

    /// The name by which errors know it.
    fn name(&self) -> &str {
        match self {
            Self::Script(script) => sha1::text(&script.digest),
            Self::Function(_, function) => &function.name,
        }
    }
}

/// Compiles a script, so that its errors are found.
pub(crate) fn check(service: &mut Service, script: &Script) -> Outcome {
    let mut state = State::take(service)?;
    let compiled = state.compile(script);
    state.put_back(&service.shared.scripts, false);
    compiled
}

/// Runs a program with the keys and arguments of the command, and writes its reply. `is_read_only`: it must not write,
/// by the command's name.
pub(crate) fn run(
    call: &mut Call<'_>,
    program: Program<'_>,
    keys: Args<'_>,
    args: Args<'_>,
    is_read_only: bool,
) -> Outcome {
    let mut state = State::take(call.service)?;
    let mut lacked_memory = false;
    let outcome = prepare(&mut state, call.service, program)
        .and_then(|()| check_flags(call, program.flags(), is_read_only).map_err(|why| (why, false)))
        .and_then(|()| run_in(&mut state, call, program, (keys, args), is_read_only))
        .map_err(|(failure, lacks)| {
            lacked_memory = lacks;
            failure
        });
    state.put_back(&call.service.shared.scripts, lacked_memory);
    outcome
}

/// Refuses a program that its flags keep from running now.
fn check_flags(call: &Call<'_>, flags: ScriptFlags, is_read_only: bool) -> Outcome {
    if flags.has(ScriptFlags::UNDECLARED) {
        return Ok(());
    }
    let writes = !flags.has(ScriptFlags::NO_WRITES);
    if writes {
        call.service.check_durable()?;
    }
    if writes && is_read_only {
        return Err("ERR Can not execute a script with write flag using *_ro command.".into());
    }
    if writes && !flags.has(ScriptFlags::ALLOW_OOM) && call.service.lacks_room() {
        let text = "OOM allow-oom flag is not set on the script, can not run it when used memory > 'maxmemory'";
        return Err(text.into());
    }
    Ok(())
}

/// A failure, and whether the state lacked memory.
type Failed = (Failure, bool);

fn prepare(state: &mut State, service: &mut Service, program: Program<'_>) -> Result<(), Failed> {
    let prepared = match program {
        Program::Script(script) => state.compile(script).map(|()| {
            service.shared.scripts.keep_evaluated(script);
        }),
        Program::Function(library, _) => state.load(library),
    };
    prepared.map_err(|failure| {
        let lacks = failure.text().ends_with(b"not enough memory");
        (failure, lacks)
    })
}

fn run_in(
    state: &mut State,
    call: &mut Call<'_>,
    program: Program<'_>,
    words: (Args<'_>, Args<'_>),
    is_read_only: bool,
) -> Result<(), Failed> {
    let is_alone = !call.service.store.in_transaction();
    let undo = match (call.service.settings.scripts.rolls_back, is_alone) {
        (false, _) => Undo::Nothing,
        (true, true) => {
            call.service.store.begin();
            Undo::All
        }
        (true, false) => Undo::Part(None),
    };
    let gathers = matches!(undo, Undo::All);
    let ran = execute(state, call, program, words, is_read_only, undo);
    if gathers {
        match &ran {
            Ok(()) => {
                let committed = call.service.store.commit();
                return committed.map_err(|error| (error.into(), false));
            }
            Err(_) => call.service.store.rollback(),
        }
    }
    ran
}

/// Runs a program while its changes can be undone, and writes its reply.
fn execute(
    state: &mut State,
    call: &mut Call<'_>,
    program: Program<'_>,
    (keys, args): (Args<'_>, Args<'_>),
    is_read_only: bool,
    undo: Undo,
) -> Result<(), Failed> {
    let desk = std::rc::Rc::clone(&state.desk);
    desk.clear(Instant::now(), first_look(call.service));
    let tables = tables_of(&state.lua, &desk, keys, args);
    let (keys, args) = tables.map_err(|error| (failed(&error), true))?;
    let Some(mut client) = state.client.take() else {
        return Err(("ERR Script aborted.".into(), true));
    };
    client.script_began = Some(unix_time());
    client.db = call.client.db;
    client.addr.clone_from(&call.client.addr);
    client.login = call.client.login.clone();
    client.no_touch = call.client.no_touch;
    // It is told of what the script reads, and not of what that changes if it wants no loop.
    client.acts_for = call.client.acts_for;
    let tracking = call.client.remembers_reads().then(Tracking::default);
    client.tracking = tracking.map(Box::new);
    let flags = program.flags();
    let len_max = call.service.settings.reply_len_max().saturating_add(call.out.len());
    let start = call.out.len();
    let mut reply = Reply { out: &mut *call.out, protocol: call.client.protocol };
    let mut executor = Executor {
        service: &mut *call.service,
        client: &mut client,
        caller: &*call.client,
        desk: &desk,
        is_read_only: is_read_only || flags.has(ScriptFlags::NO_WRITES),
        flags,
        undo,
        failure: None,
        has_written: false,
        kind: (matches!(program, Program::Function(..)), program.name()),
        command: call.args,
        running: None,
    };
    let mut is_new_error = false;
    let called = state.lua.scope(|scope| {
        let bell = scope.create_function_mut(|_, ()| {
            executor.serve();
            Ok(())
        })?;
        desk.bell.replace(Some(bell));
        let called = match program {
            Program::Script(script) => state.run_script(&script.digest, keys, args),
            Program::Function(library, function) => {
                state.run_function(&library.name, &function.name, keys, args)
            }
        };
        // A value may take long to be written, if parts of it occur in many places.
        let written = match &called {
            Ok((true, value)) => {
                let limits = Limits::new(&state.lua, &desk);
                let booleans = desk.protocol.get() == Protocol::Resp3;
                from_lua(value, booleans, &mut reply, len_max, &limits)
            }
            _ => Ok(()),
        };
        desk.bell.replace(None);
        if let Ok((true, Value::Table(value))) = &called {
            is_new_error = from_lua::is_new_error(value);
        }
        // An error of the script is no error of the scope.
        Ok((called, written))
    });
    desk.rest();
    let failure = executor.failure.take();
    let undo = std::mem::replace(&mut executor.undo, Undo::Nothing);
    drop(executor);
    state.client = Some(client);
    let ended = match called {
        Ok((Ok((true, _)), written)) => Ok(written),
        Ok((Ok((false, why)), _)) => Err(Ok(why)),
        Ok((Err(error), _)) | Err(error) => Err(Err(error)),
    };
    if is_new_error && let Some(text) = to_lua::error_text(&call.out[start..]) {
        call.service.note_error(text);
    }
    let outcome = conclude(state, call, program, &desk, failure, ended);
    if let Undo::Part(Some(savepoint)) = undo {
        match outcome {
            Ok(_) => call.service.store.release(savepoint),
            Err(_) => call.service.store.return_to(savepoint),
        }
    }
    outcome
}

/// Whether the value was written that a run has returned; or the value that it has raised, or an error of the state.
type Ended = Result<Outcome, Result<Value, mlua::Error>>;

/// Makes a failure of a run that has not written its reply.
fn conclude(
    state: &State,
    call: &mut Call<'_>,
    program: Program<'_>,
    desk: &std::rc::Rc<Desk>,
    failure: Option<Failure>,
    ended: Ended,
) -> Result<(), Failed> {
    if let Some(why) = desk.abort.replace(None) {
        super::watch::watch(&state.lua, desk).map_err(|error| (failed(&error), true))?;
        return Err((aborted(call, program, desk, why, failure), false));
    }
    match ended {
        Ok(written) => written.map_err(|failure| (failure, true)),
        Err(Ok(Value::Table(why))) => {
            let failure = |text| match from_lua::is_new_error(&why) {
                true => Failure::from(text),
                false => Failure::RefusedInScript(text),
            };
            let text = error_text(&why, program.name());
            Err(text.map_or_else(|failure| (failure, true), |text| (failure(text), false)))
        }
        Err(Ok(why)) => {
            let why = why.to_string().unwrap_or_default();
            let lacks = why.contains("not enough memory");
            let shown: String = why.chars().take(100).collect();
            let text = format!("ERR Error running script {}, {shown}", program.name());
            Err((text.into(), lacks))
        }
        Err(Err(error)) => Err((failed(&error), true)),
    }
}

/// The failure of a run that was stopped.
fn aborted(
    call: &mut Call<'_>,
    program: Program<'_>,
    desk: &Desk,
    why: Abort,
    failure: Option<Failure>,
) -> Failure {
    if why == Abort::Elsewhere {
        call.client.needs_all_parts = true;
        let registry = &call.service.shared.scripts;
        match program {
            Program::Script(script) => registry.note_roaming(&script.roams),
            Program::Function(library, _) => registry.note_roaming(&library.roams),
        }
    }
    if let Some(failure) = failure {
        return failure;
    }
    let mut text = abort_text(why).to_owned();
    if let Some((source, line)) = desk.stopped_at.replace(None) {
        text.push_str(&format!(" script: {}, on {source}:{line}.", program.name()));
    }
    text.into()
}

/// The text of an error that a script has raised, with its place.
fn error_text(why: &Table, name: &str) -> Outcome<Vec<u8>> {
    let mut text = from_lua::text(why, "err")?.unwrap_or_else(|| b"ERR unknown error".to_vec());
    text.truncate(until_zero(&text).len());
    let source = from_lua::text(why, "source")?;
    let line = match why.raw_get("line") {
        Ok(Value::Integer(line)) => Some(line.to_string().into_bytes()),
        Ok(Value::Number(line)) => Some(super::number::general(line, 14).into_bytes()),
        Ok(Value::String(line)) => Some(line.as_bytes().to_vec()),
        _ => None,
    };
    if let Some((source, line)) = source.zip(line) {
        text.extend_from_slice(b" script: ");
        text.extend_from_slice(name.as_bytes());
        text.extend_from_slice(b", on ");
        text.extend_from_slice(&source);
        text.push(b':');
        text.extend_from_slice(&line);
        text.push(b'.');
    }
    Ok(text)
}

/// When the script first looks after the server.
fn first_look(service: &Service) -> Duration {
    let settings = &service.settings.scripts;
    let limits = [settings.busy_threshold, settings.time_max];
    let first = limits.into_iter().filter(|limit| !limit.is_zero()).min();
    first.map_or(LOOK, |limit| limit.min(LOOK))
}

/// The keys and the arguments of a run, as it finds them in `KEYS` and `ARGV`.
fn tables_of(
    lua: &Lua,
    desk: &Desk,
    keys: Args<'_>,
    args: Args<'_>,
) -> mlua::Result<(Table, Table)> {
    let lifted = Lifted::new(lua, desk)?;
    let table_of = |words: Args<'_>| -> mlua::Result<Table> {
        lifted.check_room(words.len() * SLOT)?;
        let table = lua.create_table_with_capacity(words.len(), 0)?;
        for (index, word) in words.iter().enumerate() {
            lifted.check_room(word.len())?;
            table.raw_set(index + 1, lua.create_string(word)?)?;
        }
        Ok(table)
    };
    Ok((table_of(keys)?, table_of(args)?))
}
