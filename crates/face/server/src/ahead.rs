//! Requests that are parsed ahead.
//!
//! Up to [`AHEAD`] of a connection's requests that have arrived are parsed together, and the memory that all of them
//! will read is prefetched before the first is executed: so their cache misses overlap. The first requests of
//! connections that are ready at once are prefetched together, too (`event_loop`). If a request cannot be executed, for
//! any reason, those behind it are parsed again later.

use std::ops::Range;

use crate::resp::{Limits, Parser, ProtocolError, Step};
use crate::store::Store;

/// The most requests that are parsed ahead.
pub(crate) const AHEAD: usize = 16;

/// The next requests of a connection.
#[derive(Default)]
pub(crate) struct Ahead {
    /// One parser for each request. The parsers outside `parsed` are at the start of a request.
    parsers: [Parser; AHEAD],
    /// The requests to come.
    parsed: Range<usize>,
}

impl Ahead {
    /// Parses up to `count_max` requests that `input` begins with, when none is left: the first with the connection's
    /// `parser`, which may have seen a part of it. Afterwards `parser` has seen the arrived part of the request behind
    /// them.
    ///
    /// # Errors
    /// The error in the first request.
    pub(crate) fn parse(
        &mut self,
        parser: &mut Parser,
        input: &[u8],
        limits: &Limits,
        count_max: usize,
    ) -> Result<(), ProtocolError> {
        debug_assert!(self.is_empty(), "requests are executed in their order");
        self.parsed = 0..0;
        let mut at = 0;
        for ahead in self.parsers.iter_mut().take(count_max) {
            match parser.parse(&input[at..], limits) {
                Ok(Step::Request { len }) => at += len,
                Ok(Step::More) => break,
                // The error is reported after the replies to the requests before it.
                Err(_) if at > 0 => {
                    parser.reset();
                    break;
                }
                Err(error) => return Err(error),
            }
            std::mem::swap(parser, ahead);
            self.parsed.end += 1;
            if at == input.len() {
                break;
            }
        }
        Ok(())
    }

    /// Whether no request is parsed.
    pub(crate) fn is_empty(&self) -> bool {
        self.parsed.is_empty()
    }

    /// The parser of the next request, which `input` begins with.
    pub(crate) fn first(&self) -> Option<&Parser> {
        self.parsers[self.parsed.clone()].first()
    }

    /// Goes on behind the next request.
    pub(crate) fn pop(&mut self) {
        if let Some(at) = self.parsed.next() {
            self.parsers[at].reset();
        }
    }

    /// Forgets the requests.
    pub(crate) fn clear(&mut self) {
        while !self.is_empty() {
            self.pop();
        }
    }

    /// Prefetches the records that the requests behind the next one, which `input` begins with, will read of a
    /// database. The word behind a command's name is taken for a key; a wrong guess costs only the prefetch.
    pub(crate) fn prefetch(&self, store: &Store, db: usize, input: &[u8]) {
        let (mut keys, mut count, mut at) = ([&[][..]; AHEAD], 0, 0);
        for (nth, parser) in self.parsers[self.parsed.clone()].iter().enumerate() {
            if let Some(key) = parser.args(&input[at..]).get(1).filter(|_| nth > 0) {
                keys[count] = key;
                count += 1;
            }
            at += parser.request_len();
        }
        if count > 0 {
            store.prefetch(db, &keys[..count]);
        }
    }
}
