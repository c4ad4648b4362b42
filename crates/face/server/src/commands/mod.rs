//! The commands.
//!
//! [`table`] lists all of them: requests are looked up in it, and COMMAND lists it. The other files have their
//! handlers, a family each. A handler gets a [`Call`](crate::call::Call), and either writes a reply or returns the
//! reason for a refusal.

mod admin;
mod backup;
mod bitmap;
mod client;
mod cluster;
mod command;
mod condition;
mod config;
mod connection;
mod counters;
mod debug;
mod digest;
mod expiry;
mod hyperloglog;
mod increx;
mod info;
mod key_specs;
mod keys;
mod latency;
mod lcs;
mod lolwut;
mod memory;
mod object;
mod options;
mod replication;
mod scan;
mod slowlog;
mod strings;
mod table;
mod tips;
pub(crate) mod transactions;

pub(crate) use table::{Command, Group, all, find, flags, number};
