//! The state that all clients of a thread share: the store, the other clients, the settings.

use std::any::Any;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use fastrand::Rng;

use crate::acl::Acl;
use crate::acl::patterns::Channel;
use crate::client::Client;
use crate::clients::Clients;
use crate::clock::unix_time;
use crate::command_stats::CommandStats;
use crate::commands::{Command, flags};
use crate::counters::Counters;
use crate::failure::{Failure, Outcome};
use crate::flow::FlowMeter;
use crate::lock::lock;
use crate::output::Spares;
use crate::partition_set::PartitionSet;
use crate::pause::Pause;
use crate::process::program_bytes;
use crate::pubsub::{Kind, Outbox, Subscribers};
use crate::random::generator;
use crate::report::{Details, Line, Report};
use crate::resp::Args;
use crate::settings::Settings;
use crate::shared::{Common, Shared};
use crate::slowlog;
use crate::store::{Key, Store, Watch};
use crate::wait::Ended;

/// Bytes of replies that a client may leave unread before it has authenticated.
const STRANGER_OUTPUT_MAX: usize = 64 << 10;

/// The state that commands work on.
pub(crate) struct Service {
    pub(crate) store: Store,
    /// The number of the thread.
    pub(crate) thread: usize,
    /// The partitions that are this thread's, and served.
    pub(crate) own: PartitionSet,
    pub(crate) clients: Clients,
    /// The subscriptions of the clients.
    pub(crate) subscribers: Subscribers,
    pub(crate) shared: Arc<Shared>,
    /// The version of the copies from `shared`.
    version: u64,
    pub(crate) settings: Settings,
    /// The users.
    pub(crate) acl: Arc<Acl>,
    /// The reports of other threads, for the command that requested them.
    pub(crate) reports: Vec<Report>,
    pub(crate) random: Rng,
    pub(crate) counters: Counters,
    /// The time that all of a command sees, or of a transaction: when it began.
    pub(crate) now: Instant,
    /// When the millisecond ends in which `now` and the store's time were read.
    now_until: Instant,
    pub(crate) started: Instant,
    /// When everything was durable, in milliseconds since 1970.
    pub(crate) synced_ms: u64,
    /// A client has requested that all writes be durable, under any policy.
    pub(crate) sync_asked: bool,
    /// Clients wait.
    pub(crate) pause: Option<Pause>,
    /// Whether expired keys are removed in the background; if not, they are removed when a command accesses them.
    pub(crate) expires_actively: bool,
    /// Whether a command may wait for keys: not within a transaction.
    pub(crate) may_wait: bool,
    /// Waits that have ended, of keys whose part is elsewhere.
    pub(crate) ended_waits: Vec<(Key, u64)>,
    /// Clients of this thread whose waits end, and how.
    pub(crate) unblocked: Vec<(u64, Ended)>,
    /// Watches that have ended, of keys whose part is elsewhere.
    pub(crate) forgotten: Vec<Watch>,
    /// Clients whose waits other threads end, these threads, and how.
    pub(crate) to_unblock: Vec<(usize, u64, Ended)>,
    /// Clients that other threads disconnect, and these threads.
    pub(crate) to_kill: Vec<(usize, u64)>,
    /// When the last command ended, or the first one of a connection's turn began.
    pub(crate) lap: Instant,
    /// How long a command takes that is noted.
    slow: Option<Duration>,
    /// The last command was a slow one, of another thread's client.
    pub(crate) slow_guest: Option<slowlog::Entry>,
    /// The statistics of commands on this thread.
    pub(crate) commands: Arc<CommandStats>,
    /// How much is done a second.
    pub(crate) flow: FlowMeter,
    /// How often the counters were set to zero.
    resets: u64,
    /// How often a client had everything made durable, and the changes here before the last time.
    saves: u64,
    changes_saved: u64,
    /// Clients whose request waits for the end of a pause.
    pub(crate) blocked: usize,
    /// Some client is [`crate::client::Client::killed`].
    pub(crate) some_killed: bool,
    /// Identifies this run of the server: 40 hexadecimal digits.
    pub(crate) run_id: String,
    /// The other connections of the thread, while a request is executed: a script that runs for long answers them.
    pub(crate) bystanders: Option<Box<dyn Any + Send>>,
    /// Answers these clients.
    pub(crate) answer_bystanders: fn(&mut Self),
    /// For large replies that other threads make.
    pub(crate) spares: Spares,
    /// Keys have to be evicted, beyond the time that a command has for it.
    pub(crate) must_evict: bool,
    /// The changes here when no key was found that could be evicted.
    pub(crate) dry_at: u64,
}

