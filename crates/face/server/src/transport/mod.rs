//! The carriers of a connection's bytes: a socket of TCP, a unix socket, or TLS on TCP.
//!
//! A [`Listener`] accepts a connection as a [`Transport`], which reads and writes without blocking. To the event loop
//! all of them are alike: a read that brings fewer bytes than it has room for has emptied the socket, and a write that
//! [`Transport::takes_more`] does not follow fills it; in both cases an event announces when there is more to do.

mod listener;
mod session;
mod unix_socket;

use std::io::{self, IoSlice, Read, Write};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd};
use std::time::Duration;

use mio::event::Source;
use mio::net::{TcpStream, UnixStream};
use mio::{Interest, Registry, Token};

pub(crate) use listener::{Accepted, Listener};
use session::Session;

use crate::listener::keep_alive;

/// The carrier of a connection's bytes.
pub(crate) enum Transport {
    Tcp(TcpStream),
    Unix(UnixStream),
    Tls(Box<Session>),
}

impl Transport {
    /// Has small replies leave at once, and TCP find out whether the other end still exists. A connection without
    /// these options works too.
    pub(crate) fn tune(&self, idle: Option<Duration>) {
        let socket = match self {
            Self::Tcp(socket) => socket,
            Self::Tls(session) => &session.socket,
            Self::Unix(_) => return,
        };
        let _ = socket.set_nodelay(true);
        if let Some(idle) = idle {
            let _ = keep_alive(socket, idle);
        }
    }

    /// Tells a client that is not served why, and closes its connection. With TLS it is closed only: a handshake would
    /// have to come first.
    pub(crate) fn refuse(mut self, why: &[u8]) {
        if !matches!(self, Self::Tls(_)) {
            // The client may be gone already, so a write error is ignored.
            let _ = self.write(why);
        }
    }

    /// Whether there are bytes that the transport was given and the socket has not taken.
    #[inline]
    pub(crate) fn is_pending(&self) -> bool {
        match self {
            Self::Tcp(_) | Self::Unix(_) => false,
            Self::Tls(session) => session.is_pending(),
        }
    }

    /// Whether it takes more bytes, behind a write that took all that it was offered or did not.
    #[inline]
    pub(crate) fn takes_more(&self, took_all: bool) -> bool {
        match self {
            Self::Tcp(_) | Self::Unix(_) => took_all,
            Self::Tls(session) => !session.is_pending(),
        }
    }

    /// Whether the client has not proved yet that it speaks the protocol of the transport.
    pub(crate) fn is_shaking_hands(&self) -> bool {
        match self {
            Self::Tcp(_) | Self::Unix(_) => false,
            Self::Tls(session) => session.is_shaking_hands(),
        }
    }

    /// Whether the transport has the end of the connection already, which no event will announce.
    pub(crate) fn has_ended(&self) -> bool {
        match self {
            Self::Tcp(_) | Self::Unix(_) => false,
            Self::Tls(session) => session.has_ended,
        }
    }

    /// Tells the client that the connection is closed, where the socket does not do that.
    pub(crate) fn say_goodbye(&mut self) {
        if let Self::Tls(session) = self {
            session.say_goodbye();
        }
    }

    /// Bytes of memory beside the socket.
    pub(crate) fn memory(&self) -> usize {
        match self {
            Self::Tcp(_) | Self::Unix(_) => 0,
            Self::Tls(session) => session.memory(),
        }
    }

    pub(crate) fn fd(&self) -> RawFd {
        self.as_fd().as_raw_fd()
    }
}

impl AsFd for Transport {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Self::Tcp(socket) => socket.as_fd(),
            Self::Unix(socket) => socket.as_fd(),
            Self::Tls(session) => session.socket.as_fd(),
        }
    }
}

impl Read for Transport {
    #[inline]
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Tcp(socket) => socket.read(bytes),
            Self::Unix(socket) => socket.read(bytes),
            Self::Tls(session) => session.read(bytes),
        }
    }
}

impl Write for Transport {
    #[inline]
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Tcp(socket) => socket.write(bytes),
            Self::Unix(socket) => socket.write(bytes),
            Self::Tls(session) => session.write(bytes),
        }
    }

    fn write_vectored(&mut self, slices: &[IoSlice<'_>]) -> io::Result<usize> {
        match self {
            Self::Tcp(socket) => socket.write_vectored(slices),
            Self::Unix(socket) => socket.write_vectored(slices),
            Self::Tls(session) => session.write_vectored(slices),
        }
    }

    /// Hands on what the transport itself has kept back.
    fn flush(&mut self) -> io::Result<()> {
        match self {
            Self::Tcp(_) | Self::Unix(_) => Ok(()),
            Self::Tls(session) => session.flush(),
        }
    }
}

impl Transport {
    /// The socket that the event loop polls.
    fn source(&mut self) -> &mut dyn Source {
        match self {
            Self::Tcp(socket) => socket,
            Self::Unix(socket) => socket,
            Self::Tls(session) => &mut session.socket,
        }
    }
}

impl Source for Transport {
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
