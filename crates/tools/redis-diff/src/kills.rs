//! When Halite is killed, and what is under way then.

use std::time::{Duration, Instant};

use fastrand::Rng;

/// Requests that are under way at most when Halite is killed. With several threads it is one: those of a pipeline may
/// be executed in another order then, so that not only the first ones of them can have happened.
const UNDER_WAY_MAX: usize = 16;

/// The longest time between a request and the kill, in the power of two of microseconds.
const WAIT_MAX_LOG: f64 = 12.0;

/// The longest time between a start and a kill that hits the server as it starts, in milliseconds.
const STARTING_MAX: u64 = 40;

/// When Halite is killed, by chance.
pub(crate) struct Kills {
    random: Rng,
    /// One request in so many is the place of a kill; none if it is 0.
    every: usize,
    under_way_max: usize,
}

impl Kills {
    pub(crate) fn new(seed: u64, every: usize, threads: usize) -> Self {
        let under_way_max = if threads == 1 { UNDER_WAY_MAX } else { 1 };
        Self { random: Rng::with_seed(seed), every, under_way_max }
    }

    /// How many of some requests come before the next kill.
    pub(crate) fn before(&mut self, requests: usize) -> usize {
        let random = &mut self.random;
        let is_place = |_: &usize| self.every > 0 && random.usize(..self.every) == 0;
        (0..requests).find(is_place).unwrap_or(requests)
    }

    /// How many requests of those that are left are under way: none in one case of three.
    pub(crate) fn under_way(&mut self, left: usize) -> usize {
        let most = left.min(self.under_way_max);
        match self.random.u8(..3) {
            0 => 0,
            1 => 1.min(most),
            _ => 1 + self.random.usize(..most.max(1)),
        }
    }

    /// The time between requests and the kill.
    pub(crate) fn wait(&mut self) -> Duration {
        Duration::from_secs_f64(1e-6 * (self.random.f64() * WAIT_MAX_LOG).exp2())
    }

    /// The times behind which the server is killed as it starts again: mostly none.
    pub(crate) fn while_starting(&mut self) -> Vec<Duration> {
        let count = if self.random.u8(..4) == 0 { self.random.usize(1..4) } else { 0 };
        (0..count).map(|_| Duration::from_micros(self.random.u64(..1000 * STARTING_MAX))).collect()
    }
}

/// Waits a short time, more exactly than the system lets a thread sleep.
pub(crate) fn wait(time: Duration) {
    let start = Instant::now();
    while start.elapsed() < time {
        std::hint::spin_loop();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kills_come_as_often_as_was_asked() {
        let mut kills = Kills::new(1, 100, 1);
        let count = (0..10_000).filter(|_| kills.before(10) < 10).count();
        assert!((800..1200).contains(&count), "{count}");
        assert_eq!(Kills::new(1, 0, 1).before(1000), 1000);
    }

    #[test]
    fn one_request_is_under_way_with_several_threads() {
        let mut kills = Kills::new(1, 100, 2);
        assert!((0..100).all(|_| kills.under_way(50) <= 1));
        let mut kills = Kills::new(1, 100, 1);
        assert!((0..100).all(|_| kills.under_way(5) <= 5));
        assert!((0..100).any(|_| kills.under_way(50) > 5));
    }
}
