//! The state of a client, apart from its socket.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use crate::acl::Login;
use crate::address::Address;
use crate::backup::Backup;
use crate::client_memory::ClientMemory;
use crate::commands::Command;
use crate::migration::Migration;
use crate::pubsub::{Kind, Subscriptions};
use crate::reply::Protocol;
use crate::store::Watch;
use crate::tracking::{Mode, Tracking};
use crate::transaction::Queue;
use crate::wait::Wait;

/// A connected client.
#[derive(Debug)]
pub(crate) struct Client {
    pub(crate) id: u64,
    /// The place of its connection.
    pub(crate) place: usize,
    pub(crate) addr: Address,
    pub(crate) laddr: Address,
    /// The socket's number in the operating system.
    pub(crate) fd: i32,
    pub(crate) name: String,
    pub(crate) lib_name: String,
    pub(crate) lib_version: String,
    /// The selected database.
    pub(crate) db: usize,
    pub(crate) protocol: Protocol,
    pub(crate) authenticated: bool,
    pub(crate) login: Login,
    /// The commands since MULTI.
    pub(crate) queue: Option<Queue>,
    pub(crate) watches: Vec<Watch>,
    /// Bytes that the watches take.
    pub(crate) watches_len: usize,
    /// The wait of the command at the front.
    pub(crate) wait: Option<Wait>,
    /// Its subscriptions, if it has any.
    pub(crate) subscriptions: Option<Box<Subscriptions>>,
    /// It gets the commands of all clients.
    pub(crate) is_monitor: bool,
    /// How it is told of changes, if it is.
    pub(crate) tracking: Option<Box<Tracking>>,
    /// The number of the client whose requests it sends: its own, or that of the client for which it stands.
    pub(crate) acts_for: u64,
    /// The number of the first post of its thread that it may lack.
    pub(crate) next_post: u64,
    /// The backup that it takes.
    pub(crate) backup: Option<Backup>,
    /// By partition: the position up to which it has read changes, and those behind it.
    pub(crate) changes: BTreeMap<usize, (u64, halite::Changes)>,
    /// The migration that its request at the front waits for.
    pub(crate) migration: Option<Migration>,
    pub(crate) replies: Replies,
    /// Its request has been rolled back, because it needs partitions that were not here.
    pub(crate) needs_all_parts: bool,
    /// When the script began, since 1970, in which it stands for a client.
    pub(crate) script_began: Option<Duration>,
    pub(crate) no_evict: bool,
    /// Its commands leave the clocks of keys as they are.
    pub(crate) no_touch: bool,
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