/// A name for a run of the server: 40 hexadecimal digits.
pub(crate) fn new_run_id() -> String {
    let mut random = generator();
    let mut id = (0..3).map(|_| format!("{:016x}", random.u64(..))).collect::<String>();
    id.truncate(40);
    id
}

/// Looks a client's user up again; false: it is gone, or the client has subscriptions that it has no longer a right to.
pub(crate) fn renew_login(acl: &Acl, client: &mut Client) -> bool {
    if !client.login.is_old(acl) {
        return true;
    }
    let Some(login) = client.login.renewed(acl) else { return false };
    let old = std::mem::replace(&mut client.login, login);
    let Some(subscriptions) = &client.subscriptions else { return true };
    if old.is_unknown() || Arc::ptr_eq(old.user(), client.login.user()) {
        return true;
    }
    let go_on = &|| true;
    [Kind::Channel, Kind::Pattern, Kind::Shard].into_iter().all(|kind| {
        subscriptions.names(kind).iter().all(|name| {
            let channel = Channel { name, is_pattern: matches!(kind, Kind::Pattern) };
            client.login.user().hears(channel, go_on) || !old.user().hears(channel, go_on)
        })
    })
}

impl Service {
    pub(crate) fn new(mut store: Store, shared: Arc<Shared>, thread: usize, run_id: &str) -> Self {
        let (common, version) = shared.common();
        store.ending = Arc::clone(&shared.ending);
        store.outbox = Outbox::new(Arc::clone(&shared.registry));
        let mut service = Self {
            thread,
            own: store.here(),
            store,
            clients: Clients::default(),
            subscribers: Subscribers::new(Arc::clone(&shared.registry), thread),
            slow: common.settings.slow(),
            settings: common.settings,
            acl: common.acl,
            version,
            reports: Vec::new(),
            random: generator(),
            counters: Counters::default(),
            now: Instant::now(),
            now_until: Instant::now(),
            started: Instant::now(),
            synced_ms: 0,
            sync_asked: false,
            pause: None,
            expires_actively: true,
            may_wait: true,
            ended_waits: Vec::new(),
            unblocked: Vec::new(),
            forgotten: Vec::new(),
            to_unblock: Vec::new(),
            to_kill: Vec::new(),
            lap: Instant::now(),
            slow_guest: None,
            commands: shared.commands.of_thread(thread),
            flow: FlowMeter::new(),
            resets: 0,
            saves: 0,
            changes_saved: 0,
            blocked: 0,
            some_killed: false,
            run_id: run_id.to_owned(),
            bystanders: None,
            answer_bystanders: |_| (),
            spares: Spares::default(),
            shared,
            must_evict: false,
            dry_at: 0,
        };
        let eviction = &service.settings.eviction;
        service.store.set_usage(eviction.usage(), eviction.evicts_by_usage());
        service.store.count_bytes(&service.shared.data_bytes, service.settings.memory_max > 0);
        service.store.inline_limits = service.settings.inline_limits.clone();
        service.store.transaction_len_max = service.settings.limits.transaction_len_max;
        service.store.outbox.events = service.settings.events;
        if thread == 0 {
            let (shared, stats) = (&service.shared, service.store.stats());
            let program = program_bytes().saturating_sub(stats.dram_bytes());
            shared.memory_of_program.store(program, Ordering::Relaxed);
            shared.memory_at_start.store(stats.memory_bytes() + program, Ordering::Relaxed);
        }
        service.tick();
        service.synced_ms = service.store.now_ms;
        service
    }

    /// Reads the clocks.
    pub(crate) fn tick(&mut self) {
        self.now = Instant::now();
        let unix = unix_time();
        self.store.now_ms = self.settings.time_ms.unwrap_or(unix.as_millis() as u64);
        let left_ns = 1_000_000 - unix.subsec_nanos() % 1_000_000;
        self.now_until = self.now + Duration::from_nanos(left_ns.into());
    }

    /// Copies settings that other threads have changed.
    #[inline]
    pub(crate) fn refresh(&mut self) {
        if self.shared.version() != self.version {
            self.copy_common();
        }
    }

