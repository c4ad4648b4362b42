//! The budget of a campaign, and its threads.

use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use crate::watch::Watch;
use crate::{Effort, Random};

/// When a campaign ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Budget {
    /// After so much time.
    Time(Duration),
    /// After this many histories of each job, or of each mutant; then one seed examines the same histories on every
    /// machine.
    Histories(u64),
}

/// The budget of a campaign, and the seed of its histories.
#[derive(Debug, Clone)]
pub struct Plan {
    /// All other seeds follow from it.
    pub seed: u64,
    /// The number of threads.
    pub threads: usize,
    /// When to end.
    pub budget: Budget,
    /// Violations of one job after which the others go on without it; at least one.
    pub violations_max: usize,
    /// Ends the campaign when it becomes true.
    pub interrupt: Arc<AtomicBool>,
    /// The time after which a call of a store counts as stuck, which is a violation.
    pub patience: Duration,
}

/// Many times the duration of calls on a busy machine.
pub(crate) const PATIENCE: Duration = Duration::from_secs(10);

impl Plan {
    /// A plan with a seed drawn at random, on all processors, which ends a job at its first violation.
    #[must_use]
    pub fn new(budget: Budget) -> Self {
        Self {
            seed: RandomState::new().hash_one(0),
            threads: thread::available_parallelism().map_or(1, usize::from),
            budget,
            violations_max: 1,
            interrupt: Arc::default(),
            patience: PATIENCE,
        }
    }

    pub(crate) fn seed_of(&self, job: u64, number: u64) -> u64 {
        Random::of(&[self.seed, job, number]).next()
    }
}

/// A campaign's time, from its beginning.
#[derive(Clone)]
pub(crate) struct Clock {
    pub(crate) start: Instant,
    deadline: Option<Instant>,
    interrupt: Arc<AtomicBool>,
}

impl Clock {
    pub(crate) fn new(plan: &Plan) -> Self {
        let start = Instant::now();
        let deadline = match plan.budget {
            Budget::Time(time) => start.checked_add(time),
            Budget::Histories(_) => None,
        };
        Self { start, deadline, interrupt: Arc::clone(&plan.interrupt) }
    }

    /// The first of this many equal parts of the time, if the time ends the campaign.
    pub(crate) fn part(&self, parts: u32) -> Self {
        let deadline = self.deadline.map(|deadline| self.start + (deadline - self.start) / parts);
        Self { start: self.start, deadline, interrupt: Arc::clone(&self.interrupt) }
    }

    /// How long threads may run beyond the end of the time: a twentieth of it, and a second at most, so that a short
    /// budget is kept as well as a long one.
    pub(crate) fn lateness(&self) -> Duration {
        let time = self.deadline.map_or(Duration::MAX, |deadline| deadline - self.start);
        (time / 20).min(Duration::from_secs(1))
    }

    pub(crate) fn is_over(&self) -> bool {
        self.interrupt.load(Ordering::Relaxed)
            || self.deadline.is_some_and(|deadline| deadline <= Instant::now())
    }

    /// The effort, unless the time ends before; `watch` records its progress.
    pub(crate) fn bound(&self, effort: Effort, watch: &Watch) -> Effort {
        Effort {
            deadline: self.deadline,
            interrupt: Arc::clone(&self.interrupt),
            watch: watch.clone(),
            ..effort
        }
    }

    /// The part of the time that has passed, if the time ends the campaign.
    pub(crate) fn share(&self) -> Option<f64> {
        let deadline = self.deadline?;
        let all = (deadline - self.start).as_secs_f64();
        Some((self.start.elapsed().as_secs_f64() / all).min(1.0))
    }
}

/// The progress of a campaign.
#[derive(Debug, Clone, Copy)]
pub struct Progress {
    /// The part that is done, from 0 to 1.
    pub share: f64,
    /// Images examined.
    pub images: u64,
    /// Since the beginning.
    pub elapsed: Duration,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_are_late_by_a_twentieth_of_the_budget_and_a_second_at_most() {
        let late = |budget| Clock::new(&Plan::new(budget)).lateness();
        for (seconds, millis) in [(1, 50), (5, 250), (20, 1000), (3600, 1000)] {
            let budget = Budget::Time(Duration::from_secs(seconds));
            assert_eq!(late(budget), Duration::from_millis(millis));
        }
        assert_eq!(late(Budget::Histories(1)), Duration::from_secs(1));
    }
}
