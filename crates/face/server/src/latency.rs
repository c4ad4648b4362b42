//! Latency spikes by event, for LATENCY.
//!
//! All threads share the record. It is locked for an event that took longer than `latency-monitor-threshold`, and by
//! the commands that read it.

use std::collections::{BTreeMap, VecDeque};

/// The spikes of all events.
#[derive(Debug, Default)]
pub(crate) struct Latency {
    events: BTreeMap<&'static str, Event>,
}

/// The spikes of one event.
#[derive(Debug, Default)]
pub(crate) struct Event {
    /// The most recent ones: seconds since 1970, milliseconds. One a second, the longest.
    pub(crate) samples: VecDeque<(u64, u64)>,
    /// The longest of all, in milliseconds.
    pub(crate) max_ms: u64,
}

/// Spikes that are kept of an event, as many as Redis keeps.
const SAMPLES_MAX: usize = 160;

impl Latency {
    /// Notes that an event took `ms` at `at_s`.
    pub(crate) fn note(&mut self, name: &'static str, at_s: u64, ms: u64) {
        let event = self.events.entry(name).or_default();
        event.max_ms = event.max_ms.max(ms);
        match event.samples.back_mut() {
            Some((last_s, longest)) if *last_s == at_s => *longest = ms.max(*longest),
            _ => {
                if event.samples.len() == SAMPLES_MAX {
                    event.samples.pop_front();
                }
                event.samples.push_back((at_s, ms));
            }
        }
    }

    /// All events by name.
    pub(crate) fn events(&self) -> impl ExactSizeIterator<Item = (&'static str, &Event)> {
        self.events.iter().map(|(name, event)| (*name, event))
    }

    /// The event called `name`.
    pub(crate) fn event(&self, name: &[u8]) -> Option<&Event> {
        std::str::from_utf8(name).ok().and_then(|name| self.events.get(name))
    }

    /// Forgets an event, in upper or lower case, or all events without a name; returns how many.
    pub(crate) fn reset(&mut self, name: Option<&[u8]>) -> usize {
        let before = self.events.len();
        let is_kept =
            |known: &str| name.is_some_and(|name| !name.eq_ignore_ascii_case(known.as_bytes()));
        self.events.retain(|known, _| is_kept(known));
        before - self.events.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_keeps_its_longest_spike() {
        let mut latency = Latency::default();
        for (at_s, ms) in [(1, 10), (1, 30), (1, 20), (2, 5)] {
            latency.note("command", at_s, ms);
        }
        let event = latency.event(b"command").unwrap();
        assert_eq!((event.max_ms, event.samples.len()), (30, 2));
        assert_eq!(event.samples[0], (1, 30));
        (0..500).for_each(|at_s| latency.note("other", at_s, 1));
        assert_eq!(latency.event(b"other").unwrap().samples.len(), SAMPLES_MAX);
        assert_eq!((latency.reset(Some(b"none")), latency.reset(Some(b"other"))), (0, 1));
        assert_eq!((latency.reset(None), latency.events().len()), (1, 0));
    }
}
