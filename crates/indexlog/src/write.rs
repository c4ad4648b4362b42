//! The write path.
//!
//! [`Writer::write`] checks the operations, makes room, writes large values, encodes records behind
//! the log's tail, waits for one fence and applies the operations to the view. Nothing has happened
//! if anything fails before the records are written; if the fence itself fails, nobody knows what is
//! durable, so the writer takes no more writes.

use std::collections::BTreeMap;

use halite_alloc::{Device, SEGMENT, Segments};
use halite_engine::{Durability, Error, Op, Result};
use halite_pmem::locks::RwLock;
use halite_pmem::{Fenced, Flushed, Pool, planted};

use crate::block_map::{BlockMap, FIRSTS, Life, State};
use crate::blocks::Blocks;
use crate::change_log::ChangeLog;
use crate::change_replay::op_of;
use crate::collect::{COLLECT_BEFORE_GROWING, Collection, WORTHWHILE};
use crate::entry::Entry;
use crate::limbo::Limbo;
use crate::log::{Closed, Pending, Tail};
use crate::overflow::{self, Unfenced};
use crate::read::View;
use crate::record::{self, ALIGN, Draft, Kind, PIECES_MAX, Piece, Record};
use crate::tombstones::{RangeTombstone, Stale, Tombstones};
use crate::{BLOCK, BLOCKS_PER_SEGMENT};

/// What a batch may take in the log, in bytes. Values with blocks of their own do not count.
const BATCH_LEN_MAX: u64 = 256 << 20;

/// Blocks that may wait for a sync before a write brings it about: 8 MiB. They cannot be collected
/// before it; and the numbers of their first records, with those of the largest batch, have to stay
/// apart.
const UNSEALED_MAX: usize = 64;

/// The key space that holds the names of the others: name → id. Only the first partition's has any.
pub(crate) const CATALOGUE: u32 = 0;

/// The key space of what a partition notes for itself.
pub(crate) const INTERNAL: u32 = u32::MAX;

/// Blocks that stay free for collection: one for what it moves, and spare ones, because a crash that
/// interrupts it leaves a block and its copy.
pub(crate) const RESERVE_COLLECT: u32 = 3;

/// Blocks that stay free for collection and deletes, so that a full store can be emptied.
pub(crate) const RESERVE_DELETE: u32 = RESERVE_COLLECT + 3;

/// The one writer: what only the holder of its lock changes.
pub(crate) struct Writer {
    pub(crate) pool: Pool,
    pub(crate) device: Device,
    pub(crate) salt: u64,
    pub(crate) map: BlockMap,
    pub(crate) blocks: Blocks,
    pub(crate) log: Tail,
    /// None while what it has is replayed, too.
    pub(crate) changes: Option<ChangeLog>,
    pub(crate) collector: Tail,
    /// The collection that is under way.
    pub(crate) collection: Option<Collection>,
    pub(crate) tombstones: Tombstones,
    /// The number of the next record.
    pub(crate) next_seq: u64,
    /// Records up to this one are durable.
    pub(crate) durable_seq: u64,
    pending: Vec<Pending>,
    /// Blocks that were left before all of them was durable.
    unsealed: Vec<(u32, u64)>,
    pub(crate) limbo: Vec<Limbo>,
    /// Whether other partitions take segments from the same pool.
    shares_pool: bool,
    /// The record number that the map keeps.
    pub(crate) near: u64,
    pub(crate) next_space: u32,
    poisoned: Option<String>,
    entries: Vec<Entry>,
    pub(crate) user_bytes: u64,
    pub(crate) moved_bytes: u64,
    pub(crate) collected_blocks: u64,
}

impl Writer {
    /// The writer of an empty partition.
    pub(crate) fn new(segments: &Segments, device: Device, map: BlockMap) -> Result<Self> {
        Ok(Self {
            pool: segments.pool().clone(),
            device,
            salt: map.salt(),
            near: map.near()?,
            map,
            blocks: Blocks::new(segments.pool().random()?),
            log: Tail::default(),
            changes: None,
            collector: Tail::default(),
            collection: None,
            tombstones: Tombstones::default(),
            next_seq: 1,
            durable_seq: 0,
            pending: Vec::new(),
            unsealed: Vec::new(),
            limbo: Vec::new(),
            shares_pool: false,
            next_space: CATALOGUE + 1,
            poisoned: None,
            entries: Vec::new(),
            user_bytes: 0,
            moved_bytes: 0,
            collected_blocks: 0,
        })
    }

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

