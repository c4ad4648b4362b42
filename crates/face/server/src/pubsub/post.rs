//! Messages on their way to clients.

use std::sync::Arc;

use crate::reply::{Protocol, Reply};

/// A message that some clients get without having asked for it in their last request.
#[derive(Debug)]
pub(crate) enum Post {
    /// A message to the subscribers of a channel.
    Message(Message),
    /// Commands, to the monitors: a reply for each.
    Commands(Box<[u8]>),
    /// More commands were executed together than wait for monitors: they are lost.
    CommandsLost,
    /// A client has read a key that has changed.
    Invalidation(Invalidation),
    /// Keys have changed, for the clients that are told of all changes.
    Changes(Vec<Change>),
    /// All keys may have changed, for all clients that cache some.
    Flush,
    /// Keys have changed, for the client to which another one redirects.
    Redirected { to: u64, keys: Keys },
}

/// A key that a client has read has changed.
#[derive(Debug)]
pub(crate) struct Invalidation {
    /// The client that has read it.
    pub(crate) client: u64,
    pub(crate) key: Arc<[u8]>,
    /// The client that has changed it; 0: none.
    pub(crate) by: u64,
}

/// A key has changed.
#[derive(Debug)]
pub(crate) struct Change {
    pub(crate) key: Box<[u8]>,
    /// The client that has changed it; 0: none.
    pub(crate) by: u64,
}

/// Keys that have changed.
#[derive(Debug, Clone)]
pub(crate) enum Keys {
    These(Vec<Box<[u8]>>),
    /// All may have changed.
    All,
}

/// A message to the subscribers of a channel, and of the patterns that match it.
#[derive(Debug)]
pub(crate) struct Message {
    /// Whether it was sent by SPUBLISH, to channels of shards: no pattern matches these.
    pub(crate) is_shard: bool,
    pub(crate) channel: Box<[u8]>,
    pub(crate) payload: Box<[u8]>,
    /// The patterns of subscriptions that match the channel.
    pub(crate) patterns: Vec<Arc<[u8]>>,
    /// The step of the registry at which it was sent: later subscriptions do not get it.
    pub(crate) step: u64,
}

/// Bytes of memory that a post takes beside its words, about.
const POST_LEN: usize = 128;

impl Post {
    /// Bytes of memory.
    pub(crate) fn byte_len(&self) -> usize {
        match self {
            Self::Message(message) => {
                POST_LEN
                    + message.channel.len()
                    + message.payload.len()
                    + message.patterns.len() * size_of::<Arc<[u8]>>()
            }
            Self::Commands(lines) => POST_LEN + lines.len(),
            Self::CommandsLost | Self::Flush => POST_LEN,
            Self::Invalidation(invalidation) => POST_LEN + invalidation.key.len(),
            Self::Changes(changes) => {
                POST_LEN + changes.iter().map(Change::byte_len).sum::<usize>()
            }
            Self::Redirected { keys, .. } => POST_LEN + keys.byte_len(),
        }
    }
}

impl Change {
    /// Bytes of memory.
    pub(crate) fn byte_len(&self) -> usize {
        size_of::<Self>() + self.key.len()
    }
}

impl Keys {
    fn byte_len(&self) -> usize {
        match self {
            Self::These(keys) => {
                keys.iter().map(|key| size_of::<Box<[u8]>>() + key.len()).sum::<usize>()
            }
            Self::All => 0,
        }
    }

    /// Writes that these keys have changed: as RESP3 has it, or as a message for a subscriber.
    pub(crate) fn write(&self, protocol: Protocol, out: &mut Vec<u8>) {
        let mut reply = Reply { out, protocol };
        match protocol {
            Protocol::Resp3 => {
                reply.push(2);
                reply.bulk(b"invalidate");
            }
            Protocol::Resp2 => {
                reply.push(3);
                reply.bulk(b"message");
                reply.bulk(b"__redis__:invalidate");
            }
        }
        match self {
            Self::These(keys) => {
                reply.array(keys.len());
                keys.iter().for_each(|key| reply.bulk(key));
            }
            Self::All => reply.null(),
        }
    }
}

/// Writes that the client to which another one redirects is gone.
pub(crate) fn write_broken_redirect(redirect: u64, out: &mut Vec<u8>) {
    let mut reply = Reply { out, protocol: Protocol::Resp3 };
    reply.push(2);
    reply.bulk(b"tracking-redir-broken");
    reply.integer(redirect as i64);
}

impl Message {
    /// Writes the message as a subscriber of `pattern` gets it, or one of the channel itself.
    pub(crate) fn write(&self, protocol: Protocol, pattern: Option<&[u8]>, out: &mut Vec<u8>) {
        let mut reply = Reply { out, protocol };
        match pattern {
            Some(pattern) => {
                reply.push(4);
                reply.bulk(b"pmessage");
                reply.bulk(pattern);
            }
            None => {
                reply.push(3);
                reply.bulk(if self.is_shard { b"smessage" } else { b"message" });
            }
        }
        reply.bulk(&self.channel);
        reply.bulk(&self.payload);
    }
}
