//! The event loop of a thread.
//!
//! A turn of the loop: see which sockets are ready; read from each of them once and execute the
//! requests that have arrived, whose writes are visible and not yet durable; make all of them
//! durable at once; then send the replies. So a reply says that a write is durable, and requests
//! that arrive together, from one client or from many, share one fence.
//!
//! With several threads, a turn begins with receiving the messages of the others and ends with sending those for them:
//! requests leave before the fence, so that their owners work meanwhile; replies, posts and parts of the store leave
//! behind it. An idle thread sleeps in the poll, and the next thread that sends it a message wakes it.
//!
//! Readiness is edge-triggered: a connection remembers that it may be read from or written to, and is listed for the
//! next turn as long as it has work left. A turn does a bounded part of a connection's work, so that a client with a
//! long pipeline keeps the others waiting for no longer. Replies wait as long as a client sends before it reads, up to
//! its limit and that of all clients.

mod arrivals;
mod bystanders;
mod eviction;
mod exchange;
mod invalidations;
mod posts;
mod waiting;
mod withhold;

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use halite::Domain;
use mio::{Events, Interest, Poll, Token};

use bystanders::Bystanders;

use crate::ahead::{AHEAD, Ahead, Guesses};
use crate::board::Note;
use crate::client::Client;
use crate::collection::hash;
use crate::connection::Connection;
use crate::dispatch::Dispatched;
use crate::execution::execute;
use crate::listener::Spare;
use crate::partition_set::PartitionSet;
use crate::service::Service;
use crate::shard::message::Message;
use crate::shard::peers::Peers;
use crate::shared::Shared;
use crate::transport::Listener;
use crate::{Error, SyncPolicy};

/// How often the loop does the periodic work that no event announces.
pub(crate) const TICKS_PER_SECOND: u32 = 10;
const TICK: Duration = Duration::from_millis(1000 / TICKS_PER_SECOND as u64);
/// The token of the waker.
pub(crate) const WAKER: Token = Token(0);
/// The token of all listeners: when one is ready, all are asked.
const LISTENERS: Token = Token(1);
/// The token of the first connection.
const FIRST_CONNECTION: Token = Token(2);

const EVENTS_MAX: usize = 1024;
/// Expired keys that are removed in one turn.
const EXPIRED_MAX: usize = 512;
/// Hashes with expired fields that are looked at in one turn.
const HASHES_DUE_MAX: usize = 16;
/// Steps that remove elements of dropped collections at a tick.
const RECLAIMS_A_TICK: usize = 8;
/// How long a connection is silent before its buffers are given back.
const BUFFERS_KEPT: Duration = Duration::from_secs(2);
/// How long a thread waits for others to take the replies that it has made for them.
const BREATH: Duration = Duration::from_millis(1);
/// Bytes of a request that has begun for which it has a second more to arrive.
const BYTES_PER_SECOND_MIN: usize = 16 << 10;

/// The sockets of a thread, and the service that they reach.
pub(crate) struct EventLoop {
    poll: Poll,
    /// The first thread has them all.
    listeners: Vec<Listener>,
    spare: Spare,
    service: Service,
    /// The box in which connections are lent to a script, while no script runs.
    lent: Option<Box<Bystanders>>,
    shared: Arc<Shared>,
    /// The other threads, if there are any.
    peers: Option<Box<Peers>>,
    connections: Vec<Option<Box<Connection>>>,
    /// Places in `connections` that are empty.
    free: Vec<usize>,
    ahead: Ahead,
    /// Connections to serve in this turn.
    listed: Vec<usize>,
    /// Connections that have got posts in this turn.
    posted: Vec<usize>,
    /// Connections whose next request waits for a pause to end.
    paused: Vec<usize>,
    /// Connections whose next request waits for a partition that is still recovered.
    unready: Vec<usize>,
    /// The partitions that were served when those were last looked at.
    ready: PartitionSet,
    /// Connections whose next request waits for a piece of a backup, or for the end of a migration.
    awaiting: Vec<usize>,
    /// Connections whose next request waits for room or for a part, and whether there may be some.
    stalled: Vec<usize>,
    must_retry: bool,
    /// When waits for keys end: the time, the place of the connection, and the number of the wait.
    waits: BinaryHeap<Reverse<(Instant, usize, u64)>>,
    /// Requests of some connections wait until all clients take less memory.
    held_back: bool,
    /// No more requests are read.
    finishing: bool,
    next_client_id: u64,
    /// Connections may wait that could not be accepted.
    must_accept: bool,
    /// More keys have expired than a turn removes.
    must_expire: bool,
    /// There may be garbage to collect while no request arrives.
    must_collect: bool,
    collects_ahead: bool,
    ticked_at: Instant,
    ticks: u32,
    synced_at: Instant,
    /// When writes become durable, given the medium.
    policy: SyncPolicy,
    /// Writes of this thread could not be made durable: none is tried any more.
    has_failed: bool,
}

