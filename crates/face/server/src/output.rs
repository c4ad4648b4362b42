//! The replies of a connection that have not left, in the order in which they leave.
//!
//! Commands write their replies one behind the other into one buffer. A large reply that another
//! thread has made comes as a buffer of its own, and leaves as that.

use std::collections::VecDeque;
use std::io::{self, IoSlice, Write};

use crate::answer::Answer;
use crate::shard::packet::LARGE;

/// The most memory for replies that a connection keeps while none waits, in bytes: for large replies, new memory costs
/// as much as copying them.
const KEPT: usize = 2 << 20;
/// Bytes of a buffer that a silent connection keeps.
const KEPT_SILENT: usize = 64 << 10;
/// Bytes of replies behind which another buffer begins.
const PIECE_LEN: usize = 1 << 20;
/// Buffers that leave with one call.
const SLICES_MAX: usize = 16;

/// Replies that have not left.
#[derive(Debug, Default)]
pub(crate) struct Output {
    /// The buffers that are sent before `last`.
    before: VecDeque<Vec<u8>>,
    /// Bytes in `before`.
    before_len: usize,
    /// Bytes of memory of `before`.
    before_capacity: usize,
    /// Where replies are written to.
    last: Vec<u8>,
    /// The most bytes in it since the last look at that.
    peak: usize,
    /// Bytes of the first buffer that have left.
    sent: usize,
}

impl Output {
    /// Returns the buffer that the next reply is written to, behind the replies that it holds.
    #[inline]
    pub(crate) fn buffer(&mut self) -> &mut Vec<u8> {
        &mut self.last
    }

    /// Adds a reply.
    pub(crate) fn push(&mut self, answer: Answer<'_>) {
        match answer {
            Answer::Shared(bytes) => self.last.extend_from_slice(bytes),
            Answer::Own(bytes) => {
                if !self.last.is_empty() {
                    let last = std::mem::take(&mut self.last);
                    self.push_before(last);
                }
                self.push_before(bytes);
            }
        }
    }

    fn push_before(&mut self, bytes: Vec<u8>) {
        self.before_len += bytes.len();
        self.before_capacity += bytes.capacity();
        self.before.push_back(bytes);
    }

    /// Begins another buffer if the last one is long: the memory of replies that were sent is returned buffer by
    /// buffer.
    #[inline]
    pub(crate) fn divide(&mut self, spares: &mut Spares) {
        self.peak = self.peak.max(self.last.len());
        if self.last.len() >= PIECE_LEN {
            let mut last = std::mem::replace(&mut self.last, spares.take().unwrap_or_default());
            if last.capacity() > 2 * last.len() {
                last.shrink_to_fit();
            }
            self.push_before(last);
        }
    }

    /// Bytes that have not left.
    #[inline]
    pub(crate) fn unsent(&self) -> usize {
        self.before_len + self.last.len() - self.sent
    }

    /// Bytes of memory.
    pub(crate) fn capacity(&self) -> usize {
        self.before_capacity + self.last.capacity()
    }

    /// Bytes of memory of the buffer that replies are written to.
    pub(crate) fn last_capacity(&self) -> usize {
        self.last.capacity()
    }

    /// The buffers that leave before that one.
    pub(crate) fn pieces(&self) -> usize {
        self.before.len()
    }

    /// Returns the memory beyond the peak since the last call, if no reply waits, and begins a new measurement.
    pub(crate) fn shrink_to_peak(&mut self) {
        let needed = self.peak.max(KEPT_SILENT);
        if self.unsent() == 0 && self.last.capacity() > 2 * needed {
            self.last.shrink_to(needed);
        }
        self.peak = self.last.len();
    }

    /// Gives memory back that is not needed.
    pub(crate) fn shrink(&mut self) {
        self.last.shrink_to(KEPT_SILENT);
    }

    /// Returns all memory, if no reply waits.
    pub(crate) fn shrink_if_empty(&mut self) {
        if self.unsent() == 0 {
            self.last = Vec::new();
        }
    }

