//! Halite's server, without a key at the start: on a thread of this process, or as a program that can be killed.

use std::net::SocketAddr;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use halite::{Database, Partitioning};
use halite_server::{Config, DebugCommand, Handle, Server};

use crate::error::Error;
use crate::program::Program;

/// Bytes that Halite's database may take.
const POOL_LEN_MAX: u64 = 1 << 30;

/// Halite's server.
pub(crate) enum Halite {
    Within(Within),
    Program(Program),
}

impl Halite {
    pub(crate) fn addr(&self) -> SocketAddr {
        match self {
            Self::Within(server) => server.addr,
            Self::Program(program) => program.addr(),
        }
    }

    /// Kills the program by SIGKILL.
    pub(crate) fn kill(&mut self) -> Result<(), Error> {
        match self {
            Self::Within(_) => Ok(()),
            Self::Program(program) => Ok(program.kill()?),
        }
    }

    /// Starts the program that was killed; before that, starts it and kills it again after each of some times.
    pub(crate) fn start_again(&mut self, killed_behind: &[Duration]) -> Result<(), Error> {
        let Self::Program(program) = self else { return Ok(()) };
        for time in killed_behind {
            program.spawn()?;
            thread::sleep(*time);
            program.kill()?;
        }
        program.spawn()?;
        program.await_ready()
    }
}

/// Halite's server on a thread of this process, which ends with this.
pub(crate) struct Within {
    addr: SocketAddr,
    handle: Handle,
    thread: Option<JoinHandle<Result<(), halite_server::Error>>>,
}

impl Within {
    pub(crate) fn start(threads: usize, engine: &str) -> Result<Self, Error> {
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

impl Drop for Within {
    fn drop(&mut self) {
        self.handle.shutdown();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