impl EventLoop {
    pub(crate) fn new(
        poll: Poll,
        mut listeners: Vec<Listener>,
        service: Service,
        peers: Option<Box<Peers>>,
        domain: Domain,
    ) -> Result<Self, Error> {
        for listener in &mut listeners {
            let registered = poll.registry().register(listener, LISTENERS, Interest::READABLE);
            registered.map_err(|source| Error::Io { action: "wait for connections", source })?;
        }
        // On other media durability costs a fence, and a weaker policy would save nothing.
        let policy = match domain {
            Domain::PageCache => service.settings.sync,
            _ => SyncPolicy::Always,
        };
        Ok(Self {
            poll,
            listeners,
            spare: Spare::new(),
            shared: Arc::clone(&service.shared),
            service,
            peers,
            lent: None,
            connections: Vec::new(),
            free: Vec::new(),
            ahead: Ahead::default(),
            listed: Vec::new(),
            posted: Vec::new(),
            paused: Vec::new(),
            unready: Vec::new(),
            ready: PartitionSet::EMPTY,
            awaiting: Vec::new(),
            stalled: Vec::new(),
            must_retry: false,
            waits: BinaryHeap::new(),
            held_back: false,
            finishing: false,
            next_client_id: 1,
            must_accept: false,
            must_expire: false,
            must_collect: false,
            collects_ahead: domain != Domain::PageCache,
            ticked_at: Instant::now(),
            ticks: 0,
            synced_at: Instant::now(),
            policy,
            has_failed: false,
        })
    }

    /// Serves clients until the server is stopped.
    pub(crate) fn run(mut self) -> Result<(), Error> {
        let mut events = Events::with_capacity(EVENTS_MAX);
        while !self.shared.ending.has_begun() {
            let timeout = self.timeout();
            let may_collect = !timeout.is_zero() && self.must_collect;
            let timeout = if may_collect { Duration::ZERO } else { timeout };
            let is_idle = self.wait(&mut events, timeout)? && events.is_empty();
            if is_idle && may_collect {
                self.must_collect =
                    self.service.store.reclaim() || self.service.store.collect_ahead();
            }
            self.look_after();
            self.turn();
        }
        self.finish(&mut events)
    }

    /// Answers the requests that have arrived, and ends.
    fn finish(mut self, events: &mut Events) -> Result<(), Error> {
        self.listeners.clear();
        self.service.change(|common| common.pause = None);
        self.resume_paused();
        self.resume_unready();
        self.wait(events, Duration::ZERO)?;
        self.turn();
        self.finishing = true;
        if self.peers.is_some() {
            self.finish_with_peers(events)?;
        }
        // Requests of a long pipeline that have arrived.
        while self.peers.is_none() && !self.listed.is_empty() && !self.shared.ending.parts() {
            self.turn();
        }
        let synced = self.sync_at_end();
        loop {
            for place in 0..self.connections.len() {
                self.send_all(place);
            }
            self.listed.clear();
            let mut connections = self.connections.iter().flatten();
            let left = self.shared.ending.left();
            if left.is_zero() || !connections.any(|connection| connection.has_unsent()) {
                let connections = self.connections.iter_mut().flatten();
                connections.for_each(|connection| connection.socket.say_goodbye());
                return synced;
            }
            self.wait(events, left)?;
        }
    }

