//! A server for Halite that Redis clients talk to.
//!
//! [`Server::bind`] listens, [`Server::run`] serves until [`Handle::shutdown`]. One thread does
//! everything, so a command is atomic and a transaction needs no lock.
//!
//! A request walks through it like this. `event_loop` sees that a socket is ready and reads from it
//! into the `buffer` of its `connection`; `execution` has [`resp`] find the request in it, in place; `dispatch`
//! looks its command up in `commands::table` and checks who may do what; the command's handler, in
//! a file of its family under `commands`, works on the `store`, which keeps each database in a key
//! space of the Halite database below; `reply` writes the answer. When all requests that have
//! arrived are executed, the event loop makes their writes durable, together, and only then sends
//! the answers.
#![forbid(unsafe_code)]

mod buffer;
mod call;
mod client;
mod clients;
mod commands;
mod config;
mod connection;
mod cursors;
mod dispatch;
mod error;
mod event_loop;
mod execution;
mod failure;
mod glob;
mod listener;
mod long_double;
mod natural;
mod number;
mod partition_set;
mod random;
mod reply;
pub mod resp;
mod server;
mod service;
mod settings;
mod store;
mod sync_policy;
mod transaction;

pub use config::{Config, Limits};
pub use error::Error;
pub use server::{Handle, Server};
pub use sync_policy::SyncPolicy;
