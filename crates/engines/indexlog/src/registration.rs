//! The engine's row in the registry, and its variants for the crash lab.

use std::sync::Arc;

use halite_contract::lab::{Kind, Variant};
use halite_contract::{EngineOptions, Partitioning, Registration};
use halite_pmem::Domain;

use crate::{IndexLog, IndexLogOptions};

/// The index+log engine.
pub const REGISTRATION: Registration = Registration {
    name: IndexLog::NAME,
    about: "with everything in the pool",
    default_on: &[Domain::Memory, Domain::Platform, Domain::Process, Domain::Volatile],
    is_asked_for: |options| {
        let has_ranges = matches!(options.partitioning, Some(Partitioning::Ranges(_)));
        let has_own = IndexLogOptions::of(options) != IndexLogOptions::default();
        options.change_log.is_some() || has_ranges || has_own
    },
    open: |options| Ok(Arc::new(IndexLog::open(options)?)),
    beside: None,
    offers: &[],
    devices: None,
    crash_variants,
    media_variants,
};

/// Bytes that the stores write between two snapshots of the index, besides the snapshots that are requested.
const SNAPSHOT_EVERY: u64 = 256 << 10;

/// The parts of the time that are for stores with partitions, with a change log, and with snapshots of the index.
const PARTITIONS_SHARE: u64 = 3;
const CHANGES_SHARE: u64 = 4;
const SNAPSHOTS_SHARE: u64 = 3;

const FEW_AND_MIXED: &[Kind] = &[Kind::Few, Kind::Mixed];

/// Options without snapshots of the index.
fn plain() -> EngineOptions {
    let own = IndexLogOptions { index_snapshot: None, ..IndexLogOptions::default() };
    EngineOptions { own: own.into(), ..EngineOptions::new("pool") }
}

/// Options with the fewest partitions that can disagree.
fn partitioned() -> EngineOptions {
    EngineOptions { partitioning: Some(Partitioning::Hash(2)), ..plain() }
}

/// A change log that retains no segment, so that segments are released as soon as possible.
fn with_changes(options: EngineOptions) -> EngineOptions {
    EngineOptions { change_log: Some(0), ..options }
}

fn changes(kinds: &'static [Kind]) -> Variant {
    let share = CHANGES_SHARE;
    Variant { kinds, share, ..Variant::new("indexlog-changes", with_changes(plain())) }
}

fn snapshots(kinds: &'static [Kind]) -> Variant {
    let own =
        IndexLogOptions { index_snapshot: Some(SNAPSHOT_EVERY), ..IndexLogOptions::default() };
    let options = EngineOptions { own: own.into(), ..EngineOptions::new("pool") };
    let share = SNAPSHOTS_SHARE;
    Variant { kinds, snapshots_index: true, share, ..Variant::new("indexlog-snapshots", options) }
}

fn crash_variants() -> Vec<Variant> {
    let mut all = Variant::common(IndexLog::NAME, &plain());
    all.extend([
        Variant {
            kinds: FEW_AND_MIXED,
            share: PARTITIONS_SHARE,
            ..Variant::new("indexlog-partitions", partitioned())
        },
        // The partitions take segments from each other, and give them back.
        Variant {
            kinds: &[Kind::Large, Kind::Collecting],
            ..Variant::new("indexlog-space-partitions", partitioned())
        },
        changes(&[]),
        Variant {
            kinds: FEW_AND_MIXED,
            share: CHANGES_SHARE,
            ..Variant::new("indexlog-changes-partitions", with_changes(partitioned()))
        },
        snapshots(&[Kind::Mixed, Kind::Blocks, Kind::Collecting]),
        Variant::concurrent(IndexLog::NAME, &plain()),
    ]);
    all
}

fn media_variants() -> Vec<Variant> {
    let mut all = Variant::common(IndexLog::NAME, &plain());
    all.extend([changes(&[]), snapshots(&[])]);
    all
}
