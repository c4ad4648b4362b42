//! The configuration that clients can ask for, and change in part, while the server runs.

use std::time::Duration;

use crate::{Config, Limits, SyncPolicy};

/// The configuration as it is now.
#[derive(Clone)]
pub(crate) struct Settings {
    pub(crate) requirepass: Option<String>,
    pub(crate) client_count_max: usize,
    pub(crate) idle_timeout: Option<Duration>,
    pub(crate) tcp_keepalive: Option<Duration>,
    pub(crate) limits: Limits,
    pub(crate) sync: SyncPolicy,
    pub(crate) databases: usize,
    pub(crate) bind: String,
    pub(crate) port: u16,
    /// When Redis would write a snapshot. Here every change is in the store: any value holds.
    pub(crate) save: String,
}

impl Settings {
    /// The configuration at the start, of a server that listens on `port`.
    pub(crate) fn new(config: &Config, port: u16) -> Self {
        let bind: Vec<_> = config.bind.iter().map(ToString::to_string).collect();
        Self {
            requirepass: config.requirepass.clone().filter(|password| !password.is_empty()),
            client_count_max: config.client_count_max,
            idle_timeout: config.idle_timeout,
            tcp_keepalive: config.tcp_keepalive,
            limits: config.limits.clone(),
            sync: config.sync,
            databases: config.databases as usize,
            bind: bind.join(" "),
            port,
            save: String::new(),
        }
    }
}