    fn copy_common(&mut self) {
        let (common, version) = self.shared.common();
        self.version = version;
        self.take_users(common.acl);
        self.slow = common.settings.slow();
        self.settings = common.settings;
        self.store.inline_limits.clone_from(&self.settings.inline_limits);
        self.store.outbox.events = self.settings.events;
        let eviction = &self.settings.eviction;
        self.store.set_usage(eviction.usage(), eviction.evicts_by_usage());
        self.store.count_bytes(&self.shared.data_bytes, self.settings.memory_max > 0);
        self.must_evict = self.settings.memory_max > 0;
        self.set_pause(common.pause);
        self.expires_actively = common.expires_actively;
        if common.saves != self.saves {
            self.saves = common.saves;
            self.changes_saved = self.store.changes;
        }
        if common.resets != self.resets {
            self.resets = common.resets;
            self.counters = Counters {
                expired_before: self.store.expired,
                expired_fields_before: self.store.expired_fields,
                evicted_before: self.store.evicted,
                ..Counters::default()
            };
        }
    }

    /// Takes other users, and disconnects clients whose user is gone, or may no longer hear what they have subscribed to.
    fn take_users(&mut self, acl: Arc<Acl>) {
        if Arc::ptr_eq(&self.acl, &acl) {
            return;
        }
        self.acl = acl;
        for (_, client) in self.clients.iter_mut() {
            if !renew_login(&self.acl, client) {
                client.killed = true;
                self.some_killed = true;
            }
        }
    }

    /// Changes the users, for all threads, for a client that is out of its place. It still gets its reply, even if it may
    /// not stay.
    pub(crate) fn change_users<R>(
        &mut self,
        client: &mut Client,
        change: impl FnOnce(&mut Common) -> R,
    ) -> R {
        let result = self.change(change);
        client.closing |= !renew_login(&self.acl, client);
        result
    }

    /// Whether nothing that was executed has an effect at the end of the turn: no change has to become durable, and no
    /// other client or thread has to be told of anything.
    #[inline]
    pub(crate) fn is_settled(&self) -> bool {
        let Self { store, sync_asked, some_killed, .. } = self;
        let has_messages = !self.ended_waits.is_empty()
            || !self.forgotten.is_empty()
            || !self.to_unblock.is_empty()
            || !self.to_kill.is_empty();
        !store.is_unsynced()
            && store.outbox.is_empty()
            && !sync_asked
            && !some_killed
            && !has_messages
    }

    /// Changes here since a client last had everything made durable.
    pub(crate) fn changes_since_save(&self) -> u64 {
        self.store.changes - self.changes_saved
    }

    /// How often a client had everything made durable.
    pub(crate) fn saves(&self) -> u64 {
        self.saves
    }

    /// Notes how much memory the server accounts for, for INFO's peak.
    pub(crate) fn note_memory(&self) {
        if self.thread == 0 {
            let (shared, stats) = (&self.shared, self.store.stats());
            let program = shared.memory_of_program.load(Ordering::Relaxed);
            let used = stats.memory_bytes() + program + shared.client_memory.total() as u64;
            shared.memory_peak.fetch_max(used, Ordering::Relaxed);
        }
    }

    /// Whether live records take more than `maxmemory` allows, as far as it is known how much they take.
    pub(crate) fn is_full(&self) -> bool {
        let limit = self.settings.memory_max;
        limit > 0 && self.store.live_bytes().is_some_and(|bytes| bytes > limit)
    }

    /// The bytes that live records may take: the configured limit, or the pool's capacity.
    pub(crate) fn memory_max(&self) -> u64 {
        match self.settings.memory_max {
            0 => self.store.stats().pool_bytes_max,
            limit => limit,
        }
    }

    /// Pauses clients, or ends the pause. During a pause no key expires, since that would be a change.
    pub(crate) fn set_pause(&mut self, pause: Option<Pause>) {
        self.pause = pause;
        self.store.is_paused = pause.is_some();
    }

    /// Whether a pause keeps a command from being executed that writes or not.
    #[inline]
    pub(crate) fn pauses(&self, writes: bool) -> bool {
        self.pause.is_some_and(|pause| self.now < pause.until && (writes || !pause.writes_only))
            && !self.shared.ending.has_begun()
    }

