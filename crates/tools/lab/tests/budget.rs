//! The lab keeps its budget with any store: it looks at the clock between any two calls of a store, worlds do
//! not grow without end, and a store that does not return is a finding.

use std::cell::RefCell;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::thread::{self, ThreadId};
use std::time::{Duration, Instant};

use halite_alloc::Segments;
use halite_contract::EngineOptions;
use halite_indexlog::IndexLog;
use halite_lab::{
    Action, Budget, Digest, Effort, Exploration, Explorer, Job, Media, NotReplayed, Plan, Random,
    Refusal, Rules, Space, SpaceStep, Store, Subject, Variant, World, explore, mutate, replay,
};
use halite_pmem::Medium;

/// The manager of segments, which counts the calls of it and does something at one of them.
struct Counted<F> {
    calls: AtomicU64,
    at_call: F,
}

impl<F: Fn(u64) + Sync> Counted<F> {
    fn new(at_call: F) -> Self {
        Self { calls: AtomicU64::new(0), at_call }
    }

    fn count(&self) {
        (self.at_call)(self.calls.fetch_add(1, Ordering::Relaxed) + 1);
    }
}

impl<F: Fn(u64) + Sync> Subject for Counted<F> {
    type Step = SpaceStep;
    type Open = Arc<Segments>;

    fn name(&self) -> &str {
        "counted"
    }

    fn capacity(&self) -> u64 {
        Space.capacity()
    }

    fn history(&self, random: &mut Random) -> Vec<Action<SpaceStep>> {
        Space.history(random)
    }

    fn afterlife(&self, random: &mut Random) -> Vec<SpaceStep> {
        Space.afterlife(random)
    }

    fn open(&self, medium: &Medium) -> Result<Arc<Segments>, Refusal> {
        self.count();
        Space.open(medium)
    }

    fn apply(&self, open: &mut Arc<Segments>, step: &SpaceStep) -> Result<(), String> {
        self.count();
        Space.apply(open, step)
    }

    fn model(&self, world: &mut World, step: &SpaceStep) -> bool {
        Space.model(world, step)
    }

    fn world(&self, open: &mut Arc<Segments>) -> Result<World, Refusal> {
        self.count();
        Space.world(open)
    }

    fn look_up(&self, open: &mut Arc<Segments>, name: &[u8]) -> Result<Option<Digest>, Refusal> {
        Space.look_up(open, name)
    }

    fn verify(&self, open: &mut Arc<Segments>) -> Result<(), Refusal> {
        self.count();
        Space.verify(open)
    }
}

/// Calls of a store between two looks at the clock: it comes up and is compared, or takes a step.
const CALLS_MAX: u64 = 4;

/// The most calls of a strike: the store comes up, is compared and verified, now and then twice.
const STRIKE_CALLS_MAX: u64 = 6;

#[test]
fn an_interruption_ends_a_history_within_a_few_calls_of_the_store() {
    // Interrupts the history itself, the recoveries from its crashes, and those nested in them.
    for interrupted_at in [1, 2, 5, 12, 100, 1000, 5000] {
        let effort = Effort::default();
        let interrupt = Arc::clone(&effort.interrupt);
        let subject = Counted::new(move |calls| {
            if calls == interrupted_at {
                interrupt.store(true, Ordering::Relaxed);
            }
        });
        let mut explorer = Explorer::new(&subject, Rules::FailingSyncs, effort);
        for seed in 0..100 {
            assert!(explorer.explore(seed).is_none());
            if subject.calls.load(Ordering::Relaxed) >= interrupted_at {
                break;
            }
        }
        let calls = subject.calls.load(Ordering::Relaxed);
        assert!(calls >= interrupted_at, "{calls} calls");
        assert!(
            calls <= interrupted_at + CALLS_MAX,
            "{calls} calls, interrupted at {interrupted_at}"
        );
    }
}

