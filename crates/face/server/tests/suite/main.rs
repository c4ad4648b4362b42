//! The server's promises, over TCP.

#[path = "../common/mod.rs"]
#[macro_use]
mod common;
#[path = "../common/requests.rs"]
mod requests;

mod backup;
mod client_memory;
mod command_time;
mod compatibility;
mod connection;
mod ending;
mod expiry;
mod failed_sync;
mod keys;
mod limits;
mod loading;
mod pipelines;
mod protocol;
mod random_requests;
mod scan;
mod scripting;
mod shutdown;
mod stored_form;
mod strings;
mod threads;
mod transactions;
mod wrong_input;
