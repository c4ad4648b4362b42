//! Connections that come and go, and parts that come.

use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use mio::{Interest, Token};
use rustix::io::Errno;

use super::bystanders::Newcomer;
use super::{EventLoop, FIRST_CONNECTION};
use crate::arrival::Arrival;
use crate::commands::{monitor, pubsub, tracking, transactions};
use crate::listener::TOO_MANY;
use crate::partition_set::PartitionSet;
use crate::service::Service;
use crate::shard::message::Message;
use crate::transport::Accepted;
use crate::waiting;

impl EventLoop {
    /// Accepts the connections that wait, as many as there may be.
    pub(super) fn accept(&mut self) {
        self.must_accept = false;
        // With the certificates that were set last.
        self.service.refresh();
        for index in 0..self.listeners.len() {
            loop {
                match self.listeners[index].accept(&self.service.settings.tls) {
                    Ok(accepted) => self.welcome(accepted),
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                    Err(error)
                        if matches!(
                            error.kind(),
                            io::ErrorKind::Interrupted | io::ErrorKind::ConnectionAborted
                        ) => {}
                    // No more descriptors: a waiting client is refused through the descriptor that is reserved for
                    // that.
                    Err(error)
                        if lacks_descriptors(&error)
                            && self
                                .spare
                                .refuse(&self.listeners[index], &self.service.settings.tls) =>
                    {
                        self.service.counters.connections += 1;
                        self.service.counters.connections_rejected += 1;
                    }
                    // Not even that descriptor, or no memory: the loop tries again at the next tick.
                    Err(_) => {
                        self.must_accept = true;
                        return;
                    }
                }
            }
        }
    }

    fn welcome(&mut self, accepted: Accepted) {
        let shared = Arc::clone(&self.shared);
        // A script may never end, if no client can kill it.
        let is_free = |thread| !shared.scripts.running.runs_on(thread);
        let next_client_id = &mut self.next_client_id;
        let Some(arrival) = meet(&mut self.service, accepted, next_client_id, is_free) else {
            return;
        };
        let thread = self.shared.registry.thread_of(arrival.client_id);
        match &mut self.peers {
            Some(peers) if thread != self.service.thread => {
                self.shared.hand_over(thread, arrival);
                peers.mailbox.send(thread, Message::Welcome);
            }
            _ => self.adopt(arrival),
        }
    }

    /// Serves the connections that other threads have accepted for this one.
    pub(super) fn adopt_arrivals(&mut self) {
        for arrival in self.shared.take_arrivals(self.service.thread) {
            self.adopt(arrival);
        }
    }

    /// Serves a connection from now on.
    fn adopt(&mut self, arrival: Arrival) {
        // With an old copy of the settings, a new client would not be asked for a password that was set since.
        self.service.refresh();
        self.adopt_newcomer(Newcomer::of(arrival, self.service.now));
    }

    /// Finds a place for a connection.
    pub(super) fn adopt_newcomer(&mut self, newcomer: Newcomer) {
        let Newcomer { mut connection, mut client } = newcomer;
        let place = self.empty.pop().unwrap_or_else(|| {
            self.connections.push(None);
            self.connections.len() - 1
        });
        let token = Token(FIRST_CONNECTION.0 + place);
        let interest = Interest::READABLE | Interest::WRITABLE;
        if self.poll.registry().register(&mut connection.socket, token, interest).is_err() {
            self.empty.push(place);
            self.shared.clients.fetch_sub(1, Ordering::Relaxed);
            return;
        }
        client.account(connection.memory(), &self.shared.client_memory, self.service.thread);
        client.place = place;
        self.shared.registry.add_client(client.id);
        self.service.clients.insert(place, client);
        self.connections[place] = Some(connection);
    }

    /// Takes the parts that have come since the last turn, and lets requests go on that may have waited for
    /// them, or for those of other threads.
    pub(super) fn take_parts(&mut self) {
        let Some(peers) = &mut self.peers else { return };
        let loading = &self.shared.loading;
        let parts = loading.take(self.service.thread);
        if !parts.is_empty() {
            let mut numbers = PartitionSet::EMPTY;
            parts.iter().for_each(|part| numbers.insert(part.number()));
            self.service.store.bring(parts);
            peers.lender.arrive(numbers);
            self.service.own = peers.lender.own();
            loading.serve(numbers);
            self.shared.ring();
        }
        if loading.is_complete() {
            peers.loading = false;
            if self.shared.threads() == 1 {
                self.peers = None;
            }
        }
        let ready = self.shared.loading.ready();
        if ready != self.ready {
            self.ready = ready;
            self.resume_unready();
        }
    }

