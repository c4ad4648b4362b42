//! `halite serve`.

use std::env::{self, VarError};
use std::fs;
use std::net::{Ipv4Addr, SocketAddr};
use std::num::NonZero;
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::thread;
use std::time::Duration;

use clap::Args;
use halite::{Database, Domain, IndexKind, Partitioning};
use halite_server::{
    Config, DebugCommand, Handle, OutputLimits, Server, Sockets, SyncPolicy, raise_descriptor_limit,
};

use super::listen::ListenArgs;
use super::stat::{findings, recovery};
use crate::engine::EngineArgs;
use crate::folder::{with_change_log, with_index};
use crate::interrupt::Interrupt;
use crate::remote::PASSWORD_VARIABLE;
use crate::{Error, Result, index, output, size};

/// How many partitions a database can have, and so how many threads can serve it.
const PARTITIONS: RangeInclusive<i64> = 1..=halite::PARTITIONS_MAX as i64;

/// How long the end may take in any case. Clients have 1.5 seconds of it, and the store the rest, to sync and to close.
const CLOSING_MAX: Duration = Duration::from_secs(5);

const EXAMPLES: &str = "\
Examples:
  halite serve ./data                             on 127.0.0.1:6379, for any Redis client
  halite serve ./data --port 7000 --max-size 2GiB
  halite serve ./data --threads 4                 four threads, each with its part of the keys
  halite serve ./data --threads 4 --partitions 16 ... in four parts: after a crash, each answers when it is there
  halite serve /dev/shm/cache --maxclients 100 --timeout 300
  halite serve ./data --bind 0.0.0.0 --requirepass-file secret
  halite serve ./data --unix-socket /run/halite.sock --unix-socket-perm 770
  halite serve ./data --port 0 --tls-port 6379 --tls-cert-file cert.pem --tls-key-file key.pem \\
                      --tls-ca-cert-file ca.pem   by TLS only, for clients with a certificate of that authority
  halite serve ./data --config redis.conf         settings from a file in Redis' syntax; options win
  HALITE_REQUIREPASS=secret halite serve ./data   a password that no process list shows
  halite serve ./data --sync interval=1000        a power cut takes a second's writes at most
  halite serve --in-memory 2GiB                   a cache: nothing survives the end of the server
  halite serve /mnt/pmem/data --engine lsm --levels /ssd/levels

A write is acknowledged when it is durable on the medium that the start banner names. --sync
weakens that for ordinary files only, where durable means a call of the kernel's sync:
  always          before a write is acknowledged (the default)
  interval=<ms>   at this interval; the process may die at any time without loss
  never           when the kernel does it, and when the server ends

The folder's database is created if there is none, and grows as needed up to --max-size. At the
limit, writes get Redis' OOM error; reads and deletes go on. The engine lsm hands on to the SSD at the
limit: there writes get that error when the SSD is full; room is kept for deletes.

SIGTERM and Ctrl-C execute and answer what has arrived, refuse what is not executed within 0.75 seconds, sync, and
end with exit code 0, as soon as that is done, and within 2 seconds whatever clients do. A store that cannot be
closed within 5 seconds is left as it is, as by a second signal at any time: the exit code is 130 then, and the next
start recovers what was acknowledged.";

