//! The clients of a thread while a script runs on it for long.
//!
//! The event loop lends the connections to the service for the time of a request. A script that runs for long comes
//! back here again and again: it accepts new connections, reads what clients have sent, and answers them. By then all
//! requests are refused but for a few, such as SCRIPT KILL, which need no key. No reply leaves before the writes are
//! durable that other replies in front of it are about.

use std::mem;
use std::time::Instant;

use super::EventLoop;
use super::arrivals::meet;
use crate::ahead::Ahead;
use crate::arrival::Arrival;
use crate::client::Client;
use crate::connection::Connection;
use crate::dispatch::Dispatched;
use crate::execution::execute;
use crate::service::Service;
use crate::transport::{Accepted, Listener};

/// Connections that are accepted while a script runs.
const NEWCOMERS_MAX: usize = 64;

/// The connections of a thread, lent to its service.
#[derive(Default)]
pub(super) struct Bystanders {
    connections: Vec<Option<Box<Connection>>>,
    listeners: Vec<Listener>,
    newcomers: Vec<Newcomer>,
    next_client_id: u64,
    /// Some connection was served.
    have_been_served: bool,
}

/// A connection that the event loop does not know yet.
pub(super) struct Newcomer {
    pub(super) connection: Box<Connection>,
    pub(super) client: Client,
}

impl Newcomer {
    /// A client that has just been accepted.
    pub(super) fn of(arrival: Arrival, now: Instant) -> Self {
        let Arrival { accepted: Accepted { socket, addr, laddr }, client_id, is_in } = arrival;
        let mut client = Client::new(client_id, addr, laddr, socket.fd(), now);
        client.authenticated = is_in;
        Self { connection: Box::new(Connection::new(socket)), client }
    }
}

/// Answers the clients of the thread that runs a script, as far as they have sent requests.
pub(super) fn answer(service: &mut Service) {
    let lent = service.bystanders.take().map(|lent| lent.downcast::<Bystanders>());
    let Some(Ok(mut bystanders)) = lent else { return };
    let has_failed = service.shared.sync_failure.get().is_some();
    // The end of the turn tells why a sync fails.
    if !service.store.is_unsynced() || !has_failed && service.sync().is_ok() {
        bystanders.serve(service);
    }
    service.bystanders = Some(bystanders);
}

impl Bystanders {
    fn serve(&mut self, service: &mut Service) {
        service.refresh();
        self.have_been_served = true;
        self.accept(service);
        for (place, connection) in self.connections.iter_mut().enumerate() {
            let Some(connection) = connection else { continue };
            let Some(mut client) = service.clients.take_out(place) else { continue };
            serve(service, place, connection, &mut client);
            service.some_killed |= client.killed;
            service.clients.put_back(place, client);
        }
        for newcomer in &mut self.newcomers {
            // No client is at this place.
            serve(service, usize::MAX, &mut newcomer.connection, &mut newcomer.client);
        }
    }

    fn accept(&mut self, service: &mut Service) {
        let own = service.thread;
        // They were handed to this thread before others saw its script.
        for arrival in service.shared.take_arrivals(own) {
            self.newcomers.push(Newcomer::of(arrival, service.now));
        }
        for listener in &self.listeners {
            while self.newcomers.len() < NEWCOMERS_MAX {
                let Ok(accepted) = listener.accept(&service.settings.tls) else { break };
                let arrival =
                    meet(service, accepted, &mut self.next_client_id, |thread| thread == own);
                let Some(arrival) = arrival else { continue };
                self.newcomers.push(Newcomer::of(arrival, service.now));
            }
        }
    }
}

/// Reads from a connection, and answers its requests.
fn serve(service: &mut Service, place: usize, connection: &mut Connection, client: &mut Client) {
    let waits = connection.waits_for != Dispatched::Done
        || !connection.answers.is_empty()
        || connection.operation.is_some();
    if waits || client.killed || client.closing {
        return;
    }
    if !connection.has_requests {
        match connection.receive() {
            Ok(len) => service.counters.note_read(len),
            Err(_) => client.killed = true,
        }
    }
    if connection.has_requests && !client.killed {
        let ahead = &mut Ahead::default();
        let dispatched = execute(service, None, ahead, place, connection, client);
        // The event loop executes it once the script has ended.
        connection.has_requests |= dispatched != Dispatched::Done;
    }
    while connection.writable && connection.has_unsent() {
        match connection.send(&mut service.spares) {
            Ok(len) => service.counters.note_sent(len),
            Err(_) => {
                client.killed = true;
                break;
            }
        }
    }
    connection.left_unsent = connection.backlog();
}

impl EventLoop {
    /// Lends the connections to the service.
    pub(super) fn lend_connections(&mut self) {
        self.service.answer_bystanders = answer;
        let mut lent = self.lent.take().unwrap_or_default();
        *lent = Bystanders {
            connections: mem::take(&mut self.connections),
            listeners: mem::take(&mut self.listeners),
            newcomers: Vec::new(),
            next_client_id: self.next_client_id,
            have_been_served: false,
        };
        self.service.bystanders = Some(lent);
    }

    /// Takes the connections back, and those that have come meanwhile.
    pub(super) fn take_connections_back(&mut self) {
        let lent = self.service.bystanders.take().map(|lent| lent.downcast::<Bystanders>());
        let Some(Ok(mut lent)) = lent else { return };
        let bystanders = mem::take(&mut *lent);
        self.lent = Some(lent);
        self.connections = bystanders.connections;
        self.listeners = bystanders.listeners;
        self.next_client_id = bystanders.next_client_id;
        for newcomer in bystanders.newcomers {
            self.adopt_newcomer(newcomer);
        }
        if bystanders.have_been_served {
            // No event announces again what was announced meanwhile.
            self.must_accept = true;
            for place in 0..self.connections.len() {
                if let Some(connection) = &mut self.connections[place] {
                    connection.readable = true;
                    self.list(place);
                }
            }
        }
    }
}
