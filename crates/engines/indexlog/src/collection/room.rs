//! Space for writes: free blocks, from limbo, from collection, or from the pool.
//!
//! A write finds its room before it changes anything ([`Writer::make_room_for`]). Some blocks stay free for
//! collection and deletes, so that a full store can be emptied. Each of the partitions that share a pool keeps such a
//! reserve, and gives back segments beyond it.

use crate::collection::compact::SPARSE;
use crate::log::append::UNSEALED_MAX;
use crate::space::reserves::RESERVE_BOOKKEEPING;
use crate::space::reserves::RESERVE_COLLECT;
use crate::space::reserves::RESERVE_DELETE;
use halite_alloc::SEGMENT;
use halite_contract::{Error, Op, Result};
use halite_sim::locks::RwLock;

use crate::collection::collect::COLLECT_BEFORE_GROWING;
use crate::entry::Entry;
use crate::index_snapshot::Own;
use crate::key_spaces::INTERNAL;
use crate::read::view::View;
use crate::record::op::draft;
use crate::record::{self, ALIGN, Draft, PIECES_MAX, Piece};
use crate::space::block_map::{FIRSTS, Life, State};
use crate::space::split::{CLASSES, class_of, piece_space, pieces};
use crate::space::victims::WORTHWHILE;
use crate::write::Writer;
use crate::{BLOCK, BLOCKS_PER_SEGMENT};

/// The most that a batch may take in the log, in bytes. Values with blocks of their own do not count.
const BATCH_LEN_MAX: u64 = 256 << 20;

/// Any split block is emptied before a store is full.
const ANY: u32 = 8;

/// The blocks and slots that a write needs to find free.
#[derive(Default)]
struct Demand {
    blocks: u64,
    /// Slots of each class.
    slots: [u64; CLASSES],
}

impl Demand {
    /// Adds a large value. Returns the most pieces that it is cut into.
    fn add(&mut self, value_len: usize) -> u64 {
        let mut most = 0;
        for len in pieces(value_len) {
            match class_of(len) {
                Some(class) => {
                    self.slots[class] += 1;
                    most += 1;
                }
                None => {
                    self.blocks += len.div_ceil(BLOCK);
                    most += len.div_ceil(BLOCK);
                }
            }
        }
        most
    }
}

/// The kind of operation that room is found for, which decides how much is done for it.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Effort {
    Put,
    /// A small put, for which others leave room.
    Bookkeeping,
    Delete,
    /// The replay of a change log.
    Replay,
}

/// The space that records take in the log.
struct Packed {
    /// Blocks besides the one that the log is in.
    blocks: u64,
    bytes: u64,
}

impl Writer {
    /// From now on other partitions, or a change log, take segments from the same pool: this partition has to own the
    /// blocks that it needs to delete and to collect.
    pub(crate) fn share_pool(&mut self) -> Result<()> {
        self.shares_pool = true;
        while self.blocks.free_count() < RESERVE_BOOKKEEPING && self.add_segment()? {}
        Ok(())
    }

