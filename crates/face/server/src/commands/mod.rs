//! The commands.
//!
//! [`table`] lists all of them: it is what requests are looked up in, and what COMMAND tells. The
//! other files have their handlers, a family each. A handler gets a [`Call`](crate::call::Call), and
//! either writes a reply or returns why it did nothing.

mod admin;
mod backup;
mod client;
mod cluster;
mod command;
mod config;
mod connection;
mod counters;
mod expiry;
mod info;
mod keys;
mod latency;
mod lcs;
mod memory;
mod object;
mod options;
mod scan;
mod slowlog;
mod strings;
mod table;
pub(crate) mod transactions;

pub(crate) use table::{Command, Group, all, find, flags, number};
