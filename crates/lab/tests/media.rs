//! Stores name what a faulty medium damaged, or return the right data.

use std::sync::Arc;

use halite_indexlog::IndexLog;
use halite_lab::{Ending, FaultKind, Media, MediaTally, Space, Store, Subject, Unseen};

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
    let tally = strike(&indexlog, UNSEEN_BY_INDEXLOG, 0..250);
    assert_seen(&tally);
    assert!(tally.strikes.named > 0, "large values are read and named");
    assert!(tally.strikes.shortened > 0, "the end of a log is not proven");
}

#[test]
fn the_manager_of_segments_names_damage_or_answers_rightly() {
    assert_seen(&strike(&Space, UNSEEN_BY_SPACE, 0..1000));
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

const STALE: &[FaultKind] = &[FaultKind::StaleLine, FaultKind::StaleBlock];
const CLOSED: &[Ending] = &[Ending::Closed];
const KILLED: &[Ending] = &[Ending::Killed];
const BOTH: &[Ending] = &[Ending::Closed, Ending::Killed];

/// A lost write to the block map of a store that was closed. Every word of an older map has its check.
const STALE_MAP_AFTER_CLOSE: Unseen =
    Unseen { kinds: STALE, file: "indexlog/src/block_map.rs", endings: CLOSED };

/// The same of a store that was killed: of what was changed in place, nothing tells the newest state.
const STALE_MAP_AFTER_KILL: Unseen =
    Unseen { kinds: STALE, file: "indexlog/src/block_map.rs", endings: KILLED };

const UNSEEN_BY_INDEXLOG: &[Unseen] = &[STALE_MAP_AFTER_CLOSE, STALE_MAP_AFTER_KILL];

const UNSEEN_BY_SPACE: &[Unseen] = &[
    // A free segment's word is zero, and nothing but its owner knows that a segment was allocated.
    Unseen {
        kinds: &[
            FaultKind::ZeroedLine,
            FaultKind::ZeroedBlock,
            FaultKind::StaleLine,
            FaultKind::StaleBlock,
        ],
        file: "alloc/src/segments.rs",
        endings: BOTH,
    },
    // What is in a segment is its owner's to check; the stamps have no checksum.
    Unseen { kinds: &FaultKind::ALL, file: "lab/src/space.rs", endings: BOTH },
];