    /// Changes the state that all threads share.
    pub(crate) fn change<R>(&mut self, change: impl FnOnce(&mut Common) -> R) -> R {
        let result = self.shared.change(change);
        self.copy_common();
        result
    }

    /// The report of this thread and of the others together, from now or from when they sent theirs.
    pub(crate) fn report(&self, details: Details) -> Report {
        // A part may have come, or been lent, since the others were queried.
        let mut report = self.own_report(self.own.and(self.store.here()), details);
        self.reports.iter().for_each(|other| report.add(other));
        report
    }

    /// The report of this thread, which has the parts `own`.
    pub(crate) fn own_report(&self, own: PartitionSet, details: Details) -> Report {
        let lines = self.clients.iter().filter(|client| details.clients && !client.killed);
        let buffers = || self.clients.iter().map(|client| client.buffers);
        let waits = || self.clients.iter().filter_map(|client| client.wait.as_ref());
        Report {
            thread: self.thread,
            counters: self.counters,
            flow: self.flow.mean(),
            subscribers: self.clients.iter().filter(|client| client.is_subscriber()).count(),
            clients: lines.map(|client| Line::of(client, self.now)).collect(),
            input_len_max: buffers().map(|buffers| buffers.query_len).max().unwrap_or(0),
            output_len_max: buffers().map(|buffers| buffers.output_len).max().unwrap_or(0),
            buffer_bytes: buffers().map(|buffers| buffers.memory).sum::<usize>()
                + self.store.kept_bytes(),
            expiring: (0..self.settings.databases).map(|db| self.store.expiring(db, own)).collect(),
            expiring_hashes: (0..self.settings.databases)
                .map(|db| self.store.expiring_hashes(db, own))
                .collect(),
            expired: self.store.expired - self.counters.expired_before,
            expired_fields: self.store.expired_fields - self.counters.expired_fields_before,
            state_bytes: self.store.state_bytes(own),
            evicted: self.store.evicted - self.counters.evicted_before,
            changes: self.store.changes,
            changes_since_save: self.changes_since_save(),
            blocked: self.blocked + waits().count(),
            timed: waits().filter(|wait| wait.until.is_some()).count(),
            watching: self.clients.iter().filter(|client| !client.watches.is_empty()).count(),
            watches: self.clients.iter().map(|client| client.watches.len()).sum(),
            waited_keys: self.store.waited_keys(own),
            waited_keys_or_none: self.store.waited_keys_or_none(own),
            synced_ms: self.synced_ms,
        }
    }

    /// Begins to measure how long commands take.
    #[inline]
    pub(crate) fn begin_lap(&mut self) {
        self.lap = Instant::now();
        self.keep_time();
    }

    /// Notes how long a command took that `began` with a lap, and whether it failed. The end of a command is the
    /// beginning of the next one: one reading of the clock for each command serves both, and is the time that the next
    /// one sees.
    #[inline]
    pub(crate) fn end_lap(
        &mut self,
        began: Instant,
        client: &Client,
        command: &'static Command,
        args: Args<'_>,
        failed: bool,
    ) {
        self.lap = Instant::now();
        let took = self.lap.saturating_duration_since(began);
        // The commands of a transaction see the time of its EXEC.
        if !self.store.in_transaction() {
            self.keep_time();
        }
        self.commands.note(command, took, failed);
        if self.slow.is_some_and(|slow| took >= slow) {
            self.note_slow(client, command, args, took);
        }
    }

    /// Reads the clocks again once the millisecond is over in which they were read.
    #[inline]
    fn keep_time(&mut self) {
        if self.lap >= self.now_until {
            self.tick();
        }
    }

    /// Notes an error that a client is answered with.
    pub(crate) fn note_error(&mut self, text: &[u8]) {
        self.counters.errors += 1;
        self.commands.note_error(text);
    }

