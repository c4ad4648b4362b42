//! A leaf's place in a vdev: the device behind it, its state, and its counts.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};

use halite_pmem::Pinned;
use halite_sim::Site;
use halite_sim::locks::RwLock;

use crate::stats::Counter;
use crate::{Error, Extent, Leaf, LeafStats, Result};

/// Whether a leaf takes part.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LeafState {
    /// It is read and written.
    Online,
    /// An administrator took it away for a while.
    Offline,
    /// A write or a sync of it failed. It is read only where no other leaf has the bytes.
    Faulted,
    /// No device is behind it.
    Missing,
}

/// The state of a leaf of a vdev.
#[derive(Debug, Clone)]
pub struct LeafStatus {
    /// The device, as in a topology; of a missing one, the last that was there.
    pub name: String,
    /// Whether it takes part.
    pub state: LeafState,
    /// Whether it missed writes: it has all of them again once every extent was resilvered.
    pub is_stale: bool,
    /// Its activity.
    pub stats: LeafStats,
}

/// How far the bytes of a leaf can be relied on, the best first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Standing {
    /// It has every write.
    Current,
    /// It takes writes, and missed some before.
    Stale,
    /// Its device fails.
    Faulted,
    /// It cannot be read.
    Away,
}

pub(crate) struct Member {
    slot: RwLock<Slot>,
    /// Requests that are under way.
    outstanding: AtomicU32,
    reads: Counter,
    writes: Counter,
    syncs: Counter,
    checksum_errors: AtomicU64,
    repaired: AtomicU64,
}

struct Slot {
    leaf: Option<Arc<dyn Leaf>>,
    name: String,
    state: LeafState,
    is_stale: bool,
}

impl Member {
    pub(crate) fn new(leaf: Option<Arc<dyn Leaf>>) -> Self {
        let (name, state) = match &leaf {
            Some(leaf) => (leaf.name().to_owned(), LeafState::Online),
            None => ("a missing leaf".into(), LeafState::Missing),
        };
        // A device that is not there misses all writes, earlier and later ones.
        let slot = Slot { is_stale: leaf.is_none(), leaf, name, state };
        Self {
            slot: RwLock::new(slot),
            outstanding: AtomicU32::new(0),
            reads: Counter::default(),
            writes: Counter::default(),
            syncs: Counter::default(),
            checksum_errors: AtomicU64::new(0),
            repaired: AtomicU64::new(0),
        }
    }

    pub(crate) fn name(&self) -> String {
        self.slot.read().name.clone()
    }

    pub(crate) fn standing(&self) -> Standing {
        let slot = self.slot.read();
        match slot.state {
            LeafState::Online if slot.is_stale => Standing::Stale,
            LeafState::Online => Standing::Current,
            LeafState::Faulted => Standing::Faulted,
            LeafState::Offline | LeafState::Missing => Standing::Away,
        }
    }

    /// The device, if it takes writes.
    pub(crate) fn writable(&self) -> Option<Arc<dyn Leaf>> {
        let slot = self.slot.read();
        slot.leaf.clone().filter(|_| slot.state == LeafState::Online)
    }

    /// The device, whatever its state.
    pub(crate) fn device(&self) -> Option<Arc<dyn Leaf>> {
        self.slot.read().leaf.clone()
    }

    /// The order in which readers prefer leaves that have the same bytes: the smallest first.
    pub(crate) fn preference(&self) -> (Standing, bool, u32, u64) {
        let is_slow = self.slot.read().leaf.as_ref().is_none_or(|leaf| !leaf.is_memory());
        let outstanding = self.outstanding.load(Relaxed);
        (self.standing(), is_slow, outstanding, self.reads.requests())
    }

    /// The device of a leaf that can be read.
    fn readable(&self) -> Result<Arc<dyn Leaf>> {
        let slot = self.slot.read();
        let readable = matches!(slot.state, LeafState::Online | LeafState::Faulted);
        let leaf = slot.leaf.clone().filter(|_| readable);
        leaf.ok_or_else(|| Error::BadLeaf { leaf: slot.name.clone(), why: "it is away".into() })
    }

