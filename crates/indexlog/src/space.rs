//! Space for what is written: free blocks, from limbo, from collection, or from the pool.
//!
//! A write finds its room before anything of it happens ([`Writer::make_room_for`]). Some blocks stay free
//! for collection and deletes, so that a full store can be emptied. Of the partitions that share a pool,
//! each keeps those, and gives back segments beyond.

use halite_alloc::SEGMENT;
use halite_engine::{Error, Op, Result};
use halite_pmem::locks::RwLock;

use crate::append::draft;
use crate::block_map::{FIRSTS, Life, State};
use crate::collect::{COLLECT_BEFORE_GROWING, WORTHWHILE};
use crate::entry::Entry;
use crate::read::View;
use crate::record::{self, ALIGN, Draft, PIECES_MAX, Piece};
use crate::split::{CLASSES, class_of, piece_space, pieces};
use crate::write::{INTERNAL, Writer};
use crate::{BLOCK, BLOCKS_PER_SEGMENT};

/// What a batch may take in the log, in bytes. Values with blocks of their own do not count.
const BATCH_LEN_MAX: u64 = 256 << 20;

/// Blocks that may wait for a sync before a write brings it about: 8 MiB. They cannot be collected
/// before it; and the numbers of their first records, with those of the largest batch, have to stay
/// apart.
pub(crate) const UNSEALED_MAX: usize = 64;

/// Blocks that stay free for collection: one for what it moves, and spare ones, because a crash that
/// interrupts it leaves a block and its copy.
pub(crate) const RESERVE_COLLECT: u32 = 3;

/// Blocks that stay free for collection and deletes, so that a full store can be emptied.
pub(crate) const RESERVE_DELETE: u32 = RESERVE_COLLECT + 3;

/// A split block of which less than so many of 8 parts is taken is emptied before records are collected.
const SPARSE: u32 = 4;

/// Any split block is, before a store is full.
const ANY: u32 = 8;

/// What a write needs to find free.
#[derive(Default)]
pub(crate) struct Demand {
    blocks: u64,
    /// Slots of each class.
    slots: [u64; CLASSES],
}

impl Demand {
    pub(crate) fn of_blocks(blocks: u64) -> Self {
        Self { blocks, ..Self::default() }
    }

    /// Adds a large value. Returns the blocks and the slots that it takes.
    fn add(&mut self, value_len: usize) -> (u64, u64) {
        let (mut blocks, mut slots) = (0, 0);
        for len in pieces(value_len) {
            match class_of(len) {
                Some(class) => {
                    self.slots[class] += 1;
                    slots += 1;
                }
                None => blocks += len.div_ceil(BLOCK),
            }
        }
        self.blocks += blocks;
        (blocks, slots)
    }
}

/// What room is found for, and so what is done for it.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Effort {
    Put,
    Delete,
    /// The replay of a change log.
    Replay,
}

impl Writer {
    /// From now on other partitions take segments from the same pool: what this one needs to delete and
    /// to collect has to be its own.
    pub(crate) fn share_pool(&mut self) -> Result<()> {
        self.shares_pool = true;
        while self.blocks.free_count() < RESERVE_DELETE && self.add_segment()? {}
        Ok(())
    }

    /// Gives segments back that nothing is in: allocated before a crash and never used, or emptied.
    /// Returns how many. One fence each.
    pub(crate) fn release_empty_segments(&mut self) -> Result<u64> {
        let mut released = 0;
        for segment in self.device.logical_segments() {
            let own = if self.shares_pool { RESERVE_DELETE + BLOCKS_PER_SEGMENT } else { 0 };
            if self.blocks.free_count() >= own && self.blocks.is_segment_free(segment) {
                self.release_segment(segment)?;
                released += 1;
            }
        }
        Ok(released)
    }

