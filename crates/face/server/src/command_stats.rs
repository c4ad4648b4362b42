//! How often each command was executed, refused or failed, and how long it took: the figures of INFO and LATENCY
//! HISTOGRAM.
//!
//! Each thread counts the commands that it executes.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::commands::{self, Command};
use crate::histogram::Histogram;

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

/// The statistics of all commands.
#[derive(Debug)]
pub(crate) struct CommandStats {
    /// By number of the command; `None` until it is executed or refused.
    whole: Vec<Option<Box<Calls>>>,
    /// The statistics of subcommands, by their names.
    parts: BTreeMap<&'static str, Calls>,
    /// How often each code was the first word of an error.
    errors: BTreeMap<Box<[u8]>, u64>,
}

impl Calls {
    /// Microseconds that all of them took.
    pub(crate) fn took_us(&self) -> u64 {
        self.took_ns / 1000
    }

    /// Adds those of another thread.
    pub(crate) fn add(&mut self, other: &Self) {
        self.histogram.add(&other.histogram);
        self.took_ns += other.took_ns;
        self.rejected += other.rejected;
        self.failed += other.failed;
    }
}

impl CommandStats {
    #[inline]
    fn of(&mut self, command: &'static Command) -> &mut Calls {
        match commands::number(command).and_then(|number| self.whole.get_mut(number)) {
            Some(calls) => calls.get_or_insert_default(),
            None => self.parts.entry(command.full_name).or_default(),
        }
    }

    /// Notes that a command was executed in so long, and whether it failed.
    #[inline]
    pub(crate) fn note(&mut self, command: &'static Command, took: Duration, failed: bool) {
        let calls = self.of(command);
        calls.histogram.note(took);
        calls.took_ns = calls.took_ns.saturating_add(took.as_nanos() as u64);
        calls.failed += u64::from(failed);
    }

    /// Notes that a command was refused.
    pub(crate) fn reject(&mut self, command: &'static Command) {
        self.of(command).rejected += 1;
    }

    /// Notes an error, by the code that its text begins with. The server writes the codes, so there are few.
    pub(crate) fn note_error(&mut self, text: &[u8]) {
        let code = text.split(|&byte| byte == b' ').next().unwrap_or_default();
        match self.errors.get_mut(code) {
            Some(count) => *count += 1,
            None => drop(self.errors.insert(code.into(), 1)),
        }
    }

    /// The commands that were executed or refused, by name.
    pub(crate) fn by_name(&self) -> BTreeMap<&'static str, Calls> {
        let mut all = self.parts.clone();
        let whole = commands::all().iter().zip(&self.whole);
        all.extend(whole.filter_map(|(command, calls)| {
            calls.as_ref().map(|calls| (command.name, Calls::clone(calls)))
        }));
        all
    }

    /// How often there was an error, by its code.
    pub(crate) fn errors(&self) -> &BTreeMap<Box<[u8]>, u64> {
        &self.errors
    }
}

impl Default for CommandStats {
    fn default() -> Self {
        let whole = vec![None; commands::all().len()];
        Self { whole, parts: BTreeMap::new(), errors: BTreeMap::new() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_and_parts_of_commands_are_counted_by_name() {
        let mut stats = CommandStats::default();
        let get = commands::find(b"get").unwrap();
        let part = commands::find(b"object").unwrap().subcommand(b"freq").unwrap();
        stats.note(get, Duration::from_nanos(1500), false);
        stats.note(get, Duration::from_nanos(1500), true);
        stats.reject(get);
        stats.note(part, Duration::MAX, false);
        for text in ["ERR no", "ERR", "OOM full"] {
            stats.note_error(text.as_bytes());
        }
        let found = stats.by_name();
        assert_eq!(found.keys().copied().collect::<Vec<_>>(), ["get", "object|freq"]);
        let get = &found["get"];
        let counts = (get.histogram.calls(), get.took_us(), get.rejected, get.failed);
        assert_eq!(counts, (2, 3, 1, 1));
        assert_eq!(found["object|freq"].histogram.calls(), 1);
        let errors: Vec<_> = stats.errors().iter().map(|(code, count)| (&**code, *count)).collect();
        assert_eq!(errors, [(&b"ERR"[..], 2), (&b"OOM"[..], 1)]);
    }
}
