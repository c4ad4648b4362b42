//! Space for writes: free blocks, from limbo, from collection, or from the pool.
//!
//! A write finds its room before it changes anything ([`Collector::make_room_for`]). Some blocks stay free for
//! collection and deletes, so that a full store can be emptied (`space/reserves.rs`).

use std::cell::Cell;

use halite_contract::{Error, Op, Result};
use halite_sim::locks::RwLock;

use crate::collection::collector::{COLLECT_BEFORE_GROWING, Collector};
use crate::collection::compact::{ANY, SPARSE};
use crate::durability::UNSEALED_MAX;
use crate::key_spaces::INTERNAL;
use crate::log::Log;
use crate::read::view::View;
use crate::record::op::draft;
use crate::record::{self, Draft, PIECES_MAX, Piece};
use crate::space::block_map::FIRSTS;
use crate::space::blocks::pieces::PieceDemand;
use crate::space::reserves::{RESERVE_BOOKKEEPING, RESERVE_COLLECT, RESERVE_DELETE};
use crate::space::split::{piece_space, pieces};
use crate::space::victims::WORTHWHILE;
use crate::storage::Storage;
use crate::{ALIGN, BLOCK};

/// The most that a batch may take in the log, in bytes. Values with blocks of their own do not count.
const BATCH_LEN_MAX: u64 = 256 << 20;

/// The blocks and runs of units that a write needs to find free.
#[derive(Default)]
struct Demand {
    /// Blocks of records.
    blocks: u64,
    pieces: PieceDemand,
}

