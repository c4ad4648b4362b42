//! How much a thread does a second: the `instantaneous` figures of INFO.
//!
//! At each tick of the clock the thread takes a sample of what it did since the one before. A figure is the mean of the
//! latest samples.

use std::time::{Duration, Instant};

use crate::counters::Counters;

/// The samples that a figure is the mean of, as many as Redis takes.
const SAMPLES: usize = 16;

/// Work in a second.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Flow {
    pub(crate) commands: u64,
    pub(crate) input_bytes: u64,
    pub(crate) output_bytes: u64,
}

impl Flow {
    /// Adds that of another thread.
    pub(crate) fn add(&mut self, other: &Self) {
        self.commands += other.commands;
        self.input_bytes += other.input_bytes;
        self.output_bytes += other.output_bytes;
    }

    fn of(counters: &Counters) -> Self {
        Self {
            commands: counters.commands,
            input_bytes: counters.input_bytes,
            output_bytes: counters.output_bytes,
        }
    }

    /// The traffic since then, in a second, if it came in `time`. Counters that were set to zero meanwhile count from there.
    fn since(self, before: Self, time: Duration) -> Self {
        let micros = time.as_micros().max(1) as u64;
        let rate = |now: u64, before: u64| {
            let more = now.checked_sub(before).unwrap_or(now);
            more.saturating_mul(1_000_000) / micros
        };
        Self {
            commands: rate(self.commands, before.commands),
            input_bytes: rate(self.input_bytes, before.input_bytes),
            output_bytes: rate(self.output_bytes, before.output_bytes),
        }
    }
}

/// The samples of a thread.
#[derive(Debug)]
pub(crate) struct FlowMeter {
    at: Instant,
    /// The counts at the last sample.
    last: Flow,
    samples: [Flow; SAMPLES],
    next: usize,
}

impl FlowMeter {
    pub(crate) fn new() -> Self {
        Self { at: Instant::now(), last: Flow::default(), samples: Default::default(), next: 0 }
    }

    /// Takes a sample.
    pub(crate) fn note(&mut self, now: Instant, counters: &Counters) {
        let all = Flow::of(counters);
        self.samples[self.next] = all.since(self.last, now.saturating_duration_since(self.at));
        self.next = (self.next + 1) % SAMPLES;
        (self.at, self.last) = (now, all);
    }

    /// The mean of the latest samples.
    pub(crate) fn mean(&self) -> Flow {
        let mut sum = Flow::default();
        self.samples.iter().for_each(|sample| sum.add(sample));
        let of = |sum: u64| sum / SAMPLES as u64;
        Flow {
            commands: of(sum.commands),
            input_bytes: of(sum.input_bytes),
            output_bytes: of(sum.output_bytes),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_figure_is_the_mean_of_the_latest_samples() {
        let (mut meter, mut counters) = (FlowMeter::new(), Counters::default());
        let (start, tick) = (meter.at, Duration::from_millis(100));
        for number in 1..=SAMPLES as u32 {
            counters.commands += 10;
            counters.input_bytes += 1000;
            meter.note(start + tick * number, &counters);
        }
        let expected = Flow { commands: 100, input_bytes: 10_000, output_bytes: 0 };
        assert_eq!(meter.mean(), expected);
        // CONFIG RESETSTAT.
        counters = Counters { commands: 10, ..Counters::default() };
        meter.note(start + tick * (SAMPLES as u32 + 1), &counters);
        assert_eq!(meter.mean().commands, 100);
        for number in 2..=SAMPLES as u32 + 1 {
            meter.note(start + tick * (SAMPLES as u32 + number), &counters);
        }
        assert_eq!(meter.mean(), Flow::default());
    }
}
