//! Where the stores of the tests lie, and what the tests ask of them.

use std::collections::BTreeMap;

use halite_betree::{Betree, BetreeOptions, Error};
use halite_contract::{Direction, Engine, EngineOptions, KeyRange, KeySpaceId};
use halite_disk::{Disk, DiskModel};
use halite_pmem::{Domain, Medium, PoolOptions};

/// The pairs of a dataset.
pub(crate) type Pairs = BTreeMap<Vec<u8>, Vec<u8>>;

/// Sizes at which short histories fill memtables, buffers and leaves.
pub(crate) fn small() -> BetreeOptions {
    BetreeOptions {
        memtable_bytes: Some(4 << 10),
        buffer_bytes: Some(4 << 10),
        leaf_bytes: Some(2 << 10),
        part_bytes: Some(256),
        fanout: Some(3),
        runs_max: Some(3),
        large_value_bytes: Some(1 << 10),
        checkpoint_bytes: Some(64 << 10),
        cache_bytes: 1 << 20,
        ..BetreeOptions::default()
    }
}

/// Where a store lies.
pub(crate) enum Home {
    /// In a folder, with a thread that flushes.
    Folder(tempfile::TempDir),
    /// On a modelled medium, where commits flush.
    Medium(Medium),
}

impl Home {
    pub(crate) fn medium(domain: Domain) -> Self {
        Self::Medium(Medium::new(domain, 32 << 20).unwrap())
    }

    pub(crate) fn open(&self) -> Betree {
        self.open_with(small())
    }

    pub(crate) fn open_with(&self, own: BetreeOptions) -> Betree {
        let mut pool_options = PoolOptions::default();
        pool_options.size_max = 32 << 20;
        let own = own.into();
        let options = match self {
            Self::Folder(folder) => EngineOptions {
                pool_options,
                own,
                ..EngineOptions::new(folder.path().join("pool"))
            },
            Self::Medium(medium) => {
                pool_options.medium = Some(medium.clone());
                let disk = Some(Disk::model(&DiskModel::of(medium.machine())));
                EngineOptions { pool_options, own, disk, ..EngineOptions::new("pool") }
            }
        };
        Betree::open(&options).unwrap()
    }

    /// Opens the store again. Durable data stays, also if it is killed.
    pub(crate) fn reopen(&self, betree: Betree, kills: bool) -> Betree {
        self.reopen_with(betree, kills, small())
    }

    pub(crate) fn reopen_with(&self, betree: Betree, kills: bool, own: BetreeOptions) -> Betree {
        match self {
            Self::Medium(medium) if kills => {
                betree.sync().unwrap();
                medium.machine().cut_power();
                drop(betree);
                medium.restore_power();
            }
            _ => drop(betree),
        }
        self.open_with(own)
    }
}

pub(crate) fn is(error: &halite_contract::Error, matches: impl Fn(&Error) -> bool) -> bool {
    matches!(error, halite_contract::Error::Own(own) if own.downcast_ref().is_some_and(matches))
}

pub(crate) fn pairs(
    snapshot: &dyn halite_contract::Snapshot,
    space: KeySpaceId,
    direction: Direction,
) -> Pairs {
    let scan = snapshot.scan(space, KeyRange::all(), direction).unwrap();
    let pairs = scan.map(|pair| pair.unwrap()).map(|(key, value)| (key.to_vec(), value.to_vec()));
    pairs.collect()
}

pub(crate) fn verify(betree: &Betree) {
    let report = betree.verify(&mut |_, _| std::ops::ControlFlow::Continue(())).unwrap();
    assert!(report.damage.is_empty(), "{:?}", report.damage);
}