#[test]
fn an_interruption_ends_schedules_within_a_few_openings_of_the_store() {
    // The first history has eight schedules, whose crashes are examined then.
    for interrupted_at in [1, 3, 8, 9, 50, 300] {
        let (effort, opened) = (Effort::default(), Arc::new(AtomicU64::new(0)));
        let (interrupt, count) = (Arc::clone(&effort.interrupt), Arc::clone(&opened));
        let variant = Variant::concurrent("indexlog", &EngineOptions::new("pool"));
        let subject = Store::new(variant, move |options| {
            if count.fetch_add(1, Ordering::Relaxed) + 1 == interrupted_at {
                interrupt.store(true, Ordering::Relaxed);
            }
            Ok(Arc::new(IndexLog::open(options)?))
        });
        let mut explorer = Explorer::new(&subject, Rules::Memory, effort);
        for seed in 0..100 {
            let violation = explorer.explore_schedules(seed, 8);
            assert!(violation.is_none(), "{}", violation.unwrap().what);
            if opened.load(Ordering::Relaxed) >= interrupted_at {
                break;
            }
        }
        let opened = opened.load(Ordering::Relaxed);
        assert!(
            (interrupted_at..=interrupted_at + 1).contains(&opened),
            "{opened} openings, interrupted at {interrupted_at}"
        );
    }
}

#[test]
fn an_interruption_ends_the_damaging_of_media_within_a_few_calls_of_the_store() {
    // During the history, and during strikes on the store that it left.
    for interrupted_at in [1, 2, 5, 20, 100, 1000] {
        let effort = Effort::default();
        let interrupt = Arc::clone(&effort.interrupt);
        let subject = Counted::new(move |calls| {
            if calls == interrupted_at {
                interrupt.store(true, Ordering::Relaxed);
            }
        });
        let mut media = Media::new(&subject).with_effort(effort);
        for seed in 0..100 {
            // Damage that the manager of segments does not notice is not judged here.
            let _ = media.strike(seed);
            if subject.calls.load(Ordering::Relaxed) >= interrupted_at {
                break;
            }
        }
        let calls = subject.calls.load(Ordering::Relaxed);
        assert!(
            (interrupted_at..=interrupted_at + STRIKE_CALLS_MAX).contains(&calls),
            "{calls} calls, interrupted at {interrupted_at}"
        );
    }
}

#[test]
fn an_interruption_ends_the_search_for_mutants_within_a_few_calls_of_the_store() {
    for interrupted_at in [1, 5, 50, 1000] {
        let plan = Plan { seed: 1, threads: 1, ..Plan::new(Budget::Histories(1000)) };
        // Calls since the search began, behind the histories that meet the requests.
        let (interrupt, searched) = (Arc::clone(&plan.interrupt), Arc::new(AtomicU64::new(0)));
        let (searches, count) = (Arc::new(AtomicBool::new(false)), Arc::clone(&searched));
        let began = Arc::clone(&searches);
        let subject = Counted::new(move |_| {
            if began.load(Ordering::Relaxed)
                && count.fetch_add(1, Ordering::Relaxed) + 1 == interrupted_at
            {
                interrupt.store(true, Ordering::Relaxed);
            }
        });
        let jobs: Vec<Arc<dyn Job>> = vec![Arc::new(Exploration::new(subject, Rules::Memory, 1))];
        let is_asked_for = |_| {
            searches.store(true, Ordering::Relaxed);
            true
        };
        let score = mutate(&plan, &jobs, &is_asked_for, &|_| ());
        assert!(score.is_interrupted && !score.verdicts.is_empty());
        let calls = searched.load(Ordering::Relaxed);
        assert!(
            (interrupted_at..=interrupted_at + CALLS_MAX).contains(&calls),
            "{calls} calls, interrupted at {interrupted_at}"
        );
    }
}

#[test]
fn a_campaign_without_time_left_looks_at_nothing() {
    let plan = Plan { threads: 1, ..Plan::new(Budget::Time(Duration::from_secs(3600))) };
    plan.interrupt.store(true, Ordering::Relaxed);
    let jobs: Vec<Arc<dyn Job>> = vec![Arc::new(Exploration::new(Space, Rules::Memory, 1))];
    let report = explore(&plan, &jobs, &|_| ());
    assert!(report.is_interrupted && report.tally.histories == 0);
    let score = mutate(&plan, &jobs, &|_| true, &|_| ());
    assert!(score.is_interrupted && score.verdicts.is_empty());
}

