//! A child process that serves.

use std::fs::{self, File};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Signal, kill_process};

use crate::child::Child;
use crate::{Error, Result};

/// How long a server may take to end when it is asked to.
const STOP_TIMEOUT: Duration = Duration::from_secs(120);

/// The file of a server's output.
const LOG: &str = "server.log";

/// Lines of that which an error shows.
const LOG_LINES: usize = 5;

/// A server's process; it does not outlive this.
pub(super) struct Process {
    name: String,
    child: Child,
    log: PathBuf,
}

impl Process {
    /// Starts it. Its output goes into a file of `folder`.
    pub(super) fn spawn(name: &str, mut command: Command, folder: &Path) -> Result<Self> {
        let log = folder.join(LOG);
        let program = command.get_program().to_owned();
        let child = File::create(&log).and_then(|file| {
            command.stdin(Stdio::null()).stdout(file.try_clone()?).stderr(file);
            // Ctrl-C at a terminal is for this program, which then ends the servers itself.
            Child::spawn(command.process_group(0))
        });
        let child = child.map_err(|source| Error::Server {
            server: name.to_owned(),
            why: format!("{}: {source}", Path::new(&program).display()),
        })?;
        Ok(Self { name: name.to_owned(), child, log })
    }

    /// Whether it still runs.
    pub(super) fn check(&mut self) -> Result<()> {
        match self.child.try_wait() {
            Ok(None) => Ok(()),
            Ok(Some(status)) => Err(self.failed(&format!("it ended at once ({status})"))),
            Err(error) => Err(self.failed(&error.to_string())),
        }
    }

    /// An error with the last that it printed.
    pub(super) fn failed(&self, why: &str) -> Error {
        let log = fs::read(&self.log).unwrap_or_default();
        let log = String::from_utf8_lossy(&log);
        let lines: Vec<_> = log.lines().filter(|line| !line.trim().is_empty()).collect();
        let last = lines[lines.len().saturating_sub(LOG_LINES)..].join(" | ");
        let said = if last.is_empty() {
            "and printed nothing".into()
        } else {
            format!("; it printed: {last}")
        };
        Error::Server { server: self.name.clone(), why: format!("{why}{said}") }
    }

    /// Ends it at once.
    pub(super) fn kill(&mut self) -> Result<()> {
        self.child.kill().map_err(|error| self.failed(&error.to_string()))
    }

    /// Asks it to end, and waits for that.
    pub(super) fn stop(&mut self) -> Result<()> {
        let asked = kill_process(self.child.pid(), Signal::TERM);
        asked.map_err(|errno| self.failed(&errno.to_string()))?;
        let begin = Instant::now();
        while begin.elapsed() < STOP_TIMEOUT {
            match self.child.try_wait() {
                Ok(Some(_)) => return Ok(()),
                Ok(None) => thread::sleep(Duration::from_millis(1)),
                Err(error) => return Err(self.failed(&error.to_string())),
            }
        }
        Err(self.failed("it did not end when it was asked to"))
    }

    /// Bytes of memory that belong to no file.
    pub(super) fn anonymous_bytes(&self) -> u64 {
        let kib = self.field("status", "RssAnon:");
        kib.trim_end_matches("kB").trim().parse::<u64>().unwrap_or(0) << 10
    }

    /// Bytes that it gave to `write`.
    pub(super) fn written_bytes(&self) -> u64 {
        self.field("io", "wchar:").parse().unwrap_or(0)
    }

    /// Processor time of all threads.
    pub(super) fn cpu(&self) -> Duration {
        let stat = self.file("stat");
        // Behind the name, which may hold any character, utime and stime are the 12th and 13th fields.
        let fields = stat.rsplit_once(')').map_or("", |(_, fields)| fields);
        let times = fields.split_ascii_whitespace().skip(11).take(2);
        let ticks: u64 = times.filter_map(|field| field.parse::<u64>().ok()).sum();
        Duration::from_secs_f64(ticks as f64 / rustix::param::clock_ticks_per_second() as f64)
    }

    fn field(&self, file: &str, name: &str) -> String {
        let text = self.file(file);
        let line = text.lines().find_map(|line| line.strip_prefix(name));
        line.unwrap_or_default().trim().to_owned()
    }

    /// A file of the kernel's about it; empty if it cannot be read.
    fn file(&self, name: &str) -> String {
        fs::read_to_string(format!("/proc/{}/{name}", self.child.pid())).unwrap_or_default()
    }
}
