//! The periodic work that no event announces: keys expire, garbage goes, silent clients are disconnected.

use std::time::{Duration, Instant};

use super::serving::note_output;
use super::{EventLoop, TICK, TICKS_PER_SECOND};
use crate::board::Note;
use crate::client::Client;
use crate::collection::hash;
use crate::connection::Connection;
use crate::service::Service;

/// Expired keys that are removed in one turn.
const EXPIRED_MAX: usize = 512;
/// Hashes with expired fields that are looked at in one turn.
const HASHES_DUE_MAX: usize = 16;
/// Steps that remove elements of dropped collections at a tick.
const RECLAIMS_A_TICK: usize = 8;
/// How long a connection is silent before its buffers are given back.
const BUFFERS_KEPT: Duration = Duration::from_secs(2);
/// Bytes of a request that has begun for which it has a second more to arrive.
const BYTES_PER_SECOND_MIN: usize = 16 << 10;

impl EventLoop {
    /// Does the periodic work that no event announces.
    pub(super) fn look_after(&mut self) {
        if self.service.pause.is_some_and(|pause| pause.until <= self.service.now) {
            self.service.set_pause(None);
            self.resume_paused();
        }
        self.service.go_on_evicting();
        let ticks = self.service.now >= self.ticked_at + TICK;
        self.must_expire &= self.service.expires_actively;
        if (ticks || self.must_expire) && self.service.expires_actively {
            let began = Instant::now();
            let store = &mut self.service.store;
            self.must_expire = store.expire_due(EXPIRED_MAX) == EXPIRED_MAX;
            self.must_expire |= hash::remove_due(store, HASHES_DUE_MAX);
            self.service.note_latency("expire-cycle", began.elapsed());
        }
        if !ticks {
            return;
        }
        self.ticked_at = self.service.now;
        // Writers collect in larger steps instead where each step would have the kernel sync.
        self.must_collect = self.collects_ahead || self.service.store.has_dropped();
        // Under load no thread is ever idle: elements of dropped collections go all the same.
        for _ in 0..RECLAIMS_A_TICK {
            if !self.service.store.reclaim() {
                break;
            }
        }
        let service = &mut self.service;
        service.flow.note(service.now, &service.counters);
        self.shared.board.write(
            service.thread,
            Note {
                counters: service.counters,
                clients: service.clients.iter().count() as u64,
                expired: service.store.expired,
                changes: service.store.changes,
            },
        );
        if self.service.is_short(false) {
            self.evict();
        }
        self.relieve();
        self.ticks = self.ticks.wrapping_add(1);
        self.service.store.limit_readers(self.service.settings.tracked_keys_max);
        if self.must_accept {
            self.accept();
        }
        if self.ticks.is_multiple_of(TICKS_PER_SECOND) {
            self.service.store.fit_clocks();
            self.service.note_memory();
            self.look_after_connections();
        }
    }

    /// Closes connections that are silent for too long, and returns memory of the others.
    fn look_after_connections(&mut self) {
        self.service.spares.take();
        for place in 0..self.connections.len() {
            let Some(connection) = &mut self.connections[place] else { continue };
            let Some(client) = self.service.clients.get_mut(place) else { continue };
            let silent = self.service.now.saturating_duration_since(client.active_at);
            connection.input.shrink_to_peak();
            connection.output.shrink_to_peak();
            if silent >= BUFFERS_KEPT {
                connection.input.shrink();
                connection.output.shrink();
            }
            note_buffers(client, connection);
            client.account(connection.memory(), &self.shared.client_memory, self.service.thread);
            self.service.check_output_of(place, connection.backlog(), 0);
            let idle = self.service.settings.idle_timeout.is_some_and(|timeout| silent >= timeout);
            let is_silent =
                idle && !self.service.clients.get(place).is_some_and(Client::only_listens);
            if is_silent && !connection.waits() || is_late(&self.service, place, connection) {
                self.close(place);
            }
        }
    }
}

/// Notes the sizes of a connection's buffers.
pub(super) fn note_buffers(client: &mut Client, connection: &Connection) {
    client.buffers.query_len = connection.input.len();
    client.buffers.query_free = connection.input.free();
    note_output(client, connection);
}

/// Whether the client's time to finish its handshake, to authenticate, or to finish a request, is over.
fn is_late(service: &Service, place: usize, connection: &Connection) -> bool {
    let Some(client) = service.clients.get(place) else { return false };
    let timeout = service.settings.limits.request_timeout;
    let since = |then: Instant| service.now.saturating_duration_since(then);
    let stranger = !client.authenticated && service.acl.asks_for_password();
    if stranger && since(client.stranger_since) >= timeout {
        return true;
    }
    let handshake_max = service.settings.limits.handshake_timeout;
    if connection.socket.is_shaking_hands() && since(client.connected_at) >= handshake_max {
        return true;
    }
    // The arrived bytes of a client that is held back take memory that other clients lack, so they earn it no more
    // time.
    let is_held_back =
        connection.is_held_back(client.no_evict, || service.is_short(client.no_evict));
    let arrived = if is_held_back { 0 } else { connection.input.unread().len() };
    let more = Duration::from_secs((arrived / BYTES_PER_SECOND_MIN) as u64);
    connection.request_began.is_some_and(|began| since(began) >= timeout + more)
}
