//! The configuration of a server.

use std::collections::BTreeSet;
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use crate::{DebugCommand, SyncPolicy, TlsOptions, client_memory};

/// The configuration of a server. The default listens on `127.0.0.1:6379`.
#[derive(Clone)]
#[non_exhaustive]
pub struct Config {
    /// The addresses to listen on.
    pub bind: Vec<IpAddr>,
    /// The port; 0 takes a free one, see [`crate::Server::local_addrs`].
    pub port: u16,
    /// Whether clients are served without TLS at the addresses.
    pub plain_tcp: bool,
    /// TLS.
    pub tls: TlsOptions,
    /// The path of a unix socket to listen on, beside the addresses. A file that a server has left there is replaced,
    /// and removed at the end.
    pub unix_socket: Option<PathBuf>,
    /// The mode of the unix socket's file, such as `0o700`; `None`: as the process' mask has it.
    pub unix_socket_mode: Option<u32>,
    /// Whether clients of other machines are refused while no password is set.
    pub protected_mode: bool,
    /// The number of threads, at most one a partition of the database, and one a partition if it is
    /// not given.
    pub threads: Option<usize>,
    /// The password of the default user, which clients must send before any other command is executed.
    pub requirepass: Option<String>,
    /// The file of the users, which has to exist; `None`: the default user is the only one at the start. If the file has
    /// no default user, that has all rights, and the password above.
    pub acl_file: Option<PathBuf>,
    /// When a write is durable on an ordinary file.
    pub sync: SyncPolicy,
    /// Which clients may use DEBUG.
    pub debug_command: DebugCommand,
    /// The number of databases, at least one.
    pub databases: u32,
    /// Whether keys expire. If not, it is always the beginning of 1970 for them, before all deadlines: for a program that
    /// replays a log, in which a key that has expired by now may still be changed, and its deadline be put off.
    pub keys_expire: bool,
    /// The most clients at a time.
    pub client_count_max: usize,
    /// How long a client may be silent before it is disconnected; `None`: no limit.
    pub idle_timeout: Option<Duration>,
    /// How long a connection may be silent before TCP asks whether its other end still exists.
    pub tcp_keepalive: Option<Duration>,
    /// Where `GET /metrics` is answered, for Prometheus; port 0 takes a free one.
    pub metrics: Option<SocketAddr>,
    /// The time that all clients together have at shutdown. For half of it, requests that have arrived are still
    /// executed. After that, running commands are interrupted, and further requests refused; clients read their last
    /// replies in the rest. A server with no work left does not wait for it.
    pub shutdown_grace: Duration,
    /// The limits of a single client.
    pub limits: Limits,
    /// Bytes of memory that all clients may take together: of requests that have arrived, and of replies that they have
    /// not read. Above it, those with most memory are disconnected. By default a quarter of the memory of the machine
    /// or of the control group; `None`: no limit.
    pub client_memory_max: Option<usize>,
    /// Receives log lines on actions that the server takes by itself, such as disconnecting a client.
    pub log: Option<fn(&str)>,
    /// The file that [`Config::read_file`] has read.
    pub(crate) file: Option<PathBuf>,
    /// Settings of that file that have no field here, and their values.
    pub(crate) settings: Vec<(String, String)>,
    /// The users of that file, as lines of a file of users.
    pub(crate) users: Vec<Vec<u8>>,
    /// Settings that options have set.
    pub(crate) changed: BTreeSet<&'static str>,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            bind: vec![IpAddr::V4(Ipv4Addr::LOCALHOST)],
            port: 6379,
            plain_tcp: true,
            tls: TlsOptions::default(),
            unix_socket: None,
            unix_socket_mode: None,
            protected_mode: true,
            threads: None,
            requirepass: None,
            acl_file: None,
            sync: SyncPolicy::default(),
            debug_command: DebugCommand::default(),
            databases: 16,
            keys_expire: true,
            client_count_max: 10_000,
            idle_timeout: None,
            tcp_keepalive: Some(Duration::from_secs(300)),
            metrics: None,
            shutdown_grace: Duration::from_millis(1500),
            limits: Limits::default(),
            client_memory_max: Some(client_memory::default_limit()),
            log: None,
            file: None,
            settings: Vec::new(),
            users: Vec::new(),
            changed: BTreeSet::new(),
        }
    }
}

