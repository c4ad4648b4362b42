//! Appending records to the log.
//!
//! The records of a write go behind the log's tail, and into another block where one is full. A durable write is
//! streamed and has one fence ([`Log::append`]); a deferred one goes through the cache, and waits for the next fence
//! (`sync`). With a change log, a write waits for its entry there. Large values are written before (`overflow`), and
//! wait for the same fence as the record or entry that refers to them.

use halite_contract::{Op, Result};
use halite_sim::locks::RwLock;
use halite_sim::planted;

use super::Log;
use super::tail::Closed;
use crate::ALIGN;
use crate::log::overflow::{Streamed, Values};
use crate::read::view::View;
use crate::record::op::draft;
use crate::record::{self, Draft, LAG_UNKNOWN, Piece, Record};
use crate::space::Space;
use crate::space::block_map::FIRSTS;

/// How far the numbers of records may go beyond the one in the superblock.
const NEAR_MAX: u64 = FIRSTS as u64 / 4;

impl Log {
    /// Writes the records of `ops`, which refer to `values`, behind the log's tail, and their places into
    /// [`Log::entries`]. Waits for one fence, if it `waits`.
    pub(crate) fn append(
        &mut self,
        space: &mut Space,
        view: &RwLock<View>,
        ops: &[Op<'_>],
        values: Values,
        waits: bool,
    ) -> Result<()> {
        let Values { pieces, streamed, pending } = values;
        self.durability.add_values(pending);
        self.entries.clear();
        let (first, durable) = (self.durability.next(), self.durability.records());
        for (at, op) in ops.iter().enumerate() {
            let pieces = pieces.get(&at).map_or(&[][..], Vec::as_slice);
            let seq = first + at as u64;
            let remaining = (ops.len() - 1 - at) as u32;
            let draft = Draft { pieces, ..draft(op, seq, seq - 1 - durable, remaining) };
            if let Some(changes) = &mut self.changes {
                changes.push(&draft, first, durable)?;
            }
            let lag = draft.lag;
            let encode = |out: &mut Vec<u8>, seed| draft.encode(out, seed);
            self.place(space, view, seq, draft.len(), pieces, encode)?;
            if let Some(changes) = &self.changes {
                self.durability.state(changes.durable());
            } else if lag < LAG_UNKNOWN.into() {
                self.durability.state(seq - 1 - lag);
            }
        }
        if let Some(last) = self.entries.last_mut() {
            *last = self.tail.end_batch(*last);
        }
        self.durability.number(ops.len() as u64);
        planted!("indexlog.deferred-taken-for-durable", self.durability.complete());
        if self.changes.is_some() {
            return self.append_changes(space, view, ops, streamed, waits);
        }
        if waits && !self.durability.has_pending() {
            return self.append_durably(space, view, ops, streamed);
        }
        if let Some(pending) = self.tail.write() {
            self.durability.add_pending(pending);
        }
        if waits {
            self.sync_pending(space, Vec::new(), streamed)?;
        }
        Ok(())
    }

    /// Puts a record behind the tail, and its place into `self.entries`.
    fn place(
        &mut self,
        space: &mut Space,
        view: &RwLock<View>,
        seq: u64,
        len: u64,
        pieces: &[Piece],
        encode: impl FnOnce(&mut Vec<u8>, u64),
    ) -> Result<()> {
        if len.next_multiple_of(ALIGN) > self.tail.remaining() {
            if let Some(pending) = self.tail.write() {
                self.durability.add_pending(pending);
            }
            if planted!("indexlog.open-blocks-unknown", false, space.map().is_dirty()) {
                // Of the blocks that wait to be sealed the map must know all but the newest, or a
                // power cut could lose one in their middle.
                space.fence_with_map(Vec::new())?;
            }
            self.leave_block(space);
            self.enter_block(space, view, seq)?;
        }
        let entry = self.tail.push(!pieces.is_empty(), encode);
        self.entries.push(entry);
        let blocks = space.blocks_mut();
        pieces.iter().for_each(|piece| blocks.set_owner(piece.place(), entry));
        Ok(())
    }

    /// Writes the records through the cache, and the entry behind the change log's end: durably, with one fence, if
    /// the caller `waits`.
    fn append_changes(
        &mut self,
        space: &mut Space,
        view: &RwLock<View>,
        ops: &[Op<'_>],
        streamed: Streamed,
        waits: bool,
    ) -> Result<()> {
        if let Some(pending) = self.tail.write() {
            self.durability.add_pending(pending);
        }
        let is_first = !self.waits_for_records();
        let is_alone = streamed.is_empty() && !space.map().is_dirty();
        let Some(changes) = &mut self.changes else { return Ok(()) };
        let is_awaited = planted!("indexlog.change-before-fence", false, waits);
        if is_awaited && is_first && !changes.is_pending() && is_alone {
            let flushed = changes.stream();
            if let [Op::Put { space, key, .. }] = *ops {
                // While the written lines drain, the index's lines come into the cache.
                view.read().prepare_update(space.0, key);
            }
            let [proof] = space.pool().fence([flushed])?;
            changes.publish(&proof);
            self.end_changes_sync();
        } else {
            changes.write();
            if is_awaited && is_first {
                self.sync_changes(space, streamed)?;
            } else if is_awaited {
                self.sync_pending(space, Vec::new(), streamed)?;
            }
        }
        Ok(())
    }

    /// Streams the chunk and waits for it: the one fence of a put.
    fn append_durably(
        &mut self,
        space: &mut Space,
        view: &RwLock<View>,
        ops: &[Op<'_>],
        streamed: Streamed,
    ) -> Result<()> {
        let Some(flushed) = self.tail.stream() else { return Ok(()) };
        if let [Op::Put { space, key, .. }] = *ops {
            // While the written lines drain, the index's lines come into the cache.
            view.read().prepare_update(space.0, key);
        }
        if space.map().is_dirty() || !streamed.is_empty() {
            let mut proofs = self.sync_pending(space, vec![flushed], streamed)?;
            self.tail.publish(proofs.swap_remove(0));
        } else {
            let [proof] = space.pool().fence([flushed])?;
            self.tail.publish(proof);
            self.note_durable();
        }
        Ok(())
    }

    /// Writes the records of a batch that the change log has, whose numbers begin with that of the first of them.
    pub(crate) fn append_again(
        &mut self,
        space: &mut Space,
        view: &RwLock<View>,
        records: &[Record<'_>],
    ) -> Result<()> {
        let Some(first) = records.first() else { return Ok(()) };
        self.durability.go_on_with(first.seq());
        self.entries.clear();
        for record in records {
            let encode = |out: &mut Vec<u8>, seed| record::copy(record, out, seed);
            self.place(space, view, record.seq(), record.len(), record.pieces(), encode)?;
        }
        if let Some(last) = self.entries.last_mut() {
            *last = self.tail.end_batch(*last);
        }
        self.durability.number(records.len() as u64);
        if let Some(pending) = self.tail.write() {
            self.durability.add_pending(pending);
        }
        Ok(())
    }

    /// Leaves the tail's block; it is sealed when all of it is durable.
    pub(crate) fn leave_block(&mut self, space: &mut Space) {
        let next = self.durability.next();
        match self.tail.close() {
            Some(Closed { block, used, proof: Some(proof) }) => {
                space.seal(block, used, &proof, next);
            }
            Some(Closed { block, used, proof: None }) => planted!(
                "indexlog.sealed-before-records",
                space.seal(block, used, &halite_pmem::forged(space.pool()), next),
                self.durability.add_unsealed(block, used)
            ),
            None => {}
        }
    }

    /// Goes on in another block, whose first record is number `seq`.
    fn enter_block(&mut self, space: &mut Space, view: &RwLock<View>, seq: u64) -> Result<()> {
        // The map must be able to tell these numbers apart even if the rest of the log is collected.
        if seq - self.near.min(seq) > NEAR_MAX {
            space.map().set_near(seq)?;
            self.near = seq;
        }
        let block = space.take_block(view)?;
        let incarnation = space.blocks().incarnation(block);
        let readable = self.tail.enter(space.carving(), block, incarnation, space.salt())?;
        view.write().set_block(block, readable);
        space.open(block, seq);
        Ok(())
    }
}
