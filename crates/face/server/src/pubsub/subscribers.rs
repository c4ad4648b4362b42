//! The subscribers of one thread: which of its connections get a message.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use crate::pubsub::{Kind, Message, Registry, Subscriptions};

/// The subscriptions of a thread's clients, by name.
#[derive(Debug)]
pub(crate) struct Subscribers {
    registry: Arc<Registry>,
    thread: usize,
    /// The places of the monitors.
    monitors: BTreeSet<usize>,
    /// The places of the clients that are told of changes.
    trackers: BTreeSet<usize>,
    /// By kind.
    by_name: [HashMap<Arc<[u8]>, Places>; Kind::COUNT],
}

/// By the place of each connection, the step from which on it gets messages.
type Places = BTreeMap<usize, u64>;

impl Subscribers {
    pub(crate) fn new(registry: Arc<Registry>, thread: usize) -> Self {
        Self {
            registry,
            thread,
            monitors: BTreeSet::new(),
            trackers: BTreeSet::new(),
            by_name: Default::default(),
        }
    }

    /// Subscribes the client at `place`, which has `subscriptions`.
    pub(crate) fn subscribe(
        &mut self,
        subscriptions: &mut Subscriptions,
        place: usize,
        kind: Kind,
        name: &[u8],
    ) {
        if subscriptions.contains(kind, name) {
            return;
        }
        let (name, step) = self.registry.subscribe(kind, name, self.thread);
        self.by_name[kind as usize].entry(Arc::clone(&name)).or_default().insert(place, step);
        subscriptions.insert(kind, name);
        self.note_prefixes(kind);
    }

    /// Lets other threads know whether clients here are told of all changes.
    fn note_prefixes(&self, kind: Kind) {
        if kind == Kind::Prefix {
            let has_some = !self.by_name[kind as usize].is_empty();
            self.registry.watchers.set_broadcast(self.thread, has_some);
        }
    }

    /// Ends a subscription of the client at `place`, if it has it.
    pub(crate) fn unsubscribe(
        &mut self,
        subscriptions: &mut Subscriptions,
        place: usize,
        kind: Kind,
        name: &[u8],
    ) {
        let Some(name) = subscriptions.remove(kind, name) else { return };
        self.registry.unsubscribe(kind, &name, self.thread);
        let names = &mut self.by_name[kind as usize];
        if let Some(places) = names.get_mut(&name) {
            places.remove(&place);
            if places.is_empty() {
                names.remove(&name);
            }
        }
        self.note_prefixes(kind);
    }

    /// Ends all subscriptions of the client at `place`.
    pub(crate) fn leave(&mut self, mut subscriptions: Subscriptions, place: usize) {
        for kind in [Kind::Channel, Kind::Pattern, Kind::Shard, Kind::Prefix] {
            for name in subscriptions.names(kind) {
                self.unsubscribe(&mut subscriptions, place, kind, &name);
            }
        }
    }

    /// The client at `place` gets all commands from now on.
    pub(crate) fn add_monitor(&mut self, place: usize) {
        self.monitors.insert(place);
        self.registry.watchers.add();
        self.registry.watchers.set_monitored(self.thread, true);
    }

    /// The client at `place` gets no more commands.
    pub(crate) fn remove_monitor(&mut self, place: usize) {
        self.monitors.remove(&place);
        self.registry.watchers.remove();
        self.registry.watchers.set_monitored(self.thread, !self.monitors.is_empty());
    }

    /// The client at `place` is told of changes from now on.
    pub(crate) fn add_tracker(&mut self, place: usize) {
        self.trackers.insert(place);
        self.registry.watchers.add_tracker();
        self.registry.watchers.set_tracking(self.thread, true);
    }

    /// The client at `place` is told of no more changes.
    pub(crate) fn remove_tracker(&mut self, place: usize) {
        self.trackers.remove(&place);
        self.registry.watchers.remove_tracker();
        self.registry.watchers.set_tracking(self.thread, !self.trackers.is_empty());
    }

    /// The places of the clients that are told of changes.
    pub(crate) fn trackers(&self) -> impl Iterator<Item = usize> {
        self.trackers.iter().copied()
    }

    /// The prefixes of keys of whose changes clients here are told, and the places of these.
    pub(crate) fn by_prefix(&self) -> Vec<(Arc<[u8]>, Vec<usize>)> {
        let prefixes = self.by_name[Kind::Prefix as usize].iter();
        prefixes.map(|(name, at)| (Arc::clone(name), at.keys().copied().collect())).collect()
    }

    /// The places of the clients that get all commands.
    pub(crate) fn monitors(&self) -> impl Iterator<Item = usize> {
        self.monitors.iter().copied()
    }

    /// The ways on which clients here get a message: first as subscribers of the channel, then of each pattern, which
    /// is named. For each, the places of the connections.
    pub(crate) fn ways<'a>(
        &'a self,
        message: &'a Message,
    ) -> impl Iterator<Item = (Option<&'a [u8]>, impl Iterator<Item = usize> + 'a)> {
        let kind = if message.is_shard { Kind::Shard } else { Kind::Channel };
        let channel = self.by_name[kind as usize].get_key_value(&*message.channel);
        let patterns = &self.by_name[Kind::Pattern as usize];
        let patterns = message.patterns.iter().filter_map(|name| patterns.get_key_value(name));
        let patterns = patterns.map(|(name, places)| (Some(&**name), places));
        let ways = channel.map(|(_, places)| (None, places)).into_iter().chain(patterns);
        ways.map(|(pattern, places)| {
            let in_time = places.iter().filter(|(_, step)| **step <= message.step);
            (pattern, in_time.map(|(place, _)| *place))
        })
    }

    /// The ways on which the client at `place`, with these subscriptions, gets a message.
    pub(crate) fn ways_to<'a>(
        &'a self,
        place: usize,
        message: &'a Message,
    ) -> impl Iterator<Item = Option<&'a [u8]>> {
        let kind = if message.is_shard { Kind::Shard } else { Kind::Channel };
        let is_in_time = move |kind: Kind, name: &[u8]| {
            let step = self.by_name[kind as usize].get(name).and_then(|places| places.get(&place));
            step.is_some_and(|step| *step <= message.step)
        };
        let channel = is_in_time(kind, &message.channel).then_some(None);
        let patterns = message.patterns.iter().map(|name| &**name);
        let patterns = patterns.filter(move |name| is_in_time(Kind::Pattern, name));
        channel.into_iter().chain(patterns.map(Some))
    }
}
