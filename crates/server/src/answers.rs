//! The replies of a connection in the order of its requests.
//!
//! Requests that travel to other threads are answered later than those that are executed here.
//! While one is on its way, whatever follows it waits in this queue.

use std::collections::VecDeque;

/// The replies that have not reached the connection's output.
#[derive(Debug)]
pub(crate) struct Answers {
    places: VecDeque<Place>,
    /// The ticket of the first place.
    first: u64,
    /// Replies that came before their turn, in any order.
    held: Vec<u8>,
    /// Bytes of `held` that some place refers to.
    live: usize,
    /// Requests that may be on their way at once.
    window: usize,
}

#[derive(Debug, Clone, Copy)]
enum Place {
    /// The reply has not come.
    Open,
    /// The reply lies in `held`.
    Held { start: usize, len: usize },
}

/// Requests on their way, at first and at most: nobody knows how large their replies will be.
const WINDOW: usize = 16;
/// Bytes of replies that requests on their way may bring, as far as the last one tells.
const BYTES_EXPECTED: usize = 1 << 20;
/// Bytes that are held no more, and not given back.
const IDLE_MAX: usize = 64 << 10;

impl Default for Answers {
    fn default() -> Self {
        Self { places: VecDeque::new(), first: 0, held: Vec::new(), live: 0, window: WINDOW }
    }
}

impl Answers {
    /// Whether every reply has reached the output.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.places.is_empty()
    }

    /// Whether the next request has to wait for replies.
    pub(crate) fn is_full(&self) -> bool {
        self.places.len() >= self.window || self.live >= BYTES_EXPECTED
    }

    /// Bytes that wait.
    pub(crate) fn byte_len(&self) -> usize {
        self.live
    }

    /// Takes a place for a request that travels, and returns its ticket.
    pub(crate) fn open(&mut self) -> u64 {
        self.places.push_back(Place::Open);
        self.first + self.places.len() as u64 - 1
    }

    /// Adds a reply behind those that have not come.
    pub(crate) fn push(&mut self, reply: &[u8]) {
        let place = self.hold(reply);
        self.places.push_back(place);
    }

    /// Takes the reply to the request with this ticket, and moves to `out` what is complete.
    pub(crate) fn fill(&mut self, ticket: u64, reply: &[u8], out: &mut Vec<u8>) {
        let fits = BYTES_EXPECTED / reply.len().max(1);
        self.window = fits.clamp(1, WINDOW).min(2 * self.window);
        let index = (ticket - self.first) as usize;
        if index > 0 {
            self.places[index] = self.hold(reply);
            return;
        }
        out.extend_from_slice(reply);
        self.next();
        while let Some(&Place::Held { start, len }) = self.places.front() {
            out.extend_from_slice(&self.held[start..start + len]);
            self.live -= len;
            self.next();
        }
        if self.live == 0 {
            self.held.clear();
            self.held.shrink_to(IDLE_MAX);
        }
    }

    fn next(&mut self) {
        self.places.pop_front();
        self.first += 1;
    }

    fn hold(&mut self, reply: &[u8]) -> Place {
        if self.held.len() > 2 * self.live + IDLE_MAX {
            self.compact();
        }
        let start = self.held.len();
        self.held.extend_from_slice(reply);
        self.live += reply.len();
        Place::Held { start, len: reply.len() }
    }

    /// Drops what no place refers to.
    fn compact(&mut self) {
        let mut kept = Vec::with_capacity(self.live);
        for place in &mut self.places {
            if let Place::Held { start, len } = place {
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

    proptest! {
        #[test]
        fn replies_leave_in_the_order_of_their_requests(
            steps in prop::collection::vec((any::<bool>(), any::<prop::sample::Index>(), 0..50_000usize), 1..60),
        ) {
            let (mut answers, mut out) = (Answers::default(), Vec::new());
            let (mut expected, mut open) = (Vec::new(), Vec::new());
            for (number, (travels, which, len)) in steps.into_iter().enumerate() {
                let reply = vec![number as u8; len];
                expected.extend_from_slice(&reply);
                if travels {
                    open.push((answers.open(), reply));
                } else if answers.is_empty() {
                    out.extend_from_slice(&reply);
                } else {
                    answers.push(&reply);
                }
                if which.index(2) == 0 && !open.is_empty() {
                    let (ticket, reply) = open.remove(which.index(open.len()));
                    answers.fill(ticket, &reply, &mut out);
                }
                prop_assert!(expected.starts_with(&out));
            }
            for (ticket, reply) in open {
                answers.fill(ticket, &reply, &mut out);
            }
            prop_assert!(answers.is_empty() && answers.byte_len() == 0);
            prop_assert_eq!(out, expected);
        }
    }

    #[test]
    fn large_replies_let_fewer_requests_be_on_their_way() {
        let (mut answers, mut out) = (Answers::default(), Vec::new());
        let fill = |answers: &mut Answers| {
            let mut tickets = Vec::new();
            while !answers.is_full() {
                tickets.push(answers.open());
            }
            tickets
        };
        let first = fill(&mut answers);
        assert_eq!(first.len(), WINDOW);
        first.into_iter().for_each(|ticket| answers.fill(ticket, &[0; 300_000], &mut out));
        assert_eq!(fill(&mut answers).len(), 3);
    }
}
