//! Collection of garbage (Lersch §5.6.3).
//!
//! The block with the most to reclaim is the victim. Its live records are copied into the
//! collector's own block, its dead ones are taken off their counts; once the copies are durable, the
//! collector's word in the map covers them, and the index points to them. The victim goes to limbo
//! until no scan can see it; then its word becomes free, durably, and it may be reused.
//!
//! A crash may leave the copies without the word (they are ignored, the victim is whole), or the word
//! and the victim (each record is there twice, with one sequence number, and one of them counts as
//! stale), but never neither.
//!
//! While a block is in limbo, its dead records are off their counts and still on the medium. So a
//! tombstone that counts nothing stays, and moves like a live one, until there is none in limbo.

use halite_blocks::log::frame;
use halite_engine::Result;
use halite_pmem::locks::RwLock;
use halite_pmem::planted;

use crate::BLOCK;
use crate::block_map::{Life, State};
use crate::entry::Entry;
use crate::read::{Readable, ReadableBlocks, View};
use crate::record::{self, ALIGN, Kind, Piece, Record};
use crate::write::Writer;

/// Records ahead of the one at hand whose index nodes are fetched, to hide the cache misses.
const AHEAD: usize = 8;

/// Space that the index no longer leads to, until nothing else can either.
pub(crate) struct Limbo {
    what: What,
    /// Scans of this epoch or an earlier one may read it.
    pub(crate) epoch: u64,
    /// Durable once this record is: what took its place.
    seq: u64,
}

#[derive(Clone, Copy)]
enum What {
    Block(u32),
    Piece { first: u32, count: u32 },
}

impl Limbo {
    fn block(block: u32, seq: u64) -> Self {
        Self { what: What::Block(block), epoch: 0, seq }
    }

    pub(crate) fn piece(piece: &Piece, seq: u64) -> Self {
        let (first, count) = (piece.block.get(), piece.block_count());
        Self { what: What::Piece { first, count }, epoch: 0, seq }
    }
}

impl Writer {
    /// Whether scans or readers keep a collected block from being freed.
    pub(crate) fn has_block_in_limbo(&self) -> bool {
        self.limbo.iter().any(|limbo| matches!(limbo.what, What::Block(_)))
    }

    /// Bytes of blocks that wait in limbo only for scans and snapshots to end.
    pub(crate) fn held_in_limbo(&self, oldest_scan: Option<u64>) -> u64 {
        let is_seen = |limbo: &&Limbo| oldest_scan.is_some_and(|oldest| oldest <= limbo.epoch);
        let blocks = |limbo: &Limbo| match limbo.what {
            What::Block(_) => 1,
            What::Piece { count, .. } => u64::from(count),
        };
        self.limbo.iter().filter(is_seen).map(blocks).sum::<u64>() * BLOCK
    }

    /// Moves the live records out of `victim`, a sealed block, and sends it to limbo.
    pub(crate) fn collect(&mut self, view: &RwLock<View>, victim: u32) -> Result<()> {
        // What a write made obsolete is needed until that write is durable.
        self.sync_records()?;
        if self.changes.is_some() {
            // The newest record may be dead, and go: what is in the change log must not be replayed then.
            self.map.set_durable(self.durable_seq);
        }
        let collected = self.move_live_records(view, victim);
        self.poison_by(collected)?;
        self.blocks.condemn(victim);
        let limbo = Limbo::block(victim, self.next_seq - 1);
        self.send_to_limbo(&mut view.write(), limbo);
        Ok(())
    }

    fn move_live_records(&mut self, view: &RwLock<View>, victim: u32) -> Result<()> {
        let readable = view.read().block(victim).cloned();
        let Some(Readable { published, seed: Some(seed) }) = readable else { return Ok(()) };
        let mut records = Vec::new();
        each_record(published.bytes(), seed, victim, |at, record, _| records.push((at, record)))?;
        let mut live = Vec::new();
        {
            let mut view = view.write();
            for (number, (at, record)) in records.iter().enumerate() {
                if let Some((_, later)) = records.get(number + AHEAD) {
                    view.prepare(later.header.space.get(), later.key);
                }
                let alive = match record.kind {
                    Kind::Put => self.find_put(&mut view, victim, *at, record)?,
                    Kind::Delete | Kind::DeleteRange => {
                        self.find_tombstone(&mut view, victim, *at, record)?
                    }
                };
                live.extend(alive.map(|entry| (*record, entry)));
            }
        }
        let mut rest = &live[..];
        while !rest.is_empty() {
            let mut remaining = self.collector.remaining();
            let fits = rest.iter().take_while(|(record, _)| {
                let len = record.len().next_multiple_of(ALIGN);
                let fits = len <= remaining;
                remaining = remaining.saturating_sub(len);
                fits
            });
            let (group, behind) = rest.split_at(fits.count());
            if group.is_empty() {
                self.change_collector_block(view)?;
            } else {
                self.move_group(view, group)?;
            }
            rest = behind;
        }
        self.collected_blocks += 1;
        Ok(())
    }

