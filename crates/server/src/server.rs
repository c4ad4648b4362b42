//! The server as a program holds it.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use mio::{Poll, Waker};

use crate::event_loop::{self, EventLoop};
use crate::service::Service;
use crate::settings::Settings;
use crate::store::Store;
use crate::{Config, Error, listener};

/// A server that listens and does not answer yet.
///
/// ```
/// # let folder = tempfile::tempdir()?;
/// # let path = folder.path().join("data");
/// use std::io::{Read, Write};
///
/// let db = halite::Database::open(&path)?;
/// let mut config = halite_server::Config::default();
/// config.port = 0; // any free port
/// let server = halite_server::Server::bind(db, config)?;
/// let (addr, handle) = (server.local_addrs()[0], server.handle());
/// let running = std::thread::spawn(|| server.run());
///
/// let mut client = std::net::TcpStream::connect(addr)?;
/// client.write_all(b"PING\r\n")?;
/// let mut reply = [0; 7];
/// client.read_exact(&mut reply)?;
/// assert_eq!(&reply, b"+PONG\r\n");
///
/// handle.shutdown();
/// running.join().expect("the server does not panic")?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Server {
    event_loop: EventLoop,
    addrs: Vec<SocketAddr>,
    handle: Handle,
}

/// Stops a server from another thread. Cloning it is cheap.
#[derive(Debug, Clone)]
pub struct Handle {
    stop: Arc<AtomicBool>,
    waker: Arc<Waker>,
}

impl Server {
    /// Listens on the addresses of `config`, and reads what the databases need in memory. Clients
    /// that connect wait until [`Server::run`].
    ///
    /// # Errors
    /// [`Error::Bind`] if an address is taken or not ours, [`Error::NoAddress`],
    /// [`Error::NoDatabase`], and what the database reports.
    pub fn bind(db: halite::Database, config: Config) -> Result<Self, Error> {
        if config.bind.is_empty() {
            return Err(Error::NoAddress);
        }
        if config.databases == 0 {
            return Err(Error::NoDatabase);
        }
        let addrs = config.bind.iter().map(|&ip| SocketAddr::new(ip, config.port));
        let listeners = addrs.map(listener::listen).collect::<Result<Vec<_>, _>>()?;
        let addrs = listeners.iter().map(|listener| listener.local_addr());
        let addrs = addrs.collect::<Result<Vec<_>, _>>();
        let addrs =
            addrs.map_err(|source| Error::Io { action: "read a socket's address", source })?;
        let poll = Poll::new().map_err(|source| Error::Io { action: "create a poll", source })?;
        let waker = Waker::new(poll.registry(), event_loop::WAKER)
            .map_err(|source| Error::Io { action: "create a waker", source })?;
        let handle = Handle { stop: Arc::default(), waker: Arc::new(waker) };

        let mut settings = Settings::new(&config, addrs[0].port());
        settings.client_count_max = listener::clients_possible(config.client_count_max);
        let domain = db.domain();
        let store = Store::open(db, config.databases as usize)?;
        let service = Service::new(store, settings);
        let stop = Arc::clone(&handle.stop);
        let event_loop = EventLoop::new(poll, listeners, service, stop, domain)?;
        Ok(Self { event_loop, addrs, handle })
    }

    /// The addresses that clients can connect to.
    #[must_use]
    pub fn local_addrs(&self) -> Vec<SocketAddr> {
        self.addrs.clone()
    }

    /// What stops the server.
    #[must_use]
    pub fn handle(&self) -> Handle {
        self.handle.clone()
    }

    /// Serves clients until [`Handle::shutdown`] or the command SHUTDOWN; then answers the requests
    /// that have arrived, makes everything durable, and closes the database.
    ///
    /// # Errors
    /// [`Error::Sync`] if writes cannot be made durable: they are not acknowledged then.
    /// [`Error::Io`] if the operating system no longer tells what clients do.
    pub fn run(self) -> Result<(), Error> {
        self.event_loop.run()
    }
}

impl Handle {
    /// Stops the server: [`Server::run`] returns soon. May be called from any thread, often, and
    /// before the server runs.
    pub fn shutdown(&self) {
        self.stop.store(true, Ordering::Release);
        // Should the wake-up fail, the server sees the flag at its next tick.
        let _ = self.waker.wake();
    }
}
