//! The bytes of requests that have arrived.

use std::io::{self, Read};

/// Bytes between a socket and the parser. Its memory is given back when it is empty for a while.
#[derive(Debug, Default)]
pub(crate) struct Buffer {
    /// All initialised; the content is `start..end`.
    bytes: Vec<u8>,
    start: usize,
    end: usize,
    /// The largest `end` since the last look at it.
    peak: usize,
}

/// The smallest room for a read, in bytes; that of Redis.
const READ_LEN: usize = 16 << 10;
/// The largest read while no word is known to be longer, in bytes: it bounds the time that one
/// client takes of a turn.
const READ_LEN_MAX: usize = 64 << 10;
/// The largest read of a word that is known to be longer, in bytes: what a TLS session decrypts for one client at a time.
const READ_LEN_LONG: usize = 1 << 20;
/// The most memory that is kept once a large request is done, in bytes: for large ones, new memory costs as
/// much as to copy them.
const KEPT: usize = 2 << 20;

impl Buffer {
    /// The bytes that have arrived and are not consumed.
    #[inline]
    pub(crate) fn unread(&self) -> &[u8] {
        &self.bytes[self.start..self.end]
    }

    /// Bytes since the buffer was last moved to its front, consumed ones included.
    pub(crate) fn len(&self) -> usize {
        self.end
    }

    /// Bytes for which there is room.
    fn room(&self) -> usize {
        self.bytes.len() - self.end
    }

    /// Bytes of memory without content.
    pub(crate) fn free(&self) -> usize {
        self.bytes.capacity() - self.end
    }

    #[inline]
    pub(crate) fn consume(&mut self, len: usize) {
        self.start += len;
        debug_assert!(self.start <= self.end, "only what has arrived is consumed");
    }

    /// Whether the first `len` bytes are at least as many as those behind them, and half of the memory.
    #[inline]
    pub(crate) fn is_mostly_front(&self, len: usize) -> bool {
        self.unread().len() <= 2 * len && self.bytes.capacity() <= 2 * (len + READ_LEN)
    }

    /// Consumes the first `len` bytes by handing over their memory: they lie in the returned buffer, from the returned
    /// offset on. The bytes behind them are copied.
    pub(crate) fn take_front(&mut self, len: usize) -> (Vec<u8>, usize) {
        let base = self.start;
        let rest = self.bytes[base + len..self.end].to_vec();
        let mut bytes = std::mem::replace(&mut self.bytes, rest);
        bytes.truncate(base + len);
        (self.start, self.end) = (0, self.bytes.len());
        (bytes, base)
    }

    /// Moves the unconsumed bytes to the front.
    pub(crate) fn compact(&mut self) {
        if self.start > 0 {
            self.bytes.copy_within(self.start..self.end, 0);
            (self.start, self.end) = (0, self.end - self.start);
            if self.bytes.capacity() > KEPT && self.end <= KEPT / 2 {
                self.bytes.truncate(self.end.max(READ_LEN));
                self.bytes.shrink_to(KEPT / 2);
            }
        }
    }

    /// Reads once; `missing` is how many bytes the request at the front lacks at least. The room grows with the bytes
    /// that have arrived, at most to twice as much.
    pub(crate) fn read(&mut self, socket: &mut impl Read, missing: usize) -> io::Result<Received> {
        self.compact();
        let wanted = missing.clamp(READ_LEN, self.end.max(READ_LEN_MAX));
        if self.room() < READ_LEN / 2 || (self.room() < wanted && self.end > READ_LEN) {
            self.bytes.resize(self.end + wanted, 0);
        }
        let room = self.room();
        let limit = room.min(missing.clamp(READ_LEN_MAX, READ_LEN_LONG));
        let len = socket.read(&mut self.bytes[self.end..self.end + limit])?;
        self.end += len;
        self.peak = self.peak.max(self.end);
        Ok(Received { len, drained: len < limit })
    }

    /// Returns the memory beyond the peak since the last call, and begins a new measurement: so the buffer of a client
    /// that is never silent does not keep the size of one burst.
    pub(crate) fn shrink_to_peak(&mut self) {
        self.compact();
        let needed = self.peak.max(READ_LEN);
        if self.bytes.capacity() > 2 * needed {
            self.bytes.truncate(needed);
            self.bytes.shrink_to(needed);
        }
        self.peak = self.end;
    }