    /// Makes everything durable, under any policy.
    fn sync_at_end(&mut self) -> Result<(), Error> {
        if let Some(error) = self.shared.sync_failure.get() {
            return Err(Error::Sync(Arc::clone(error)));
        }
        self.service.sync_asked = true;
        self.service.sync().map_err(|error| Error::Sync(Arc::new(error)))
    }

    /// Sends replies until none is left, or the socket takes no more: only in that case will the socket announce room.
    fn send_all(&mut self, place: usize) {
        let Some(connection) = &mut self.connections[place] else { return };
        connection.listed = false;
        while connection.writable && connection.has_unsent() {
            if connection.send(&mut self.service.spares).is_err() {
                return self.close(place);
            }
        }
    }

    /// Goes on until no thread waits for another one, or until the time for that is over; then the thread ends with the
    /// writes that are durable.
    fn finish_with_peers(&mut self, events: &mut Events) -> Result<(), Error> {
        let mut finished = false;
        while !self.shared.all_finished() && !self.shared.ending.parts() {
            let waits = self.connections.iter().flatten().any(|connection| connection.waits());
            if !finished && !waits && self.listed.is_empty() {
                finished = true;
                self.shared.finish();
                continue;
            }
            self.resume_paused();
            self.wait(events, self.timeout())?;
            self.turn();
        }
        Ok(())
    }

    /// How long the thread may sleep if no socket becomes ready.
    fn timeout(&self) -> Duration {
        let waits =
            |peers: &Peers| !self.stalled.is_empty() || peers.has_inbound() && !peers.is_choked;
        let peers = self.peers.as_deref();
        let must_retry = self.must_retry && peers.is_some_and(waits);
        let must_give = peers.is_some_and(|peers| peers.lender.must_give());
        if !self.listed.is_empty()
            || self.service.store.has_ready
            || !self.service.unblocked.is_empty()
            || self.must_expire
            || self.service.must_evict && !self.service.store.is_paused
            || must_retry
            || must_give
        {
            return Duration::ZERO;
        }
        let now = Instant::now();
        let mut until = self.ticked_at + TICK;
        if peers.is_some_and(|peers| peers.is_choked) {
            until = until.min(now + BREATH);
        }
        if let Some(pause) = self.service.pause {
            until = until.min(pause.until);
        }
        if let Some(Reverse((end, ..))) = self.waits.peek() {
            until = until.min(*end);
        }
        if let (SyncPolicy::Interval(interval), true) =
            (self.policy, self.service.store.is_unsynced())
        {
            until = until.min(self.synced_at + interval);
        }
        until.saturating_duration_since(now)
    }

    /// Waits for sockets to become ready, and lists their connections. Returns whether there were no
    /// messages of other threads when it began.
    fn wait(&mut self, events: &mut Events, timeout: Duration) -> Result<bool, Error> {
        let may_sleep = self.peers.as_ref().is_none_or(|peers| peers.mailbox.fall_asleep());
        // Looked at behind the announcement of the sleep, as the rings are.
        let may_sleep = may_sleep && !self.has_posts();
        let polled = self.poll.poll(events, Some(if may_sleep { timeout } else { Duration::ZERO }));
        if let Some(peers) = &self.peers {
            peers.mailbox.wake_up();
        }
        match polled {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => events.clear(),
            Err(source) => return Err(Error::Io { action: "wait for clients", source }),
            Ok(()) => {}
        }
        self.service.tick();
        for event in events.iter() {
            let Some(place) = event.token().0.checked_sub(FIRST_CONNECTION.0) else {
                self.must_accept |= event.token() == LISTENERS;
                continue;
            };
            let Some(Some(connection)) = self.connections.get_mut(place) else { continue };
            connection.readable |=
                event.is_readable() || event.is_read_closed() || event.is_error();
            connection.writable |= event.is_writable();
            connection.ending |= event.is_read_closed();
            connection.gone |= event.is_error() || event.is_write_closed();
            if connection.readable || connection.has_unsent() {
                self.list(place);
            }
        }
        if self.must_accept {
            self.accept();
        }
        Ok(may_sleep)
    }

