//! A connection's part of a turn: its bytes are read, its requests executed, and its replies sent.

use super::EventLoop;
use crate::ahead::Guesses;
use crate::client::Client;
use crate::connection::Connection;
use crate::dispatch::Dispatched;
use crate::execution::execute;
use crate::shard::message::Message;

impl EventLoop {
    /// Reads from a connection once.
    pub(super) fn read(&mut self, place: usize) {
        let Some(connection) = &mut self.connections[place] else { return };
        connection.listed = false;
        let (memory, memory_max) =
            (&self.shared.client_memory, self.service.settings.client_memory_max);
        let Some(client) = self.service.clients.get_mut(place) else { return };
        let is_kept = client.no_evict;
        let wants_more = !client.closing
            && !client.killed
            && !connection.has_requests
            && !self.finishing
            && !connection.is_held_back(is_kept, || memory.is_over(is_kept, memory_max));
        if connection.readable && wants_more {
            match connection.receive() {
                Ok(len) => {
                    self.service.counters.note_read(len);
                    if len > 0 {
                        client.active_at = self.service.now;
                    }
                    // The next one is read from only if there is memory.
                    client.account(connection.memory(), memory, self.service.thread);
                }
                Err(_) => client.killed = true,
            }
        }
        if client.authenticated && connection.has_requests {
            connection.parse_ahead(&self.service.settings.limits.of_requests(false));
        }
    }

    /// Prefetches the records that the first requests of some connections will read, so that their cache misses
    /// overlap.
    pub(super) fn prefetch(&self, places: &[usize]) {
        let (mut guesses, mut db) = (Guesses::default(), None);
        for &place in places {
            let request =
                self.connections[place].as_ref().and_then(|connection| connection.request_ahead());
            let Some((words, client)) = request.zip(self.service.clients.get(place)) else {
                continue;
            };
            // Only keys of one database are prefetched: that of the first connection.
            if client.db == *db.get_or_insert(client.db) {
                guesses.add(words);
            }
        }
        if let (Some(db), 2..) = (db, guesses.len()) {
            guesses.prefetch(&self.service.store, db);
        }
    }

    /// Executes the requests of a connection that have arrived; behind each that changes a key, those of clients that wait
    /// for it.
    pub(super) fn serve(&mut self, place: usize) {
        // Messages that were sent before a client ends its subscription reach it.
        if self.has_posts() && self.service.clients.get(place).is_some_and(Client::gets_posts) {
            self.take_posts();
        }
        let changes = self.service.store.changes;
        loop {
            self.serve_once(place);
            if let Some(connection) = &mut self.connections[place] {
                connection.writes = self.service.store.changes != changes;
            }
            if !self.service.store.has_ready {
                return;
            }
            self.serve_waiting();
            let can_go_on = |connection: &Connection| {
                connection.has_requests && connection.waits_for == Dispatched::Done
            };
            if !self.connections[place].as_deref().is_some_and(can_go_on) {
                return;
            }
        }
    }

    /// Executes requests of a connection, until one changes a key for which clients wait.
    pub(super) fn serve_once(&mut self, place: usize) {
        let Some(mut connection) = self.connections[place].take() else { return };
        self.service.refresh();
        if let Some(mut client) = self.service.clients.take_out(place) {
            self.serve_client(place, &mut connection, &mut client);
            self.service.clients.put_back(place, client);
        }
        let waits = connection.waits_for == Dispatched::Waiting;
        self.connections[place] = Some(connection);
        if waits {
            self.note_wait(place);
        }
    }

    /// [`EventLoop::serve_once`] of a connection and its client, which are out of their places.
    fn serve_client(&mut self, place: usize, connection: &mut Connection, client: &mut Client) {
        let can_go_on = connection.waits_for == Dispatched::Done;
        if connection.has_requests && can_go_on && !client.killed {
            self.lend_connections();
            let peers = self.peers.as_deref_mut();
            let dispatched =
                execute(&mut self.service, peers, &mut self.ahead, place, connection, client);
            self.take_connections_back();
            connection.waits_for = dispatched;
            match dispatched {
                Dispatched::Paused => {
                    self.paused.push(place);
                    self.service.blocked = self.paused.len();
                }
                Dispatched::Stalled => self.stalled.push(place),
                // The request would wait for longer than the server lives.
                Dispatched::Unready if self.shared.ending.has_begun() => {
                    client.closing = true;
                    connection.has_requests = false;
                    connection.waits_for = Dispatched::Done;
                }
                Dispatched::Unready => self.unready.push(place),
                Dispatched::Waiting if client.migration.is_some() => {
                    connection.waits_for = Dispatched::Awaiting;
                    self.awaiting.push(place);
                }
                Dispatched::Awaiting => self.awaiting.push(place),
                Dispatched::Done
                | Dispatched::Unanswered
                | Dispatched::Away
                | Dispatched::Waiting => {}
            }
        }
        if connection.ended && !connection.has_requests {
            client.closing = true;
        }
        self.service.some_killed |= client.killed;
        client.account(connection.memory(), &self.shared.client_memory, self.service.thread);
    }

