//! The lab keeps its budget, whatever a store does: it looks at the clock between any two calls of a store, worlds do
//! not grow without end, and a store that does not return is a finding.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use halite_alloc::Segments;
use halite_lab::{
    Action, Budget, Digest, Effort, Exploration, Explorer, Job, NotReplayed, Plan, Random, Refusal,
    Rules, Space, SpaceStep, Subject, World, explore, mutate, replay,
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

#[test]
fn an_interruption_ends_a_history_within_a_few_calls_of_the_store() {
    // In the history itself, in the recoveries from its crashes, and in those nested in them.
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
