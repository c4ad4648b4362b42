//! The report of violations, with a subject that promises more than it holds.

use std::panic::catch_unwind;
use std::sync::Arc;

use halite_alloc::Segments;
use halite_lab::{
    Action, Budget, Digest, Effort, Exploration, Job, Plan, Random, Refusal, Rules, Space,
    SpaceStep, Subject, World, check, explore, mutate,
};
use halite_pmem::Medium;

/// The manager of segments, said to set every root to zero.
struct Promising;

impl Subject for Promising {
    type Step = SpaceStep;
    type Open = Arc<Segments>;

    fn name(&self) -> &str {
        "promising"
    }

    fn capacity(&self) -> u64 {
        Space.capacity()
    }

    fn history(&self, random: &mut Random) -> Vec<Action<SpaceStep>> {
        Space.history(random)
    }

    /// Returns no steps: the violations are in the histories alone.
    fn afterlife(&self, _: &mut Random) -> Vec<SpaceStep> {
        Vec::new()
    }

    fn open(&self, medium: &Medium) -> Result<Arc<Segments>, Refusal> {
        Space.open(medium)
    }

    fn apply(&self, open: &mut Arc<Segments>, step: &SpaceStep) -> Result<(), String> {
        Space.apply(open, step)
    }

    fn model(&self, world: &mut World, step: &SpaceStep) -> bool {
        match *step {
            SpaceStep::Root { number, .. } => {
                Space.model(world, &SpaceStep::Root { number, value: 0 })
            }
            _ => Space.model(world, step),
        }
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

fn jobs() -> Vec<Arc<dyn Job>> {
    vec![
        Arc::new(Exploration::new(Promising, Rules::Memory, 1)),
        Arc::new(Exploration::new(Space, Rules::Memory, 1)),
    ]
}

fn plan() -> Plan {
    Plan { seed: 1, threads: 2, ..Plan::new(Budget::Histories(20)) }
}

#[test]
fn a_check_panics_with_the_case_and_its_story() {
    let panic = catch_unwind(|| check(&Promising, Rules::Memory, 0..20)).unwrap_err();
    let told = panic.downcast_ref::<String>().unwrap();
    assert!(told.starts_with("promising: memory:"), "{told}");
    assert!(told.contains("has another value") && told.contains("\nThe store\n"), "{told}");
    assert!(check(&Space, Rules::Memory, 0..20).recoveries > 0);
}

#[test]
fn a_job_ends_at_its_last_wanted_violation_and_the_others_go_on() {
    for violations_max in [1, 3] {
        let plan = Plan { violations_max, ..plan() };
        let jobs = jobs();
        let report = explore(&plan, &jobs, &|_| ());
        assert_eq!(report.findings.len(), violations_max);
        assert!(report.tally.histories > 20, "{}", report.tally.histories);
        for finding in &report.findings {
            let case = finding.case.strip_prefix("promising:").unwrap();
            assert!(
                jobs[0].replay(case, &Effort::default(), None).unwrap().what.is_some(),
                "{case}"
            );
        }
    }
}

#[test]
fn what_is_wrong_without_a_mutant_is_not_credited_to_it() {
    let jobs: Vec<_> = jobs().into_iter().take(1).collect();
    let score = mutate(&plan(), &jobs, &|_| true, &|_| ());
    assert!(!score.findings.is_empty() && score.caught() > 0);
    for caught in score.verdicts.iter().filter_map(|verdict| verdict.caught.as_ref()) {
        assert!(!caught.what.contains("root"), "{}", caught.what);
    }
}
