//! The changes that a write makes in the view, once its records are written: where its keys point to, which records
//! are dead, and which record counts them (`tombstones`).

use halite_contract::{Op, Result};

use super::Storage;
use crate::entry::Entry;
use crate::read::view::View;
use crate::space::limbo::Limbo;
use crate::tombstones::{RangeTombstone, Stale};

impl Storage {
    /// Applies to the view operations whose records are written.
    ///
    /// # Errors A record is damaged whose key had to be read. The written records are not visible then.
    pub(crate) fn apply(&mut self, view: &mut View, ops: &[Op<'_>]) -> Result<()> {
        let first_seq = self.next() - ops.len() as u64;
        for (at, op) in ops.iter().enumerate() {
            let entry = self.log.entries()[at];
            match *op {
                Op::Put { space, key, value } => {
                    self.space.blocks_mut().born(entry.block(), entry.footprint());
                    self.user_bytes += (key.len() + value.len()) as u64;
                    self.apply_put(view, space.0, key, entry)?;
                }
                Op::Delete { space, key } => {
                    self.space.blocks_mut().tombstone_born(entry.block(), entry.footprint());
                    self.apply_delete(view, space.0, key, entry)?;
                }
                Op::DeleteRange { space, start, end } => {
                    self.space.blocks_mut().tombstone_born(entry.block(), entry.footprint());
                    let tombstone = RangeTombstone {
                        seq: first_seq + at as u64,
                        start: start.into(),
                        end: end.map(Into::into),
                        entry,
                        stale: Stale::default(),
                    };
                    self.apply_delete_range(view, space.0, tombstone)?;
                }
            }
        }
        view.position = self.next();
        view.end_change();
        Ok(())
    }

    fn apply_put(&mut self, view: &mut View, space: u32, key: &[u8], entry: Entry) -> Result<()> {
        let View { spaces, blocks, .. } = view;
        let Some(index) = spaces.get_mut(&space).map(|space| &mut space.index) else {
            return Ok(());
        };
        let with_stale = |old: Option<u64>| {
            let stale = old.map_or(0, |old| Entry::from_bits(old).stale() + 1);
            entry.with_stale(stale).bits()
        };
        let old = index.insert_with(key, with_stale, blocks)?;
        if let Some(old) = old {
            self.count_dead(view, Entry::from_bits(old));
        } else if let Some(tombstone) = self.tombstones.remove(space, key, blocks)? {
            self.count_dead_tombstone(tombstone);
            index.insert(key, entry.with_stale(tombstone.stale() + 1).bits(), blocks)?;
        }
        Ok(())
    }

    fn apply_delete(
        &mut self,
        view: &mut View,
        space: u32,
        key: &[u8],
        entry: Entry,
    ) -> Result<()> {
        let View { spaces, blocks, .. } = view;
        let Some(index) = spaces.get_mut(&space).map(|space| &mut space.index) else {
            return Ok(());
        };
        let mut stale = 0;
        if let Some(old) = index.remove(key, blocks)?.map(Entry::from_bits) {
            stale = old.stale() + 1;
            self.count_dead(view, old);
        } else if let Some(tombstone) = self.tombstones.get(space, key, blocks)? {
            stale = tombstone.stale() + 1;
            self.count_dead_tombstone(tombstone);
        }
        self.tombstones.insert(space, key, entry.with_stale(stale), &view.blocks)?;
        if stale == 0 {
            self.space.blocks_mut().tombstone_died(entry.block(), entry.footprint());
        }
        Ok(())
    }

    fn apply_delete_range(
        &mut self,
        view: &mut View,
        space: u32,
        mut tombstone: RangeTombstone,
    ) -> Result<()> {
        let View { spaces, blocks, .. } = view;
        let Some(index) = spaces.get_mut(&space).map(|space| &mut space.index) else {
            return Ok(());
        };
        let (start, end) = (&tombstone.start, tombstone.end.as_deref());
        let live = index.remove_range(start, end, blocks)?;
        let dead = self.tombstones.remove_range(space, start, end, blocks)?;
        for old in live.into_iter().map(Entry::from_bits) {
            tombstone.stale.take_over(old);
            self.count_dead(view, old);
        }
        for old in dead {
            tombstone.stale.take_over(old);
            self.count_dead_tombstone(old);
        }
        if tombstone.stale.is_zero() {
            self.space
                .blocks_mut()
                .tombstone_died(tombstone.entry.block(), tombstone.entry.footprint());
        }
        self.tombstones.insert_range(space, tombstone);
        Ok(())
    }

    /// Accounts for the death of a live record; a value in blocks of its own goes to limbo.
    fn count_dead(&mut self, view: &mut View, dead: Entry) {
        if dead.has_overflow() {
            let pinned = view.pin_record(dead).ok();
            // A record that cannot be read any more leaves its value's blocks to the next open.
            let record = pinned.as_ref().and_then(|pinned| pinned.read().ok());
            for record in record.iter() {
                for piece in record.pieces() {
                    self.space.blocks_mut().clear_owner(piece.place());
                    self.space.blocks_mut().died(piece.block(), piece.len());
                    let place = piece.place();
                    let shown = self.space.blocks().piece_shown(place, view.epoch);
                    let replaced_by = self.next() - 1;
                    let limbo = Limbo::piece(piece, shown, record.seq(), replaced_by);
                    self.space.push_limbo(limbo);
                }
            }
        }
        self.space.blocks_mut().hide(dead.block(), dead.footprint(), view.epoch);
    }

    /// Accounts for the death of a tombstone that was superseded.
    fn count_dead_tombstone(&mut self, dead: Entry) {
        if dead.stale() > 0 {
            self.space.blocks_mut().tombstone_died(dead.block(), dead.footprint());
        }
    }
}
