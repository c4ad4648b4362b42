//! The server's promises, over TCP.

#[path = "../common/mod.rs"]
#[macro_use]
mod common;
#[path = "../common/requests.rs"]
mod requests;

mod acl;
mod backup;
mod bitmaps;
mod blocking;
mod changes;
mod client_memory;
mod collection_events;
mod collections;
mod command_time;
mod compatibility;
mod connection;
mod dump;
mod ending;
mod eviction;
mod expiry;
mod failed_sync;
mod fields;
mod geo;
mod hashes;
mod hostile_scripts;
mod hyperloglogs;
mod keys;
mod limits;
mod linearizability;
mod lists;
mod loading;
mod monitor;
mod notifications;
mod operations;
mod pipelines;
mod protocol;
mod pubsub;
mod random_requests;
mod readers;
mod scan;
mod scripting;
mod sets;
mod shutdown;
mod sockets;
mod sort;
mod sorted_sets;
mod stored_form;
mod streams;
mod strings;
mod threads;
mod tls;
mod tracking;
mod transactions;
mod wrong_input;
