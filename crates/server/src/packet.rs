//! Requests that travel together from one thread to another, and their replies on the way back.
//!
//! A thread fills at most one packet a turn for each other thread, with requests of all its
//! connections. The owner of the keys executes them in their order and sends the same packet back.
//! The sender keeps the packet for later, so requests that travel allocate nothing once its
//! buffers have grown.

use std::net::SocketAddr;
use std::ops::Range;

use crate::commands::Command;
use crate::partition_set::PartitionSet;
use crate::reply::Protocol;
use crate::resp::Args;

/// Bytes of words above which a packet is full.
const BYTES_MAX: usize = 256 << 10;
/// Requests above which a packet is full.
const ITEMS_MAX: usize = 4096;
/// Capacity of a buffer that is kept for the next use, in bytes.
const KEPT: usize = 2 * BYTES_MAX;

/// Requests for one thread.
#[derive(Default)]
pub(crate) struct Packet {
    words: Vec<u8>,
    ranges: Vec<Range<usize>>,
    items: Vec<Item>,
    /// The replies, one behind the other.
    pub(crate) replies: Vec<u8>,
    /// How many requests have been executed.
    pub(crate) done: usize,
}

/// One request.
pub(crate) struct Item {
    pub(crate) command: &'static Command,
    /// The partitions of its keys, all of them the receiver's.
    pub(crate) partitions: PartitionSet,
    pub(crate) db: usize,
    pub(crate) protocol: Protocol,
    /// The client wants no reply.
    pub(crate) silent: bool,
    pub(crate) from: Asker,
    /// Its words: a range of the packet's ranges.
    args: Range<usize>,
    /// Where its reply ends, once it has been executed.
    reply_end: usize,
}

/// Whom a reply is for.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Asker {
    /// The connection's place.
    pub(crate) place: usize,
    /// Places are used again: the client that asked.
    pub(crate) client_id: u64,
    /// Where it is, for the slowlog.
    pub(crate) addr: SocketAddr,
    /// Its place in the connection's queue of answers.
    pub(crate) ticket: u64,
}

/// A request as its connection's thread sees it.
pub(crate) struct Request<'a> {
    pub(crate) command: &'static Command,
    pub(crate) args: Args<'a>,
    pub(crate) partitions: PartitionSet,
    pub(crate) db: usize,
    pub(crate) protocol: Protocol,
    pub(crate) silent: bool,
    pub(crate) from: Asker,
}

impl Packet {
    /// Adds a request.
    pub(crate) fn push(&mut self, request: &Request<'_>) {
        let first = self.ranges.len();
        for word in request.args {
            let start = self.words.len();
            self.words.extend_from_slice(word);
            self.ranges.push(start..self.words.len());
        }
        self.items.push(Item {
            command: request.command,
            partitions: request.partitions,
            db: request.db,
            protocol: request.protocol,
            silent: request.silent,
            from: request.from,
            args: first..self.ranges.len(),
            reply_end: 0,
        });
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.items.is_empty()
    }

    /// The number of requests.
    pub(crate) fn len(&self) -> usize {
        self.items.len()
    }

    /// Whether the next request has to wait for another packet.
    pub(crate) fn is_full(&self) -> bool {
        self.words.len() >= BYTES_MAX || self.items.len() >= ITEMS_MAX
    }

    /// The next request to execute.
    pub(crate) fn next(&self) -> Option<&Item> {
        self.items.get(self.done)
    }

    /// Executes the next request: `execute` writes its reply.
    pub(crate) fn execute(&mut self, execute: impl FnOnce(&Item, Args<'_>, &mut Vec<u8>)) {
        let item = &mut self.items[self.done];
        let start = self.replies.len();
        let args = Args::new(&self.words, &self.ranges[item.args.clone()]);
        execute(item, args, &mut self.replies);
        if item.silent {
            self.replies.truncate(start);
        }
        item.reply_end = self.replies.len();
        self.done += 1;
    }

    /// The replies, and whom each is for.
    pub(crate) fn answers(&self) -> impl Iterator<Item = (Asker, &[u8])> {
        let starts = std::iter::once(0).chain(self.items.iter().map(|item| item.reply_end));
        let items = self.items.iter().zip(starts);
        items.map(|(item, start)| (item.from, &self.replies[start..item.reply_end]))
    }

    /// Empties the packet for its next use.
    pub(crate) fn clear(&mut self) {
        self.ranges.clear();
        self.items.clear();
        self.done = 0;
        for buffer in [&mut self.words, &mut self.replies] {
            buffer.clear();
            buffer.shrink_to(KEPT);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::find;

    #[test]
    fn each_reply_comes_back_to_its_asker() {
        let mut packet = Packet::default();
        for ticket in 0..3 {
            let words = format!("GETkey{ticket}");
            let ranges = [0..3, 3..words.len()];
            packet.push(&Request {
                command: find(b"get").unwrap(),
                args: Args::new(words.as_bytes(), &ranges),
                partitions: PartitionSet::only(1),
                db: 0,
                protocol: Protocol::Resp2,
                silent: ticket == 1,
                from: Asker { place: 7, client_id: 8, addr: ([0; 4], 0).into(), ticket },
            });
        }
        for _ in 0..2 {
            while packet.next().is_some() {
                packet.execute(|_, args, out| out.extend_from_slice(&args[1]));
            }
            let answers = packet.answers().map(|(to, bytes)| (to.ticket, bytes.to_vec()));
            let expected = [(0, b"key0".to_vec()), (1, Vec::new()), (2, b"key2".to_vec())];
            assert_eq!(answers.collect::<Vec<_>>(), expected);
            packet.done = 0;
            packet.replies.clear();
        }
        packet.clear();
        assert!(packet.is_empty() && packet.next().is_none());
    }
}
