//! Replies, read from a connection within limits.

use std::io::{self, BufRead, ErrorKind, Read};

use crate::head::{Head, Malformed};

/// A reply of a server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reply {
    /// A status, as `OK`.
    Status(String),
    /// An error: its code, a space, and a text.
    Error(String),
    /// A number.
    Integer(i64),
    /// No value.
    Null,
    /// A string of bytes.
    Bulk(Vec<u8>),
    /// A text, with its format before it, as `txt:`.
    Verbatim(Vec<u8>),
    /// Replies in order.
    Array(Vec<Reply>),
    /// Replies without an order.
    Set(Vec<Reply>),
    /// A message that answers no request.
    Push(Vec<Reply>),
    /// Pairs of replies.
    Map(Vec<(Reply, Reply)>),
}

/// The most that a server may send as one reply, and a client queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of a line: of a status, an error, or a length.
    pub line_len_max: usize,
    /// Bytes of a string.
    pub string_len_max: usize,
    /// Items of a reply, those of the collections in it included.
    pub items_max: usize,
    /// Collections within each other.
    pub depth_max: usize,
    /// Bytes of the requests that are queued.
    pub queue_len_max: usize,
}

impl Default for Limits {
    /// Those of Redis: strings of 512 MiB, and a million items.
    fn default() -> Self {
        Self {
            line_len_max: 64 << 10,
            string_len_max: 512 << 20,
            items_max: 1 << 20,
            depth_max: 16,
            queue_len_max: 1 << 30,
        }
    }
}

/// Reads one reply.
///
/// # Errors
/// [`ErrorKind::UnexpectedEof`] if the connection ends before or within it; [`ErrorKind::InvalidData`] if the bytes
/// are no reply, or one beyond the limits: the connection is of no use then. Those of the reader.
pub fn read_reply(from: &mut impl BufRead, limits: &Limits) -> io::Result<Reply> {
    let mut reading = Reading { from, limits, items: 0 };
    reading.reply(0)
}

struct Reading<'a, R> {
    from: &'a mut R,
    limits: &'a Limits,
    /// Items of the collections so far.
    items: usize,
}

impl<R: BufRead> Reading<'_, R> {
    fn reply(&mut self, depth: usize) -> io::Result<Reply> {
        let line = self.line()?;
        let head = Head::parse(&line).map_err(|error| no_reply(error, &line))?;
        let text = |text: &[u8]| String::from_utf8_lossy(text).into_owned();
        Ok(match head {
            Head::Status(status) => Reply::Status(text(status)),
            Head::Error(error) => Reply::Error(text(error)),
            Head::Integer(number) => Reply::Integer(number),
            Head::Null => Reply::Null,
            Head::Bulk(len) => Reply::Bulk(self.string(len)?),
            Head::Verbatim(len) => Reply::Verbatim(self.string(len)?),
            Head::Array(len) => Reply::Array(self.items(len, depth)?),
            Head::Set(len) => Reply::Set(self.items(len, depth)?),
            Head::Push(len) => Reply::Push(self.items(len, depth)?),
            Head::Map(len) => {
                let items = self.items(len.saturating_mul(2), depth)?;
                let mut items = items.into_iter();
                let pairs = std::iter::from_fn(|| items.next().zip(items.next()));
                Reply::Map(pairs.collect())
            }
        })
    }

    /// A line without its end.
    fn line(&mut self) -> io::Result<Vec<u8>> {
        let mut line = Vec::new();
        let len_max = self.limits.line_len_max;
        self.from.by_ref().take(len_max as u64 + 2).read_until(b'\n', &mut line)?;
        match line.last() {
            Some(b'\n') => {}
            _ if line.len() > len_max => return Err(beyond("a line", len_max)),
            _ => return Err(ErrorKind::UnexpectedEof.into()),
        }
        line.pop();
        match line.pop() {
            Some(b'\r') => Ok(line),
            _ => Err(no_reply(Malformed, &line)),
        }
    }

    fn string(&mut self, len: usize) -> io::Result<Vec<u8>> {
        if len > self.limits.string_len_max {
            return Err(beyond("a string", self.limits.string_len_max));
        }
        let mut bytes = Vec::new();
        self.from.by_ref().take(len as u64 + 2).read_to_end(&mut bytes)?;
        if bytes.len() < len + 2 {
            return Err(ErrorKind::UnexpectedEof.into());
        }
        if !bytes.ends_with(b"\r\n") {
            return Err(no_reply(Malformed, &bytes[len..]));
        }
        bytes.truncate(len);
        Ok(bytes)
    }

    fn items(&mut self, len: usize, depth: usize) -> io::Result<Vec<Reply>> {
        self.items = self.items.saturating_add(len);
        if self.items > self.limits.items_max {
            return Err(beyond("the items", self.limits.items_max));
        }
        if depth >= self.limits.depth_max {
            return Err(beyond("the collections within each other", self.limits.depth_max));
        }
        (0..len).map(|_| self.reply(depth + 1)).collect()
    }
}

