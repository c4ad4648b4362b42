//! The file with a server's settings, in the syntax of `redis.conf`.
//!
//! `lines` reads it, and the files that it includes; `take` takes each line over into the [`crate::Config`] of a server
//! that is about to start, by the same code as CONFIG SET; `rewrite` is CONFIG REWRITE.

mod lines;
mod no_effect;
mod rewrite;
mod take;

pub(crate) use rewrite::{Change, Value, rewrite};
