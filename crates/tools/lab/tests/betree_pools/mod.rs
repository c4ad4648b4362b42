//! Pools of the Bε-tree engine as subjects of the lab: single devices, mirrors and parity, with snapshots, a clone,
//! objects, values in extents of their own, and leaves that go and come back.
//!
//! A world's names are `data/KEY` and `copy/KEY` for the pairs of the dataset and its clone, `snapN/KEY` for those of a
//! snapshot, `snapshots:` with the numbers of the snapshots from the oldest on, `origin:` with that of the clone's,
//! and `object:` with an object's name and its bytes, as lengths and the bytes that repeat so often.

mod calls;
#[allow(dead_code, reason = "not every test looks at them")]
pub(crate) mod devices;
mod model;
pub(crate) mod steps;

use std::ops::ControlFlow;

use halite_betree::{Betree, BetreeOptions, LeafState, Position, Topology};
use halite_contract::{Engine, EngineOptions};
use halite_disk::{Disk, DiskModel};
use halite_lab::{Action, Digest, Random, Refusal, Subject, World, refusal};
use halite_pmem::Medium;

pub(crate) use steps::Step;

/// A pool of some devices.
#[derive(Clone, Copy)]
pub(crate) struct Pools {
    pub(crate) name: &'static str,
    /// The devices; none: the pool, and a file for what does not fit there.
    pub(crate) topology: Option<&'static str>,
    /// Bytes of a value from which on it lies in extents of its own.
    pub(crate) large_value_bytes: Option<u64>,
    /// Whether the steps are about objects, too.
    pub(crate) has_objects: bool,
}

/// The pools that are explored.
pub(crate) const POOLS: [Pools; 5] = [
    Pools {
        name: "betree-pool-single",
        topology: None,
        large_value_bytes: None,
        has_objects: true,
    },
    Pools {
        name: "betree-pool-values",
        topology: None,
        large_value_bytes: Some(20),
        has_objects: false,
    },
    Pools {
        name: "betree-pool-mirror",
        topology: Some("mirror file:leaf-0 file:leaf-1"),
        large_value_bytes: Some(100),
        has_objects: false,
    },
    Pools {
        name: "betree-pool-mixed",
        topology: Some("mirror pmem: file:leaf-1"),
        large_value_bytes: Some(100),
        has_objects: true,
    },
    Pools {
        name: "betree-pool-parity",
        topology: Some("parity1 file:leaf-0 file:leaf-1 file:leaf-2"),
        large_value_bytes: Some(100),
        has_objects: false,
    },
];

impl Pools {
    /// The pool of a name.
    #[allow(dead_code, reason = "a test may look at all of them")]
    pub(crate) fn of(name: &str) -> Self {
        *POOLS.iter().find(|pool| pool.name == name).expect("there is such a pool")
    }

    /// Leaves of its vdev.
    fn leaves(&self) -> u16 {
        let topology = self.topology.map(|text| text.parse::<Topology>().expect("a topology"));
        topology.map_or(1, |topology| topology.classes()[0].vdevs[0].leaves.len() as u16)
    }
}

fn refused(error: halite_contract::Error) -> Refusal {
    refusal(&error)
}

/// Goes on to the end.
fn on(_: u64, _: u64) -> ControlFlow<()> {
    ControlFlow::Continue(())
}

/// The states of the leaves of the first vdev, and which are stale.
fn states(engine: &Betree) -> Vec<(LeafState, bool)> {
    let status = engine.pool_status();
    let leaves = &status.classes[0].vdevs[0].leaves;
    leaves.iter().map(|leaf| (leaf.status.state, leaf.status.is_stale)).collect()
}

fn position(leaf: u16) -> Position {
    Position { class: 0, vdev: 0, leaf }
}

impl Subject for Pools {
    type Step = Step;
    type Open = Betree;

    fn name(&self) -> &str {
        self.name
    }

    fn capacity(&self) -> u64 {
        32 << 20
    }

    fn history(&self, random: &mut Random) -> Vec<Action<Step>> {
        steps::history(self, random)
    }

    fn afterlife(&self, random: &mut Random) -> Vec<Step> {
        steps::afterlife(self, random)
    }

    fn open(&self, medium: &Medium) -> Result<Betree, Refusal> {
        let own = BetreeOptions {
            topology: self.topology.map(|text| text.parse().expect("a topology")),
            large_value_bytes: self.large_value_bytes,
            ..BetreeOptions::for_lab()
        };
        let mut options = EngineOptions { own: own.into(), ..EngineOptions::new("pool") };
        options.pool_options.medium = Some(medium.clone());
        options.pool_options.size_max = self.capacity();
        options.disk = Some(Disk::model(&DiskModel::of(medium.machine())));
        Betree::open(&options).map_err(refused)
    }

    fn apply(&self, open: &mut Betree, step: &Step) -> Result<(), String> {
        calls::apply(open, step, self.leaves()).map_err(|error| error.to_string())
    }

    fn model(&self, world: &mut World, step: &Step) -> bool {
        model::apply(world, step)
    }

    /// An object is created before it is written to.
    fn worlds_within(&self, world: &World, step: &Step) -> Vec<World> {
        model::within(world, step).into_iter().collect()
    }

    /// A leaf whose sync failed is one that the others can spare.
    fn survives_failed_syncs(&self) -> bool {
        self.leaves() > 1
    }

    fn world(&self, open: &mut Betree) -> Result<World, Refusal> {
        calls::world(open).map_err(refused)
    }

    fn look_up(&self, open: &mut Betree, name: &[u8]) -> Result<Option<Digest>, Refusal> {
        Ok(self.world(open)?.get(name).copied())
    }

    fn verify(&self, open: &mut Betree) -> Result<(), Refusal> {
        let report = open.verify(&mut on).map_err(refused)?;
        if let Some(damage) = report.damage.into_iter().next() {
            return Err(refused(damage.into()));
        }
        if self.leaves() == 1 {
            return Ok(());
        }
        // A leaf that is not stale has everything.
        let is_whole = states(open).iter().all(|state| *state == (LeafState::Online, false));
        let report = open.scrub(&mut on).map_err(refused)?;
        match report.lost > 0 || is_whole && report.damaged > 0 {
            true => Err(Refusal::Failed(format!("a scrub finds {report:?}"))),
            false => Ok(()),
        }
    }
}