    /// Whether keys were changed when a connection was served last.
    #[inline]
    pub(super) fn writes(&self, place: usize) -> bool {
        self.connections[place].as_ref().is_some_and(|connection| connection.writes)
    }

    /// Sends the replies that need not wait for the end of the turn. The loop does it once all readers were served, and before
    /// writers are: between two readers, a call of the kernel would evict what was fetched for the second.
    pub(super) fn answer_free(&mut self) {
        let mut free = std::mem::take(&mut self.free);
        free.drain(..).for_each(|place| self.answer(place));
        self.free = free;
    }

    /// Whether the replies of a connection that was just served are all there, and tell of nothing that waits for the end of
    /// the turn.
    pub(super) fn tells_nothing_new(&self, place: usize) -> bool {
        let is_whole = |connection: &Connection| {
            connection.waits_for == Dispatched::Done && connection.answers.is_empty()
        };
        self.service.is_settled() && self.connections[place].as_deref().is_some_and(is_whole)
    }

    /// Sends a connection's replies, and lists it again if there is more to do.
    pub(super) fn answer(&mut self, place: usize) {
        let Some(connection) = &mut self.connections[place] else { return };
        let (memory, memory_max) =
            (&self.shared.client_memory, self.service.settings.client_memory_max);
        let Some(client) = self.service.clients.get_mut(place) else { return };
        let is_kept = client.no_evict;
        let is_short = || memory.is_over(is_kept, memory_max);
        // A request may wait for long, and a client that is gone would not read its reply.
        let waits_for_others = match connection.waits_for {
            Dispatched::Waiting => true,
            Dispatched::Awaiting => client.migration.is_some(),
            _ => false,
        };
        let is_gone = connection.gone || connection.ending && waits_for_others;
        let waits_in_vain = is_gone
            && (matches!(
                connection.waits_for,
                Dispatched::Paused
                    | Dispatched::Unready
                    | Dispatched::Awaiting
                    | Dispatched::Waiting
            ) || connection.is_held_back(is_kept, is_short));
        if client.killed || waits_in_vain {
            self.close(place);
            return;
        }
        match connection.send(&mut self.service.spares) {
            Ok(len) => {
                self.service.counters.note_sent(len);
                if len > 0 {
                    client.active_at = self.service.now;
                }
            }
            Err(_) => client.killed = true,
        }
        note_output(client, connection);
        connection.left_unsent = connection.backlog();
        client.account(connection.memory(), memory, self.service.thread);
        let is_answered = !connection.has_unsent() && connection.answers.is_empty();
        if client.killed || client.closing && is_answered {
            connection.drain();
            self.close(place);
            return;
        }
        let can_send = connection.has_unsent() && connection.writable;
        let can_execute = !client.closing
            && (connection.has_requests || connection.readable && !self.finishing)
            && connection.waits_for == Dispatched::Done;
        let is_held_back = can_execute && connection.is_held_back(is_kept, is_short);
        self.held_back |= is_held_back;
        if let Some(peers) = &mut self.peers
            && connection.answers.owes()
        {
            for (thread, bytes) in connection.room() {
                peers.mailbox.send(thread, Message::Room { client_id: client.id, bytes });
            }
        }
        if can_send || can_execute && !is_held_back {
            self.list(place);
        }
    }
}

/// Notes the size of the replies that wait for a client.
pub(super) fn note_output(client: &mut Client, connection: &Connection) {
    client.buffers.output_len = connection.backlog();
    client.buffers.output_capacity = connection.output.last_capacity();
    client.buffers.outputs = connection.output.pieces();
    client.buffers.outputs_capacity = connection.output.capacity()
        - connection.output.last_capacity()
        + connection.answers.byte_len();
}