/// A job of a store that does not return from its call of a number, and another job.
fn stuck_at(call: u64) -> Vec<Arc<dyn Job>> {
    let subject = Counted::new(move |calls| {
        if calls == call {
            loop {
                thread::park();
            }
        }
    });
    vec![
        Arc::new(Exploration::new(subject, Rules::Memory, 1)),
        Arc::new(Exploration::new(Space, Rules::Memory, 1)),
    ]
}

#[test]
fn a_store_that_does_not_return_is_a_finding_and_the_other_jobs_go_on() {
    for (call, is_in_recovery) in [(3, false), (200, true)] {
        let jobs = stuck_at(call);
        let plan = Plan {
            seed: 1,
            threads: 1,
            patience: Duration::from_secs(1),
            ..Plan::new(Budget::Histories(3))
        };
        let report = explore(&plan, &jobs, &|_| ());
        let [finding] = &report.findings[..] else { panic!("{:?}", report.findings) };
        assert_eq!(finding.what, "it does not return");
        // The case of the history, or of a crash in it.
        let parts = finding.case.split(':').count();
        assert!(finding.case.starts_with("counted:memory:"), "{}", finding.case);
        assert_eq!(parts == 4, is_in_recovery, "{}", finding.case);
        assert!(report.tally.histories >= 3 && report.unfinished.is_empty());
    }
}

/// A store whose first call, from when it is told to, does not return before another thread calls it in the place of
/// the one that is stuck. That one waits until the thread that was stuck has ended, or works on.
#[derive(Default)]
struct Recovering {
    is_told: AtomicBool,
    state: Mutex<Recovery>,
    changed: Condvar,
}

#[derive(Default)]
struct Recovery {
    stuck: Option<ThreadId>,
    is_released: bool,
    has_ended: bool,
    works_on: bool,
}

/// Notes that the thread has ended that has it.
struct Ended(Arc<Recovering>);

impl Drop for Ended {
    fn drop(&mut self) {
        self.0.change(|state| state.has_ended = true);
    }
}

thread_local! {
    static ENDED: RefCell<Option<Ended>> = const { RefCell::new(None) };
}

impl Recovering {
    fn change(&self, change: impl FnOnce(&mut Recovery)) {
        change(&mut self.state.lock().unwrap());
        self.changed.notify_all();
    }

    /// Waits for something.
    fn wait(&self, until: impl Fn(&Recovery) -> bool) {
        let state = self.state.lock().unwrap();
        drop(self.changed.wait_while(state, |state| !until(state)).unwrap());
    }

    fn call(self: &Arc<Self>) {
        if !self.is_told.load(Ordering::Relaxed) {
            return;
        }
        let me = thread::current().id();
        let stuck = *self.state.lock().unwrap().stuck.get_or_insert(me);
        let is_released = self.state.lock().unwrap().is_released;
        match (stuck == me, is_released) {
            (true, false) => {
                ENDED.set(Some(Ended(Arc::clone(self))));
                self.wait(|state| state.is_released);
                panic!("the call returns after all");
            }
            (true, true) => self.change(|state| state.works_on = true),
            (false, false) => {
                self.change(|state| state.is_released = true);
                self.wait(|state| state.has_ended || state.works_on);
            }
            (false, true) => {}
        }
    }
}

/// A store that recovers, and the job of it.
fn recovering() -> (Arc<Recovering>, Arc<dyn Job>) {
    let recovering = Arc::<Recovering>::default();
    let called = Arc::clone(&recovering);
    let subject = Counted::new(move |_| called.call());
    (recovering, Arc::new(Exploration::new(subject, Rules::Memory, 1)))
}

#[test]
fn a_thread_whose_store_returns_after_all_does_not_work_beside_the_one_in_its_place() {
    let plan = Plan {
        seed: 1,
        threads: 1,
        patience: Duration::from_secs(1),
        violations_max: 9,
        ..Plan::new(Budget::Histories(3))
    };
    let (campaign, job) = recovering();
    campaign.is_told.store(true, Ordering::Relaxed);
    let report = explore(&plan, &[job], &|_| ());
    assert_eq!(report.findings.len(), 1, "{:?}", report.findings);
    let state = campaign.state.lock().unwrap();
    assert!(state.has_ended && !state.works_on, "it works on");

    let (search, job) = recovering();
    let is_asked_for = |_| {
        search.is_told.store(true, Ordering::Relaxed);
        true
    };
    mutate(&plan, &[job], &is_asked_for, &|_| ());
    let state = search.state.lock().unwrap();
    assert!(state.has_ended && !state.works_on, "it works on");
}