    /// Gives the segment of a block that was freed to the other partitions, if this one has plenty. One
    /// fence.
    pub(crate) fn release_if_spare(&mut self, block: u32) -> Result<()> {
        let segment = block / BLOCKS_PER_SEGMENT;
        let plenty = RESERVE_DELETE + 2 * BLOCKS_PER_SEGMENT;
        let has_plenty = self.shares_pool && self.blocks.free_count() >= plenty;
        if has_plenty && self.blocks.is_segment_free(segment) {
            self.release_segment(segment)?;
        }
        Ok(())
    }

    pub(crate) fn release_segment(&mut self, segment: u32) -> Result<()> {
        self.device.release(segment)?;
        self.blocks.remove_segment(segment);
        Ok(())
    }

    /// Makes sure that the operations find room, so that nothing can fail halfway for lack of it.
    pub(crate) fn make_room_for(
        &mut self,
        view: &RwLock<View>,
        ops: &[Op<'_>],
        oldest_scan: &impl Fn() -> Option<u64>,
    ) -> Result<()> {
        if self.unsealed.len() > UNSEALED_MAX {
            self.sync_records()?;
        }
        let (mut demand, mut total, mut remaining) = (Demand::default(), 0, self.log.remaining());
        let mut of_values = 0;
        let mut logged = 0;
        let mut only_deletes = true;
        for op in ops {
            let draft = draft(op, 0, 0, 0);
            let mut len = draft.len();
            if let Op::Put { space, value, .. } = *op {
                // What a partition notes of a batch takes the place of an older note.
                only_deletes &= space.0 == INTERNAL;
                if Draft::needs_overflow(value) {
                    let (blocks, slots) = demand.add(value.len());
                    of_values += pieces(value.len()).map(piece_space).sum::<u64>();
                    // As if every block were a piece of its own: never too little.
                    let pieces = (blocks + slots).min(PIECES_MAX as u64) + 1;
                    len = len - value.len() as u64 + size_of::<Piece>() as u64 * pieces;
                }
            }
            logged += len;
            let len = len.next_multiple_of(ALIGN);
            total += len;
            if len > remaining {
                demand.blocks += 1;
                remaining = BLOCK;
            }
            remaining = remaining.saturating_sub(len);
        }
        if total > BATCH_LEN_MAX {
            return Err(Error::BatchTooLarge { len: total, limit: BATCH_LEN_MAX });
        }
        let effort = if only_deletes { Effort::Delete } else { Effort::Put };
        self.find_room(view, &demand, total + of_values, effort, oldest_scan)?;
        // Behind what finding room may have written.
        self.make_room_in_changes(logged)
    }

    /// Makes sure that the change log has room for operations of so many bytes.
    pub(crate) fn make_room_in_changes(&mut self, len: u64) -> Result<()> {
        let Some(changes) = &mut self.changes else { return Ok(()) };
        let made = changes.make_room(len, self.durable_seq);
        let mut has_room = self.poison_by(made)?;
        if !has_room && self.durable_seq + 1 < self.next_seq {
            // The oldest segment may go when the records of its entries are durable.
            self.sync_records()?;
            if let Some(changes) = &mut self.changes {
                let made = changes.make_room(len, self.durable_seq);
                has_room = self.poison_by(made)?;
            }
        }
        if has_room { Ok(()) } else { Err(self.full(None)) }
    }

    /// Makes sure that what is demanded is free, besides the reserves, and pays for what is appended.
    pub(crate) fn find_room(
        &mut self,
        view: &RwLock<View>,
        demand: &Demand,
        appended: u64,
        effort: Effort,
        oldest_scan: &impl Fn() -> Option<u64>,
    ) -> Result<()> {
        let reserve = if effort == Effort::Put { RESERVE_DELETE } else { RESERVE_COLLECT };
        // A delete is worth more effort: it is what makes room.
        let worthwhile = if effort == Effort::Put { WORTHWHILE } else { 1 };
        let lacks = |writer: &Self| {
            let needed = demand.blocks + writer.blocks.blocks_for(&demand.slots);
            u64::from(writer.blocks.free_count()) < needed + u64::from(reserve)
        };
        while lacks(self) {
            if self.release_limbo(view, oldest_scan())? {
                continue;
            }
            // While readers hold what was collected, collecting more only takes blocks.
            let spare = if self.has_block_in_limbo() { RESERVE_COLLECT } else { 0 };
            let can_collect = self.blocks.free_count() > spare;
            if can_collect && self.collection.is_some() {
                self.finish_collection(view)?;
                continue;
            }
            let emptiest = self.blocks.emptiest().filter(|_| can_collect);
            let (block, bytes) = emptiest.unwrap_or_default();
            if bytes >= COLLECT_BEFORE_GROWING {
                self.begin_collection(view, block, bytes)?;
                continue;
            }
            if self.add_segment()? {
                continue;
            }
            if let Some(changes) = &self.changes {
                let released = changes.release_old(self.durable_seq);
                if self.poison_by(released)? {
                    continue;
                }
            }
            let has_waiting = self.durable_seq + 1 < self.next_seq;
            if has_waiting && !(self.limbo.is_empty() && self.unsealed.is_empty()) {
                self.sync_records()?;
                continue;
            }
            // What is replayed has its numbers, and nothing else may be written between.
            let compacts = effort != Effort::Replay;
            if compacts && self.compact(view, SPARSE)? {
                continue;
            }
            let worth = bytes >= worthwhile && self.blocks.reclaimable() >= BLOCK;
            match self.blocks.victim(self.next_seq).filter(|_| worth) {
                Some((victim, gain)) => self.begin_collection(view, victim, gain)?,
                None if compacts && self.compact(view, ANY)? => {}
                None => return Err(self.full(oldest_scan())),
            }
        }
        self.pace(view, appended, oldest_scan)
    }

    /// Adds a segment to the data device, if the pool has one.
    pub(crate) fn add_segment(&mut self) -> Result<bool> {
        let segment = self.blocks.absent_segment();
        let blocks = segment * BLOCKS_PER_SEGMENT..(segment + 1) * BLOCKS_PER_SEGMENT;
        if u64::from(blocks.end) > Entry::BLOCKS_MAX {
            return Ok(false);
        }
        let grown = self.map.extend(blocks.end).and_then(|()| Ok(self.device.get(segment)?));
        let grant = match grown {
            Ok(grant) => grant,
            Err(Error::Alloc(halite_alloc::Error::Full { .. })) => return Ok(false),
            // What is durable of it is not known.
            Err(error) => return self.poison_by(Err(error)),
        };
        let lives: Result<Vec<_>> = blocks.clone().map(|block| self.map.get(block)).collect();
        let lives = lives?;
        let incarnations = || lives.iter().map(|life| life.unwrap_or(Life::NEVER_USED).incarnation);
        for (block, incarnation) in blocks.zip(incarnations()) {
            self.map.set(block, Life { state: State::Free, incarnation }, None);
        }
        // Other words may wait for their fence; it does not matter that they get one now.
        let mut flushed = Vec::new();
        self.map.flush(&mut flushed);
        let committed = self.pool.fence_all(&flushed).map_err(Error::from);
        let committed = committed.and_then(|_| Ok(grant.commit()?));
        self.poison_by(committed)?;
        self.blocks.add_segment(segment, incarnations());
        Ok(true)
    }

    pub(crate) fn take_block(&mut self) -> Result<u32> {
        self.blocks.take().ok_or_else(|| self.full(None))
    }

    /// That there is no room; what the scans from the oldest on keep may be why.
    pub(crate) fn full(&self, oldest_scan: Option<u64>) -> Error {
        let held = self.held_in_limbo(oldest_scan);
        Error::Full { used: self.blocks.live(), limit: self.pool.len_max(), held }
    }
}

/// Even records of no more than a header leave a gap in which the order of open blocks begins.
const _: () = assert!(
    (BATCH_LEN_MAX + (UNSEALED_MAX as u64 + 2) * BLOCK) / record::LEN_MIN < FIRSTS as u64 / 2
);
const _: () = assert!(SEGMENT == BLOCK * BLOCKS_PER_SEGMENT as u64);
