//! The space of the pool: collected ahead of time, reserved, and taken by a record.

use crate::{Durability, Engine, Op, Result};

/// An engine that lets its callers take part in the management of its space.
pub trait SpaceManagement: Engine {
    /// [`Engine::write`] for bookkeeping, such as when a key expires: small values that have to be written
    /// where other writes are refused for lack of room.
    ///
    /// A full store refuses, in this order: puts, bookkeeping, and batches of nothing but [`Op::Delete`]
    /// and [`Op::DeleteRange`], which give room back. Bookkeeping may use the room that puts must leave,
    /// except for the part that deletes need.
    ///
    /// # Errors
    /// As [`Engine::write`].
    fn write_bookkeeping(&self, ops: &[Op<'_>], durability: Durability) -> Result<()>;

    /// Does a little of the garbage collection that writes to a partition would have to do later. An idle
    /// caller calls it again as long as it returns true. It never makes the store grow.
    ///
    /// # Errors
    /// The errors of [`Engine::write`].
    fn collect_ahead(&self, partition: usize) -> Result<bool>;

    /// Bytes of the pool that a record with a key and a value of these lengths takes.
    fn space_of(&self, key_len: usize, value_len: usize) -> u64;
}
