//! The mutation score: what the lab notices if one flush, fence or sync is left out.
//!
//! Every place in the code that asks for one is switched off by itself, at run time, and the lab looks
//! until it finds a violation or its budget is spent. A survivor is either a hole in the histories or a
//! request that nobody needs.
//!
//! All jobs are one suite: a mutant is caught if any of them catches it, under whichever rules: the call
//! that is a fence of memory is a sync of an ordinary file, and where caches persist it may have
//! nothing to wait for. They take turns, the first in the list first, and so do the mutants: the one
//! that was looked for least is next.

use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard};
use std::thread;
use std::time::{Duration, Instant};

use halite_pmem::{Request, Site};

use crate::job::{Finding, Job};
use crate::plan::{Budget, Clock, Plan, Progress};
use crate::story::place;
use crate::{Effort, Tally};

/// A request that is left out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Mutant {
    /// Where the code asks.
    pub site: Site,
    /// For what.
    pub request: Request,
}

impl fmt::Display for Mutant {
    /// The text that [`find_request`] takes: `fence@crates/alloc/src/table.rs:12`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&text(self.site, self.request))
    }
}

fn text(site: Site, request: Request) -> String {
    format!("{}@{}", request.name(), place(site))
}

/// What became of a mutant.
#[derive(Debug, Clone)]
pub struct Verdict {
    /// The mutant.
    pub mutant: Mutant,
    /// What showed it, if anything did.
    pub caught: Option<Finding>,
    /// Histories that it took, or in which it survived.
    pub histories: u64,
    /// The time of all threads together.
    pub time: Duration,
}

/// What became of all mutants.
#[derive(Debug, Clone)]
pub struct Score {
    /// By place.
    pub verdicts: Vec<Verdict>,
    /// What is wrong although nothing is left out: it hides what a mutant would show.
    pub findings: Vec<Finding>,
    /// What was looked at.
    pub tally: Tally,
    /// Whether it was interrupted before its budget was spent.
    pub is_interrupted: bool,
    /// How long it took.
    pub elapsed: Duration,
}

impl Score {
    /// How many mutants were caught.
    #[must_use]
    pub fn caught(&self) -> usize {
        self.verdicts.iter().filter(|verdict| verdict.caught.is_some()).count()
    }
}

/// Histories of each job in which its mutants are looked for.
const SEEDS: u64 = 20;

/// The effort with which mutants are found: enough to meet the requests of recoveries, too.
fn short() -> Effort {
    Effort {
        images_max: 2,
        nested_images_max: [2, 2],
        nested_percent: [30, 0],
        ..Effort::default()
    }
}

/// Leaves out every request that the jobs meet and that `is_asked_for`, one at a time. With a budget of
/// time, it goes on with the survivors until the time is over.
///
/// # Panics
/// If a thread cannot be started.
pub fn mutate(
    plan: &Plan,
    jobs: &[Box<dyn Job + '_>],
    is_asked_for: &(dyn Fn(Site) -> bool + Sync),
    progress: &(dyn Fn(Progress) + Sync),
) -> Score {
    let clock = Clock::new(plan);
    let mut mutants = find(plan, jobs, &clock);
    mutants.retain(|account| is_asked_for(account.mutant.site));
    let search = Search {
        plan,
        jobs,
        clock,
        state: Mutex::new(State { mutants, findings: Vec::new(), tally: Tally::default() }),
    };
    thread::scope(|scope| {
        for _ in 0..plan.threads.max(1) {
            scope.spawn(|| search.work(progress));
        }
    });
    let Search { state, clock, .. } = search;
    let State { mutants, findings, tally } = state.into_inner().expect("no thread panicked");
    let verdicts = mutants.into_iter().map(|account| Verdict {
        mutant: account.mutant,
        caught: account.caught,
        histories: account.histories,
        time: account.hunts.iter().map(|hunt| hunt.time).sum(),
    });
    Score {
        verdicts: verdicts.collect(),
        findings,
        tally,
        is_interrupted: plan.interrupt.load(Ordering::Relaxed),
        elapsed: clock.start.elapsed(),
    }
}

/// The request that a text names, as a job's history of `seed` meets it.
pub fn find_request(job: &dyn Job, seed: u64, text_of_it: &str) -> Option<(Site, Request)> {
    [short(), Effort::default()].into_iter().find_map(|effort| {
        let seen = job.look(&mut std::iter::once(seed), &effort, None);
        seen.requests.into_iter().find(|&(site, request)| text(site, request) == text_of_it)
    })
}

/// Whether the lab asks itself: not what it is to judge.
fn is_own(site: Site) -> bool {
    let own = Path::new(file!()).parent();
    own.is_some_and(|own| Path::new(site.file()).starts_with(own))
}

/// By jobs, the seeds of histories in which a mutant has something to leave out, by the histories.
type Known = BTreeMap<usize, BTreeMap<u64, u64>>;

/// Finds the mutants, and for each the jobs and the histories in which it has something to leave out. Of a budget of
/// time that takes a third at the most: the jobs have their first histories before the second ones.
fn find(plan: &Plan, jobs: &[Box<dyn Job + '_>], clock: &Clock) -> Vec<Account> {
    let clock = clock.part(3);
    let found: Mutex<BTreeMap<Mutant, Known>> = Mutex::default();
    let tasks: Vec<(u64, usize)> = (0..SEEDS)
        .flat_map(|history| (0..jobs.len()).map(move |number| (history, number)))
        .collect();
    let next = AtomicUsize::new(0);
    let work = || {
        while !clock.is_over()
            && let Some(&(history, number)) = tasks.get(next.fetch_add(1, Ordering::Relaxed))
        {
            let job = &jobs[number];
            let seed = plan.seed_of(job.number(), history);
            let seen = job.look(&mut std::iter::once(seed), &clock.bound(short()), None);
            let mut found = found.lock().expect("no thread panicked");
            let requests = seen.requests.into_iter();
            for (site, request) in requests.filter(|&(site, _)| !is_own(site)) {
                let mutant = Mutant { site, request };
                found.entry(mutant).or_default().entry(number).or_default().insert(history, seed);
            }
        }
    };
    thread::scope(|scope| {
        for _ in 0..plan.threads.max(1) {
            scope.spawn(work);
        }
    });
    let found = found.into_inner().expect("no thread panicked").into_iter();
    found.map(|(mutant, hunts)| Account::new(mutant, hunts)).collect()
}

/// The search for a violation that a mutant causes.
struct Account {
    mutant: Mutant,
    hunts: Vec<Hunt>,
    /// Threads that look now.
    threads: u32,
    histories: u64,
    caught: Option<Finding>,
}

/// The search with one job.
struct Hunt {
    job: usize,
    /// Histories in which the mutant is known to have something to leave out, to begin with.
    known: VecDeque<u64>,
    /// Histories begun.
    histories: u64,
    time: Duration,
}

impl Account {
    fn new(mutant: Mutant, known: Known) -> Self {
        let hunts = known.into_iter().map(|(job, known)| Hunt {
            job,
            known: known.into_values().collect(),
            histories: 0,
            time: Duration::ZERO,
        });
        Self { mutant, hunts: hunts.collect(), threads: 0, histories: 0, caught: None }
    }

    fn time(&self) -> Duration {
        self.hunts.iter().map(|hunt| hunt.time).sum()
    }
}

struct Search<'a> {
    plan: &'a Plan,
    jobs: &'a [Box<dyn Job + 'a>],
    clock: Clock,
    state: Mutex<State>,
}

