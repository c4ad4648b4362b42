//! The posts of other threads that a thread has not taken yet.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use crate::lock::lock;
use crate::pubsub::Post;

/// Bytes of posts that wait for one thread, above which they are lost to it: it must be far behind.
const BYTES_MAX: usize = 64 << 20;

/// The posts that wait for one thread.
#[derive(Debug, Default)]
pub(crate) struct Inbox {
    /// The number of posts, and of losses.
    len: AtomicUsize,
    waiting: Mutex<Waiting>,
}

/// Posts in their order.
#[derive(Debug, Default)]
pub(crate) struct Waiting {
    pub(crate) posts: VecDeque<Arc<Post>>,
    byte_len: usize,
    /// Posts behind these were lost for lack of room.
    pub(crate) has_lost: bool,
}

impl Inbox {
    /// Adds posts of one thread. They stay in their order. If posts behind them are lost already, this is noted.
    pub(crate) fn push(&self, posts: impl Iterator<Item = Arc<Post>>, is_lossy: bool) {
        let mut waiting = lock(&self.waiting);
        for post in posts {
            let byte_len = waiting.byte_len + post.byte_len();
            // However large a single one is, it can pass.
            if waiting.has_lost || byte_len > BYTES_MAX && !waiting.posts.is_empty() {
                waiting.has_lost = true;
                continue;
            }
            waiting.byte_len = byte_len;
            waiting.posts.push_back(post);
        }
        waiting.has_lost |= is_lossy;
        let len = waiting.posts.len() + usize::from(waiting.has_lost);
        self.len.store(len, Ordering::Release);
    }

    /// Whether nothing waits.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.len.load(Ordering::Acquire) == 0
    }

    /// Takes all that waits.
    pub(crate) fn take(&self) -> Waiting {
        let mut waiting = lock(&self.waiting);
        self.len.store(0, Ordering::Release);
        std::mem::take(&mut *waiting)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pubsub::Message;

    fn post(len: usize) -> Arc<Post> {
        Arc::new(Post::Message(Message {
            is_shard: false,
            channel: Box::default(),
            payload: vec![0; len].into(),
            patterns: Vec::new(),
            step: 0,
        }))
    }

    #[test]
    fn what_waits_is_bounded() {
        let inbox = Inbox::default();
        assert!(inbox.is_empty());
        inbox.push([post(2 * BYTES_MAX)].into_iter(), false);
        assert!(!inbox.is_empty() && !inbox.take().has_lost && inbox.is_empty());
        let third = post(BYTES_MAX / 3);
        inbox.push(std::iter::repeat_n(third, 4), false);
        inbox.push([post(0)].into_iter(), false);
        let waiting = inbox.take();
        assert!(waiting.has_lost && waiting.posts.len() == 2 && inbox.is_empty());
        inbox.push([post(0)].into_iter(), false);
        assert!(!inbox.take().has_lost);
        inbox.push([post(0)].into_iter(), true);
        assert!(inbox.take().has_lost);
    }
}
