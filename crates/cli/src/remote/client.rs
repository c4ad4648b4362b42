//! A client of a server.

use std::io::ErrorKind;
use std::time::Duration;

use halite_resp_client::{Limits, Reply};

use super::Address;
use crate::{Error, Result};

/// How long the server may be silent.
const PATIENCE: Duration = Duration::from_secs(120);

/// A connection to a server.
pub(crate) struct Client {
    connection: halite_resp_client::Client,
    /// The server's name in errors.
    address: String,
}

impl Client {
    /// Connects to `address`, and says the password if there is one.
    pub(crate) fn connect(address: &Address, password: Option<&str>) -> Result<Self> {
        // An array may have as many operations as a transaction of the largest size.
        let limits = Limits { items_max: 1 << 26, ..Limits::default() };
        let connection = match address {
            Address::Port(address) => {
                halite_resp_client::Client::connect(address, PATIENCE, limits)
            }
            Address::Unix(path) => halite_resp_client::Client::connect_unix(path, PATIENCE, limits),
        };
        let address = address.to_string();
        let connection = connection.map_err(|error| not_reached(&address, error))?;
        let mut client = Self { connection, address };
        if let Some(password) = password {
            // With the user's name, a server that has no password takes any.
            client.call(&[b"AUTH", b"default", password.as_bytes()])?;
        }
        Ok(client)
    }

    /// The server's address.
    pub(crate) fn address(&self) -> &str {
        &self.address
    }

    /// Sends a request, and returns its reply; `None` if that is nil.
    ///
    /// # Errors
    /// The server's error reply; a missing reply.
    pub(crate) fn call(&mut self, words: &[&[u8]]) -> Result<Option<Vec<u8>>> {
        match self.ask(words)? {
            Reply::Status(text) => Ok(Some(text.into_bytes())),
            Reply::Null => Ok(None),
            Reply::Bulk(bytes) => Ok(Some(bytes)),
            _ => Err(self.unexpected()),
        }
    }

    /// Sends a request, and returns its reply of any kind but an error.
    ///
    /// # Errors
    /// Those of [`Client::call`].
    pub(crate) fn ask(&mut self, words: &[&[u8]]) -> Result<Reply> {
        match self.connection.call(words) {
            Ok(Reply::Error(text)) => Err(Error::input(&self.address, refusal(&text))),
            Ok(reply) => Ok(reply),
            Err(error) => Err(match error.kind() {
                ErrorKind::UnexpectedEof => self.strange("it ended early"),
                ErrorKind::InvalidData => self.strange(&error.to_string()),
                _ => Error::io(&self.address, error),
            }),
        }
    }

    /// The error for a reply of another kind than the request has.
    pub(crate) fn unexpected(&self) -> Error {
        self.strange("it is of no kind that is expected")
    }

    fn strange(&self, why: &str) -> Error {
        let why = format!("its reply is not that of a Halite server: {why}; name another address");
        Error::input(&self.address, why)
    }
}

/// The error for a server that is not there.
fn not_reached(address: &str, error: std::io::Error) -> Error {
    let why = format!("{error}; start the server with `halite serve`, or name another address");
    Error::input(address, why)
}

/// A server's error reply, with the remedy if this program knows it.
fn refusal(text: &str) -> String {
    let hint = match text.split(' ').next() {
        Some("NOAUTH" | "WRONGPASS") => {
            "; --password-file or HALITE_REQUIREPASS gives the password"
        }
        _ if text.starts_with("ERR unknown command") => {
            "; this takes a Halite server, of this version"
        }
        _ => "",
    };
    format!("{text}{hint}")
}
