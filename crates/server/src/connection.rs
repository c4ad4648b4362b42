//! A client's socket and its buffers.

use std::io::{self, Read, Write};
use std::time::Instant;

use mio::net::TcpStream;

use crate::answers::Answers;
use crate::buffer::Buffer;
use crate::dispatch::Dispatched;
use crate::resp::Parser;

/// A connection: bytes in, bytes out. What they mean is not known here.
pub(crate) struct Connection {
    pub(crate) socket: TcpStream,
    pub(crate) input: Buffer,
    pub(crate) parser: Parser,
    /// Replies; those in front of `sent` have left.
    pub(crate) output: Vec<u8>,
    sent: usize,
    /// There may be bytes to read.
    pub(crate) readable: bool,
    /// The socket takes bytes.
    pub(crate) writable: bool,
    /// The other side will send no more; what it has sent may still be in the socket.
    pub(crate) ending: bool,
    /// The other side sends no more, and all has been read.
    pub(crate) ended: bool,
    /// The connection is in the list of those to be served.
    pub(crate) listed: bool,
    /// The input may hold whole requests that have not been executed.
    pub(crate) has_requests: bool,
    /// When the unfinished request at the front began.
    pub(crate) request_began: Option<Instant>,
    /// What the request at the front waits for; done: nothing.
    pub(crate) waits_for: Dispatched,
    /// Replies that wait for those before them.
    pub(crate) answers: Answers,
    /// The errand of the request at the front.
    pub(crate) errand: Option<u64>,
}

impl Connection {
    pub(crate) fn new(socket: TcpStream) -> Self {
        Self {
            socket,
            input: Buffer::default(),
            parser: Parser::new(),
            output: Vec::new(),
            sent: 0,
            readable: false,
            writable: true,
            ending: false,
            ended: false,
            listed: false,
            has_requests: false,
            request_began: None,
            waits_for: Dispatched::Done,
            answers: Answers::default(),
            errand: None,
        }
    }

    /// Reads once. Returns the number of bytes that came.
    pub(crate) fn receive(&mut self) -> io::Result<usize> {
        let missing = self.parser.missing(self.input.unread().len());
        match self.input.read(&mut self.socket, missing) {
            Ok(received) => {
                self.ended = received.len == 0;
                // No event will announce an end that has been announced already.
                self.readable = (!received.drained || self.ending) && !self.ended;
                self.has_requests = received.len > 0;
                Ok(received.len)
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                self.readable = false;
                Ok(0)
            }
            // The socket stays readable.
            Err(error) if error.kind() == io::ErrorKind::Interrupted => Ok(0),
            Err(error) => Err(error),
        }
    }

    /// Bytes of replies that have not left.
    #[inline]
    pub(crate) fn unsent(&self) -> usize {
        self.output.len() - self.sent
    }

    /// Bytes of replies that have not left, those included that wait for others before them.
    #[inline]
    pub(crate) fn backlog(&self) -> usize {
        self.unsent() + self.answers.byte_len()
    }

    /// Writes once, if the socket takes bytes. Returns the number of bytes that left.
    pub(crate) fn send(&mut self) -> io::Result<usize> {
        if !self.writable || self.unsent() == 0 {
            return Ok(0);
        }
        match self.socket.write(&self.output[self.sent..]) {
            Ok(len) => {
                self.sent += len;
                if self.sent == self.output.len() {
                    self.output.clear();
                    self.sent = 0;
                    if self.output.capacity() > OUTPUT_KEPT {
                        self.output = Vec::new();
                    }
                } else {
                    self.writable = false;
                }
                Ok(len)
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                self.writable = false;
                Ok(0)
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => Ok(0),
            Err(error) => Err(error),
        }
    }

    /// Reads away what the other side still sends, so that closing does not take back replies that
    /// are on their way.
    pub(crate) fn drain(&mut self) {
        let mut ignored = [0; 4096];
        for _ in 0..16 {
            if !matches!(self.socket.read(&mut ignored), Ok(1..)) {
                return;
            }
        }
    }
}

/// The most memory for replies that an idle connection keeps, in bytes.
const OUTPUT_KEPT: usize = 64 << 10;
