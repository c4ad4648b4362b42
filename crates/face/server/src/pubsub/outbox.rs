//! The posts of a thread's turn, until what they tell of is durable.

use std::collections::VecDeque;
use std::sync::Arc;

use crate::notifications::{EventClass, Events};
use crate::pubsub::{Change, Invalidation, Message, Post, Registry, Threads, Tracked};

/// A place in the messages: the number of the next post, and how many changes there are.
pub(crate) type Mark = (u64, usize);

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
    /// The numbers of the posts of the transaction under way that tell of events.
    events_since_mark: Vec<u64>,
    /// Commands of this turn, for the monitors. They have been executed, also if they are rolled back.
    commands: Vec<u8>,
    /// Some of them are lost for lack of room.
    commands_lost: bool,
    /// Keys that have changed in this turn, for the clients that are told of all changes.
    changes: Vec<Change>,
    /// Bytes of memory of these.
    changes_len: usize,
    /// The number of them before the transaction under way.
    changes_mark: usize,
    /// Whether any client gets to know of commands, as of the last look.
    is_watched: bool,
    /// The client whose command is executed; 0: none.
    pub(crate) actor: u64,
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
            events_since_mark: Vec::new(),
            commands: Vec::new(),
            commands_lost: false,
            changes: Vec::new(),
            changes_len: 0,
            changes_mark: 0,
            is_watched: false,
            actor: 0,
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

    /// Whether any client gets to know of commands, as of the last look.
    #[inline]
    pub(crate) fn is_watched(&self) -> bool {
        self.is_watched
    }

    /// The keys that are remembered for clients that have read them.
    pub(crate) fn tracked(&self) -> &Tracked {
        &self.registry.watchers.tracked
    }

    /// Tells a client that a key has changed which it has read.
    pub(crate) fn invalidate(&mut self, client: u64, key: &Arc<[u8]>) {
        let to = Threads::only(self.registry.thread_of(client));
        let invalidation = Invalidation { client, key: Arc::clone(key), by: self.actor };
        self.push(to, Post::Invalidation(invalidation));
    }

    /// Tells the clients that are told of all changes of one.
    pub(crate) fn note_change(&mut self, key: &[u8]) {
        // Beyond the bound, the others are of no interest any more.
        if self.changes_len <= BYTES_MAX && !self.registry.watchers.broadcast().is_empty() {
            let change = Change { key: key.into(), by: self.actor };
            self.changes_len += change.byte_len();
            self.changes.push(change);
        }
    }

    /// Tells all clients that cache keys that all may have changed.
    pub(crate) fn invalidate_all(&mut self) {
        self.push(self.registry.watchers.tracking(), Post::Flush);
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

    /// Bytes of the commands of this turn.
    pub(crate) fn commands_len(&self) -> usize {
        self.commands.len()
    }

    /// Forgets the commands behind the first bytes of them: they begin anew.
    pub(crate) fn forget_commands(&mut self, len: usize) {
        self.commands.truncate(len);
    }

    /// Posts what was gathered in this turn: the commands, and the changes.
    pub(crate) fn gather(&mut self) {
        let changes = std::mem::take(&mut self.changes);
        let changes_len = std::mem::take(&mut self.changes_len);
        if changes_len > BYTES_MAX {
            self.invalidate_all();
        } else if !changes.is_empty() {
            self.push(self.registry.watchers.broadcast(), Post::Changes(changes));
        }
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
        let (event, first) = (event.as_bytes(), self.end());
        if self.events.go_to_keys() {
            let channel = [format!("__keyspace@{db}__:").as_bytes(), key].concat();
            self.publish(false, &channel, event, || true);
        }
        if self.events.go_to_events() {
            let channel = [format!("__keyevent@{db}__:").as_bytes(), event].concat();
            self.publish(false, &channel, key, || true);
        }
        if self.mark.is_some() {
            self.events_since_mark.extend(first..self.end());
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
        self.events_since_mark.clear();
        self.changes_mark = self.changes.len();
    }

    /// The transaction has become part of the turn.
    pub(crate) fn commit(&mut self) {
        self.mark = None;
    }

    /// The transaction has become part of the turn, and its events have not happened: what it published stays.
    pub(crate) fn commit_without_events(&mut self) {
        self.mark = None;
        let (first, events) = (self.first, std::mem::take(&mut self.events_since_mark));
        let mut number = first;
        self.posts.retain(|addressed| {
            let is_event = events.binary_search(&number).is_ok();
            self.byte_len -= if is_event { addressed.post.byte_len() } else { 0 };
            number += 1;
            !is_event
        });
    }

    /// The transaction has changed nothing: its messages are dropped.
    pub(crate) fn rollback(&mut self) {
        let Some(mark) = self.mark.take() else { return };
        self.return_to((mark, self.changes_mark));
    }

    /// The place behind all messages, to which [`Outbox::return_to`] returns.
    pub(crate) fn mark(&self) -> Mark {
        (self.end(), self.changes.len())
    }

    /// Drops the messages since a mark.
    pub(crate) fn return_to(&mut self, (mark, changes_mark): Mark) {
        let dropped = self.changes.drain(changes_mark.min(self.changes.len())..);
        self.changes_len -= dropped.map(|change| change.byte_len()).sum::<usize>();
        self.events_since_mark.retain(|&number| number < mark);
        let from = mark.saturating_sub(self.first) as usize;
        let mut kept = self.posts.split_off(from.min(self.posts.len()));
        self.keep_invalidations(&mut kept);
        self.posts.append(&mut kept);
    }

    /// Drops messages. The readers of a key are forgotten once they are posted an invalidation, so these are kept: for
    /// keys that have not changed they do no harm.
    fn keep_invalidations(&mut self, posts: &mut VecDeque<Addressed>) {
        posts.retain(|addressed| {
            let is_kept = !matches!(*addressed.post, Post::Message(_));
            self.byte_len -= if is_kept { 0 } else { addressed.post.byte_len() };
            is_kept
        });
    }

    /// The number of the next post.
    #[inline]
    pub(crate) fn end(&self) -> u64 {
        self.first + self.posts.len() as u64
    }

    /// Whether the posts take so much memory that they should leave.
    #[inline]
    pub(crate) fn is_large(&self) -> bool {
        self.byte_len + self.commands.len() + self.changes_len > LARGE
    }

    /// The threads to which posts behind these are lost.
    pub(crate) fn take_lost(&mut self) -> Threads {
        std::mem::take(&mut self.lost)
    }

    /// Whether there is no post. Some are lost only behind others.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.posts.is_empty()
            && self.commands.is_empty()
            && self.changes.is_empty()
            && !self.commands_lost
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

    /// Drops all messages: what they tell of could not be made durable. Changes are visible nevertheless, so those that
    /// cache keys are told of them.
    pub(crate) fn withhold(&mut self) {
        let end = self.end();
        let mut posts = std::mem::take(&mut self.posts);
        self.keep_invalidations(&mut posts);
        self.posts = posts;
        self.first = end - self.posts.len() as u64;
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
