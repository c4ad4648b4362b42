//! The engine's row in the registry, and its variants for the crash lab.

use std::sync::Arc;

use halite_contract::lab::{Kind, LEVELLED, Variant};
use halite_contract::{Beside, EngineOptions, Partitioning, Registration};
use halite_pmem::Domain;

use crate::experiments::{CommitPoints, Experiments};
use crate::options::{Durable, LsmOptions};
use crate::{Lsm, discard, repair};

/// The LSM engine.
pub const REGISTRATION: Registration = Registration {
    name: Lsm::NAME,
    about: "with the newest in the pool and the rest in sorted tables on an SSD",
    default_on: &[Domain::PageCache],
    is_asked_for: |options| LsmOptions::of(options) != LsmOptions::default(),
    open: |options| Ok(Arc::new(Lsm::open(options)?)),
    beside: Some(Beside {
        folder: Lsm::LEVELS,
        elsewhere: Some(|options| &mut options.own.get_mut::<LsmOptions>().levels),
        repair: repair::repair,
        discard: discard::discard_levels,
    }),
    offers: &[],
    devices: None,
    crash_variants,
    media_variants,
};

/// Where the latest commits are kept, how many trees there are, and how their commit points become durable.
const PLANS: [(&str, Durable, usize, CommitPoints); 5] = [
    ("lsm", Durable::Pool, 1, CommitPoints::Trailing),
    ("lsm-trees", Durable::Pool, 2, CommitPoints::Trailing),
    ("lsm-ordered", Durable::Pool, 2, CommitPoints::Ordered),
    ("lsm-log", Durable::Log, 1, CommitPoints::Trailing),
    ("lsm-log-trees", Durable::Log, 2, CommitPoints::Trailing),
];

/// Bytes of values that lie in files of their own, where histories are of those: about half of the short ones.
const LARGE_VALUE_BYTES: u64 = 20;

/// Bytes of memtables that have several zones.
const SEVERAL_ZONES: u64 = 16 << 20;

/// The part of the time that is for histories of values in files.
const VALUES_SHARE: u64 = 2;

impl LsmOptions {
    /// Memtables that are full soon, so that the short histories of the crash lab have every stage of them.
    #[must_use]
    pub fn for_lab(durable: Durable, commit_points: CommitPoints) -> Self {
        Self::for_lab_with_memtables(durable, commit_points, 1 << 10)
    }

    fn for_lab_with_memtables(durable: Durable, commit_points: CommitPoints, bytes: u64) -> Self {
        Self {
            durable,
            experiments: Experiments { commit_points, ..Experiments::default() },
            memtable_bytes: Some(bytes),
            // One memtable that is merged is enough for the levels.
            global_index_bytes: Some(bytes),
            table_bytes: Some(1 << 10),
            large_value_bytes: Some(1 << 20),
            // With a log, half of it is for rows in DRAM.
            cache_bytes: if durable == Durable::Log { 32 << 20 } else { 1 << 20 },
            ..Self::default()
        }
    }
}

fn options(lsm: LsmOptions, trees: usize) -> EngineOptions {
    let partitioning = Some(Partitioning::Hash(trees));
    EngineOptions { partitioning, own: lsm.into(), ..EngineOptions::new("pool") }
}

/// Does background work, and writes on conditions.
fn working(variant: Variant) -> Variant {
    Variant { works_ahead: true, ..variant }
}

/// The variant of a plan.
fn planned(name: String, options: EngineOptions) -> Variant {
    let has_one_log = options.own.get::<LsmOptions>().durable == Durable::Log;
    working(Variant { has_one_log, ..Variant::new(name, options) })
}

fn crash_variants() -> Vec<Variant> {
    let mut all = Vec::new();
    for (kind, kinds, share) in LEVELLED {
        for (name, durable, trees, points) in PLANS {
            let options = options(LsmOptions::for_lab(durable, points), trees);
            let variant = planned(format!("{name}-{kind}"), options);
            all.push(Variant { kinds, share, ..variant });
        }
    }
    for (kind, kinds) in [("few", &[Kind::Few]), ("mixed", &[Kind::Mixed])] {
        for (name, durable, trees, points) in PLANS {
            let lsm = LsmOptions {
                large_value_bytes: Some(LARGE_VALUE_BYTES),
                ..LsmOptions::for_lab(durable, points)
            };
            let variant = planned(format!("{name}-{kind}-values"), options(lsm, trees));
            all.push(Variant { kinds, share: VALUES_SHARE, ..variant });
        }
    }
    let (pool, trailing) = (Durable::Pool, CommitPoints::Trailing);
    let wide = options(LsmOptions::for_lab_with_memtables(pool, trailing, SEVERAL_ZONES), 1);
    all.push(working(Variant { kinds: &[Kind::Zones], ..Variant::new("lsm-zones", wide) }));
    for (name, trees) in [("lsm", 1), ("lsm-trees", 2)] {
        let options = options(LsmOptions::for_lab(pool, trailing), trees);
        all.push(working(Variant::concurrent(name, &options)));
    }
    all
}

fn media_variants() -> Vec<Variant> {
    Variant::common(Lsm::NAME, &EngineOptions::new("pool"))
}