impl Demand {
    /// Adds a large value. Returns the most pieces that it is cut into.
    fn add(&mut self, value_len: usize) -> u64 {
        pieces(value_len).map(|len| self.pieces.add(len)).sum()
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

impl Collector {
    /// Makes sure that the operations find room, so that nothing can fail halfway for lack of it.
    pub(crate) fn make_room_for(
        &mut self,
        storage: &mut Storage,
        view: &RwLock<View>,
        ops: &[Op<'_>],
        is_bookkeeping: bool,
    ) -> Result<()> {
        storage.log.bound_unsealed(&mut storage.space)?;
        let (mut demand, mut of_values, mut only_deletes) = (Demand::default(), 0, true);
        let packed = packed(
            &storage.log,
            ops.iter().map(|op| {
                let len = draft(op, 0, 0, 0).len();
                let Op::Put { space, value, .. } = *op else { return len };
                // A partition's own record of a batch takes the place of an older one.
                only_deletes &= space.0 == INTERNAL;
                if !Draft::needs_overflow(value) {
                    return len;
                }
                of_values += pieces(value.len()).map(piece_space).sum::<u64>();
                // Counts every block as a piece of its own: never too little.
                let pieces = demand.add(value.len()).min(PIECES_MAX as u64) + 1;
                len - value.len() as u64 + size_of::<Piece>() as u64 * pieces
            }),
        );
        if packed.bytes > BATCH_LEN_MAX {
            return Err(Error::BatchTooLarge { len: packed.bytes, limit: BATCH_LEN_MAX });
        }
        storage.make_room_in_changes(packed.bytes)?;
        demand.blocks += packed.blocks;
        let effort = match (only_deletes, is_bookkeeping) {
            (true, _) => Effort::Delete,
            (false, true) => Effort::Bookkeeping,
            (false, false) => Effort::Put,
        };
        let next_seq = storage.next();
        self.find_room(storage, view, &demand, packed.bytes + of_values, effort)?;
        if storage.next() > next_seq {
            // Emptying blocks of slots has written to the change log.
            storage.make_room_in_changes(packed.bytes)?;
        }
        Ok(())
    }

    /// Makes sure that records which the change log has find room again. They had it before, so where no other room
    /// is left, they get the reserved blocks.
    pub(crate) fn make_room_again(
        &mut self,
        storage: &mut Storage,
        view: &RwLock<View>,
        lens: impl Iterator<Item = u64>,
    ) -> Result<()> {
        storage.log.bound_unsealed(&mut storage.space)?;
        let Packed { blocks, bytes } = packed(&storage.log, lens);
        let demand = Demand { blocks, ..Demand::default() };
        match self.find_room(storage, view, &demand, bytes, Effort::Replay) {
            Err(Error::Full { .. }) if u64::from(storage.space.blocks().free_count()) >= blocks => {
                Ok(())
            }
            found => found,
        }
    }

    /// Makes sure that the demanded blocks and slots are free, besides the reserves, and collects as much as the
    /// appended bytes pay for.
    fn find_room(
        &mut self,
        storage: &mut Storage,
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
        // Values are cut into short pieces before a write is refused, and not sooner.
        let cuts = Cell::new(false);
        let missing = |storage: &Storage| {
            let blocks = storage.space.blocks();
            let needed = demand.blocks + blocks.blocks_for(&demand.pieces, cuts.get());
            // A write that takes no block goes on where a collection for later has taken one.
            let reserve = if needed == 0 { reserve.min(RESERVE_BOOKKEEPING - 1) } else { reserve };
            (needed + u64::from(reserve)).saturating_sub(blocks.free_count().into())
        };
        if effort == Effort::Put {
            self.compact_for_later(storage, view)?;
        }
        // Enough victims to make the room if each gives as little as is worthwhile. Packed again, large records may
        // leave as much unused as was dead: a put does not go through the whole store for that.
        let mut victims = (missing(storage) + 1) * (BLOCK / WORTHWHILE);
        while missing(storage) > 0 {
            if storage.release_limbo(view, usize::MAX)? {
                continue;
            }
            // While readers hold collected blocks, collecting more only takes free blocks.
            let spare = if storage.space.limbo().has_waiting_block() { RESERVE_COLLECT } else { 0 };
            let can_collect = storage.space.blocks().free_count() > spare;
            if can_collect && self.is_under_way() {
                self.finish_collection(storage, view)?;
                continue;
            }
            let emptiest = storage.space.emptiest().filter(|_| can_collect);
            let (block, bytes) = emptiest.unwrap_or_default();
            if bytes >= COLLECT_BEFORE_GROWING {
                self.begin_collection(storage, view, block, bytes)?;
                continue;
            }
            if storage.space.add_segment()? {
                continue;
            }
            if let Some(changes) = storage.log.changes() {
                let released = changes.release_old(storage.log.durability.records());
                if storage.space.health.poison_by(released)? {
                    continue;
                }
            }
            let durability = &storage.log.durability;
            let has_waiting = storage.space.limbo().has_queued() || durability.unsealed() > 0;
            if !durability.is_complete() && has_waiting {
                storage.sync_records()?;
                continue;
            }
            // Replayed records have their numbers, and no other record may be written between them.
            let compacts = effort != Effort::Replay;
            if compacts
                && victims > 0
                && self.compact(storage, view, SPARSE, storage.space.scans().youngest())?
            {
                victims -= 1;
                continue;
            }
            let worth = bytes >= worthwhile && storage.space.blocks().reclaimable() >= BLOCK;
            let worth = worth && (effort != Effort::Put || victims > 0);
            let youngest = storage.space.scans().youngest();
            let best = storage.space.victim_at_once(storage.log.durability.next());
            match best.or(emptiest).filter(|_| worth) {
                Some((victim, gain)) => self.begin_collection(storage, view, victim, gain)?,
                None if compacts
                    && victims > 0
                    && self.compact(storage, view, ANY, youngest)? => {}
                None if !cuts.replace(true) => continue,
                None => {
                    if effort == Effort::Put {
                        self.collect_for_later(storage, view)?;
                    }
                    return Err(storage.space.full());
                }
            }
            victims = victims.saturating_sub(1);
        }
        self.pace(storage, view, appended)
    }
}

/// The space that records of these lengths take behind the log's tail.
fn packed(log: &Log, lens: impl Iterator<Item = u64>) -> Packed {
    let mut packed = Packed { blocks: 0, bytes: 0 };
    let mut remaining = log.remaining();
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

/// Even records of no more than a header leave a gap in which the order of open blocks begins.
const _: () = assert!(
    (BATCH_LEN_MAX + (UNSEALED_MAX as u64 + 2) * BLOCK) / record::LEN_MIN < FIRSTS as u64 / 2
);
