//! Which variants of an engine the crash lab explores, and by which histories.
//!
//! The lab knows engines by the contract alone. Here the engine states the options that only it has, and the histories
//! that reach its own corners.

use crate::EngineOptions;

/// A kind of history.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A few short writes: all images can be looked at.
    Few,
    /// More of them, of all sorts, with closes and kills between them.
    Mixed,
    /// Runs of values that fill blocks, deferred mostly.
    Blocks,
    /// Values that do not fit a record, or just do.
    Large,
    /// Values that are overwritten until space has to be collected.
    Collecting,
    /// Batches that fill segments of a change log: one up to its end, and more behind it that are deferred.
    Segments,
    /// Values that nearly fill a segment, and short ones that go beyond its end.
    Zones,
    /// Batches that nearly fill memtables, and background work that hands them on after each.
    Levels,
    /// A block that is durable as a whole, and several behind it that are filled before a sync, with their words in
    /// different lines.
    Unsynced,
}

/// A variant of an engine.
#[derive(Debug, Clone)]
pub struct Variant {
    /// The name of its jobs.
    pub name: String,
    /// How it is opened. The lab says where the pool and the files beside it are.
    pub options: EngineOptions,
    /// Its kinds of histories; all of the common ones if there are none here.
    pub kinds: &'static [Kind],
    /// Whether snapshots of the index are taken now and then.
    pub snapshots_index: bool,
    /// Whether background work is done now and then, and writes on conditions.
    pub works_ahead: bool,
    /// Whether several threads call it, under a deterministic scheduler, in place of one that lives through histories.
    pub is_concurrent: bool,
    /// Whether deferred writes have one order over all partitions, of which a crash leaves a prefix; else each partition
    /// has its own.
    pub has_one_log: bool,
    /// Its part of the time, in proportion to the others.
    pub share: u64,
}

/// The kinds of histories that any engine is explored by, the cheap ones first, each with its name and its part of the
/// time.
const COMMON: [(&str, &[Kind], u64); 6] = [
    ("few", &[Kind::Few], 3),
    ("mixed", &[Kind::Mixed], 3),
    ("blocks", &[Kind::Blocks], 2),
    ("large", &[Kind::Large], 1),
    ("collecting", &[Kind::Collecting], 2),
    ("unsynced", &[Kind::Unsynced], 1),
];

/// The kinds of histories that an engine is explored by which hands its data on from level to level, each with its name
/// and its part of the time.
pub const LEVELLED: [(&str, &[Kind], u64); 5] = [
    ("few", &[Kind::Few], 3),
    ("mixed", &[Kind::Mixed], 3),
    ("levels", &[Kind::Levels], 2),
    ("large", &[Kind::Large, Kind::Blocks], 1),
    ("collecting", &[Kind::Collecting], 1),
];

/// The part of the time that is for concurrent histories.
const THREADS_SHARE: u64 = 2;

impl Variant {
    /// An engine opened by these options, which lives through all kinds of histories.
    #[must_use]
    pub fn new(name: impl Into<String>, options: EngineOptions) -> Self {
        Self {
            name: name.into(),
            options,
            kinds: &[],
            snapshots_index: false,
            works_ahead: false,
            is_concurrent: false,
            has_one_log: false,
            share: 1,
        }
    }

    /// One variant for each kind of history: `NAME-few`, for example.
    #[must_use]
    pub fn common(name: &str, options: &EngineOptions) -> Vec<Self> {
        let variant = |(kind, kinds, share)| Self {
            kinds,
            share,
            ..Self::new(format!("{name}-{kind}"), options.clone())
        };
        COMMON.map(variant).into()
    }

    /// The variant that several threads call: `NAME-threads`.
    #[must_use]
    pub fn concurrent(name: &str, options: &EngineOptions) -> Self {
        let share = THREADS_SHARE;
        let name = format!("{name}-threads");
        Self { is_concurrent: true, share, ..Self::new(name, options.clone()) }
    }
}

/// Whether a test of a crate, named without `halite-`, gets its deep budget in place of one for a first look:
/// `HALITE_DEEP` names such crates, or is `1` for all of them.
#[must_use]
pub fn is_deep(name: &str) -> bool {
    let asked = std::env::var("HALITE_DEEP").unwrap_or_default();
    asked == "1" || asked.split_whitespace().any(|word| word == name)
}
