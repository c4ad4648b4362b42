//! Scripts and functions in Lua 5.1.
//!
//! A script runs on the thread that has its keys, from its first instruction to its last while no other command
//! executes there: it is atomic, and its changes gather in the store's overlay until it ends. Then they become one
//! durable batch; an error undoes them all, unless the configuration keeps them as Redis does.
//!
//! EVAL takes this path. [`registry`] has the scripts and libraries of the server, which all threads share; `state` has
//! the Lua state of a thread, made at its first script, whose sandbox is `bootstrap.lua`; [`run()`] puts KEYS and ARGV
//! into it and calls the script. `redis.call` (`api`) lays the words of a command on the `desk` and rings a bell, and
//! the bell's function, which borrows the service for this one run, executes the command as a client's would be
//! (`executor`). `to_lua` makes values of the reply's bytes, and `from_lua` makes the reply of the script's result.
//!
//! A hook looks at the clock every few thousand instructions (`watch`). From the first look on, others know that the script
//! is [`running`], and may kill it; beyond `busy-reply-threshold` they are told that it is busy.
//!
//! A script that names a key whose partition is on another thread, and has not declared it, is rolled back and runs
//! again once all partitions are here: it has had no effect by then.

mod api;
mod bit;
mod cjson;
mod cmsgpack;
mod desk;
pub(crate) mod dump;
mod executor;
pub(crate) mod flags;
mod from_lua;
pub(crate) mod libraries;
pub(crate) mod library;
pub(crate) mod lifted;
mod limits;
mod number;
mod pattern;
mod random;
pub(crate) mod registry;
pub(crate) mod run;
pub(crate) mod running;
pub(crate) mod settings;
pub(crate) mod sha1;
mod state;
mod structs;
mod text;
mod thrown;
mod to_lua;
mod watch;

pub(crate) use registry::Registry;
pub(crate) use run::run;
pub(crate) use state::inspect;