    pub(crate) fn new(id: u64, addr: Address, laddr: Address, fd: i32, now: Instant) -> Self {
        Self {
            id,
            place: 0,
            addr,
            laddr,
            fd,
            name: String::new(),
            lib_name: String::new(),
            lib_version: String::new(),
            db: 0,
            protocol: Protocol::default(),
            authenticated: false,
            login: Login::default(),
            queue: None,
            watches: Vec::new(),
            watches_len: 0,
            wait: None,
            subscriptions: None,
            is_monitor: false,
            tracking: None,
            acts_for: id,
            next_post: 0,
            backup: None,
            changes: BTreeMap::new(),
            migration: None,
            replies: Replies::All,
            needs_all_parts: false,
            script_began: None,
            no_evict: false,
            no_touch: false,
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
        let subscriptions = self.subscriptions.as_ref().map_or(0, |all| all.byte_len());
        let tracking = self.tracking.as_ref();
        let tracking = tracking.map_or(0, |all| size_of::<Tracking>() + all.prefixes.byte_len());
        let kept = queue + self.watches_len + names + subscriptions + tracking;
        let all = size_of::<Self>() + connection + kept;
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

    /// Whether it is subscribed to any channel or pattern.
    #[inline]
    pub(crate) fn is_subscriber(&self) -> bool {
        self.subscriptions.is_some()
    }

    /// Whether it may be silent for as long as it likes: it waits for messages or commands.
    pub(crate) fn only_listens(&self) -> bool {
        self.is_subscriber() || self.is_monitor
    }

    /// Whether it may get posts.
    #[inline]
    pub(crate) fn gets_posts(&self) -> bool {
        self.is_subscriber() || self.is_monitor || self.tracking.is_some()
    }

    /// Whether messages are still written to it.
    #[inline]
    pub(crate) fn takes_posts(&self) -> bool {
        !self.killed && !self.closing
    }

    /// Whether the keys of its next command are remembered, if that reads some.
    #[inline]
    pub(crate) fn remembers_reads(&self) -> bool {
        self.tracking.as_ref().is_some_and(|tracking| tracking.remembers_reads())
    }

    /// The client that is told of changes instead of it; 0: none; -1: it is not told of any.
    pub(crate) fn redirect(&self) -> i64 {
        self.tracking.as_ref().map_or(-1, |tracking| tracking.redirect as i64)
    }

    /// Notes that a command was executed or refused, for CLIENT CACHING.
    #[inline]
    pub(crate) fn note_executed(&mut self, command: Option<&Command>) {
        if let Some(tracking) = &mut self.tracking
            && self.queue.is_none()
        {
            tracking.note(command);
        }
    }

    /// Whether its migration, or its backup, has nothing for it yet.
    pub(crate) fn awaits(&self, of_migration: bool) -> bool {
        match of_migration {
            true => self.migration.as_ref().is_some_and(|migration| !migration.is_ready()),
            false => self.backup.as_ref().is_some_and(|backup| !backup.is_ready()),
        }
    }

    /// Whether it awaits neither.
    pub(crate) fn has_what_it_awaits(&self) -> bool {
        !self.awaits(true) && !self.awaits(false)
    }

    /// The line of CLIENT LIST.
    pub(crate) fn describe(&self, now: Instant) -> String {
        self.describe_as(now, self.last_command)
    }

    /// The line of CLIENT LIST, with this command as the last one.
    pub(crate) fn describe_as(&self, now: Instant, command: &str) -> String {
        let mut flags = String::new();
        if self.is_monitor {
            flags.push('O');
        }
        if self.is_subscriber() {
            flags.push('P');
        }
        if self.queue.is_some() {
            flags.push('x');
        }
        if self.wait.is_some() {
            flags.push('b');
        }
        if let Some(tracking) = &self.tracking {
            flags.push('t');
            flags.extend(tracking.is_broken.then_some('R'));
            flags.extend((tracking.mode == Mode::Broadcast).then_some('B'));
        }
        if self.closing {
            flags.push('c');
        }
        if self.addr.is_unix() {
            flags.push('U');
        }
        if self.no_evict {
            flags.push('e');
        }
        if self.no_touch {
            flags.push('T');
        }
        if flags.is_empty() {
            flags.push('N');
        }
        let (queued, queued_bytes) =
            self.queue.as_ref().map_or((-1, 0), |queue| (queue.len() as i64, queue.byte_len()));
        let subscribed =
            |kind| self.subscriptions.as_ref().map_or(0, |subscriptions| subscriptions.len(kind));
        let buffers = self.buffers;
        let total = buffers.memory;
        let omem = buffers.outputs_capacity;
        format!(
            "id={} addr={} laddr={} fd={} name={} age={} idle={} flags={flags} db={} sub={} psub={} \
             ssub={} multi={queued} watch={} qbuf={} qbuf-free={} argv-mem={} multi-mem={queued_bytes} \
             rbs={} rbp={} obl={} oll={} omem={omem} tot-mem={total} events={} cmd={} user={} \
             redir={} resp={} lib-name={} lib-ver={}",
            self.id,
            self.addr,
            self.laddr,
            self.fd,
            self.name,
            now.saturating_duration_since(self.connected_at).as_secs(),
            now.saturating_duration_since(self.active_at).as_secs(),
            self.db,
            subscribed(Kind::Channel),
            subscribed(Kind::Pattern),
            subscribed(Kind::Shard),
            self.watches.len(),
            buffers.query_len,
            buffers.query_free,
            buffers.request_len,
            buffers.output_capacity,
            buffers.output_len,
            buffers.output_len,
            buffers.outputs,
            if buffers.output_len > 0 { "rw" } else { "r" },
            command,
            String::from_utf8_lossy(&self.login.user().name),
            self.redirect(),
            self.protocol.number(),
            self.lib_name,
            self.lib_version,
        )
    }
}
