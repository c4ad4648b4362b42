//! The engine's row in the registry, and its variants for the crash lab.

use std::sync::Arc;

use halite_contract::lab::{Kind, LEVELLED, Variant};
use halite_contract::{Beside, Devices, EngineOptions, Feature, Registration};

use crate::options::{BetreeOptions, Buffers, Migration};
use crate::placement::Placement;
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
        elsewhere: Some(|options| &mut options.own.get_mut::<BetreeOptions>().folder),
        repair: repair::repair,
        discard: repair::discard,
    }),
    offers: &[
        Feature::Objects,
        Feature::Pool,
        Feature::Datasets,
        Feature::Transfers,
        Feature::Tiers,
        Feature::Trees,
    ],
    devices: Some(Devices {
        topology: |options| &mut options.own.get_mut::<BetreeOptions>().topology,
        search: |options| &mut options.own.get_mut::<BetreeOptions>().search,
    }),
    crash_variants,
    media_variants,
};

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

/// Two classes, of which the fast one is above its threshold after a few blocks, and migration: runs and values go down.
fn of_tiers() -> BetreeOptions {
    BetreeOptions {
        topology: Some("file:fast@17M ; file:slow".parse().expect("two devices")),
        placement: Placement { leaves: 1, ..Placement::default() },
        migration: Some(Migration {
            threshold_percent: 1,
            budget_bytes_per_round: 64 << 10,
            ..Migration::default()
        }),
        large_value_bytes: Some(LARGE_VALUE_BYTES),
        ..BetreeOptions::for_lab()
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
    for (kind, kinds, share) in LEVELLED {
        let of_kind = variant(format!("betree-{kind}"), BetreeOptions::for_lab());
        all.push(Variant { kinds, share, ..of_kind });
    }
    let short: [(&str, &[Kind]); 2] = [("few", &[Kind::Few]), ("mixed", &[Kind::Mixed])];
    for (kind, kinds) in short {
        let large_value_bytes = Some(LARGE_VALUE_BYTES);
        let own = BetreeOptions { large_value_bytes, ..BetreeOptions::for_lab() };
        all.push(Variant { kinds, share: 2, ..variant(format!("betree-{kind}-values"), own) });
        let of_kind = variant(format!("betree-{kind}-tiers"), of_tiers());
        all.push(Variant { kinds, share: 2, ..of_kind });
    }
    // Also where an ordinary file is the pool: it is appended to as memory is.
    for (name, kinds) in [("few", &[Kind::Few]), ("levels", &[Kind::Levels])] {
        let (buffers, topology) = (Buffers::InPlace, "pmem:".parse().ok());
        let own = BetreeOptions { buffers, topology, ..BetreeOptions::for_lab() };
        let of_kind = variant(format!("betree-{name}-in-place"), own);
        all.push(Variant { kinds, share: 2, ..of_kind });
    }
    // A few short writes fill a memtable, and two memtables ask for a checkpoint: so there are some beside other commits.
    let own = BetreeOptions {
        memtable_bytes: Some(64),
        checkpoint_bytes: Some(128),
        large_value_bytes: Some(LARGE_VALUE_BYTES),
        ..BetreeOptions::for_lab()
    };
    let options = EngineOptions { own: own.into(), ..EngineOptions::new("pool") };
    all.push(Variant { works_ahead: true, ..Variant::concurrent("betree", &options) });
    all
}

fn media_variants() -> Vec<Variant> {
    Variant::common(Betree::NAME, &EngineOptions::new("pool"))
}

#[cfg(test)]
mod tests {
    use halite_contract::{Durability, Engine, Op, SpaceManagement};
    use halite_disk::{Disk, DiskModel};
    use halite_pmem::{Domain, Medium, PoolOptions};

    use super::*;

    /// The bytes that migrated to each class in a short history.
    fn migrated() -> Vec<u64> {
        let medium = Medium::new(Domain::PageCache, 32 << 20).unwrap();
        let mut pool_options = PoolOptions::default();
        (pool_options.size_max, pool_options.medium) = (32 << 20, Some(medium.clone()));
        let disk = Some(Disk::model(&DiskModel::of(medium.machine())));
        let own = of_tiers().into();
        let options = EngineOptions { pool_options, disk, own, ..EngineOptions::new("pool") };
        let betree = Betree::open(&options).unwrap();
        let space = betree.key_space("one").unwrap();
        for number in 0..300_usize {
            let (key, value) = ([number as u8 % 60], vec![number as u8; number % 50]);
            let put = Op::Put { space, key: &key, value: &value };
            betree.write(&[put], Durability::Deferred).unwrap();
            if number % 4 == 0 {
                betree.collect_ahead(0).unwrap();
            }
        }
        betree.pool_status().classes.iter().map(|class| class.migrated_in).collect()
    }

    #[test]
    fn short_histories_of_the_lab_migrate() {
        assert!(migrated()[1] > 0);
    }
}
