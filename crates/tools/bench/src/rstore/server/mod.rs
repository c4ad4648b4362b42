//! Servers as subjects: each a child process with a loopback port and a folder of its own.
//!
//! [`subject`] has the programs, and how each is started; [`process`] starts, observes and ends the child; [`talk`] is
//! a connection with one request at a time. A [`Server`] is a subject that runs; its folder is removed with it.

mod process;
mod subject;
mod talk;

use std::collections::HashMap;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};

use super::load::Target;
use crate::child::Child;
use crate::scratch::Home;
use crate::{Error, Result};
use process::Process;
pub(crate) use subject::{Launch, NAMES, Subject, find};
pub(crate) use talk::Talk;
use talk::is_ready;

/// How long a server may take until it answers, with data to recover.
const READY_TIMEOUT: Duration = Duration::from_secs(600);

/// Redis' log of writes is rewritten between measurements when it has grown by so much, and twice.
const REWRITTEN_BYTES: f64 = (256 << 20) as f64;

/// A server that runs.
pub(crate) struct Server {
    pub(crate) subject: Subject,
    pub(crate) target: Target,
    process: Process,
    home: Home,
    launch: Launch,
}

impl Server {
    /// Starts a server on a new folder, and waits until it answers.
    pub(crate) fn start(
        subject: &Subject,
        launch: &Launch,
        folder: &Path,
        interrupted: &AtomicBool,
    ) -> Result<Self> {
        let home = Home::new(folder)?;
        if let Some(topology) = launch.topology {
            make_pool(subject, topology, &Subject::data(home.path()))?;
        }
        let (process, target) = started(subject, launch, home.path())?;
        let subject = subject.clone();
        let mut server = Self { subject, target, process, home, launch: launch.clone() };
        server.wait_until_ready(interrupted)?;
        Ok(server)
    }

    /// Ends it, as by `kill -9` or as it is asked to end, and starts it on the same folder; returns
    /// when that was. It may not answer yet.
    pub(crate) fn restart(&mut self, is_killed: bool) -> Result<Instant> {
        self.end(is_killed)?;
        self.start_again()
    }

    /// Ends it, as by `kill -9` or as it is asked to end.
    pub(crate) fn end(&mut self, is_killed: bool) -> Result<()> {
        if is_killed { self.process.kill() } else { self.process.stop() }
    }

    /// Starts a server that has ended on the same folder; returns when that was. It may not answer yet.
    pub(crate) fn start_again(&mut self) -> Result<Instant> {
        let begin = Instant::now();
        (self.process, self.target) = started(&self.subject, &self.launch, self.home.path())?;
        Ok(begin)
    }

    /// Ends it, and keeps its folder, which is returned.
    pub(crate) fn keep(self) -> PathBuf {
        self.home.keep()
    }

    /// The program and the database's folder.
    pub(crate) fn database(&self) -> (&Path, PathBuf) {
        (self.subject.program(), Subject::data(self.home.path()))
    }

    /// An error if it does not run any more.
    pub(crate) fn check(&mut self) -> Result<()> {
        self.process.check()
    }

    /// Returns the number of its threads, as far as that is known.
    pub(crate) fn threads(&self) -> usize {
        if self.subject.has_threads { self.launch.threads } else { 1 }
    }

    /// Waits until it answers.
    pub(crate) fn wait_until_ready(&mut self, interrupted: &AtomicBool) -> Result<()> {
        let begin = Instant::now();
        loop {
            if interrupted.load(Relaxed) {
                return Err(Error::Interrupted);
            }
            let answered = is_ready(&self.target);
            // If it ended, another process answers on its port.
            self.process.check()?;
            if answered.is_ok_and(|ready| ready) {
                return Ok(());
            }
            if begin.elapsed() > READY_TIMEOUT {
                let why = format!("it did not answer within {} s", READY_TIMEOUT.as_secs());
                return Err(self.process.failed(&why));
            }
            thread::sleep(Duration::from_millis(5));
        }
    }

    /// A connection to ask one thing at a time.
    pub(crate) fn talk(&self) -> Result<Talk> {
        Talk::open(self.target.addr).map_err(|source| self.network("connect", source))
    }

