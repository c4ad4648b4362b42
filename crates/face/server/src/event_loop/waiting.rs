//! Clients that wait for keys ([`crate::waiting`]): they try again when a key was changed, and when their time is over.

use std::cmp::Reverse;

use super::EventLoop;
use crate::dispatch::Dispatched;
use crate::shard::message::Message;
use crate::store::Key;
use crate::stored::Type;
use crate::wait::Ended;

/// Ended waits that may be noted, beside one for each client.
const WAITS_KEPT: usize = 64;

impl EventLoop {
    /// Lets those who wait for keys try again that were changed, one after the other: each before any other command.
    pub(super) fn serve_waiting(&mut self) {
        while self.service.store.has_ready {
            for key in self.service.store.take_ready() {
                self.serve_waiters(&key);
            }
            self.service.store.end_turns();
        }
    }

    fn serve_waiters(&mut self, key: &Key) {
        let mut after = 0;
        // A failed read is reported by the request that reads next.
        while let Ok(Some(waiter)) = self.service.store.next_waiter(key, after) {
            after = waiter.number;
            if waiter.thread == self.service.thread {
                if self.wakes(waiter.place, waiter.client_id) {
                    self.resume(waiter.place, Dispatched::Waiting);
                    self.serve_once(waiter.place);
                }
            } else if let Some(peers) = &mut self.peers {
                let (place, client_id) = (waiter.place, waiter.client_id);
                peers.mailbox.send(waiter.thread, Message::Wake { place, client_id });
                // The next one has its turn behind that one's; an entry of a stream is for all.
                if waiter.of.of != Type::Stream {
                    return;
                }
            }
        }
    }

    /// Whether a client waits at a place.
    fn wakes(&self, place: usize, client_id: u64) -> bool {
        let client = self.service.clients.get(place);
        client.is_some_and(|client| client.id == client_id && client.wait.is_some())
    }

    /// Lets a client try again, as another thread has changed one of its keys.
    pub(super) fn wake(&mut self, place: usize, client_id: u64) {
        if self.wakes(place, client_id) {
            self.resume(place, Dispatched::Waiting);
        }
    }

    /// Ends the waits whose time is over, and those that clients have ended.
    pub(super) fn end_waits(&mut self) {
        for (client_id, ended) in std::mem::take(&mut self.service.unblocked) {
            let mut clients = self.service.clients.iter_mut();
            let found = clients.find(|(_, client)| client.id == client_id);
            let Some((place, Some(wait))) = found.map(|(at, client)| (at, client.wait.as_mut()))
            else {
                continue;
            };
            wait.ended.get_or_insert(ended);
            drop(clients);
            self.resume(place, Dispatched::Waiting);
        }
        while let Some(&Reverse((until, place, number))) = self.waits.peek()
            && until <= self.service.now
        {
            self.waits.pop();
            if let Some(client) = self.service.clients.get_mut(place)
                && let Some(wait) = client.wait.as_mut().filter(|wait| wait.number == number)
            {
                wait.ended.get_or_insert(Ended::Over);
                self.resume(place, Dispatched::Waiting);
            }
        }
    }

    /// Notes when the wait of a client ends, which has just begun.
    pub(super) fn note_wait(&mut self, place: usize) {
        let clients = &mut self.service.clients;
        let Some(wait) = clients.get_mut(place).and_then(|client| client.wait.as_mut()) else {
            return;
        };
        let Some(until) = wait.until.filter(|_| !wait.is_noted) else { return };
        wait.is_noted = true;
        self.waits.push(Reverse((until, place, wait.number)));
        // Waits that ended early are still noted.
        if self.waits.len() > 2 * clients.count() + WAITS_KEPT {
            let is_there = |place: usize, number| {
                let wait = clients.get(place).and_then(|client| client.wait.as_ref());
                wait.is_some_and(|wait| wait.number == number)
            };
            self.waits.retain(|Reverse((_, place, number))| is_there(*place, *number));
        }
    }
}