    /// Gives back empty segments: allocated before a crash and never used, or emptied. Returns how many. One fence
    /// each.
    pub(crate) fn release_empty_segments(&mut self) -> Result<u64> {
        let mut released = 0;
        for segment in self.device.logical_segments() {
            let own = if self.shares_pool { RESERVE_BOOKKEEPING + BLOCKS_PER_SEGMENT } else { 0 };
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
        let plenty = RESERVE_BOOKKEEPING + 2 * BLOCKS_PER_SEGMENT;
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
    pub(crate) fn make_room_for(&mut self, view: &RwLock<View>, ops: &[Op<'_>]) -> Result<()> {
        if self.unsealed.len() > UNSEALED_MAX {
            self.sync_records()?;
        }
        let (mut demand, mut of_values, mut only_deletes) = (Demand::default(), 0, true);
        let packed = self.packed(ops.iter().map(|op| {
            let len = draft(op, 0, 0, 0).len();
            let Op::Put { space, value, .. } = *op else { return len };
            // A partition's own record of a batch takes the place of an older one.
            only_deletes &= space.0 == INTERNAL;
            if !Draft::needs_overflow(value) {
                return len;
            }
            of_values += pieces(value.len()).map(piece_space).sum::<u64>();
            // As if every block were a piece of its own: never too little.
            let pieces = demand.add(value.len()).min(PIECES_MAX as u64) + 1;
            len - value.len() as u64 + size_of::<Piece>() as u64 * pieces
        }));
        if packed.bytes > BATCH_LEN_MAX {
            return Err(Error::BatchTooLarge { len: packed.bytes, limit: BATCH_LEN_MAX });
        }
        self.make_room_in_changes(packed.bytes)?;
        demand.blocks += packed.blocks;
        let effort = match (only_deletes, self.is_bookkeeping) {
            (true, _) => Effort::Delete,
            (false, true) => Effort::Bookkeeping,
            (false, false) => Effort::Put,
        };
        let next_seq = self.next_seq;
        self.find_room(view, &demand, packed.bytes + of_values, effort)?;
        if self.next_seq > next_seq {
            // Emptying blocks of slots has written to the change log.
            self.make_room_in_changes(packed.bytes)?;
        }
        Ok(())
    }

    /// The space that records of these lengths take behind the log's tail.
    fn packed(&self, lens: impl Iterator<Item = u64>) -> Packed {
        let mut packed = Packed { blocks: 0, bytes: 0 };
        let mut remaining = self.log.remaining();
        for len in lens.map(|len| len.next_multiple_of(ALIGN)) {
            packed.bytes += len;
            if len > remaining {
                packed.blocks += 1;
                remaining = BLOCK;
            }
            remaining = remaining.saturating_sub(len);
        }
        packed
    }

    /// Makes sure that records which the change log has find room again. They had it before, so where no other room
    /// is left, they get the reserved blocks.
    pub(crate) fn make_room_again(
        &mut self,
        view: &RwLock<View>,
        lens: impl Iterator<Item = u64>,
    ) -> Result<()> {
        if self.unsealed.len() > UNSEALED_MAX {
            self.sync_records()?;
        }
        let Packed { blocks, bytes } = self.packed(lens);
        let demand = Demand { blocks, ..Demand::default() };
        match self.find_room(view, &demand, bytes, Effort::Replay) {
            Err(Error::Full { .. }) if u64::from(self.blocks.free_count()) >= blocks => Ok(()),
            found => found,
        }
    }

    /// Gives back the segments that were allocated for a write that is refused for lack of room. One fence for each
    /// segment.
    pub(crate) fn give_back_room(&mut self) -> Result<()> {
        let released = match &mut self.changes {
            Some(changes) => changes.release_spare(),
            None => Ok(()),
        };
        self.poison_by(released)?;
        if self.shares_pool {
            let released = self.release_empty_segments();
            self.poison_by(released)?;
        }
        Ok(())
    }

    /// Makes sure that the change log has room for operations of so many bytes.
    pub(crate) fn make_room_in_changes(&mut self, len: u64) -> Result<()> {
        let mut has_room = self.find_room_in_changes(len)?;
        if !has_room && self.durable_seq + 1 < self.next_seq {
            // The oldest segment may go when the records of its entries are durable.
            self.sync_records()?;
            has_room = self.find_room_in_changes(len)?;
        }
        if has_room { Ok(()) } else { Err(self.full()) }
    }

    fn find_room_in_changes(&mut self, len: u64) -> Result<bool> {
        let Self { changes: Some(changes), index_snapshots, durable_seq, .. } = self else {
            return Ok(true);
        };
        let give_way = || index_snapshots.as_ref().map_or(Ok(false), Own::release_all);
        let made = changes.make_room(len, *durable_seq, give_way);
        self.poison_by_room(made)
    }

    /// Makes sure that the demanded blocks and slots are free, besides the reserves, and collects as much as the
    /// appended bytes pay for.
    fn find_room(
        &mut self,
        view: &RwLock<View>,
        demand: &Demand,
        appended: u64,
        effort: Effort,
    ) -> Result<()> {
        let reserve = match effort {
            Effort::Put => RESERVE_BOOKKEEPING,
            Effort::Bookkeeping => RESERVE_DELETE,
            Effort::Delete | Effort::Replay => RESERVE_COLLECT,
        };
        // A delete is worth more effort, since it makes room.
        let worthwhile = if effort == Effort::Put { WORTHWHILE } else { 1 };
        let missing = |writer: &Self| {
            let needed = demand.blocks + writer.blocks.blocks_for(&demand.slots);
            // A write that takes no block goes on where a collection for later has taken one.
            let reserve = if needed == 0 { reserve.min(RESERVE_BOOKKEEPING - 1) } else { reserve };
            (needed + u64::from(reserve)).saturating_sub(writer.blocks.free_count().into())
        };
        if effort == Effort::Put {
            self.compact_for_later(view)?;
        }
        // Enough victims to make the room if each gives as little as is worthwhile. Packed again, large records may
        // leave as much unused as was dead: a put does not go through the whole store for that.
        let mut victims = (missing(self) + 1) * (BLOCK / WORTHWHILE);
        while missing(self) > 0 {
            if self.release_limbo(view, usize::MAX)? {
                continue;
            }
            // While readers hold collected blocks, collecting more only takes free blocks.
            let spare = if self.has_waiting_block() { RESERVE_COLLECT } else { 0 };
            let can_collect = self.blocks.free_count() > spare;
            if can_collect && self.collection.is_some() {
                self.finish_collection(view)?;
                continue;
            }
            let emptiest = self.blocks.emptiest(self.scans.youngest()).filter(|_| can_collect);
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
            if has_waiting && !(self.limbo.is_durable() && self.unsealed.is_empty()) {
                self.sync_records()?;
                continue;
            }
            // Replayed records have their numbers, and no other record may be written between them.
            let compacts = effort != Effort::Replay;
            if compacts && victims > 0 && self.compact(view, SPARSE, self.scans.youngest())? {
                victims -= 1;
                continue;
            }
            let worth = bytes >= worthwhile && self.blocks.reclaimable() >= BLOCK;
            let worth = worth && (effort != Effort::Put || victims > 0);
            let youngest = self.scans.youngest();
            let best = self.blocks.victim(self.next_seq, youngest);
            match best.or(emptiest).filter(|_| worth) {
                Some((victim, gain)) => self.begin_collection(view, victim, gain)?,
                None if compacts && victims > 0 && self.compact(view, ANY, youngest)? => {}
                None => {
                    if effort == Effort::Put {
                        self.collect_for_later(view)?;
                    }
                    return Err(self.full());
                }
            }
            victims = victims.saturating_sub(1);
        }
        self.pace(view, appended)
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
            Err(Error::Alloc(halite_alloc::Error::Full { .. })) => {
                // Snapshots of the index are released first.
                let own = self.index_snapshots.as_ref();
                let released = own.map_or(Ok(false), Own::release_all);
                self.is_full = !self.poison_by(released)?;
                return if self.is_full { Ok(false) } else { self.add_segment() };
            }
            // How much of the new segment is durable may not be known.
            Err(error) => return self.poison_by_room(Err(error)),
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
        self.is_full = false;
        Ok(true)
    }

    /// Takes a free block for records, which the view does not show yet.
    pub(crate) fn take_block(&mut self, view: &RwLock<View>) -> Result<u32> {
        let epoch = view.read().epoch;
        self.blocks.take(epoch).ok_or_else(|| self.full())
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

/// Even records of no more than a header leave a gap in which the order of open blocks begins.
const _: () = assert!(
    (BATCH_LEN_MAX + (UNSEALED_MAX as u64 + 2) * BLOCK) / record::LEN_MIN < FIRSTS as u64 / 2
);
const _: () = assert!(SEGMENT == BLOCK * BLOCKS_PER_SEGMENT as u64);
