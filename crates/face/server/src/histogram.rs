//! A histogram of durations.
//!
//! A thread adds to a [`Recorder`], which others may read meanwhile; what they read is a [`Histogram`].

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Durations in microseconds, rounded up, in buckets: each power of two has [`STEPS`] equal ones. So a bucket's end is
/// at most an eighth longer than the durations in it.
#[derive(Debug, Clone)]
pub(crate) struct Histogram([u64; PLACES * STEPS]);

/// Place `n` is for up to `2^n` microseconds that the place before does not have.
const PLACES: usize = 32;
/// Steps of a place. The first places are shorter than that, and use the last steps.
const STEPS: usize = 8;

/// A histogram that one thread adds to, and all threads may read.
#[derive(Debug)]
pub(crate) struct Recorder([AtomicU64; PLACES * STEPS]);

impl Recorder {
    #[inline]
    pub(crate) fn note(&self, took: Duration) {
        let us = (took.as_nanos() as u64).div_ceil(1000).clamp(1, 1 << (PLACES - 1));
        let place = us.next_power_of_two().trailing_zeros() as usize;
        // The distance to the end of the power of two, in steps.
        let left = (((1u64 << place) - us) as usize * STEPS * 2) >> place;
        let count = &self.0[place * STEPS + STEPS - 1 - left];
        // No other thread adds to it.
        count.store(count.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
    }

    /// The durations so far.
    pub(crate) fn read(&self) -> Histogram {
        Histogram(std::array::from_fn(|at| self.0[at].load(Ordering::Relaxed)))
    }
}

impl Default for Recorder {
    fn default() -> Self {
        Self([const { AtomicU64::new(0) }; PLACES * STEPS])
    }
}

impl Histogram {
    /// Adds those of another thread.
    pub(crate) fn add(&mut self, other: &Self) {
        self.0.iter_mut().zip(other.0).for_each(|(mine, others)| *mine += others);
    }

    /// Takes those away that are counted already.
    pub(crate) fn remove(&mut self, before: &Self) {
        self.0.iter_mut().zip(before.0).for_each(|(mine, old)| *mine = mine.saturating_sub(old));
    }

    /// How many took at most `2^place` microseconds.
    pub(crate) fn up_to(&self, place: usize) -> u64 {
        self.0.iter().take((place + 1) * STEPS).sum()
    }

    /// The number of durations.
    pub(crate) fn calls(&self) -> u64 {
        self.0.iter().sum()
    }

    /// How many took at most so many microseconds, for the powers of two between the shortest and the longest.
    pub(crate) fn cumulative(&self) -> Vec<(u64, u64)> {
        let mut sum = 0;
        let places = self.0.chunks(STEPS).enumerate().map(|(place, steps)| {
            sum += steps.iter().sum::<u64>();
            (1 << place, sum)
        });
        let places: Vec<_> = places.collect();
        let end = places.partition_point(|(_, reached)| *reached < sum);
        places.into_iter().take(end + 1).filter(|(_, sum)| *sum > 0).collect()
    }

    /// The microseconds that so many of a hundred took at most; to the end of a step.
    pub(crate) fn percentile_us(&self, percent: f64) -> f64 {
        // To a thousandth: a number such as 99.9 is none of the processor's.
        let wanted =
            (u128::from(self.calls()) * (percent * 1000.0).round() as u128).div_ceil(100_000);
        let mut sum = 0;
        let reaches = |count: &u64| {
            sum += u128::from(*count);
            sum >= wanted.max(1)
        };
        let Some(at) = self.0.iter().position(reaches) else { return 0.0 };
        let (end, left) = ((1u64 << (at / STEPS)) as f64, STEPS - 1 - at % STEPS);
        end - end / 2.0 * left as f64 / STEPS as f64
    }
}

impl Default for Histogram {
    fn default() -> Self {
        Self([0; PLACES * STEPS])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_powers_of_two_up_to_the_slowest() {
        let recorder = Recorder::default();
        for us in [0, 1, 3, 4, 5, 100] {
            recorder.note(Duration::from_micros(us));
        }
        recorder.note(Duration::from_nanos(1001));
        let mut histogram = recorder.read();
        assert_eq!(histogram.calls(), 7);
        let expected = [(1, 2), (2, 3), (4, 5), (8, 6), (16, 6), (32, 6), (64, 6), (128, 7)];
        assert_eq!(histogram.cumulative(), expected);
        assert_eq!([0, 1, 2, 6, 40].map(|place| histogram.up_to(place)), [2, 3, 5, 6, 7]);
        let before = histogram.clone();
        recorder.note(Duration::from_micros(2));
        histogram = recorder.read();
        histogram.remove(&before);
        assert_eq!(histogram.cumulative(), [(2, 1)]);
        let longest = Recorder::default();
        longest.note(Duration::MAX);
        assert_eq!(longest.read().cumulative(), [(1 << 31, 1)]);
        assert!(Histogram::default().cumulative().is_empty());
    }

    #[test]
    fn a_percentile_is_at_most_an_eighth_too_long() {
        for us in (1..3000).chain([1 << 20, (1 << 20) + 1, 1 << 31]) {
            let recorder = Recorder::default();
            recorder.note(Duration::from_micros(us));
            let found = recorder.read().percentile_us(50.0);
            assert!((us as f64..=us as f64 * 1.125).contains(&found), "{us}: {found}");
        }
        let recorder = Recorder::default();
        (1..=1000).for_each(|us| recorder.note(Duration::from_micros(us)));
        let histogram = recorder.read();
        for (percent, expected) in [(50.0, 500.0), (99.0, 990.0), (99.9, 999.0)] {
            let found = histogram.percentile_us(percent);
            assert!((expected..=expected * 1.125).contains(&found), "{percent}: {found}");
        }
        assert_eq!(Histogram::default().percentile_us(50.0), 0.0);
    }
}
