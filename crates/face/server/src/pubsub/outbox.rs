//! The posts of a thread's turn, until what they tell of is durable.

use std::collections::VecDeque;
use std::sync::Arc;

use crate::notifications::{EventClass, Events};
use crate::pubsub::{Message, Post, Registry, Threads};

/// The posts of this turn, in their order. Each has a number, which no other post of the thread has.
#[derive(Debug)]
pub(crate) struct Outbox {
    registry: Arc<Registry>,
    posts: VecDeque<Addressed>,
    /// The number of the first post.
    first: u64,
    byte_len: usize,
    /// The number of the first post of the transaction under way.
    mark: Option<u64>,
    /// Commands of this turn, for the monitors. They have been executed, also if they are rolled back.
    commands: Vec<u8>,
    /// Some of them are lost for lack of room.
    commands_lost: bool,
    /// Whether any client gets to know of commands, as of the last look.
    is_watched: bool,
    /// Threads to which posts are lost for lack of room.
    lost: Threads,
    /// The events about keys that are sent.
    pub(crate) events: Events,
}

/// Bytes of posts above which those of a turn leave before its end, behind a sync of their own.
const LARGE: usize = 8 << 20;
/// Bytes of posts above which the next ones are lost: a single request has made them.
const BYTES_MAX: usize = 64 << 20;

/// A post, and the threads whose clients get it.
#[derive(Debug, Clone)]
pub(crate) struct Addressed {
    pub(crate) to: Threads,
    pub(crate) post: Arc<Post>,
}

impl Outbox {
    pub(crate) fn new(registry: Arc<Registry>) -> Self {
        Self {
            registry,
            posts: VecDeque::new(),
            first: 1,
            byte_len: 0,
            mark: None,
            commands: Vec::new(),
            commands_lost: false,
            is_watched: false,
            lost: Threads::default(),
            events: Events::default(),
        }
    }

    /// Sends a message to the subscribers of a channel, and returns how many there are.
    pub(crate) fn publish(
        &mut self,
        is_shard: bool,
        channel: &[u8],
        payload: &[u8],
        go_on: impl Fn() -> bool,
    ) -> usize {
        let receivers = self.registry.receivers(is_shard, channel, go_on);
        if receivers.count > 0 {
            let message = Message {
                is_shard,
                channel: channel.into(),
                payload: payload.into(),
                patterns: receivers.patterns,
                step: receivers.step,
            };
            self.push(receivers.threads, Post::Message(message));
        }
        receivers.count
    }

    /// Looks whether any client gets to know of commands: before each.
    #[inline]
    pub(crate) fn look_for_watchers(&mut self) -> bool {
        self.is_watched = self.registry.watchers.has_any();
        self.is_watched
    }

    /// Tells the monitors of a command, if there are any: `write` appends its line.
    pub(crate) fn note_command(&mut self, write: impl FnOnce(&mut Vec<u8>)) {
        if self.registry.watchers.monitored() == Threads::default() || self.commands_lost {
            return;
        }
        write(&mut self.commands);
        if self.commands.len() > BYTES_MAX {
            self.commands = Vec::new();
            self.commands_lost = true;
        }
    }

    /// Posts the commands of this turn.
    pub(crate) fn post_commands(&mut self) {
        let to = self.registry.watchers.monitored();
        if !self.commands.is_empty() {
            let lines = std::mem::take(&mut self.commands);
            self.push(to, Post::Commands(lines.into()));
        }
        if std::mem::take(&mut self.commands_lost) {
            self.push(to, Post::CommandsLost);
        }
    }

    /// Tells the subscribers to events of a key's event, if its class is configured.
    #[inline]
    pub(crate) fn notify(&mut self, class: EventClass, event: &str, db: usize, key: &[u8]) {
        if self.events.include(class) {
            self.publish_event(event, db, key);
        }
    }

    #[cold]
    fn publish_event(&mut self, event: &str, db: usize, key: &[u8]) {
        if !self.registry.has_any() {
            return;
        }
        let event = event.as_bytes();
        if self.events.go_to_keys() {
            let channel = [format!("__keyspace@{db}__:").as_bytes(), key].concat();
            self.publish(false, &channel, event, || true);
        }
        if self.events.go_to_events() {
            let channel = [format!("__keyevent@{db}__:").as_bytes(), event].concat();
            self.publish(false, &channel, key, || true);
        }
    }

