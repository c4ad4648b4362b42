//! The engines of the testbed come back from the power cuts that the lab looks at, by their rows in the registry: the
//! adapter's transactions, statements and expectations. `table.rs` explores the methods themselves.
//!
//! `HALITE_LAB_SEEDS` sets how many seeds there are, each of which is then looked at in depth.

mod seeds;

use halite_lab::{Effort, Rules, suite};

use seeds::{number, seeds};

/// Images of a history, for a first look.
const IMAGES: u64 = 20;

#[test]
fn the_engines_come_back_from_power_cuts() {
    // `table.rs` explores the methods under all rules; here, only a long run does.
    let (rules, fixed, effort) = match number("HALITE_LAB_SEEDS") {
        Some(asked) => (&Rules::ALL[..], asked, Effort::default()),
        None => {
            let effort = Effort { history_images_max: IMAGES, ..Effort::default() };
            (&[Rules::Memory][..], 1, effort)
        }
    };
    for job in halite_table::REGISTRATIONS.iter().flat_map(|engine| suite(engine, rules)) {
        let seen = job.look(&mut seeds(fixed), &effort, None);
        let found = seen.finding.map(|finding| (finding.case, finding.what));
        assert!(found.is_none(), "{found:?}");
        let tally = seen.tally;
        println!(
            "{}: {} histories, {} crash points, {} distinct images, {} nested recoveries",
            job.label(),
            tally.histories,
            tally.crash_points,
            tally.distinct.len(),
            tally.nested
        );
    }
}
