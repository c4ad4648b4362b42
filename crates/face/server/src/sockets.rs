//! The sockets of a server, which come before its database.

use std::fmt;
use std::io;
use std::net::SocketAddr;

use crate::tls::TlsSettings;
use crate::transport::Listener;
use crate::{Config, Error, metrics};

/// The sockets that a server listens on. Clients that connect wait until [`crate::Server::run`].
///
/// A program that creates a database for its server binds these first: if an address is taken, it leaves no
/// database behind.
pub struct Sockets {
    pub(crate) listeners: Vec<Listener>,
    pub(crate) addrs: Vec<SocketAddr>,
    pub(crate) tls_addrs: Vec<SocketAddr>,
    pub(crate) tls: TlsSettings,
    pub(crate) metrics: Option<std::net::TcpListener>,
}

impl Sockets {
    /// Listens on the addresses of `config`, that of the metrics included.
    ///
    /// # Errors
    /// [`Error::Bind`] if an address is taken or not ours, [`Error::NoAddress`]; [`Error::UnixSocket`], [`Error::Tls`].
    pub fn bind(config: &Config) -> Result<Self, Error> {
        let mut options = config.tls.clone();
        let port = Some(config.port).filter(|_| config.plain_tcp);
        let has_port = !config.bind.is_empty() && (port.is_some() || options.port.is_some());
        if !has_port && config.unix_socket.is_none() {
            return Err(Error::NoAddress);
        }
        let on = |port: Option<u16>| {
            port.into_iter()
                .flat_map(|port| config.bind.iter().map(move |&ip| SocketAddr::new(ip, port)))
        };
        let tcp = on(port).map(Listener::tcp).chain(on(options.port).map(Listener::tls));
        let mut listeners = tcp.collect::<Result<Vec<_>, _>>()?;
        let addrs = addresses(&listeners, Listener::local_addr)?;
        let tls_addrs = addresses(&listeners, Listener::tls_addr)?;
        options.port = tls_addrs.first().map(SocketAddr::port);
        let tls = TlsSettings::new(options).map_err(|why| Error::Tls { why })?;
        let metrics = config.metrics.map(metrics::listen).transpose()?;
        // Last, as its file stays if the process is killed.
        listeners.extend(Listener::unix(config)?);
        Ok(Self { listeners, addrs, tls_addrs, tls, metrics })
    }
}

/// The addresses of those listeners that have one of a kind.
fn addresses(
    listeners: &[Listener],
    of: fn(&Listener) -> Option<io::Result<SocketAddr>>,
) -> Result<Vec<SocketAddr>, Error> {
    let addrs = listeners.iter().filter_map(of).collect::<Result<Vec<_>, _>>();
    addrs.map_err(|source| Error::Io { action: "read a socket's address", source })
}

impl fmt::Debug for Sockets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sockets").field("addrs", &self.addrs).finish_non_exhaustive()
    }
}
