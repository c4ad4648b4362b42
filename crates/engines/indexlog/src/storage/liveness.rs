//! Liveness of the records of a block, and the counts that dead records are in.
//!
//! A record is alive if an index entry points to it. A dead record is counted once, by the record that superseded it
//! (`tombstones`): its key's newest record, or a range tombstone. Collecting its block takes it off that count.

use halite_contract::Result;
use halite_sim::planted;

use super::Storage;
use crate::entry::Entry;
use crate::read::readable::ReadableBlocks;
use crate::read::view::View;
use crate::record::{Kind, Record};

/// The entries of those of `records`, each with its offset in `block`, that are current puts; `None` for the others.
/// Reads no other record.
pub(crate) fn find_puts(
    view: &View,
    block: u32,
    records: &[(u64, Record<'_>)],
) -> Result<Vec<Option<Entry>>> {
    let mut found = Vec::with_capacity(records.len());
    let space_of = |record: &Record<'_>| record.header.space.get();
    for of_space in records.chunk_by(|(_, a), (_, b)| space_of(a) == space_of(b)) {
        match view.spaces.get(&space_of(&of_space[0].1)) {
            Some(space) => {
                let keys: Vec<_> = of_space.iter().map(|(_, record)| record.key).collect();
                let here = |at: usize, bits| is_at(Entry::from_bits(bits), (block, of_space[at].0));
                let entries = space.index.find_entries(&keys, here, &view.blocks)?;
                found.extend(entries.into_iter().map(|bits| bits.map(Entry::from_bits)));
            }
            None => found.resize(found.len() + of_space.len(), None),
        }
    }
    Ok(found)
}

/// Whether an entry points to a block and an offset.
pub(crate) fn is_at(entry: Entry, place: (u32, u64)) -> bool {
    (entry.block(), entry.offset()) == place
}

impl Storage {
    /// Takes a dead record of a block that is being collected off its count. Reads no records but those of
    /// tombstones: a dead record that is counted neither by a range tombstone nor by a tombstone of its key is
    /// counted by its key's live record.
    pub(crate) fn uncount(&mut self, view: &mut View, record: &Record<'_>) -> Result<()> {
        let (space, key, seq) = (record.header.space.get(), record.key, record.seq());
        let View { spaces, blocks, .. } = view;
        if self.uncount_by_tombstone(blocks, space, key, seq)? {
            return Ok(());
        }
        let less = |bits: &mut u64| *bits = Entry::from_bits(*bits).with_one_stale_less().bits();
        if let Some(space) = spaces.get_mut(&space) {
            let is_counted = space.index.modify_present(key, less, blocks)?;
            debug_assert!(is_counted, "every dead record is counted once");
        }
        Ok(())
    }

    /// The entry of a tombstone that has to be kept: it still counts dead records, or a collected block is not yet
    /// free in the map. Any other tombstone is dropped with its block.
    pub(crate) fn keep_or_drop_tombstone(
        &mut self,
        view: &mut View,
        place: (u32, u64),
        record: &Record<'_>,
    ) -> Result<Option<Entry>> {
        let (space, key, seq) = (record.header.space.get(), record.key, record.seq());
        let blocks = &view.blocks;
        let here = |entry: Entry| (entry.block(), entry.offset()) == place;
        // Recovery would still find older versions of the key in a collected block whose word is not free yet.
        let keep = self.space.limbo().has_stored_block();
        if record.kind == Kind::DeleteRange {
            let Some(tombstone) = self.tombstones.range(space, seq) else { return Ok(None) };
            let (entry, counts) = (tombstone.entry, !tombstone.stale.is_zero());
            if here(entry) && !(keep || counts) {
                self.tombstones.drop_range_tombstone(space, seq);
            }
            return Ok(Some(entry).filter(|entry| here(*entry) && (keep || counts)));
        }
        match self.tombstones.get(space, key, blocks)?.filter(|entry| here(*entry)) {
            Some(entry)
                if planted!("indexlog.tombstone-forgotten", false, keep || entry.stale() > 0) =>
            {
                return Ok(Some(entry));
            }
            Some(_) => {
                let oldest = self.space.scans().oldest_position();
                self.tombstones.drop_tombstone(space, key, seq, oldest, blocks)?;
            }
            // A dead tombstone is a dead record like any other.
            None => self.uncount(view, record)?,
        }
        Ok(None)
    }

    /// Takes a dead record off the count of the tombstone that counts it. Returns whether there is one.
    fn uncount_by_tombstone(
        &mut self,
        keys: &ReadableBlocks,
        space: u32,
        key: &[u8],
        seq: u64,
    ) -> Result<bool> {
        let dead = if let Some(covering) = self.tombstones.covering(space, key, seq) {
            let counted = !covering.stale.is_zero();
            covering.stale.remove_one();
            (counted && covering.stale.is_zero()).then_some(covering.entry)
        } else if let Some(tombstone) = self.tombstones.get(space, key, keys)? {
            let less = tombstone.with_one_stale_less();
            self.tombstones.insert(space, key, less, keys)?;
            (tombstone.stale() > 0 && less.stale() == 0).then_some(less)
        } else {
            return Ok(false);
        };
        if let Some(dead) = dead {
            self.space.blocks_mut().tombstone_died(dead.block(), dead.footprint());
        }
        Ok(true)
    }
}
