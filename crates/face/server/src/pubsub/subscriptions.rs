//! The subscriptions of one client.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::pubsub::Kind;

/// The names that a client is subscribed to, by kind.
#[derive(Debug, Default)]
pub(crate) struct Subscriptions {
    names: [BTreeSet<Arc<[u8]>>; Kind::COUNT],
    /// Bytes of memory that they take, on all sides.
    byte_len: usize,
}

/// Bytes that a subscription takes beside its name, about: with its client, with its thread, and in the registry.
const SUBSCRIPTION_LEN: usize = 256;

impl Subscriptions {
    pub(crate) fn insert(&mut self, kind: Kind, name: Arc<[u8]>) {
        self.byte_len += SUBSCRIPTION_LEN + name.len();
        self.names[kind as usize].insert(name);
    }

    /// Removes a name, if it is there.
    pub(crate) fn remove(&mut self, kind: Kind, name: &[u8]) -> Option<Arc<[u8]>> {
        let name = self.names[kind as usize].take(name)?;
        self.byte_len -= SUBSCRIPTION_LEN + name.len();
        Some(name)
    }

    pub(crate) fn contains(&self, kind: Kind, name: &[u8]) -> bool {
        self.names[kind as usize].contains(name)
    }

    /// The names of a kind.
    pub(crate) fn names(&self, kind: Kind) -> Vec<Arc<[u8]>> {
        self.names[kind as usize].iter().cloned().collect()
    }

    pub(crate) fn len(&self, kind: Kind) -> usize {
        self.names[kind as usize].len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.names.iter().all(BTreeSet::is_empty)
    }

    /// The number that the replies to subscribing and unsubscribing tell: channels and patterns are counted together,
    /// channels of shards apart.
    pub(crate) fn told(&self, kind: Kind) -> usize {
        match kind {
            Kind::Channel | Kind::Pattern => self.len(Kind::Channel) + self.len(Kind::Pattern),
            Kind::Shard | Kind::Prefix => self.len(kind),
        }
    }

    /// Bytes of memory.
    pub(crate) fn byte_len(&self) -> usize {
        self.byte_len
    }
}