#[test]
fn a_campaign_ends_in_time_though_a_store_does_not_return() {
    let jobs: Vec<_> = stuck_at(1).into_iter().take(1).collect();
    let plan = Plan {
        threads: 1,
        patience: Duration::from_secs(3600),
        ..Plan::new(Budget::Time(Duration::from_millis(100)))
    };
    let report = explore(&plan, &jobs, &|_| ());
    assert!(report.findings.is_empty());
    let [case] = &report.unfinished[..] else { panic!("{:?}", report.unfinished) };
    assert!(case.starts_with("counted:memory:"), "{case}");
}

#[test]
fn a_replay_ends_at_its_deadline_though_the_store_does_not_return() {
    let jobs = stuck_at(1);
    let deadline = Instant::now() + Duration::from_millis(100);
    let replayed = replay(&jobs[0], "memory:1", None, Some(deadline));
    assert_eq!(replayed.unwrap_err(), NotReplayed::OutOfTime);
    assert!(matches!(
        replay(&jobs[1], "nonsense", None, None).unwrap_err(),
        NotReplayed::NoCase(_)
    ));
}

/// The manager of segments, said to take every step after a sync failed, and to promise none: each may be lost.
struct Forgetful {
    /// Applications of a step to a world.
    modelled: AtomicU64,
}

/// Steps after the one in which a sync fails.
const STEPS: u64 = 60;

impl Subject for Forgetful {
    type Step = SpaceStep;
    type Open = Arc<Segments>;

    fn name(&self) -> &str {
        "forgetful"
    }

    fn capacity(&self) -> u64 {
        Space.capacity()
    }

    fn history(&self, _: &mut Random) -> Vec<Action<SpaceStep>> {
        let root = |value: u64| SpaceStep::Root { number: (value % 8) as u8, value };
        let steps = (1..=STEPS).map(|value| Action::Step(root(value)));
        [Action::Step(root(0)), Action::FailWithin(Some(root(100)), 0)]
            .into_iter()
            .chain(steps)
            .collect()
    }

    fn afterlife(&self, _: &mut Random) -> Vec<SpaceStep> {
        Vec::new()
    }

    fn open(&self, medium: &Medium) -> Result<Arc<Segments>, Refusal> {
        Space.open(medium)
    }

    fn apply(&self, open: &mut Arc<Segments>, step: &SpaceStep) -> Result<(), String> {
        let _ = Space.apply(open, step);
        Ok(())
    }

    fn model(&self, world: &mut World, step: &SpaceStep) -> bool {
        self.modelled.fetch_add(1, Ordering::Relaxed);
        Space.model(world, step);
        false
    }

    fn tells_failures_later(&self) -> bool {
        true
    }

    fn world(&self, open: &mut Arc<Segments>) -> Result<World, Refusal> {
        Space.world(open)
    }

    fn look_up(&self, open: &mut Arc<Segments>, name: &[u8]) -> Result<Option<Digest>, Refusal> {
        Space.look_up(open, name)
    }

    fn verify(&self, open: &mut Arc<Segments>) -> Result<(), Refusal> {
        Space.verify(open)
    }
}

/// Worlds that are possible at once, about.
const WORLDS_MAX: u64 = 130;

#[test]
fn worlds_do_not_double_without_end_where_every_step_may_be_lost() {
    let subject = Forgetful { modelled: AtomicU64::new(0) };
    // The history alone.
    let effort = Effort { images_max: 0, history_images_max: 0, ..Effort::default() };
    let mut explorer = Explorer::new(&subject, Rules::PageCache, effort);
    let violation = explorer.explore(0);
    assert!(violation.is_none(), "{}", violation.unwrap().what);
    let modelled = subject.modelled.load(Ordering::Relaxed);
    assert!((STEPS..STEPS * WORLDS_MAX).contains(&modelled), "{modelled} worlds");
}