    fn release_segment(&mut self, segment: u32) -> Result<()> {
        self.device.release(segment)?;
        self.blocks.remove_segment(segment);
        Ok(())
    }

    /// Applies operations atomically. The caller has checked them, and that their key spaces exist.
    pub(crate) fn write(
        &mut self,
        view: &RwLock<View>,
        ops: &[Op<'_>],
        durability: Durability,
        oldest_scan: impl Fn() -> Option<u64>,
    ) -> Result<()> {
        self.check_health()?;
        if ops.is_empty() || is_needless(&view.read(), ops)? {
            // What makes it needless may not be durable yet.
            return if durability == Durability::Immediate { self.sync() } else { Ok(()) };
        }
        self.make_room_for(view, ops, &oldest_scan)?;
        let values = self.write_values(ops)?;
        let written = self.append_with_values(view, ops, values, durability);
        self.poison_by(written)?;
        let applied = self.apply(&mut view.write(), ops);
        self.poison_by(applied)
    }

    /// Writes the values of operations that do not fit a record into free blocks, of which there are
    /// enough. They are not yet durable.
    pub(crate) fn write_values(&mut self, ops: &[Op<'_>]) -> Result<Values> {
        let mut values = Values::default();
        for (at, op) in ops.iter().enumerate() {
            let Op::Put { key, value, .. } = *op else { continue };
            if Draft::needs_overflow(key, value) {
                let (device, blocks) = (&self.device, &mut self.blocks);
                let seq = self.next_seq + at as u64;
                match values.unfenced.write(device, blocks, value, self.salt, seq) {
                    Ok(written) => drop(values.pieces.insert(at, written)),
                    Err(error) => {
                        self.discard(values);
                        return Err(error.unwrap_or_else(|| self.full(None)));
                    }
                }
            }
        }
        Ok(values)
    }

    /// Gives the blocks of values back that nothing refers to.
    pub(crate) fn discard(&mut self, values: Values) {
        values.unfenced.discard(&mut self.blocks);
    }

    /// Writes the records of operations, behind the fence of their values.
    pub(crate) fn append_with_values(
        &mut self,
        view: &RwLock<View>,
        ops: &[Op<'_>],
        values: Values,
        durability: Durability,
    ) -> Result<()> {
        let Values { unfenced, pieces } = values;
        planted!(
            ValueReferencedBeforeFence,
            self.append(view, ops, &pieces, durability)
                .and_then(|()| unfenced.publish(&self.pool, view)),
            unfenced
                .publish(&self.pool, view)
                .and_then(|()| self.append(view, ops, &pieces, durability))
        )
    }

    /// Makes every write so far durable: in the change log, if there is one. One fence, if there is
    /// anything to wait for.
    pub(crate) fn sync(&mut self) -> Result<()> {
        self.check_health()?;
        let synced = if self.waits_for_records() {
            self.sync_pending(Vec::new()).map(drop)
        } else {
            self.sync_changes()
        };
        self.poison_by(synced)
    }

    /// Makes the records of every write so far durable. One fence, if there is anything to wait for.
    pub(crate) fn sync_records(&mut self) -> Result<()> {
        self.check_health()?;
        let synced = self.sync_pending(Vec::new()).map(drop);
        self.poison_by(synced)
    }

    /// Whether a write is durable only with its record: there is no change log, or a block was left.
    pub(crate) fn waits_for_records(&self) -> bool {
        self.changes.is_none() || !self.unsealed.is_empty()
    }

    /// Makes what waits in the change log durable.
    fn sync_changes(&mut self) -> Result<()> {
        let mut flushed = Vec::new();
        if let Some(changes) = &mut self.changes {
            changes.flush_pending(&mut flushed);
        }
        if !flushed.is_empty() {
            self.fence_with_map(flushed)?;
        }
        self.end_changes_sync();
        Ok(())
    }

    pub(crate) fn end_changes_sync(&self) {
        if let Some(changes) = &self.changes {
            changes.end_sync(self.next_seq - 1);
        }
    }

    /// Ends the log's current block, durably, so that the next open finds a clean end. Returns the digest
    /// of the map.
    pub(crate) fn close(&mut self) -> Result<u64> {
        self.sync_records()?;
        self.leave_block();
        // Sealing what was just fenced takes a second fence, this one.
        let closed = self.sync_pending(Vec::new());
        self.poison_by(closed)?;
        Ok(self.map.digest())
    }

    /// Writes that are not durable.
    pub(crate) fn unsynced(&self) -> u64 {
        let durable = self.changes.as_ref().map_or(self.durable_seq, ChangeLog::durable);
        self.next_seq - 1 - durable
    }

    /// Refuses if nobody knows what of an earlier write is durable: one of this partition, or, where the
    /// kernel failed to sync the pool that they share, of any.
    pub(crate) fn check_health(&self) -> Result<()> {
        match &self.poisoned {
            Some(why) => Err(Error::Poisoned { why: why.clone() }),
            None => Ok(self.pool.check_synced()?),
        }
    }

    pub(crate) fn poison_by<T>(&mut self, result: Result<T>) -> Result<T> {
        if let Err(error) = &result {
            self.poisoned = Some(error.to_string());
        }
        result
    }

    /// Takes no more writes, because an earlier one failed halfway.
    pub(crate) fn poison(&mut self, why: &str) {
        self.poisoned = Some(why.to_owned());
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
        let (mut needed, mut total, mut remaining) = (0, 0, self.log.remaining());
        let mut logged = 0;
        let mut only_deletes = true;
        for op in ops {
            let draft = draft(op, 0, 0, 0);
            let mut len = draft.len();
            if let Op::Put { space, key, value } = *op {
                // What a partition notes of a batch takes the place of an older note.
                only_deletes &= space.0 == INTERNAL;
                if Draft::needs_overflow(key, value) {
                    let blocks = overflow::block_count(value.len());
                    needed += blocks;
                    // As if every block were a piece of its own: never too little.
                    len = len - value.len() as u64 + 16 * blocks.min(PIECES_MAX as u64);
                }
            }
            logged += len;
            let len = len.next_multiple_of(ALIGN);
            total += len;
            if len > remaining {
                needed += 1;
                remaining = BLOCK;
            }
            remaining = remaining.saturating_sub(len);
        }
        if total > BATCH_LEN_MAX {
            return Err(Error::BatchTooLarge { len: total, limit: BATCH_LEN_MAX });
        }
        self.make_room_in_changes(logged)?;
        // Whole blocks of values, and what goes behind the log's tail.
        let appended = total + needed.saturating_sub(1) * BLOCK;
        self.find_room(view, needed, appended, only_deletes, oldest_scan)
    }

    /// Makes sure that the change log has room for operations of so many bytes.
    fn make_room_in_changes(&mut self, len: u64) -> Result<()> {
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

    /// Makes sure that so many blocks are free, besides the reserves, and pays for what is appended.
    fn find_room(
        &mut self,
        view: &RwLock<View>,
        needed: u64,
        appended: u64,
        only_deletes: bool,
        oldest_scan: &impl Fn() -> Option<u64>,
    ) -> Result<()> {
        let reserve = if only_deletes { RESERVE_COLLECT } else { RESERVE_DELETE };
        // A delete is worth more effort: it is what makes room.
        let worthwhile = if only_deletes { 1 } else { WORTHWHILE };
        let needed = needed + u64::from(reserve);
        while u64::from(self.blocks.free_count()) < needed {
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
            let victim = self.blocks.victim().filter(|_| can_collect);
            let (block, bytes) = victim.unwrap_or_default();
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
            } else if bytes >= worthwhile && self.blocks.reclaimable() >= BLOCK {
                self.begin_collection(view, block, bytes)?;
            } else {
                return Err(self.full(oldest_scan()));
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

    /// Writes the records of `ops` behind the log's tail, and their places into `self.entries`.
    fn append(
        &mut self,
        view: &RwLock<View>,
        ops: &[Op<'_>],
        pieces: &BTreeMap<usize, Vec<Piece>>,
        durability: Durability,
    ) -> Result<()> {
        self.entries.clear();
        for (at, op) in ops.iter().enumerate() {
            let pieces = pieces.get(&at).map_or(&[][..], Vec::as_slice);
            let seq = self.next_seq + at as u64;
            let remaining = (ops.len() - 1 - at) as u32;
            let draft = Draft { pieces, ..draft(op, seq, seq - 1 - self.durable_seq, remaining) };
            if let Some(changes) = &mut self.changes {
                changes.push(&draft, self.next_seq, self.durable_seq)?;
            }
            let encode = |out: &mut Vec<u8>, seed| draft.encode(out, seed);
            self.place(view, seq, draft.len(), !pieces.is_empty(), encode)?;
        }
        if let Some(last) = self.entries.last_mut() {
            *last = self.log.end_batch(*last);
        }
        self.next_seq += ops.len() as u64;
        if planted!(DeferredTakenForDurable) {
            self.durable_seq = self.next_seq - 1;
        }
        let waits = planted!(AcknowledgedBeforeFence, false, durability == Durability::Immediate);
        if self.changes.is_some() {
            return self.append_changes(view, ops, waits);
        }
        if waits && self.pending.is_empty() {
            return self.append_durably(view, ops);
        }
        if let Some(pending) = self.log.write() {
            self.add_pending(pending);
        }
        if waits {
            self.sync_pending(Vec::new())?;
        }
        Ok(())
    }

    /// Puts a record behind the log's tail, and its place into `self.entries`.
    fn place(
        &mut self,
        view: &RwLock<View>,
        seq: u64,
        len: u64,
        overflow: bool,
        encode: impl FnOnce(&mut Vec<u8>, u64),
    ) -> Result<()> {
        if len.next_multiple_of(ALIGN) > self.log.remaining() {
            if let Some(pending) = self.log.write() {
                self.add_pending(pending);
            }
            if self.map.is_dirty() && !planted!(OpenBlocksUnknown) {
                // Of the blocks that wait to be sealed the map must know all but the newest, or a
                // power cut could lose one in their middle.
                self.fence_with_map(Vec::new())?;
            }
            self.leave_block();
            self.enter_block(view, seq)?;
        }
        let entry = self.log.push(overflow, encode);
        self.entries.push(entry);
        Ok(())
    }

    /// Writes the records through the cache, and the entry behind the change log's end: durably, if that
    /// is waited for. One fence then.
    fn append_changes(&mut self, view: &RwLock<View>, ops: &[Op<'_>], waits: bool) -> Result<()> {
        if let Some(pending) = self.log.write() {
            self.add_pending(pending);
        }
        let is_first = !self.waits_for_records();
        let Some(changes) = &mut self.changes else { return Ok(()) };
        if planted!(ChangeBeforeFence) {
            changes.write();
            self.end_changes_sync();
        } else if waits && is_first && !changes.is_pending() && !self.map.is_dirty() {
            let flushed = changes.stream();
            if let [Op::Put { space, key, .. }] = *ops {
                // While the lines drain, the index's come into the cache.
                view.read().prepare_update(space.0, key);
            }
            let [proof] = self.pool.fence([flushed])?;
            changes.publish(&proof);
            self.end_changes_sync();
        } else {
            changes.write();
            if waits && is_first {
                self.sync_changes()?;
            } else if waits {
                self.sync_pending(Vec::new())?;
            }
        }
        Ok(())
    }

    /// Writes the records of a batch that the change log has, and applies it.
    pub(crate) fn replay(&mut self, view: &RwLock<View>, records: &[Record<'_>]) -> Result<()> {
        let Some(first) = records.first() else { return Ok(()) };
        if self.unsealed.len() > UNSEALED_MAX {
            self.sync_records()?;
        }
        let len: u64 = records.iter().map(|record| record.len().next_multiple_of(ALIGN)).sum();
        // The rest of a block may be too short for the record that is next.
        let needed = 1 + len / (BLOCK / 4);
        let needed = if len <= self.log.remaining() { 0 } else { needed };
        self.find_room(view, needed, len, true, &|| None)?;
        self.next_seq = first.seq();
        self.entries.clear();
        for record in records {
            let encode = |out: &mut Vec<u8>, seed| record::copy(record, out, seed);
            self.place(view, record.seq(), record.len(), record.has_overflow(), encode)?;
        }
        if let Some(last) = self.entries.last_mut() {
            *last = self.log.end_batch(*last);
        }
        self.next_seq += records.len() as u64;
        if let Some(pending) = self.log.write() {
            self.add_pending(pending);
        }
        let ops: Vec<_> = records.iter().map(op_of).collect();
        let mut view = view.write();
        for op in &ops {
            view.space_mut(op.space().0);
        }
        self.apply(&mut view, &ops)
    }

    /// Streams the chunk and waits for it: the one fence of a put.
    fn append_durably(&mut self, view: &RwLock<View>, ops: &[Op<'_>]) -> Result<()> {
        let Some(flushed) = self.log.stream() else { return Ok(()) };
        if let [Op::Put { space, key, .. }] = *ops {
            // While the lines drain, the index's come into the cache.
            view.read().prepare_update(space.0, key);
        }
        if self.map.is_dirty() {
            let mut proofs = self.sync_pending(vec![flushed])?;
            self.log.publish(proofs.swap_remove(0));
        } else {
            let [proof] = self.pool.fence([flushed])?;
            self.log.publish(proof);
            self.durable_seq = self.next_seq - 1;
        }
        Ok(())
    }

    fn add_pending(&mut self, pending: Pending) {
        if !self.pending.last_mut().is_some_and(|last| last.extend(&pending)) {
            self.pending.push(pending);
        }
    }

    /// Flushes and fences all that is pending, behind `flushed`, whose proofs come first.
    #[track_caller]
    fn sync_pending(&mut self, mut flushed: Vec<Flushed>) -> Result<Vec<Fenced>> {
        let given = flushed.len();
        let waits_in_log = self.flush_pending(&mut flushed);
        let appended = flushed.len();
        if let Some(changes) = &mut self.changes {
            changes.flush_pending(&mut flushed);
        }
        let proofs = self.fence_with_map(flushed)?;
        // All that was ever appended is durable now, so every proof of appended bytes will do.
        let last = appended.checked_sub(1).and_then(|last| proofs.get(last));
        debug_assert!(waits_in_log == (appended > given));
        self.end_sync(last, waits_in_log);
        Ok(proofs)
    }

    /// Starts the write-back of what was appended and waits for it. Returns whether there was anything:
    /// the last of it is in the log's current block.
    #[track_caller]
    pub(crate) fn flush_pending(&mut self, flushed: &mut Vec<Flushed>) -> bool {
        let waits = !self.pending.is_empty();
        flushed.extend(self.pending.iter().map(Pending::flush));
        self.pending.clear();
        waits
    }

    /// Notes that everything is durable. `last` is the proof of the last bytes that were appended, if
    /// any were; in the log's current block, if they waited there.
    pub(crate) fn end_sync(&mut self, last: Option<&Fenced>, waits_in_log: bool) {
        self.durable_seq = self.next_seq - 1;
        self.end_changes_sync();
        let Some(proof) = last else { return };
        for (block, used) in std::mem::take(&mut self.unsealed) {
            self.seal(block, used, proof);
        }
        if waits_in_log {
            self.log.proof = Some(proof.clone());
        }
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

    /// Leaves the log's current block; it is sealed when all of it is durable.
    fn leave_block(&mut self) {
        match self.log.close() {
            Some(Closed { block, used, proof: Some(proof) }) => self.seal(block, used, &proof),
            Some(Closed { block, used, proof: None }) => planted!(
                SealedBeforeRecords,
                self.seal(block, used, &planted::forged(&self.pool)),
                self.unsealed.push((block, used))
            ),
            None => {}
        }
    }

    fn seal(&mut self, block: u32, used: u64, proof: &Fenced) {
        let incarnation = self.blocks.incarnation(block);
        self.map.set(block, Life { state: State::Sealed(used), incarnation }, Some(proof));
        self.blocks.seal(block, used);
    }

    /// Goes on in another block, whose first record is number `seq`.
    fn enter_block(&mut self, view: &RwLock<View>, seq: u64) -> Result<()> {
        // The numbers in the map have to be told apart whatever else of the log is collected.
        if seq - self.near.min(seq) > NEAR_MAX {
            self.map.set_near(seq)?;
            self.near = seq;
        }
        let block = self.take_block()?;
        let readable = self.log.enter(&self.device, &self.blocks, block, self.salt)?;
        view.write().set_block(block, readable);
        let state = State::Open((seq % u64::from(FIRSTS)) as u32);
        let incarnation = self.blocks.incarnation(block);
        self.map.set(block, Life { state, incarnation }, None);
        Ok(())
    }

    pub(crate) fn take_block(&mut self) -> Result<u32> {
        self.blocks.take().ok_or_else(|| self.full(None))
    }

    /// That there is no room; what the scans from the oldest on keep may be why.
    fn full(&self, oldest_scan: Option<u64>) -> Error {
        let held = self.held_in_limbo(oldest_scan);
        Error::Full { used: self.blocks.live(), limit: self.pool.len_max(), held }
    }

    /// Applies operations whose records are written to the view.
    ///
    /// # Errors
    /// A record is damaged whose key had to be read. What is written cannot be seen then.
    pub(crate) fn apply(&mut self, view: &mut View, ops: &[Op<'_>]) -> Result<()> {
        let first_seq = self.next_seq - ops.len() as u64;
        for (at, op) in ops.iter().enumerate() {
            let entry = self.entries[at];
            self.blocks.born(entry.block(), entry.footprint());
            match *op {
                Op::Put { space, key, value } => {
                    self.user_bytes += (key.len() + value.len()) as u64;
                    self.apply_put(view, space.0, key, entry)?;
                }
                Op::Delete { space, key } => self.apply_delete(view, space.0, key, entry)?,
                Op::DeleteRange { space, start, end } => {
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
        view.position = self.next_seq;
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
            self.bury(view, Entry::from_bits(old));
        } else if let Some(tombstone) = self.tombstones.remove(space, key, blocks)? {
            self.bury_tombstone(tombstone);
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
            self.bury(view, old);
        } else if let Some(tombstone) = self.tombstones.get(space, key, blocks)? {
            stale = tombstone.stale() + 1;
            self.bury_tombstone(tombstone);
        }
        self.tombstones.insert(space, key, entry.with_stale(stale), &view.blocks)?;
        if stale == 0 {
            self.blocks.died(entry.block(), entry.footprint());
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
            self.bury(view, old);
        }
        for old in dead {
            tombstone.stale.take_over(old);
            self.bury_tombstone(old);
        }
        if tombstone.stale.is_zero() {
            self.blocks.died(tombstone.entry.block(), tombstone.entry.footprint());
        }
        self.tombstones.insert_range(space, tombstone);
        Ok(())
    }

    /// Accounts for the death of a live record; a value in blocks of its own goes to limbo.
    fn bury(&mut self, view: &mut View, dead: Entry) {
        if dead.has_overflow() {
            let pinned = view.pin_record(dead).ok();
            // A record that cannot be read any more leaves its value's blocks to the next open.
            let pieces = pinned.as_ref().and_then(|pinned| Some(pinned.read().ok()?.pieces()));
            for piece in pieces.unwrap_or_default() {
                self.blocks.died(piece.block.get(), piece.len.get().into());
                self.send_to_limbo(view, Limbo::piece(piece, self.next_seq - 1));
            }
        }
        self.blocks.died(dead.block(), dead.footprint());
    }

    /// Accounts for the death of a tombstone that was superseded.
    fn bury_tombstone(&mut self, dead: Entry) {
        if dead.stale() > 0 {
            self.blocks.died(dead.block(), dead.footprint());
        }
    }
}

/// Whether the only operation deletes what is not there.
fn is_needless(view: &View, ops: &[Op<'_>]) -> Result<bool> {
    Ok(match *ops {
        [Op::Delete { space, key }] => view.live(space.0, key)?.is_none(),
        [Op::DeleteRange { space, start, end }] => match view.spaces.get(&space.0) {
            Some(space) => !space.index.has_any(start, end, &view.blocks)?,
            None => true,
        },
        _ => false,
    })
}

/// The values of operations that do not fit a record: written, and not yet durable.
#[derive(Default)]
pub(crate) struct Values {
    unfenced: Unfenced,
    /// By operation.
    pieces: BTreeMap<usize, Vec<Piece>>,
}

/// The record of an operation, its value inline.
fn draft<'a>(op: &Op<'a>, seq: u64, lag: u64, remaining: u32) -> Draft<'a> {
    let (kind, space, key, value) = match *op {
        Op::Put { space, key, value } => (Kind::Put, space, key, Some(value)),
        Op::Delete { space, key } => (Kind::Delete, space, key, None),
        Op::DeleteRange { space, start, end } => (Kind::DeleteRange, space, start, end),
    };
    Draft { kind, seq, lag, remaining, space: space.0, key, value, pieces: &[] }
}

/// How far the numbers of records may go beyond the one that the superblock has.
const NEAR_MAX: u64 = FIRSTS as u64 / 4;

/// Even records of no more than a header leave a gap in which the order of open blocks begins.
const _: () = assert!(
    (BATCH_LEN_MAX + (UNSEALED_MAX as u64 + 2) * BLOCK) / record::LEN_MIN < FIRSTS as u64 / 2
);
const _: () = assert!(SEGMENT == BLOCK * BLOCKS_PER_SEGMENT as u64);
