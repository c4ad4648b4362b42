//! How often each command was executed, refused or failed, and how long it took: the figures of INFO, LATENCY HISTOGRAM
//! and the metrics.
//!
//! Each thread counts the commands that it executes in its own [`CommandStats`], which it alone changes and all threads
//! may read at any time, without a lock. [`AllStats`] sums them up. CONFIG RESETSTAT sets nothing to zero: what was
//! counted before it is remembered, and taken off.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, LazyLock, Mutex, OnceLock};
use std::time::Duration;

use crate::commands::{self, Command};
use crate::histogram::{Histogram, Recorder};
use crate::lock::lock;

/// The statistics of one command.
#[derive(Debug, Clone, Default)]
pub(crate) struct Calls {
    /// How long those took that were executed.
    pub(crate) histogram: Histogram,
    /// All of that, in nanoseconds.
    took_ns: u64,
    /// Calls that were refused before they were executed.
    pub(crate) rejected: u64,
    /// Calls that were executed, and answered with an error.
    pub(crate) failed: u64,
}

/// Counts of one command on one thread.
#[derive(Debug, Default)]
struct Counting {
    histogram: Recorder,
    took_ns: AtomicU64,
    rejected: AtomicU64,
    failed: AtomicU64,
}

/// How often there was an error, by the first word of its text.
type Errors = BTreeMap<Box<[u8]>, u64>;

/// The statistics of all commands on one thread.
#[derive(Debug)]
pub(crate) struct CommandStats {
    /// By place of the command; empty until it is executed or refused.
    calls: Box<[OnceLock<Box<Counting>>]>,
    errors: Mutex<Errors>,
}

/// The statistics of all threads.
#[derive(Debug)]
pub(crate) struct AllStats {
    by_thread: Vec<Arc<CommandStats>>,
    /// Their sums when CONFIG RESETSTAT was last executed.
    before: Mutex<Totals>,
}

/// The statistics of all commands, summed up.
#[derive(Debug, Clone, Default)]
pub(crate) struct Totals {
    /// The commands that were executed or refused, by name.
    pub(crate) commands: BTreeMap<&'static str, Calls>,
    pub(crate) errors: Errors,
}

/// The names of all commands, and then of their parts: a command's statistics are at the place of its name.
struct Places {
    names: Vec<&'static str>,
    parts: BTreeMap<&'static str, usize>,
}

static PLACES: LazyLock<Places> = LazyLock::new(|| {
    let mut names: Vec<_> = commands::all().iter().map(|command| command.full_name).collect();
    let mut parts = BTreeMap::new();
    for part in commands::all().iter().flat_map(|command| command.subcommands) {
        parts.insert(part.full_name, names.len());
        names.push(part.full_name);
    }
    Places { names, parts }
});

/// The longest code of an error, in bytes, and how many are told apart: scripts make their own.
const CODE_LEN_MAX: usize = 32;
const CODES_MAX: usize = 128;
/// The code under which all others are counted.
const OTHER_CODES: &[u8] = b"ERRORSTATS_OVERFLOW";

/// Adds to a count that no other thread changes.
#[inline]
fn add(count: &AtomicU64, more: u64) {
    count.store(count.load(Ordering::Relaxed).saturating_add(more), Ordering::Relaxed);
}

impl Counting {
    fn read(&self) -> Calls {
        let read = |count: &AtomicU64| count.load(Ordering::Relaxed);
        Calls {
            histogram: self.histogram.read(),
            took_ns: read(&self.took_ns),
            rejected: read(&self.rejected),
            failed: read(&self.failed),
        }
    }
}

impl Calls {
    /// Microseconds that all of them took.
    pub(crate) fn took_us(&self) -> u64 {
        self.took_ns / 1000
    }

    /// Seconds that all of them took.
    pub(crate) fn took_s(&self) -> f64 {
        self.took_ns as f64 / 1e9
    }

    /// Adds those of another thread.
    fn add(&mut self, other: &Self) {
        self.histogram.add(&other.histogram);
        self.took_ns += other.took_ns;
        self.rejected += other.rejected;
        self.failed += other.failed;
    }

    /// Takes those away that are counted already.
    fn remove(&mut self, before: &Self) {
        self.histogram.remove(&before.histogram);
        self.took_ns = self.took_ns.saturating_sub(before.took_ns);
        self.rejected = self.rejected.saturating_sub(before.rejected);
        self.failed = self.failed.saturating_sub(before.failed);
    }

    fn is_none(&self) -> bool {
        self.histogram.calls() == 0 && self.rejected == 0 && self.failed == 0
    }
}

impl CommandStats {
    #[inline]
    fn of(&self, command: &'static Command) -> Option<&Counting> {
        let place = match commands::number(command) {
            Some(number) => Some(number),
            None => PLACES.parts.get(command.full_name).copied(),
        };
        let counting = self.calls.get(place?)?;
        Some(counting.get_or_init(Box::default))
    }

    /// Notes that a command was executed in so long, and whether it failed.
    #[inline]
    pub(crate) fn note(&self, command: &'static Command, took: Duration, failed: bool) {
        let Some(calls) = self.of(command) else { return };
        calls.histogram.note(took);
        add(&calls.took_ns, took.as_nanos() as u64);
        if failed {
            add(&calls.failed, 1);
        }
    }

