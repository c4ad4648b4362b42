//! Waits until a process is observably in the middle of its work, or handles signals.

use std::fs;
use std::process::Child;
use std::thread::{sleep, yield_now};
use std::time::{Duration, Instant};

use rustix::io::ioctl_fionread;
use rustix::process::{Pid, Signal, kill_process};

use crate::run::Home;

/// A sign that a process is in the middle of its work.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Middle {
    /// The process has printed so many bytes, which nothing has read.
    Printed(u64),
    /// The folder in which it was started has a file or a folder, not empty, whose name begins so.
    Made(&'static str),
    /// The process has used so much processor time, in hundredths of a second.
    Worked(u64),
    /// A process that it has started has worked so long.
    ChildWorked(u64),
}

/// How long a process may take: it finds work that never begins.
const PATIENCE: Duration = Duration::from_secs(120);

impl Middle {
    /// Waits until the process is there. Returns false if it has ended before.
    pub(crate) fn wait(self, home: &Home, child: &mut Child) -> bool {
        let deadline = Instant::now() + PATIENCE;
        while !self.is_reached(home, child) {
            if child.try_wait().unwrap().is_some() {
                return false;
            }
            assert!(Instant::now() < deadline, "{self:?}: it does not begin");
            sleep(Duration::from_millis(1));
        }
        true
    }

    fn is_reached(self, home: &Home, child: &Child) -> bool {
        match self {
            Self::Printed(bytes) => {
                child.stdout.as_ref().is_some_and(|out| ioctl_fionread(out).unwrap() >= bytes)
            }
            Self::Made(name) => {
                let entries = fs::read_dir(home.path(".")).unwrap().flatten();
                entries.into_iter().any(|entry| {
                    // The file may be gone again.
                    let len = entry.metadata().map_or(0, |metadata| metadata.len());
                    len > 0 && entry.file_name().to_string_lossy().starts_with(name)
                })
            }
            Self::Worked(hundredths) => worked(child.id()) >= hundredths,
            Self::ChildWorked(hundredths) => {
                children(child.id()).into_iter().any(|child| worked(child) >= hundredths)
            }
        }
    }
}

/// Sends the process a SIGINT and a SIGTERM at once.
pub(crate) fn signal_twice(child: &Child) {
    let pid = Pid::from_child(child);
    kill_process(pid, Signal::STOP).unwrap();
    // A process that has ended does not stop.
    let is_stopped = || stat(child.id()).first().is_none_or(|state| "TZ".contains(state.as_str()));
    while !is_stopped() {
        yield_now();
    }
    for signal in [Signal::INT, Signal::TERM, Signal::CONT] {
        kill_process(pid, signal).unwrap();
    }
}

/// The processes that a process has started, and that have not been waited for.
pub(crate) fn children(parent: u32) -> Vec<u32> {
    let entries = fs::read_dir("/proc").unwrap().flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    pids.filter(|&pid| stat(pid).get(1).is_some_and(|ppid| *ppid == parent.to_string())).collect()
}

/// Whether a process runs, or is to run again.
pub(crate) fn runs(pid: u32) -> bool {
    stat(pid).first().is_some_and(|state| !["Z", "X"].contains(&state.as_str()))
}

/// The time that a process has worked, in hundredths of a second.
fn worked(pid: u32) -> u64 {
    let ticks: u64 =
        stat(pid).iter().skip(11).take(2).filter_map(|field| field.parse::<u64>().ok()).sum();
    ticks * 100 / rustix::param::clock_ticks_per_second()
}

/// The fields of a process in the kernel's list behind its name, which may hold anything; empty if it is gone.
fn stat(pid: u32) -> Vec<String> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let fields = stat.rsplit_once(')').map_or("", |(_, fields)| fields);
    fields.split_ascii_whitespace().map(str::to_owned).collect()
}
