//! The server's memory over the time of a soak: it is to be flat, within a life and over all lives.
//!
//! A young server's caches are not full yet, and lives have random lengths. So two halves of a soak are compared only up
//! to the age that a server reached in both; and one life is compared with itself only if it was long.

use std::time::Duration;

/// Between two samples.
const EVERY: Duration = Duration::from_millis(200);

/// By how much a later half may exceed the earlier one, and by how many bytes in any case: an allocator keeps some
/// memory.
const GROWTH_MAX: f64 = 1.25;
const BYTES_MAX: u64 = 32 << 20;

/// The halves of a shorter soak are not compared: in its first one the store is still filling.
const SOAK_MIN: Duration = Duration::from_secs(90);

/// A life that is at least as long is compared with itself, without the time in which its caches fill.
const LONG: Duration = Duration::from_secs(60);
const WARM: Duration = Duration::from_secs(20);

/// Memory that belongs to no file.
#[derive(Debug, Clone, Copy)]
struct Sample {
    /// Of the soak.
    at: Duration,
    /// Of the server's process.
    age: Duration,
    bytes: u64,
}

/// Samples in their order.
#[derive(Debug, Default)]
pub(super) struct Memory(Vec<Sample>);

impl Memory {
    /// Takes a sample of a server of that age if it is due; a server that is not running has none.
    pub(super) fn sample(&mut self, at: Duration, age: Duration, bytes: u64) {
        let is_due = self.0.last().is_none_or(|last| at >= last.at + EVERY);
        if is_due && bytes > 0 {
            self.0.push(Sample { at, age, bytes });
        }
    }

    pub(super) fn most(&self) -> u64 {
        most(&self.0)
    }

    /// How many times the most of an earlier half the later one takes, at worst.
    pub(super) fn growth(&self) -> f64 {
        let times = |(first, second): (u64, u64)| second as f64 / first as f64;
        self.halves().into_iter().map(times).fold(1.0, f64::max)
    }

    pub(super) fn verdict(&self) -> Result<(), String> {
        let grew = |(first, second): &(u64, u64)| {
            *second as f64 / *first as f64 > GROWTH_MAX && second - first > BYTES_MAX
        };
        match self.halves().into_iter().find(grew) {
            None => Ok(()),
            Some((first, second)) => Err(format!(
                "the server's memory grew: {first} bytes in the first half, {second} in the second"
            )),
        }
    }

    /// The most of an earlier half and of the later one: of the soak, and of each long life.
    fn halves(&self) -> Vec<(u64, u64)> {
        let lives = self.0.chunk_by(|one, next| one.age < next.age);
        let warm = lives
            .filter(|life| life.last().is_some_and(|last| last.age >= LONG))
            .map(|life| &life[life.partition_point(|sample| sample.age < WARM)..]);
        let long = warm.map(|life| {
            let (first, second) = life.split_at(life.len() / 2);
            (most(first), most(second))
        });
        long.chain([self.halves_at_one_age()]).filter(|(first, _)| *first > 0).collect()
    }

    /// The most of the soak's first half and of its second, without the first tenth, in which the store fills, and
    /// without servers older than those of the other half.
    fn halves_at_one_age(&self) -> (u64, u64) {
        if self.0.last().is_none_or(|last| last.at < SOAK_MIN) {
            return (0, 0);
        }
        let settled = &self.0[self.0.len() / 10..];
        let (first, second) = settled.split_at(settled.len() / 2);
        let oldest =
            |half: &[Sample]| half.iter().map(|sample| sample.age).max().unwrap_or_default();
        let age = oldest(first).min(oldest(second));
        let young = |half: &[Sample]| -> Vec<Sample> {
            half.iter().filter(|sample| sample.age <= age).copied().collect()
        };
        (most(&young(first)), most(&young(second)))
    }
}

fn most(samples: &[Sample]) -> u64 {
    samples.iter().map(|sample| sample.bytes).max().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TICK: Duration = Duration::from_millis(100);

    /// A soak of 100 s whose servers live for so many ticks each; MiB by the tick of the soak and of the life.
    fn of(life: u32, mebibytes: impl Fn(u32, u32) -> u64) -> Memory {
        let mut memory = Memory::default();
        (0..1000).for_each(|tick| {
            memory.sample(TICK * tick, TICK * (tick % life), mebibytes(tick, tick % life) << 20);
        });
        assert_eq!(memory.0.len(), 500);
        memory
    }

    #[test]
    fn what_grows_is_told_from_what_is_flat() {
        assert!(of(1000, |tick, _| u64::from(100 + tick % 20)).verdict().is_ok());
        assert!(
            of(1000, |tick, _| u64::from(10 + tick.min(90))).verdict().is_ok(),
            "it fills at first"
        );
        assert!(of(1000, |tick, _| u64::from(100 + tick / 5)).verdict().is_err());
        assert!(of(1000, |tick, _| if tick < 900 { 100 } else { 200 }).verdict().is_err());
        assert!(Memory::default().verdict().is_ok());
    }

    #[test]
    fn lives_of_different_lengths_are_compared_at_one_age() {
        let fills = |age: u32| u64::from(40 + 2 * age.min(160));
        assert!(of(40, |_, age| fills(age)).verdict().is_ok());
        let mut longer = Memory::default();
        (0..250).for_each(|tick| {
            longer.sample(TICK * 2 * tick, TICK * 2 * (tick % 10), fills(2 * (tick % 10)) << 20)
        });
        (250..500).for_each(|tick| {
            longer.sample(TICK * 2 * tick, TICK * 2 * (tick % 50), fills(2 * (tick % 50)) << 20)
        });
        assert!(longer.verdict().is_ok(), "the second half's servers only grow older");
        assert!(of(40, |tick, age| fills(age) + u64::from(tick / 5)).verdict().is_err());
    }

    #[test]
    fn a_leak_in_a_long_life_is_found() {
        let leaks = |age: u32| u64::from(100 + age / 4);
        assert!(of(700, |_, age| leaks(age)).verdict().is_err());
        assert!(of(100, |_, age| leaks(age)).verdict().is_ok(), "too short to tell from a cache");
    }
}