    fn list(&mut self, place: usize) {
        if let Some(connection) = &mut self.connections[place]
            && !connection.listed
        {
            connection.listed = true;
            self.listed.push(place);
        }
    }

    /// Serves the listed connections, makes their writes durable, and answers them.
    fn turn(&mut self) {
        self.service.refresh();
        if self.peers.as_ref().is_some_and(|peers| peers.loading) {
            self.take_parts();
        }
        if self.peers.is_some() {
            self.receive();
            self.relieve_outbox();
        }
        if self.has_posts() {
            self.take_posts();
        }
        if !self.awaiting.is_empty() {
            self.resume_awaiting();
        }
        self.end_waits();
        // Another thread may have woken this one for it. Once it is another one's turn, this one can do no more.
        let mut can_evict = !self.service.is_short(false) || self.evict();
        let served = std::mem::take(&mut self.listed);
        for group in served.chunks(AHEAD) {
            group.iter().for_each(|&place| self.read(place));
            self.prefetch(group);
            for &place in group {
                self.serve(place);
                self.relieve_outbox();
                if can_evict && self.service.is_short(false) {
                    can_evict = self.evict();
                }
            }
        }
        // Requests of other threads, and keys that have expired, may have changed some, too.
        self.serve_waiting();
        if let Some(peers) = &mut self.peers {
            self.must_retry |= peers.send_requests(&mut self.service);
        }
        self.settle();
        if self.service.some_killed {
            self.close_killed();
            self.serve_waiting();
        }
        if self.peers.is_some() {
            self.send();
        }
        for &place in &served {
            self.answer(place);
        }
        self.answer_posted();
        if let Some(peers) = &mut self.peers {
            peers.mailbox.flush();
            self.must_retry |= std::mem::take(&mut peers.mailbox.made_room);
            self.must_retry |= std::mem::take(&mut peers.lender.freed);
        }
        if self.listed.is_empty() {
            // Keep the memory.
            self.listed = served;
            self.listed.clear();
        }
        if self.service.some_killed {
            self.close_killed();
        }
        if self.service.pause.is_none() {
            self.resume_paused();
        }
    }

    /// Lets a connection go on, if it waits for this.
    fn resume(&mut self, place: usize, waits_for: Dispatched) {
        if let Some(connection) = &mut self.connections[place]
            && connection.waits_for == waits_for
        {
            connection.waits_for = Dispatched::Done;
            self.list(place);
        }
    }

    /// Reads from a connection once.
    fn read(&mut self, place: usize) {
        let Some(connection) = &mut self.connections[place] else { return };
        connection.listed = false;
        let (memory, memory_max) =
            (&self.shared.client_memory, self.service.settings.client_memory_max);
        let Some(client) = self.service.clients.get_mut(place) else { return };
        let is_kept = client.no_evict;
        let wants_more = !client.closing
            && !client.killed
            && !connection.has_requests
            && !self.finishing
            && !connection.is_held_back(is_kept, || memory.is_over(is_kept, memory_max));
        if connection.readable && wants_more {
            match connection.receive() {
                Ok(len) => {
                    self.service.counters.note_read(len);
                    if len > 0 {
                        client.active_at = self.service.now;
                    }
                    // The next one is read from only if there is memory.
                    client.account(connection.memory(), memory, self.service.thread);
                }
                Err(_) => client.killed = true,
            }
        }
        if client.authenticated && connection.has_requests {
            connection.parse_ahead(&self.service.settings.limits.of_requests(false));
        }
    }

