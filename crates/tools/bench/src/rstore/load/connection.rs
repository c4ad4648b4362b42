//! One connection: bytes to send, bytes that have arrived, and requests without a reply.

use std::collections::VecDeque;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use super::source::Request;

/// Bytes that are read at once; a longer reply gets more room.
const INPUT_BYTES: usize = 64 << 10;

/// How long a server may take to accept a connection.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// A request without a reply.
#[derive(Debug, Clone, Copy)]
pub(super) struct Pending {
    pub(super) request: Request,
    /// When it was due (open loop) or encoded (closed loop), in ns since the start of the phase.
    pub(super) due_ns: u64,
}

pub(super) struct Connection {
    pub(super) stream: TcpStream,
    /// Requests that are not sent, from `sent` on.
    pub(super) out: Vec<u8>,
    sent: usize,
    input: Box<[u8]>,
    /// The bytes that have arrived and are not parsed lie from here...
    start: usize,
    /// ... to here.
    end: usize,
    pub(super) pending: VecDeque<Pending>,
    /// Where its next scan goes on.
    pub(super) cursor: u64,
}

impl Connection {
    pub(super) fn open(addr: SocketAddr) -> io::Result<Self> {
        let stream = TcpStream::connect_timeout(&addr, CONNECT_TIMEOUT)?;
        stream.set_nodelay(true)?;
        stream.set_nonblocking(true)?;
        Ok(Self {
            stream,
            out: Vec::new(),
            sent: 0,
            input: vec![0; INPUT_BYTES].into(),
            start: 0,
            end: 0,
            pending: VecDeque::new(),
            cursor: 0,
        })
    }

    /// Sends as much as the socket takes; the rest when it can take more.
    pub(super) fn send(&mut self) -> io::Result<()> {
        while self.sent < self.out.len() {
            match self.stream.write(&self.out[self.sent..]) {
                Ok(0) => return Err(ErrorKind::WriteZero.into()),
                Ok(len) => self.sent += len,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(error) => return Err(error),
            }
        }
        self.out.clear();
        self.sent = 0;
        Ok(())
    }

    /// Reads once. Returns false once the socket is empty: the epoll then reports the next arrival, so a read that did
    /// not fill the buffer is the last one.
    pub(super) fn receive(&mut self) -> io::Result<bool> {
        if self.start > 0 {
            self.input.copy_within(self.start..self.end, 0);
            (self.start, self.end) = (0, self.end - self.start);
        }
        if self.end == self.input.len() {
            let mut longer = vec![0; 2 * self.input.len()];
            longer[..self.end].copy_from_slice(&self.input);
            self.input = longer.into();
        }
        loop {
            let free = self.input.len() - self.end;
            match self.stream.read(&mut self.input[self.end..]) {
                Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
                Ok(len) => {
                    self.end += len;
                    return Ok(len == free);
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(false),
                Err(error) => return Err(error),
            }
        }
    }

    /// The bytes that have arrived, and the requests that they answer.
    pub(super) fn arrived(&mut self) -> (&[u8], &mut VecDeque<Pending>) {
        (&self.input[self.start..self.end], &mut self.pending)
    }

    /// This many bytes of it were parsed.
    pub(super) fn consume(&mut self, len: usize) {
        self.start += len;
    }
}
