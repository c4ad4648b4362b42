//! The configuration that clients can read, and change in part, while the server runs.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use crate::address::Address;
use crate::eviction_policy::EvictionSettings;
use crate::inline_limits::InlineLimits;
use crate::notifications::Events;
use crate::script::settings::ScriptSettings;
use crate::tls::TlsSettings;
use crate::{Config, DebugCommand, Limits, OutputLimits, SyncPolicy};

/// The configuration as it is now.
#[derive(Clone)]
pub(crate) struct Settings {
    /// The password of the default user that was configured or set last.
    pub(crate) requirepass: Option<String>,
    /// The file of the users.
    pub(crate) acl_file: Option<PathBuf>,
    /// The refusals that ACL LOG keeps.
    pub(crate) acl_log_len_max: usize,
    /// Whether new users, and selectors, begin with all channels.
    pub(crate) acl_all_channels: bool,
    /// The number of threads.
    pub(crate) threads: usize,
    pub(crate) client_count_max: usize,
    /// Descriptors that clients leave to the engine and the rest of the process.
    pub(crate) descriptors_reserved: u64,
    pub(crate) idle_timeout: Option<Duration>,
    pub(crate) tcp_keepalive: Option<Duration>,
    pub(crate) limits: Limits,
    /// The settings of replicas, of which there are none.
    pub(crate) replica_output: OutputLimits,
    /// Bytes that all clients may take together.
    pub(crate) client_memory_max: Option<usize>,
    /// If that follows `maxmemory`: so many hundredths of it.
    pub(crate) client_memory_percent: Option<u32>,
    log: Option<fn(&str)>,
    /// Bytes of live records beyond which keys are evicted, or only removals are written; 0: only the pool's limit holds.
    pub(crate) memory_max: u64,
    pub(crate) eviction: EvictionSettings,
    pub(crate) sync: SyncPolicy,
    pub(crate) debug_command: DebugCommand,
    pub(crate) shutdown_grace: Duration,
    /// The time that keys have, in milliseconds since 1970; `None`: that of the clock.
    pub(crate) time_ms: Option<u64>,
    /// The shortest time of a command that SLOWLOG records, in microseconds; negative: it records none.
    pub(crate) slowlog_slower_than_us: i64,
    /// The commands that SLOWLOG keeps.
    pub(crate) slowlog_len_max: usize,
    /// The shortest time of a spike that LATENCY records, in milliseconds; 0: it records none.
    pub(crate) latency_threshold_ms: u64,
    /// Whether INFO tells how long commands take, and the percentiles that it tells.
    pub(crate) latency_tracking: bool,
    pub(crate) latency_percentiles: Vec<f64>,
    /// The keys that are remembered for clients that have read them; 0: no limit.
    pub(crate) tracked_keys_max: usize,
    /// The events about keys that are sent.
    pub(crate) events: Events,
    pub(crate) databases: usize,
    /// The longest HyperLogLog that is kept sparse, in bytes.
    pub(crate) hll_sparse_len_max: usize,
    pub(crate) bind: String,
    pub(crate) port: u16,
    pub(crate) unix_socket: String,
    pub(crate) unix_socket_mode: u32,
    pub(crate) tls: TlsSettings,
    /// The file that CONFIG REWRITE writes to.
    pub(crate) config_file: Option<Arc<Path>>,
    /// The settings that were set by options, or since the start.
    pub(crate) changed: BTreeSet<&'static str>,
    /// Clients of other machines are refused while no password is set.
    pub(crate) protected_mode: bool,
    /// Whether the databases lie in memory alone, and are not kept.
    pub(crate) in_memory: bool,
    /// How large collections may be that are one record.
    pub(crate) inline_limits: InlineLimits,
    /// Nodes at each end of a list that Redis would not compress. Nothing is compressed here.
    pub(crate) list_compress_depth: i64,
    pub(crate) scripts: ScriptSettings,
    /// When Redis would write a snapshot. Here every change is in the store: any value holds.
    pub(crate) save: String,
    /// Entries of a stream that an approximate trim removes together, and at most how many bytes Redis would have in
    /// one piece, which has no effect here.
    pub(crate) stream_node_entries: u64,
    pub(crate) stream_node_bytes: u64,
}

impl Settings {
    /// The limits of what waits for a client that is subscribed to messages or not.
    pub(crate) fn output_limits(&self, is_subscriber: bool) -> &OutputLimits {
        if is_subscriber { &self.limits.pubsub_output } else { &self.limits.output }
    }

    /// Bytes of replies that may wait for a client: not more than its limit, nor than that of all together.
    pub(crate) fn output_len_max(&self, is_subscriber: bool) -> usize {
        let hard = self.output_limits(is_subscriber).hard;
        let hard = Some(hard).filter(|&hard| hard > 0);
        hard.into_iter().chain(self.client_memory_max).min().unwrap_or(usize::MAX)
    }

    /// The longest reply, in bytes: a client is dropped for a longer one, and the rest of it is not written. Each
    /// thread makes one reply at a time, beyond the limit of all clients: together they take at most as much as that
    /// limit again.
    pub(crate) fn reply_len_max(&self) -> usize {
        let share = self.client_memory_max.map_or(usize::MAX, |bytes| bytes / self.threads);
        self.output_len_max(false).min(share)
    }

    /// Makes the limit of all clients follow `maxmemory`, if it does; without that there is none, then.
    pub(crate) fn fit_client_memory(&mut self) {
        if let Some(percent) = self.client_memory_percent {
            let bytes = u128::from(self.memory_max) * u128::from(percent) / 100;
            self.client_memory_max = usize::try_from(bytes).ok().filter(|&bytes| bytes > 0);
        }
    }

    /// Whether a client of a server that asks for no password is refused because of where it is.
    pub(crate) fn denies(&self, client: &Address) -> bool {
        self.protected_mode && !client.is_local()
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
            acl_file: config.acl_file.clone(),
            acl_log_len_max: 128,
            acl_all_channels: false,
            requirepass: config.requirepass.clone().filter(|password| !password.is_empty()),
            threads: 1,
            client_count_max: config.client_count_max,
            descriptors_reserved: 0,
            idle_timeout: config.idle_timeout,
            tcp_keepalive: config.tcp_keepalive,
            limits: config.limits.clone(),
            replica_output: OutputLimits::default(),
            client_memory_max: config.client_memory_max,
            client_memory_percent: None,
            log: config.log,
            memory_max: 0,
            eviction: EvictionSettings::default(),
            sync: config.sync,
            debug_command: config.debug_command,
            shutdown_grace: config.shutdown_grace,
            time_ms: (!config.keys_expire).then_some(0),
            slowlog_slower_than_us: 10_000,
            slowlog_len_max: 128,
            latency_threshold_ms: 0,
            latency_tracking: true,
            latency_percentiles: vec![50.0, 99.0, 99.9],
            tracked_keys_max: 1_000_000,
            events: Events::default(),
            databases: config.databases as usize,
            hll_sparse_len_max: 3000,
            bind: bind.join(" "),
            port,
            unix_socket: config
                .unix_socket
                .as_ref()
                .map_or_else(String::new, |path| path.display().to_string()),
            unix_socket_mode: config.unix_socket_mode.unwrap_or(0),
            tls: TlsSettings::default(),
            config_file: config.file.as_deref().map(Arc::from),
            changed: config.changed.clone(),
            protected_mode: config.protected_mode,
            in_memory: false,
            inline_limits: InlineLimits::default(),
            list_compress_depth: 0,
            scripts: ScriptSettings::default(),
            save: String::new(),
            stream_node_entries: 100,
            stream_node_bytes: 4096,
        }
    }
}
