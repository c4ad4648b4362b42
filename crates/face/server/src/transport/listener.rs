//! Sockets that accept connections.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use mio::event::Source;
use mio::net::{TcpListener, TcpStream};
use mio::{Interest, Registry, Token};

use super::Transport;
use super::session::Session;
use super::unix_socket::UnixSocket;
use crate::address::Address;
use crate::tls::TlsSettings;
use crate::{Config, Error, listener};

/// A socket that clients connect to.
pub(crate) enum Listener {
    Tcp(TcpListener),
    Tls(TcpListener),
    Unix(UnixSocket),
}

/// A connection that was accepted, and its ends.
pub(crate) struct Accepted {
    pub(crate) socket: Transport,
    pub(crate) addr: Address,
    pub(crate) laddr: Address,
}

impl Listener {
    /// Listens on an address.
    pub(crate) fn tcp(addr: SocketAddr) -> Result<Self, Error> {
        listener::listen(addr).map(Self::Tcp)
    }

    /// Listens on the unix socket of a configuration, if it has one.
    pub(crate) fn unix(config: &Config) -> Result<Option<Self>, Error> {
        let Some(path) = &config.unix_socket else { return Ok(None) };
        let socket = UnixSocket::bind(path, config.unix_socket_mode);
        let socket = socket.map_err(|source| Error::UnixSocket { path: path.clone(), source })?;
        Ok(Some(Self::Unix(socket)))
    }

    /// Listens on an address, for clients that speak TLS.
    pub(crate) fn tls(addr: SocketAddr) -> Result<Self, Error> {
        listener::listen(addr).map(Self::Tls)
    }

    /// The address that it listens on without TLS, if it does.
    pub(crate) fn local_addr(&self) -> Option<io::Result<SocketAddr>> {
        match self {
            Self::Tcp(socket) => Some(socket.local_addr()),
            Self::Tls(_) | Self::Unix(_) => None,
        }
    }

    /// The address that it listens on with TLS, if it does.
    pub(crate) fn tls_addr(&self) -> Option<io::Result<SocketAddr>> {
        match self {
            Self::Tls(socket) => Some(socket.local_addr()),
            Self::Tcp(_) | Self::Unix(_) => None,
        }
    }

    /// Accepts the connection that waits for longest.
    pub(crate) fn accept(&self, tls: &TlsSettings) -> io::Result<Accepted> {
        match self {
            Self::Tcp(socket) => {
                let (socket, addr) = socket.accept()?;
                let (addr, laddr) = ends(&socket, addr)?;
                Ok(Accepted { socket: Transport::Tcp(socket), addr, laddr })
            }
            Self::Tls(socket) => {
                let (socket, addr) = socket.accept()?;
                let (addr, laddr) = ends(&socket, addr)?;
                let gone = || io::Error::from(io::ErrorKind::ConnectionAborted);
                let config = tls.acceptor().ok_or_else(gone)?;
                let session = Session::new(socket, Arc::clone(config)).map_err(|_| gone())?;
                Ok(Accepted { socket: Transport::Tls(Box::new(session)), addr, laddr })
            }
            Self::Unix(socket) => {
                let (stream, address) = socket.accept()?;
                let laddr = address.clone();
                Ok(Accepted { socket: Transport::Unix(stream), addr: address, laddr })
            }
        }
    }
}

/// The ends of a connection; one whose own end is not known any more is gone.
fn ends(socket: &TcpStream, addr: SocketAddr) -> io::Result<(Address, Address)> {
    let laddr = socket.local_addr();
    let laddr = laddr.map_err(|_| io::Error::from(io::ErrorKind::ConnectionAborted))?;
    Ok((Address::Ip(addr), Address::Ip(laddr)))
}

impl Listener {
    /// The socket that the event loop polls.
    fn source(&mut self) -> &mut dyn Source {
        match self {
            Self::Tcp(socket) | Self::Tls(socket) => socket,
            Self::Unix(socket) => &mut socket.listener,
        }
    }
}

impl Source for Listener {
    fn register(&mut self, registry: &Registry, token: Token, events: Interest) -> io::Result<()> {
        self.source().register(registry, token, events)
    }

    fn reregister(
        &mut self,
        registry: &Registry,
        token: Token,
        events: Interest,
    ) -> io::Result<()> {
        self.source().reregister(registry, token, events)
    }

    fn deregister(&mut self, registry: &Registry) -> io::Result<()> {
        self.source().deregister(registry)
    }
}
