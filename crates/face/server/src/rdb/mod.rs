//! Values of keys as Redis' files have them: for DUMP, RESTORE and MIGRATE, and for programs that bring such files in and out
//! of a database ([`crate::Keys`]).
//!
//! `reading` makes an [`halite_rdb::Value`] of what a key has, of any type, and `writing` puts one in the place of whatever a
//! key has; `stream` is the part of both that is about streams. The bytes are the library's.

mod reading;
mod stream;
mod writing;

pub(crate) use reading::{Budget, read};
pub(crate) use writing::{can_be_put, put, without_expired};
