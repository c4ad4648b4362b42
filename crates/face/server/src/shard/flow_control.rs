//! Flow control of replies: those that this thread has sent to the clients of another thread.
//!
//! The replies that wait for a client are bounded, and only the client's own thread knows their length. So a client has
//! a credit with each thread that executes requests for it: once [`CREDIT`] bytes of replies are on their way to it,
//! its next requests wait here, until its thread reports that the replies have reached the connection's output.
//! Requests of other clients go on.
//!
//! Small replies need no credit: [`SMALL`] times the requests that a connection may have on their way bounds them. So a
//! thread that sends only small replies counts none.

use std::collections::HashMap;

use crate::answer::SMALL;
use crate::shard::packet::Packet;

/// Bytes of other replies that may be on their way to a client.
pub(crate) const CREDIT: usize = 1 << 20;

/// The clients of another thread that have got more than small replies.
#[derive(Default)]
pub(crate) struct FlowControl {
    by_client: HashMap<u64, Flow>,
    /// Clients whose requests may go on.
    ready: Vec<u64>,
}

/// The unacknowledged replies of a client, and its requests that wait.
#[derive(Default)]
pub(crate) struct Flow {
    /// Bytes of replies for which the client's thread has not reported room.
    bytes: usize,
    /// The requests that wait, in their order.
    pub(crate) waiting: Packet,
}

impl FlowControl {
    /// Whether the next request of a client has to wait.
    #[inline]
    pub(crate) fn must_wait(&self, client_id: u64) -> bool {
        !self.by_client.is_empty() && self.by_client.get(&client_id).is_some_and(Flow::must_wait)
    }

    /// Lets a client's request wait: the next one of `packet`.
    pub(crate) fn defer(&mut self, client_id: u64, packet: &mut Packet) {
        packet.move_next_to(&mut self.by_client.entry(client_id).or_default().waiting);
    }

    /// Notes that a reply goes to a client.
    #[inline]
    pub(crate) fn note_sent(&mut self, client_id: u64, len: usize) {
        if len > SMALL {
            self.by_client.entry(client_id).or_default().bytes += len;
        }
    }

    /// A client has room for so many bytes more.
    pub(crate) fn make_room(&mut self, client_id: u64, bytes: usize) {
        let Some(flow) = self.by_client.get_mut(&client_id) else { return };
        flow.bytes -= bytes;
        if flow.bytes < CREDIT && !flow.waiting.is_empty() {
            self.wake(client_id);
        } else if flow.bytes == 0 {
            self.by_client.remove(&client_id);
        }
    }

    /// Lets a client's requests be tried again.
    pub(crate) fn wake(&mut self, client_id: u64) {
        if !self.ready.contains(&client_id) {
            self.ready.push(client_id);
        }
    }

    /// Whether requests wait that may go on.
    pub(crate) fn has_ready(&self) -> bool {
        !self.ready.is_empty()
    }

    /// Executes requests that wait, client by client. `execute` executes the next one of a packet if its parts are
    /// here, and returns the length of its reply. Returns the executed requests.
    pub(crate) fn resume(
        &mut self,
        mut execute: impl FnMut(&mut Packet) -> Option<usize>,
    ) -> Vec<Packet> {
        let mut executed = Vec::new();
        for client_id in std::mem::take(&mut self.ready) {
            let Some(flow) = self.by_client.get_mut(&client_id) else { continue };
            while flow.bytes < CREDIT && flow.waiting.next().is_some() {
                let Some(len) = execute(&mut flow.waiting) else {
                    self.ready.push(client_id);
                    break;
                };
                flow.bytes += if len > SMALL { len } else { 0 };
            }
            executed.extend(flow.waiting.split_done());
            if flow.waiting.is_empty() && flow.bytes == 0 {
                self.by_client.remove(&client_id);
            }
        }
        executed
    }
}

impl Flow {
    fn must_wait(&self) -> bool {
        self.bytes >= CREDIT || !self.waiting.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::admission::Admitted;
    use crate::answer::Answer;
    use crate::commands::find;
    use crate::partition_set::PartitionSet;
    use crate::reply::Protocol;
    use crate::resp::Args;
    use crate::shard::packet::{Asker, Request};

    /// A packet of so many requests of each of two clients, in turns.
    fn packet(count: u64) -> Packet {
        let mut packet = Packet::default();
        for number in 0..2 * count {
            packet.push(&Request {
                admitted: Admitted::kept(find(b"get").unwrap(), Args::new(b"getk", &[0..3, 3..4])),
                partitions: PartitionSet::only(0),
                db: 0,
                protocol: Protocol::Resp2,
                silent: false,
                tracks: false,
                from: Asker {
                    place: 0,
                    client_id: 1 + number % 2,
                    addr: crate::address::Address::nowhere(),
                    ticket: number / 2,
                },
            });
        }
        packet
    }

    fn answer(packet: &mut Packet, len: usize) -> usize {
        packet.execute(|_, _, out| out.resize(len, b'v'))
    }

    /// The tickets of a client's replies, and the bytes of them.
    fn got(packet: &mut Packet, client_id: u64) -> (Vec<u64>, usize) {
        let (mut tickets, mut bytes) = (Vec::new(), 0);
        packet.take_answers(|to, answer: Answer<'_>| {
            if to.client_id == client_id {
                tickets.push(to.ticket);
                bytes += answer.len();
            }
        });
        (tickets, bytes)
    }

    #[test]
    fn a_client_gets_no_more_than_its_credit_and_others_go_on() {
        const LEN: usize = CREDIT / 4 + 1;
        let mut flow = FlowControl::default();
        let mut packet = packet(20);
        while let Some(item) = packet.next() {
            let client_id = item.from.client_id;
            if flow.must_wait(client_id) {
                flow.defer(client_id, &mut packet);
            } else {
                let len = answer(&mut packet, if client_id == 1 { LEN } else { SMALL });
                flow.note_sent(client_id, len);
            }
        }
        assert_eq!(got(&mut packet, 1), (vec![0, 1, 2, 3], 4 * LEN));
        assert!(flow.must_wait(1) && !flow.must_wait(2) && !flow.has_ready());
        // Room for one; then for all, as it is used; parts that are away make it wait.
        let mut next = 4;
        while flow.must_wait(1) {
            flow.make_room(1, LEN);
            assert!(flow.has_ready() && flow.resume(|_| None).is_empty());
            let mut pieces = flow.resume(|packet| Some(answer(packet, LEN)));
            let (tickets, bytes) = got(&mut pieces[0], 1);
            assert_eq!((tickets, bytes), (vec![next], LEN));
            next += 1;
            if next == 20 {
                break;
            }
        }
        assert_eq!(next, 20);
        flow.make_room(1, 4 * LEN);
        assert!(flow.by_client.is_empty(), "a client that has room again is forgotten");
    }
}
