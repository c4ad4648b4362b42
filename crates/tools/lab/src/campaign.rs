//! A campaign: explorations of many jobs, on several threads, until the budget is spent.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use crate::job::{Finding, Job, Seen};
use crate::plan::{Budget, Clock, Plan, Progress};
use crate::watch::{At, STUCK, Shift, Watch, supervise};
use crate::{Effort, Lints, Tally};

/// The report of a campaign.
#[derive(Debug, Clone)]
pub struct Report {
    /// Counts of the histories, images and recoveries that were examined.
    pub tally: Tally,
    /// The needless and careless requests of the stores.
    pub lints: Lints,
    /// The violations.
    pub findings: Vec<Finding>,
    /// Cases that were left behind when the time was over: a call of the store did not return soon then.
    pub unfinished: Vec<String>,
    /// Whether it was interrupted before its budget was spent.
    pub is_interrupted: bool,
    /// How long it took.
    pub elapsed: Duration,
}

/// Explores jobs. Each has its share of the time, or as many histories as the others; `progress` is called now and then
/// with the progress so far.
///
/// # Panics
/// If a thread cannot be started.
pub fn explore(plan: &Plan, jobs: &[Arc<dyn Job>], progress: &dyn Fn(Progress)) -> Report {
    let clock = Clock::new(plan);
    let campaign = Arc::new(Campaign {
        plan: plan.clone(),
        jobs: jobs.to_vec(),
        slice: slice(plan, jobs.len()),
        state: Mutex::new(State {
            accounts: vec![Account::default(); jobs.len()],
            busy: BTreeMap::new(),
            tally: Tally::default(),
            lints: Lints::default(),
            findings: Vec::new(),
            unfinished: Vec::new(),
        }),
        clock: clock.clone(),
    });
    supervise(&campaign, plan.threads, plan.patience, &clock, progress);
    let mut state = campaign.state();
    let State { tally, lints, findings, unfinished, .. } = &mut *state;
    Report {
        tally: std::mem::take(tally),
        lints: std::mem::take(lints),
        findings: std::mem::take(findings),
        unfinished: std::mem::take(unfinished),
        is_interrupted: plan.interrupt.load(Ordering::Relaxed),
        elapsed: clock.start.elapsed(),
    }
}

/// How long a thread stays with a job: long enough for histories to share the knowledge of their images, and short
/// enough for every job to have its turn. Where histories are counted, they share no knowledge, so that the result does
/// not depend on which thread runs which history.
fn slice(plan: &Plan, jobs: usize) -> Duration {
    let (shortest, longest) = (Duration::from_millis(20), Duration::from_millis(500));
    match plan.budget {
        Budget::Time(time) => (time / (4 * jobs.max(1) as u32)).clamp(shortest, longest),
        Budget::Histories(_) => Duration::ZERO,
    }
}

struct Campaign {
    plan: Plan,
    jobs: Vec<Arc<dyn Job>>,
    slice: Duration,
    clock: Clock,
    state: Mutex<State>,
}

struct State {
    accounts: Vec<Account>,
    /// The jobs that workers are examining.
    busy: BTreeMap<u64, usize>,
    tally: Tally,
    lints: Lints,
    findings: Vec<Finding>,
    unfinished: Vec<String>,
}

/// The time and the histories that a job has had.
#[derive(Clone, Default)]
struct Account {
    time: Duration,
    /// Histories begun.
    histories: u64,
    findings: usize,
    /// Threads that work on it now.
    threads: u32,
}

impl Shift for Campaign {
    fn work(&self, worker: u64, watch: &Watch) {
        while !self.clock.is_over()
            && let Some(number) = self.begin(worker)
        {
            let job = &*self.jobs[number];
            let start = Instant::now();
            let mut is_first = true;
            let mut seeds = std::iter::from_fn(|| {
                let goes_on = is_first || start.elapsed() < self.slice;
                is_first = false;
                (goes_on && !self.clock.is_over()).then(|| self.next_seed(number)).flatten()
            });
            let effort = self.clock.bound(Effort::default(), watch);
            let seen = job.look(&mut seeds, &effort, None);
            if !self.end(worker, start.elapsed(), seen) {
                return;
            }
        }
    }

    fn leave(&self, worker: u64, at: At, is_stuck: bool) {
        let mut state = self.state();
        let Some(number) = state.busy.remove(&worker) else { return };
        let case = format!("{}:{}", self.jobs[number].name(), at.case);
        state.accounts[number].threads -= 1;
        match is_stuck {
            true => self.find(&mut state, number, Finding { case, what: STUCK.to_owned() }),
            false => state.unfinished.push(case),
        }
    }

    fn progress(&self) -> Progress {
        let state = self.state();
        let share = self.clock.share().unwrap_or_else(|| {
            let all = self.histories_max().saturating_mul(self.jobs.len() as u64);
            let done: u64 = state.accounts.iter().map(|account| account.histories).sum();
            done as f64 / all.max(1) as f64
        });
        let elapsed = self.clock.start.elapsed();
        Progress { share, images: state.tally.images, elapsed }
    }
}

impl Campaign {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("no thread panicked")
    }

    fn histories_max(&self) -> u64 {
        match self.plan.budget {
            Budget::Time(_) => u64::MAX,
            Budget::Histories(count) => count,
        }
    }

    /// Chooses the job that is furthest behind.
    fn begin(&self, worker: u64) -> Option<usize> {
        let mut state = self.state();
        let behind = |(number, account): &(usize, &Account)| {
            let time = account.time + self.slice * account.threads;
            // Before any history, the job with the greatest share comes first.
            let share = self.jobs[*number].share().max(1);
            ((time.as_nanos() / u128::from(share)), u64::MAX - share)
        };
        let open = state.accounts.iter().enumerate().filter(|(_, account)| {
            account.histories < self.histories_max()
                && account.findings < self.plan.violations_max.max(1)
        });
        let (number, _) = open.min_by_key(behind)?;
        state.accounts[number].threads += 1;
        state.busy.insert(worker, number);
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

    /// Takes the results of a worker. Returns false if the worker was left behind: then its results do not count, and
    /// another one works in its place.
    fn end(&self, worker: u64, time: Duration, seen: Seen) -> bool {
        let mut state = self.state();
        let Some(number) = state.busy.remove(&worker) else { return false };
        state.tally += seen.tally;
        state.lints += seen.lints;
        let account = &mut state.accounts[number];
        account.time += time;
        account.threads -= 1;
        if let Some(finding) = seen.finding {
            self.find(&mut state, number, finding);
        }
        true
    }

    fn find(&self, state: &mut State, number: usize, finding: Finding) {
        let account = &mut state.accounts[number];
        account.findings += 1;
        if account.findings <= self.plan.violations_max.max(1) {
            state.findings.push(finding);
        }
    }
}
