//! The commands.
//!
//! [`table`] lists all of them: requests are looked up in it, and COMMAND lists it. [`definition`] says what a command is,
//! and [`key_positions`] which of its words are keys. The other files have their handlers, a family each. A handler gets a
//! [`Call`](crate::call::Call), and either writes a reply or returns the reason for a refusal.

mod acl;
mod admin;
mod backup;
mod bitmap;
mod blocking;
mod changes;
mod client;
mod cluster;
mod command;
mod condition;
pub(crate) mod config;
pub(crate) mod connection;
mod counters;
mod debug;
mod definition;
mod digest;
mod documentation;
mod dump;
mod expiry;
mod field_options;
mod fields;
pub(crate) mod flags;
mod functions;
mod geo;
mod geo_search;
mod hashes;
mod hyperloglog;
mod increx;
mod info;
mod key_positions;
mod key_specs;
mod keys;
mod latency;
mod lcs;
mod lists;
mod lolwut;
mod long_reply;
mod memory;
mod migrate;
pub(crate) mod monitor;
mod object;
mod options;
pub(crate) mod pubsub;
mod ranges;
mod replication;
mod scan;
pub(crate) mod scripting;
mod set_algebra;
mod sets;
mod slowlog;
mod sort;
mod sorted_sets;
mod streams;
mod strings;
mod table;
mod tips;
pub(crate) mod tracking;
pub(crate) mod transactions;

pub(crate) use definition::{Command, Group};
pub(crate) use key_positions::{Keys, MoreKeys};
pub(crate) use key_specs::key_access;
pub(crate) use sort::{reads_any_key, reads_patterns};
pub(crate) use table::{all, find, number};