/// Serve a database to Redis clients
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Serve {
    /// The database's folder
    #[arg(required_unless_present = "in_memory")]
    path: Option<PathBuf>,

    /// Keep everything in memory of the server, of up to SIZE bytes, such as 64MiB or 2GiB, and nothing on a
    /// medium: acknowledged writes are gone when the server ends. Not with a PATH, --max-size or --sync
    #[arg(long, value_name = "SIZE", value_parser = size::parse, conflicts_with = "levels")]
    in_memory: Option<u64>,

    /// Take settings from FILE, which has the lines of a redis.conf; options win over it, and CONFIG REWRITE writes
    /// to it
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,

    #[command(flatten)]
    listen: ListenArgs,

    #[command(flatten)]
    engine: EngineArgs,

    /// The size that the database may grow to, such as 64MiB or 2GiB; by default 1 TiB
    #[arg(long, value_name = "SIZE", value_parser = size::parse)]
    max_size: Option<u64>,

    /// The number of threads, at most one a partition; by default one for two cores, as the kernel's work for
    /// connections and syncs needs the others. With several partitions a thread, a server that recovers answers
    /// sooner, for each of them is served as soon as it is there
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(PARTITIONS))]
    threads: Option<u32>,

    /// The number of partitions that keys are spread over; a database of the engine
    /// indexlog that has another number is changed when it opens, and needs room for its data twice then; one of lsm
    /// keeps its number. By default those that it has, and
    /// one a thread for a new one, or one a core
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(PARTITIONS))]
    partitions: Option<u32>,

    /// The index of the keys in memory: ordered:BYTES keeps 0, 2, 4 or 8 bytes of each key, ordered is
    /// ordered:8; hash is for point operations and SCAN: KEYS, and SCAN's MATCH, visit all keys. Of the engine
    /// indexlog [default: ordered]
    #[arg(long, value_name = "INDEX", value_parser = index::parse)]
    index: Option<IndexKind>,

    /// Make the database, if there is none, with a change log that retains SIZE for `halite tail`. Of the engine
    /// indexlog
    #[arg(long, value_name = "SIZE", value_parser = size::parse)]
    change_log: Option<u64>,

    /// When a write to an ordinary file is durable: always, interval=<ms> or never [default: always]
    #[arg(long, value_name = "POLICY", value_parser = parse_sync)]
    sync: Option<SyncPolicy>,

    /// The password that clients must give; the process list shows it, but not one from the
    /// environment variable HALITE_REQUIREPASS or from --requirepass-file
    #[arg(long, value_name = "PASSWORD")]
    requirepass: Option<String>,

    /// Take the password from the first line of FILE
    #[arg(long, value_name = "FILE", conflicts_with = "requirepass")]
    requirepass_file: Option<PathBuf>,

    /// Take the users, their passwords' digests and their rights from FILE, which must exist: a line `user <name>
    /// <rule> ...` for each, as ACL LIST shows them and ACL SAVE writes them
    #[arg(long, value_name = "FILE")]
    aclfile: Option<PathBuf>,

    /// The most clients at a time [default: 10000]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    maxclients: Option<u32>,

    /// The memory that all clients may take together, for requests that have arrived and replies that they have not
    /// read: above it, those with most of it are disconnected; 0: no limit [default: a quarter of the memory of the
    /// machine, or of the control group]
    #[arg(long, value_name = "SIZE", value_parser = size::parse)]
    maxmemory_clients: Option<u64>,

    /// When a client is disconnected that does not read its replies: with more than HARD of them, or with more than
    /// SOFT for SECONDS; 0: not for that [default: 0]
    #[arg(long, value_name = "HARD[,SOFT,SECONDS]", value_parser = parse_output_limits)]
    client_output_buffer_limit: Option<OutputLimits>,

    /// Seconds after which an idle client is disconnected; 0: never [default: 0]
    #[arg(long, value_name = "SECONDS")]
    timeout: Option<u64>,

    /// Answer GET /metrics, for Prometheus, on this address: a port, which is one of 127.0.0.1, or
    /// address:port. Every process that reaches it can read the metrics
    #[arg(long, value_name = "ADDRESS", value_parser = parse_metrics)]
    metrics: Option<SocketAddr>,

    /// Which clients may use DEBUG, which can keep others waiting: no, local (those on this machine) or yes
    /// [default: no]
    #[arg(long, value_name = "WHO", value_parser = parse_debug_command)]
    enable_debug_command: Option<DebugCommand>,

    /// How many databases SELECT can choose from [default: 16]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    databases: Option<u32>,
}

impl Serve {
    pub(crate) fn run(&self) -> Result<()> {
        let mut config = Config::default();
        let notes = match &self.config {
            Some(file) => config.read_file(file)?,
            None => Vec::new(),
        };
        self.configure(&mut config)?;
        let is_protected = config.protected_mode;
        let (policy, unix_socket) = (config.sync, config.unix_socket.clone());
        let clients = config.client_count_max;
        raise_descriptor_limit(clients);
        // The sockets come before the database: if an address is taken, no database is created.
        let sockets = Sockets::bind(&config)?;
        let is_new = !self.path.as_ref().is_some_and(Database::exists);
        let db = self.open()?;
        config.threads = Some(self.threads());
        let (banner, stats) = (self.banner(&db, is_new, policy), db.stats());
        let server = Server::on(sockets, db, config)?;
        let is_open = !is_protected && !server.asks_for_password();
        let metrics = server.metrics_addr();
        shut_down_on_signals(server.handle())?;

        output::message(banner);
        for note in notes {
            output::message(format_args!("config file: {note}"));
        }
        for finding in findings(&stats) {
            output::message(format_args!("warning: {finding}"));
        }
        let possible = server.client_count_max();
        if possible < clients {
            output::message(format_args!(
                "warning: --maxclients {clients} has been reduced to {possible}: the process may not have more open \
                 files, and the database needs some; raise the limit (ulimit -n)"
            ));
        }
        let with_tls = server.tls_addrs().into_iter().map(|address| (address, " by TLS"));
        for (address, how) in
            server.local_addrs().into_iter().map(|address| (address, "")).chain(with_tls)
        {
            output::message(format_args!("listening on {address}{how}"));
            if !address.ip().is_loopback() && is_open {
                output::message(format_args!(
                    "warning: whoever reaches {address} can read and write everything; \
                     set a password (--requirepass-file)"
                ));
            }
        }
        if let Some(path) = unix_socket {
            output::message(format_args!("listening on the unix socket {}", path.display()));
        }
        if let Some(address) = metrics {
            output::message(format_args!("metrics on http://{address}/metrics"));
        }
        output::message("ready to accept connections");
        server.run()?;
        output::message("stopped");
        Ok(())
    }

