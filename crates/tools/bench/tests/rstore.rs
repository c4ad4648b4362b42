//! The promises of RStore's experiments: every row that they announce, with a figure.

use std::sync::atomic::AtomicBool;

use halite_bench::{RSTORE, Run, RunOptions};

#[test]
fn a_mutex_and_messages_are_compared_at_each_number_of_threads() {
    let options = RunOptions {
        folder: std::env::temp_dir(),
        quick: true,
        repeats: 1,
        seed: 1,
        profile: None,
    };
    let experiment = RSTORE.iter().find(|experiment| experiment.name == "messages").unwrap();
    let planned = (experiment.plan)(&options);
    let (interrupted, never) = (AtomicBool::new(false), ());
    let mut run = Run::new(options, &never, &interrupted);
    (experiment.run)(&mut run).unwrap();
    let rows = run.into_rows();
    for (metric, unit) in [("throughput", "op/s"), ("cpu", "ns/op")] {
        for subject in ["mutex", "messages"] {
            let of = rows.iter().filter(|row| row.subject == subject && row.metric == metric);
            let threads: Vec<u64> = of
                .map(|row| {
                    assert!(row.value.is_finite() && row.value > 0.0, "{row:?}");
                    assert_eq!(
                        (row.experiment.as_str(), row.unit.as_str()),
                        ("rstore.messages", unit)
                    );
                    row.params["threads"].as_u64().unwrap()
                })
                .collect();
            assert_eq!(threads, (1..=planned / 2).collect::<Vec<_>>());
            assert!(threads.len() >= 4, "more threads than some machines have cores");
        }
    }
}