    /// The numbers of `INFO`, by name. Empty for a server that has no such command, or has to count its records for it.
    pub(crate) fn info(&self) -> Result<HashMap<String, f64>> {
        let Some(section) = self.subject.info_section() else { return Ok(HashMap::new()) };
        let text = self
            .talk()?
            .text(&["INFO", section])
            .map_err(|source| self.network("ask INFO", source))?;
        let number = |line: &str| {
            let (name, value) = line.trim().split_once(':')?;
            Some((name.to_owned(), value.parse().ok()?))
        };
        Ok(text.lines().filter_map(number).collect())
    }

    /// Lets Redis rewrite its append-only file if that has grown, so that the file neither fills the folder nor is
    /// rewritten during a measurement.
    pub(crate) fn tidy(&self, interrupted: &AtomicBool) -> Result<()> {
        let info = self.info()?;
        let number = |name: &str| info.get(name).copied().unwrap_or(0.0);
        let grown = number("aof_current_size") - number("aof_base_size");
        if grown < REWRITTEN_BYTES || grown < number("aof_base_size") {
            return Ok(());
        }
        let failed = |source| self.network("ask it to rewrite its log", source);
        self.talk()?.text(&["BGREWRITEAOF"]).map_err(failed)?;
        while self.info()?.get("aof_rewrite_in_progress").copied().unwrap_or(0.0) > 0.0 {
            if interrupted.load(Relaxed) {
                return Err(Error::Interrupted);
            }
            thread::sleep(Duration::from_millis(50));
        }
        Ok(())
    }

    /// Bytes of its memory that belong to no file.
    pub(crate) fn dram_bytes(&self) -> u64 {
        self.process.anonymous_bytes()
    }

    /// Bytes that its folder takes on the medium.
    pub(crate) fn storage_bytes(&self) -> u64 {
        allocated(self.home.path())
    }

    /// Processor time of its threads so far.
    pub(crate) fn cpu(&self) -> Duration {
        self.process.cpu()
    }

    /// Bytes that it gave to `write` so far: of files, since sockets are sent to otherwise.
    pub(crate) fn written_bytes(&self) -> u64 {
        self.process.written_bytes()
    }

    pub(crate) fn network(&self, action: &'static str, source: std::io::Error) -> Error {
        Error::Network { server: self.target.name.clone(), action, source }
    }
}

/// Starts the program on a free port.
fn started(subject: &Subject, launch: &Launch, folder: &Path) -> Result<(Process, Target)> {
    let name = subject.name();
    let addr = free_port().map_err(|source| Error::Network {
        server: name.to_owned(),
        action: "find a free port",
        source,
    })?;
    let process = Process::spawn(name, subject.command(launch, folder, addr.port()), folder)?;
    Ok((process, Target { name: name.to_owned(), addr, protocol: subject.protocol() }))
}

/// Makes a database of Halite on these devices.
fn make_pool(subject: &Subject, topology: &str, data: &Path) -> Result<()> {
    let failed = |why| Error::Server { server: subject.name().to_owned(), why };
    let mut command = Command::new(subject.program());
    command.args(["pool", "init", "--topology", topology]).arg(data).stdin(Stdio::null());
    match Child::run(command) {
        Ok((status, _)) if status.success() => Ok(()),
        Ok((_, said)) => Err(failed(format!("halite pool init: {}", said.trim()))),
        Err(error) => Err(failed(format!("halite pool init: {error}"))),
    }
}

/// A port of the loopback interface on which no process listens at the moment.
fn free_port() -> std::io::Result<SocketAddr> {
    TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()
}

/// Bytes that the files in a folder take, without holes.
fn allocated(folder: &Path) -> u64 {
    use std::os::unix::fs::MetadataExt;
    let Ok(entries) = std::fs::read_dir(folder) else { return 0 };
    let of = |entry: std::fs::DirEntry| match entry.metadata() {
        Ok(metadata) if metadata.is_dir() => allocated(&entry.path()),
        Ok(metadata) => metadata.blocks() * 512,
        Err(_) => 0,
    };
    entries.flatten().map(of).sum()
}
