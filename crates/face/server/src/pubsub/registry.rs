//! The subscriptions of all clients, as far as other threads have to know them.
//!
//! For each channel and pattern the registry has the number of subscriptions on each thread. PUBLISH reads it under a
//! lock that publishers share, and replies with the sum; only subscribing and unsubscribing write it. Commands that
//! have nothing to do with messages do not touch it.
//!
//! A subscription counts from its step on, the number of subscriptions that have begun, and a message has the step at
//! which it was counted. So a thread that gets a message late knows the clients that had subscribed in time, which are
//! those that its publisher was told of.

use std::collections::hash_map::Entry;
use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, RwLock};

use crate::glob;
use crate::lock::{read, write};
use crate::pubsub::{Threads, Watchers};

/// The names that a client can subscribe to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Channel,
    Pattern,
    /// A channel of a shard. Without a cluster, these are a second set of channels.
    Shard,
    /// The beginning of keys: a client is told of their changes (CLIENT TRACKING BCAST).
    Prefix,
}

impl Kind {
    /// The number of kinds.
    pub(crate) const COUNT: usize = 4;
}

/// The subscriptions on all threads.
#[derive(Debug)]
pub(crate) struct Registry {
    /// The number of threads.
    threads: usize,
    /// The clients that are connected.
    clients: RwLock<HashSet<u64>>,
    /// The number of subscriptions that have begun.
    step: AtomicU64,
    /// The number of subscriptions that have not ended.
    count: AtomicUsize,
    /// The clients that get to know of commands.
    pub(crate) watchers: Watchers,
    names: RwLock<[HashMap<Arc<[u8]>, Counts>; Kind::COUNT]>,
}

/// The subscriptions to one name: by thread that has some, how many.
#[derive(Debug, Default)]
struct Counts(Vec<(usize, usize)>);

impl Counts {
    fn add(&mut self, thread: usize) {
        match self.0.iter_mut().find(|(of, _)| *of == thread) {
            Some((_, count)) => *count += 1,
            None => self.0.push((thread, 1)),
        }
    }

    fn remove(&mut self, thread: usize) {
        if let Some((_, count)) = self.0.iter_mut().find(|(of, _)| *of == thread) {
            *count -= 1;
            self.0.retain(|(_, count)| *count > 0);
        }
    }

    fn sum(&self) -> usize {
        self.0.iter().map(|(_, count)| count).sum()
    }
}

/// The clients that get a message.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Receivers {
    /// How many times it is received: a client with several subscriptions that match gets it several times.
    pub(crate) count: usize,
    pub(crate) threads: Threads,
    pub(crate) patterns: Vec<Arc<[u8]>>,
    pub(crate) step: u64,
}

impl Receivers {
    fn add(&mut self, counts: &Counts) {
        self.count += counts.sum();
        counts.0.iter().for_each(|(thread, _)| self.threads.insert(*thread));
    }
}

impl Default for Registry {
    fn default() -> Self {
        Self::new(1)
    }
}

impl Registry {
    /// The registry of a server with so many threads.
    pub(crate) fn new(threads: usize) -> Self {
        Self {
            threads,
            clients: RwLock::default(),
            step: AtomicU64::new(0),
            count: AtomicUsize::new(0),
            watchers: Watchers::default(),
            names: RwLock::default(),
        }
    }

    /// The thread that has a client, by the client's number: they come in turns.
    #[inline]
    pub(crate) fn thread_of(&self, client: u64) -> usize {
        (client.saturating_sub(1) % self.threads as u64) as usize
    }

    /// Notes that a client has connected.
    pub(crate) fn add_client(&self, client: u64) {
        write(&self.clients).insert(client);
    }

    /// Notes that a client is gone.
    pub(crate) fn remove_client(&self, client: u64) {
        write(&self.clients).remove(&client);
    }

    /// Whether a client is connected.
    pub(crate) fn has_client(&self, client: u64) -> bool {
        read(&self.clients).contains(&client)
    }

