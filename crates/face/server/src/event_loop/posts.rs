//! The posts of a turn, and those of other threads.

use std::sync::Arc;

use super::EventLoop;
use crate::client::Client;
use crate::delivery::Forms;
use crate::pubsub::{Message, Post};

/// The number of a post of another thread: no client here has got it before.
const FOREIGN: u64 = u64::MAX;

impl EventLoop {
    /// Whether other threads have posts for clients here.
    #[inline]
    pub(super) fn has_posts(&self) -> bool {
        !self.shared.inbox(self.service.thread).is_empty()
    }

    /// Delivers the posts of other threads.
    pub(super) fn take_posts(&mut self) {
        let waiting = self.shared.inbox(self.service.thread).take();
        for post in &waiting.posts {
            self.deliver(post, FOREIGN);
        }
        if waiting.has_lost {
            self.give_up_subscribers();
        }
    }

    /// Delivers the posts of this turn, whose changes are durable, and hands those for clients of other threads to
    /// these.
    pub(super) fn send_posts(&mut self) {
        if self.service.store.outbox.is_empty() {
            return;
        }
        self.service.store.outbox.gather();
        // Their publishers have been told of them, maybe before the publishers of these began.
        if self.has_posts() {
            self.take_posts();
        }
        let (me, lost) = (self.service.thread, self.service.store.outbox.take_lost());
        let mut sent = Vec::new();
        while let Some((number, addressed)) = self.service.store.outbox.pop() {
            if addressed.to.contains(me) {
                self.deliver(&addressed.post, number);
            }
            sent.push(addressed);
        }
        for thread in (0..self.shared.threads()).filter(|thread| *thread != me) {
            let of_thread = sent.iter().filter(|addressed| addressed.to.contains(thread));
            let mut posts = of_thread.map(|addressed| Arc::clone(&addressed.post)).peekable();
            if posts.peek().is_some() || lost.contains(thread) {
                self.shared.post(thread, posts, lost.contains(thread));
            }
        }
        if lost.contains(me) {
            self.give_up_subscribers();
        }
    }

    /// Lets the posts of this turn leave before its end, if they take much memory: all changes so far become durable.
    #[inline]
    pub(super) fn relieve_outbox(&mut self) {
        if self.service.store.outbox.is_large() {
            self.settle();
        }
    }

    /// Makes changes durable, and lets the posts leave that tell of them.
    pub(super) fn settle(&mut self) {
        if let Err(error) = self.sync() {
            self.withhold(error);
        }
        self.send_posts();
    }

    /// Writes a post to the clients here that get it, but for those that have got the one of this number.
    fn deliver(&mut self, post: &Post, number: u64) {
        let reached = match post {
            Post::Message(message) => self.deliver_message(message, number),
            Post::Commands(lines) => self.deliver_commands(lines),
            Post::CommandsLost => {
                self.give_up(|client| client.is_monitor);
                Vec::new()
            }
            Post::Invalidation(invalidation) => self.deliver_invalidation(invalidation, number),
            Post::Changes(changes) => self.deliver_changes(changes),
            Post::Flush => self.deliver_flush(number),
            Post::Redirected { to, keys } => self.deliver_redirected(*to, keys),
        };
        for place in reached {
            self.look_after_output(place);
        }
        if self.service.is_short(false) {
            self.evict();
        }
    }

    /// Writes a message to its subscribers, and returns the places of their connections.
    fn deliver_message(&mut self, message: &Message, number: u64) -> Vec<usize> {
        let mut reached = Vec::new();
        for (pattern, places) in self.service.subscribers.ways(message) {
            let mut forms = Forms::default();
            for place in places {
                let Some(connection) = &mut self.connections[place] else { continue };
                let Some(client) = self.service.clients.get_mut(place) else { continue };
                if !client.takes_posts() || number < client.next_post {
                    continue;
                }
                let protocol = client.protocol;
                connection.push(forms.of(protocol, |out| message.write(protocol, pattern, out)));
                reached.push(place);
            }
        }
        reached
    }

    /// Writes commands to the monitors here, and returns the places of their connections.
    fn deliver_commands(&mut self, lines: &[u8]) -> Vec<usize> {
        let mut reached = Vec::new();
        for place in self.service.subscribers.monitors() {
            let is_there = self.service.clients.get(place).is_some_and(Client::takes_posts);
            if let Some(connection) = self.connections[place].as_mut().filter(|_| is_there) {
                connection.push(lines);
                reached.push(place);
            }
        }
        reached
    }

    /// Checks the output of a connection that a post was added to, and lets it be sent in this turn.
    fn look_after_output(&mut self, place: usize) {
        let Some(connection) = &mut self.connections[place] else { return };
        connection.output.divide(&mut self.service.spares);
        if !connection.posted {
            connection.posted = true;
            self.posted.push(place);
        }
        let (memory, backlog) = (connection.memory(), connection.backlog());
        if let Some(client) = self.service.clients.get_mut(place) {
            client.account(memory, &self.shared.client_memory, self.service.thread);
        }
        self.service.check_output_of(place, backlog, 0);
    }

    /// Sends the posts that connections have got in this turn.
    pub(super) fn answer_posted(&mut self) {
        for place in std::mem::take(&mut self.posted) {
            if let Some(connection) = &mut self.connections[place] {
                connection.posted = false;
            }
            self.answer(place);
        }
    }

    /// Disconnects all clients that get posts: some for them were lost, since this thread was too far behind.
    #[cold]
    fn give_up_subscribers(&mut self) {
        self.give_up(Client::gets_posts);
    }

    /// Disconnects the clients that lack posts which were lost.
    #[cold]
    fn give_up(&mut self, lacks_some: impl Fn(&Client) -> bool) {
        let mut count = 0;
        for (_, client) in self.service.clients.iter_mut() {
            if lacks_some(client) && !client.killed {
                client.killed = true;
                count += 1;
            }
        }
        self.service.some_killed |= count > 0;
        self.service.counters.output_limit_disconnections += count;
        self.service.settings.log(|| {
            format!("{count} clients are disconnected: too many messages waited for their thread")
        });
    }
}
