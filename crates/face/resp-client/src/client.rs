//! A blocking connection to a server.

use std::io::{self, BufReader, ErrorKind};
use std::net::{TcpStream, ToSocketAddrs};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use crate::reply::{Limits, Reply, read_reply};
use crate::request::encode;
use crate::socket::Socket;

/// Bytes that are read at once.
const INPUT_BYTES: usize = 64 << 10;

/// Memory that is kept for the next requests, in bytes.
const QUEUE_KEPT: usize = 1 << 20;

/// A blocking connection to a server.
#[derive(Debug)]
pub struct Client {
    socket: BufReader<Socket>,
    /// Requests that are queued.
    queue: Vec<u8>,
    limits: Limits,
}

impl Client {
    /// Connects to a server, which may be silent for `patience`, and not longer.
    ///
    /// # Errors
    /// Those of the network.
    pub fn connect(
        address: impl ToSocketAddrs,
        patience: Duration,
        limits: Limits,
    ) -> io::Result<Self> {
        let socket = TcpStream::connect(address)?;
        socket.set_read_timeout(Some(patience))?;
        socket.set_write_timeout(Some(patience))?;
        socket.set_nodelay(true)?;
        Ok(Self::over(Socket::Tcp(socket), limits))
    }

    /// Connects to the server that listens on a unix socket, which may be silent for `patience`, and not longer.
    ///
    /// # Errors
    /// Those of the system.
    pub fn connect_unix(path: &Path, patience: Duration, limits: Limits) -> io::Result<Self> {
        let socket = UnixStream::connect(path)?;
        socket.set_read_timeout(Some(patience))?;
        socket.set_write_timeout(Some(patience))?;
        Ok(Self::over(Socket::Unix(socket), limits))
    }

    fn over(socket: Socket, limits: Limits) -> Self {
        let socket = BufReader::with_capacity(INPUT_BYTES, socket);
        Self { socket, queue: Vec::new(), limits }
    }

    /// Adds a request to those that [`Client::send`] sends.
    ///
    /// # Errors
    /// [`ErrorKind::OutOfMemory`] if more bytes would be queued than the limits allow; nothing is queued then.
    pub fn queue(&mut self, words: &[&[u8]]) -> io::Result<()> {
        let before = self.queue.len();
        let len = words.iter().fold(before, |len, word| len.saturating_add(word.len()));
        if len <= self.limits.queue_len_max {
            encode(&mut self.queue, words);
        }
        // The heads of the words count, too.
        if len.max(self.queue.len()) > self.limits.queue_len_max {
            self.queue.truncate(before);
            let why = format!("{} bytes of requests are the most", self.limits.queue_len_max);
            return Err(io::Error::new(ErrorKind::OutOfMemory, why));
        }
        Ok(())
    }

    /// Sends the queued requests.
    ///
    /// # Errors
    /// Those of the network: which of the requests have arrived is unknown then.
    pub fn send(&mut self) -> io::Result<()> {
        let sent = self.socket.get_mut().send(&self.queue);
        self.queue.clear();
        self.queue.shrink_to(QUEUE_KEPT);
        sent
    }

    /// Waits for the next reply.
    ///
    /// # Errors
    /// Those of [`read_reply`]; silence of the server for longer than the patience.
    pub fn reply(&mut self) -> io::Result<Reply> {
        read_reply(&mut self.socket, &self.limits)
    }

    /// Sends a request, behind those that are queued, and waits for a reply.
    ///
    /// # Errors
    /// Those of [`Client::queue`], [`Client::send`] and [`Client::reply`].
    pub fn call(&mut self, words: &[&[u8]]) -> io::Result<Reply> {
        self.queue(words)?;
        self.send()?;
        self.reply()
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::TcpListener;
    use std::os::unix::net::UnixListener;
    use std::thread;

    use super::*;

    const PATIENCE: Duration = Duration::from_secs(60);

    /// A server that says this to the first client, and returns what the client has sent.
    fn server(says: &'static [u8]) -> (std::net::SocketAddr, thread::JoinHandle<Vec<u8>>) {
        let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let address = listener.local_addr().unwrap();
        let server = thread::spawn(move || {
            let (mut socket, _) = listener.accept().unwrap();
            socket.write_all(says).unwrap();
            socket.shutdown(std::net::Shutdown::Write).unwrap();
            let mut heard = Vec::new();
            socket.read_to_end(&mut heard).unwrap();
            heard
        });
        (address, server)
    }

    #[test]
    fn replies_come_in_the_order_of_requests_and_the_end_is_an_error() {
        let (address, server) = server(b"+OK\r\n:1\r\n$1\r\nv\r\n$3\r\nha");
        let mut client = Client::connect(address, PATIENCE, Limits::default()).unwrap();
        client.queue(&[b"SET", b"k", b"v"]).unwrap();
        client.queue(&[b"EXISTS", b"k"]).unwrap();
        client.send().unwrap();
        assert_eq!(client.reply().unwrap(), Reply::Status("OK".to_owned()));
        assert_eq!(client.reply().unwrap(), Reply::Integer(1));
        assert_eq!(client.call(&[b"GET", b"k"]).unwrap(), Reply::Bulk(b"v".to_vec()));
        assert_eq!(client.reply().unwrap_err().kind(), ErrorKind::UnexpectedEof);
        drop(client);
        let mut expected = Vec::new();
        encode(&mut expected, &["SET", "k", "v"]);
        encode(&mut expected, &["EXISTS", "k"]);
        encode(&mut expected, &["GET", "k"]);
        assert_eq!(server.join().unwrap(), expected);
    }

    #[test]
    fn a_unix_socket_is_spoken_with_as_a_port_is() {
        let folder = std::env::temp_dir().join(format!("halite-resp-{}", std::process::id()));
        std::fs::create_dir(&folder).unwrap();
        let path = folder.join("socket");
        let listener = UnixListener::bind(&path).unwrap();
        let server = thread::spawn(move || {
            let (mut socket, _) = listener.accept().unwrap();
            socket.write_all(b"+PONG\r\n").unwrap();
            socket.shutdown(std::net::Shutdown::Write).unwrap();
            let mut heard = Vec::new();
            socket.read_to_end(&mut heard).unwrap();
            heard
        });
        let mut client = Client::connect_unix(&path, PATIENCE, Limits::default()).unwrap();
        assert_eq!(client.call(&[b"PING"]).unwrap(), Reply::Status("PONG".to_owned()));
        drop(client);
        assert_eq!(server.join().unwrap(), b"*1\r\n$4\r\nPING\r\n");
        std::fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn requests_beyond_the_limit_are_not_queued() {
        let (address, server) = server(b"");
        let limits = Limits { queue_len_max: 30, ..Limits::default() };
        let mut client = Client::connect(address, PATIENCE, limits).unwrap();
        client.queue(&[b"PING"]).unwrap();
        let refused = client.queue(&[b"ECHO", &b"x".repeat(30)]).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::OutOfMemory);
        client.send().unwrap();
        drop(client);
        assert_eq!(server.join().unwrap(), b"*1\r\n$4\r\nPING\r\n");
    }
}
