//! Requests that are parsed ahead.
//!
//! Up to [`AHEAD`] of a connection's requests that have arrived are parsed together, and the memory that all of them
//! will read is prefetched before the first is executed: so their cache misses overlap. The first requests of
//! connections that are ready at once are prefetched together, too (`event_loop`). If a request cannot be executed, for
//! any reason, those behind it are parsed again later.

use std::ops::Range;

use crate::collection::map;
use crate::resp::{Args, Limits, Parser, ProtocolError, Step};
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
    /// database.
    pub(crate) fn prefetch(&self, store: &Store, db: usize, input: &[u8]) {
        let (mut guesses, mut at) = (Guesses::default(), 0);
        for (nth, parser) in self.parsers[self.parsed.clone()].iter().enumerate() {
            if nth > 0 {
                guesses.add(parser.args(&input[at..]));
            }
            at += parser.request_len();
        }
        guesses.prefetch(store, db);
    }
}

/// The records that up to [`AHEAD`] requests will read, by their words alone: the word behind a command's name is taken
/// for a key, and the next one for a field of the map there (of ZADD, the one behind it). A wrong guess costs only the
/// prefetch.
#[derive(Default)]
pub(crate) struct Guesses<'a> {
    keys: [&'a [u8]; AHEAD],
    fields: [&'a [u8]; AHEAD],
    count: usize,
}

impl<'a> Guesses<'a> {
    /// Adds a request.
    #[inline]
    pub(crate) fn add(&mut self, words: Args<'a>) {
        let Some(key) = words.get(1) else { return };
        let is_zadd = words.len() == 4 && words[0].eq_ignore_ascii_case(b"zadd");
        let field = words.get(if is_zadd { 3 } else { 2 });
        (self.keys[self.count], self.fields[self.count]) = (key, field.unwrap_or_default());
        self.count += 1;
    }

    /// The number of requests.
    pub(crate) fn len(&self) -> usize {
        self.count
    }

    /// Prefetches the records. Those of fields are known where several requests are for one map that was used before.
    pub(crate) fn prefetch(&self, store: &Store, db: usize) {
        let (mut keys, mut count) = ([&[][..]; AHEAD], 0);
        for key in &self.keys[..self.count] {
            if count == 0 || keys[count - 1] != *key {
                keys[count] = key;
                count += 1;
            }
        }
        if count > 0 {
            store.prefetch(db, &keys[..count]);
        }
        let Some(recent) = store.recent_map(db) else { return };
        let of_recent = self.keys[..self.count].iter().zip(self.fields);
        let fields = of_recent.filter(|(key, field)| recent.is_at(key) && !field.is_empty());
        map::prefetch(store, recent, fields.map(|(_, field)| field));
    }
}
