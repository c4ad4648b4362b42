//! Key times and think times (§5.2.5.7).

use std::thread;
use std::time::{Duration, Instant};

use fastrand::Rng;

use super::super::mix::Kind;

/// The longest sleep before a terminal looks whether the run is over.
const SLICE: Duration = Duration::from_millis(50);

/// The time in which a transaction's input is typed.
pub(super) fn key_time(kind: Kind) -> Duration {
    Duration::from_secs([18, 3, 2, 2, 2][kind as usize])
}

/// A random time of thought, negative exponential, ten times the mean at most.
pub(super) fn think_time(kind: Kind, random: &mut Rng) -> Duration {
    let mean = [12.0, 12.0, 10.0, 5.0, 5.0][kind as usize];
    let drawn: f64 = -(1.0 - random.f64()).ln();
    Duration::from_secs_f64(mean * drawn.min(10.0))
}

/// Waits until a moment, or until `is_over`.
pub(super) fn wait_until(until: Instant, is_over: impl Fn() -> bool) {
    while !is_over() {
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return;
        }
        thread::sleep(left.min(SLICE));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thoughts_have_their_mean_and_an_end() {
        let mut random = Rng::with_seed(9);
        let times: Vec<_> =
            (0..20_000).map(|_| think_time(Kind::Payment, &mut random).as_secs_f64()).collect();
        let mean = times.iter().sum::<f64>() / times.len() as f64;
        assert!((11.5..12.5).contains(&mean), "{mean}");
        assert!(times.iter().all(|time| *time <= 120.0));
        assert_eq!(key_time(Kind::NewOrder).as_secs(), 18);
    }

    #[test]
    fn a_run_that_is_over_is_not_waited_for() {
        wait_until(Instant::now() + Duration::from_secs(3600), || true);
    }
}
