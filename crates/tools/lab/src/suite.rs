//! The jobs for an engine: its variants, and the manager of segments, the pools of objects and the heap below it, under
//! every set of rules.

use std::sync::Arc;

use halite_contract::Registration;

use crate::job::{Concurrency, Exploration, Job, Striking};
use crate::media::Unseen;
use crate::{HeapOfRows, Objects, Rules, Space, Store};

/// The part of the time that is for the manager of segments, for the pools of objects in them, and for the heap.
const SPACE_SHARE: u64 = 2;

/// The jobs for the allocators that engines use: the manager of segments, the pools of objects and the zones in them,
/// and the heap. They are called `alloc`, `objects` and `heap`.
#[must_use]
pub fn space_suite(rules: &[Rules]) -> Vec<Arc<dyn Job>> {
    let mut jobs: Vec<Arc<dyn Job>> = Vec::new();
    for &rules in rules {
        jobs.push(Arc::new(Exploration::new(Space, rules, SPACE_SHARE * weight(rules))));
        jobs.push(Arc::new(Exploration::new(Objects, rules, SPACE_SHARE * weight(rules))));
        jobs.push(Arc::new(Exploration::new(HeapOfRows, rules, SPACE_SHARE * weight(rules))));
    }
    jobs
}

/// The jobs for an engine and the allocators below it. An engine's are called as its variants are.
#[must_use]
pub fn suite(engine: &'static Registration, rules: &[Rules]) -> Vec<Arc<dyn Job>> {
    let mut jobs = space_suite(rules);
    for variant in (engine.crash_variants)() {
        // Under the rules of memory a store has the most to do right; under those of the page cache, engines may let
        // threads share syncs.
        let explored = |rules: &&Rules| {
            !variant.is_concurrent || matches!(rules, Rules::Memory | Rules::PageCache)
        };
        for &rules in rules.iter().filter(explored) {
            let share = variant.share * weight(rules);
            let subject = Store::new(variant.clone(), engine.open);
            jobs.push(match variant.is_concurrent {
                true => Arc::new(Concurrency::new(subject, rules, share)),
                false => Arc::new(Exploration::new(subject, rules, share)),
            });
        }
    }
    jobs
}

/// The jobs that strike the stores of an engine, and its allocators, with faults of the medium. Names are as in
/// [`suite`].
#[must_use]
pub fn media_suite(engine: &'static Registration) -> Vec<Arc<dyn Job>> {
    let mut jobs: Vec<Arc<dyn Job>> = vec![
        Arc::new(Striking::new(Space, Unseen::BY_SPACE, SPACE_SHARE)),
        Arc::new(Striking::new(Objects, Unseen::BY_OBJECTS, SPACE_SHARE)),
        Arc::new(Striking::new(HeapOfRows, Unseen::BY_HEAP, SPACE_SHARE)),
    ];
    for variant in (engine.media_variants)() {
        let share = variant.share;
        let subject = Store::new(variant, engine.open);
        jobs.push(Arc::new(Striking::new(subject, Unseen::BY_ENGINES, share)));
    }
    jobs
}

/// Returns the weight of jobs by their rules: under those of memory a store has the most to do right.
fn weight(rules: Rules) -> u64 {
    match rules {
        Rules::Memory => 6,
        Rules::PageCache => 2,
        Rules::FailingSyncs | Rules::Platform | Rules::FailedPlatform => 1,
    }
}
