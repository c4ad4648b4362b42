//! The time and the memory of a script, as functions of Rust take them.
//!
//! The hook of the Lua state counts the instructions of scripts, and the state counts its own bytes: neither knows of
//! work and buffers outside. A function that can be made to work for long counts its steps here, and one that builds a
//! value elsewhere asks before the value is longer than the whole state may be.

use std::cell::Cell;
use std::rc::Rc;

use mlua::{Function, Lua, MultiValue};

use super::desk::Desk;
use super::lifted::Lifted;
use super::thrown::Thrown;
use super::watch;

/// Steps between two looks at the clock.
const STEPS: usize = 20_000;

/// A function for scripts, whose calls have limits.
pub(super) fn with_limits<R: mlua::IntoLuaMulti + 'static>(
    lua: &Lua,
    desk: &Rc<Desk>,
    function: fn(&Lua, &Limits<'_>, MultiValue) -> mlua::Result<R>,
) -> mlua::Result<Function> {
    let desk = Rc::clone(desk);
    lua.create_function(move |lua, args| function(lua, &Limits::new(lua, &desk), args))
}

/// The limits of one call.
pub(super) struct Limits<'a> {
    lua: &'a Lua,
    desk: &'a Rc<Desk>,
    steps: Cell<usize>,
}

impl<'a> Limits<'a> {
    pub(super) fn new(lua: &'a Lua, desk: &'a Rc<Desk>) -> Self {
        Self { lua, desk, steps: Cell::new(0) }
    }

    /// Lifts the limit of the state's memory, while a value is made of bytes.
    pub(super) fn lift(&self) -> mlua::Result<Lifted<'a>> {
        Lifted::new(self.lua, self.desk)
    }

    /// Counts steps; fails if the script must not go on.
    #[inline]
    pub(super) fn step(&self, steps: usize) -> mlua::Result<()> {
        let all = self.steps.get().saturating_add(steps);
        if all < STEPS {
            self.steps.set(all);
            return Ok(());
        }
        self.steps.set(0);
        watch::check(self.lua, self.desk)
    }

    /// Fails if a value of so many bytes can have no place in the state.
    #[inline]
    pub(super) fn check_len(&self, len: usize) -> mlua::Result<()> {
        match len > self.desk.memory_max.get() {
            true => Err(Thrown::Text(b"not enough memory".to_vec()).into()),
            false => Ok(()),
        }
    }
}