    /// Notes that a command was refused.
    pub(crate) fn reject(&self, command: &'static Command) {
        if let Some(calls) = self.of(command) {
            add(&calls.rejected, 1);
        }
    }

    /// Notes an error, by the code that its text begins with.
    pub(crate) fn note_error(&self, text: &[u8]) {
        let begin = &text[..text.len().min(CODE_LEN_MAX)];
        let end = begin.iter().position(|&byte| byte == b' ');
        let code = end.map_or(&b"ERR"[..], |end| &begin[..end]);
        let mut errors = lock(&self.errors);
        let code = match errors.len() {
            CODES_MAX.. if !errors.contains_key(code) => OTHER_CODES,
            _ => code,
        };
        match errors.get_mut(code) {
            Some(count) => *count += 1,
            None => drop(errors.insert(code.into(), 1)),
        }
    }
}

impl Default for CommandStats {
    fn default() -> Self {
        let calls = PLACES.names.iter().map(|_| OnceLock::new()).collect();
        Self { calls, errors: Mutex::default() }
    }
}

impl AllStats {
    pub(crate) fn new(threads: usize) -> Self {
        let by_thread = (0..threads).map(|_| Arc::default()).collect();
        Self { by_thread, before: Mutex::default() }
    }

    /// The statistics that a thread adds to.
    pub(crate) fn of_thread(&self, thread: usize) -> Arc<CommandStats> {
        Arc::clone(&self.by_thread[thread])
    }

    /// The sums since the start.
    pub(crate) fn since_start(&self) -> Totals {
        let mut totals = Totals::default();
        self.by_thread.iter().for_each(|stats| totals.add(stats));
        totals
    }

    /// The sums since the start, or since CONFIG RESETSTAT.
    pub(crate) fn since_reset(&self) -> Totals {
        let mut totals = self.since_start();
        totals.remove(&lock(&self.before));
        totals
    }

    /// Begins anew, as CONFIG RESETSTAT has it.
    pub(crate) fn reset(&self) {
        *lock(&self.before) = self.since_start();
    }
}

impl Totals {
    fn add(&mut self, stats: &CommandStats) {
        for (name, calls) in PLACES.names.iter().zip(&stats.calls) {
            if let Some(calls) = calls.get() {
                self.commands.entry(name).or_default().add(&calls.read());
            }
        }
        for (code, count) in &*lock(&stats.errors) {
            *self.errors.entry(code.clone()).or_default() += count;
        }
    }

    fn remove(&mut self, before: &Self) {
        for (name, calls) in &mut self.commands {
            if let Some(before) = before.commands.get(name) {
                calls.remove(before);
            }
        }
        self.commands.retain(|_, calls| !calls.is_none());
        for (code, count) in &mut self.errors {
            *count = count.saturating_sub(before.errors.get(code).copied().unwrap_or(0));
        }
        self.errors.retain(|_, count| *count > 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_and_parts_of_commands_are_counted_by_name() {
        let all = AllStats::new(2);
        let (stats, other) = (all.of_thread(0), all.of_thread(1));
        let get = commands::find(b"get").unwrap();
        let part = commands::find(b"object").unwrap().subcommand(b"freq").unwrap();
        stats.note(get, Duration::from_nanos(1500), false);
        other.note(get, Duration::from_nanos(1500), true);
        stats.reject(get);
        stats.note(part, Duration::MAX, false);
        for text in ["ERR no", "ERR", "OOM full"] {
            stats.note_error(text.as_bytes());
        }
        let found = all.since_reset();
        assert_eq!(found.commands.keys().copied().collect::<Vec<_>>(), ["get", "object|freq"]);
        let calls = &found.commands["get"];
        let counts = (calls.histogram.calls(), calls.took_us(), calls.rejected, calls.failed);
        assert_eq!(counts, (2, 3, 1, 1));
        assert_eq!(found.commands["object|freq"].histogram.calls(), 1);
        let errors: Vec<_> = found.errors.iter().map(|(code, count)| (&**code, *count)).collect();
        assert_eq!(errors, [(&b"ERR"[..], 2), (&b"OOM"[..], 1)]);
        all.reset();
        let found = all.since_reset();
        assert!(found.commands.is_empty() && found.errors.is_empty());
        other.note(get, Duration::from_nanos(1500), false);
        assert_eq!(all.since_reset().commands["get"].histogram.calls(), 1);
        assert_eq!(all.since_start().commands["get"].histogram.calls(), 3);
    }

    #[test]
    fn codes_of_errors_are_bounded() {
        let stats = CommandStats::default();
        for number in 0..1000 {
            stats.note_error(format!("CODE{number} text").as_bytes());
        }
        stats.note_error(&[&[b'x'; 100][..], b" text"].concat());
        let errors = lock(&stats.errors);
        assert_eq!(errors.len(), CODES_MAX + 1);
        assert_eq!(errors[OTHER_CODES], 1001 - CODES_MAX as u64);
    }
}