    /// Writes once. Returns the number of bytes that left, and whether the socket took all that it was
    /// offered. Buffers that are done with go to `spares`.
    pub(crate) fn write_to(
        &mut self,
        socket: &mut impl Write,
        spares: &mut Spares,
    ) -> io::Result<(usize, bool)> {
        let (len, offered) = if self.before.is_empty() {
            let bytes = &self.last[self.sent..];
            (socket.write(bytes)?, bytes.len())
        } else {
            let mut slices = [IoSlice::new(&[]); SLICES_MAX];
            let buffers = self.before.iter().chain([&self.last]);
            let mut skipped = self.sent;
            let mut count = 0;
            for (slice, buffer) in slices.iter_mut().zip(buffers) {
                *slice = IoSlice::new(&buffer[std::mem::take(&mut skipped)..]);
                count += 1;
            }
            let slices = &slices[..count];
            (socket.write_vectored(slices)?, slices.iter().map(|slice| slice.len()).sum())
        };
        self.sent += len;
        while let Some(first) = self.before.pop_front_if(|first| first.len() <= self.sent) {
            self.sent -= first.len();
            self.before_len -= first.len();
            self.before_capacity -= first.capacity();
            spares.put(first);
        }
        if self.unsent() == 0 {
            self.last.clear();
            self.sent = 0;
            if self.last.capacity() > KEPT {
                self.last = Vec::new();
            }
        }
        Ok((len, len == offered))
    }
}

/// Large buffers for the replies that other threads make next.
#[derive(Debug, Default)]
pub(crate) struct Spares(Vec<Vec<u8>>);

/// Buffers that are kept, and the capacity of each at most.
const SPARES_MAX: usize = 4;

impl Spares {
    /// Takes a buffer in, if it is worth it.
    pub(crate) fn put(&mut self, mut buffer: Vec<u8>) {
        if self.0.len() < SPARES_MAX && (LARGE..=KEPT).contains(&buffer.capacity()) {
            buffer.clear();
            self.0.push(buffer);
        }
    }

    /// Gives a buffer away.
    pub(crate) fn take(&mut self) -> Option<Vec<u8>> {
        self.0.pop()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Takes so many bytes at a time.
    struct Narrow(usize, Vec<u8>);

    impl Write for Narrow {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            let len = bytes.len().min(self.0);
            self.1.extend_from_slice(&bytes[..len]);
            Ok(len)
        }

        fn write_vectored(&mut self, slices: &[IoSlice<'_>]) -> io::Result<usize> {
            let before = self.1.len();
            for slice in slices {
                let room = self.0 - (self.1.len() - before);
                self.1.extend_from_slice(&slice[..slice.len().min(room)]);
            }
            Ok(self.1.len() - before)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn the_memory_of_a_burst_goes_while_the_client_goes_on() {
        let (mut output, mut spares) = (Output::default(), Spares::default());
        let mut reply = |output: &mut Output, len: usize| {
            output.buffer().resize(len, b'v');
            output.divide(&mut spares);
            while output.unsent() > 0 {
                output.write_to(&mut Narrow(len, Vec::new()), &mut spares).unwrap();
            }
        };
        reply(&mut output, PIECE_LEN - 1);
        let full = output.capacity();
        output.shrink_to_peak();
        assert_eq!(output.capacity(), full, "it was needed since the last look");
        reply(&mut output, 100);
        output.shrink_to_peak();
        assert!((100..=KEPT_SILENT).contains(&output.capacity()), "{}", output.capacity());
        output.buffer().extend_from_slice(b"waits");
        output.shrink_if_empty();
        assert_eq!(output.unsent(), 5);
        reply(&mut output, 5);
        output.shrink_if_empty();
        assert_eq!(output.capacity(), 0);
    }

    proptest! {
        #[test]
        fn what_is_written_and_what_is_taken_over_leaves_in_order(
            steps in prop::collection::vec((0..4u8, prop_oneof![40 => 0..2000usize, 1 => Just(PIECE_LEN)]), 1..80),
            width in prop_oneof![1000..5000usize, 100_000..3_000_000usize],
        ) {
            let (mut output, mut socket) = (Output::default(), Narrow(width, Vec::new()));
            let (mut expected, mut spares) = (Vec::new(), Spares::default());
            for (number, (kind, len)) in steps.into_iter().enumerate() {
                let reply = vec![number as u8; len];
                match kind {
                    0 => output.buffer().extend_from_slice(&reply),
                    1 => output.push(Answer::Own(reply.clone())),
                    2 => {
                        output.divide(&mut spares);
                        continue;
                    }
                    _ => {
                        output.write_to(&mut socket, &mut spares).unwrap();
                        continue;
                    }
                }
                expected.extend_from_slice(&reply);
                prop_assert_eq!(output.unsent(), expected.len() - socket.1.len());
            }
            while output.unsent() > 0 {
                output.write_to(&mut socket, &mut spares).unwrap();
            }
            prop_assert_eq!(socket.1, expected);
        }
    }
}
