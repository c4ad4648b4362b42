//! A thread's ends of the rings between threads.
//!
//! From each thread to each other one there is a bounded ring with one sender and one receiver, so messages of a pair
//! stay in order and no two threads write one word. Messages that do not fit wait with their sender, which meanwhile
//! sends no further requests to that thread.
//!
//! A thread sleeps only when its rings are empty, and a message wakes it ([`Bell`]).

use std::collections::VecDeque;
use std::sync::Arc;

use rtrb::{Consumer, Producer, PushError, RingBuffer};

use crate::shard::bell::Bell;
use crate::shard::message::Message;

/// Messages that a ring holds.
const RING_LEN: usize = 256;

/// One thread's ends of the rings.
pub(crate) struct Mailbox {
    /// The thread's own number.
    me: usize,
    /// By number of the other thread; `None` for the own one.
    boxes: Vec<Option<Rings>>,
    bells: Arc<[Bell]>,
    /// Messages sent since the start.
    pub(crate) sent: u64,
    /// Messages that waited have left: connections that waited for room may go on.
    pub(crate) made_room: bool,
}

/// The rings between two threads, and the messages that did not fit.
struct Rings {
    out: Producer<Message>,
    waiting: VecDeque<Message>,
    into: Consumer<Message>,
    /// A message was sent since the other thread was woken.
    must_ring: bool,
}

impl Mailbox {
    /// The mailboxes of as many threads as there are bells.
    pub(crate) fn all(bells: &Arc<[Bell]>) -> Vec<Self> {
        let count = bells.len();
        let mut outs: Vec<Vec<_>> = (0..count).map(|_| Vec::new()).collect();
        let mut intos: Vec<Vec<_>> = (0..count).map(|_| Vec::new()).collect();
        for (from, outs) in outs.iter_mut().enumerate() {
            for (to, intos) in intos.iter_mut().enumerate() {
                let (out, into) = RingBuffer::new(if from == to { 0 } else { RING_LEN });
                outs.push(out);
                intos.push(into);
            }
        }
        let ends = outs.into_iter().zip(intos).enumerate();
        ends.map(|(me, (outs, intos))| {
            let boxes = outs.into_iter().zip(intos).enumerate().map(|(other, (out, into))| {
                let rings = Rings { out, waiting: VecDeque::new(), into, must_ring: false };
                (other != me).then_some(rings)
            });
            Self { me, boxes: boxes.collect(), bells: Arc::clone(bells), sent: 0, made_room: false }
        })
        .collect()
    }

    /// The thread's own number.
    pub(crate) fn me(&self) -> usize {
        self.me
    }

    /// The number of threads.
    pub(crate) fn threads(&self) -> usize {
        self.boxes.len()
    }

    /// The numbers of the other threads.
    pub(crate) fn others(&self) -> impl Iterator<Item = usize> + use<> {
        let me = self.me;
        (0..self.boxes.len()).filter(move |&other| other != me)
    }

    /// Sends a message, now or when there is room.
    pub(crate) fn send(&mut self, to: usize, message: Message) {
        let rings = self.boxes[to].as_mut().expect("a thread does not write to itself");
        let waited = !rings.waiting.is_empty();
        rings.waiting.push_back(message);
        rings.flush();
        self.made_room |= waited && rings.waiting.is_empty();
        self.sent += 1;
    }

    /// Whether messages to a thread wait for room.
    pub(crate) fn is_full(&self, to: usize) -> bool {
        self.boxes[to].as_ref().is_some_and(|rings| !rings.waiting.is_empty())
    }

    /// The next message from a thread.
    pub(crate) fn receive(&mut self, from: usize) -> Option<Message> {
        let rings = self.boxes[from].as_mut()?;
        let message = rings.into.pop().ok()?;
        // The sender that found it full may sleep now.
        rings.must_ring |= rings.into.slots() + 1 >= RING_LEN;
        Some(message)
    }

    /// Sends waiting messages, as far as there is room, and wakes sleeping receivers.
    pub(crate) fn flush(&mut self) {
        let rings = self.boxes.iter_mut().zip(&*self.bells);
        for (rings, bell) in rings.filter_map(|(rings, bell)| Some((rings.as_mut()?, bell))) {
            let waited = !rings.waiting.is_empty();
            rings.flush();
            self.made_room |= waited && rings.waiting.is_empty();
            if rings.must_ring {
                rings.must_ring = false;
                bell.ring_if_asleep();
            }
        }
    }

    /// Announces that the thread is about to sleep. Returns whether it may, because no message is there for it.
    pub(crate) fn fall_asleep(&self) -> bool {
        let bell = &self.bells[self.me];
        bell.announce_sleep();
        let idle = self.boxes.iter().flatten().all(|rings| {
            rings.into.is_empty() && (rings.waiting.is_empty() || rings.out.is_full())
        });
        if !idle {
            bell.wake_up();
        }
        idle
    }

    /// Says that the thread is awake.
    pub(crate) fn wake_up(&self) {
        self.bells[self.me].wake_up();
    }
}

impl Rings {
    fn flush(&mut self) {
        while let Some(message) = self.waiting.pop_front() {
            match self.out.push(message) {
                Ok(()) => self.must_ring = true,
                Err(PushError::Full(message)) => {
                    self.waiting.push_front(message);
                    return;
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use mio::{Poll, Token, Waker};

    use super::*;
    use crate::partition_set::PartitionSet;

    #[test]
    fn messages_beyond_the_ring_wait_and_stay_in_order() {
        let bells: Vec<_> = (0..2)
            .map(|_| Bell::new(Waker::new(Poll::new().unwrap().registry(), Token(0)).unwrap()))
            .collect();
        let mut boxes = Mailbox::all(&bells.into());
        let (mut b, mut a) = (boxes.pop().unwrap(), boxes.pop().unwrap());
        let mut expected = 0;
        for operation in 0..3 * RING_LEN as u64 {
            a.send(1, Message::Ask { operation, parts: PartitionSet::EMPTY });
        }
        assert!(a.is_full(1) && !b.fall_asleep());
        while let Some(message) = b.receive(0) {
            assert!(matches!(message, Message::Ask { operation, .. } if operation == expected));
            expected += 1;
            a.flush();
        }
        assert_eq!(expected, 3 * RING_LEN as u64);
        assert!(a.made_room && !a.is_full(1) && b.fall_asleep() && b.receive(1).is_none());
    }

    #[test]
    fn room_is_told_of_whatever_makes_it() {
        let bells: Vec<_> = (0..2)
            .map(|_| Bell::new(Waker::new(Poll::new().unwrap().registry(), Token(0)).unwrap()))
            .collect();
        let mut boxes = Mailbox::all(&bells.into());
        let (mut b, mut a) = (boxes.pop().unwrap(), boxes.pop().unwrap());
        let ask = |operation| Message::Ask { operation, parts: PartitionSet::EMPTY };
        (0..=RING_LEN as u64).for_each(|operation| a.send(1, ask(operation)));
        assert!(a.is_full(1) && !a.made_room);
        while b.receive(0).is_some() {}
        a.send(1, ask(0));
        assert!(!a.is_full(1) && a.made_room);
    }
}