    /// Adds a subscription of a client of `thread`. Returns the name, of which there is one copy, and the step from
    /// which on the client gets messages.
    pub(crate) fn subscribe(&self, kind: Kind, name: &[u8], thread: usize) -> (Arc<[u8]>, u64) {
        let names = &mut write(&self.names)[kind as usize];
        let name = match names.get_key_value(name) {
            Some((known, _)) => Arc::clone(known),
            None => name.into(),
        };
        names.entry(Arc::clone(&name)).or_default().add(thread);
        self.count.fetch_add(1, Ordering::Relaxed);
        (name, self.step.fetch_add(1, Ordering::Relaxed) + 1)
    }

    /// Removes a subscription of a client of `thread`.
    pub(crate) fn unsubscribe(&self, kind: Kind, name: &Arc<[u8]>, thread: usize) {
        let names = &mut write(&self.names)[kind as usize];
        if let Entry::Occupied(mut counts) = names.entry(Arc::clone(name)) {
            counts.get_mut().remove(thread);
            self.count.fetch_sub(1, Ordering::Relaxed);
            if counts.get().0.is_empty() {
                counts.remove();
            }
        }
    }

    /// Whether any client has a subscription.
    #[inline]
    pub(crate) fn has_any(&self) -> bool {
        self.count.load(Ordering::Relaxed) > 0
    }

    /// The clients that get a message now. `go_on` is called at each byte of a match, and ends it if it returns false.
    pub(crate) fn receivers(
        &self,
        is_shard: bool,
        channel: &[u8],
        go_on: impl Fn() -> bool,
    ) -> Receivers {
        let mut receivers = Receivers::default();
        if !self.has_any() {
            return receivers;
        }
        let names = read(&self.names);
        let kind = if is_shard { Kind::Shard } else { Kind::Channel };
        if let Some(counts) = names[kind as usize].get(channel) {
            receivers.add(counts);
        }
        if !is_shard {
            for (pattern, counts) in &names[Kind::Pattern as usize] {
                if glob::matches(pattern, channel, &go_on) {
                    receivers.add(counts);
                    receivers.patterns.push(Arc::clone(pattern));
                }
            }
        }
        receivers.step = self.step.load(Ordering::Relaxed);
        receivers
    }

    /// The number of subscriptions to one name.
    pub(crate) fn count_of(&self, kind: Kind, name: &[u8]) -> usize {
        read(&self.names)[kind as usize].get(name).map_or(0, Counts::sum)
    }

    /// The number of names that have subscriptions.
    pub(crate) fn len(&self, kind: Kind) -> usize {
        read(&self.names)[kind as usize].len()
    }

    /// The names that have subscriptions.
    pub(crate) fn names(&self, kind: Kind) -> Vec<Arc<[u8]>> {
        read(&self.names)[kind as usize].keys().cloned().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_is_counted_once_for_each_subscription_that_matches() {
        let registry = Registry::default();
        let receivers = |channel: &[u8]| registry.receivers(false, channel, || true);
        assert_eq!(receivers(b"news"), Receivers::default());
        let (news, first) = registry.subscribe(Kind::Channel, b"news", 0);
        registry.subscribe(Kind::Channel, b"news", 2);
        let (n, _) = registry.subscribe(Kind::Pattern, b"n*", 2);
        registry.subscribe(Kind::Shard, b"news", 1);
        let found = receivers(b"news");
        assert_eq!((found.count, found.patterns.len(), found.step), (3, 1, 4));
        assert!(found.threads.contains(0) && found.threads.contains(2));
        assert!(!found.threads.contains(1) && first <= found.step);
        let of_shard = registry.receivers(true, b"news", || true);
        assert!(of_shard.count == 1 && of_shard.threads.contains(1));
        assert_eq!(receivers(b"no").count, 1);
        registry.unsubscribe(Kind::Channel, &news, 0);
        registry.unsubscribe(Kind::Pattern, &n, 2);
        let left = receivers(b"news");
        assert!(left.count == 1 && left.threads.contains(2));
        assert_eq!(registry.count_of(Kind::Channel, b"news"), 1);
        assert_eq!((registry.len(Kind::Pattern), registry.len(Kind::Shard)), (0, 1));
    }
}
