//! Moving the live records of a block that is collected.
//!
//! A step reads records one after the other. A live one is copied behind the collector's tail, and the index, or its
//! tombstone, points to the copy when that is durable; a dead one is taken off its count (`storage/liveness.rs`).

use std::sync::Arc;

use halite_contract::Result;
use halite_sim::locks::RwLock;
use halite_sim::planted;

use crate::ALIGN;
use crate::collection::collector::{Collection, Collector};
use crate::entry::Entry;
use crate::read::view::View;
use crate::record::walk::record_at;
use crate::record::{self, Kind, Record};
use crate::storage::Storage;
use crate::storage::liveness::{find_puts, is_at};

impl Collector {
    /// Examines so many bytes of the block that is collected: copies the live records, and takes the dead ones off
    /// their counts.
    pub(super) fn move_live_records(
        &mut self,
        storage: &mut Storage,
        view: &RwLock<View>,
        collection: &mut Collection,
        bytes: u64,
    ) -> Result<()> {
        let published = Arc::clone(&collection.records);
        let (victim, begin) = (collection.victim, collection.at);
        let mut records = Vec::new();
        let mut live = Vec::new();
        {
            let mut view = view.write();
            let end = (begin + bytes).min(published.len());
            let all = published.bytes();
            while collection.at < end {
                let at = collection.at;
                let (record, next) = record_at(all, collection.seed, victim, at)?;
                records.push((at, record));
                collection.at = next;
            }
            collection.credit = collection.credit.saturating_sub(collection.at - begin);
            let entries = find_puts(&view, victim, &records)?;
            for ((at, record), entry) in records.iter().zip(entries) {
                let alive = match (record.kind, entry) {
                    (Kind::Put, Some(entry)) => Some(entry),
                    (Kind::Put, None) => {
                        storage.uncount(&mut view, record)?;
                        None
                    }
                    _ => storage.keep_or_drop_tombstone(&mut view, (victim, *at), record)?,
                };
                live.extend(alive.map(|entry| (*record, entry)));
            }
        }
        let mut rest = &live[..];
        while !rest.is_empty() {
            let mut remaining = self.tail.remaining();
            let fits = rest.iter().take_while(|(record, _)| {
                let len = record.len().next_multiple_of(ALIGN);
                let fits = len <= remaining;
                remaining = remaining.saturating_sub(len);
                fits
            });
            let (group, behind) = rest.split_at(fits.count());
            if group.is_empty() {
                self.change_block(storage, view)?;
            } else {
                self.move_group(storage, view, group)?;
            }
            rest = behind;
        }
        Ok(())
    }

    /// Copies live records behind the collector's tail and points the index to them. One fence.
    fn move_group(
        &mut self,
        storage: &mut Storage,
        view: &RwLock<View>,
        group: &[(Record<'_>, Entry)],
    ) -> Result<()> {
        let mut entries: Vec<_> = group
            .iter()
            .zip((0..group.len() as u32).rev())
            .map(|((record, _), remaining)| {
                self.tail.push(record.has_overflow(), |out, seed| {
                    record::relocate(record, remaining, out, seed);
                })
            })
            .collect();
        if let Some(last) = entries.last_mut() {
            *last = self.tail.end_batch(*last);
        }
        let Some(flushed) = self.tail.stream() else { return Ok(()) };
        planted!("indexlog.tail-before-record", self.cover_block(storage));
        // Words of the map that wait may wait longer: until just before the victim's is freed.
        let [proof] = storage.space.pool().fence([flushed])?;
        self.tail.publish(proof);
        let mut view = view.write();
        let View { spaces, blocks, epoch, .. } = &mut *view;
        for ((record, old), new) in group.iter().zip(entries) {
            let (space, seq) = (record.header.space.get(), record.seq());
            let old_place = (old.block(), old.offset());
            // Counts may have fallen since the record was found alive.
            let mut counts = 1;
            match record.kind {
                Kind::Put => {
                    let is_old = |bits: u64| is_at(Entry::from_bits(bits), old_place);
                    let move_entry = |bits: &mut u64| {
                        *bits = new.with_stale(Entry::from_bits(*bits).stale()).bits();
                    };
                    if let Some(space) = spaces.get_mut(&space) {
                        let moved =
                            space.index.modify_entry(record.key, is_old, move_entry, blocks)?;
                        debug_assert!(moved, "nothing came between");
                    }
                }
                Kind::Delete => {
                    let tombstone = storage.tombstones.get(space, record.key, blocks)?;
                    counts = tombstone.map_or(0, Entry::stale);
                    let new = new.with_stale(counts);
                    storage.tombstones.insert(space, record.key, new, blocks)?;
                }
                Kind::DeleteRange => {
                    if let Some(tombstone) = storage.tombstones.range_mut(space, seq) {
                        tombstone.entry = new;
                        counts = u32::from(!tombstone.stale.is_zero());
                    }
                }
            }
            let accounts = storage.space.blocks_mut();
            match record.kind {
                Kind::Put => {
                    accounts.hide(old.block(), old.footprint(), *epoch);
                    accounts.born(new.block(), new.footprint());
                }
                // A tombstone that counts no record any more was accounted for when its count fell to zero.
                Kind::Delete | Kind::DeleteRange if counts == 0 => {}
                Kind::Delete | Kind::DeleteRange => {
                    accounts.tombstone_died(old.block(), old.footprint());
                    accounts.tombstone_born(new.block(), new.footprint());
                }
            }
            for piece in record.pieces() {
                accounts.set_owner(piece.place(), new);
            }
            self.count_moved(new.footprint());
        }
        view.end_change();
        Ok(())
    }

    /// Lets the map's word of the collector's block cover its records, with the next fence.
    pub(super) fn cover_block(&self, storage: &mut Storage) {
        let (block, used) = (self.tail.block(), self.tail.written());
        if let (Some(block), Some(proof)) = (block, self.tail.proof()) {
            storage.space.cover(block, used, proof);
        }
    }

    fn change_block(&mut self, storage: &mut Storage, view: &RwLock<View>) -> Result<()> {
        self.cover_block(storage);
        if let Some(closed) = self.tail.close() {
            let next = storage.next();
            storage.space.blocks_mut().seal(closed.block, closed.used, next);
        }
        let block = storage.space.take_block(view)?;
        let incarnation = storage.space.blocks().incarnation(block);
        let readable =
            self.tail.enter(storage.space.carving(), block, incarnation, storage.space.salt())?;
        view.write().set_block(block, readable);
        Ok(())
    }
}
