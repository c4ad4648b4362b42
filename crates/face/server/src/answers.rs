//! The replies of a connection in the order of its requests.
//!
//! Requests that travel to other threads are answered later than those that are executed here. While one is on its way,
//! the replies to the requests behind it wait in this queue.

use std::collections::VecDeque;

use crate::answer::{Answer, SMALL};
use crate::output::Output;

/// The replies that have not reached the connection's output.
#[derive(Debug, Default)]
pub(crate) struct Answers {
    places: VecDeque<Place>,
    /// The ticket of the first place.
    first: u64,
    /// Small replies that came before their turn, in any order.
    held: Vec<u8>,
    /// Bytes of `held` that some place refers to.
    live: usize,
    /// Bytes of large replies that came before their turn.
    apart: usize,
    /// Bytes of requests that are on their way.
    asked: usize,
    /// By thread whose large replies have reached the output: bytes of room that have not been reported to it.
    owed: Vec<(usize, usize)>,
}

#[derive(Debug)]
enum Place {
    /// The reply to a request of so many bytes has not come.
    Open { request_len: usize },
    /// The reply lies in `held`; the thread that has made it, if it is another one.
    Held { start: usize, len: usize, from: Option<usize> },
    /// The reply has a buffer of its own.
    Apart { bytes: Vec<u8>, from: Option<usize> },
}

/// Requests that may be on their way, or wait for those that are.
const PLACES_MAX: usize = 1024;
/// Bytes of requests on their way above which the next one waits.
const ASKED_MAX: usize = 1 << 20;
/// Bytes of replies above which the next request waits.
const HELD_MAX: usize = 1 << 20;
/// Bytes that are held no more, and not given back.
const IDLE_MAX: usize = 64 << 10;

