//! How long commands took: what LATENCY HISTOGRAM tells.
//!
//! Each thread counts the commands that it executes.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::commands::{self, Command};

/// Commands by how long they took: place `n` counts those of up to `2^n` microseconds that the place
/// before does not.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Histogram([u64; PLACES]);

const PLACES: usize = 32;

/// The histograms of all commands.
#[derive(Debug)]
pub(crate) struct Histograms {
    /// By number of the command.
    whole: Vec<Histogram>,
    /// Those of commands that are parts of others, by their names.
    parts: BTreeMap<&'static str, Histogram>,
}

impl Histogram {
    #[inline]
    fn note(&mut self, took: Duration) {
        let us = (took.as_nanos() as u64).div_ceil(1000).max(1);
        let place = us.next_power_of_two().trailing_zeros() as usize;
        self.0[place.min(PLACES - 1)] += 1;
    }

    /// Adds those of another thread.
    pub(crate) fn add(&mut self, other: &Self) {
        self.0.iter_mut().zip(other.0).for_each(|(mine, others)| *mine += others);
    }

    /// The number of commands.
    pub(crate) fn calls(&self) -> u64 {
        self.0.iter().sum()
    }

    /// How many commands took at most so many microseconds, for the powers of two between the fastest
    /// and the slowest.
    pub(crate) fn cumulative(&self) -> Vec<(u64, u64)> {
        let mut sum = 0;
        let places = self.0.iter().enumerate().map(|(place, count)| {
            sum += count;
            (1 << place, sum)
        });
        let end = self.0.iter().rposition(|&count| count > 0).map_or(0, |place| place + 1);
        places.take(end).filter(|(_, sum)| *sum > 0).collect()
    }
}

impl Histograms {
    /// Notes that a command took so long.
    #[inline]
    pub(crate) fn note(&mut self, command: &'static Command, took: Duration) {
        match commands::number(command).and_then(|number| self.whole.get_mut(number)) {
            Some(histogram) => histogram.note(took),
            None => self.parts.entry(command.full_name).or_default().note(took),
        }
    }

    /// The histograms of the commands that were executed, by name.
    pub(crate) fn by_name(&self) -> BTreeMap<&'static str, Histogram> {
        let mut all = self.parts.clone();
        let whole = commands::all().iter().zip(&self.whole);
        let executed = whole.filter(|(_, histogram)| histogram.calls() > 0);
        all.extend(executed.map(|(command, histogram)| (command.name, *histogram)));
        all
    }
}

impl Default for Histograms {
    fn default() -> Self {
        let whole = vec![Histogram::default(); commands::all().len()];
        Self { whole, parts: BTreeMap::new() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_powers_of_two_up_to_the_slowest() {
        let mut histograms = Histograms::default();
        let get = commands::find(b"get").unwrap();
        for us in [0, 1, 3, 4, 5, 100] {
            histograms.note(get, Duration::from_micros(us));
        }
        histograms.note(get, Duration::from_nanos(1001));
        let part = commands::find(b"object").unwrap().subcommand(b"freq").unwrap();
        histograms.note(part, Duration::MAX);
        let found = histograms.by_name();
        assert_eq!(found.keys().copied().collect::<Vec<_>>(), ["get", "object|freq"]);
        let get = found["get"];
        assert_eq!(get.calls(), 7);
        let expected = [(1, 2), (2, 3), (4, 5), (8, 6), (16, 6), (32, 6), (64, 6), (128, 7)];
        assert_eq!(get.cumulative(), expected);
        assert_eq!(found["object|freq"].cumulative(), [(1 << 31, 1)]);
    }
}
