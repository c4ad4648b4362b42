//! Requests that travel together from one thread to another, and their replies on the way back.
//!
//! A thread fills at most one packet a turn for each other thread, with requests of all its
//! connections. The owner of the keys executes them in their order and sends the same packet back.
//! The sender keeps the packet for later, so requests that travel allocate nothing once its
//! buffers have grown.
//!
//! The words of a large request, and a large reply, travel in the buffer that they were received in or written to:
//! copying them would cost more than allocating a buffer.

use std::ops::Range;

use crate::address::Address;
use crate::admission::admitted::Admitted;
use crate::answer::{Answer, SMALL};
use crate::commands::Command;
use crate::output::Spares;
use crate::partition_set::PartitionSet;
use crate::reply::{Protocol, Reply};
use crate::resp::Args;
use crate::slowlog;

/// Bytes of words above which a packet is full.
const BYTES_MAX: usize = 256 << 10;
/// Requests above which a packet is full.
const ITEMS_MAX: usize = 4096;
/// Capacity of a buffer that is kept for the next use, in bytes.
const KEPT: usize = 2 * BYTES_MAX;
/// Words for whose places memory is kept for the next use.
const RANGES_KEPT: usize = 16 * ITEMS_MAX;
/// Bytes of a request, or of a reply, from which on it has a buffer of its own.
pub(crate) const LARGE: usize = 16 << 10;

/// Requests for one thread.
#[derive(Default)]
pub(crate) struct Packet {
    words: Vec<u8>,
    ranges: Vec<Range<usize>>,
    items: Vec<Item>,
    /// Bytes of words that are not in `words`.
    apart: usize,
    /// The replies, one behind the other.
    replies: Vec<u8>,
    /// The reply that is being written.
    reply: Vec<u8>,
    /// How many requests have been executed.
    done: usize,
    /// Bytes of their replies that are counted as travelling.
    counted: usize,
    /// The executed requests that were slow; their clients' names are to be filled in.
    pub(crate) slow: Vec<(Asker, slowlog::Entry)>,
    /// Whether these are requests out of other packets.
    pub(crate) is_piece: bool,
}

/// One request.
pub(crate) struct Item {
    pub(crate) command: &'static Command,
    /// The partitions of its keys, all of them the receiver's.
    pub(crate) partitions: PartitionSet,
    pub(crate) db: usize,
    pub(crate) protocol: Protocol,
    /// The client wants no reply.
    silent: bool,
    /// The keys that it reads are remembered for its client.
    pub(crate) tracks: bool,
    pub(crate) from: Asker,
    /// Its words: a range of the packet's ranges.
    args: Range<usize>,
    state: State,
}

/// Where a request's words are, and then its reply.
enum State {
    /// The words are among the packet's.
    Asked,
    /// The words have a buffer of their own.
    AskedApart(Vec<u8>),
    /// The reply is among the packet's.
    Replied(Range<usize>),
    /// The reply has a buffer of its own.
    RepliedApart(Vec<u8>),
    /// The request is in another packet now.
    Moved,
}

/// The request that a reply answers.
#[derive(Debug, Clone)]
pub(crate) struct Asker {
    /// The connection's place.
    pub(crate) place: usize,
    /// Places are used again: the client that asked.
    pub(crate) client_id: u64,
    /// The client's address, for the slowlog.
    pub(crate) addr: Address,
    /// Its place in the connection's queue of answers.
    pub(crate) ticket: u64,
}

/// A request as its connection's thread sees it.
pub(crate) struct Request<'a> {
    pub(crate) admitted: Admitted<'a>,
    pub(crate) partitions: PartitionSet,
    pub(crate) db: usize,
    pub(crate) protocol: Protocol,
    pub(crate) silent: bool,
    pub(crate) tracks: bool,
    pub(crate) from: Asker,
}

impl Packet {
    /// Adds a request, and copies its words.
    pub(crate) fn push(&mut self, request: &Request<'_>) {
        let first = self.ranges.len();
        for word in request.admitted.args() {
            let start = self.words.len();
            self.words.extend_from_slice(word);
            self.ranges.push(start..self.words.len());
        }
        self.push_item(request, first);
    }

    /// Adds a request whose words come later: [`Packet::bring_words`].
    pub(crate) fn push_without_words(&mut self, request: &Request<'_>) {
        let first = self.ranges.len();
        self.ranges.extend_from_slice(request.admitted.args().ranges());
        self.push_item(request, first);
    }

