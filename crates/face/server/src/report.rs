//! Reports of the state of a thread, for the commands about the whole server.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Instant;

use crate::acl::User;
use crate::client::Client;
use crate::command_stats::Calls;
use crate::counters::Counters;

/// The report of a thread on itself.
#[derive(Default)]
pub(crate) struct Report {
    /// The thread.
    pub(crate) thread: usize,
    pub(crate) counters: Counters,
    /// The statistics of the commands that it has executed or refused, if they are requested.
    pub(crate) commands: BTreeMap<&'static str, Calls>,
    /// How often it replied with an error, by its code, if that is requested.
    pub(crate) errors: BTreeMap<Box<[u8]>, u64>,
    /// Its clients, if they are requested.
    pub(crate) clients: Vec<Line>,
    /// Its clients that are subscribed to something.
    pub(crate) subscribers: usize,
    /// The most that a client has sent and is not executed, in bytes.
    pub(crate) input_len_max: usize,
    /// The most that waits for a client to read it, in bytes.
    pub(crate) output_len_max: usize,
    /// Memory of the clients' requests and replies, in bytes, and of results that are computed for them.
    pub(crate) buffer_bytes: usize,
    /// By database: keys that expire, and the sum of their deadlines.
    pub(crate) expiring: Vec<(usize, u128)>,
    /// By database: hashes with fields that expire.
    pub(crate) expiring_hashes: Vec<usize>,
    pub(crate) expired: u64,
    /// Fields of hashes that expired.
    pub(crate) expired_fields: u64,
    pub(crate) changes: u64,
    /// The changes since a client last had all writes made durable.
    pub(crate) changes_since_save: u64,
    /// Clients whose request waits for the end of a pause.
    pub(crate) blocked: usize,
    /// When its writes were last durable, in milliseconds since 1970.
    pub(crate) synced_ms: u64,
}

/// A client as others see it.
#[derive(Clone)]
pub(crate) struct Line {
    pub(crate) id: u64,
    pub(crate) addr: SocketAddr,
    pub(crate) laddr: SocketAddr,
    pub(crate) user: Arc<User>,
    /// Whether the client waits for keys.
    pub(crate) waits: bool,
    /// Whether it is subscribed to something.
    pub(crate) is_subscriber: bool,
    /// The line of CLIENT LIST.
    pub(crate) text: String,
}

/// The parts of a report beside numbers.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Details {
    /// The list of clients.
    pub(crate) clients: bool,
    /// The statistics of commands.
    pub(crate) commands: bool,
}

impl Report {
    /// Adds the report of another thread.
    pub(crate) fn add(&mut self, other: &Self) {
        self.counters.add(&other.counters);
        for (name, calls) in &other.commands {
            self.commands.entry(name).or_default().add(calls);
        }
        for (code, count) in &other.errors {
            *self.errors.entry(code.clone()).or_default() += count;
        }
        self.subscribers += other.subscribers;
        self.input_len_max = self.input_len_max.max(other.input_len_max);
        self.output_len_max = self.output_len_max.max(other.output_len_max);
        self.buffer_bytes += other.buffer_bytes;
        for (mine, others) in self.expiring.iter_mut().zip(&other.expiring) {
            *mine = (mine.0 + others.0, mine.1 + others.1);
        }
        for (mine, others) in self.expiring_hashes.iter_mut().zip(&other.expiring_hashes) {
            *mine += others;
        }
        self.expired += other.expired;
        self.expired_fields += other.expired_fields;
        self.changes += other.changes;
        self.changes_since_save += other.changes_since_save;
        self.blocked += other.blocked;
        self.synced_ms = self.synced_ms.max(other.synced_ms);
    }
}

impl Line {
    /// The line of a client at this time.
    pub(crate) fn of(client: &Client, now: Instant) -> Self {
        let text = client.describe(now) + "\n";
        Self {
            id: client.id,
            addr: client.addr,
            laddr: client.laddr,
            user: Arc::clone(client.login.user()),
            waits: client.wait.is_some(),
            is_subscriber: client.is_subscriber(),
            text,
        }
    }
}
