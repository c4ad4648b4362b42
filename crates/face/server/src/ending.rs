//! The end of the server, and the time that work under way then has.
//!
//! [`crate::Config::shutdown_grace`] is the time that clients have from the beginning of the end, and each step has its
//! part of it. In the first half, requests that have arrived are still executed. After that, running commands break
//! off, and further requests are refused: loops over keys, and other loops that may be long, check
//! [`Ending::breaks_off`] at each step. In the third quarter, threads wait for operations that others have to finish,
//! and in the last, clients read their last replies. So the server ends within the grace after any requests of its
//! clients, and as soon as no work is left.

use std::sync::OnceLock;
use std::time::{Duration, Instant};

/// When the end of the server began, if it has.
#[derive(Debug, Default)]
pub(crate) struct Ending {
    began_at: OnceLock<Instant>,
    /// How long clients have then.
    grace: Duration,
}

impl Ending {
    /// An end that has not begun.
    pub(crate) fn new(grace: Duration) -> Self {
        Self { began_at: OnceLock::new(), grace }
    }

    /// Begins the end.
    pub(crate) fn begin(&self) {
        self.began_at.get_or_init(Instant::now);
    }

    /// Whether the server ends.
    #[inline]
    pub(crate) fn has_begun(&self) -> bool {
        self.began_at.get().is_some()
    }

    /// Whether a command must not go on.
    #[inline]
    pub(crate) fn breaks_off(&self) -> bool {
        self.are_over(2)
    }

    /// Whether a thread must not wait for other threads any more, nor refuse requests that have arrived.
    pub(crate) fn parts(&self) -> bool {
        self.are_over(3)
    }

    /// How long clients have yet.
    pub(crate) fn left(&self) -> Duration {
        let passed = self.began_at.get().map_or(Duration::ZERO, Instant::elapsed);
        self.grace.saturating_sub(passed)
    }

    /// Whether so many quarters of the grace are over.
    #[inline]
    fn are_over(&self, quarters: u32) -> bool {
        self.began_at.get().is_some_and(|began| began.elapsed() >= self.grace / 4 * quarters)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_end_that_has_not_begun_has_all_its_time() {
        let ending = Ending::new(Duration::ZERO);
        assert!(!ending.has_begun() && !ending.breaks_off() && !ending.parts());
        let ending = Ending::new(Duration::MAX);
        assert_eq!(ending.left(), Duration::MAX);
        ending.begin();
        assert!(ending.has_begun() && !ending.breaks_off() && !ending.parts());
    }

    #[test]
    fn every_step_ends_within_the_grace() {
        const GRACE: Duration = Duration::from_secs(400);
        for (seconds, breaks_off, parts) in
            [(0, false, false), (200, true, false), (300, true, true), (400, true, true)]
        {
            let ending = Ending::new(GRACE);
            let passed = Duration::from_secs(seconds);
            // A machine that has just started knows of no such time.
            let Some(began) = Instant::now().checked_sub(passed) else { return };
            ending.began_at.set(began).unwrap();
            assert_eq!((ending.breaks_off(), ending.parts()), (breaks_off, parts), "{passed:?}");
            assert!(ending.left() <= GRACE - passed, "{passed:?}");
        }
    }
}
