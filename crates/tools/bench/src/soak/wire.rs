//! A connection of the soak: requests in RESP, and their replies, arrays too.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

/// How long a reply may take: a server that hangs is a finding.
const TIMEOUT: Duration = Duration::from_secs(60);

/// Bytes and replies of one reply at most: no request here has a longer reply.
const LEN_MAX: u64 = 1 << 30;

#[derive(Debug, PartialEq, Eq)]
pub(super) enum Reply {
    Word(String),
    Error(String),
    Bytes(Option<Vec<u8>>),
    Array(Vec<Reply>),
}

pub(super) struct Wire {
    stream: BufReader<TcpStream>,
    requests: Vec<u8>,
}

impl Wire {
    pub(super) fn open(addr: SocketAddr) -> io::Result<Self> {
        let stream = TcpStream::connect(addr)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(TIMEOUT))?;
        Ok(Self { stream: BufReader::new(stream), requests: Vec::new() })
    }

    /// Adds a request to those that [`Wire::send`] sends.
    pub(super) fn request(&mut self, words: &[&[u8]]) {
        let to = &mut self.requests;
        to.extend_from_slice(format!("*{}\r\n", words.len()).as_bytes());
        for word in words {
            to.extend_from_slice(format!("${}\r\n", word.len()).as_bytes());
            to.extend_from_slice(word);
            to.extend_from_slice(b"\r\n");
        }
    }

    pub(super) fn send(&mut self) -> io::Result<()> {
        let requests = std::mem::take(&mut self.requests);
        self.stream.get_mut().write_all(&requests)
    }

    pub(super) fn reply(&mut self) -> io::Result<Reply> {
        let mut line = Vec::new();
        self.stream.read_until(b'\n', &mut line)?;
        let Some(text) = line.strip_suffix(b"\r\n") else {
            return Err(io::ErrorKind::UnexpectedEof.into());
        };
        let (kind, text) = text.split_first().ok_or_else(|| no_reply(&line))?;
        let text = String::from_utf8_lossy(text).into_owned();
        let len = || text.parse().ok().filter(|len| *len <= LEN_MAX).ok_or_else(|| no_reply(&line));
        match kind {
            b'+' | b':' => Ok(Reply::Word(text)),
            b'-' => Ok(Reply::Error(text)),
            b'$' if text == "-1" => Ok(Reply::Bytes(None)),
            b'$' => {
                let len: u64 = len()?;
                let mut bytes = Vec::new();
                (&mut self.stream).take(len + 2).read_to_end(&mut bytes)?;
                if bytes.len() as u64 != len + 2 {
                    return Err(io::ErrorKind::UnexpectedEof.into());
                }
                bytes.truncate(len as usize);
                Ok(Reply::Bytes(Some(bytes)))
            }
            b'*' => (0..len()?).map(|_| self.reply()).collect::<io::Result<_>>().map(Reply::Array),
            _ => Err(no_reply(&line)),
        }
    }
}

fn no_reply(line: &[u8]) -> io::Error {
    io::Error::other(format!("`{}` is no reply", line.escape_ascii()))
}