    pub(super) fn close(&mut self, place: usize) {
        let client = self.service.clients.remove(place);
        let client_id = client.as_ref().map_or(0, |client| client.id);
        if let Some(mut client) = client {
            client.forget(&self.shared.client_memory, self.service.thread);
            transactions::leave(&mut self.service, &mut client);
            waiting::leave(&mut self.service, &mut client);
            pubsub::leave(&mut self.service, &mut client);
            monitor::leave(&mut self.service, &mut client);
            tracking::leave(&mut self.service, &mut client);
            self.shared.registry.remove_client(client_id);
            self.shared.clients.fetch_sub(1, Ordering::Relaxed);
        }
        if let Some(mut connection) = self.connections[place].take() {
            if let Some(peers) = &mut self.peers {
                connection.answers.abandon();
                for (thread, bytes) in connection.answers.take_owed(0) {
                    peers.mailbox.send(thread, Message::Room { client_id, bytes });
                }
                if let Some(number) = connection.operation {
                    // An operation under way ends once it has its parts and reports.
                    peers.lender.finish(number, place);
                }
            }
            connection.socket.say_goodbye();
            // Closing the socket removes it from the poll too; the call only makes that explicit.
            let _ = self.poll.registry().deregister(&mut connection.socket);
            self.empty.push(place);
        }
        self.paused.retain(|&paused| paused != place);
        self.service.blocked = self.paused.len();
        self.awaiting.retain(|&awaiting| awaiting != place);
        self.unready.retain(|&unready| unready != place);
        self.stalled.retain(|&stalled| stalled != place);
    }

    pub(super) fn close_killed(&mut self) {
        self.service.some_killed = false;
        let clients = self.service.clients.iter_mut();
        let killed: Vec<_> =
            clients.filter(|(_, client)| client.killed).map(|(place, _)| place).collect();
        killed.into_iter().for_each(|place| self.close(place));
    }
}

/// The reply to a client of another machine in protected mode.
const DENIED: &[u8] = b"-DENIED Halite is running in protected mode: no password is set for the default user, and it \
serves clients of this machine only. Let others in by a password (CONFIG SET requirepass, or --requirepass-file), or, \
where a firewall or a private network keeps strangers out, without one: CONFIG SET protected-mode no on this machine, \
or --protected-mode no.\r\n";

/// Meets a client that connects: refuses it, or makes it one of the server's.
pub(super) fn meet(
    service: &mut Service,
    accepted: Accepted,
    next_client_id: &mut u64,
    may_have: impl Fn(usize) -> bool,
) -> Option<Arrival> {
    service.counters.connections += 1;
    let clients = service.shared.clients.load(Ordering::Relaxed);
    if clients >= service.settings.client_count_max {
        service.counters.connections_rejected += 1;
        accepted.socket.refuse(TOO_MANY);
        return None;
    }
    service.refresh();
    if !service.acl.asks_for_password() && service.settings.denies(&accepted.addr) {
        service.counters.connections_rejected += 1;
        accepted.socket.refuse(DENIED);
        return None;
    }
    accepted.socket.tune(service.settings.tcp_keepalive);
    service.shared.clients.fetch_add(1, Ordering::Relaxed);
    let is_in = !service.acl.asks_for_password();
    // The number of a client says which thread has it.
    let registry = &service.shared.registry;
    for _ in 0..service.shared.threads() {
        if may_have(registry.thread_of(*next_client_id)) {
            break;
        }
        *next_client_id += 1;
    }
    let client_id = *next_client_id;
    *next_client_id += 1;
    Some(Arrival { accepted, client_id, is_in })
}

/// Whether the process, or the system, has no descriptor for a connection.
fn lacks_descriptors(error: &io::Error) -> bool {
    matches!(Errno::from_io_error(error), Some(Errno::MFILE | Errno::NFILE))
}
