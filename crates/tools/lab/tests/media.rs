//! Stores name the damage of a faulty medium, or return the right data.

use halite_lab::{
    FaultKind, HeapOfRows, Kind, Media, MediaTally, Objects, Space, Store, Subject, Unseen,
};

const FEW: &[Kind] = &[Kind::Few];
const MIXED: &[Kind] = &[Kind::Mixed];

/// Strikes the histories of `seeds`; a violation is printed with its story.
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
    let indexlog = Store::of(&halite_indexlog::REGISTRATION, "indexlog-mixed").with_kinds(&[]);
    let tally = strike(&indexlog, Unseen::BY_ENGINES, 0..250);
    assert_seen(&tally);
    assert!(tally.strikes.named > 0, "large values are read and named");
    assert!(tally.strikes.shortened > 0, "the end of a log is not proven");
}

#[test]
fn a_change_log_names_damage_or_is_replayed_rightly() {
    let indexlog = Store::of(&halite_indexlog::REGISTRATION, "indexlog-changes");
    let tally = strike(&indexlog, Unseen::BY_ENGINES, 0..80);
    assert!(tally.strikes.named_errors() > 0 && tally.strikes.right > 0);
}

#[test]
fn a_snapshot_of_the_index_proves_what_it_leads_to() {
    let indexlog = Store::of(&halite_indexlog::REGISTRATION, "indexlog-snapshots").with_kinds(&[]);
    // In the histories of these two, nothing but a snapshot comes behind the record that is struck.
    let seeds = (0..60).chain([0x126f_f53b_642b_0814, 0x58c7_93c8_7215_9eff]);
    let tally = strike(&indexlog, Unseen::BY_ENGINES, seeds);
    assert!(tally.strikes.named_errors() > 0 && tally.strikes.right > 0);
}

#[test]
fn the_lsm_engine_names_damage_or_answers_rightly() {
    let variants = (halite_lsm::REGISTRATION.media_variants)();
    for variant in variants.into_iter().filter(|of| [FEW, MIXED].contains(&of.kinds)) {
        let lsm = Store::new(variant, halite_lsm::REGISTRATION.open);
        // In these histories, the strike hits the only words that lead to the memtables, or to the newest writes.
        let seeds = (0..100).chain([0x9f9c_3920_dba8_2932, 0xbfe6_34ea_0a2a_39d8]);
        assert_seen(&strike(&lsm, Unseen::BY_ENGINES, seeds));
    }
}

#[test]
fn the_manager_of_segments_names_damage_or_answers_rightly() {
    assert_seen(&strike(&Space, Unseen::BY_SPACE, 0..1000));
}

#[test]
fn object_pools_and_zones_name_damage_or_answer_rightly() {
    assert_seen(&strike(&Objects, Unseen::BY_OBJECTS, 0..600));
}

#[test]
fn the_heap_names_damage_or_answers_rightly() {
    assert_seen(&strike(&HeapOfRows, Unseen::BY_HEAP, 0..90));
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
    // Only the owner of a segment could check its words, and there is none here.
    let mut media = Media::new(&Space);
    let violation = (0..100).find_map(|seed| media.strike(seed)).expect("wrong data");
    assert!(violation.what.contains("wrong data"), "{}", violation.what);
    let case = violation.case.to_string().parse().unwrap();
    let (story, what) = media.replay(&case);
    assert_eq!(what, Some(violation.what));
    assert!(story.iter().any(|line| line.contains("A fault strikes")), "{story:?}");
    assert!(story.iter().any(|line| line.contains("last stored to at crates/")), "{story:?}");
}
