//! The engine of one's own survives power cuts, by its row in the registry.

use halite_contract::lab::is_deep;
use halite_lab::{Budget, Plan, Rules, explore, suite};

#[test]
fn the_crash_lab_explores_the_engine_by_its_row() {
    let first_look = [Rules::Memory, Rules::FailingSyncs];
    let rules = if is_deep("own-engine") { &Rules::ALL[..] } else { &first_look };
    let jobs = suite(&halite_own_engine::REGISTRATION, rules);
    let histories = if is_deep("own-engine") { 2 } else { 1 };
    let plan = Plan { seed: 1, ..Plan::new(Budget::Histories(histories)) };
    let report = explore(&plan, &jobs, &|_| ());
    let found: Vec<_> = report.findings.iter().map(|found| (&found.case, &found.what)).collect();
    assert!(found.is_empty(), "{found:?}");
}
