//! Trees: Bε-trees of immutable runs.
//!
//! A tree is a root, a node in memory or a pointer to a stored one ([`node`]). An [`Update`] brings sorted messages into
//! a tree and returns the next one: they become runs in the buffers of the root, and buffers that are full move on
//! ([`update`]). [`lookup`] finds a key on its way down, [`cursor`] scans, and [`write_back`] stores the nodes.
//!
//! ```text
//!  lookup of a key            update
//!      root                       root: a run for each slot      ──┐ a buffer is full:
//!       │ slot: runs, newest      │                                │ its runs are merged, and cut
//!       ▼ first                   ▼                                ▼ at the child's pivots
//!      node                       node
//!       │ slot: runs              │
//!       ▼                         ▼
//!      base run                   base run: merged with its buffer when that is as large
//! ```
//!
//! With `h` levels, a lookup reads at most one part of each of `h × runs_max + 1` runs, and mostly one: filters tell
//! which runs do not have the key. A message is written once a level, and once or twice as part of a leaf.

pub(crate) mod changes;
pub(crate) mod cursor;
mod dropped;
mod fit;
mod leaf_cut;
pub(crate) mod lookup;
pub(crate) mod node;
pub(crate) mod parts;
pub(crate) mod pointer;
pub(crate) mod replace;
pub(crate) mod update;
pub(crate) mod walk;
pub(crate) mod write_back;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use halite_cache::BlockCache;
use halite_codec::Seed;
use halite_sim::locks::Mutex;
use quick_cache::sync::{Cache, DefaultLifecycle};
use quick_cache::{DefaultHashBuilder, OptionsBuilder, Weighter};

use crate::actions::Actions;
use crate::heat::Heat;
use crate::message::Parsed;
use crate::run::{Directories, Run, RunPointer, RunStore};
use crate::settings::TreeSettings;
use crate::shares::Shares;
use crate::storage::{Extents, Storage};
use crate::{Error, Result};
use node::{Link, Node, Slot};
use pointer::NodePointer;

pub(crate) use dropped::Dropped;
pub(crate) use update::Update;

/// About how many nodes the cache has.
const NODES: usize = 1 << 10;

/// Bytes of memory of a node, of each of its slots, and of each run of those.
const NODE_BYTES: u64 = 128;
const SLOT_BYTES: u64 = 96;
const RUN_BYTES: u64 = size_of::<Run>() as u64 + 32;

/// Weighs nodes by the memory that they and their runs take beside directories.
#[derive(Clone)]
struct NodeBytes;

impl Weighter<(u64, u64), Arc<Node>> for NodeBytes {
    fn weight(&self, _: &(u64, u64), node: &Arc<Node>) -> u64 {
        let runs = |slot: &Slot| slot.runs.len() as u64 + u64::from(slot.base().is_some());
        let pivots = node.pivots.iter().map(|pivot| pivot.len() as u64);
        let slots = node.slots.iter().map(|slot| SLOT_BYTES + runs(slot) * RUN_BYTES);
        NODE_BYTES + pivots.chain(slots).sum::<u64>()
    }
}

/// The parts that all trees of a store share.
pub(crate) struct Context {
    pub(crate) storage: Arc<Storage>,
    pub(crate) runs: Arc<RunStore>,
    /// Stored nodes, by address and checksum: a place may be written again in the same epoch.
    nodes: Cache<(u64, u64), Arc<Node>, NodeBytes>,
    /// The memory of nodes, directories and parts. It is locked while a node is inserted.
    shares: Mutex<Arc<Shares>>,
    pub(crate) seed: Seed,
    pub(crate) settings: TreeSettings,
    /// Extents that are written now are born in this epoch: a number that grows with every checkpoint, and every snapshot.
    epoch: AtomicU64,
    /// The actions of datasets, which give messages their meaning.
    pub(crate) actions: Actions,
}

/// A Bε-tree. It never changes; a clone shares everything.
#[derive(Clone)]
pub(crate) struct Tree {
    pub(crate) root: Link,
}

