//! The two servers, each in this process or as its child, and without a key at the start.

use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::process::{Child, Command, Stdio};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use halite::{Database, Partitioning};
use halite_server::{Config, DebugCommand, Handle, Server};

use crate::error::Error;
use crate::families::Pattern;
use crate::wire::{Request, Wire, shown};

/// How often a server that was started is looked for, and how long between two looks.
const LOOKS: u32 = 500;
const LOOK: Duration = Duration::from_millis(10);
/// Bytes that Halite's database may take.
const POOL_LEN_MAX: u64 = 1 << 30;

/// Redis as a child process, which ends with this.
struct Redis {
    child: Child,
    addr: SocketAddr,
    _folder: tempfile::TempDir,
}

impl Redis {
    fn start(program: &str) -> Result<Self, Error> {
        let folder = tempfile::tempdir()?;
        // The port is free again once the listener is dropped.
        let port = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?.port();
        let mut command = Command::new(program);
        command.args(["--port", &port.to_string(), "--save", "", "--appendonly", "no"]);
        command.args(["--enable-debug-command", "yes", "--bind", "127.0.0.1"]);
        command.current_dir(folder.path()).stdin(Stdio::null()).stdout(Stdio::null());
        let child = command
            .spawn()
            .map_err(|source| Error::Start { program: program.to_owned(), source })?;
        let addr = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        let redis = Self { child, addr, _folder: folder };
        for _ in 0..LOOKS {
            if Wire::connect(addr).and_then(|mut wire| wire.call(&["PING"])).is_ok() {
                return Ok(redis);
            }
            thread::sleep(LOOK);
        }
        Err(Error::Silent { program: program.to_owned(), port })
    }
}

impl Drop for Redis {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Halite's server on a thread of this process, which ends with this.
struct Halite {
    addr: SocketAddr,
    handle: Handle,
    thread: Option<JoinHandle<Result<(), halite_server::Error>>>,
}

impl Halite {
    fn start(threads: usize, engine: &str) -> Result<Self, Error> {
        let db = Database::builder()
            .engine(engine)
            .partitioning(Partitioning::Hash(threads))
            .max_size(POOL_LEN_MAX)
            .in_memory()?;
        let mut config = Config::default();
        config.port = 0;
        config.debug_command = DebugCommand::Yes;
        let server = Server::bind(db, config)?;
        let (addr, handle) = (server.local_addrs()[0], server.handle());
        Ok(Self { addr, handle, thread: Some(thread::spawn(move || server.run())) })
    }
}

impl Drop for Halite {
    fn drop(&mut self) {
        self.handle.shutdown();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Both servers, and a connection to each.
pub(crate) struct Sides {
    halite: Halite,
    redis: Redis,
    wires: [Wire; 2],
}

/// The names of the servers, in the order of their replies.
pub(crate) const NAMES: [&str; 2] = ["Halite", "Redis"];

impl Sides {
    pub(crate) fn start(threads: usize, engine: &str, redis: &str) -> Result<Self, Error> {
        let (redis, halite) = (Redis::start(redis)?, Halite::start(threads, engine)?);
        let wires = [Wire::connect(halite.addr)?, Wire::connect(redis.addr)?];
        Ok(Self { halite, redis, wires })
    }

    /// The patterns of commands that Redis has, and the names of the others.
    pub(crate) fn known_to_redis(
        &mut self,
        patterns: Vec<Pattern>,
    ) -> Result<(Vec<Pattern>, Vec<&'static str>), Error> {
        let (mut known, mut missing) = (Vec::new(), Vec::new());
        for pattern in patterns {
            let name = pattern.name();
            let reply = self.wires[1].call(&["COMMAND", "INFO", name])?;
            if reply != b"*1\r\n*-1\r\n" && reply != b"*1\r\n$-1\r\n" {
                known.push(pattern);
            } else if !missing.contains(&name) {
                missing.push(name);
            }
        }
        if known.is_empty() { Err(Error::NoPattern) } else { Ok((known, missing)) }
    }

    /// Empties both servers, and connects to them anew.
    pub(crate) fn reset(&mut self) -> Result<(), Error> {
        self.wires = [Wire::connect(self.halite.addr)?, Wire::connect(self.redis.addr)?];
        for wire in &mut self.wires {
            wire.call(&["FLUSHALL"])?;
            // Long values would take most of the time.
            wire.call(&["CONFIG", "SET", "proto-max-bulk-len", "1mb"])?;
            wire.call(&["CONFIG", "SET", "hll-sparse-max-bytes", "3000"])?;
        }
        Ok(())
    }

    /// Sends requests to both, and returns their replies.
    pub(crate) fn call(&mut self, requests: &[Request]) -> Result<Vec<[Vec<u8>; 2]>, Error> {
        let failed = |side: usize, request: &Request, source: io::Error| Error::Connection {
            side: NAMES[side],
            request: shown(request),
            source,
        };
        for (side, wire) in self.wires.iter_mut().enumerate() {
            wire.send(requests).map_err(|source| failed(side, &requests[0], source))?;
        }
        let mut replies = Vec::with_capacity(requests.len());
        for request in requests {
            let [halite, redis] = &mut self.wires;
            let halite = halite.reply().map_err(|source| failed(0, request, source))?;
            let redis = redis.reply().map_err(|source| failed(1, request, source))?;
            replies.push([halite, redis]);
        }
        Ok(replies)
    }
}
