//! A campaign: explorations of many jobs, on several threads, until the budget is spent.

use std::sync::Mutex;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::{Duration, Instant};

use crate::job::{Finding, Job, Seen};
use crate::plan::{Budget, Clock, Plan, Progress};
use crate::{Effort, Lints, Tally};

/// What a campaign saw.
#[derive(Debug, Clone)]
pub struct Report {
    /// What was looked at.
    pub tally: Tally,
    /// What the stores did needlessly or carelessly.
    pub lints: Lints,
    /// What is wrong.
    pub findings: Vec<Finding>,
    /// Whether it was interrupted before its budget was spent.
    pub is_interrupted: bool,
    /// How long it took.
    pub elapsed: Duration,
}

/// Explores jobs. Each has the part of the time that its share says, or as many histories as the
/// others; of what it saw `progress` is told now and then.
///
/// # Panics
/// If a thread cannot be started.
pub fn explore(
    plan: &Plan,
    jobs: &[Box<dyn Job + '_>],
    progress: &(dyn Fn(Progress) + Sync),
) -> Report {
    let clock = Clock::new(plan);
    let campaign = Campaign {
        plan,
        jobs,
        slice: slice(plan, jobs.len()),
        state: Mutex::new(State {
            accounts: vec![Account::default(); jobs.len()],
            tally: Tally::default(),
            lints: Lints::default(),
            findings: Vec::new(),
        }),
        clock,
    };
    thread::scope(|scope| {
        for _ in 0..plan.threads.max(1) {
            scope.spawn(|| campaign.work(progress));
        }
    });
    let Campaign { state, clock, .. } = campaign;
    let State { tally, lints, findings, .. } = state.into_inner().expect("no thread panicked");
    let is_interrupted = plan.interrupt.load(Ordering::Relaxed);
    Report { tally, lints, findings, is_interrupted, elapsed: clock.start.elapsed() }
}

/// How long a thread stays with a job: long enough for histories to share what is known of their
/// images, and short enough for every job to have its turn. Where histories are counted, they share
/// nothing, so that it does not matter which thread has which.
fn slice(plan: &Plan, jobs: usize) -> Duration {
    let (shortest, longest) = (Duration::from_millis(20), Duration::from_millis(500));
    match plan.budget {
        Budget::Time(time) => (time / (4 * jobs.max(1) as u32)).clamp(shortest, longest),
        Budget::Histories(_) => Duration::ZERO,
    }
}

struct Campaign<'a> {
    plan: &'a Plan,
    jobs: &'a [Box<dyn Job + 'a>],
    slice: Duration,
    clock: Clock,
    state: Mutex<State>,
}

struct State {
    accounts: Vec<Account>,
    tally: Tally,
    lints: Lints,
    findings: Vec<Finding>,
}

/// What a job has had.
#[derive(Clone, Default)]
struct Account {
    time: Duration,
    /// Histories begun.
    histories: u64,
    findings: usize,
    /// Threads that look at it now.
    threads: u32,
}

impl Campaign<'_> {
    fn work(&self, progress: &(dyn Fn(Progress) + Sync)) {
        while !self.clock.is_over()
            && let Some(number) = self.begin()
        {
            let job = &*self.jobs[number];
            let start = Instant::now();
            let mut is_first = true;
            let mut seeds = std::iter::from_fn(|| {
                let goes_on = is_first || start.elapsed() < self.slice;
                is_first = false;
                (goes_on && !self.clock.is_over()).then(|| self.next_seed(number)).flatten()
            });
            let effort = self.clock.bound(Effort::default());
            let seen = job.look(&mut seeds, &effort, None);
            self.end(number, start.elapsed(), seen, progress);
        }
    }

    fn state(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().expect("no thread panicked")
    }

    fn histories_max(&self) -> u64 {
        match self.plan.budget {
            Budget::Time(_) => u64::MAX,
            Budget::Histories(count) => count,
        }
    }

    /// Chooses the job that is furthest behind.
    fn begin(&self) -> Option<usize> {
        let mut state = self.state();
        let behind = |(number, account): &(usize, &Account)| {
            let time = account.time + self.slice * account.threads;
            // Where nothing was looked at, the greatest share comes first.
            let share = self.jobs[*number].share().max(1);
            ((time.as_nanos() / u128::from(share)), u64::MAX - share)
        };
        let open = state.accounts.iter().enumerate().filter(|(_, account)| {
            account.histories < self.histories_max()
                && account.findings < self.plan.violations_max.max(1)
        });
        let (number, _) = open.min_by_key(behind)?;
        state.accounts[number].threads += 1;
        Some(number)
    }

    fn next_seed(&self, number: usize) -> Option<u64> {
        let account = &mut self.state().accounts[number];
        let history = account.histories;
        (history < self.histories_max()).then(|| {
            account.histories += 1;
            self.plan.seed_of(self.jobs[number].number(), history)
        })
    }

    fn end(&self, number: usize, time: Duration, seen: Seen, progress: &(dyn Fn(Progress) + Sync)) {
        let mut state = self.state();
        state.tally += seen.tally;
        state.lints += seen.lints;
        let account = &mut state.accounts[number];
        account.time += time;
        account.threads -= 1;
        account.findings += usize::from(seen.finding.is_some());
        let is_wanted = account.findings <= self.plan.violations_max.max(1);
        state.findings.extend(seen.finding.filter(|_| is_wanted));
        let share = self.clock.share().unwrap_or_else(|| {
            let all = self.histories_max().saturating_mul(self.jobs.len() as u64);
            let done: u64 = state.accounts.iter().map(|account| account.histories).sum();
            done as f64 / all.max(1) as f64
        });
        let elapsed = self.clock.start.elapsed();
        progress(Progress { share, images: state.tally.images, elapsed });
    }
}
