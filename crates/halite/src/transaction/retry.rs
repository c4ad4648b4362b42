//! When a transaction that met another runs again.

use std::hash::{BuildHasher, RandomState};
use std::thread;
use std::time::Duration;

/// The longest first wait.
const FIRST: Duration = Duration::from_micros(50);

/// The longest wait of all.
const LONGEST: Duration = Duration::from_millis(20);

/// Waits of random lengths up to a bound that doubles each time: those that met do not meet again at once, and
/// the more they are, the further they spread.
pub(super) struct BackOff {
    left: u32,
    bound: Duration,
}

impl BackOff {
    /// Up to `times` waits.
    pub(super) fn new(times: u32) -> Self {
        Self { left: times, bound: FIRST }
    }

    /// Waits; or returns false if it did so often enough.
    pub(super) fn wait(&mut self) -> bool {
        let Some(left) = self.left.checked_sub(1) else { return false };
        self.left = left;
        let random = RandomState::new().hash_one(left);
        let share = (random >> 32) as f64 / f64::from(u32::MAX);
        thread::sleep(self.bound.mul_f64(share));
        self.bound = (2 * self.bound).min(LONGEST);
        true
    }
}
