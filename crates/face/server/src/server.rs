//! The server as a program holds it.

use std::fmt;
use std::net::SocketAddr;
use std::panic;
use std::sync::{Arc, OnceLock};
use std::thread;

use halite::Domain;
use mio::{Poll, Waker};

use crate::acl::{self, Acl};
use crate::commands::config::assign;
use crate::event_loop::{self, EventLoop};
use crate::loader::Loader;
use crate::loading::Loading;
use crate::lock::lock;
use crate::metrics::Metrics;
use crate::partition_set::PartitionSet;
use crate::service::{Service, new_run_id};
use crate::settings::Settings;
use crate::shard::bell::Bell;
use crate::shard::lender::Lender;
use crate::shard::mailbox::Mailbox;
use crate::shard::peers::Peers;
use crate::shared::{FailsOnPanic, Shared};
use crate::store::Store;
use crate::{Config, Error, Sockets, listener};

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
    /// One for each thread.
    event_loops: Vec<EventLoop>,
    addrs: Vec<SocketAddr>,
    tls_addrs: Vec<SocketAddr>,
    metrics: Option<Metrics>,
    /// The loader of the partitions that are not recovered yet.
    loader: Option<Loader>,
    client_count_max: usize,
    handle: Handle,
}

/// Stops a server from another thread. Cloning it is cheap.
#[derive(Clone)]
pub struct Handle {
    shared: Arc<Shared>,
}

impl Server {
    /// Listens on the addresses of `config`. Clients that connect wait until [`Server::run`]. A request for keys of a
    /// partition that is still being recovered then waits for it; a partition that cannot be recovered refuses its
    /// requests with the reason. The first partition, and the one that holds the order of the databases, are
    /// exceptions: without them the server cannot run.
    ///
    /// # Errors
    /// [`Error::Bind`] if an address is taken or not ours, [`Error::NoAddress`],
    /// [`Error::NoDatabase`], [`Error::Users`], and the errors of the database.
    pub fn bind(db: halite::Database, config: Config) -> Result<Self, Error> {
        let sockets = Sockets::bind(&config)?;
        Self::on(sockets, db, config)
    }

