//! Clients that are disconnected because all of them together take too much memory.

use super::EventLoop;
use super::upkeep::note_buffers;
use crate::dispatch::Dispatched;

impl EventLoop {
    /// Disconnects clients of this thread, those with most memory first, until all clients take less than the limit.
    /// Memory that is only kept for later requests is returned before. If another thread has the largest client, that
    /// thread is woken to disconnect it. Returns whether clients take less than the limit.
    #[cold]
    pub(super) fn evict(&mut self) -> bool {
        let thread = self.service.thread;
        // Clients that are being disconnected anyway may free enough.
        if self.service.some_killed {
            self.close_killed();
        }
        self.give_back_buffers();
        while self.service.is_short(false) {
            let clients = self.service.clients.iter_mut();
            let clients = clients.filter(|(_, client)| !client.no_evict);
            let largest = clients.max_by_key(|(_, client)| client.buffers.memory);
            let bytes = largest.as_ref().map_or(0, |(_, client)| client.buffers.memory);
            if let Some(other) = self.shared.client_memory.larger_elsewhere(thread, bytes) {
                self.shared.ring_one(other);
                return false;
            }
            let Some((place, client)) = largest else { return false };
            let now = self.service.now;
            self.service.settings.log(|| {
                format!(
                    "client {} is evicted: all clients together take more than maxmemory-clients",
                    client.describe(now)
                )
            });
            self.service.counters.evicted_clients += 1;
            self.close(place);
        }
        true
    }

    /// Returns the memory of all empty buffers.
    fn give_back_buffers(&mut self) {
        for (place, client) in self.service.clients.iter_mut() {
            let Some(connection) = &mut self.connections[place] else { continue };
            connection.shrink_what_is_empty();
            note_buffers(client, connection);
            client.account(connection.memory(), &self.shared.client_memory, self.service.thread);
        }
    }

    /// Lets connections go on that waited for memory: looks anew at each.
    pub(super) fn relieve(&mut self) {
        if !std::mem::take(&mut self.held_back) {
            return;
        }
        self.give_back_buffers();
        for place in 0..self.connections.len() {
            let Some(connection) = &self.connections[place] else { continue };
            let may_go_on = connection.has_requests || connection.readable;
            if may_go_on && connection.waits_for == Dispatched::Done {
                self.list(place);
            }
        }
    }
}
