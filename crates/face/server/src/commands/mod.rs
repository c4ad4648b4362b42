//! The commands.
//!
//! [`table`] lists all of them: requests are looked up in it, and COMMAND lists it. The other files have their
//! handlers, a family each. A handler gets a [`Call`](crate::call::Call), and either writes a reply or returns the
//! reason for a refusal.

mod admin;
mod backup;
mod client;
mod cluster;
mod command;
mod config;
pub(crate) mod connection;
mod counters;
mod expiry;
mod functions;
mod info;
mod keys;
mod latency;
mod lcs;
mod memory;
mod object;
mod options;
mod scan;
pub(crate) mod scripting;
mod slowlog;
mod strings;
mod table;
pub(crate) mod transactions;

pub(crate) use table::{Command, Group, all, find, flags, number};