    /// [`Server::bind`] with sockets that were bound before there was a database, by the same `config`.
    ///
    /// # Errors
    /// [`Error::NoDatabase`], [`Error::Users`], and the errors of the database.
    pub fn on(sockets: Sockets, db: halite::Database, config: Config) -> Result<Self, Error> {
        if config.databases == 0 {
            return Err(Error::NoDatabase);
        }
        let Sockets { listeners, addrs, tls_addrs, tls, metrics } = sockets;
        let mut settings = Settings::new(&config, addrs.first().map_or(0, SocketAddr::port));
        let domain = db.domain();
        settings.tls = tls;
        for (name, value) in &config.settings {
            // The file was checked when it was read.
            let assigned = assign(&mut settings, name.as_bytes(), value.as_bytes());
            let wrong = |_| Error::ConfigFile {
                at: name.clone(),
                why: "the value does not fit".to_owned(),
            };
            assigned.map_err(wrong)?;
        }
        settings.fit_client_memory();
        let acl = configured_users(&settings, &config.users)?;
        settings.in_memory = domain == Domain::Volatile;
        let partitions = db.partitions();
        let threads = config.threads.unwrap_or(partitions).clamp(1, partitions);
        settings.threads = threads;
        let reserved = listener::reserved(db.stats().descriptors_max, threads);
        settings.descriptors_reserved = reserved;
        settings.client_count_max = listener::clients_possible(config.client_count_max, reserved);
        let client_count_max = settings.client_count_max;
        let mut polls = Vec::new();
        let mut bells = Vec::new();
        for _ in 0..threads {
            let poll =
                Poll::new().map_err(|source| Error::Io { action: "create a poll", source })?;
            let waker = Waker::new(poll.registry(), event_loop::WAKER)
                .map_err(|source| Error::Io { action: "create a waker", source })?;
            bells.push(Bell::new(waker));
            polls.push(poll);
        }
        let bells: Arc<[Bell]> = bells.into();
        let databases = config.databases as usize;
        let homes: Vec<_> = (0..partitions).map(|partition| partition % threads).collect();
        // With no partition left to recover, no request has to wait.
        let is_ready = db.stats().recovery.partitions_ready == partitions;
        let ready = if is_ready { PartitionSet::first(partitions) } else { PartitionSet::EMPTY };
        let loading = Loading::new(threads, partitions, ready);
        let shared = Arc::new(Shared::new(settings, Arc::clone(&bells), loading));
        if let Some(acl) = acl {
            shared.change(|common| common.acl = Arc::new(acl));
        }
        let handle = Handle { shared: Arc::clone(&shared) };

        let metrics = metrics.map(|listener| Metrics::new(listener, db.clone(), shared.clone()));
        let (store, loader) = if is_ready {
            let store = Store::open(db, databases)?;
            shared.scripts.open(&store.libraries()?, &shared.common().0.settings);
            (store, None)
        } else {
            let opened = Arc::new(OnceLock::new());
            let store = Store::unopened(db.clone(), Arc::clone(&opened));
            let shared = Arc::clone(&shared);
            (store, Some(Loader { db, databases, homes: homes.clone(), opened, shared }))
        };
        let mut store = store;
        let mut stores: Vec<_> = (1..threads).map(|_| store.sibling()).collect();
        for (number, &home) in homes.iter().enumerate().filter(|(_, home)| **home > 0) {
            stores[home - 1].bring(store.take(PartitionSet::only(number)));
        }
        stores.insert(0, store);
        let mut listeners = Some(listeners);
        let run_id = new_run_id();
        let mailboxes = Mailbox::all(&bells);
        let mut event_loops = Vec::new();
        for ((store, poll), mailbox) in stores.into_iter().zip(polls).zip(mailboxes) {
            let thread = mailbox.me();
            let service = Service::new(store, Arc::clone(&shared), thread, &run_id);
            let lender = Lender::new(homes.clone(), service.own);
            // One thread needs the others' ways while some of its parts are elsewhere: not yet here.
            let peers = threads > 1 || !is_ready;
            let peers = peers.then(|| Box::new(Peers::new(mailbox, lender, &service)));
            let listeners = listeners.take().unwrap_or_default();
            event_loops.push(EventLoop::new(poll, listeners, service, peers, domain)?);
        }
        Ok(Self { event_loops, addrs, tls_addrs, metrics, loader, client_count_max, handle })
    }

    /// Whether clients have to authenticate, initially.
    #[must_use]
    pub fn asks_for_password(&self) -> bool {
        self.handle.shared.common().0.acl.asks_for_password()
    }

    /// The addresses that clients can connect to.
    #[must_use]
    pub fn local_addrs(&self) -> Vec<SocketAddr> {
        self.addrs.clone()
    }

    /// The addresses that clients can connect to by TLS.
    #[must_use]
    pub fn tls_addrs(&self) -> Vec<SocketAddr> {
        self.tls_addrs.clone()
    }

    /// The most clients at a time, initially: fewer than configured if the process's limit of descriptors is too low
    /// for them and for the engine.
    #[must_use]
    pub fn client_count_max(&self) -> usize {
        self.client_count_max
    }

    /// The address that `GET /metrics` is answered on, if it is.
    #[must_use]
    pub fn metrics_addr(&self) -> Option<SocketAddr> {
        self.metrics.as_ref().and_then(Metrics::local_addr)
    }

    /// A handle that stops the server.
    #[must_use]
    pub fn handle(&self) -> Handle {
        self.handle.clone()
    }