    pub(crate) fn read(&self, run: Extent, at: usize, to: &mut [u8]) -> Result<()> {
        let leaf = self.readable()?;
        self.outstanding.fetch_add(1, Relaxed);
        let read = self.reads.count(to.len(), || leaf.read(run, at, to));
        self.outstanding.fetch_sub(1, Relaxed);
        read
    }

    pub(crate) fn write(&self, leaf: &dyn Leaf, run: Extent, bytes: &[u8]) -> Result<()> {
        self.outstanding.fetch_add(1, Relaxed);
        let written = self.writes.count(bytes.len(), || leaf.write(run, bytes));
        self.outstanding.fetch_sub(1, Relaxed);
        written
    }

    pub(crate) fn append(
        &self,
        leaf: &dyn Leaf,
        run: Extent,
        at: usize,
        bytes: &[u8],
    ) -> Result<bool> {
        self.writes.count(bytes.len(), || leaf.append(run, at, bytes))
    }

    pub(crate) fn sync(&self, leaf: &dyn Leaf, site: Site) -> Result<()> {
        self.syncs.count(0, || leaf.sync(site))
    }

    /// Replaces bytes that are not what they should be, if the leaf takes writes. Returns whether all were replaced. A
    /// leaf that fails here is no worse than it was: the next write tells whether it takes any.
    pub(crate) fn repair(&self, run: Extent, at: usize, bytes: &[u8]) -> bool {
        let Some(leaf) = self.writable() else { return false };
        let patched = self.writes.count(bytes.len(), || leaf.patch(run, at, bytes));
        let is_whole = patched.unwrap_or(false);
        self.repaired.fetch_add(u64::from(is_whole), Relaxed);
        is_whole
    }

    /// Takes note that bytes of a run passed their check.
    pub(crate) fn vouch(&self, run: Extent) {
        if let Some(leaf) = self.device() {
            // A run that cannot be adopted now is read by a copy, and adopted another time.
            let _ = leaf.adopt(run);
        }
    }

    pub(crate) fn count_checksum_error(&self) {
        self.checksum_errors.fetch_add(1, Relaxed);
    }

    pub(crate) fn pin(&self, run: Extent, at: usize, len: usize) -> Result<Option<Pinned>> {
        self.readable().and_then(|leaf| leaf.pin(run, at, len))
    }

    pub(crate) fn fault(&self) {
        let mut slot = self.slot.write();
        if slot.state == LeafState::Online {
            slot.state = LeafState::Faulted;
        }
        slot.is_stale = true;
    }

    pub(crate) fn set_stale(&self, is_stale: bool) {
        if self.slot.read().is_stale != is_stale {
            self.slot.write().is_stale = is_stale;
        }
    }

    pub(crate) fn set_offline(&self) {
        let mut slot = self.slot.write();
        if slot.leaf.is_some() {
            slot.state = LeafState::Offline;
        }
    }

    /// Lets a leaf take part again. Returns whether there is a device.
    pub(crate) fn set_online(&self) -> bool {
        let mut slot = self.slot.write();
        if slot.leaf.is_some() {
            slot.state = LeafState::Online;
        }
        slot.leaf.is_some()
    }

    /// Puts another device in the leaf's place, which has none of its bytes.
    pub(crate) fn replace(&self, leaf: Arc<dyn Leaf>) {
        let name = leaf.name().to_owned();
        *self.slot.write() =
            Slot { leaf: Some(leaf), name, state: LeafState::Online, is_stale: true };
    }

    pub(crate) fn status(&self) -> LeafStatus {
        let slot = self.slot.read();
        let stats = LeafStats {
            reads: self.reads.get(),
            writes: self.writes.get(),
            syncs: self.syncs.get(),
            checksum_errors: self.checksum_errors.load(Relaxed),
            repaired: self.repaired.load(Relaxed),
        };
        LeafStatus { name: slot.name.clone(), state: slot.state, is_stale: slot.is_stale, stats }
    }
}
