//! The replies of a turn whose writes could not be made durable.
//!
//! A failed sync leaves it open which writes are durable, so that no reply that has not left by then may leave: it may tell
//! of one. A client of this thread that is owed one is told why, and disconnected: whether its requests without a reply
//! happened, it cannot know. Clients of other threads get the error as the reply to each of their requests. From then on all
//! threads refuse writes, and reads go on; they may see writes of that turn, which the next start may not find.

use std::sync::Arc;

use super::EventLoop;
use crate::answer::{Answer, SMALL};
use crate::failure::Failure;
use crate::output::Output;
use crate::reply::Reply;

impl EventLoop {
    /// Withholds the replies of this turn, and has all threads refuse writes from now on.
    #[cold]
    pub(super) fn withhold(&mut self, error: halite::Error) {
        self.has_failed = true;
        self.service.sync_asked = false;
        self.service.store.abandon_syncs();
        self.service.store.outbox.withhold();
        let error = Arc::new(error);
        if self.shared.sync_failure.set(Arc::clone(&error)).is_ok() {
            let log =
                || format!("writes cannot be made durable, and are refused from now on: {error}");
            self.service.settings.log(log);
        }
        let failure = Failure::NotDurable(error);
        let text = failure.text();
        let text = &text[..text.len().min(SMALL / 2)];
        if let Some(peers) = &mut self.peers {
            peers.withhold_replies(text);
        }
        for place in 0..self.connections.len() {
            let Some(connection) = &mut self.connections[place] else { continue };
            let Some(client) = self.service.clients.get_mut(place) else { continue };
            if connection.backlog() == connection.left_unsent {
                continue;
            }
            let is_between_replies = connection.left_unsent == 0 && !connection.waits();
            if !is_between_replies {
                client.killed = true;
                self.service.some_killed = true;
                continue;
            }
            connection.output = Output::default();
            let mut out = Vec::new();
            Reply { out: &mut out, protocol: client.protocol }.error(text);
            connection.output.push(Answer::Own(out));
            client.closing = true;
            self.service.note_error(text);
            self.list(place);
        }
    }
}
