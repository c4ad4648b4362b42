//! The engines of the testbed come back from the power cuts that the lab looks at, by their rows in the registry.

use halite_contract::lab::is_deep;
use halite_lab::{Budget, Plan, Rules, explore, suite};

#[test]
fn the_engines_come_back_from_power_cuts() {
    let first_look = [Rules::Memory, Rules::FailingSyncs];
    let (rules, histories) =
        if is_deep("table") { (&Rules::ALL[..], 4) } else { (&first_look[..], 1) };
    for engine in &halite_table::REGISTRATIONS {
        let jobs = suite(engine, rules);
        let plan = Plan { seed: 1, ..Plan::new(Budget::Histories(histories)) };
        let report = explore(&plan, &jobs, &|_| ());
        let found: Vec<_> =
            report.findings.iter().map(|found| (&found.case, &found.what)).collect();
        assert!(found.is_empty(), "{}: {found:?}", engine.name);
    }
}