    fn open(&self) -> Result<Database> {
        self.check_promises()?;
        let builder = with_index(Database::builder().on_demand(true), self.index);
        let builder = with_change_log(builder, self.change_log);
        let builder = match self.max_size.or(self.in_memory) {
            Some(bytes) => builder.max_size(bytes),
            None => builder,
        };
        let builder = match self.partitioning() {
            Some(partitioning) => builder.partitioning(partitioning),
            None => builder,
        };
        let asked = index::asked(self.index, self.change_log);
        match &self.path {
            Some(path) => self.engine.open_or_create(builder, path, asked),
            None => {
                let db = self.engine.for_new(builder, asked)?.in_memory();
                db.map_err(|error| Error::input("--in-memory", error))
            }
        }
    }

    /// Refuses options that memory cannot fulfil, or that give its size twice.
    fn check_promises(&self) -> Result<()> {
        let path = self.path.as_ref().map(|path| format!("the folder `{}`", path.display()));
        let sync = self.sync.map(|sync| format!("--sync {sync}"));
        let size = self.max_size.map(|_| "--max-size".to_owned());
        let log = self.change_log.map(|_| "--change-log".to_owned());
        match [path, sync, size, log].into_iter().flatten().next() {
            Some(promise) if self.in_memory.is_some() => Err(Error::Usage(format!(
                "--in-memory: nothing that it keeps survives the server, and it says how large that may \
                 become; leave out {promise}, or --in-memory"
            ))),
            _ => Ok(()),
        }
    }

    /// The partitioning that the options set; `None`: it stays as it is.
    fn partitioning(&self) -> Option<Partitioning> {
        let exists = self.path.as_ref().is_some_and(Database::exists);
        let partitions = match self.partitions {
            Some(partitions) => partitions as usize,
            None if exists => return None,
            None => self.threads.map_or_else(cores, |threads| threads as usize),
        };
        Some(Partitioning::Hash(partitions))
    }

    /// Takes the options over; those that are not given leave the configuration as it is.
    fn configure(&self, config: &mut Config) -> Result<()> {
        self.listen.configure(config);
        if let Some(password) = self.password()? {
            config.requirepass = Some(password);
            config.note_option("requirepass");
        }
        if let Some(file) = &self.aclfile {
            config.acl_file = Some(file.clone());
            config.note_option("aclfile");
        }
        if let Some(policy) = self.sync {
            config.sync = policy;
            config.note_option("appendfsync");
        }
        config.metrics = self.metrics;
        if let Some(who) = self.enable_debug_command {
            config.debug_command = who;
            config.note_option("enable-debug-command");
        }
        if let Some(databases) = self.databases {
            config.databases = databases;
            config.note_option("databases");
        }
        if let Some(limits) = &self.client_output_buffer_limit {
            config.limits.output = limits.clone();
            config.note_option("client-output-buffer-limit");
        }
        if let Some(bytes) = self.maxmemory_clients {
            let bytes = usize::try_from(bytes).unwrap_or(usize::MAX);
            config.client_memory_max = Some(bytes).filter(|&bytes| bytes > 0);
            config.note_option("maxmemory-clients");
        }
        config.log = Some(|line| output::message(line));
        if let Some(clients) = self.maxclients {
            config.client_count_max = clients as usize;
            config.note_option("maxclients");
        }
        if let Some(timeout) = self.timeout {
            config.idle_timeout = (timeout > 0).then(|| Duration::from_secs(timeout));
            config.note_option("timeout");
        }
        Ok(())
    }

    /// The threads, those included that would have no partition. By default half the cores: the kernel's work for
    /// connections and syncs takes the others.
    fn threads(&self) -> usize {
        self.threads.map_or_else(|| (cores() / 2).max(1), |threads| threads as usize)
    }