impl Answers {
    /// Whether every reply has reached the output.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.places.is_empty()
    }

    /// Whether the next request has to wait for replies.
    pub(crate) fn is_full(&self) -> bool {
        self.places.len() >= PLACES_MAX || self.asked >= ASKED_MAX || self.byte_len() >= HELD_MAX
    }

    /// Bytes of replies that wait.
    pub(crate) fn byte_len(&self) -> usize {
        self.live + self.apart
    }

    /// Bytes of memory, requests that are on their way included.
    pub(crate) fn memory(&self) -> usize {
        let places = self.places.capacity() * size_of::<Place>();
        places + self.held.capacity() + self.apart + self.asked
    }

    /// Takes a place for a request of `request_len` bytes that travels, and returns its ticket.
    pub(crate) fn open(&mut self, request_len: usize) -> u64 {
        self.asked += request_len;
        self.places.push_back(Place::Open { request_len });
        self.first + self.places.len() as u64 - 1
    }

    /// Adds a reply of this thread behind those that have not come.
    pub(crate) fn push(&mut self, answer: Answer<'_>) {
        let place = self.hold(answer, None);
        self.places.push_back(place);
    }

    /// Takes the reply of thread `from` to the request with this ticket, and moves the complete replies at the front to
    /// `output`.
    pub(crate) fn fill(
        &mut self,
        ticket: u64,
        from: usize,
        answer: Answer<'_>,
        output: &mut Output,
    ) {
        let index = (ticket - self.first) as usize;
        if let Place::Open { request_len } = self.places[index] {
            self.asked -= request_len;
        }
        if index > 0 {
            self.places[index] = self.hold(answer, Some(from));
            return;
        }
        self.owe(Some(from), answer.len());
        output.push(answer);
        self.places.pop_front();
        self.first += 1;
        let has_come = |place: &mut Place| !matches!(place, Place::Open { .. });
        while let Some(place) = self.places.pop_front_if(has_come) {
            self.first += 1;
            match place {
                Place::Held { start, len, from } => {
                    output.push(Answer::Shared(&self.held[start..start + len]));
                    self.live -= len;
                    self.owe(from, len);
                }
                Place::Apart { bytes, from } => {
                    self.apart -= bytes.len();
                    self.owe(from, bytes.len());
                    output.push(Answer::Own(bytes));
                }
                Place::Open { .. } => {}
            }
        }
        if self.live == 0 {
            self.held.clear();
            self.held.shrink_to(IDLE_MAX);
        }
    }

    /// The threads with at least `bytes_min` bytes of unreported room, and how much: those replies are in the output.
    pub(crate) fn take_owed(&mut self, bytes_min: usize) -> impl Iterator<Item = (usize, usize)> {
        self.owed.extract_if(.., move |(_, bytes)| *bytes >= bytes_min)
    }

    /// Whether there is room that has not been reported to its thread.
    #[inline]
    pub(crate) fn owes(&self) -> bool {
        !self.owed.is_empty()
    }

    /// Drops the replies that have not reached the output, of a connection that is closed.
    pub(crate) fn abandon(&mut self) {
        for place in std::mem::take(&mut self.places) {
            match place {
                Place::Held { len, from, .. } => self.owe(from, len),
                Place::Apart { bytes, from } => self.owe(from, bytes.len()),
                Place::Open { .. } => {}
            }
        }
    }

    fn owe(&mut self, thread: Option<usize>, len: usize) {
        let Some(thread) = thread.filter(|_| len > SMALL) else { return };
        match self.owed.iter_mut().find(|(to, _)| *to == thread) {
            Some((_, bytes)) => *bytes += len,
            None => self.owed.push((thread, len)),
        }
    }

    fn hold(&mut self, answer: Answer<'_>, from: Option<usize>) -> Place {
        let reply = match answer {
            Answer::Own(bytes) => {
                self.apart += bytes.len();
                return Place::Apart { bytes, from };
            }
            // `held` may be cleared while only such a one is left.
            Answer::Shared([]) => return Place::Held { start: 0, len: 0, from },
            Answer::Shared(bytes) => bytes,
        };
        if self.held.len() > 2 * self.live + IDLE_MAX {
            self.compact();
        }
        let start = self.held.len();
        self.held.extend_from_slice(reply);
        self.live += reply.len();
        Place::Held { start, len: reply.len(), from }
    }

    /// Drops the bytes that no place refers to.
    fn compact(&mut self) {
        let mut kept = Vec::with_capacity(self.live);
        for place in &mut self.places {
            if let Place::Held { start, len: len @ 1.., .. } = place {
                let moved = kept.len();
                kept.extend_from_slice(&self.held[*start..*start + *len]);
                *start = moved;
            }
        }
        self.held = kept;
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::output::Spares;

    fn left(output: &mut Output, out: &mut Vec<u8>) {
        while output.unsent() > 0 {
            output.write_to(out, &mut Spares::default()).unwrap();
        }
    }

    fn answer(own: bool, reply: &[u8]) -> Answer<'_> {
        if own { Answer::Own(reply.to_vec()) } else { Answer::Shared(reply) }
    }

    proptest! {
        #[test]
        fn replies_leave_in_the_order_of_their_requests(
            steps in prop::collection::vec((any::<bool>(), any::<bool>(), any::<prop::sample::Index>(), prop_oneof![Just(0), 1..50_000usize]), 1..60),
        ) {
            let (mut answers, mut output, mut out) = (Answers::default(), Output::default(), Vec::new());
            let (mut expected, mut open, mut lent) = (Vec::new(), Vec::new(), 0);
            for (number, (travels, own, which, len)) in steps.into_iter().enumerate() {
                let reply = vec![number as u8; len];
                expected.extend_from_slice(&reply);
                if travels {
                    lent += if len > SMALL { len } else { 0 };
                    open.push((answers.open(len), own, reply));
                } else if answers.is_empty() {
                    output.buffer().extend_from_slice(&reply);
                } else {
                    answers.push(answer(own, &reply));
                }
                if which.index(2) == 0 && !open.is_empty() {
                    let (ticket, own, reply) = open.remove(which.index(open.len()));
                    answers.fill(ticket, 1, answer(own, &reply), &mut output);
                }
                left(&mut output, &mut out);
                prop_assert!(expected.starts_with(&out));
            }
            for (ticket, own, reply) in open {
                answers.fill(ticket, 1, answer(own, &reply), &mut output);
            }
            left(&mut output, &mut out);
            prop_assert!(answers.is_empty() && answers.byte_len() == 0 && answers.asked == 0);
            prop_assert_eq!(out, expected);
            prop_assert_eq!(answers.take_owed(0).map(|(_, bytes)| bytes).sum::<usize>(), lent);
        }
    }

    #[test]
    fn requests_on_their_way_are_bounded_in_number_and_in_bytes() {
        for (request_len, expected) in [(30, PLACES_MAX), (ASKED_MAX / 4, 4), (2 * ASKED_MAX, 1)] {
            let (mut answers, mut count) = (Answers::default(), 0);
            while !answers.is_full() {
                answers.open(request_len);
                count += 1;
            }
            assert_eq!(count, expected);
        }
    }
}