impl fmt::Debug for Config {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Config")
            .field("bind", &self.bind)
            .field("port", &self.port)
            .field("plain_tcp", &self.plain_tcp)
            .field("tls", &self.tls)
            .field("unix_socket", &self.unix_socket)
            .field("unix_socket_mode", &self.unix_socket_mode)
            .field("protected_mode", &self.protected_mode)
            .field("threads", &self.threads)
            .field("requirepass", &self.requirepass.as_ref().map(|_| "<not shown>"))
            .field("acl_file", &self.acl_file)
            .field("sync", &self.sync)
            .field("debug_command", &self.debug_command)
            .field("databases", &self.databases)
            .field("keys_expire", &self.keys_expire)
            .field("client_count_max", &self.client_count_max)
            .field("idle_timeout", &self.idle_timeout)
            .field("tcp_keepalive", &self.tcp_keepalive)
            .field("metrics", &self.metrics)
            .field("shutdown_grace", &self.shutdown_grace)
            .field("limits", &self.limits)
            .field("client_memory_max", &self.client_memory_max)
            .field("file", &self.file)
            .field("settings", &self.settings)
            .finish_non_exhaustive()
    }
}

/// The limits of a single client.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Limits {
    /// The longest word of a request, and so the longest value, in bytes.
    pub bulk_len_max: usize,
    /// The most words of a request.
    pub args_max: usize,
    /// The longest request typed on a line, in bytes.
    pub inline_len_max: usize,
    /// Bytes of requests that have arrived and are not answered; a client with more is dropped.
    pub query_buffer_len_max: usize,
    /// Replies that wait for the client to read them; a client with more is dropped.
    pub output: OutputLimits,
    /// The same for clients that are subscribed to messages, which they cannot keep from coming.
    pub pubsub_output: OutputLimits,
    /// Bytes of the commands that a client has queued between MULTI and EXEC, of the keys that it watches, and of the
    /// changes of EXEC, or of one command, before they are written.
    pub transaction_len_max: usize,
    /// The time within which a client must authenticate, if there is a password, and finish a request that it has
    /// begun. A large request has a second more for each 16 KiB of it that have arrived.
    pub request_timeout: Duration,
    /// The time within which a client of the TLS port must finish its handshake.
    pub handshake_timeout: Duration,
}

/// When a client is dropped that does not read its replies, as by Redis' `client-output-buffer-limit`; by default
/// not because of it alone.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct OutputLimits {
    /// Disconnected at once above this, in bytes; 0: no limit.
    pub hard: usize,
    /// Disconnected above this, in bytes, for longer than [`OutputLimits::soft_time`]; 0: no limit.
    pub soft: usize,
    /// How long there may be more bytes than [`OutputLimits::soft`].
    pub soft_time: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        let requests = crate::resp::Limits::default();
        Self {
            bulk_len_max: requests.bulk_len_max,
            args_max: requests.args_max,
            inline_len_max: requests.inline_len_max,
            query_buffer_len_max: 1 << 30,
            output: OutputLimits::default(),
            pubsub_output: OutputLimits {
                hard: 32 << 20,
                soft: 8 << 20,
                soft_time: Duration::from_secs(60),
            },
            transaction_len_max: 1 << 30,
            request_timeout: Duration::from_secs(60),
            handshake_timeout: Duration::from_secs(10),
        }
    }
}

impl Limits {
    /// The limits of requests, of a client that is authenticated or not.
    pub(crate) fn of_requests(&self, unauthenticated: bool) -> crate::resp::Limits {
        crate::resp::Limits {
            bulk_len_max: self.bulk_len_max,
            args_max: self.args_max,
            inline_len_max: self.inline_len_max,
            unauthenticated,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_password_is_not_printed() {
        let config = Config { requirepass: Some("secret".into()), ..Config::default() };
        assert!(!format!("{config:?}").contains("secret"));
    }
}
