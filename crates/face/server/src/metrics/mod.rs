//! Metrics for Prometheus: `GET /metrics` in its text format, and no other request.
//!
//! A thread accepts connections, and one more thread for each of them answers, from the [`Board`](crate::board::Board)
//! and the database's statistics: no client waits for it, and no connection waits for a slow one. The number of
//! connections, the length of their requests, and their duration are bounded.

mod commands;

use std::fmt::Write as _;
use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Weak};
use std::thread;
use std::time::{Duration, Instant};

use crate::Error;
use crate::counters::Counters;
use crate::shared::Shared;

/// How long a request and its answer may take together.
const TIME_MAX: Duration = Duration::from_secs(5);
/// The most connections at a time.
const CONNECTIONS_MAX: usize = 16;
/// The longest request, in bytes.
const REQUEST_LEN_MAX: usize = 8 << 10;
/// How often the end of the server is looked for.
const PAUSE: Duration = Duration::from_millis(50);

/// A counter of each thread: its name, its meaning, and its place.
type ByThread = (&'static str, &'static str, fn(&Counters) -> u64);

/// A number of each partition: its name, its kind, its meaning, and its place.
type ByPartition = (&'static str, &'static str, &'static str, fn(&halite::Stats) -> u64);

/// The metrics endpoint.
pub(crate) struct Metrics {
    listener: TcpListener,
    db: halite::Database,
    shared: Arc<Shared>,
    started: Instant,
}

/// Listens on `addr`.
pub(crate) fn listen(addr: SocketAddr) -> Result<TcpListener, Error> {
    let listen = || {
        let listener = TcpListener::bind(addr)?;
        listener.set_nonblocking(true)?;
        Ok(listener)
    };
    listen().map_err(|source| Error::Bind { addr, source })
}

impl Metrics {
    /// Serves metrics on a socket that [`listen`] has made.
    pub(crate) fn new(listener: TcpListener, db: halite::Database, shared: Arc<Shared>) -> Self {
        Self { listener, db, shared, started: Instant::now() }
    }

    /// The address that is listened on.
    pub(crate) fn local_addr(&self) -> Option<SocketAddr> {
        self.listener.local_addr().ok()
    }

    /// Answers until the server ends.
    pub(crate) fn run(self) {
        thread::scope(|scope| {
            let mut open: Vec<Weak<TcpStream>> = Vec::new();
            while !self.shared.ending.has_begun() {
                open.retain(|socket| socket.strong_count() > 0);
                let accepted = match open.len() {
                    // The others wait in the backlog, for as long as one may take at most.
                    CONNECTIONS_MAX.. => None,
                    _ => self.listener.accept().ok(),
                };
                let Some((socket, _)) = accepted else {
                    thread::sleep(PAUSE);
                    continue;
                };
                let socket = Arc::new(socket);
                open.push(Arc::downgrade(&socket));
                let builder = thread::Builder::new().name("halite-metrics".to_owned());
                // A malformed request, or a connection that breaks, gets no answer, and its error is not reported.
                let answer = || {
                    // After a panic the connection closes without an answer, and the server goes on.
                    drop(catch_unwind(AssertUnwindSafe(|| drop(self.answer(socket)))));
                };
                drop(builder.spawn_scoped(scope, answer));
            }
            // The end does not wait for slow connections.
            for socket in open.iter().filter_map(Weak::upgrade) {
                let _ = socket.shutdown(Shutdown::Both);
            }
        });
    }

    fn answer(&self, socket: Arc<TcpStream>) -> io::Result<()> {
        let mut socket = &*socket;
        socket.set_nonblocking(false)?;
        let deadline = Instant::now() + TIME_MAX;
        let left = || match deadline.saturating_duration_since(Instant::now()) {
            Duration::ZERO => Err(io::Error::from(io::ErrorKind::TimedOut)),
            left => Ok(left),
        };
        let mut request = Vec::new();
        while !request.windows(4).any(|end| end == b"\r\n\r\n") {
            if request.len() >= REQUEST_LEN_MAX {
                return Ok(());
            }
            socket.set_read_timeout(Some(left()?))?;
            let mut bytes = [0; 1024];
            match socket.read(&mut bytes)? {
                0 => return Ok(()),
                len => request.extend_from_slice(&bytes[..len]),
            }
        }
        let is_right = [&b"GET /metrics HTTP/1."[..], b"GET /metrics?"];
        let (status, text) = match is_right.iter().any(|right| request.starts_with(right)) {
            true => ("200 OK", self.text()),
            false => ("404 Not Found", "only GET /metrics is answered\n".to_owned()),
        };
        let answer = format!(
            "HTTP/1.1 {status}\r\nContent-Type: text/plain; version=0.0.4; charset=utf-8\r\n\
             Content-Length: {}\r\nConnection: close\r\n\r\n{text}",
            text.len()
        );
        let mut rest = answer.as_bytes();
        while !rest.is_empty() {
            socket.set_write_timeout(Some(left()?))?;
            match socket.write(rest)? {
                0 => return Ok(()),
                len => rest = &rest[len..],
            }
        }
        Ok(())
    }

    fn text(&self) -> String {
        let stats = self.db.stats();
        let notes = self.shared.board.read();
        let mut text = String::new();
        let mut one = |name: &str, kind: &str, help: &str, value: u64| {
            let _ = write!(text, "# HELP {name} {help}\n# TYPE {name} {kind}\n{name} {value}\n");
        };
        one(
            "halite_uptime_seconds",
            "gauge",
            "Seconds since the start.",
            self.started.elapsed().as_secs(),
        );
        one(
            "halite_partitions",
            "gauge",
            "Partitions of the database.",
            self.db.partitions() as u64,
        );
        let (records, records_help) = match stats.is_tiered {
            false => ("records", "Keys in all key spaces."),
            true => ("versions_in_memory", "Versions of keys above the levels."),
        };
        one(&format!("halite_{records}"), "gauge", records_help, stats.records);
        one("halite_pool_bytes", "gauge", "Size of the pool.", stats.pool_bytes);
        one(
            "halite_pool_max_bytes",
            "gauge",
            "Size that the pool may grow to.",
            stats.pool_bytes_max,
        );
        one("halite_live_bytes", "gauge", "Pool bytes that live records take.", stats.live_bytes);
        one(
            "halite_dead_bytes",
            "gauge",
            "Pool bytes that collection can reclaim.",
            stats.dead_bytes,
        );
        one(
            "halite_free_bytes",
            "gauge",
            "Pool bytes that are free without collection.",
            stats.free_bytes,
        );
        one(
            "halite_held_bytes",
            "gauge",
            "Pool bytes that only snapshots and scans may still read.",
            stats.held_bytes,
        );
        one("halite_index_bytes", "gauge", "DRAM bytes of the index.", stats.index_bytes);
        one(
            "halite_user_written_bytes_total",
            "counter",
            "Bytes of keys and values written.",
            stats.user_bytes_written,
        );
        one(
            "halite_collected_moved_bytes_total",
            "counter",
            "Bytes that collection moved.",
            stats.collected_bytes_moved,
        );
        one(
            "halite_collected_blocks_total",
            "counter",
            "Blocks that collection reclaimed.",
            stats.collected_blocks,
        );
        for own in stats.own.iter().filter(|own| !own.is_detail) {
            one(&format!("halite_{}", own.name), "gauge", own.help, own.value);
        }
        one("halite_fences_total", "counter", "Fences of the pool.", stats.traffic.fences);
        one(
            "halite_lines_written_total",
            "counter",
            "Cache lines written back to the pool.",
            stats.traffic.lines,
        );
        let _ = write!(
            text,
            "# HELP halite_domain_info The guarantee of a fence on this medium.\n\
             # TYPE halite_domain_info gauge\nhalite_domain_info{{domain=\"{}\"}} 1\n",
            stats.domain
        );
        let partitions: Vec<_> =
            (0..self.db.partitions()).map(|number| self.db.partition_stats(number)).collect();
        let by_partition: &[ByPartition] = &[
            (records, "gauge", records_help, |stats| stats.records),
            ("live_bytes", "gauge", "Pool bytes that live records take.", |stats| stats.live_bytes),
            ("dead_bytes", "gauge", "Pool bytes that collection can reclaim.", |stats| {
                stats.dead_bytes
            }),
            ("free_bytes", "gauge", "Pool bytes that are free.", |stats| stats.free_bytes),
            ("index_bytes", "gauge", "DRAM bytes of the index.", |stats| stats.index_bytes),
            ("collected_blocks_total", "counter", "Blocks that collection reclaimed.", |stats| {
                stats.collected_blocks
            }),
        ];
        let served = "halite_partition_served";
        let help = "Whether requests are answered: 1; 0 while it is recovered, or if it cannot be.";
        let _ = write!(text, "# HELP {served} {help}\n# TYPE {served} gauge\n");
        let loading = &self.shared.loading;
        for number in loading.all().iter() {
            let is_served = u8::from(loading.state(number) == "ready");
            let _ = writeln!(text, "{served}{{partition=\"{number}\"}} {is_served}");
        }
        for (name, kind, help, value) in by_partition {
            let name = format!("halite_partition_{name}");
            let _ = write!(text, "# HELP {name} {help}\n# TYPE {name} {kind}\n");
            for (number, stats) in partitions.iter().enumerate() {
                let _ = writeln!(text, "{name}{{partition=\"{number}\"}} {}", value(stats));
            }
        }
        let mut by_thread = |name: &str, kind: &str, help: &str, value: &dyn Fn(usize) -> u64| {
            let _ = write!(text, "# HELP {name} {help}\n# TYPE {name} {kind}\n");
            for thread in 0..notes.len() {
                let _ = writeln!(text, "{name}{{thread=\"{thread}\"}} {}", value(thread));
            }
        };
        by_thread("halite_connected_clients", "gauge", "Connected clients.", &|at| {
            notes[at].clients
        });
        by_thread("halite_expired_keys_total", "counter", "Keys that expired.", &|at| {
            notes[at].expired
        });
        by_thread("halite_changes_total", "counter", "Keys that changed.", &|at| notes[at].changes);
        let counters: &[ByThread] = &[
            ("connections", "Connections accepted, those of all threads at the first.", |c| {
                c.connections
            }),
            ("rejected_connections", "Connections beyond the limit.", |c| c.connections_rejected),
            ("evicted_clients", "Clients that went for the memory of all.", |c| c.evicted_clients),
            ("commands", "Commands.", |c| c.commands),
            ("errors", "Error replies.", |c| c.errors),
            ("net_input_bytes", "Bytes received.", |c| c.input_bytes),
            ("net_output_bytes", "Bytes sent.", |c| c.output_bytes),
            ("key_hits", "Reads that found their key.", |c| c.key_hits),
            ("key_misses", "Reads that did not.", |c| c.key_misses),
            ("syncs", "Times that writes were made durable.", |c| c.syncs),
            ("requests_forwarded", "Requests that another thread executed.", |c| {
                c.requests_forwarded
            }),
            ("cross_shard_operations", "Commands on keys of several threads.", |c| {
                c.cross_shard_operations
            }),
            ("parts_lent", "Parts of the store lent to other threads.", |c| c.parts_lent),
            ("messages_sent", "Messages to other threads.", |c| c.messages_sent),
        ];
        for (name, help, value) in counters {
            let name = format!("halite_{name}_total");
            by_thread(&name, "counter", help, &|at| value(&notes[at].counters));
        }
        commands::write(&self.shared.commands.since_start(), &mut text);
        text
    }
}