    /// Gives memory back that is not needed.
    pub(crate) fn shrink(&mut self) {
        self.compact();
        self.bytes.truncate(self.end);
        self.bytes.shrink_to_fit();
    }
}

/// The result of a read.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Received {
    /// Bytes; 0: the other side sends no more.
    pub(crate) len: usize,
    /// The read did not fill the buffer, so the socket is empty.
    pub(crate) drained: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn room_grows_with_what_arrives() {
        let mut buffer = Buffer::default();
        let mut input = &vec![7; 1 << 20][..];
        let mut arrived = 0;
        while arrived < 1 << 20 {
            let received = buffer.read(&mut input, 512 << 20).unwrap();
            arrived += received.len;
            assert!(buffer.bytes.len() <= 2 * arrived + READ_LEN_MAX, "{}", buffer.bytes.len());
        }
        assert_eq!(buffer.unread().len(), 1 << 20);
        buffer.consume(1 << 20);
        buffer.shrink();
        assert_eq!(buffer.bytes.capacity(), 0);
    }

    #[test]
    fn the_memory_of_a_very_large_request_goes_with_it() {
        let mut buffer = Buffer::default();
        let request = vec![7; 4 * KEPT];
        let mut input = &request[..];
        while buffer.unread().len() < request.len() {
            buffer.read(&mut input, request.len() - buffer.unread().len()).unwrap();
        }
        buffer.read(&mut &b"next"[..], 1).unwrap();
        assert!(buffer.free() + buffer.len() >= 4 * KEPT);
        buffer.consume(4 * KEPT);
        buffer.compact();
        assert_eq!(buffer.unread(), b"next");
        assert!(buffer.free() + buffer.len() <= KEPT, "{}", buffer.free());
        buffer.read(&mut &b" one"[..], 1).unwrap();
        assert_eq!(buffer.unread(), b"next one");
    }

    #[test]
    fn the_memory_of_a_burst_goes_while_the_client_goes_on() {
        let mut buffer = Buffer::default();
        let mut input = &vec![7; KEPT / 2][..];
        while !input.is_empty() {
            buffer.read(&mut input, KEPT / 2).unwrap();
        }
        buffer.consume(KEPT / 2 - 3);
        let full = buffer.bytes.capacity();
        buffer.shrink_to_peak();
        assert_eq!(buffer.bytes.capacity(), full, "it was needed since the last look");
        for _ in 0..3 {
            buffer.read(&mut &b"abc"[..], 1).unwrap();
            buffer.consume(3);
            buffer.shrink_to_peak();
        }
        assert!(buffer.bytes.capacity() <= READ_LEN, "{}", buffer.bytes.capacity());
        assert_eq!(buffer.unread(), b"abc");
    }

    #[test]
    fn what_is_given_away_is_consumed() {
        let mut buffer = Buffer::default();
        buffer.read(&mut &b"abcdefgh"[..], 1).unwrap();
        buffer.consume(2);
        assert!(buffer.is_mostly_front(3) && !buffer.is_mostly_front(2));
        let small = Buffer { bytes: vec![7; 1 << 20], start: 0, end: 1 << 14, peak: 1 << 14 };
        assert!(!small.is_mostly_front(1 << 14), "it would take all of the memory along");
        let (bytes, base) = buffer.take_front(4);
        assert_eq!((&bytes[base..], buffer.unread()), (&b"cdef"[..], &b"gh"[..]));
        buffer.read(&mut &b"ij"[..], 1).unwrap();
        assert_eq!(buffer.unread(), b"ghij");
    }

    #[test]
    fn what_is_consumed_makes_room() {
        let mut buffer = Buffer::default();
        for _ in 0..1000 {
            let received = buffer.read(&mut &b"abcdefgh"[..], 1).unwrap();
            assert!(received.drained);
            buffer.consume(7);
            let unread = buffer.unread().len();
            buffer.consume(unread - 1);
            assert_eq!(buffer.unread(), b"h");
        }
        assert_eq!(buffer.bytes.len(), READ_LEN);
    }
}