    /// The entry of a put if it is current; else it is taken off its count.
    fn find_put(
        &mut self,
        view: &mut View,
        block: u32,
        at: u64,
        record: &Record<'_>,
    ) -> Result<Option<Entry>> {
        let (space, key, seq) = (record.header.space.get(), record.key, record.seq());
        let View { spaces, blocks, .. } = view;
        if let Some(tree) = spaces.get_mut(&space).map(|space| &mut space.tree) {
            // Nothing else leads here: other keys need not be compared.
            let candidate = tree.get_candidate(key, blocks)?.map(Entry::from_bits);
            if let Some(entry) = candidate
                && (entry.block(), entry.offset()) == (block, at)
            {
                return Ok(Some(entry));
            }
            if self.tombstones.killer(space, key, seq).is_none() {
                let take_off = |bits: &mut u64| {
                    *bits = Entry::from_bits(*bits).with_one_stale_less().bits();
                };
                if tree.modify(key, take_off, blocks)? {
                    return Ok(None);
                }
            }
        }
        self.forget(blocks, space, key, seq)?;
        Ok(None)
    }

    /// The entry of a tombstone that still counts; else it goes with its block.
    fn find_tombstone(
        &mut self,
        view: &mut View,
        block: u32,
        at: u64,
        record: &Record<'_>,
    ) -> Result<Option<Entry>> {
        let (space, key, seq) = (record.header.space.get(), record.key, record.seq());
        let View { spaces, blocks, .. } = view;
        let here = |entry: Entry| (entry.block(), entry.offset()) == (block, at);
        let keep = self.has_block_in_limbo();
        if record.kind == Kind::DeleteRange {
            let Some(tombstone) = self.tombstones.range(space, seq) else { return Ok(None) };
            let (entry, counts) = (tombstone.entry, !tombstone.stale.is_zero());
            if here(entry) && !(keep || counts) {
                self.tombstones.remove_range_tombstone(space, seq);
            }
            return Ok(Some(entry).filter(|entry| here(*entry) && (keep || counts)));
        }
        match self.tombstones.get(space, key, blocks)?.filter(|entry| here(*entry)) {
            Some(entry) if (keep || entry.stale() > 0) && !planted!(TombstoneForgotten) => {
                return Ok(Some(entry));
            }
            Some(_) => {
                self.tombstones.remove(space, key, blocks)?;
            }
            // A dead tombstone is a dead record like any other.
            None => {
                let killed = self.tombstones.killer(space, key, seq).is_some();
                let take_off = |bits: &mut u64| {
                    *bits = Entry::from_bits(*bits).with_one_stale_less().bits();
                };
                let is_counted = match spaces.get_mut(&space) {
                    Some(space) if !killed => space.tree.modify(key, take_off, blocks)?,
                    _ => false,
                };
                if !is_counted {
                    self.forget(blocks, space, key, seq)?;
                }
            }
        }
        Ok(None)
    }

    /// Takes a dead record, whose key has no live one that counts it, off a tombstone's count.
    fn forget(&mut self, keys: &ReadableBlocks, space: u32, key: &[u8], seq: u64) -> Result<()> {
        let dead = if let Some(killer) = self.tombstones.killer(space, key, seq) {
            let counted = !killer.stale.is_zero();
            killer.stale.remove_one();
            (counted && killer.stale.is_zero()).then_some(killer.entry)
        } else if let Some(tombstone) = self.tombstones.get(space, key, keys)? {
            let less = tombstone.with_one_stale_less();
            self.tombstones.insert(space, key, less, keys)?;
            (tombstone.stale() > 0 && less.stale() == 0).then_some(less)
        } else {
            None
        };
        if let Some(dead) = dead {
            self.blocks.died(dead.block(), dead.footprint());
        }
        Ok(())
    }

