//! The space of a partition: its blocks, the map that durably states their content, and the space in limbo.
//!
//! A block that records are to go into is taken ([`Space::take_block`]), its word in the map says that it is open
//! ([`Space::open`]), then that it is sealed ([`Space::seal`]); when the block is collected it goes to limbo
//! (`limbo`), and out of it again (`release`). Pieces of large values have blocks, or runs of split blocks (`split`),
//! that the map does not know. The block that collection copies to stays free in the map until its copies are covered.
//! Where nothing is free, the pool has more segments (`segments`), or `collection` empties blocks.

use std::sync::Arc;

use halite_alloc::{Device, Segments};
use halite_contract::{Error, Result};
use halite_pmem::{Fenced, Flushed, Pool};
use halite_sim::locks::RwLock;

use crate::index_snapshot::Snapshots;
use crate::read::scans::Scans;
use crate::read::view::View;

pub(crate) mod allocations;
pub(crate) mod block_map;
pub(crate) mod blocks;
pub(crate) mod carving;
mod free_blocks;
pub(crate) mod health;
pub(crate) mod limbo;
mod release;
pub(crate) mod reserves;
mod segments;
pub(crate) mod split;
mod under_scans;
pub(crate) mod victims;

use block_map::{BlockMap, FIRSTS, Life, State};
use blocks::Blocks;
use carving::Carving;
use health::WriterHealth;
use limbo::{Limbo, LimboList};

/// The blocks of a partition, and their durable map.
///
/// - A block that the map calls free holds no record that recovery needs. Its word is free, durably, before `blocks`
///   gives it to a write again.
/// - A block that the map calls sealed has durable records only.
/// - Space that was visible is free in `blocks` only when no recovery, no scan and no reader can reach it: until then
///   it is in limbo.
pub(crate) struct Space {
    pool: Pool,
    carving: Carving,
    /// The seed of the partition's checksums.
    salt: u64,
    map: BlockMap,
    blocks: Blocks,
    limbo: LimboList,
    /// The scans that may still read the space in limbo.
    scans: Arc<Scans>,
    /// Snapshots of the index, which give their space to writes.
    snapshots: Option<Snapshots>,
    /// Whether other partitions, or a change log, take segments from the same pool.
    shares_pool: bool,
    /// Whether the pool had no segment when one was wanted last.
    is_full: bool,
    pub(crate) health: WriterHealth,
}

impl Space {
    /// The space of an empty partition, or of one whose blocks are still to be read from the map.
    pub(crate) fn new(segments: &Segments, device: Device, map: BlockMap) -> Result<Self> {
        Ok(Self {
            pool: segments.pool().clone(),
            carving: Carving::new(device),
            salt: map.salt(),
            map,
            blocks: Blocks::new(segments.pool().random()?),
            limbo: LimboList::default(),
            scans: Arc::default(),
            snapshots: None,
            shares_pool: false,
            is_full: false,
            health: WriterHealth::new(segments.pool().clone()),
        })
    }

    pub(crate) fn pool(&self) -> &Pool {
        &self.pool
    }

    pub(crate) fn device(&self) -> &Device {
        self.carving.device()
    }

    /// The segments of the data device, to take blocks and pieces of.
    pub(crate) fn carving(&self) -> &Carving {
        &self.carving
    }

    /// The seed of the partition's checksums.
    pub(crate) fn salt(&self) -> u64 {
        self.salt
    }

    pub(crate) fn map(&self) -> &BlockMap {
        &self.map
    }

    pub(crate) fn map_mut(&mut self) -> &mut BlockMap {
        &mut self.map
    }

    pub(crate) fn blocks(&self) -> &Blocks {
        &self.blocks
    }

    pub(crate) fn blocks_mut(&mut self) -> &mut Blocks {
        &mut self.blocks
    }

    pub(crate) fn limbo(&self) -> &LimboList {
        &self.limbo
    }

    pub(crate) fn scans(&self) -> &Arc<Scans> {
        &self.scans
    }

    /// Whether the pool had no segment when one was wanted last.
    pub(crate) fn is_full(&self) -> bool {
        self.is_full
    }

    /// Puts space that the index no longer points to in limbo.
    pub(crate) fn push_limbo(&mut self, limbo: Limbo) {
        self.limbo.push(limbo);
    }

    /// Lets snapshots of the index give way to writes from now on.
    pub(crate) fn set_snapshots(&mut self, snapshots: Snapshots) {
        self.snapshots = Some(snapshots);
    }

    /// Gives the space of all snapshots of the index back to the pool. Returns whether there was any.
    pub(crate) fn release_snapshots(&self) -> Result<bool> {
        self.snapshots.as_ref().map_or(Ok(false), Snapshots::release)
    }

    /// Fences `flushed` together with the words of the map that wait.
    #[track_caller]
    pub(crate) fn fence_with_map(&mut self, mut flushed: Vec<Flushed>) -> Result<Vec<Fenced>> {
        self.map.flush(&mut flushed);
        if flushed.is_empty() {
            return Ok(Vec::new());
        }
        Ok(self.pool.fence_all(&flushed)?)
    }

    /// Takes a free block for records, which the view does not show yet.
    pub(crate) fn take_block(&mut self, view: &RwLock<View>) -> Result<u32> {
        let epoch = view.read().epoch;
        self.blocks.take(epoch).ok_or_else(|| self.full())
    }

    /// Notes in the map that records are appended to a block, the first of which is number `first`.
    pub(crate) fn open(&mut self, block: u32, first: u64) {
        let state = State::Open((first % u64::from(FIRSTS)) as u32);
        let incarnation = self.blocks.incarnation(block);
        self.map.set(block, Life { state, incarnation }, None);
    }

    /// Lets the map's word of a block cover its first `used` bytes, whose durability is proved, with the next fence.
    pub(crate) fn cover(&mut self, block: u32, used: u64, proof: &Fenced) {
        let incarnation = self.blocks.incarnation(block);
        self.map.set(block, Life { state: State::Sealed(used), incarnation }, Some(proof));
    }

    /// Ends the appending to a block of `used` bytes of records, all durable, before record `seq`.
    pub(crate) fn seal(&mut self, block: u32, used: u64, proof: &Fenced, seq: u64) {
        self.cover(block, used, proof);
        self.blocks.seal(block, used, seq);
    }

    /// Bytes that scans keep: space that only they may read, and dead records that cannot be collected because scans
    /// read their blocks.
    pub(crate) fn held(&mut self) -> u64 {
        self.limbo.pinned_bytes() + self.blocks.kept(self.scans.youngest())
    }

    /// The error that there is no room, with the space that scans keep, which may be the reason.
    pub(crate) fn full(&mut self) -> Error {
        let (held, holder) = (self.held(), self.scans.oldest());
        Error::Full { used: self.blocks.live(), limit: self.pool.len_max(), held, holder }
    }
}
