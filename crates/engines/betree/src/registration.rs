//! The engine's row in the registry, and its variants for the crash lab.

use std::sync::Arc;

use halite_contract::lab::{Kind, Variant};
use halite_contract::{Beside, Devices, EngineOptions, Feature, Registration};

use crate::options::BetreeOptions;
use crate::{Betree, repair};

/// The Bε-tree engine.
pub const REGISTRATION: Registration = Registration {
    name: Betree::NAME,
    about: "with Bε-trees over persistent memory and an SSD",
    default_on: &[],
    is_asked_for: |options| BetreeOptions::of(options) != BetreeOptions::default(),
    open: |options| Ok(Arc::new(Betree::open(options)?)),
    beside: Some(Beside {
        folder: Betree::FOLDER,
        elsewhere: |options| &mut options.own.get_mut::<BetreeOptions>().folder,
        repair: repair::repair,
        discard: repair::discard,
    }),
    offers: &[Feature::Objects, Feature::Pool, Feature::Datasets, Feature::Trees],
    devices: Some(Devices {
        topology: |options| &mut options.own.get_mut::<BetreeOptions>().topology,
        search: |options| &mut options.own.get_mut::<BetreeOptions>().search,
    }),
    crash_variants,
    media_variants,
};

/// The kinds of histories, each with its name and its part of the time.
const KINDS: [(&str, &[Kind], u64); 5] = [
    ("few", &[Kind::Few], 3),
    ("mixed", &[Kind::Mixed], 3),
    ("levels", &[Kind::Levels], 2),
    ("large", &[Kind::Large, Kind::Blocks], 1),
    ("collecting", &[Kind::Collecting], 1),
];

impl BetreeOptions {
    /// Memtables, buffers and leaves that are full soon, so that the short histories of the crash lab have every stage
    /// of them.
    #[must_use]
    pub fn for_lab() -> Self {
        Self {
            memtable_bytes: Some(1 << 10),
            buffer_bytes: Some(512),
            leaf_bytes: Some(512),
            part_bytes: Some(128),
            fanout: Some(3),
            runs_max: Some(2),
            checkpoint_bytes: Some(2 << 10),
            cache_bytes: 1 << 20,
            ..Self::default()
        }
    }
}

/// Bytes of values that lie in extents of their own, where histories are of those: about half of the short ones.
const LARGE_VALUE_BYTES: u64 = 20;

fn variant(name: String, own: BetreeOptions) -> Variant {
    let options = EngineOptions { own: own.into(), ..EngineOptions::new("pool") };
    Variant { works_ahead: true, ..Variant::new(name, options) }
}

fn crash_variants() -> Vec<Variant> {
    let mut all = Vec::new();
    for (kind, kinds, share) in KINDS {
        let of_kind = variant(format!("betree-{kind}"), BetreeOptions::for_lab());
        all.push(Variant { kinds, share, ..of_kind });
    }
    for (kind, kinds) in [("few", &[Kind::Few]), ("mixed", &[Kind::Mixed])] {
        let large_value_bytes = Some(LARGE_VALUE_BYTES);
        let own = BetreeOptions { large_value_bytes, ..BetreeOptions::for_lab() };
        all.push(Variant { kinds, share: 2, ..variant(format!("betree-{kind}-values"), own) });
    }
    let options =
        EngineOptions { own: BetreeOptions::for_lab().into(), ..EngineOptions::new("pool") };
    all.push(Variant { works_ahead: true, ..Variant::concurrent("betree", &options) });
    all
}

fn media_variants() -> Vec<Variant> {
    Variant::common(Betree::NAME, &EngineOptions::new("pool"))
}
