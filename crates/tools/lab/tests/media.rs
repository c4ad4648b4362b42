//! Stores name what a faulty medium damaged, or return the right data.

use std::sync::Arc;

use halite_indexlog::IndexLog;
use halite_lab::{FaultKind, Media, MediaTally, Objects, Space, Store, Subject, Unseen};

/// Strikes the histories of `seeds`; a violation is told with its story.
fn strike<S: Subject>(
    subject: &S,
    unseen: &[Unseen],
    seeds: impl IntoIterator<Item = u64>,
) -> MediaTally {
    let mut media = Media::new(subject).without(unseen);
    for seed in seeds {
        if let Some(violation) = media.strike(seed) {
            let (story, _) = media.replay(&violation.case);
            panic!("{}: {}\n{}", violation.case, violation.what, story.join("\n"));
        }
    }
    media.tally
}

#[test]
fn the_log_engine_names_damage_or_answers_rightly() {
    let indexlog = Store::new("indexlog", |options| Ok(Arc::new(IndexLog::open(options)?)));
    let tally = strike(&indexlog, Unseen::BY_ENGINES, 0..250);
    assert_seen(&tally);
    assert!(tally.strikes.named > 0, "large values are read and named");
    assert!(tally.strikes.shortened > 0, "the end of a log is not proven");
}

#[test]
fn a_change_log_names_damage_or_is_replayed_rightly() {
    let indexlog = Store::new("indexlog-changes", |options| Ok(Arc::new(IndexLog::open(options)?)));
    let tally = strike(&indexlog.with_change_log(0), Unseen::BY_ENGINES, 0..80);
    assert!(tally.strikes.named_errors() > 0 && tally.strikes.right > 0);
}

#[test]
fn the_manager_of_segments_names_damage_or_answers_rightly() {
    assert_seen(&strike(&Space, Unseen::BY_SPACE, 0..1000));
}

#[test]
fn object_pools_and_zones_name_damage_or_answer_rightly() {
    assert_seen(&strike(&Objects, Unseen::BY_OBJECTS, 0..600));
}

/// Every kind of fault struck, and some of both answers came.
fn assert_seen(tally: &MediaTally) {
    for kind in FaultKind::ALL {
        assert!(tally.faults.get(&kind).is_some_and(|answers| answers.total() > 0), "{kind:?}");
    }
    assert!(tally.strikes.named_errors() > 0 && tally.strikes.right > 0);
}

#[test]
fn what_a_store_does_not_see_is_found() {
    // The words of a segment are its owner's to check, and nobody does.
    let mut media = Media::new(&Space);
    let violation = (0..100).find_map(|seed| media.strike(seed)).expect("wrong data");
    assert!(violation.what.contains("wrong data"), "{}", violation.what);
    let case = violation.case.to_string().parse().unwrap();
    let (story, what) = media.replay(&case);
    assert_eq!(what, Some(violation.what));
    assert!(story.iter().any(|line| line.contains("A fault strikes")), "{story:?}");
    assert!(story.iter().any(|line| line.contains("last stored to at crates/")), "{story:?}");
}
