//! Keys on their way to another server, for MIGRATE.
//!
//! A [`Job`] has the requests, encoded. It connects, sends them in groups, and reads the replies; every wait for the other
//! server ends after the client's timeout. It runs on a thread of its own, and when that has ended, the thread of the server
//! is woken whose client waits ([`Migration`]). If the client goes, the thread ends soon, also while it connects, and no key
//! is removed.

use std::io::{self, BufReader, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream, ToSocketAddrs};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use halite_resp_client::{Limits, Reply, read_reply};
use mio::{Events, Interest, Poll, Token};

use crate::lock::lock;
use crate::shared::Shared;

/// Migrations at the same time, each of which has a thread.
const MIGRATIONS_MAX: usize = 16;

/// Bytes of requests that are sent before their replies are read, and how many these are at most.
const GROUP_LEN: usize = 1 << 20;
const GROUP_COUNT: usize = 256;

/// How long a wait for the other server goes on before it looks whether anyone still wants the outcome.
const PATIENCE: Duration = Duration::from_millis(500);

const CONNECTING: &str = "IOERR error or timeout connecting to the client";
const WRITING: &str = "IOERR error or timeout writing to target instance";
const READING: &str = "IOERR error or timeout reading to target instance";
const ENDING: &str = "IOERR this server is shutting down";

/// Limits of replies: they are one line.
const LIMITS: Limits = Limits {
    line_len_max: 4096,
    string_len_max: 4096,
    items_max: 16,
    depth_max: 2,
    queue_len_max: 0,
};

/// The requests for another server.
pub(crate) struct Job {
    pub(crate) host: String,
    pub(crate) port: u16,
    /// How long each wait for the other server may take.
    pub(crate) timeout: Duration,
    /// The requests before those for keys: if one is refused, it is over.
    pub(crate) opening: Vec<Vec<u8>>,
    /// A request for each key.
    pub(crate) restores: Vec<Vec<u8>>,
}

/// The outcome of a job.
#[derive(Debug, Default)]
pub(crate) struct Sent {
    /// By key: whether the other server said that it has it.
    pub(crate) arrived: Vec<bool>,
    /// The first failure, as a reply.
    pub(crate) failure: Option<String>,
}

/// A key that is sent.
#[derive(Debug)]
pub(crate) struct SentKey {
    pub(crate) key: Vec<u8>,
    /// The digest of its payload.
    pub(crate) digest: u128,
    pub(crate) deadline: Option<u64>,
}

impl Job {
    /// Sends all, unless it `must_end`: the server does, or the client has gone.
    pub(crate) fn run(&self, must_end: impl Fn() -> bool) -> Sent {
        let mut sent = Sent::default();
        if let Err(why) = self.send(&mut sent, must_end) {
            sent.failure.get_or_insert(why);
        }
        sent
    }

    fn send(&self, sent: &mut Sent, must_end: impl Fn() -> bool) -> Result<(), String> {
        let stream = self.connect(&must_end)?;
        let target = Target { stream: &stream, timeout: self.timeout, must_end: &must_end };
        let mut input = BufReader::new(&target);
        let mut reply = || read_reply(&mut input, &LIMITS).map_err(|_| READING.to_owned());
        for request in &self.opening {
            (&target).write_all(request).map_err(|_| WRITING)?;
            if let Reply::Error(why) = reply()? {
                return Err(refused(&why));
            }
        }
        let mut left = &self.restores[..];
        while !left.is_empty() {
            if must_end() {
                return Err(ENDING.to_owned());
            }
            let (group, behind) = left.split_at(group_count(left));
            for request in group {
                (&target).write_all(request).map_err(|_| WRITING)?;
            }
            for _ in group {
                let why = match reply()? {
                    Reply::Error(why) => Some(why),
                    _ => None,
                };
                sent.arrived.push(why.is_none());
                if let Some(why) = why {
                    sent.failure.get_or_insert_with(|| refused(&why));
                }
            }
            left = behind;
        }
        Ok(())
    }

    /// Connects to the first address that answers.
    fn connect(&self, must_end: &impl Fn() -> bool) -> Result<TcpStream, &'static str> {
        let addrs = (self.host.as_str(), self.port).to_socket_addrs().map_err(|_| CONNECTING)?;
        let mut why = CONNECTING;
        for addr in addrs {
            match connect(addr, self.timeout, must_end) {
                Ok(stream) => return self.tune(stream).map_err(|_| CONNECTING),
                // Redis takes the end of the attempt for a connection, and finds by its first request that it is none.
                Err(error) if error.kind() == ErrorKind::ConnectionRefused => why = WRITING,
                Err(_) => {}
            }
            if must_end() {
                break;
            }
        }
        Err(why)
    }

    fn tune(&self, stream: TcpStream) -> io::Result<TcpStream> {
        let patience = Some(self.timeout.min(PATIENCE));
        stream.set_read_timeout(patience)?;
        stream.set_write_timeout(patience)?;
        stream.set_nodelay(true)?;
        Ok(stream)
    }
}