struct State {
    mutants: Vec<Account>,
    findings: Vec<Finding>,
    tally: Tally,
}

/// One history to look at for a mutant.
struct Task {
    mutant: usize,
    hunt: usize,
    job: usize,
    seed: u64,
    without: (Site, Request),
    effort: Effort,
}

impl Search<'_> {
    fn work(&self, progress: &(dyn Fn(Progress) + Sync)) {
        while !self.clock.is_over()
            && let Some(task) = self.begin()
        {
            let job = &*self.jobs[task.job];
            let start = Instant::now();
            let look = |effort, without| {
                job.look(&mut std::iter::once(task.seed), &self.clock.bound(effort), without)
            };
            let seen = look(task.effort, Some(task.without));
            // What the history shows without the mutant, too, is not the mutant's.
            let control = seen.finding.is_some().then(|| look(Effort::default(), None));
            let mut state = self.state();
            let State { mutants, findings, tally } = &mut *state;
            *tally += seen.tally;
            let mutant = &mut mutants[task.mutant];
            mutant.threads -= 1;
            mutant.hunts[task.hunt].time += start.elapsed();
            match control.and_then(|control| control.finding) {
                Some(finding) if findings.iter().all(|other| other.case != finding.case) => {
                    findings.push(finding);
                }
                None if mutant.caught.is_none() => mutant.caught = seen.finding,
                _ => {}
            }
            progress(self.progress(&state));
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("no thread panicked")
    }

    fn begin(&self) -> Option<Task> {
        let mut state = self.state();
        let is_open = |account: &Account| {
            account.caught.is_none()
                && match self.plan.budget {
                    Budget::Time(_) => true,
                    Budget::Histories(count) => account.histories < count,
                }
        };
        let open = state.mutants.iter_mut().enumerate().filter(|(_, account)| is_open(account));
        let (number, account) =
            open.min_by_key(|(_, account)| (account.threads, account.time()))?;
        let least = account.hunts.iter_mut().enumerate().min_by_key(|(_, hunt)| hunt.time);
        let (hunt_number, hunt) = least.expect("a mutant was met somewhere");
        account.threads += 1;
        account.histories += 1;
        hunt.histories += 1;
        let seed = hunt.known.pop_front().unwrap_or_else(|| {
            self.plan.seed_of(self.jobs[hunt.job].number(), SEEDS + hunt.histories)
        });
        let Mutant { site, request } = account.mutant;
        let (job, without) = (hunt.job, (site, request));
        // Some mutants show in every history and some in rare ones only: most looks are short.
        let effort = if hunt.histories % 4 == 0 { Effort::default() } else { Effort::quick() };
        Some(Task { mutant: number, hunt: hunt_number, job, seed, without, effort })
    }

    fn progress(&self, state: &State) -> Progress {
        let caught = state.mutants.iter().filter(|account| account.caught.is_some()).count();
        let share = caught as f64 / state.mutants.len().max(1) as f64;
        Progress { share, images: state.tally.images, elapsed: self.clock.start.elapsed() }
    }
}
