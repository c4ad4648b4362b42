//! The other threads, as seen by one thread: the requests that it sends them, those that it executes for them, and the
//! parts that it borrows and lends.
//!
//! If many replies to a client are on their way, its further requests wait with the thread that would execute them, see
//! `flow_control`. All requests wait while too many replies to all clients are on their way.

use std::collections::VecDeque;

use crate::address::Address;
use crate::admission::check_store;
use crate::answer::SMALL;
use crate::client::Client;
use crate::commands::flags;
use crate::dispatch;
use crate::service::Service;
use crate::shard::flow_control::FlowControl;
use crate::shard::lender::Lender;
use crate::shard::mailbox::Mailbox;
use crate::shard::message::Message;
use crate::shard::packet::{Item, Packet, Request};
use crate::tracking::{Mode, Tracking};

/// Packets that may be on their way to one thread.
const PACKETS_MAX: usize = 4;

/// The other threads.
pub(crate) struct Peers {
    pub(crate) mailbox: Mailbox,
    pub(crate) lender: Lender,
    /// By thread.
    lanes: Vec<Lane>,
    /// Stands for the clients of other threads.
    guest: Client,
    /// A reply that must wait for others.
    pub(crate) late: Vec<u8>,
    /// Some partitions are not served yet.
    pub(crate) loading: bool,
    /// Requests of other threads wait until replies on their way have come.
    pub(crate) is_choked: bool,
    /// The thread whose packet ends with a request that lacks its words.
    pub(crate) wants_words: Option<usize>,
}

/// Requests between this thread and another one.
#[derive(Default)]
struct Lane {
    /// The packet that this turn fills.
    filling: Box<Packet>,
    /// Packets that are on their way, or being executed.
    under_way: usize,
    /// Empty packets.
    spare: VecDeque<Box<Packet>>,
    /// Packets of the other thread, to be executed.
    inbound: VecDeque<Box<Packet>>,
    /// Packets of the other thread that have been executed.
    executed: VecDeque<Box<Packet>>,
    /// The room that its clients have for replies.
    flow: FlowControl,
}

impl Peers {
    pub(crate) fn new(mailbox: Mailbox, lender: Lender, service: &Service) -> Self {
        let (addr, laddr) = (Address::nowhere(), Address::nowhere());
        let mut guest = Client::new(Client::GUEST, addr, laddr, -1, service.now);
        guest.authenticated = true;
        // Its reads are remembered for a client when that client wants it.
        let tracking = Tracking { mode: Mode::OptIn, ..Tracking::default() };
        guest.tracking = Some(Box::new(tracking));
        let lanes = (0..mailbox.threads()).map(|_| Lane::default()).collect();
        let loading = !service.shared.loading.is_complete();
        Self {
            mailbox,
            lender,
            lanes,
            guest,
            late: Vec::new(),
            loading,
            is_choked: false,
            wants_words: None,
        }
    }

    /// Whether a request can be sent to a thread in this turn.
    pub(crate) fn has_room(&self, to: usize) -> bool {
        let lane = &self.lanes[to];
        lane.under_way < PACKETS_MAX && !lane.filling.is_full() && !self.mailbox.is_full(to)
    }

    /// Lets a request travel with this turn's packet. If it has its words `apart`, the caller brings
    /// them next, with [`Peers::bring_words`].
    pub(crate) fn forward(&mut self, to: usize, apart: bool, request: &Request<'_>) {
        let packet = &mut self.lanes[to].filling;
        if apart {
            packet.push_without_words(request);
            self.wants_words = Some(to);
        } else {
            packet.push(request);
        }
    }

    /// Gives the request that wants it the memory in which its words are, from an offset on.
    pub(crate) fn bring_words(&mut self, (bytes, base): (Vec<u8>, usize)) {
        if let Some(to) = self.wants_words.take() {
            self.lanes[to].filling.bring_words(bytes, base);
        }
    }

    /// Sends this turn's packets. Returns whether there was one.
    pub(crate) fn send_requests(&mut self, service: &mut Service) -> bool {
        let mut sent = false;
        for (to, lane) in self.lanes.iter_mut().enumerate() {
            if !lane.filling.is_empty() {
                let empty = lane.spare.pop_back().unwrap_or_default();
                let mut packet = std::mem::replace(&mut lane.filling, empty);
                packet.bring_spare(&mut service.spares);
                service.counters.requests_forwarded += packet.len() as u64;
                lane.under_way += 1;
                self.mailbox.send(to, Message::Requests(packet));
                sent = true;
            }
        }
        self.mailbox.flush();
        sent
    }

    /// Takes a packet of another thread.
    pub(crate) fn accept(&mut self, from: usize, packet: Box<Packet>) {
        self.lanes[from].inbound.push_back(packet);
    }

