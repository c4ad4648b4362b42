//! A state without the limit of its memory, while the server brings values into it.
//!
//! As long as an allocation of Lua may be refused, the binding makes each value in a protected call of its own, which costs
//! more than most of the values. Of values that come from outside, the server sees how much they take as they are made: so
//! it lifts the limit for that time, and asks value by value.
//!
//! Without the limit nothing catches an error of Lua. The callers use no key that Lua refuses: no nil, and no number that
//! is none. A table with more fields than Lua counts takes more bytes than [`MEMORY_MAX`], which bounds the limit.

use mlua::{Error, Lua};

use super::desk::Desk;

/// Bytes of an element of an array.
pub(super) const SLOT: usize = 16;

/// The most memory that the limit may allow, in bytes: 2^26 fields of a table, which Lua refuses to exceed, take more.
pub(crate) const MEMORY_MAX: usize = 2 << 30;

/// The time without the limit.
pub(super) struct Lifted<'a> {
    lua: &'a Lua,
    memory_max: usize,
}

impl<'a> Lifted<'a> {
    /// Lifts the limit, until this is dropped.
    pub(super) fn new(lua: &'a Lua, desk: &Desk) -> mlua::Result<Self> {
        lua.set_memory_limit(0)?;
        Ok(Self { lua, memory_max: desk.memory_max.get() })
    }

    /// Fails if the state has more bytes than it may.
    #[inline]
    pub(super) fn check(&self) -> mlua::Result<()> {
        self.check_room(0)
    }

    /// Fails if the state would have more bytes than it may, with so many that are added.
    #[inline]
    pub(super) fn check_room(&self, bytes: usize) -> mlua::Result<()> {
        match self.lua.used_memory().saturating_add(bytes) > self.memory_max {
            true => Err(Error::MemoryError("not enough memory".to_owned())),
            false => Ok(()),
        }
    }
}

impl Drop for Lifted<'_> {
    fn drop(&mut self) {
        // The state has a limit, so that it can be set.
        let _ = self.lua.set_memory_limit(self.memory_max);
    }
}
