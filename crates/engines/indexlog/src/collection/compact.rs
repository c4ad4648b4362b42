//! Emptying sparse split blocks, so that other pieces, and records, can have them.
//!
//! Values do not move otherwise. A store whose values change their lengths would be left with blocks
//! that each have a few pieces, and no free block. So, where the pool cannot grow, the pieces of such a
//! block are written into runs of other blocks. Their records are written again under a new number; they refer to
//! the moved pieces at their new places and to the other pieces where they are. A reader of a change log sees a put
//! of the value that the key has already.

use halite_contract::{Error, KeySpaceId, Op, Result};
use halite_sim::locks::RwLock;

use crate::collection::collector::Collector;
use crate::entry::Entry;
use crate::log::overflow::{How, Values};
use crate::read::view::View;
use crate::record::Piece;
use crate::space::limbo::Limbo;
use crate::space::reserves::RESERVE_COLLECT;
use crate::storage::Storage;
use crate::storage::liveness::is_at;

/// Any split block is emptied before a store is full.
pub(crate) const ANY: u32 = 8;

/// A split block of which less than so many of 8 parts is taken is emptied before records are collected.
pub(crate) const SPARSE: u32 = 4;

impl Collector {
    /// Empties the sparsest split block of which less than `share` of 8 parts is taken and which holds no piece that
    /// a scan of epoch `kept_by` may read: such a piece keeps its place until the scan ends, even if it is moved.
    /// Returns whether anything moved; the block is whole when the move is durable and no scan or reader uses the old
    /// pieces.
    pub(crate) fn compact(
        &mut self,
        storage: &mut Storage,
        view: &RwLock<View>,
        share: u32,
        kept_by: Option<u64>,
    ) -> Result<bool> {
        let sparsest = storage.space.blocks().sparsest_split(share, kept_by.unwrap_or(0));
        let Some(block) = sparsest else { return Ok(false) };
        let mut moved = false;
        storage.space.blocks_mut().close_split(Some(block));
        for owner in storage.space.blocks().owners(block) {
            moved |= self.move_pieces(storage, view, owner, block)?;
        }
        storage.space.blocks_mut().close_split(None);
        Ok(moved)
    }

    /// Moves the pieces that a record has in a block.
    fn move_pieces(
        &mut self,
        storage: &mut Storage,
        view: &RwLock<View>,
        owner: Entry,
        block: u32,
    ) -> Result<bool> {
        // The place of a dead record may be in use again, so bytes that are no record are no damage.
        let Ok(pinned) = view.read().pin(owner) else { return Ok(false) };
        let Ok(record) = pinned.read() else { return Ok(false) };
        let (space, key) = (record.header.space.get(), record.key);
        // Another record may be at that place by now.
        let has_piece = record.pieces().iter().any(|piece| piece.block() == block);
        let is_at_owner = |entry: &Entry| is_at(*entry, (owner.block(), owner.offset()));
        let current = view.read().live(space, key)?.filter(is_at_owner);
        let Some(current) = current.filter(|_| has_piece) else { return Ok(false) };
        let len = record.len() + record.pieces().len() as u64 * size_of::<Piece>() as u64;
        let has_block = storage.space.blocks().free_count() > RESERVE_COLLECT;
        if len > storage.log.remaining() && !has_block {
            return Ok(false);
        }
        match storage.make_room_in_changes(len) {
            Err(Error::Full { .. }) => return Ok(false),
            made => made?,
        }
        storage.log.bound_unsealed(&mut storage.space)?;
        let Some(bytes) = pinned.whole_pieces(&record, storage.space.salt()) else {
            return Ok(false);
        };
        if record.seq() > storage.log.durability.records() {
            // Both records refer to the pieces that stay: recovery reads those for one unproved record only, and the
            // number of the new record proves this one.
            storage.sync_records()?;
        }
        let seq = storage.next();
        let mut values = Values::default();
        let mut kept = Vec::new();
        let mut gone = Vec::new();
        for (piece, bytes) in record.pieces().iter().zip(bytes) {
            if piece.block() == block {
                gone.push(*piece);
                let before = values.pieces.get(&0).map_or(0, Vec::len);
                let written =
                    storage.space.write_value(view, &mut values, (0, seq), bytes, How::Moved);
                if let Err(error) = written {
                    storage.space.discard(values);
                    return error.map_or(Ok(false), Err);
                }
                kept.extend(&values.pieces[&0][before..]);
            } else {
                kept.push(Piece::new(piece.place(), bytes, storage.space.salt(), seq));
            }
        }
        if kept.len() > 2 * record.pieces().len() {
            // The room that was made is for no more.
            storage.space.discard(values);
            return Ok(false);
        }
        values.pieces.insert(0, kept);
        let put = Op::Put { space: KeySpaceId(space), key, value: &[] };
        let appended = storage.log.append(&mut storage.space, view, &[put], values, false);
        storage.space.health.poison_by(appended)?;
        let new = storage.log.entries()[0];
        let mut view = view.write();
        let View { spaces, blocks, .. } = &mut *view;
        if let Some(space) = spaces.get_mut(&space) {
            let with_stale = |old: Option<u64>| {
                new.with_stale(old.map_or(0, |old| Entry::from_bits(old).stale() + 1)).bits()
            };
            space.index.insert_with(key, with_stale, blocks)?;
        }
        storage.space.blocks_mut().born(new.block(), new.footprint());
        storage.space.blocks_mut().hide(current.block(), current.footprint(), view.epoch);
        self.count_moved(new.footprint());
        for piece in gone {
            storage.space.blocks_mut().clear_owner(piece.place());
            storage.space.blocks_mut().died(piece.block(), piece.len());
            self.count_moved(piece.len());
            let limbo = Limbo::piece(
                &piece,
                storage.space.blocks().piece_shown(piece.place(), view.epoch),
                record.seq(),
                seq,
            );
            storage.space.push_limbo(limbo);
        }
        view.position = storage.next();
        view.end_change();
        Ok(true)
    }
}