    /// Prefetches the records that the first requests of some connections will read, so that their cache misses
    /// overlap.
    fn prefetch(&self, places: &[usize]) {
        let (mut guesses, mut db) = (Guesses::default(), None);
        for &place in places {
            let request =
                self.connections[place].as_ref().and_then(|connection| connection.request_ahead());
            let Some((words, client)) = request.zip(self.service.clients.get(place)) else {
                continue;
            };
            // Only keys of one database are prefetched: that of the first connection.
            if client.db == *db.get_or_insert(client.db) {
                guesses.add(words);
            }
        }
        if let (Some(db), 2..) = (db, guesses.len()) {
            guesses.prefetch(&self.service.store, db);
        }
    }

    /// Executes the requests of a connection that have arrived; behind each that changes a key, those of clients that wait
    /// for it.
    fn serve(&mut self, place: usize) {
        // Messages that were sent before a client ends its subscription reach it.
        if self.has_posts() && self.service.clients.get(place).is_some_and(Client::gets_posts) {
            self.take_posts();
        }
        loop {
            self.serve_once(place);
            if !self.service.store.has_ready {
                return;
            }
            self.serve_waiting();
            let can_go_on = |connection: &Connection| {
                connection.has_requests && connection.waits_for == Dispatched::Done
            };
            if !self.connections[place].as_deref().is_some_and(can_go_on) {
                return;
            }
        }
    }

    /// Executes requests of a connection, until one changes a key for which clients wait.
    fn serve_once(&mut self, place: usize) {
        let Some(mut connection) = self.connections[place].take() else { return };
        self.service.refresh();
        if let Some(mut client) = self.service.clients.take_out(place) {
            self.serve_client(place, &mut connection, &mut client);
            self.service.clients.put_back(place, client);
        }
        let waits = connection.waits_for == Dispatched::Waiting;
        self.connections[place] = Some(connection);
        if waits {
            self.note_wait(place);
        }
    }

    /// [`EventLoop::serve_once`] of a connection and its client, which are out of their places.
    fn serve_client(&mut self, place: usize, connection: &mut Connection, client: &mut Client) {
        let can_go_on = connection.waits_for == Dispatched::Done;
        if connection.has_requests && can_go_on && !client.killed {
            self.lend_connections();
            let peers = self.peers.as_deref_mut();
            let dispatched =
                execute(&mut self.service, peers, &mut self.ahead, place, connection, client);
            self.take_connections_back();
            connection.waits_for = dispatched;
            match dispatched {
                Dispatched::Paused => {
                    self.paused.push(place);
                    self.service.blocked = self.paused.len();
                }
                Dispatched::Stalled => self.stalled.push(place),
                // The request would wait for longer than the server lives.
                Dispatched::Unready if self.shared.ending.has_begun() => {
                    client.closing = true;
                    connection.has_requests = false;
                    connection.waits_for = Dispatched::Done;
                }
                Dispatched::Unready => self.unready.push(place),
                Dispatched::Waiting if client.migration.is_some() => {
                    connection.waits_for = Dispatched::Awaiting;
                    self.awaiting.push(place);
                }
                Dispatched::Awaiting => self.awaiting.push(place),
                Dispatched::Done
                | Dispatched::Unanswered
                | Dispatched::Away
                | Dispatched::Waiting => {}
            }
        }
        if connection.ended && !connection.has_requests {
            client.closing = true;
        }
        self.service.some_killed |= client.killed;
        client.account(connection.memory(), &self.shared.client_memory, self.service.thread);
    }

    /// Makes writes as safe as the policy requires.
    fn sync(&mut self) -> halite::Result<()> {
        // Writes are refused since; a part may have come from a thread whose sync has not failed.
        if self.has_failed {
            self.service.store.abandon_syncs();
            return Ok(());
        }
        let due = match self.policy {
            SyncPolicy::Always => true,
            SyncPolicy::Interval(interval) => self.service.now >= self.synced_at + interval,
            SyncPolicy::Never => false,
        };
        if due && self.service.store.is_unsynced() || self.service.sync_asked {
            self.service.sync()?;
            self.service.sync_asked = false;
            self.synced_at = self.service.now;
        } else if self.service.store.is_unsynced() {
            // An acknowledged write survives the end of the process under every policy.
            self.service.store.hand_over()?;
        }
        Ok(())
    }

