//! The hook that Lua calls while a script runs, every so many instructions.
//!
//! A script that is stopped gets an error at every further instruction, so that loops around `pcall` end as well.
//! Coroutines have the hook of the one that made them.

use std::rc::Rc;

use mlua::debug::Debug;
use mlua::{HookTriggers, Lua, VmState};

use super::desk::{Abort, Desk, Errand};
use super::thrown::Thrown;

/// Instructions between two looks at the clock.
const STEP: u32 = 5000;

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
    lua.set_global_hook(HookTriggers::new().every_nth_instruction(step), move |lua, frame| {
        look(lua, &desk, frame)
    })
}

fn look(lua: &Lua, desk: &Rc<Desk>, frame: &Debug<'_>) -> mlua::Result<VmState> {
    if let Some(why) = desk.abort.get() {
        return Err(stop(lua, desk, why));
    }
    let passed = desk.began.get().elapsed();
    if passed >= desk.next_look.get() {
        if !desk.ring(Errand::LookAfter)? {
            // The code of a library.
            desk.abort.set(Some(Abort::TooLong));
        }
        if let Some(why) = desk.abort.get() {
            let source = frame.source().source.map(|source| source.into_owned());
            desk.stopped_at.replace(source.zip(frame.current_line()));
            return Err(stop(lua, desk, why));
        }
    }
    Ok(VmState::Continue)
}
