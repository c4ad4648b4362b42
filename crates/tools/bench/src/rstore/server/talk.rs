//! A connection that asks one thing at a time.

use std::io::{self, BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use halite_resp_client::{Client, Limits, Reply};

use crate::rstore::load::{Protocol, Target};

/// How long a server may take to answer.
const TIMEOUT: Duration = Duration::from_secs(600);

pub(crate) struct Talk(Client);

impl Talk {
    pub(crate) fn open(addr: SocketAddr) -> io::Result<Self> {
        Client::connect(addr, TIMEOUT, Limits::default()).map(Self)
    }

    /// A command whose answer is text or a number.
    pub(crate) fn text(&mut self, words: &[&str]) -> io::Result<String> {
        let words: Vec<_> = words.iter().map(|word| word.as_bytes()).collect();
        match self.ask(&words)? {
            Reply::Status(text) => Ok(text),
            Reply::Integer(number) => Ok(number.to_string()),
            Reply::Bulk(bytes) | Reply::Verbatim(bytes) => {
                Ok(String::from_utf8_lossy(&bytes).into_owned())
            }
            Reply::Null => Ok(String::new()),
            Reply::Error(error) => Err(io::Error::other(error)),
            Reply::Array(_) | Reply::Set(_) | Reply::Push(_) | Reply::Map(_) => {
                Err(io::Error::other("a collection is no text"))
            }
        }
    }

    /// A command in RESP, and its answer.
    pub(crate) fn ask(&mut self, words: &[&[u8]]) -> io::Result<Reply> {
        self.0.call(words)
    }
}

/// Whether a server answers, and not only that it is busy loading.
pub(crate) fn is_ready(target: &Target) -> io::Result<bool> {
    match target.protocol {
        Protocol::Resp => {
            let reply = Talk::open(target.addr)?.ask(&[b"PING"])?;
            Ok(reply == Reply::Status("PONG".to_owned()))
        }
        Protocol::Memcached => {
            let mut stream = TcpStream::connect(target.addr)?;
            stream.set_read_timeout(Some(TIMEOUT))?;
            stream.write_all(b"version\r\n")?;
            let mut line = Vec::new();
            BufReader::new(stream).read_until(b'\n', &mut line)?;
            Ok(line.starts_with(b"VERSION") && line.ends_with(b"\r\n"))
        }
    }
}