fn no_reply(error: Malformed, bytes: &[u8]) -> io::Error {
    const SHOWN: usize = 60;
    let shown = bytes[..bytes.len().min(SHOWN)].escape_ascii();
    io::Error::new(ErrorKind::InvalidData, format!("{error}: `{shown}`"))
}

fn beyond(part: &str, most: usize) -> io::Error {
    let why = format!("{part} of a reply would be longer than this client reads: {most}");
    io::Error::new(ErrorKind::InvalidData, why)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(mut bytes: &[u8], limits: &Limits) -> io::Result<Reply> {
        let reply = read_reply(&mut bytes, limits)?;
        assert!(bytes.is_empty(), "`{}` is left", bytes.escape_ascii());
        Ok(reply)
    }

    #[test]
    fn replies_of_all_kinds_are_read_whole_or_not_at_all() {
        let bulk = |text: &str| Reply::Bulk(text.as_bytes().to_vec());
        for (bytes, expected) in [
            (&b"+OK\r\n"[..], Reply::Status("OK".to_owned())),
            (b"-ERR no\r\n", Reply::Error("ERR no".to_owned())),
            (b":-3\r\n", Reply::Integer(-3)),
            (b"_\r\n", Reply::Null),
            (b"$-1\r\n", Reply::Null),
            (b"*-1\r\n", Reply::Null),
            (b"$4\r\na\r\nb\r\n", bulk("a\r\nb")),
            (b"=5\r\ntxt:a\r\n", Reply::Verbatim(b"txt:a".to_vec())),
            (b"*2\r\n:1\r\n*1\r\n$1\r\na\r\n", {
                Reply::Array(vec![Reply::Integer(1), Reply::Array(vec![bulk("a")])])
            }),
            (b"~1\r\n$1\r\na\r\n", Reply::Set(vec![bulk("a")])),
            (b">1\r\n$1\r\na\r\n", Reply::Push(vec![bulk("a")])),
            (b"%1\r\n$1\r\na\r\n:7\r\n", Reply::Map(vec![(bulk("a"), Reply::Integer(7))])),
        ] {
            assert_eq!(read(bytes, &Limits::default()).unwrap(), expected);
            for len in 0..bytes.len() {
                let error = read(&bytes[..len], &Limits::default()).unwrap_err();
                assert_eq!(
                    error.kind(),
                    ErrorKind::UnexpectedEof,
                    "{}",
                    bytes[..len].escape_ascii()
                );
            }
        }
    }

    #[test]
    fn no_reply_is_longer_than_the_limits() {
        let limits = Limits {
            line_len_max: 4,
            string_len_max: 3,
            items_max: 5,
            depth_max: 2,
            ..Limits::default()
        };
        for bytes in [
            &b"+abc\r\n"[..],
            b"$3\r\nabc\r\n",
            b"*5\r\n:1\r\n:2\r\n:3\r\n:4\r\n:5\r\n",
            b"*1\r\n*1\r\n:1\r\n",
            b"%2\r\n:1\r\n:2\r\n:3\r\n:4\r\n",
        ] {
            assert!(read(bytes, &limits).is_ok(), "{}", bytes.escape_ascii());
        }
        for bytes in [
            &b"+abcdef\r\n"[..],
            b"$4\r\nabcd\r\n",
            b"*6\r\n",
            b"*2\r\n*4\r\n",
            b"*1\r\n*1\r\n*1\r\n",
            b"%3\r\n",
            b"$999999999999\r\n",
            b"*99\r\n",
            b"!oops\r\n",
            b"$1\r\nabc",
        ] {
            let error = read(bytes, &limits).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidData, "{}", bytes.escape_ascii());
        }
    }
}