    /// Serves clients until [`Handle::shutdown`] or the command SHUTDOWN; then answers the requests that have arrived,
    /// makes all writes durable, and closes the database.
    ///
    /// # Errors
    /// [`Error::Database`] if the databases cannot be opened, of a store that was still being recovered.
    /// [`Error::Sync`] if writes cannot be made durable: they are not acknowledged then. [`Error::Io`] if the operating
    /// system no longer reports the readiness of sockets.
    pub fn run(self) -> Result<(), Error> {
        let shared = &self.handle.shared;
        thread::scope(|scope| {
            if let Some(metrics) = self.metrics {
                let builder = thread::Builder::new().name("halite-metrics".to_owned());
                let started = builder.spawn_scoped(scope, || metrics.run());
                started.map_err(|source| Error::Io { action: "start a thread", source })?;
            }
            let loader = self.loader.map(|loader| {
                let builder = thread::Builder::new().name("halite-loader".to_owned());
                let load = move || {
                    // Clients wait for the partitions that it loads.
                    let _guard = FailsOnPanic(shared);
                    loader.run().inspect_err(|_| shared.fail())
                };
                let started = builder.spawn_scoped(scope, load);
                // The thread of the metrics would wait for the end.
                let started = started.inspect_err(|_| shared.fail());
                started.map_err(|source| Error::Io { action: "start a thread", source })
            });
            let loader = loader.transpose()?;
            let mut others = Vec::new();
            let mut started = Ok(());
            for (number, event_loop) in self.event_loops.into_iter().enumerate() {
                let builder = thread::Builder::new().name(format!("halite-{number}"));
                match builder.stack_size(STACK_LEN).spawn_scoped(scope, || run(event_loop, shared))
                {
                    Ok(other) => others.push(other),
                    Err(source) => {
                        shared.fail();
                        started = Err(Error::Io { action: "start a thread", source });
                        break;
                    }
                }
            }
            let others = others.into_iter().map(|other| {
                other.join().unwrap_or_else(|panicked| panic::resume_unwind(panicked))
            });
            let others = others.collect::<Vec<_>>().into_iter().collect::<Result<(), _>>();
            let loaded = loader.map_or(Ok(()), |loader| {
                loader.join().unwrap_or_else(|panicked| panic::resume_unwind(panicked))
            });
            // Its client is gone, so it ends.
            if let Some(backup) = lock(&shared.backup).take() {
                backup.join().unwrap_or_else(|panicked| panic::resume_unwind(panicked));
            }
            self.handle.shared.key_counts.wait();
            self.handle.shared.data_bytes.wait();
            started.and(others).and(loaded)
        })
    }
}

impl Handle {
    /// Stops the server: [`Server::run`] returns soon. May be called from any thread, often, and
    /// before the server runs.
    pub fn shutdown(&self) {
        self.shared.stop();
    }
}

impl fmt::Debug for Handle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Handle").finish_non_exhaustive()
    }
}

/// The users of their file, or of the lines of the config file, if there are some.
fn configured_users(settings: &Settings, lines: &[Vec<u8>]) -> Result<Option<Acl>, Error> {
    let (password, all_channels) = (settings.requirepass.as_deref(), settings.acl_all_channels);
    let found = match &settings.acl_file {
        Some(_) if !lines.is_empty() => {
            Err("users are defined in the config file, and there is a file of users \
             (aclfile), too: define all of them in one of both"
                .to_owned())
        }
        Some(path) => acl::file::load(path, password, all_channels),
        None if lines.is_empty() => return Ok(None),
        None => acl::file::of_lines(lines, password, all_channels),
    };
    found.map(Some).map_err(|why| Error::Users { why })
}

/// Bytes of a thread's stack: the tables of scripts may lie in each other, and so may the calls that convert them.
const STACK_LEN: usize = 16 << 20;

/// Runs a thread. If it cannot go on, the others do not wait for it.
fn run(event_loop: EventLoop, shared: &Shared) -> Result<(), Error> {
    let _guard = FailsOnPanic(shared);
    let ended = event_loop.run();
    if ended.is_err() {
        shared.fail();
    }
    ended
}
