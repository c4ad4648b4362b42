//! The load generator: clients of a server over sockets, few threads with many connections each.
//!
//! [`drive`] starts the threads; each is a `client::Client` with an epoll of its own and its share of the
//! `connection`s. A request comes from the `source`, is encoded by its protocol (`resp`, `memcached`) into the
//! connection's buffer, and leaves with all others of that turn in one write. Replies are counted in place: their kind
//! and length are compared with the request, and one value in `CHECKED` is compared whole. The figures of a thread are
//! kept by a `recorder`, and put together in `measured`.
//!
//! In a closed loop a connection sends as many requests as its pipeline is deep, in one write, and the next ones when
//! all of these are answered. In an open loop requests are due at fixed times, independent of the server, and a latency
//! counts from when its request was due: a server that stalls is charged for all requests that waited (no coordinated
//! omission).

mod client;
mod connection;
mod measured;
mod memcached;
mod protocol;
mod recorder;
mod resp;
mod source;

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Barrier, OnceLock};
use std::thread;
use std::time::{Duration, Instant};

use crate::kv::{Distribution, Mix};
use crate::{Error, Result};
use client::Client;
pub use measured::Measured;
pub use protocol::Protocol;
use recorder::Recorder;
use source::Source;

/// One value in this many is compared whole with the one that was put; of the others, the length.
const CHECKED: u64 = 16;

/// Requests that a connection of a load phase sends at once.
const LOAD_PIPELINE: usize = 64;

/// Warming up is this part of the measured time, before it.
const WARM_UP: u32 = 10;

/// A server to be driven.
#[derive(Debug, Clone)]
pub struct Target {
    /// As in [`crate::Row::subject`].
    pub name: String,
    /// Where it listens.
    pub addr: SocketAddr,
    /// The protocol.
    pub protocol: Protocol,
}

/// The records and the operations on them. The same seed gives the same requests.
#[derive(Debug, Clone)]
pub struct Workload {
    /// Records that are there: numbers from 0.
    pub records: u64,
    /// Bytes of a value, at least 8.
    pub value_len: usize,
    /// The operations.
    pub operations: Operations,
    /// The seed of everything random.
    pub seed: u64,
}

/// The operations of clients.
#[derive(Debug, Clone)]
pub enum Operations {
    /// Each record from this number on is put once.
    Insert {
        /// The first number.
        from: u64,
    },
    /// Reads and updates of records that are there.
    Mix {
        /// How often which: [`crate::kv::Kind::Read`] and [`crate::kv::Kind::Update`].
        mix: Mix,
        /// Which records.
        distribution: Distribution,
    },
    /// `SCAN` with this `COUNT`, each from where the last one of its connection ended.
    Scan {
        /// Keys that are asked for at once.
        count: u64,
    },
}

/// The clients.
#[derive(Debug, Clone, Copy)]
pub struct Clients {
    /// Threads.
    pub threads: usize,
    /// Connections of all threads together.
    pub connections: usize,
    /// Requests that a connection sends before it waits for their replies, in a closed loop.
    pub pipeline: usize,
}

/// How a phase is driven.
#[derive(Debug, Clone, Copy)]
pub enum Pace {
    /// A closed loop until so many operations are done, or the source has no more.
    Operations(u64),
    /// A closed loop for so long, after a warm-up of a tenth of it.
    Closed(Duration),
    /// An open loop for so long, after a warm-up of a tenth of it.
    Open {
        /// Operations a second of all connections together.
        rate: u64,
        /// How long.
        time: Duration,
    },
}

/// The state that the threads of a phase share.
struct Shared<'a> {
    target: &'a Target,
    clients: Clients,
    pace: Pace,
    interrupted: &'a AtomicBool,
    /// True once a thread failed.
    failed: AtomicBool,
    connected: Barrier,
    start: OnceLock<Instant>,
}

impl Shared<'_> {
    /// Whether to stop before the end.
    fn stopped(&self) -> Result<bool> {
        if self.interrupted.load(Relaxed) {
            return Err(Error::Interrupted);
        }
        Ok(self.failed.load(Relaxed))
    }

    /// Returns when the measured time begins and ends, in ns since the start.
    fn measured_ns(&self) -> (u64, u64) {
        match self.pace {
            Pace::Operations(_) => (0, u64::MAX),
            Pace::Closed(time) | Pace::Open { time, .. } => {
                let warm_up = (time / WARM_UP).as_nanos() as u64;
                (warm_up, warm_up + time.as_nanos() as u64)
            }
        }
    }
}

/// Puts the records from `from` up to `workload.records`, with deep pipelines.
///
/// # Errors
/// As [`drive`].
pub fn insert(
    target: &Target,
    workload: &Workload,
    from: u64,
    clients: Clients,
    interrupted: &AtomicBool,
) -> Result<Measured> {
    let workload = Workload { operations: Operations::Insert { from }, ..workload.clone() };
    let clients = Clients { pipeline: LOAD_PIPELINE, ..clients };
    drive(target, &workload, clients, Pace::Operations(u64::MAX), interrupted)
}

/// Drives a server.
///
/// # Errors
/// [`Error::Network`] if a connection cannot be made or ends, [`Error::Replies`] if a reply is an error or does not fit
/// its request, [`Error::Interrupted`].
pub fn drive(
    target: &Target,
    workload: &Workload,
    clients: Clients,
    pace: Pace,
    interrupted: &AtomicBool,
) -> Result<Measured> {
    let threads = clients.threads.clamp(1, clients.connections.max(1));
    let clients = Clients { threads, ..clients };
    let shared = Shared {
        target,
        clients,
        pace,
        interrupted,
        failed: AtomicBool::new(false),
        connected: Barrier::new(threads),
        start: OnceLock::new(),
    };
    let source = Source::new(workload);
    let outcomes: Vec<Result<Recorder>> = thread::scope(|scope| {
        let handles: Vec<_> = (0..threads)
            .map(|thread| {
                let (shared, source) = (&shared, source.of_thread(thread, clients, pace));
                scope.spawn(move || one(shared, workload, thread, source))
            })
            .collect();
        let panicked = |_| Err(target.failed("run a client", std::io::Error::other("it panicked")));
        handles.into_iter().map(|handle| handle.join().unwrap_or_else(panicked)).collect()
    });
    let recorders = outcomes.into_iter().collect::<Result<Vec<_>>>()?;
    Measured::of(target, &shared, recorders)
}

/// A thread's whole life.
fn one(
    shared: &Shared<'_>,
    workload: &Workload,
    thread: usize,
    source: Source,
) -> Result<Recorder> {
    let client = Client::new(shared, workload, thread, source);
    shared.failed.fetch_or(client.is_err(), Relaxed);
    // A thread that failed lets no other one wait.
    shared.connected.wait();
    let start = *shared.start.get_or_init(Instant::now);
    let outcome = client?.run(start);
    shared.failed.fetch_or(outcome.is_err(), Relaxed);
    outcome
}

impl Target {
    fn failed(&self, action: &'static str, source: std::io::Error) -> Error {
        Error::Network { server: self.name.clone(), action, source }
    }
}
