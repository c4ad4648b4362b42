//! The event loop of a thread.
//!
//! A turn of the loop: see which sockets are ready; read from each of them once and execute the
//! requests that have arrived, whose writes are visible and not yet durable; make all of them
//! durable at once; then send the replies. So a reply says that a write is durable, and requests
//! that arrive together, from one client or from many, share one fence.
//!
//! Connections that wrote nothing when they were served last come first in a turn: as long as everything that is visible is
//! durable, replies need not wait for its end, and a reader does not wait for the sync of others' writes.
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
mod finishing;
mod invalidations;
mod posts;
mod serving;
mod upkeep;
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

use crate::ahead::{AHEAD, Ahead};
use crate::client::Client;
use crate::connection::Connection;
use crate::dispatch::Dispatched;
use crate::listener::Spare;
use crate::partition_set::PartitionSet;
use crate::service::Service;
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
/// How long a thread waits for others to take the replies that it has made for them.
const BREATH: Duration = Duration::from_millis(1);

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
    empty: Vec<usize>,
    ahead: Ahead,
    /// Connections to serve in this turn.
    listed: Vec<usize>,
    /// Connections that have got posts in this turn.
    posted: Vec<usize>,
    /// Connections that were served in this turn whose replies wait for its end, and those whose replies do not.
    owed: Vec<usize>,
    free: Vec<usize>,
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
            empty: Vec::new(),
            ahead: Ahead::default(),
            listed: Vec::new(),
            posted: Vec::new(),
            owed: Vec::new(),
            free: Vec::new(),
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
        let mut served = std::mem::take(&mut self.listed);
        served.sort_by_key(|&place| self.writes(place));
        for group in served.chunks(AHEAD) {
            group.iter().for_each(|&place| self.read(place));
            self.prefetch(group);
            for &place in group {
                if self.writes(place) {
                    self.answer_free();
                }
                self.serve(place);
                let is_free = self.tells_nothing_new(place);
                if is_free { &mut self.free } else { &mut self.owed }.push(place);
                self.relieve_outbox();
                if can_evict && self.service.is_short(false) {
                    can_evict = self.evict();
                }
            }
        }
        self.answer_free();
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
        let mut owed = std::mem::take(&mut self.owed);
        owed.drain(..).for_each(|place| self.answer(place));
        self.owed = owed;
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
}