impl Context {
    pub(crate) fn new(
        storage: Arc<Storage>,
        (cache, cache_bytes): (Arc<BlockCache>, u64),
        seed: Seed,
        settings: TreeSettings,
        epoch: u64,
        actions: Actions,
    ) -> Self {
        let extents: Arc<dyn Extents> = Arc::clone(&storage) as _;
        let heat = settings.spill_percent.map(|_| Heat::new());
        let shares = Arc::new(Shares::new(Arc::clone(&cache), cache_bytes));
        let directories = Directories::new(Arc::clone(&shares));
        let runs = Arc::new(RunStore { extents, cache, directories, seed, heat });
        let options = OptionsBuilder::new()
            .shards(1)
            .estimated_items_capacity(NODES)
            .weight_capacity(shares.node_bytes_max())
            .build()
            .expect("both capacities are set");
        let (hasher, lifecycle) = (DefaultHashBuilder::default(), DefaultLifecycle::default());
        let nodes = Cache::with_options(options, NodeBytes, hasher, lifecycle);
        let (shares, epoch) = (Mutex::new(shares), AtomicU64::new(epoch));
        Self { storage, runs, nodes, shares, seed, settings, epoch, actions }
    }

    /// The epoch in which things are born now.
    pub(crate) fn epoch(&self) -> u64 {
        self.epoch.load(Ordering::Acquire)
    }

    /// Begins an epoch.
    pub(crate) fn begin_epoch(&self, epoch: u64) {
        self.epoch.store(epoch, Ordering::Release);
    }

    /// The class for new data that prefers one: a slower one that is not too full, where that is.
    pub(crate) fn spill(&self, class: u8) -> u8 {
        let Some(percent) = self.settings.spill_percent else { return class };
        self.storage.space(|space| space.spill(class, percent))
    }

    /// Opens a run.
    pub(crate) fn open_run(&self, pointer: RunPointer) -> Arc<Run> {
        Run::open(Arc::clone(&self.runs), pointer)
    }

    /// The node of a link that leads to one.
    pub(crate) fn node(&self, link: &Link) -> Result<Arc<Node>> {
        match link {
            Link::Fresh(node) => Ok(Arc::clone(node)),
            Link::Stored(pointer) => self.load(pointer),
            Link::Leaf(_) => unreachable!("a leaf has no node"),
        }
    }

    /// A stored node.
    fn load(&self, pointer: &NodePointer) -> Result<Arc<Node>> {
        let key = (pointer.extent.address.to_bits(), pointer.checksum);
        if let Some(node) = self.nodes.get(&key) {
            return Ok(node);
        }
        let mut bytes = vec![0; pointer.len as usize];
        let check = |bytes: &[u8]| pointer.fits(self.seed, bytes);
        self.storage.read("node", pointer.extent, 0, &mut bytes, &check)?;
        let node = pointer::decode(&bytes, &|run| self.open_run(run));
        let node = Arc::new(node.map_err(|why| self.damaged(pointer, why))?);
        self.remember(pointer, &node);
        Ok(node)
    }

    /// Keeps a stored node in the cache.
    fn remember(&self, pointer: &NodePointer, node: &Arc<Node>) {
        let key = (pointer.extent.address.to_bits(), pointer.checksum);
        let shares = self.shares.lock();
        let bytes = self.nodes.weight() + NodeBytes.weight(&key, node);
        shares.set_nodes(bytes.min(shares.node_bytes_max()));
        self.nodes.insert(key, Arc::clone(node));
    }

    fn damaged(&self, pointer: &NodePointer, why: &str) -> Error {
        Error::Damaged { what: "node", address: pointer.extent.address, why: why.to_owned() }
    }

    /// Bytes of nodes, directories and parts in the caches.
    pub(crate) fn cached_bytes(&self) -> u64 {
        let runs = &self.runs;
        self.nodes.weight() + runs.directories.used_bytes() + runs.cache.used_bytes()
    }
}

impl Tree {
    /// A tree of no message.
    pub(crate) fn empty() -> Self {
        Self { root: Link::Fresh(Arc::new(Node::empty(1))) }
    }

    /// The tree whose root is stored.
    pub(crate) fn of_stored(root: NodePointer) -> Self {
        Self { root: Link::Stored(Arc::new(root)) }
    }

    /// Whether it has no message, as far as that is known without reading.
    pub(crate) fn is_empty(&self) -> bool {
        match &self.root {
            Link::Fresh(node) => node.slots.iter().all(node::Slot::is_empty),
            _ => false,
        }
    }

    /// The pointer to its root, if that is stored.
    pub(crate) fn stored(&self) -> Option<NodePointer> {
        match &self.root {
            Link::Stored(pointer) => Some(**pointer),
            _ => None,
        }
    }
}

/// A defect in a message, as an error of the run that has it.
pub(crate) fn in_run<T>(run: &Run, parsed: Parsed<T>) -> Result<T> {
    parsed.map_err(|why| Error::Damaged {
        what: "message of a run",
        address: run.pointer().extents[0].address,
        why: why.to_owned(),
    })
}