    /// Copies live records behind the collector's tail and points the index to them. One fence.
    fn move_group(&mut self, view: &RwLock<View>, group: &[(Record<'_>, Entry)]) -> Result<()> {
        let mut entries: Vec<_> = group
            .iter()
            .zip((0..group.len() as u32).rev())
            .map(|((record, _), remaining)| {
                self.collector.push(record.has_overflow(), |out, seed| {
                    record::relocate(record, remaining, out, seed);
                })
            })
            .collect();
        if let Some(last) = entries.last_mut() {
            *last = self.collector.end_batch(*last);
        }
        let Some(flushed) = self.collector.stream() else { return Ok(()) };
        if planted!(TailBeforeRecord) {
            self.cover_collector_block();
        }
        // Words of the map that wait may wait longer: until before the victim's is freed.
        let [proof] = self.pool.fence([flushed])?;
        self.collector.publish(proof);
        self.cover_collector_block();
        let mut view = view.write();
        let View { spaces, blocks, .. } = &mut *view;
        for ((record, old), new) in group.iter().zip(entries) {
            let (space, seq) = (record.header.space.get(), record.seq());
            // Counts may have sunk since the record was found alive.
            let mut counts = 1;
            match record.kind {
                Kind::Put => {
                    let move_entry = |bits: &mut u64| {
                        *bits = new.with_stale(Entry::from_bits(*bits).stale()).bits();
                    };
                    if let Some(space) = spaces.get_mut(&space) {
                        space.tree.modify(record.key, move_entry, blocks)?;
                    }
                }
                Kind::Delete => {
                    let tombstone = self.tombstones.get(space, record.key, blocks)?;
                    counts = tombstone.map_or(0, Entry::stale);
                    let new = new.with_stale(counts);
                    self.tombstones.insert(space, record.key, new, blocks)?;
                }
                Kind::DeleteRange => {
                    if let Some(tombstone) = self.tombstones.range_mut(space, seq) {
                        tombstone.entry = new;
                        counts = u32::from(!tombstone.stale.is_zero());
                    }
                }
            }
            // A tombstone that counts nothing any more was accounted for when it came to that.
            if counts > 0 {
                self.blocks.died(old.block(), old.footprint());
                self.blocks.born(new.block(), new.footprint());
            }
            self.moved_bytes += new.footprint();
        }
        Ok(())
    }

    /// Lets the map's word of the collector's block cover what is in it, with the next fence.
    fn cover_collector_block(&mut self) {
        let (block, used) = (self.collector.block(), self.collector.written());
        if let (Some(block), Some(proof)) = (block, self.collector.proof.as_ref()) {
            let incarnation = self.blocks.incarnation(block);
            self.map.set(block, Life { state: State::Sealed(used), incarnation }, Some(proof));
        }
    }

    fn change_collector_block(&mut self, view: &RwLock<View>) -> Result<()> {
        if let Some(closed) = self.collector.close() {
            self.blocks.seal(closed.block, closed.used);
        }
        let block = self.take_block()?;
        let readable = self.collector.enter(&self.device, &self.blocks, block, self.salt)?;
        view.write().set_block(block, readable);
        Ok(())
    }

    /// Frees what is in limbo and can be reached by nobody: no scan, no reader, and no crash could
    /// bring it back. Returns whether there was anything. A block costs at most 2 fences.
    pub(crate) fn release_limbo(
        &mut self,
        view: &RwLock<View>,
        oldest_scan: Option<u64>,
    ) -> Result<bool> {
        let mut released = false;
        for limbo in std::mem::take(&mut self.limbo) {
            let unseen = oldest_scan.is_none_or(|oldest| oldest > limbo.epoch);
            let replaced = limbo.seq <= self.durable_seq || planted!(ValueFreedBeforeReplaced);
            if unseen && replaced && self.release(view, limbo.what)? {
                released = true;
            } else {
                self.limbo.push(limbo);
            }
        }
        Ok(released)
    }

    fn release(&mut self, view: &RwLock<View>, what: What) -> Result<bool> {
        let (first, count) = match what {
            What::Block(block) => (block, 1),
            What::Piece { first, count } => (first, count),
        };
        let Some(Readable { published, seed }) = view.write().take_block(first) else {
            return Ok(false);
        };
        let fresh = match published.reclaim() {
            Ok(fresh) => fresh,
            Err(published) => {
                view.write().set_block(first, Readable { published, seed });
                return Ok(false);
            }
        };
        drop(fresh);
        if let What::Block(block) = what {
            let freed = self.free_block(block);
            self.poison_by(freed)?;
        }
        (first..first + count).for_each(|block| self.blocks.free(block));
        let released = self.release_if_spare(first);
        self.poison_by(released)?;
        Ok(true)
    }

    /// Frees a block durably. At most 2 fences.
    fn free_block(&mut self, block: u32) -> Result<()> {
        // The copies must be covered before the originals can go.
        if self.map.is_dirty() && !planted!(VictimFreedBeforeCovered) {
            self.fence_with_map(Vec::new())?;
        }
        let incarnation = self.blocks.incarnation(block);
        self.map.set(block, Life { state: State::Free, incarnation }, None);
        if !planted!(BlockReusedBeforeFreed) {
            self.fence_with_map(Vec::new())?;
        }
        Ok(())
    }
}

/// Calls `visit` with place, record and footprint of every record in `bytes`, all of which are
/// records.
///
/// # Errors
/// The damaged record, named.
pub(crate) fn each_record<'a>(
    bytes: &'a [u8],
    seed: u64,
    block: u32,
    mut visit: impl FnMut(u64, Record<'a>, u64),
) -> Result<()> {
    let mut at = 0;
    while at < bytes.len() as u64 {
        let rest = &bytes[at as usize..];
        let read = Record::read(rest, frame::place(seed, at));
        let read = read.and_then(|record| match record.next_at(at) {
            next if next <= bytes.len() as u64 => Ok((record, next)),
            _ => Err("the block's used part ends inside its padding"),
        });
        let (record, next) = read.map_err(|why| record::damage(rest, block, at, why))?;
        visit(at, record, next - at);
        at = next;
    }
    Ok(())
}
