//! The end of the loop: requests that have arrived are answered, and everything is made durable.

use std::sync::Arc;
use std::time::Duration;

use mio::Events;

use super::EventLoop;
use crate::Error;

impl EventLoop {
    /// Answers the requests that have arrived, and ends.
    pub(super) fn finish(mut self, events: &mut Events) -> Result<(), Error> {
        self.listeners.clear();
        self.service.change(|common| common.pause = None);
        self.resume_paused();
        self.resume_unready();
        self.wait(events, Duration::ZERO)?;
        self.turn();
        self.finishing = true;
        if self.peers.is_some() {
            self.finish_with_peers(events)?;
        }
        // Requests of a long pipeline that have arrived.
        while self.peers.is_none() && !self.listed.is_empty() && !self.shared.ending.parts() {
            self.turn();
        }
        let synced = self.sync_at_end();
        // Connections that came too late are closed.
        drop(self.shared.take_arrivals(self.service.thread));
        loop {
            for place in 0..self.connections.len() {
                self.send_all(place);
            }
            self.listed.clear();
            let mut connections = self.connections.iter().flatten();
            let left = self.shared.ending.left();
            if left.is_zero() || !connections.any(|connection| connection.has_unsent()) {
                let connections = self.connections.iter_mut().flatten();
                connections.for_each(|connection| connection.socket.say_goodbye());
                return synced;
            }
            self.wait(events, left)?;
        }
    }

    /// Makes everything durable, under any policy.
    fn sync_at_end(&mut self) -> Result<(), Error> {
        if let Some(error) = self.shared.sync_failure.get() {
            return Err(Error::Sync(Arc::clone(error)));
        }
        self.service.sync_asked = true;
        self.service.sync().map_err(|error| Error::Sync(Arc::new(error)))
    }

    /// Sends replies until none is left, or the socket takes no more: only in that case will the socket announce room.
    fn send_all(&mut self, place: usize) {
        let Some(connection) = &mut self.connections[place] else { return };
        connection.listed = false;
        while connection.writable && connection.has_unsent() {
            if connection.send(&mut self.service.spares).is_err() {
                return self.close(place);
            }
        }
    }

    /// Goes on until no thread waits for another one, or until the time for that is over; then the thread ends with the
    /// writes that are durable.
    fn finish_with_peers(&mut self, events: &mut Events) -> Result<(), Error> {
        let mut finished = false;
        while !self.shared.all_finished() && !self.shared.ending.parts() {
            let waits = self.connections.iter().flatten().any(|connection| connection.waits());
            if !finished && !waits && self.listed.is_empty() {
                finished = true;
                self.shared.finish();
                continue;
            }
            self.resume_paused();
            self.wait(events, self.timeout())?;
            self.turn();
        }
        Ok(())
    }
}
