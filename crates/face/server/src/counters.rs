//! The counts of a thread's work, for INFO and the metrics, which add up those of all threads.

/// Counters since the start, or since CONFIG RESETSTAT.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Counters {
    pub(crate) connections: u64,
    pub(crate) connections_rejected: u64,
    pub(crate) commands: u64,
    pub(crate) errors: u64,
    pub(crate) input_bytes: u64,
    pub(crate) output_bytes: u64,
    /// How often something was read from a client, and sent to one.
    pub(crate) reads: u64,
    pub(crate) writes: u64,
    pub(crate) key_hits: u64,
    pub(crate) key_misses: u64,
    pub(crate) syncs: u64,
    pub(crate) query_limit_disconnections: u64,
    pub(crate) output_limit_disconnections: u64,
    /// Clients that were disconnected because all together took too much memory.
    pub(crate) evicted_clients: u64,
    /// Expired keys that do not count any more.
    pub(crate) expired_before: u64,
    /// Expired fields of hashes that do not count any more.
    pub(crate) expired_fields_before: u64,
    /// Evicted keys that do not count any more.
    pub(crate) evicted_before: u64,
    /// Requests that other threads executed for clients of this one.
    pub(crate) requests_forwarded: u64,
    /// Commands that borrowed parts of other threads, or asked them for reports.
    pub(crate) cross_shard_operations: u64,
    /// Parts that were lent to other threads.
    pub(crate) parts_lent: u64,
    /// Messages that were sent to other threads.
    pub(crate) messages_sent: u64,
    /// Keys that FLUSHDB ASYNC and FLUSHALL ASYNC removed.
    pub(crate) keys_flushed_async: u64,
}

impl Counters {
    /// Counts a read that found its key, or did not.
    #[inline]
    pub(crate) fn note_lookup(&mut self, found: bool) {
        match found {
            true => self.key_hits += 1,
            false => self.key_misses += 1,
        }
    }

    /// Notes that so many bytes of a client's requests were read.
    #[inline]
    pub(crate) fn note_read(&mut self, len: usize) {
        self.input_bytes += len as u64;
        self.reads += u64::from(len > 0);
    }

    /// Notes that so many bytes of a client's replies were sent.
    #[inline]
    pub(crate) fn note_sent(&mut self, len: usize) {
        self.output_bytes += len as u64;
        self.writes += u64::from(len > 0);
    }

    /// Adds those of another thread.
    pub(crate) fn add(&mut self, other: &Self) {
        self.connections += other.connections;
        self.connections_rejected += other.connections_rejected;
        self.commands += other.commands;
        self.errors += other.errors;
        self.input_bytes += other.input_bytes;
        self.output_bytes += other.output_bytes;
        self.reads += other.reads;
        self.writes += other.writes;
        self.key_hits += other.key_hits;
        self.key_misses += other.key_misses;
        self.syncs += other.syncs;
        self.query_limit_disconnections += other.query_limit_disconnections;
        self.output_limit_disconnections += other.output_limit_disconnections;
        self.evicted_clients += other.evicted_clients;
        self.requests_forwarded += other.requests_forwarded;
        self.cross_shard_operations += other.cross_shard_operations;
        self.parts_lent += other.parts_lent;
        self.messages_sent += other.messages_sent;
        self.keys_flushed_async += other.keys_flushed_async;
    }
}
