//! Sockets that clients connect to.

use std::io;
use std::net::SocketAddr;
use std::os::fd::AsFd;
use std::time::Duration;

use mio::net::TcpListener;
use rustix::net::{self, AddressFamily, SocketFlags, SocketType, sockopt};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::Error;

/// Connections that the operating system lets wait for us.
const BACKLOG: i32 = 511;
/// Files that the process needs beside the clients' sockets.
const OTHER_FILES: u64 = 32;
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
        // So that the same port can be listened on for IPv4 too.
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

/// How many of `wanted` clients the process may have open files for; the limit is raised as far as
/// it may be.
pub(crate) fn clients_possible(wanted: usize) -> usize {
    let needed = wanted as u64 + OTHER_FILES;
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    let Some(soft) = current.filter(|&soft| soft < needed) else { return wanted };
    let raised = maximum.map_or(needed, |hard| hard.min(needed));
    let allowed = match setrlimit(Resource::Nofile, Rlimit { current: Some(raised), maximum }) {
        Ok(()) => raised,
        Err(_) => soft,
    };
    (allowed.saturating_sub(OTHER_FILES) as usize).clamp(1, wanted.max(1))
}