    fn push(&mut self, to: Threads, post: Post) {
        if self.byte_len + post.byte_len() > BYTES_MAX && !self.posts.is_empty() {
            self.lost = self.lost.or(to);
            return;
        }
        self.byte_len += post.byte_len();
        self.posts.push_back(Addressed { to, post: Arc::new(post) });
    }

    /// Posts from now on belong to a transaction.
    pub(crate) fn begin(&mut self) {
        self.mark = Some(self.end());
    }

    /// The transaction has become part of the turn.
    pub(crate) fn commit(&mut self) {
        self.mark = None;
    }

    /// The transaction has changed nothing: its posts are dropped.
    pub(crate) fn rollback(&mut self) {
        let Some(mark) = self.mark.take() else { return };
        while self.end() > mark
            && let Some(dropped) = self.posts.pop_back()
        {
            self.byte_len -= dropped.post.byte_len();
        }
    }

    /// The number of the next post.
    #[inline]
    pub(crate) fn end(&self) -> u64 {
        self.first + self.posts.len() as u64
    }

    /// Whether the posts take so much memory that they should leave.
    #[inline]
    pub(crate) fn is_large(&self) -> bool {
        self.byte_len + self.commands.len() > LARGE
    }

    /// The threads to which posts behind these are lost.
    pub(crate) fn take_lost(&mut self) -> Threads {
        std::mem::take(&mut self.lost)
    }

    /// Whether there is no post. Some are lost only behind others.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.posts.is_empty() && self.commands.is_empty() && !self.commands_lost
    }

    /// The post of this number; `None`: it has left, or there is none yet.
    pub(crate) fn get(&self, number: u64) -> Option<&Addressed> {
        let index = number.checked_sub(self.first)?;
        self.posts.get(usize::try_from(index).ok()?)
    }

    /// The number of the first post that has not left.
    pub(crate) fn first(&self) -> u64 {
        self.first
    }

    /// Takes the next post that leaves, with its number.
    pub(crate) fn pop(&mut self) -> Option<(u64, Addressed)> {
        let addressed = self.posts.pop_front()?;
        self.byte_len -= addressed.post.byte_len();
        self.first += 1;
        Some((self.first - 1, addressed))
    }

    /// Drops all posts: what they tell of could not be made durable.
    pub(crate) fn clear(&mut self) {
        self.commands.clear();
        self.commands_lost = false;
        while self.pop().is_some() {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pubsub::Kind;

    #[test]
    fn what_is_rolled_back_is_not_posted() {
        let registry = Arc::new(Registry::default());
        registry.subscribe(Kind::Channel, b"c", 1);
        let mut outbox = Outbox::new(registry);
        let publish = |outbox: &mut Outbox, payload: &[u8]| {
            assert_eq!(outbox.publish(false, b"c", payload, || true), 1);
        };
        publish(&mut outbox, b"1");
        outbox.begin();
        publish(&mut outbox, b"2");
        outbox.rollback();
        outbox.begin();
        publish(&mut outbox, b"3");
        outbox.commit();
        // There is no transaction any more.
        outbox.rollback();
        let payloads = std::iter::from_fn(|| outbox.pop()).map(|(number, addressed)| {
            let Post::Message(message) = &*addressed.post else {
                unreachable!("there is no other")
            };
            assert!(addressed.to.contains(1) && !addressed.to.contains(0));
            (number, message.payload.to_vec())
        });
        assert_eq!(payloads.collect::<Vec<_>>(), [(1, b"1".to_vec()), (2, b"3".to_vec())]);
        assert_eq!((outbox.byte_len, outbox.end()), (0, 3));
        assert_eq!(outbox.publish(false, b"d", b"", || true), 0);
        assert!(outbox.is_empty());
    }

    #[test]
    fn posts_are_bounded_and_a_loss_is_known() {
        let registry = Arc::new(Registry::default());
        registry.subscribe(Kind::Channel, b"c", 1);
        let mut outbox = Outbox::new(registry);
        let half = vec![0; BYTES_MAX / 2];
        outbox.publish(false, b"c", &half, || true);
        assert!(outbox.is_large() && !outbox.take_lost().contains(1));
        outbox.publish(false, b"c", &half, || true);
        assert!(outbox.pop().is_some() && outbox.pop().is_none());
        assert!(outbox.take_lost().contains(1) && !outbox.take_lost().contains(1));
    }
}
