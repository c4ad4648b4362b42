//! Sockets that clients connect to.

use std::fs::File;
use std::io;
use std::net::SocketAddr;
use std::os::fd::AsFd;
use std::time::Duration;

use mio::net::TcpListener;
use rustix::net::{self, AddressFamily, SocketFlags, SocketType, sockopt};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::Error;
use crate::tls::TlsSettings;
use crate::transport::Listener;

/// Connections that the operating system lets wait for us.
pub(crate) const BACKLOG: i32 = 511;
/// Descriptors of the server beside those of its clients, its threads and the engine: listeners, the metrics, standard
/// streams, a backup, sockets that are refused, and those of the rest of the process. Redis reserves as many.
const OTHER_DESCRIPTORS: u64 = 32;
/// Descriptors of a thread: its poll, its waker, and a spare one.
const DESCRIPTORS_PER_THREAD: u64 = 3;
/// Descriptors beside clients' with which an engine does as well as with more.
const ENGINE_DESCRIPTORS: u64 = 16 << 10;
/// How often TCP asks before it gives a connection up.
const KEEPALIVE_PROBES: u32 = 3;

/// Listens on `addr`.
pub(crate) fn listen(addr: SocketAddr) -> Result<TcpListener, Error> {
    try_listen(addr).map_err(|source| Error::Bind { addr, source })
}

fn try_listen(addr: SocketAddr) -> io::Result<TcpListener> {
    let family = if addr.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = net::socket_with(family, SocketType::STREAM, flags, None)?;
    sockopt::set_socket_reuseaddr(&socket, true)?;
    if addr.is_ipv6() {
        // Lets another socket listen on the same port for IPv4.
        sockopt::set_ipv6_v6only(&socket, true)?;
    }
    net::bind(&socket, &addr)?;
    net::listen(&socket, BACKLOG)?;
    Ok(TcpListener::from_std(socket.into()))
}

/// Lets TCP find out whether the other end still exists, after `idle` without a byte and in about
/// as much time again.
pub(crate) fn keep_alive(socket: impl AsFd, idle: Duration) -> io::Result<()> {
    sockopt::set_socket_keepalive(&socket, true)?;
    sockopt::set_tcp_keepidle(&socket, idle.max(Duration::from_secs(1)))?;
    sockopt::set_tcp_keepintvl(&socket, (idle / KEEPALIVE_PROBES).max(Duration::from_secs(1)))?;
    sockopt::set_tcp_keepcnt(&socket, KEEPALIVE_PROBES)?;
    Ok(())
}

/// Raises the limit of descriptors of the process, as far as the system allows, so that `clients` connections leave
/// enough of them to an engine. Called before the database is opened: the engine takes its share of the limit at that
/// time.
pub fn raise_descriptor_limit(clients: usize) {
    raise(clients as u64 + OTHER_DESCRIPTORS + ENGINE_DESCRIPTORS);
}

/// Descriptors that clients leave to the rest: `engine` are the engine's.
pub(crate) fn reserved(engine: u64, threads: usize) -> u64 {
    engine + OTHER_DESCRIPTORS + DESCRIPTORS_PER_THREAD * threads as u64
}

/// How many of `wanted` clients there may be, beside as many other descriptors, and at least one; the limit is raised
/// as far as it may be.
pub(crate) fn clients_possible(wanted: usize, reserved: u64) -> usize {
    let allowed = raise(wanted as u64 + reserved);
    (allowed.saturating_sub(reserved) as usize).clamp(1, wanted.max(1))
}

/// Raises the limit of descriptors to `needed`, or as far as allowed. Returns the new limit.
fn raise(needed: u64) -> u64 {
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    let soft = current.unwrap_or(u64::MAX);
    if soft >= needed {
        return soft;
    }
    let raised = maximum.map_or(needed, |hard| hard.min(needed));
    match setrlimit(Resource::Nofile, Rlimit { current: Some(raised), maximum }) {
        Ok(()) => raised,
        Err(_) => soft,
    }
}

/// A reserved descriptor: closing it makes room to accept and refuse a connection when no other is left.
pub(crate) struct Spare(Option<File>);

impl Spare {
    pub(crate) fn new() -> Self {
        Self(File::open("/dev/null").ok())
    }

    /// Accepts a connection in the place of the spare descriptor, and refuses it. Returns whether there was one.
    pub(crate) fn refuse(&mut self, listener: &Listener, tls: &TlsSettings) -> bool {
        let had_one = self.0.take().is_some();
        let refused = had_one
            && listener.accept(tls).is_ok_and(|accepted| {
                accepted.socket.refuse(TOO_MANY);
                true
            });
        *self = Self::new();
        refused
    }
}

/// The reply to a client that connects while there are too many.
pub(crate) const TOO_MANY: &[u8] = b"-ERR max number of clients reached\r\n";
