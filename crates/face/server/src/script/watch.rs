//! The hook that Lua calls while a script runs, every so many instructions.
//!
//! A script that is stopped gets an error at every further instruction, so that loops around `pcall` end as well.
//! Coroutines have the hook of the one that made them.

use std::rc::Rc;

use mlua::{HookTriggers, Lua, VmState};

use super::desk::{Abort, Desk, Errand};
use super::thrown::{self, Thrown};

/// Instructions between two looks at the clock.
const STEP: u32 = 1000;

/// Watches what the state executes.
pub(super) fn watch(lua: &Lua, desk: &Rc<Desk>) -> mlua::Result<()> {
    set(lua, desk, STEP)
}

/// Stops the running script.
pub(super) fn stop(lua: &Lua, desk: &Rc<Desk>, why: Abort) -> mlua::Error {
    desk.abort.set(Some(why));
    match set(lua, desk, 1) {
        Ok(()) => Thrown::Abort.into(),
        Err(error) => error,
    }
}

fn set(lua: &Lua, desk: &Rc<Desk>, step: u32) -> mlua::Result<()> {
    let desk = Rc::clone(desk);
    lua.set_global_hook(HookTriggers::new().every_nth_instruction(step), move |lua, _| {
        look(lua, &desk)
    })
}

fn look(lua: &Lua, desk: &Rc<Desk>) -> mlua::Result<VmState> {
    if must_end(desk)? {
        return Err(end(lua, desk));
    }
    Ok(VmState::Continue)
}

/// Fails if the script must not go on: a function of Rust that works for long asks now and then.
pub(super) fn check(lua: &Lua, desk: &Rc<Desk>) -> mlua::Result<()> {
    if must_end(desk)? {
        return Err(end(lua, desk));
    }
    Ok(())
}

/// Whether the script must end, after a look at the clock.
fn must_end(desk: &Desk) -> mlua::Result<bool> {
    if desk.abort.get().is_none()
        && desk.began.get().elapsed() >= desk.next_look.get()
        && !desk.ring(Errand::LookAfter)?
    {
        // The code of a library.
        desk.abort.set(Some(Abort::TooLong));
    }
    Ok(desk.abort.get().is_some())
}

/// Ends the script where it is.
fn end(lua: &Lua, desk: &Rc<Desk>) -> mlua::Error {
    let stopped_at = &mut *desk.stopped_at.borrow_mut();
    if stopped_at.is_none() {
        let (source, line) = thrown::place(lua, 0);
        *stopped_at = source.zip(line);
    }
    stop(lua, desk, desk.abort.get().unwrap_or(Abort::Failed))
}
