//! A client's socket and its buffers.

use std::io::{self, Read, Write};
use std::time::Instant;

use crate::answer::Answer;
use crate::answers::Answers;
use crate::buffer::Buffer;
use crate::dispatch::Dispatched;
use crate::output::{Output, Spares};
use crate::resp::{Args, Limits, Parser};
use crate::shard::flow_control::CREDIT;
use crate::transport::Transport;

/// A connection: bytes in, bytes out. It does not interpret them.
pub(crate) struct Connection {
    pub(crate) socket: Transport,
    pub(crate) input: Buffer,
    pub(crate) parser: Parser,
    pub(crate) output: Output,
    /// There may be bytes to read.
    pub(crate) readable: bool,
    /// The socket takes bytes.
    pub(crate) writable: bool,
    /// The client will send no more; bytes that it has sent may still be in the socket.
    pub(crate) ending: bool,
    /// The client neither sends nor reads any more.
    pub(crate) gone: bool,
    /// The other side sends no more, and all has been read.
    pub(crate) ended: bool,
    /// The connection is in the list of those to be served.
    pub(crate) listed: bool,
    /// It has got posts in this turn, which are to be sent.
    pub(crate) posted: bool,
    /// Keys of this thread were changed when it was served last.
    pub(crate) writes: bool,
    /// The input may hold whole requests that have not been executed.
    pub(crate) has_requests: bool,
    /// When the unfinished request at the front began.
    pub(crate) request_began: Option<Instant>,
    /// The event that the front request waits for; `Done` if the request does not wait.
    pub(crate) waits_for: Dispatched,
    /// Replies that wait for those before them.
    pub(crate) answers: Answers,
    /// Bytes of replies that had not left at the end of the last turn.
    pub(crate) left_unsent: usize,
    /// The cross-shard operation of the request at the front.
    pub(crate) operation: Option<u64>,
}

impl Connection {
    pub(crate) fn new(socket: Transport) -> Self {
        Self {
            socket,
            input: Buffer::default(),
            parser: Parser::new(),
            output: Output::default(),
            readable: false,
            writable: true,
            ending: false,
            gone: false,
            ended: false,
            listed: false,
            posted: false,
            writes: false,
            has_requests: false,
            request_began: None,
            waits_for: Dispatched::Done,
            answers: Answers::default(),
            left_unsent: 0,
            operation: None,
        }
    }

    /// Reads once. Returns the number of bytes that came.
    pub(crate) fn receive(&mut self) -> io::Result<usize> {
        let missing = self.parser.missing(self.input.unread().len());
        match self.input.read(&mut self.socket, missing) {
            Ok(received) => {
                self.ended = received.len == 0;
                // No event will announce an end that has been announced already.
                let has_end = self.ending || self.socket.has_ended();
                self.readable = (!received.drained || has_end) && !self.ended;
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

    /// Parses the request at the front, as far as it is there.
    #[inline]
    pub(crate) fn parse_ahead(&mut self, limits: &Limits) {
        if self.parser.parse(self.input.unread(), limits).is_err() {
            // The execution of the request reports the error to the client.
            self.parser.reset();
        }
    }

    /// The words of the request at the front, if that is parsed.
    #[inline]
    pub(crate) fn request_ahead(&self) -> Option<Args<'_>> {
        self.parser.is_done().then(|| self.parser.args(self.input.unread()))
    }

    /// Adds a message that answers no request, behind the replies to all requests before.
    pub(crate) fn push(&mut self, message: &[u8]) {
        let message = Answer::Shared(message);
        match self.answers.is_empty() {
            true => self.output.push(message),
            false => self.answers.push(message),
        }
    }

    /// Bytes of replies that have not left, those included that wait for others before them.
    #[inline]
    pub(crate) fn backlog(&self) -> usize {
        self.output.unsent() + self.answers.byte_len()
    }

    /// Whether there are bytes for the socket.
    #[inline]
    pub(crate) fn has_unsent(&self) -> bool {
        self.output.unsent() > 0 || self.socket.is_pending()
    }

    /// Whether its next request waits while clients take too much memory: always if its client is not evicted, and else
    /// while the client has not read `UNREAD_MAX` bytes of replies. A request that has borrowed parts does not wait.
    #[inline]
    pub(crate) fn waits_for_memory(&self, is_kept: bool, is_short: impl FnOnce() -> bool) -> bool {
        (is_kept || self.backlog() >= UNREAD_MAX) && self.operation.is_none() && is_short()
    }

    /// Whether it is neither read from nor served for lack of memory. A connection whose client sends no more is read
    /// to its end: its bytes in the socket are bounded.
    pub(crate) fn is_held_back(&self, is_kept: bool, is_short: impl FnOnce() -> bool) -> bool {
        let only_ends = self.ending && !self.has_requests;
        !only_ends && self.waits_for_memory(is_kept, is_short)
    }

    /// Bytes of memory.
    pub(crate) fn memory(&self) -> usize {
        let input = self.input.len() + self.input.free() + self.parser.memory();
        input
            + self.output.capacity()
            + self.answers.memory()
            + self.socket.memory()
            + size_of::<Self>()
    }

    /// Returns the memory of empty buffers.
    pub(crate) fn shrink_what_is_empty(&mut self) {
        if self.input.unread().is_empty() {
            self.input.shrink();
        }
        self.output.shrink_if_empty();
    }

    /// Whether replies are to come for which only the server waits.
    pub(crate) fn waits(&self) -> bool {
        self.waits_for != Dispatched::Done || !self.answers.is_empty()
    }

    /// The threads that have to be notified of room for their replies, and how much. Replies that wait for earlier ones
    /// count only once those have come.
    pub(crate) fn room(&mut self) -> impl Iterator<Item = (usize, usize)> {
        // Room is reported in quarters of the credit, not for each reply.
        self.answers.take_owed(CREDIT / 4)
    }

    /// Writes once, if the socket takes bytes. Returns the number of bytes that left.
    pub(crate) fn send(&mut self, spares: &mut Spares) -> io::Result<usize> {
        if !self.writable || !self.has_unsent() {
            return Ok(0);
        }
        let written = match self.output.unsent() {
            0 => self.socket.flush().map(|()| (0, true)),
            _ => self.output.write_to(&mut self.socket, spares),
        };
        match written {
            Ok((len, took_all)) => {
                // The socket announces that it takes more only if it did not take all.
                self.writable = self.socket.takes_more(took_all);
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

    /// Reads and drops the bytes that the client still sends, so that closing the socket does not discard replies on
    /// their way.
    pub(crate) fn drain(&mut self) {
        let mut ignored = [0; 4096];
        for _ in 0..16 {
            if !matches!(self.socket.read(&mut ignored), Ok(1..)) {
                return;
            }
        }
    }
}

/// Bytes of replies that a client has not read above which its next request waits while those that may be evicted take
/// too much memory.
const UNREAD_MAX: usize = 1 << 20;
