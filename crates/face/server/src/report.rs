//! Reports of the state of a thread, for the commands about the whole server.

use std::sync::Arc;
use std::time::Instant;

use crate::acl::User;
use crate::address::Address;
use crate::client::Client;
use crate::counters::Counters;
use crate::flow::Flow;

/// The report of a thread on itself.
#[derive(Default)]
pub(crate) struct Report {
    /// The thread.
    pub(crate) thread: usize,
    pub(crate) counters: Counters,
    /// How much it does a second.
    pub(crate) flow: Flow,
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
    /// Keys that were evicted.
    pub(crate) evicted: u64,
    /// Bytes of memory that is known of keys.
    pub(crate) state_bytes: usize,
    pub(crate) changes: u64,
    /// The changes since a client last had all writes made durable.
    pub(crate) changes_since_save: u64,
    /// Clients whose request waits for the end of a pause, or for keys.
    pub(crate) blocked: usize,
    /// Clients that wait for keys until some time.
    pub(crate) timed: usize,
    /// Clients that watch keys.
    pub(crate) watching: usize,
    /// Keys that they watch, each counted as often as it is watched.
    pub(crate) watches: usize,
    /// Keys for which clients wait.
    pub(crate) waited_keys: usize,
    /// Those of which clients get to know that they are gone.
    pub(crate) waited_keys_or_none: usize,
    /// When its writes were last durable, in milliseconds since 1970.
    pub(crate) synced_ms: u64,
}

/// A client as others see it.
#[derive(Clone)]
pub(crate) struct Line {
    pub(crate) id: u64,
    pub(crate) addr: Address,
    pub(crate) laddr: Address,
    pub(crate) user: Arc<User>,
    /// Seconds since it connected.
    pub(crate) age_s: u64,
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
}

impl Report {
    /// Adds the report of another thread.
    pub(crate) fn add(&mut self, other: &Self) {
        self.counters.add(&other.counters);
        self.flow.add(&other.flow);
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
        self.evicted += other.evicted;
        self.state_bytes += other.state_bytes;
        self.changes += other.changes;
        self.changes_since_save += other.changes_since_save;
        self.blocked += other.blocked;
        self.timed += other.timed;
        self.watching += other.watching;
        self.watches += other.watches;
        self.waited_keys += other.waited_keys;
        self.waited_keys_or_none += other.waited_keys_or_none;
        self.synced_ms = self.synced_ms.max(other.synced_ms);
    }
}

impl Line {
    /// The line of a client at this time.
    pub(crate) fn of(client: &Client, now: Instant) -> Self {
        let text = client.describe(now) + "\n";
        Self {
            id: client.id,
            addr: client.addr.clone(),
            laddr: client.laddr.clone(),
            user: Arc::clone(client.login.user()),
            age_s: now.saturating_duration_since(client.connected_at).as_secs(),
            waits: client.wait.is_some(),
            is_subscriber: client.is_subscriber(),
            text,
        }
    }
}