    #[cold]
    fn note_slow(
        &mut self,
        client: &Client,
        command: &'static Command,
        args: Args<'_>,
        took: Duration,
    ) {
        // EXEC is as slow as its commands, which are noted one by one.
        if command.is(flags::EXECUTES) {
            return;
        }
        let took_us = took.as_micros() as u64;
        let limit = u64::try_from(self.settings.slowlog_slower_than_us);
        if limit.is_ok_and(|limit| took_us >= limit) {
            let entry = slowlog::Entry {
                id: 0,
                at_s: unix_time().as_secs(),
                took_us,
                words: slowlog::shorten(args),
                addr: client.addr.clone(),
                name: client.name.clone(),
            };
            match client.id {
                Client::GUEST => self.slow_guest = Some(entry),
                _ => self.log_slow(entry),
            }
        }
        let event = if command.is(flags::FAST) { "fast-command" } else { "command" };
        self.note_latency(event, took);
    }

    /// Adds an entry to the slowlog.
    pub(crate) fn log_slow(&self, entry: slowlog::Entry) {
        lock(&self.shared.slowlog).push(entry, self.settings.slowlog_len_max);
    }

    /// Notes an event, if it took long.
    pub(crate) fn note_latency(&self, event: &'static str, took: Duration) {
        let threshold = self.settings.latency_threshold_ms;
        let ms = took.as_millis() as u64;
        if threshold > 0 && ms >= threshold {
            lock(&self.shared.latency).note(event, unix_time().as_secs(), ms);
        }
    }

    /// Whether all clients that may be evicted take more memory than they may; or, if `is_kept`, the others.
    #[inline]
    pub(crate) fn is_short(&self, is_kept: bool) -> bool {
        self.shared.client_memory.is_over(is_kept, self.settings.client_memory_max)
    }

    /// Whether there is no memory for so many bytes more of a client's transaction, and its watches.
    pub(crate) fn lacks_memory(&self, is_kept: bool, bytes: usize) -> bool {
        is_kept && !self.shared.client_memory.can_keep(bytes, self.settings.client_memory_max)
    }

    /// Disconnects a client for which more replies wait, `unread` bytes, than its limits allow, or whose last reply was
    /// longer than one may be.
    #[inline]
    pub(crate) fn check_output(&mut self, client: &mut Client, unread: usize, reply_len: usize) {
        let is_subscriber = client.is_subscriber();
        let output = self.settings.output_limits(is_subscriber);
        let is_soft = output.soft > 0 && unread > output.soft;
        let since = is_soft.then(|| client.output_long_since.unwrap_or(self.now));
        client.output_long_since = since;
        let too_long =
            since.is_some_and(|since| self.now.saturating_duration_since(since) > output.soft_time);
        let is_stranger = !client.authenticated && self.acl.asks_for_password();
        let len_max = self.settings.output_len_max(is_subscriber);
        let len_max = if is_stranger { len_max.min(STRANGER_OUTPUT_MAX) } else { len_max };
        let is_too_much = unread > len_max || reply_len > self.settings.reply_len_max();
        if (too_long || is_too_much) && !client.killed {
            client.killed = true;
            self.some_killed = true;
            self.counters.output_limit_disconnections += 1;
            self.settings.log(|| {
                format!(
                    "client {} is disconnected for overcoming of output buffer limits",
                    client.describe(self.now)
                )
            });
        }
    }

    /// [`Service::check_output`] of the client in a place.
    pub(crate) fn check_output_of(&mut self, place: usize, unread: usize, reply_len: usize) {
        if let Some(mut client) = self.clients.take_out(place) {
            self.check_output(&mut client, unread, reply_len);
            self.clients.put_back(place, client);
        }
    }

    /// Disconnects clients of this thread.
    pub(crate) fn kill(&mut self, ids: &[u64]) {
        for (_, client) in self.clients.iter_mut() {
            if ids.contains(&client.id) {
                client.killed = true;
                self.some_killed = true;
            }
        }
    }

    /// Refuses if writes could not be made durable since the start.
    pub(crate) fn check_durable(&self) -> Outcome {
        match self.shared.sync_failure.get() {
            Some(error) => Err(Failure::NotDurable(Arc::clone(error))),
            None => Ok(()),
        }
    }

    /// Makes all changes durable.
    pub(crate) fn sync(&mut self) -> halite::Result<()> {
        let began = Instant::now();
        self.counters.syncs += u64::from(self.store.is_unsynced());
        if self.sync_asked {
            self.store.sync_all()?;
            self.shared.saved_ms.fetch_max(self.store.now_ms, Ordering::Relaxed);
        } else {
            self.store.sync()?;
        }
        self.note_latency("sync", began.elapsed());
        self.synced_ms = self.store.now_ms;
        Ok(())
    }
}
