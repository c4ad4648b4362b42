//! Requests and replies as bytes.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use halite_resp_client::encode;

/// The words of a request.
pub(crate) type Request = Vec<Vec<u8>>;

/// How long a reply may take.
const PATIENCE: Duration = Duration::from_secs(30);

/// A connection to a server.
pub(crate) struct Wire {
    socket: BufReader<TcpStream>,
}

impl Wire {
    pub(crate) fn connect(addr: SocketAddr) -> io::Result<Self> {
        let socket = TcpStream::connect(addr)?;
        socket.set_nodelay(true)?;
        socket.set_read_timeout(Some(PATIENCE))?;
        Ok(Self { socket: BufReader::new(socket) })
    }

    /// Sends requests together.
    pub(crate) fn send(&mut self, requests: &[Request]) -> io::Result<()> {
        let mut bytes = Vec::new();
        requests.iter().for_each(|words| encode(&mut bytes, words));
        self.socket.get_mut().write_all(&bytes)
    }

    /// The bytes of the next reply.
    pub(crate) fn reply(&mut self) -> io::Result<Vec<u8>> {
        let mut reply = Vec::new();
        self.read_item(&mut reply)?;
        Ok(reply)
    }

    /// Sends requests together, and returns the bytes of their replies.
    pub(crate) fn call_all(&mut self, requests: &[Request]) -> io::Result<Vec<Vec<u8>>> {
        self.send(requests)?;
        requests.iter().map(|_| self.reply()).collect()
    }

    /// Sends a request, and returns the bytes of its reply.
    pub(crate) fn call(&mut self, words: &[&str]) -> io::Result<Vec<u8>> {
        self.send(&[words.iter().map(|word| word.as_bytes().to_vec()).collect()])?;
        self.reply()
    }

    /// Appends an item of a reply, those that it consists of included.
    fn read_item(&mut self, reply: &mut Vec<u8>) -> io::Result<()> {
        let start = reply.len();
        if self.socket.read_until(b'\n', reply)? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let line = &reply[start..];
        let number = std::str::from_utf8(&line[1..]).ok().and_then(|text| text.trim().parse().ok());
        let number = usize::try_from(number.unwrap_or(-1i64)).unwrap_or(0);
        match line[0] {
            b'$' | b'=' if line[1] != b'-' => {
                let end = reply.len();
                reply.resize(end + number + 2, 0);
                self.socket.read_exact(&mut reply[end..])
            }
            b'*' | b'~' | b'>' => (0..number).try_for_each(|_| self.read_item(reply)),
            b'%' => (0..2 * number).try_for_each(|_| self.read_item(reply)),
            // An attribute comes before its item.
            b'|' => (0..2 * number + 1).try_for_each(|_| self.read_item(reply)),
            _ => Ok(()),
        }
    }
}

/// The length of the first item of some bytes.
pub(crate) fn item_len(bytes: &[u8]) -> usize {
    let Some(line) = bytes.iter().position(|byte| *byte == b'\n').map(|end| end + 1) else {
        return bytes.len();
    };
    let number =
        std::str::from_utf8(&bytes[1..line]).ok().and_then(|text| text.trim().parse().ok());
    let number = usize::try_from(number.unwrap_or(-1i64)).unwrap_or(0);
    let items = |count| (0..count).fold(line, |at, _| at + item_len(&bytes[at.min(bytes.len())..]));
    match bytes[0] {
        b'$' | b'=' if bytes[1] != b'-' => (line + number + 2).min(bytes.len()),
        b'*' | b'~' | b'>' => items(number),
        b'%' => items(2 * number),
        b'|' => items(2 * number + 1),
        _ => line,
    }
}

/// A request as a person would write it.
pub(crate) fn shown(request: &[Vec<u8>]) -> String {
    let words = request.iter().map(|word| match word.len() {
        0 => "''".to_owned(),
        1..=80 => word.escape_ascii().to_string(),
        len => format!("{}...({len} bytes)", word[..60].escape_ascii()),
    });
    words.collect::<Vec<_>>().join(" ")
}

/// A reply, shortened if it is long.
pub(crate) fn shown_reply(reply: &[u8], from: usize) -> String {
    let start = from.saturating_sub(120);
    let end = reply.len().min(from + 120);
    let before = if start > 0 { "..." } else { "" };
    let behind = if end < reply.len() { "..." } else { "" };
    format!("{before}{}{behind}", reply[start..end].escape_ascii())
}
