//! What is on its way to clients.

use std::sync::Arc;

use crate::reply::{Protocol, Reply};

/// What some clients get without having asked for it in their last request.
#[derive(Debug)]
pub(crate) enum Post {
    /// A message to the subscribers of a channel.
    Message(Message),
    /// Commands, to the monitors: a reply for each.
    Commands(Box<[u8]>),
    /// More commands were executed together than wait for monitors: they are lost.
    CommandsLost,
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
            Self::CommandsLost => POST_LEN,
        }
    }
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
