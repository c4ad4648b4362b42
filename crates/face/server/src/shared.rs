//! The state that all threads share: settings, which are read often and seldom changed, and the end.
//!
//! Each thread has a copy of the settings, and checks for a newer version before it serves a connection. So a client
//! that has the reply to a change of a setting finds it changed on any thread.

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::thread::{self, JoinHandle};

use crate::acl::{Acl, AclLog};
use crate::arrival::Arrival;
use crate::board::Board;
use crate::client_memory::ClientMemory;
use crate::command_stats::AllStats;
use crate::data_bytes::DataBytes;
use crate::ending::Ending;
use crate::key_counts::KeyCounts;
use crate::latency::Latency;
use crate::loading::Loading;
use crate::lock::lock;
use crate::pause::Pause;
use crate::pressure::Pressure;
use crate::pubsub::{Inbox, Post, Registry};
use crate::script::Registry as Scripts;
use crate::settings::Settings;
use crate::shard::bell::Bell;
use crate::slowlog::Slowlog;

/// The state that all threads share.
pub(crate) struct Shared {
    common: Mutex<Common>,
    /// Counts the changes of `common`.
    version: AtomicU64,
    /// The end of the server.
    pub(crate) ending: Arc<Ending>,
    /// Some thread cannot go on: no thread waits for it.
    pub(crate) failed: AtomicBool,
    /// Why writes could not be made durable: they are refused since.
    pub(crate) sync_failure: OnceLock<Arc<halite::Error>>,
    /// Threads that still have work to finish before the end.
    pub(crate) unfinished: AtomicUsize,
    /// The number of the last wait for keys.
    waits: AtomicU64,
    /// Connected clients.
    pub(crate) clients: AtomicUsize,
    /// The memory of the clients.
    pub(crate) client_memory: ClientMemory,
    /// When a client last had everything made durable, in milliseconds since 1970.
    pub(crate) saved_ms: AtomicU64,
    /// The requests that were refused for the lack of rights.
    pub(crate) acl_log: Mutex<AclLog>,
    /// Is locked while the users are written to their file.
    pub(crate) acl_saving: Mutex<()>,
    /// The statistics of commands.
    pub(crate) commands: AllStats,
    /// Bytes that the process had in memory when the server started, beside what the store and the clients take.
    pub(crate) memory_of_program: AtomicU64,
    /// The memory that was used when it started, and the most that has been since, in bytes.
    pub(crate) memory_at_start: AtomicU64,
    pub(crate) memory_peak: AtomicU64,
    /// The commands that were slow.
    pub(crate) slowlog: Mutex<Slowlog>,
    /// The latency spikes.
    pub(crate) latency: Mutex<Latency>,
    pub(crate) board: Board,
    /// A backup is being taken.
    pub(crate) backs_up: AtomicBool,
    /// The thread of the last one.
    pub(crate) backup: Mutex<Option<JoinHandle<()>>>,
    /// Migrations that clients wait for.
    pub(crate) migrations: AtomicUsize,
    /// How many keys there are, as far as that takes long to find.
    pub(crate) key_counts: KeyCounts,
    /// The bytes of all records, where they are counted.
    pub(crate) data_bytes: Arc<DataBytes>,
    /// The subscriptions of all clients.
    pub(crate) registry: Arc<Registry>,
    /// By thread: connections that it serves from now on. A script that runs there for long takes them, too.
    arrivals: Vec<Mutex<Vec<Arrival>>>,
    /// By thread: the posts of other threads for its clients.
    inboxes: Vec<Inbox>,
    /// Which partitions are served.
    pub(crate) loading: Loading,
    /// The scripts and libraries.
    pub(crate) scripts: Scripts,
    /// The signals of evictions between threads.
    pub(crate) pressure: Pressure,
    bells: Arc<[Bell]>,
}

/// Settings that a client can change for all.
#[derive(Clone)]
pub(crate) struct Common {
    pub(crate) settings: Settings,
    /// The users.
    pub(crate) acl: Arc<Acl>,
    /// Clients wait.
    pub(crate) pause: Option<Pause>,
    /// Whether expired keys are removed in the background; if not, they are removed when a command accesses them.
    pub(crate) expires_actively: bool,
    /// How often the counters were set to zero.
    pub(crate) resets: u64,
    /// How often a client had everything made durable.
    pub(crate) saves: u64,
}

impl Shared {
    /// A number for a wait that begins.
    pub(crate) fn next_wait(&self) -> u64 {
        self.waits.fetch_add(1, Ordering::Relaxed) + 1
    }

