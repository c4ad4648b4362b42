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
fn scout() {
    let n: u64 = std::env::var("N").map_or(20, |n| n.parse().unwrap());
    let all = std::env::var("ALL").is_ok();
    let indexlog = Store::new("indexlog", |options| Ok(Arc::new(IndexLog::open(options)?)));
    scout_one(&indexlog, n, if all { &[] } else { UNSEEN_BY_INDEXLOG });
    scout_one(&Space, n, if all { &[] } else { UNSEEN_BY_SPACE });
}

fn scout_one<S: Subject>(subject: &S, n: u64, unseen: &[Unseen]) {
    let start = std::time::Instant::now();
    let mut media = Media::new(subject).without(unseen);
    let mut shown = std::collections::BTreeMap::new();
    for seed in 0..n {
        if let Some(violation) = media.strike(seed) {
            let (story, _) = media.replay(&violation.case);
            let at = story.iter().position(|l| l.starts_with("The store is")).unwrap_or(0);
            let key: Vec<_> = story[at..]
                .iter()
                .map(|l| l.split("bytes").next().unwrap().split('(').last().unwrap().to_string())
                .collect();
            let entry = shown.entry(key).or_insert((0, String::new()));
            entry.0 += 1;
            entry.1 = format!("{}: {}\n{}", violation.case, violation.what, story[at..].join("\n"));
        }
    }
    for (count, text) in shown.values() {
        println!("x{count} {text}");
    }
    println!(
        "{} {:#?} {:.0}/s",
        subject.name(),
        media.tally,
        media.tally.strikes.total() as f64 / start.elapsed().as_secs_f64()
    );
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
