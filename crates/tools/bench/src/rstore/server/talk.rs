//! A connection that asks one thing at a time.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use crate::rstore::load::{Protocol, Target};

/// How long a server may take to answer.
const TIMEOUT: Duration = Duration::from_secs(600);

pub(crate) struct Talk(BufReader<TcpStream>);

/// A server's reply to one request.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Answered {
    /// A string, a number, or the word of a status.
    Bytes(Vec<u8>),
    /// No value.
    Nothing,
    /// An error.
    Error(String),
}

impl Talk {
    pub(crate) fn open(addr: SocketAddr) -> io::Result<Self> {
        let stream = TcpStream::connect(addr)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(TIMEOUT))?;
        Ok(Self(BufReader::new(stream)))
    }

    /// Whether it answers, and not only that it is busy loading.
    pub(crate) fn ping(&mut self, target: &Target) -> io::Result<bool> {
        match target.protocol {
            Protocol::Resp => Ok(self.ask(&[b"PING"])? == Answered::Bytes(b"PONG".to_vec())),
            Protocol::Memcached => {
                self.0.get_mut().write_all(b"version\r\n")?;
                Ok(self.line()?.starts_with(b"VERSION"))
            }
        }
    }

    /// A command whose answer is text.
    pub(crate) fn text(&mut self, words: &[&str]) -> io::Result<String> {
        let words: Vec<_> = words.iter().map(|word| word.as_bytes()).collect();
        match self.ask(&words)? {
            Answered::Bytes(bytes) => Ok(String::from_utf8_lossy(&bytes).into_owned()),
            Answered::Nothing => Ok(String::new()),
            Answered::Error(error) => Err(io::Error::other(error)),
        }
    }

    /// A command in RESP, and its answer, which is no array.
    pub(crate) fn ask(&mut self, words: &[&[u8]]) -> io::Result<Answered> {
        let mut request = format!("*{}\r\n", words.len()).into_bytes();
        for word in words {
            request.extend_from_slice(format!("${}\r\n", word.len()).as_bytes());
            request.extend_from_slice(word);
            request.extend_from_slice(b"\r\n");
        }
        self.0.get_mut().write_all(&request)?;
        let line = self.line()?;
        let text = String::from_utf8_lossy(&line[1..]).into_owned();
        match line[0] {
            b'+' | b':' => Ok(Answered::Bytes(line[1..].to_vec())),
            b'-' => Ok(Answered::Error(text)),
            b'$' if text == "-1" => Ok(Answered::Nothing),
            b'$' => {
                let len: usize = text.parse().map_err(|_| no_reply(&line))?;
                let mut body = Vec::new();
                (&mut self.0).take(len as u64 + 2).read_to_end(&mut body)?;
                if body.len() < len + 2 {
                    return Err(io::ErrorKind::UnexpectedEof.into());
                }
                body.truncate(len);
                Ok(Answered::Bytes(body))
            }
            _ => Err(no_reply(&line)),
        }
    }

    /// A line that is not empty, without its end.
    fn line(&mut self) -> io::Result<Vec<u8>> {
        let mut line = Vec::new();
        self.0.read_until(b'\n', &mut line)?;
        match line.strip_suffix(b"\r\n") {
            Some(text) if !text.is_empty() => Ok(text.to_vec()),
            _ if line.is_empty() => Err(io::ErrorKind::UnexpectedEof.into()),
            _ => Err(no_reply(&line)),
        }
    }
}

fn no_reply(line: &[u8]) -> io::Error {
    io::Error::other(format!("`{}` is no reply", line.escape_ascii()))
}