    /// Sends a connection's replies, and lists it again if there is more to do.
    fn answer(&mut self, place: usize) {
        let Some(connection) = &mut self.connections[place] else { return };
        let (memory, memory_max) =
            (&self.shared.client_memory, self.service.settings.client_memory_max);
        let Some(client) = self.service.clients.get_mut(place) else { return };
        let is_kept = client.no_evict;
        let is_short = || memory.is_over(is_kept, memory_max);
        // A request may wait for long, and a client that is gone would not read its reply.
        let waits_for_others = match connection.waits_for {
            Dispatched::Waiting => true,
            Dispatched::Awaiting => client.migration.is_some(),
            _ => false,
        };
        let is_gone = connection.gone || connection.ending && waits_for_others;
        let waits_in_vain = is_gone
            && (matches!(
                connection.waits_for,
                Dispatched::Paused
                    | Dispatched::Unready
                    | Dispatched::Awaiting
                    | Dispatched::Waiting
            ) || connection.is_held_back(is_kept, is_short));
        if client.killed || waits_in_vain {
            self.close(place);
            return;
        }
        match connection.send(&mut self.service.spares) {
            Ok(len) => {
                self.service.counters.note_sent(len);
                if len > 0 {
                    client.active_at = self.service.now;
                }
            }
            Err(_) => client.killed = true,
        }
        note_output(client, connection);
        connection.left_unsent = connection.backlog();
        client.account(connection.memory(), memory, self.service.thread);
        let is_answered = !connection.has_unsent() && connection.answers.is_empty();
        if client.killed || client.closing && is_answered {
            connection.drain();
            self.close(place);
            return;
        }
        let can_send = connection.has_unsent() && connection.writable;
        let can_execute = !client.closing
            && (connection.has_requests || connection.readable && !self.finishing)
            && connection.waits_for == Dispatched::Done;
        let is_held_back = can_execute && connection.is_held_back(is_kept, is_short);
        self.held_back |= is_held_back;
        if let Some(peers) = &mut self.peers
            && connection.answers.owes()
        {
            for (thread, bytes) in connection.room() {
                peers.mailbox.send(thread, Message::Room { client_id: client.id, bytes });
            }
        }
        if can_send || can_execute && !is_held_back {
            self.list(place);
        }
    }

    fn resume_paused(&mut self) {
        self.service.blocked = 0;
        for place in std::mem::take(&mut self.paused) {
            self.resume(place, Dispatched::Paused);
        }
    }

    /// Lets connections go on for whose backups there is a piece, and those whose migrations have ended.
    fn resume_awaiting(&mut self) {
        let client = |place: usize| self.service.clients.get(place);
        let is_ready = |place: &mut usize| client(*place).is_none_or(Client::has_what_it_awaits);
        for place in self.awaiting.extract_if(.., is_ready).collect::<Vec<_>>() {
            self.resume(place, Dispatched::Awaiting);
        }
    }

    pub(super) fn resume_unready(&mut self) {
        for place in std::mem::take(&mut self.unready) {
            self.resume(place, Dispatched::Unready);
        }
    }

    /// Does the periodic work that no event announces.
    fn look_after(&mut self) {
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
        // Where each step would have the kernel sync, writers collect in larger steps instead.
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
fn note_buffers(client: &mut Client, connection: &Connection) {
    client.buffers.query_len = connection.input.len();
    client.buffers.query_free = connection.input.free();
    note_output(client, connection);
}

/// Notes the size of the replies that wait for a client.
fn note_output(client: &mut Client, connection: &Connection) {
    client.buffers.output_len = connection.backlog();
    client.buffers.output_capacity = connection.output.last_capacity();
    client.buffers.outputs = connection.output.pieces();
    client.buffers.outputs_capacity = connection.output.capacity()
        - connection.output.last_capacity()
        + connection.answers.byte_len();
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
