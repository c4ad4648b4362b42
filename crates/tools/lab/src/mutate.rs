//! The mutation score: whether the lab notices that one flush, fence or sync is left out.
//!
//! Every place in the code that makes such a request is switched off by itself, at run time, and the lab searches until
//! it finds a violation or its budget is spent. A survivor is either a hole in the histories or a needless request.
//!
//! All jobs are one suite: a mutant is caught if any of them catches it, under whichever rules: the call that is a
//! fence of memory is a sync of an ordinary file, and where caches persist it may be idle. Jobs take turns in the order
//! of the list, and so do mutants: the one that was searched least is next.

use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use halite_sim::{Request, Site};

use crate::job::{Finding, Job, Seen};
use crate::plan::{Budget, Clock, Plan, Progress};
use crate::story::place;
use crate::watch::{At, STUCK, Shift, Watch, supervise};
use crate::{Effort, Tally};

/// A request that is left out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Mutant {
    /// The place of the request in the code.
    pub site: Site,
    /// The request.
    pub request: Request,
}

impl fmt::Display for Mutant {
    /// The text that [`replay`](crate::replay()) takes: `fence@crates/shared/alloc/src/table.rs:12`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&text(self.site, self.request))
    }
}

fn text(site: Site, request: Request) -> String {
    format!("{}@{}", request.name(), place(site))
}

/// The verdict on a mutant.
#[derive(Debug, Clone)]
pub struct Verdict {
    /// The mutant.
    pub mutant: Mutant,
    /// The violation that revealed it, if one did.
    pub caught: Option<Finding>,
    /// Histories until it was caught, or in which it survived.
    pub histories: u64,
    /// The time of all threads together.
    pub time: Duration,
}

/// The verdicts on all mutants.
#[derive(Debug, Clone)]
pub struct Score {
    /// The verdicts by place.
    pub verdicts: Vec<Verdict>,
    /// Violations without a request left out: they hide those of mutants.
    pub findings: Vec<Finding>,
    /// Cases that were left behind when the time was over: a call of the store did not return soon then.
    pub unfinished: Vec<String>,
    /// Counts of the histories, images and recoveries that were examined.
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

/// Histories of each job in which its mutants are searched for.
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

/// Leaves out every request that the jobs make and that `is_asked_for`, one at a time. With a budget of time, it goes
/// on with the survivors until the time is over.
///
/// # Panics
/// If a thread cannot be started.
pub fn mutate(
    plan: &Plan,
    jobs: &[Arc<dyn Job>],
    is_asked_for: &dyn Fn(Site) -> bool,
    progress: &dyn Fn(Progress),
) -> Score {
    let clock = Clock::new(plan);
    let meeting = find(plan, jobs, &clock, progress);
    let mut met = meeting.met();
    let mutants = std::mem::take(&mut met.requests).into_iter();
    let mutants = mutants.filter(|(mutant, _)| is_asked_for(mutant.site));
    let search = Arc::new(Search {
        plan: plan.clone(),
        jobs: jobs.to_vec(),
        clock: clock.clone(),
        state: Mutex::new(State {
            mutants: mutants.map(|(mutant, known)| Account::new(mutant, known)).collect(),
            busy: BTreeMap::new(),
            suspects: Vec::new(),
            findings: std::mem::take(&mut met.findings),
            unfinished: std::mem::take(&mut met.unfinished),
            tally: Tally::default(),
        }),
    });
    supervise(&search, plan.threads, plan.patience, &clock, progress);
    let mut state = search.state();
    // The suspects that there was no time to examine without a request left out.
    while let Some(task) = state.suspects.pop() {
        state.judge(task, None);
    }
    let verdicts = state.mutants.drain(..).map(|account| Verdict {
        mutant: account.mutant,
        histories: account.histories,
        time: account.time(),
        caught: account.caught,
    });
    Score {
        verdicts: verdicts.collect(),
        findings: std::mem::take(&mut state.findings),
        unfinished: std::mem::take(&mut state.unfinished),
        tally: std::mem::take(&mut state.tally),
        is_interrupted: plan.interrupt.load(Ordering::Relaxed),
        elapsed: clock.start.elapsed(),
    }
}

/// The request of this text, as it occurs in a job's history of `seed`. Of `until`, only the limits that end the effort
/// and its watch matter.
pub(crate) fn find_request(
    job: &dyn Job,
    seed: u64,
    text_of_it: &str,
    until: &Effort,
) -> Option<(Site, Request)> {
    [short(), Effort::default()].into_iter().find_map(|effort| {
        let Effort { deadline, interrupt, watch, .. } = until.clone();
        let effort = Effort { deadline, interrupt, watch, ..effort };
        let seen = job.look(&mut std::iter::once(seed), &effort, None);
        seen.requests.into_iter().find(|&(site, request)| text(site, request) == text_of_it)
    })
}

/// Whether the request is the lab's own, and not of the code under test.
fn is_own(site: Site) -> bool {
    let own = Path::new(file!()).parent();
    own.is_some_and(|own| Path::new(site.file()).starts_with(own))
}

/// The seeds, by job and history, of the histories that make a mutant's request.
type Known = BTreeMap<usize, BTreeMap<u64, u64>>;

/// Finds the mutants, and for each the jobs and the histories that contain its request. It takes a third of a budget of
/// time at most: all jobs have their first histories before the second ones.
fn find(
    plan: &Plan,
    jobs: &[Arc<dyn Job>],
    clock: &Clock,
    progress: &dyn Fn(Progress),
) -> Arc<Meeting> {
    let meeting = Arc::new(Meeting {
        plan: plan.clone(),
        jobs: jobs.to_vec(),
        clock: clock.part(3),
        tasks: (0..SEEDS)
            .flat_map(|history| (0..jobs.len()).map(move |number| (history, number)))
            .collect(),
        next: AtomicUsize::new(0),
        met: Mutex::default(),
    });
    supervise(&meeting, plan.threads, plan.patience, &meeting.clock.clone(), progress);
    meeting
}

/// The first histories of all jobs, which meet the requests.
struct Meeting {
    plan: Plan,
    jobs: Vec<Arc<dyn Job>>,
    clock: Clock,
    /// Histories, by their numbers and those of the jobs.
    tasks: Vec<(u64, usize)>,
    next: AtomicUsize,
    met: Mutex<Met>,
}

/// The requests that the first histories made.
#[derive(Default)]
struct Met {
    requests: BTreeMap<Mutant, Known>,
    /// The jobs that workers are examining.
    busy: BTreeMap<u64, usize>,
    findings: Vec<Finding>,
    unfinished: Vec<String>,
}

impl Meeting {
    fn met(&self) -> MutexGuard<'_, Met> {
        self.met.lock().expect("no thread panicked")
    }
}