/// Connects to an address within a time, unless it `must_end`.
fn connect(
    addr: SocketAddr,
    timeout: Duration,
    must_end: &impl Fn() -> bool,
) -> io::Result<TcpStream> {
    let (began, mut poll, mut events) = (Instant::now(), Poll::new()?, Events::with_capacity(1));
    let mut stream = mio::net::TcpStream::connect(addr)?;
    poll.registry().register(&mut stream, Token(0), Interest::WRITABLE)?;
    loop {
        let left = timeout.saturating_sub(began.elapsed());
        if left.is_zero() || must_end() {
            return Err(ErrorKind::TimedOut.into());
        }
        match poll.poll(&mut events, Some(left.min(PATIENCE))) {
            Err(error) if error.kind() != ErrorKind::Interrupted => return Err(error),
            _ if events.is_empty() => {}
            _ => match (stream.take_error()?, stream.peer_addr()) {
                (Some(error), _) => return Err(error),
                (None, Ok(_)) => break,
                // It is not connected yet.
                (None, Err(_)) => {}
            },
        }
    }
    poll.registry().deregister(&mut stream)?;
    let stream = TcpStream::from(stream);
    stream.set_nonblocking(false)?;
    Ok(stream)
}

/// The connection to the other server. A wait ends after the timeout, or when it `must_end`.
struct Target<'a, F> {
    stream: &'a TcpStream,
    timeout: Duration,
    must_end: &'a F,
}

impl<F: Fn() -> bool> Target<'_, F> {
    fn wait<T>(&self, mut once: impl FnMut(&TcpStream) -> io::Result<T>) -> io::Result<T> {
        let began = Instant::now();
        loop {
            match once(self.stream) {
                Err(error)
                    if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut)
                        && began.elapsed() < self.timeout
                        && !(self.must_end)() => {}
                done => return done,
            }
        }
    }
}

impl<F: Fn() -> bool> Read for &Target<'_, F> {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        self.wait(|mut stream| stream.read(bytes))
    }
}

impl<F: Fn() -> bool> Write for &Target<'_, F> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.wait(|mut stream| stream.write(bytes))
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// How many of the first requests are sent together.
fn group_count(requests: &[Vec<u8>]) -> usize {
    let mut len = 0;
    let fits = |request: &&Vec<u8>| {
        len += request.len();
        len <= GROUP_LEN
    };
    requests.iter().take(GROUP_COUNT).take_while(fits).count().max(1)
}

fn refused(why: &str) -> String {
    format!("ERR Target instance replied with error: {}", why.trim_end())
}

/// A migration that a client waits for.
#[derive(Debug)]
pub(crate) struct Migration {
    keys: Vec<SentKey>,
    sent: Arc<Mutex<Option<Sent>>>,
}

impl Migration {
    /// Lets a thread of its own do the job. When it has ended, thread `waiter` of the server is woken.
    pub(crate) fn begin(
        job: Job,
        keys: Vec<SentKey>,
        shared: &Arc<Shared>,
        waiter: usize,
    ) -> Result<Self, String> {
        let sent = Arc::default();
        let report = Report { sent: Arc::clone(&sent), shared: Arc::clone(shared), waiter };
        if shared.migrations.fetch_add(1, Ordering::AcqRel) >= MIGRATIONS_MAX {
            return Err("too many clients migrate keys; try again later".to_owned());
        }
        let run = move || {
            let report = report;
            // The client has the other of the two.
            let has_gone = || Arc::strong_count(&report.sent) == 1;
            let done = job.run(|| report.shared.ending.has_begun() || has_gone());
            *lock(&report.sent) = Some(done);
        };
        let builder = thread::Builder::new().name("halite-migrate".to_owned());
        builder.spawn(run).map_err(|error| format!("no thread for it: {error}"))?;
        Ok(Self { keys, sent })
    }

    /// Whether it has ended.
    pub(crate) fn is_ready(&self) -> bool {
        lock(&self.sent).is_some()
    }

    /// The outcome, if it has ended.
    pub(crate) fn ended(&self) -> Option<Sent> {
        lock(&self.sent).take()
    }

    /// The keys that were sent.
    pub(crate) fn into_keys(self) -> Vec<SentKey> {
        self.keys
    }
}

/// Reports the end when it is dropped, however the thread ended.
struct Report {
    sent: Arc<Mutex<Option<Sent>>>,
    shared: Arc<Shared>,
    waiter: usize,
}

impl Drop for Report {
    fn drop(&mut self) {
        let failed = || Sent { failure: Some(WRITING.to_owned()), ..Sent::default() };
        lock(&self.sent).get_or_insert_with(failed);
        self.shared.migrations.fetch_sub(1, Ordering::AcqRel);
        self.shared.ring_one(self.waiter);
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use rustix::net::{AddressFamily, SocketType, bind, getsockname, listen, socket};

    use super::*;

    #[test]
    fn a_client_that_goes_while_it_connects_ends_it() {
        // A socket that takes one connection, and leaves the others without an answer.
        let deaf = socket(AddressFamily::INET, SocketType::STREAM, None).unwrap();
        bind(&deaf, &SocketAddr::from(([127, 0, 0, 1], 0))).unwrap();
        listen(&deaf, 0).unwrap();
        let addr = SocketAddr::try_from(getsockname(&deaf).unwrap()).unwrap();
        let forever = Duration::from_secs(86_400);
        let looks = Cell::new(0);
        let must_end = || {
            looks.set(looks.get() + 1);
            looks.get() > 2
        };
        let taken: Vec<_> = (0..3).map_while(|_| connect(addr, forever, &must_end).ok()).collect();
        assert!(taken.len() < 3, "the socket takes any number of connections");
        assert!(looks.get() > 2);
    }

    #[test]
    fn requests_are_grouped_by_their_bytes_and_their_number() {
        assert_eq!(group_count(&vec![vec![0; 10]; 1000]), GROUP_COUNT);
        assert_eq!(group_count(&vec![vec![0; GROUP_LEN / 2]; 3]), 2);
        assert_eq!(group_count(&vec![vec![0; GROUP_LEN + 1]; 3]), 1);
    }
}
