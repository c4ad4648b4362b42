//! The address of a server.

use std::fmt;
use std::path::PathBuf;

use crate::{Error, Result};

/// How the name of a unix socket begins.
const UNIX: &str = "unix:";

/// The address at which a server listens.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Address {
    /// A host and a port.
    Port(String),
    /// The file of a unix socket.
    Unix(PathBuf),
}

impl Address {
    /// An address without a database.
    pub(crate) fn of_server(text: &str) -> Result<Self> {
        match Self::of_database(text)? {
            (address, None) => Ok(address),
            _ => {
                let why = "this is about all databases; an address is HOST:PORT, or unix:FILE";
                Err(Error::Usage(format!("--server {text}: {why}")))
            }
        }
    }

    /// The address, and the database if one is named.
    pub(crate) fn of_database(text: &str) -> Result<(Self, Option<u32>)> {
        let wrong = || {
            let forms = "HOST:PORT or HOST:PORT/DB, or of a unix socket unix:FILE or unix:FILE:DB";
            Error::Usage(format!("--server {text}: an address is {forms}"))
        };
        if let Some(file) = text.strip_prefix(UNIX) {
            let named = file.rsplit_once(':').and_then(|(file, db)| Some((file, db.parse().ok()?)));
            let (file, db) = named.map_or((file, None), |(file, db)| (file, Some(db)));
            return match file {
                "" => Err(wrong()),
                file => Ok((Self::Unix(file.into()), db)),
            };
        }
        let (address, db) = match text.split_once('/') {
            Some((address, db)) => (address, Some(db.parse().map_err(|_| wrong())?)),
            None => (text, None),
        };
        let (_, port) = address.rsplit_once(':').ok_or_else(wrong)?;
        port.parse::<u16>().map_err(|_| wrong())?;
        Ok((Self::Port(address.to_owned()), db))
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Port(address) => f.write_str(address),
            Self::Unix(file) => write!(f, "{UNIX}{}", file.display()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_may_name_a_database() {
        let port = |address: &str, db| (Address::Port(address.into()), db);
        assert_eq!(Address::of_database("h:1").unwrap(), port("h:1", None));
        assert_eq!(Address::of_database("[::1]:6379/12").unwrap(), port("[::1]:6379", Some(12)));
        for wrong in
            ["", "h", "h:", "h:x", "h:70000", "h:1/", "h:1/x", "/1", "h:1/-1", "unix:", "unix::1"]
        {
            assert!(matches!(Address::of_database(wrong), Err(Error::Usage(_))), "{wrong}");
        }
        assert!(Address::of_server("h:1").is_ok() && Address::of_server("h:1/0").is_err());
    }

    #[test]
    fn a_file_of_a_unix_socket_may_have_colons() {
        let unix = |file: &str, db| (Address::Unix(file.into()), db);
        for (text, expected) in [
            ("unix:/run/h.sock", unix("/run/h.sock", None)),
            ("unix:h.sock:3", unix("h.sock", Some(3))),
            ("unix:/run/a:b", unix("/run/a:b", None)),
            ("unix:/run/a:1:0", unix("/run/a:1", Some(0))),
        ] {
            assert_eq!(Address::of_database(text).unwrap(), expected);
        }
        assert_eq!(Address::of_server("unix:/run/h").unwrap().to_string(), "unix:/run/h");
    }
}
