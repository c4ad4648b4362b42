//! The configuration that clients can read, and change in part, while the server runs.

use std::time::Duration;

use crate::script::settings::ScriptSettings;
use crate::{Config, DebugCommand, Limits, SyncPolicy};

/// The configuration as it is now.
#[derive(Clone)]
pub(crate) struct Settings {
    pub(crate) requirepass: Option<String>,
    /// The number of threads.
    pub(crate) threads: usize,
    pub(crate) client_count_max: usize,
    /// Descriptors that clients leave to the engine and the rest of the process.
    pub(crate) descriptors_reserved: u64,
    pub(crate) idle_timeout: Option<Duration>,
    pub(crate) tcp_keepalive: Option<Duration>,
    pub(crate) limits: Limits,
    /// Bytes that all clients may take together.
    pub(crate) client_memory_max: Option<usize>,
    log: Option<fn(&str)>,
    /// Bytes of live records beyond which only removals are written, on an engine without levels; 0: only the pool's
    /// limit holds.
    pub(crate) memory_max: u64,
    pub(crate) sync: SyncPolicy,
    pub(crate) debug_command: DebugCommand,
    pub(crate) shutdown_grace: Duration,
    /// The shortest time of a command that SLOWLOG records, in microseconds; negative: it records none.
    pub(crate) slowlog_slower_than_us: i64,
    /// The commands that SLOWLOG keeps.
    pub(crate) slowlog_len_max: usize,
    /// The shortest time of a spike that LATENCY records, in milliseconds; 0: it records none.
    pub(crate) latency_threshold_ms: u64,
    pub(crate) databases: usize,
    pub(crate) bind: String,
    pub(crate) port: u16,
    /// Whether the databases lie in memory alone, and are not kept.
    pub(crate) in_memory: bool,
    pub(crate) scripts: ScriptSettings,
    /// When Redis would write a snapshot. Here every change is in the store: any value holds.
    pub(crate) save: String,
}

impl Settings {
    /// Bytes of replies that may wait for a client: not more than its limit, nor than that of all together.
    pub(crate) fn output_len_max(&self) -> usize {
        let hard = Some(self.limits.output.hard).filter(|&hard| hard > 0);
        hard.into_iter().chain(self.client_memory_max).min().unwrap_or(usize::MAX)
    }

    /// The longest reply, in bytes: a client is dropped for a longer one, and the rest of it is not written. Each
    /// thread makes one reply at a time, beyond the limit of all clients: together they take at most as much as that
    /// limit again.
    pub(crate) fn reply_len_max(&self) -> usize {
        let share = self.client_memory_max.map_or(usize::MAX, |bytes| bytes / self.threads);
        self.output_len_max().min(share)
    }

    /// Writes a line to the operator's log.
    pub(crate) fn log(&self, line: impl FnOnce() -> String) {
        if let Some(log) = self.log {
            log(&line());
        }
    }

    /// The shortest time that SLOWLOG or LATENCY records; `None`: they record none.
    pub(crate) fn slow(&self) -> Option<Duration> {
        let command = u64::try_from(self.slowlog_slower_than_us).map(Duration::from_micros).ok();
        let spike = Some(Duration::from_millis(self.latency_threshold_ms));
        let spike = spike.filter(|spike| !spike.is_zero());
        command.into_iter().chain(spike).min()
    }

    /// The configuration at the start, of a server of one thread that listens on `port`.
    pub(crate) fn new(config: &Config, port: u16) -> Self {
        let bind: Vec<_> = config.bind.iter().map(ToString::to_string).collect();
        Self {
            requirepass: config.requirepass.clone().filter(|password| !password.is_empty()),
            threads: 1,
            client_count_max: config.client_count_max,
            descriptors_reserved: 0,
            idle_timeout: config.idle_timeout,
            tcp_keepalive: config.tcp_keepalive,
            limits: config.limits.clone(),
            client_memory_max: config.client_memory_max,
            log: config.log,
            memory_max: 0,
            sync: config.sync,
            debug_command: config.debug_command,
            shutdown_grace: config.shutdown_grace,
            slowlog_slower_than_us: 10_000,
            slowlog_len_max: 128,
            latency_threshold_ms: 0,
            databases: config.databases as usize,
            bind: bind.join(" "),
            port,
            in_memory: false,
            scripts: ScriptSettings::default(),
            save: String::new(),
        }
    }
}
