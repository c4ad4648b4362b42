//! A client of a server, for `backup --server`.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use crate::{Error, Result};

/// How long the server may be silent.
const PATIENCE: Duration = Duration::from_secs(120);
/// The longest reply, in bytes.
const REPLY_LEN_MAX: usize = 1 << 20;

/// A connection to a server.
pub(crate) struct Client {
    socket: BufReader<TcpStream>,
    /// The server's name in errors.
    address: String,
}

impl Client {
    /// Connects to `address`, a host and a port, and says the password if there is one.
    pub(crate) fn connect(address: &str, password: Option<&str>) -> Result<Self> {
        let socket = TcpStream::connect(address).map_err(|error| Error::io(address, error))?;
        let timeouts = socket
            .set_read_timeout(Some(PATIENCE))
            .and_then(|()| socket.set_write_timeout(Some(PATIENCE)))
            .and_then(|()| socket.set_nodelay(true));
        timeouts.map_err(|error| Error::io(address, error))?;
        let mut client =
            Self { socket: BufReader::with_capacity(1 << 18, socket), address: address.to_owned() };
        if let Some(password) = password {
            // With the user's name, a server that has no password takes any.
            client.call(&[b"AUTH", b"default", password.as_bytes()])?;
        }
        Ok(client)
    }

    /// Sends a request, and returns its reply; `None` if that is nil.
    ///
    /// # Errors
    /// The server's error reply; a missing reply.
    pub(crate) fn call(&mut self, words: &[&[u8]]) -> Result<Option<Vec<u8>>> {
        let mut request = format!("*{}\r\n", words.len()).into_bytes();
        for word in words {
            request.extend(format!("${}\r\n", word.len()).bytes());
            request.extend_from_slice(word);
            request.extend_from_slice(b"\r\n");
        }
        let address = self.address.clone();
        let failed = |error| Error::io(&address, error);
        self.socket.get_mut().write_all(&request).map_err(failed)?;
        let mut line = Vec::new();
        let mut head = self.socket.by_ref().take(REPLY_LEN_MAX as u64);
        head.read_until(b'\n', &mut line).map_err(failed)?;
        let line = String::from_utf8_lossy(&line).into_owned();
        let line = line.strip_suffix("\r\n").ok_or_else(|| self.strange("it ended early"))?;
        match line.split_at_checked(1) {
            Some(("+", text)) => Ok(Some(text.as_bytes().to_vec())),
            Some(("-", text)) => Err(Error::input(&self.address, refusal(text))),
            Some(("$", "-1")) => Ok(None),
            Some(("$", len)) => {
                let len = len.parse().ok().filter(|&len| len <= REPLY_LEN_MAX);
                let len = len.ok_or_else(|| self.strange("it is too long"))?;
                let mut bytes = vec![0; len + 2];
                self.socket.read_exact(&mut bytes).map_err(failed)?;
                bytes.truncate(len);
                Ok(Some(bytes))
            }
            _ => Err(self.strange("it is of no kind that is expected")),
        }
    }

    fn strange(&self, why: &str) -> Error {
        let why = format!("its reply is not that of a Halite server: {why}; name another address");
        Error::input(&self.address, why)
    }
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
