//! The index+log engine under the lab.

use std::sync::Arc;

use halite_indexlog::IndexLog;
use halite_lab::{Budget, Job, Plan, Rules, explore, mutate, suite};

fn jobs(rules: &[Rules]) -> Vec<Box<dyn Job>> {
    suite("indexlog", |options| Ok(Arc::new(IndexLog::open(options)?)), rules)
}

fn plan(budget: Budget) -> Plan {
    Plan { seed: 7, threads: 2, ..Plan::new(budget) }
}

#[test]
fn it_comes_back_from_every_power_cut_that_is_looked_at() {
    let jobs = jobs(&[Rules::Memory]);
    let report = explore(&plan(Budget::Histories(2)), &jobs, &|_| ());
    assert!(report.findings.is_empty(), "{:?}", report.findings);
    assert_eq!(report.tally.histories, 2 * jobs.len() as u64);
    assert!(!report.is_interrupted);
}

#[test]
fn a_seed_looks_at_the_same_on_any_number_of_threads() {
    let look = |threads| {
        let jobs = jobs(&[Rules::Memory]);
        let plan = Plan { threads, ..plan(Budget::Histories(3)) };
        let tally = explore(&plan, &jobs[..3], &|_| ()).tally;
        (tally.histories, tally.crash_points, tally.images)
    };
    assert_eq!(look(1), look(3));
}

#[test]
fn an_interrupted_campaign_ends_with_what_it_has() {
    let plan = plan(Budget::Histories(u64::MAX));
    let interrupt = Arc::clone(&plan.interrupt);
    let stop = |_| interrupt.store(true, std::sync::atomic::Ordering::Relaxed);
    let report = explore(&plan, &jobs(&[Rules::Memory]), &stop);
    assert!(report.is_interrupted && report.tally.images > 0);
}

#[test]
fn what_a_mutant_breaks_is_told_by_its_case() {
    let jobs = jobs(&[Rules::Memory]);
    let score = mutate(&plan(Budget::Histories(2)), &jobs[..2], &|_| ());
    assert!(score.findings.is_empty(), "{:?}", score.findings);
    assert!(score.caught() > 0 && score.caught() <= score.verdicts.len());
    let verdict = score.verdicts.iter().find(|verdict| verdict.caught.is_some()).unwrap();
    let caught = verdict.caught.as_ref().unwrap();
    let (name, case) = caught.case.split_once(':').unwrap();
    let job = jobs.iter().find(|job| job.name() == name).unwrap();
    let mutant = (verdict.mutant.site, verdict.mutant.request);
    let replay = job.replay(case, Some(mutant)).unwrap();
    assert!(replay.what.is_some() && replay.story.len() > 2, "{:?}", replay.story);
}

#[test]
fn a_case_of_another_history_is_refused() {
    let jobs = jobs(&[Rules::Memory]);
    let error = jobs[1].replay("memory:1:9999999.0", None).unwrap_err();
    assert!(error.contains("no crash number 1"), "{error}");
    assert!(jobs[1].replay("soup:1", None).is_err());
}