    /// A client of another thread has room for replies.
    pub(crate) fn make_room(&mut self, from: usize, client_id: u64, bytes: usize) {
        self.lanes[from].flow.make_room(client_id, bytes);
    }

    /// Whether requests of other threads wait for parts.
    pub(crate) fn has_inbound(&self) -> bool {
        self.lanes.iter().any(|lane| !lane.inbound.is_empty() || lane.flow.has_ready())
    }

    /// Keeps a packet that has come back, for its next use, but for its spare buffer, which is returned.
    pub(crate) fn keep(&mut self, from: usize, mut packet: Box<Packet>) -> Vec<u8> {
        let spare = packet.take_spare();
        if packet.is_piece {
            return spare;
        }
        let lane = &mut self.lanes[from];
        lane.under_way -= 1;
        packet.clear();
        lane.spare.push_back(packet);
        spare
    }

    /// Executes the requests of other threads, up to the first of each whose parts are not here, and as long as not too
    /// many replies are on their way. Beyond that, a packet goes back in pieces, since its other requests wait for the
    /// replies that it carries. Requests that a pause holds back are set aside.
    pub(crate) fn execute(&mut self, service: &mut Service) {
        let free = self.lender.free();
        let guest = &mut self.guest;
        let can_travel = |service: &Service| {
            service.shared.client_memory.can_travel(service.settings.client_memory_max)
        };
        let is_held = |service: &Service, item: &Item| {
            let holds = item.command.is_any(flags::WRITE | flags::MAY_REPLICATE);
            service.pause.is_some() && service.pauses(holds)
        };
        for lane in &mut self.lanes {
            if lane.flow.has_ready() {
                service.begin_lap();
                let pieces = lane.flow.resume(|packet| {
                    let next = packet.next()?;
                    let is_free = next.partitions.is_within(free) && !is_held(service, next);
                    let can = is_free && can_travel(service);
                    can.then(|| execute_next(service, guest, packet))
                });
                lane.executed.extend(pieces.into_iter().map(Box::new));
            }
            while let Some(packet) = lane.inbound.front_mut() {
                service.begin_lap();
                while let Some(item) = packet.next() {
                    let client_id = item.from.client_id;
                    if lane.flow.must_wait(client_id) {
                        lane.flow.defer(client_id, packet);
                    } else if is_held(service, item) {
                        lane.flow.defer(client_id, packet);
                        lane.flow.wake(client_id);
                    } else if item.partitions.is_within(free) && can_travel(service) {
                        let len = execute_next(service, guest, packet);
                        lane.flow.note_sent(client_id, len);
                    } else {
                        break;
                    }
                }
                if packet.next().is_some() {
                    if !can_travel(service) {
                        lane.executed.extend(packet.split_done().map(Box::new));
                    }
                    break;
                }
                lane.executed.extend(lane.inbound.pop_front());
            }
        }
        self.is_choked = self.has_inbound() && !can_travel(service);
    }

    /// Replaces the replies to the executed requests by an error: their writes could not be made durable.
    pub(crate) fn withhold_replies(&mut self, error: &[u8]) {
        for lane in &mut self.lanes {
            // Of a packet whose next request waits for a part, some are executed.
            for packet in lane.executed.iter_mut().chain(&mut lane.inbound) {
                packet
                    .withhold_replies(error, |client_id, len| lane.flow.make_room(client_id, len));
            }
        }
    }

    /// Sends the replies to the executed requests, whose writes are durable now.
    pub(crate) fn send_replies(&mut self) {
        for (to, lane) in self.lanes.iter_mut().enumerate() {
            for packet in lane.executed.drain(..) {
                self.mailbox.send(to, Message::Replies(packet));
            }
        }
    }
}

/// Executes the next request of a packet, and returns the length of its reply.
fn execute_next(service: &mut Service, guest: &mut Client, packet: &mut Packet) -> usize {
    let mut asker = None;
    let len = packet.execute(|item, admitted, out| {
        (guest.db, guest.protocol) = (item.db, item.protocol);
        guest.addr.clone_from(&item.from.addr);
        guest.acts_for = item.from.client_id;
        if let Some(tracking) = &mut guest.tracking {
            tracking.caching = item.tracks;
        }
        let can_take = check_store(service, guest, item.command);
        let performed = can_take.and_then(|()| dispatch::perform(service, guest, admitted, out));
        if let Err(failure) = performed {
            dispatch::answer_failure(service, item.protocol, &failure, out);
        }
        asker = service.slow_guest.is_some().then(|| item.from.clone());
    });
    if len > SMALL {
        service.shared.client_memory.send(len);
    }
    if let Some(asker) = asker {
        packet.slow.extend(service.slow_guest.take().map(|entry| (asker, entry)));
    }
    len
}
