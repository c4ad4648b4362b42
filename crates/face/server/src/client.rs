//! The state of a client, apart from its socket.

use std::net::SocketAddr;
use std::time::Instant;

use crate::backup::Backup;
use crate::client_memory::ClientMemory;
use crate::reply::Protocol;
use crate::store::Watch;
use crate::transaction::Queue;

/// A connected client.
#[derive(Debug)]
pub(crate) struct Client {
    pub(crate) id: u64,
    pub(crate) addr: SocketAddr,
    pub(crate) laddr: SocketAddr,
    /// The socket's number in the operating system.
    pub(crate) fd: i32,
    pub(crate) name: String,
    pub(crate) lib_name: String,
    pub(crate) lib_version: String,
    /// The selected database.
    pub(crate) db: usize,
    pub(crate) protocol: Protocol,
    pub(crate) authenticated: bool,
    /// The commands since MULTI.
    pub(crate) queue: Option<Queue>,
    pub(crate) watches: Vec<Watch>,
    /// Bytes that the watches take.
    pub(crate) watches_len: usize,
    /// The backup that it takes.
    pub(crate) backup: Option<Backup>,
    pub(crate) replies: Replies,
    /// Its request has been rolled back, because it needs partitions that were not here.
    pub(crate) needs_all_parts: bool,
    pub(crate) no_evict: bool,
    /// The connection closes once its replies are sent.
    pub(crate) closing: bool,
    /// The connection closes at once.
    pub(crate) killed: bool,
    pub(crate) connected_at: Instant,
    /// When it connected, or said RESET.
    pub(crate) stranger_since: Instant,
    pub(crate) active_at: Instant,
    /// Since when more replies wait than the soft limit of the output says.
    pub(crate) output_long_since: Option<Instant>,
    /// The name of the last command.
    pub(crate) last_command: &'static str,
    pub(crate) buffers: Buffers,
}

/// Which replies a client wants.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Replies {
    All,
    None,
    /// No reply to the next command.
    SkipNext,
    /// No reply to this command.
    SkipThis,
}

impl Replies {
    /// The state once the next request is on its way.
    pub(crate) fn after_request(self) -> Self {
        match self {
            // The request was the one to skip.
            Self::SkipNext | Self::SkipThis => Self::All,
            kept => kept,
        }
    }
}

/// The sizes of a connection's buffers, in bytes.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Buffers {
    pub(crate) query_len: usize,
    pub(crate) query_free: usize,
    pub(crate) request_len: usize,
    /// Replies that have not left, wherever they wait.
    pub(crate) output_len: usize,
    /// The buffer to which replies are written.
    pub(crate) output_capacity: usize,
    /// Buffers of replies before that.
    pub(crate) outputs: usize,
    /// Bytes of these buffers, and of the replies that wait for others before them.
    pub(crate) outputs_capacity: usize,
    /// All that the client was last said to take.
    pub(crate) memory: usize,
    /// Whether that was counted as memory of clients that are not evicted.
    is_kept: bool,
}

impl Client {
    /// The id of the client that represents those of other threads.
    pub(crate) const GUEST: u64 = 0;

    pub(crate) fn new(id: u64, addr: SocketAddr, laddr: SocketAddr, fd: i32, now: Instant) -> Self {
        Self {
            id,
            addr,
            laddr,
            fd,
            name: String::new(),
            lib_name: String::new(),
            lib_version: String::new(),
            db: 0,
            protocol: Protocol::default(),
            authenticated: false,
            queue: None,
            watches: Vec::new(),
            watches_len: 0,
            backup: None,
            replies: Replies::All,
            needs_all_parts: false,
            no_evict: false,
            closing: false,
            killed: false,
            connected_at: now,
            stranger_since: now,
            active_at: now,
            output_long_since: None,
            last_command: "NULL",
            buffers: Buffers::default(),
        }
    }

    /// Notes the memory that the client takes, of which its connection takes so many bytes.
    #[inline]
    pub(crate) fn account(&mut self, connection: usize, memory: &ClientMemory, thread: usize) {
        let queue = self.queue.as_ref().map_or(0, Queue::byte_len);
        let names = self.name.len() + self.lib_name.len() + self.lib_version.len();
        let all = size_of::<Self>() + connection + queue + self.watches_len + names;
        if self.no_evict != self.buffers.is_kept {
            self.forget(memory, thread);
            self.buffers.is_kept = self.no_evict;
        }
        memory.change(thread, self.buffers.is_kept, self.buffers.memory, all);
        self.buffers.memory = all;
    }

    /// Notes that the client takes no memory any more.
    pub(crate) fn forget(&mut self, memory: &ClientMemory, thread: usize) {
        memory.change(thread, self.buffers.is_kept, self.buffers.memory, 0);
        self.buffers.memory = 0;
    }

    /// The line of CLIENT LIST.
    pub(crate) fn describe(&self, now: Instant) -> String {
        let mut flags = String::new();
        if self.queue.is_some() {
            flags.push('x');
        }
        if self.queue.as_ref().is_some_and(Queue::is_aborted) {
            flags.push('d');
        }
        if self.closing {
            flags.push('c');
        }
        if self.no_evict {
            flags.push('e');
        }
        if flags.is_empty() {
            flags.push('N');
        }
        let (queued, queued_bytes) =
            self.queue.as_ref().map_or((-1, 0), |queue| (queue.len() as i64, queue.byte_len()));
        let buffers = self.buffers;
        let total = buffers.memory;
        let omem = buffers.outputs_capacity;
        format!(
            "id={} addr={} laddr={} fd={} name={} age={} idle={} flags={flags} db={} sub=0 psub=0 \
             ssub=0 multi={queued} qbuf={} qbuf-free={} argv-mem={} multi-mem={queued_bytes} \
             rbs={} rbp={} obl={} oll={} omem={omem} tot-mem={total} events={} cmd={} user=default \
             redir=-1 resp={} lib-name={} lib-ver={}",
            self.id,
            self.addr,
            self.laddr,
            self.fd,
            self.name,
            now.saturating_duration_since(self.connected_at).as_secs(),
            now.saturating_duration_since(self.active_at).as_secs(),
            self.db,
            buffers.query_len,
            buffers.query_free,
            buffers.request_len,
            buffers.output_capacity,
            buffers.output_len,
            buffers.output_len,
            buffers.outputs,
            if buffers.output_len > 0 { "rw" } else { "r" },
            self.last_command,
            self.protocol.number(),
            self.lib_name,
            self.lib_version,
        )
    }
}