    /// The banner's reason for the number of threads, where it is the default.
    fn reason_for_threads(&self) -> &'static str {
        match self.threads {
            None => {
                ", half the cores, the kernel has the others for connections and syncs (--threads sets it)"
            }
            Some(_) => "",
        }
    }

    fn password(&self) -> Result<Option<String>> {
        let (thing, password) = match (&self.requirepass, &self.requirepass_file) {
            (Some(password), _) => ("--requirepass".to_owned(), password.clone()),
            (None, Some(file)) => {
                let thing = file.display().to_string();
                let text = fs::read_to_string(file).map_err(|error| Error::io(&thing, error))?;
                (thing, text.lines().next().unwrap_or_default().to_owned())
            }
            (None, None) => match env::var(PASSWORD_VARIABLE) {
                Ok(password) => (PASSWORD_VARIABLE.to_owned(), password),
                Err(VarError::NotPresent) => return Ok(None),
                Err(VarError::NotUnicode(_)) => {
                    return Err(Error::input(PASSWORD_VARIABLE, "the password is not UTF-8"));
                }
            },
        };
        // With an empty password the server would be open although its operator believes that it is closed.
        if password.is_empty() {
            return Err(Error::input(thing, "the password is empty; give one, or none at all"));
        }
        Ok(Some(password))
    }

    fn banner(&self, db: &Database, is_new: bool, policy: SyncPolicy) -> String {
        let stats = db.stats();
        let sync = match stats.domain {
            Domain::Volatile => "none: there is no medium to write to".to_owned(),
            Domain::PageCache => policy.to_string(),
            _ if policy == SyncPolicy::Always => policy.to_string(),
            _ => format!("always, by a fence; {policy} is for ordinary files"),
        };
        let recovery = match stats.recovery.partitions_ready {
            _ if is_new => String::new(),
            ready if ready < db.partitions() => {
                let partitions = db.partitions();
                format!(
                    "\n  recovery  {ready} of {partitions} partitions so far; requests for others wait"
                )
            }
            _ => format!("\n  recovery  {}", recovery(&stats)),
        };
        format!(
            "version {}\n  \
               database  {}{}\n  \
               engine    {}, {}\n  \
               domain    {}: {}\n  \
               sync      {}\n  \
               pool      {}, grows up to {}\n  \
               threads   {} for {} partitions{}{}",
            env!("CARGO_PKG_VERSION"),
            db.path().display(),
            if is_new { ", new" } else { "" },
            db.engine_name(),
            self.engine.reason(is_new, index::asked(self.index, self.change_log), stats.domain),
            stats.domain,
            policy.guarantee(stats.domain),
            sync,
            size::human(stats.pool_bytes),
            size::human(stats.pool_bytes_max),
            db.partitions().min(self.threads()),
            db.partitions(),
            self.reason_for_threads(),
            recovery,
        )
    }
}

fn cores() -> usize {
    thread::available_parallelism().map_or(1, NonZero::get)
}

fn parse_metrics(text: &str) -> std::result::Result<SocketAddr, String> {
    let on_loopback = text.parse().map(|port| SocketAddr::from((Ipv4Addr::LOCALHOST, port)));
    on_loopback
        .or_else(|_| text.parse())
        .map_err(|_| "give a port, or an address and a port such as 127.0.0.1:9121".to_owned())
}

fn parse_output_limits(text: &str) -> std::result::Result<OutputLimits, String> {
    let mut limits = OutputLimits::default();
    let size = |text| size::parse(text).map(|bytes| usize::try_from(bytes).unwrap_or(usize::MAX));
    match *text.split(',').collect::<Vec<_>>() {
        [hard] => limits.hard = size(hard)?,
        [hard, soft, seconds] => {
            (limits.hard, limits.soft) = (size(hard)?, size(soft)?);
            let seconds = seconds.parse().map_err(|_| "SECONDS is a whole number".to_owned())?;
            limits.soft_time = Duration::from_secs(seconds);
        }
        _ => return Err("give HARD, or HARD,SOFT,SECONDS, such as 1GiB,256MiB,60".to_owned()),
    }
    Ok(limits)
}

fn parse_sync(text: &str) -> std::result::Result<SyncPolicy, String> {
    text.parse().map_err(|_| "a policy is always, interval=<ms> or never".to_owned())
}

fn parse_debug_command(text: &str) -> std::result::Result<DebugCommand, String> {
    text.parse().map_err(|_| "say no, local or yes".to_owned())
}

/// Ends the server at SIGINT or SIGTERM; [`Server::run`] then returns. The process ends when that has not happened by
/// then, and at a second signal at once: the store comes back as after a crash.
fn shut_down_on_signals(handle: Handle) -> Result<()> {
    let stop = move || {
        output::brief_message("shutting down");
        handle.shutdown();
    };
    Interrupt::catch_for(CLOSING_MAX, stop).map(drop)
}
