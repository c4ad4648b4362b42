//! Room for replies: what this thread has sent to the clients of another one.
//!
//! A client that does not read must not fill the memory, and only its own thread knows whether it
//! reads. So a client has a credit with each thread that executes requests for it: once so many bytes
//! of replies are on their way to it, its next requests wait here, until its thread says that there is
//! room again. Others go on.
//!
//! Small replies need no credit: [`SMALL`] times the requests that a connection may have on their way
//! bounds them. So a thread that sends none but small ones has nothing to count.

use std::collections::HashMap;

use crate::packet::Packet;

/// The longest reply that needs no credit, in bytes.
pub(crate) const SMALL: usize = 1 << 10;
/// Bytes of other replies that may be on their way to a client.
pub(crate) const CREDIT: usize = 1 << 20;

/// The clients of another thread that have got more than small replies.
#[derive(Default)]
pub(crate) struct Debts {
    by_client: HashMap<u64, Debt>,
    /// Clients whose requests may go on.
    ready: Vec<u64>,
}

/// What a client has got, and what it has yet to get.
#[derive(Default)]
pub(crate) struct Debt {
    /// Bytes of replies that have not been said to have room.
    bytes: usize,
    /// The requests that wait, in their order.
    pub(crate) waiting: Packet,
}

impl Debts {
    /// Whether the next request of a client has to wait.
    #[inline]
    pub(crate) fn must_wait(&self, client_id: u64) -> bool {
        !self.by_client.is_empty() && self.by_client.get(&client_id).is_some_and(Debt::must_wait)
    }

    /// Lets a client's request wait: the next one of `packet`.
    pub(crate) fn defer(&mut self, client_id: u64, packet: &mut Packet) {
        packet.move_next_to(&mut self.by_client.entry(client_id).or_default().waiting);
    }

    /// Notes that a reply goes to a client.
    #[inline]
    pub(crate) fn lend(&mut self, client_id: u64, len: usize) {
        if len > SMALL {
            self.by_client.entry(client_id).or_default().bytes += len;
        }
    }

    /// A client has room for so many bytes more.
    pub(crate) fn repay(&mut self, client_id: u64, bytes: usize) {
        let Some(debt) = self.by_client.get_mut(&client_id) else { return };
        debt.bytes -= bytes;
        if debt.bytes < CREDIT && !debt.waiting.is_empty() {
            self.ready.push(client_id);
        } else if debt.bytes == 0 {
            self.by_client.remove(&client_id);
        }
    }

    /// Whether requests wait that may go on.
    pub(crate) fn has_ready(&self) -> bool {
        !self.ready.is_empty()
    }

    /// Lets requests go on, client by client, with a function that executes one of a packet if its
    /// parts are here, and returns the length of its reply. Returns what has been executed.
    pub(crate) fn resume(
        &mut self,
        mut execute: impl FnMut(&mut Packet) -> Option<usize>,
    ) -> Vec<Packet> {
        let mut executed = Vec::new();
        for client_id in std::mem::take(&mut self.ready) {
            let Some(debt) = self.by_client.get_mut(&client_id) else { continue };
            while debt.bytes < CREDIT && debt.waiting.next().is_some() {
                let Some(len) = execute(&mut debt.waiting) else {
                    self.ready.push(client_id);
                    break;
                };
                debt.bytes += if len > SMALL { len } else { 0 };
            }
            executed.extend(debt.waiting.split_done());
            if debt.waiting.is_empty() && debt.bytes == 0 {
                self.by_client.remove(&client_id);
            }
        }
        executed
    }
}

impl Debt {
    fn must_wait(&self) -> bool {
        self.bytes >= CREDIT || !self.waiting.is_empty()
    }
}