impl Shift for Meeting {
    fn work(&self, worker: u64, watch: &Watch) {
        while !self.clock.is_over()
            && let Some(&(history, number)) =
                self.tasks.get(self.next.fetch_add(1, Ordering::Relaxed))
        {
            self.met().busy.insert(worker, number);
            let job = &self.jobs[number];
            let seed = self.plan.seed_of(job.number(), history);
            let effort = self.clock.bound(short(), watch);
            let seen = job.look(&mut std::iter::once(seed), &effort, None);
            let mut met = self.met();
            // Results of a worker that was left behind do not count.
            if met.busy.remove(&worker).is_none() {
                return;
            }
            let requests = seen.requests.into_iter();
            for (site, request) in requests.filter(|&(site, _)| !is_own(site)) {
                let known = met.requests.entry(Mutant { site, request }).or_default();
                known.entry(number).or_default().insert(history, seed);
            }
        }
    }

    fn leave(&self, worker: u64, at: At, is_stuck: bool) {
        let mut met = self.met();
        let Some(number) = met.busy.remove(&worker) else { return };
        let case = format!("{}:{}", self.jobs[number].name(), at.case);
        match is_stuck {
            true => met.findings.push(Finding { case, what: STUCK.to_owned() }),
            false => met.unfinished.push(case),
        }
    }

    fn progress(&self) -> Progress {
        Progress { share: 0.0, images: 0, elapsed: self.clock.start.elapsed() }
    }
}

/// The search for a violation that a mutant causes.
struct Account {
    mutant: Mutant,
    hunts: Vec<Hunt>,
    /// Threads that are searching now.
    threads: u32,
    histories: u64,
    caught: Option<Finding>,
}