    pub(crate) fn new(settings: Settings, bells: Arc<[Bell]>, loading: Loading) -> Self {
        let ending = Arc::new(Ending::new(settings.shutdown_grace));
        let acl = Arc::new(Acl::new(settings.requirepass.as_deref()));
        let common =
            Common { settings, acl, pause: None, expires_actively: true, resets: 0, saves: 0 };
        Self {
            common: Mutex::new(common),
            version: AtomicU64::new(0),
            ending,
            failed: AtomicBool::new(false),
            sync_failure: OnceLock::new(),
            unfinished: AtomicUsize::new(bells.len()),
            waits: AtomicU64::new(0),
            clients: AtomicUsize::new(0),
            client_memory: ClientMemory::new(bells.len()),
            saved_ms: AtomicU64::new(0),
            acl_log: Mutex::default(),
            acl_saving: Mutex::default(),
            commands: AllStats::new(bells.len()),
            memory_of_program: AtomicU64::new(0),
            memory_at_start: AtomicU64::new(0),
            memory_peak: AtomicU64::new(0),
            slowlog: Mutex::default(),
            latency: Mutex::default(),
            board: Board::new(bells.len()),
            backs_up: AtomicBool::new(false),
            backup: Mutex::default(),
            migrations: AtomicUsize::new(0),
            key_counts: KeyCounts::default(),
            data_bytes: Arc::default(),
            registry: Arc::new(Registry::new(bells.len())),
            arrivals: bells.iter().map(|_| Mutex::default()).collect(),
            inboxes: bells.iter().map(|_| Inbox::default()).collect(),
            loading,
            scripts: Scripts::default(),
            pressure: Pressure::new(bells.len()),
            bells,
        }
    }

    /// Hands a connection to a thread, which is to be told of it.
    pub(crate) fn hand_over(&self, thread: usize, arrival: Arrival) {
        lock(&self.arrivals[thread]).push(arrival);
    }

    /// Takes the connections that were handed to a thread.
    pub(crate) fn take_arrivals(&self, thread: usize) -> Vec<Arrival> {
        std::mem::take(&mut *lock(&self.arrivals[thread]))
    }

    /// The number of threads.
    pub(crate) fn threads(&self) -> usize {
        self.bells.len()
    }

    /// The version of the common settings.
    #[inline]
    pub(crate) fn version(&self) -> u64 {
        self.version.load(Ordering::Acquire)
    }

    /// The common settings, and their version.
    pub(crate) fn common(&self) -> (Common, u64) {
        let common = lock(&self.common);
        (common.clone(), self.version())
    }

    /// Changes the common settings, for all threads.
    pub(crate) fn change<R>(&self, change: impl FnOnce(&mut Common) -> R) -> R {
        let result = {
            let mut common = lock(&self.common);
            let result = change(&mut common);
            self.version.fetch_add(1, Ordering::Release);
            result
        };
        self.ring();
        result
    }

    /// Ends the server.
    pub(crate) fn stop(&self) {
        self.ending.begin();
        self.ring();
    }

    /// Ends the server at once: a thread cannot go on.
    pub(crate) fn fail(&self) {
        self.failed.store(true, Ordering::Release);
        self.stop();
    }

    /// Notes that a thread has finished its work.
    pub(crate) fn finish(&self) {
        if self.unfinished.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.ring();
        }
    }

    /// Whether all threads have finished their work.
    pub(crate) fn all_finished(&self) -> bool {
        self.unfinished.load(Ordering::Acquire) == 0 || self.failed.load(Ordering::Acquire)
    }

    /// Hands posts to a thread, for its clients, and wakes it. More may be lost already.
    pub(crate) fn post(
        &self,
        thread: usize,
        posts: impl Iterator<Item = Arc<Post>>,
        is_lossy: bool,
    ) {
        self.inboxes[thread].push(posts, is_lossy);
        self.bells[thread].ring_if_asleep();
    }

    /// The posts of other threads for the clients of a thread.
    #[inline]
    pub(crate) fn inbox(&self, thread: usize) -> &Inbox {
        &self.inboxes[thread]
    }

    /// Wakes a thread.
    pub(crate) fn ring_one(&self, thread: usize) {
        self.bells[thread].ring();
    }

    /// Wakes all threads.
    pub(crate) fn ring(&self) {
        self.bells.iter().for_each(Bell::ring);
    }
}

/// Ends the server when a panic drops it: a thread that others wait for has it.
pub(crate) struct FailsOnPanic<'a>(pub(crate) &'a Shared);

impl Drop for FailsOnPanic<'_> {
    fn drop(&mut self) {
        if thread::panicking() {
            self.0.fail();
        }
    }
}
