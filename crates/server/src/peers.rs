//! The other threads, as one thread sees them: the requests that it sends them, those that it
//! executes for them, and what it borrows and lends.

use std::collections::VecDeque;
use std::net::{Ipv4Addr, SocketAddr};

use crate::borrow::Lender;
use crate::call::Call;
use crate::client::Client;
use crate::dispatch;
use crate::mailbox::Mailbox;
use crate::message::Message;
use crate::packet::{Packet, Request};
use crate::reply::Reply;
use crate::service::Service;

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
}

impl Peers {
    pub(crate) fn new(mailbox: Mailbox, lender: Lender, service: &Service) -> Self {
        let nowhere = SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0));
        let mut guest = Client::new(0, nowhere, nowhere, -1, service.now);
        guest.authenticated = true;
        let lanes = (0..mailbox.threads()).map(|_| Lane::default()).collect();
        Self { mailbox, lender, lanes, guest, late: Vec::new() }
    }

    /// Whether a request can be sent to a thread in this turn.
    pub(crate) fn has_room(&self, to: usize) -> bool {
        let lane = &self.lanes[to];
        lane.under_way < PACKETS_MAX && !lane.filling.is_full() && !self.mailbox.is_full(to)
    }

    /// Lets a request travel with this turn's packet.
    pub(crate) fn forward(&mut self, to: usize, request: &Request<'_>) {
        self.lanes[to].filling.push(request);
    }

    /// Sends this turn's packets. Returns whether there was one.
    pub(crate) fn send_requests(&mut self, service: &mut Service) -> bool {
        let mut sent = false;
        for (to, lane) in self.lanes.iter_mut().enumerate() {
            if !lane.filling.is_empty() {
                let empty = lane.spare.pop_back().unwrap_or_default();
                let packet = std::mem::replace(&mut lane.filling, empty);
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

    /// Whether requests of other threads wait for parts.
    pub(crate) fn has_inbound(&self) -> bool {
        self.lanes.iter().any(|lane| !lane.inbound.is_empty())
    }

    /// Keeps a packet that has come back, for its next use.
    pub(crate) fn keep(&mut self, from: usize, mut packet: Box<Packet>) {
        let lane = &mut self.lanes[from];
        lane.under_way -= 1;
        packet.clear();
        lane.spare.push_back(packet);
    }

    /// Executes the requests of other threads, up to the first of each whose parts are not here.
    pub(crate) fn execute(&mut self, service: &mut Service) {
        for lane in &mut self.lanes {
            while let Some(packet) = lane.inbound.front_mut() {
                service.begin_lap();
                while let Some(item) = packet.next() {
                    if !item.partitions.is_within(self.lender.free()) {
                        break;
                    }
                    packet.execute(|item, args, out| {
                        let client = &mut self.guest;
                        (client.db, client.protocol) = (item.db, item.protocol);
                        client.addr = item.from.addr;
                        let mut call = Call { service, client, args, out };
                        if let Err(failure) = dispatch::perform(&mut call, item.command) {
                            service.counters.errors += 1;
                            Reply { out, protocol: item.protocol }.error(&failure.text());
                        }
                    });
                }
                if packet.next().is_some() {
                    break;
                }
                lane.executed.extend(lane.inbound.pop_front());
            }
        }
    }

    /// Sends the replies to what was executed, which is durable now.
    pub(crate) fn send_replies(&mut self) {
        for (to, lane) in self.lanes.iter_mut().enumerate() {
            for packet in lane.executed.drain(..) {
                self.mailbox.send(to, Message::Replies(packet));
            }
        }
    }
}