    fn push_item(&mut self, request: &Request<'_>, first: usize) {
        self.items.push(Item {
            command: request.admitted.command(),
            partitions: request.partitions,
            db: request.db,
            protocol: request.protocol,
            silent: request.silent,
            tracks: request.tracks,
            from: request.from.clone(),
            args: first..self.ranges.len(),
            state: State::Asked,
        });
    }

    /// Sets the words of the last request: they lie in `bytes`, from `base` on.
    pub(crate) fn bring_words(&mut self, bytes: Vec<u8>, base: usize) {
        let Some(item) = self.items.last_mut() else { return };
        for range in &mut self.ranges[item.args.clone()] {
            *range = base + range.start..base + range.end;
        }
        self.apart += bytes.len();
        item.state = State::AskedApart(bytes);
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
        self.words.len() + self.apart >= BYTES_MAX || self.items.len() >= ITEMS_MAX
    }

    /// The next request to execute.
    #[inline]
    pub(crate) fn next(&self) -> Option<&Item> {
        self.items.get(self.done)
    }

    /// Executes the next request: `execute` writes its reply. Returns the reply's length.
    pub(crate) fn execute(
        &mut self,
        execute: impl FnOnce(&Item, Admitted<'_>, &mut Vec<u8>),
    ) -> usize {
        let item = &mut self.items[self.done];
        let words = match &item.state {
            State::AskedApart(bytes) => bytes,
            _ => &self.words,
        };
        self.reply.clear();
        let args = Args::new(words, &self.ranges[item.args.clone()]);
        execute(item, Admitted::kept(item.command, args), &mut self.reply);
        if item.silent {
            self.reply.clear();
        }
        let len = self.reply.len();
        item.state = if len >= LARGE {
            // A reply is accounted by its length, so its buffer must not be much larger.
            let fills = 2 * len >= self.reply.capacity();
            let reply = if fills { std::mem::take(&mut self.reply) } else { self.reply.clone() };
            State::RepliedApart(reply)
        } else {
            let start = self.replies.len();
            self.replies.extend_from_slice(&self.reply);
            State::Replied(start..start + len)
        };
        self.done += 1;
        self.counted += if len > SMALL { len } else { 0 };
        len
    }

    /// Bytes of the replies that are counted as travelling: those that are not small. Afterwards the count is 0.
    pub(crate) fn take_counted(&mut self) -> usize {
        std::mem::take(&mut self.counted)
    }

    /// Moves the next request, with its words, to the end of `other`.
    pub(crate) fn move_next_to(&mut self, other: &mut Self) {
        let item = &mut self.items[self.done];
        let state = std::mem::replace(&mut item.state, State::Moved);
        let args = Args::new(&self.words, &self.ranges[item.args.clone()]);
        let request = Request {
            admitted: Admitted::kept(item.command, args),
            partitions: item.partitions,
            db: item.db,
            protocol: item.protocol,
            silent: item.silent,
            tracks: item.tracks,
            from: item.from.clone(),
        };
        match state {
            State::AskedApart(bytes) => {
                other.push_without_words(&request);
                other.bring_words(bytes, 0);
            }
            _ => other.push(&request),
        }
        self.done += 1;
    }

    /// Takes the requests that have been executed, for their replies; the others stay.
    pub(crate) fn split_done(&mut self) -> Option<Self> {
        if self.done == 0 {
            return None;
        }
        let piece = Self {
            items: self.items.drain(..self.done).collect(),
            replies: std::mem::take(&mut self.replies),
            slow: std::mem::take(&mut self.slow),
            done: self.done,
            counted: self.take_counted(),
            is_piece: true,
            ..Self::default()
        };
        self.done = 0;
        self.drop_done_words();
        Some(piece)
    }

    /// Drops the words of requests that have left, once they are half of all.
    fn drop_done_words(&mut self) {
        let Some(first) = self.items.first() else { return self.clear() };
        let done = first.args.start;
        if 2 * done < self.ranges.len() {
            return;
        }
        let is_asked = |item: &Item| matches!(item.state, State::Asked);
        let first_asked = self.items.iter().find(|item| is_asked(item));
        let done_bytes =
            first_asked.map_or(self.words.len(), |item| self.ranges[item.args.start].start);
        for item in &mut self.items {
            if is_asked(item) {
                for range in &mut self.ranges[item.args.clone()] {
                    *range = range.start - done_bytes..range.end - done_bytes;
                }
            }
            item.args = item.args.start - done..item.args.end - done;
        }
        self.ranges.drain(..done);
        self.words.drain(..done_bytes);
    }

    /// Takes a buffer along for a large reply.
    pub(crate) fn bring_spare(&mut self, spares: &mut Spares) {
        if self.reply.capacity() < LARGE {
            self.reply = spares.take().unwrap_or_else(|| std::mem::take(&mut self.reply));
        }
    }

    /// Returns the spare buffer, or an empty one if its memory went with a large reply.
    pub(crate) fn take_spare(&mut self) -> Vec<u8> {
        if self.reply.capacity() < LARGE { Vec::new() } else { std::mem::take(&mut self.reply) }
    }

    /// Replaces the replies by an error. Those that were not small travel no more: their clients and lengths go to
    /// `make_room`.
    pub(crate) fn withhold_replies(&mut self, error: &[u8], mut make_room: impl FnMut(u64, usize)) {
        self.replies.clear();
        for item in &mut self.items {
            let len = match &item.state {
                State::Replied(range) => range.len(),
                State::RepliedApart(bytes) => bytes.len(),
                State::Asked | State::AskedApart(_) | State::Moved => continue,
            };
            let start = self.replies.len();
            if !item.silent {
                Reply { out: &mut self.replies, protocol: item.protocol }.error(error);
            }
            item.state = State::Replied(start..self.replies.len());
            if len > SMALL {
                make_room(item.from.client_id, len);
            }
        }
    }

    /// Passes on each reply with its addressee.
    pub(crate) fn take_answers(&mut self, mut take: impl FnMut(Asker, Answer<'_>)) {
        for item in &mut self.items {
            match std::mem::replace(&mut item.state, State::Moved) {
                State::Replied(range) => {
                    take(item.from.clone(), Answer::Shared(&self.replies[range]))
                }
                State::RepliedApart(bytes) => take(item.from.clone(), Answer::Own(bytes)),
                State::Asked | State::AskedApart(_) | State::Moved => {}
            }
        }
    }

    /// Empties the packet for its next use.
    pub(crate) fn clear(&mut self) {
        self.ranges.clear();
        self.items.clear();
        self.ranges.shrink_to(RANGES_KEPT);
        self.apart = 0;
        self.done = 0;
        self.slow.clear();
        for buffer in [&mut self.words, &mut self.replies, &mut self.reply] {
            buffer.clear();
            buffer.shrink_to(KEPT);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::find;

    fn request<'a>(args: Args<'a>, ticket: u64) -> Request<'a> {
        Request {
            admitted: Admitted::kept(find(b"get").unwrap(), args),
            partitions: PartitionSet::only(1),
            db: 0,
            protocol: Protocol::Resp2,
            silent: ticket == 1,
            tracks: false,
            from: Asker { place: 7, client_id: 8, addr: Address::nowhere(), ticket },
        }
    }

    /// A packet of `GET key0`, `GET key1` ..., whose `apart` has a buffer of its own.
    fn packet(count: u64, apart: u64) -> Packet {
        let mut packet = Packet::default();
        for ticket in 0..count {
            let words = format!("GETkey{ticket}");
            let ranges = [0..3, 3..words.len()];
            let args = Args::new(words.as_bytes(), &ranges);
            if ticket == apart {
                packet.push_without_words(&request(args, ticket));
                packet.bring_words([&b"xyz"[..], words.as_bytes()].concat(), 3);
            } else {
                packet.push(&request(args, ticket));
            }
        }
        packet
    }

    #[test]
    fn a_packet_that_is_never_empty_does_not_grow() {
        let mut waiting = packet(50, 7);
        let mut next = 50;
        for _ in 0..1000 {
            let expected: Vec<_> =
                (next - 50..next - 40).map(|n| format!("key{n}").into_bytes()).collect();
            let mut keys = Vec::new();
            for _ in 0..10 {
                waiting.execute(|_, admitted, _| keys.push(admitted.args()[1].to_vec()));
            }
            assert_eq!(keys, expected);
            assert_eq!(waiting.split_done().unwrap().len(), 10);
            for ticket in next..next + 10 {
                let words = format!("GETkey{ticket}");
                let ranges = [0..3, 3..words.len()];
                waiting.push(&request(Args::new(words.as_bytes(), &ranges), ticket));
            }
            next += 10;
        }
        assert!(waiting.len() == 50 && waiting.words.len() < 2000 && waiting.ranges.len() < 300);
    }

    fn echo(packet: &mut Packet) -> usize {
        packet.execute(|_, admitted, out| out.extend_from_slice(&admitted.args()[1]))
    }

    fn answers(packet: &mut Packet) -> Vec<(u64, String)> {
        let mut answers = Vec::new();
        packet.take_answers(|to, answer| {
            let bytes = match answer {
                Answer::Shared(bytes) => bytes.to_vec(),
                Answer::Own(bytes) => bytes,
            };
            answers.push((to.ticket, String::from_utf8(bytes).unwrap()));
        });
        answers
    }

    #[test]
    fn each_reply_comes_back_to_its_asker() {
        let mut packet = packet(3, 2);
        while packet.next().is_some() {
            echo(&mut packet);
        }
        let expected = [(0, "key0".into()), (1, String::new()), (2, "key2".into())];
        assert_eq!(answers(&mut packet), expected);
        packet.clear();
        assert!(packet.is_empty() && packet.next().is_none());
    }

    #[test]
    fn replies_that_are_withheld_are_errors_and_later_ones_are_not() {
        let mut packet = packet(4, 3);
        packet.execute(|_, _, out| out.resize(LARGE, b'v'));
        echo(&mut packet);
        let mut room = Vec::new();
        packet.withhold_replies(b"MISCONF why", |client_id, len| room.push((client_id, len)));
        assert_eq!(room, [(8, LARGE)]);
        while packet.next().is_some() {
            echo(&mut packet);
        }
        let error = "-MISCONF why\r\n".to_owned();
        let expected = [(0, error), (1, String::new()), (2, "key2".into()), (3, "key3".into())];
        assert_eq!(answers(&mut packet), expected);
    }

    #[test]
    fn a_large_reply_has_a_buffer_of_its_own() {
        let mut packet = packet(1, 0);
        let mut written = std::ptr::null();
        let len = packet.execute(|_, _, out| {
            out.resize(LARGE, b'v');
            written = out.as_ptr();
        });
        assert_eq!(len, LARGE);
        packet.take_answers(|_, answer| {
            assert!(matches!(answer, Answer::Own(bytes) if bytes.as_ptr() == written));
        });
    }

    #[test]
    fn a_large_reply_takes_no_more_memory_than_twice_its_length() {
        let mut packet = packet(4, 4);
        packet.reply = Vec::with_capacity(1 << 20);
        // The client of the second request wants no replies.
        for len in [LARGE, LARGE, 1 << 19, LARGE] {
            packet.execute(|_, _, out| out.resize(len, b'v'));
        }
        let mut lens = Vec::new();
        packet.take_answers(|_, answer| {
            let Answer::Own(bytes) = answer else { return };
            assert!(bytes.capacity() <= 2 * bytes.len(), "{} {}", bytes.capacity(), bytes.len());
            lens.push(bytes.len());
        });
        assert_eq!(lens, [LARGE, 1 << 19, LARGE]);
    }

    #[test]
    fn requests_that_move_are_answered_in_pieces() {
        let mut packet = packet(6, 4);
        let mut aside = Packet::default();
        while packet.next().is_some() {
            match packet.done % 2 {
                0 => packet.move_next_to(&mut aside),
                _ => drop(echo(&mut packet)),
            }
        }
        assert_eq!(aside.len(), 3);
        assert!(aside.split_done().is_none());
        echo(&mut aside);
        let mut first = aside.split_done().unwrap();
        while aside.next().is_some() {
            echo(&mut aside);
        }
        let mut rest = aside.split_done().unwrap();
        assert!(aside.is_empty() && first.is_piece);
        assert_eq!(answers(&mut first), [(0, "key0".into())]);
        assert_eq!(answers(&mut rest), [(2, "key2".into()), (4, "key4".into())]);
        let expected = [(1, String::new()), (3, "key3".into()), (5, "key5".into())];
        assert_eq!(answers(&mut packet), expected);
    }
}
