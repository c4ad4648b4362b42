//! The sockets of a server, which come before its database.

use std::fmt;
use std::net::SocketAddr;

use mio::net::TcpListener;

use crate::{Config, Error, listener, metrics};

/// The sockets that a server listens on. Clients that connect wait until [`crate::Server::run`].
///
/// A program that creates a database for its server binds these first: if an address is taken, it leaves no
/// database behind.
pub struct Sockets {
    pub(crate) listeners: Vec<TcpListener>,
    pub(crate) addrs: Vec<SocketAddr>,
    pub(crate) metrics: Option<std::net::TcpListener>,
}

impl Sockets {
    /// Listens on the addresses of `config`, that of the metrics included.
    ///
    /// # Errors
    /// [`Error::Bind`] if an address is taken or not ours, [`Error::NoAddress`].
    pub fn bind(config: &Config) -> Result<Self, Error> {
        if config.bind.is_empty() {
            return Err(Error::NoAddress);
        }
        let addrs = config.bind.iter().map(|&ip| SocketAddr::new(ip, config.port));
        let listeners = addrs.map(listener::listen).collect::<Result<Vec<_>, _>>()?;
        let addrs = listeners.iter().map(|listener| listener.local_addr());
        let addrs = addrs.collect::<Result<Vec<_>, _>>();
        let addrs =
            addrs.map_err(|source| Error::Io { action: "read a socket's address", source })?;
        let metrics = config.metrics.map(metrics::listen).transpose()?;
        Ok(Self { listeners, addrs, metrics })
    }
}

impl fmt::Debug for Sockets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sockets").field("addrs", &self.addrs).finish_non_exhaustive()
    }
}
