//! A server for Halite that Redis clients talk to.
//!
//! [`Server::bind`] listens, [`Server::run`] serves until [`Handle::shutdown`]. Each partition of the
//! database belongs to one thread, so a command is atomic and a transaction needs no lock.
//!
//! A request takes this path. `event_loop` sees that a socket is ready and reads from it into the `buffer` of its
//! `connection`; `execution` has [`resp`] find the request in it, in place; `admission` looks its command up in
//! `commands::table` and admits or refuses it, once; `shard::route` decides where it is executed, and `dispatch` performs
//! it there: the command's handler, in a file of its family under `commands`, works on the `store`, which keeps each
//! database in a key space of the Halite database below; `reply` writes the answer. When all requests that have arrived
//! are executed, the event loop makes their writes durable, together, and only then sends the answers.
//!
//! A message of PUBLISH, and whatever else a client gets without asking, takes the path that `pubsub` describes.
//! EVAL and FCALL run a script, whose commands take the way from `commands::table` on again: `script`.
//!
//! With one thread every place is here. With several, a request may travel, in a packet through the rings between the
//! threads, to the thread that has its keys. A command on keys of several threads borrows their parts of the store
//! meanwhile. `answers` keeps the replies of a connection in order.
#![forbid(unsafe_code)]

mod acl;
mod address;
mod admission;
mod ahead;
mod answer;
mod answers;
mod arrival;
mod backup;
mod board;
mod buffer;
mod call;
mod client;
mod client_memory;
mod clients;
mod clock;
mod collection;
mod command_stats;
mod commands;
mod config;
mod config_file;
mod connection;
mod counted_tree;
mod counters;
mod cursors;
mod data_bytes;
mod databases;
mod debug_command;
mod delivery;
mod dispatch;
mod double;
mod ending;
mod error;
mod event_loop;
mod eviction;
mod eviction_policy;
mod execution;
mod failure;
mod flow;
mod geohash;
mod glob;
mod histogram;
mod hyperloglog;
pub mod in_process;
mod inline_limits;
mod key_counts;
mod keys;
mod latency;
mod listener;
mod loader;
mod loading;
mod lock;
mod long_double;
mod metrics;
mod migration;
mod monitor;
mod notifications;
mod number;
mod order_ends;
mod output;
mod partition_set;
mod pause;
mod pressure;
mod process;
mod pubsub;
mod quoted_words;
mod random;
mod rdb;
mod reply;
mod report;
pub mod resp;
mod script;
mod secrets;
mod server;
mod service;
mod settings;
mod shard;
mod shared;
mod slowlog;
mod sockets;
mod store;
pub mod stored;
mod stream_id;
mod stream_state;
mod sync_policy;
mod tls;
mod tracking;
mod transaction;
mod transport;
mod wait;
mod waiting;

pub use acl::listed_rules;
pub use config::{Config, Limits, OutputLimits};
pub use databases::database_places;
pub use debug_command::DebugCommand;
pub use error::Error;
pub use keys::Keys;
pub use listener::raise_descriptor_limit;
pub use server::{Handle, Server};
pub use sockets::Sockets;
pub use store::{Census, census};
pub use sync_policy::SyncPolicy;
pub use tls::{ClientCertificates, TlsOptions, TlsProtocols};
