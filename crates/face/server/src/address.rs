//! The ends of connections, as clients and operators read them.

use std::fmt;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;

/// One end of a client's connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Address {
    /// An address and a port.
    Ip(SocketAddr),
    /// The path of the server's unix socket: its clients have no address of their own, so both ends have this one.
    Unix(Arc<str>),
}

impl Address {
    /// The address of a client that has no connection.
    pub(crate) fn nowhere() -> Self {
        Self::Ip(SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0)))
    }

    /// Whether it is an end on this machine.
    pub(crate) fn is_local(&self) -> bool {
        match self {
            Self::Ip(addr) => addr.ip().to_canonical().is_loopback(),
            Self::Unix(_) => true,
        }
    }

    pub(crate) fn is_unix(&self) -> bool {
        matches!(self, Self::Unix(_))
    }
}

/// As in CLIENT LIST and SLOWLOG.
impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ip(addr) => addr.fmt(f),
            Self::Unix(path) => write!(f, "{path}:0"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_loopback_and_the_unix_socket_are_local() {
        let ip = |text: &str| Address::Ip(text.parse().unwrap());
        for local in ["127.0.0.1:1", "127.9.9.9:1", "[::1]:1", "[::ffff:127.0.0.1]:1"] {
            assert!(ip(local).is_local(), "{local}");
        }
        for other in ["10.0.0.1:1", "0.0.0.0:0", "[::ffff:10.0.0.1]:1", "[fe80::1]:1"] {
            assert!(!ip(other).is_local(), "{other}");
        }
        let unix = Address::Unix("/run/halite.sock".into());
        assert!(unix.is_local() && unix.is_unix());
        assert_eq!(unix.to_string(), "/run/halite.sock:0");
    }
}
