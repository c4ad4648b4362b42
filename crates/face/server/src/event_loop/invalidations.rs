//! Telling clients that keys have changed which they may have cached.

use std::collections::BTreeMap;
use std::iter;
use std::sync::Arc;

use super::EventLoop;
use crate::delivery::Forms;
use crate::pubsub::{Change, Invalidation, Keys, Post, write_broken_redirect};
use crate::reply::Protocol;
use crate::tracking::Mode;

impl EventLoop {
    /// Tells a client that a key has changed which it has read. Returns the places of the connections that are reached.
    pub(super) fn deliver_invalidation(
        &mut self,
        invalidation: &Invalidation,
        number: u64,
    ) -> Vec<usize> {
        let place = self.service.clients.place_of(invalidation.client);
        let is_told = |place: &usize| {
            let client = self.service.clients.get(*place);
            let tracking = client.and_then(|client| Some((client, client.tracking.as_ref()?)));
            tracking.is_some_and(|(client, tracking)| {
                tracking.mode != Mode::Broadcast
                    && tracking.tells(client.id, invalidation.by)
                    && (tracking.redirect != 0 || number >= client.next_post)
            })
        };
        let keys = Keys::These(vec![(&*invalidation.key).into()]);
        let told = place.filter(is_told).and_then(|place| self.tell(place, &keys));
        told.into_iter().collect()
    }

    /// Tells all clients here that cache keys that all of these may have changed.
    pub(super) fn deliver_flush(&mut self, number: u64) -> Vec<usize> {
        let mut places: Vec<_> = self.service.subscribers.trackers().collect();
        places.retain(|&place| {
            self.service.clients.get(place).is_some_and(|client| {
                let redirects = client.tracking.as_ref().is_some_and(|all| all.redirect != 0);
                redirects || number >= client.next_post
            })
        });
        places.into_iter().filter_map(|place| self.tell(place, &Keys::All)).collect()
    }

    /// Tells the clients here that are told of all changes, of keys with their prefixes: one message for each prefix.
    pub(super) fn deliver_changes(&mut self, changes: &[Change]) -> Vec<usize> {
        let by_key: BTreeMap<&[u8], u64> =
            changes.iter().map(|change| (&*change.key, change.by)).collect();
        let mut reached = Vec::new();
        for (prefix, places) in self.service.subscribers.by_prefix() {
            let matching = by_key.range(&*prefix..);
            let matching = matching.take_while(|(key, _)| key.starts_with(&prefix));
            let matching: Vec<_> = matching.map(|(key, by)| (*key, *by)).collect();
            for place in places {
                let Some(client) = self.service.clients.get(place) else { continue };
                let Some(tracking) = &client.tracking else { continue };
                let told = matching.iter().filter(|(_, by)| tracking.tells(client.id, *by));
                let told: Vec<Box<[u8]>> = told.map(|(key, _)| (*key).into()).collect();
                if !told.is_empty() {
                    reached.extend(self.tell(place, &Keys::These(told)));
                }
            }
        }
        reached
    }

    /// Tells the client to which another one redirects.
    pub(super) fn deliver_redirected(&mut self, to: u64, keys: &Keys) -> Vec<usize> {
        let place = self.service.clients.place_of(to);
        place.and_then(|place| self.write_invalidation(place, keys, true)).into_iter().collect()
    }

    /// Tells the client at `place`, or the one to which it redirects, that keys have changed. Returns the place of the
    /// connection here that is reached.
    fn tell(&mut self, place: usize, keys: &Keys) -> Option<usize> {
        let client = self.service.clients.get_mut(place).filter(|client| client.takes_posts())?;
        let (protocol, tracking) = (client.protocol, client.tracking.as_mut()?);
        let redirect = tracking.redirect;
        if redirect == 0 {
            return self.write_invalidation(place, keys, false);
        }
        let registry = &self.shared.registry;
        if !registry.has_client(redirect) {
            tracking.is_broken = true;
            let mut out = Vec::new();
            write_broken_redirect(redirect, &mut out);
            let connection = self.connections[place].as_mut();
            let connection = connection.filter(|_| protocol == Protocol::Resp3)?;
            connection.push(&out);
            return Some(place);
        }
        let thread = registry.thread_of(redirect);
        if thread == self.service.thread {
            let place = self.service.clients.place_of(redirect)?;
            return self.write_invalidation(place, keys, true);
        }
        let post = Arc::new(Post::Redirected { to: redirect, keys: keys.clone() });
        self.shared.post(thread, iter::once(post), false);
        None
    }

    /// Writes that keys have changed to the client at `place`, if its protocol has a form for that.
    fn write_invalidation(
        &mut self,
        place: usize,
        keys: &Keys,
        is_redirected: bool,
    ) -> Option<usize> {
        let client = self.service.clients.get(place).filter(|client| client.takes_posts())?;
        let connection = self.connections[place].as_mut()?;
        let has_form =
            client.protocol == Protocol::Resp3 || is_redirected && client.is_subscriber();
        if !has_form {
            return None;
        }
        let protocol = client.protocol;
        connection.push(Forms::default().of(protocol, |out| keys.write(protocol, out)));
        Some(place)
    }
}
