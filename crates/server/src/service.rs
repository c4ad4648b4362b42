//! What all clients share: the store, the other clients, the settings.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use crate::clients::Clients;
use crate::random::Random;
use crate::settings::Settings;
use crate::store::{Store, Watch};

/// What commands work on.
pub(crate) struct Service {
    pub(crate) store: Store,
    pub(crate) clients: Clients,
    pub(crate) settings: Settings,
    pub(crate) random: Random,
    pub(crate) counters: Counters,
    pub(crate) now: Instant,
    pub(crate) started: Instant,
    /// When everything was durable, in milliseconds since 1970.
    pub(crate) synced_ms: u64,
    /// A client wants everything durable, whatever the policy says.
    pub(crate) sync_asked: bool,
    /// A client wants the server to stop.
    pub(crate) shutdown_asked: bool,
    /// Clients wait.
    pub(crate) pause: Option<Pause>,
    /// Whether expired keys are looked for; if not, they go when somebody asks for them.
    pub(crate) expires_actively: bool,
    /// Watches that have ended, of keys whose part is elsewhere.
    pub(crate) forgotten: Vec<Watch>,
    /// Some client is [`crate::client::Client::killed`].
    pub(crate) some_killed: bool,
    /// Identifies this run of the server: 40 hexadecimal digits.
    pub(crate) run_id: String,
    /// For values that are computed from others.
    pub(crate) scratch: Vec<u8>,
}

/// What clients wait for.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Pause {
    pub(crate) until: Instant,
    /// Only those that want to write.
    pub(crate) writes_only: bool,
}

/// What happened since the start, or since CONFIG RESETSTAT.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Counters {
    pub(crate) connections: u64,
    pub(crate) connections_rejected: u64,
    pub(crate) commands: u64,
    pub(crate) errors: u64,
    pub(crate) input_bytes: u64,
    pub(crate) output_bytes: u64,
    pub(crate) key_hits: u64,
    pub(crate) key_misses: u64,
    pub(crate) syncs: u64,
    pub(crate) query_limit_disconnections: u64,
    pub(crate) output_limit_disconnections: u64,
    /// Expired keys that do not count any more.
    pub(crate) expired_before: u64,
}

impl Service {
    pub(crate) fn new(store: Store, settings: Settings) -> Self {
        let mut random = Random::new();
        let run_id = (0..3).map(|_| format!("{:016x}", random.next())).collect::<String>();
        let mut service = Self {
            store,
            clients: Clients::default(),
            settings,
            random,
            counters: Counters::default(),
            now: Instant::now(),
            started: Instant::now(),
            synced_ms: 0,
            sync_asked: false,
            shutdown_asked: false,
            pause: None,
            expires_actively: true,
            forgotten: Vec::new(),
            some_killed: false,
            run_id: run_id[..40].to_owned(),
            scratch: Vec::new(),
        };
        service.tick();
        service.synced_ms = service.store.now_ms;
        service
    }

    /// Reads the clocks.
    pub(crate) fn tick(&mut self) {
        self.now = Instant::now();
        self.store.now_ms = unix_time().as_millis() as u64;
    }

    /// Makes all changes durable.
    pub(crate) fn sync(&mut self) -> halite::Result<()> {
        self.counters.syncs += u64::from(self.store.is_unsynced());
        if self.sync_asked { self.store.sync_all()? } else { self.store.sync()? }
        self.synced_ms = self.store.now_ms;
        Ok(())
    }
}

/// The time since 1970.
pub(crate) fn unix_time() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
}