/// The search with one job.
struct Hunt {
    job: usize,
    /// Histories that are known to contain the mutant's request, examined first.
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

struct Search {
    plan: Plan,
    jobs: Vec<Arc<dyn Job>>,
    clock: Clock,
    state: Mutex<State>,
}

struct State {
    mutants: Vec<Account>,
    /// The tasks of the workers.
    busy: BTreeMap<u64, Task>,
    /// Tasks that show a violation, or a stuck store, with a request left out, and are to be repeated without that.
    suspects: Vec<Task>,
    findings: Vec<Finding>,
    unfinished: Vec<String>,
    tally: Tally,
}

/// One history to examine for a mutant.
#[derive(Clone)]
struct Task {
    mutant: usize,
    hunt: usize,
    job: usize,
    seed: u64,
    without: (Site, Request),
    effort: Effort,
    /// The violation with the request left out. The task is then repeated with all requests: a violation that appears
    /// then, too, is not the mutant's.
    shown: Option<Finding>,
}

impl Shift for Search {
    fn work(&self, worker: u64, watch: &Watch) {
        while !self.clock.is_over()
            && let Some(task) = self.begin(worker)
        {
            let start = Instant::now();
            let (effort, without) = match task.shown {
                None => (task.effort, Some(task.without)),
                Some(_) => (Effort::default(), None),
            };
            let effort = self.clock.bound(effort, watch);
            let seen = self.jobs[task.job].look(&mut std::iter::once(task.seed), &effort, without);
            if !self.end(worker, start.elapsed(), seen) {
                return;
            }
        }
    }

    fn leave(&self, worker: u64, at: At, is_stuck: bool) {
        let mut state = self.state();
        let Some(task) = state.busy.remove(&worker) else { return };
        let case = format!("{}:{}", self.jobs[task.job].name(), at.case);
        match is_stuck {
            true => state.judge(task, Some(Finding { case, what: STUCK.to_owned() })),
            false => {
                state.mutants[task.mutant].threads -= 1;
                state.unfinished.push(case);
            }
        }
    }

    fn progress(&self) -> Progress {
        let state = self.state();
        let caught = state.mutants.iter().filter(|account| account.caught.is_some()).count();
        let share = caught as f64 / state.mutants.len().max(1) as f64;
        Progress { share, images: state.tally.images, elapsed: self.clock.start.elapsed() }
    }
}

impl State {
    /// Judges a task by its result.
    fn judge(&mut self, task: Task, finding: Option<Finding>) {
        let mutant = &mut self.mutants[task.mutant];
        match (task.shown, finding) {
            (None, Some(finding)) => {
                self.suspects.push(Task { shown: Some(finding), ..task });
                return;
            }
            (None, None) => {}
            (Some(_), Some(own)) => {
                if self.findings.iter().all(|other| other.case != own.case) {
                    self.findings.push(own);
                }
            }
            (shown @ Some(_), None) if mutant.caught.is_none() => mutant.caught = shown,
            (Some(_), None) => {}
        }
        mutant.threads -= 1;
    }
}

impl Search {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("no thread panicked")
    }

    /// Takes the results of a worker. Returns false if the worker was left behind: then its results do not count, and
    /// another one works in its place.
    fn end(&self, worker: u64, time: Duration, seen: Seen) -> bool {
        let mut state = self.state();
        let Some(task) = state.busy.remove(&worker) else { return false };
        state.tally += seen.tally;
        let mutant = &mut state.mutants[task.mutant];
        mutant.hunts[task.hunt].time += time;
        state.judge(task, seen.finding);
        true
    }

    fn begin(&self, worker: u64) -> Option<Task> {
        let mut state = self.state();
        let task = state.suspects.pop().or_else(|| self.choose(&mut state.mutants))?;
        state.busy.insert(worker, task.clone());
        Some(task)
    }

    fn choose(&self, mutants: &mut [Account]) -> Option<Task> {
        let is_open = |account: &Account| {
            account.caught.is_none()
                && match self.plan.budget {
                    Budget::Time(_) => true,
                    Budget::Histories(count) => account.histories < count,
                }
        };
        let open = mutants.iter_mut().enumerate().filter(|(_, account)| is_open(account));
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
        // Some mutants show in every history and some in rare ones only: most histories get a small effort.
        let effort = if hunt.histories % 4 == 0 { Effort::default() } else { Effort::quick() };
        Some(Task { mutant: number, hunt: hunt_number, job, seed, without, effort, shown: None })
    }
}
