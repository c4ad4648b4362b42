//! Appending records to the log, and making them durable.
//!
//! The records of a write go behind the log's tail, and into another block where one is full. A durable write is
//! streamed and has one fence ([`Writer::append`]); a deferred one goes through the cache, and waits for the next
//! fence ([`Writer::sync`]). A block that the log has left is sealed when all of it is durable. With a change log, a
//! write waits for its entry there, and several records are made durable together. Large values are written before
//! (`overflow`), and wait for the same fence as the record or entry that refers to them.

use crate::record::op::draft;
use halite_contract::{Op, Result};
use halite_pmem::{Fenced, Flushed};
use halite_sim::locks::RwLock;
use halite_sim::planted;

use crate::log::overflow::{Streamed, Values};
use crate::log::tail::{Closed, Pending};
use crate::read::view::View;
use crate::record::op::op_of;
use crate::record::{self, ALIGN, Draft, LAG_UNKNOWN, Piece, Record};
use crate::space::block_map::{FIRSTS, Life, State};
use crate::write::Writer;

/// How far the numbers of records may go beyond the one in the superblock.
const NEAR_MAX: u64 = FIRSTS as u64 / 4;

/// Blocks that may wait for a sync before a write brings it about: 8 MiB. They cannot be collected before it; and the
/// map must be able to tell the numbers of their first records apart, with those of the largest batch.
pub(crate) const UNSEALED_MAX: usize = 64;

impl Writer {
    /// Writes the records of `ops`, which refer to `values`, behind the log's tail, and their places into
    /// `self.entries`. Waits for one fence, if it `waits`.
    pub(crate) fn append(
        &mut self,
        view: &RwLock<View>,
        ops: &[Op<'_>],
        values: Values,
        waits: bool,
    ) -> Result<()> {
        let Values { pieces, streamed, pending } = values;
        self.pending_values.extend(pending);
        self.entries.clear();
        for (at, op) in ops.iter().enumerate() {
            let pieces = pieces.get(&at).map_or(&[][..], Vec::as_slice);
            let seq = self.next_seq + at as u64;
            let remaining = (ops.len() - 1 - at) as u32;
            let draft = Draft { pieces, ..draft(op, seq, seq - 1 - self.durable_seq, remaining) };
            if let Some(changes) = &mut self.changes {
                changes.push(&draft, self.next_seq, self.durable_seq)?;
            }
            let lag = draft.lag;
            let encode = |out: &mut Vec<u8>, seed| draft.encode(out, seed);
            self.place(view, seq, draft.len(), pieces, encode)?;
            if let Some(changes) = &self.changes {
                self.said_seq = changes.durable();
            } else if lag < LAG_UNKNOWN.into() {
                self.said_seq = seq - 1 - lag;
            }
        }
        if let Some(last) = self.entries.last_mut() {
            *last = self.log.end_batch(*last);
        }
        self.next_seq += ops.len() as u64;
        if planted!(DeferredTakenForDurable) {
            self.durable_seq = self.next_seq - 1;
        }
        if self.changes.is_some() {
            return self.append_changes(view, ops, streamed, waits);
        }
        if waits && self.pending.is_empty() {
            return self.append_durably(view, ops, streamed);
        }
        if let Some(pending) = self.log.write() {
            self.add_pending(pending);
        }
        if waits {
            self.sync_pending(Vec::new(), streamed)?;
        }
        Ok(())
    }

    /// Puts a record behind the log's tail, and its place into `self.entries`.
    fn place(
        &mut self,
        view: &RwLock<View>,
        seq: u64,
        len: u64,
        pieces: &[Piece],
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
        let entry = self.log.push(!pieces.is_empty(), encode);
        self.entries.push(entry);
        pieces.iter().for_each(|piece| self.blocks.set_owner(piece.place.get(), entry));
        Ok(())
    }

    /// Writes the records through the cache, and the entry behind the change log's end: durably, with one fence, if
    /// the caller `waits`.
    fn append_changes(
        &mut self,
        view: &RwLock<View>,
        ops: &[Op<'_>],
        streamed: Streamed,
        waits: bool,
    ) -> Result<()> {
        if let Some(pending) = self.log.write() {
            self.add_pending(pending);
        }
        let is_first = !self.waits_for_records();
        let is_alone = streamed.is_empty() && !self.map.is_dirty();
        let Some(changes) = &mut self.changes else { return Ok(()) };
        if planted!(ChangeBeforeFence) {
            changes.write();
            self.end_changes_sync();
        } else if waits && is_first && !changes.is_pending() && is_alone {
            let flushed = changes.stream();
            if let [Op::Put { space, key, .. }] = *ops {
                // While the written lines drain, the index's lines come into the cache.
                view.read().prepare_update(space.0, key);
            }
            let [proof] = self.pool.fence([flushed])?;
            changes.publish(&proof);
            self.end_changes_sync();
        } else {
            changes.write();
            if waits && is_first {
                self.sync_changes(streamed)?;
            } else if waits {
                self.sync_pending(Vec::new(), streamed)?;
            }
        }
        Ok(())
    }

    /// Writes the records of a batch that the change log has, and applies it.
    pub(crate) fn replay(&mut self, view: &RwLock<View>, records: &[Record<'_>]) -> Result<()> {
        let Some(first) = records.first() else { return Ok(()) };
        self.make_room_again(view, records.iter().map(Record::len))?;
        self.next_seq = first.seq();
        self.entries.clear();
        for record in records {
            let encode = |out: &mut Vec<u8>, seed| record::copy(record, out, seed);
            self.place(view, record.seq(), record.len(), record.pieces(), encode)?;
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
    fn append_durably(
        &mut self,
        view: &RwLock<View>,
        ops: &[Op<'_>],
        streamed: Streamed,
    ) -> Result<()> {
        let Some(flushed) = self.log.stream() else { return Ok(()) };
        if let [Op::Put { space, key, .. }] = *ops {
            // While the written lines drain, the index's lines come into the cache.
            view.read().prepare_update(space.0, key);
        }
        if self.map.is_dirty() || !streamed.is_empty() {
            let mut proofs = self.sync_pending(vec![flushed], streamed)?;
            self.log.publish(proofs.swap_remove(0));
        } else {
            let [proof] = self.pool.fence([flushed])?;
            self.log.publish(proof);
            self.note_durable();
        }
        Ok(())
    }

    /// Makes every write so far durable: in the change log, if there is one. One fence, if there is
    /// anything to wait for.
    pub(crate) fn sync(&mut self) -> Result<()> {
        self.check_health()?;
        let synced = if self.waits_for_records() {
            self.sync_pending(Vec::new(), Vec::new()).map(drop)
        } else {
            self.sync_changes(Vec::new())
        };
        self.poison_by(synced)
    }

    /// Makes the records of every write so far durable. One fence, if there is anything to wait for.
    pub(crate) fn sync_records(&mut self) -> Result<()> {
        self.check_health()?;
        let synced = self.sync_pending(Vec::new(), Vec::new()).map(drop);
        self.poison_by(synced)
    }

    /// Whether a write is durable only with its record: there is no change log, or a block was left.
    pub(crate) fn waits_for_records(&self) -> bool {
        self.changes.is_none() || !self.unsealed.is_empty()
    }

    /// Makes the pending entries of the change log durable, and the pending values with them.
    fn sync_changes(&mut self, streamed: Streamed) -> Result<()> {
        let mut flushed = Vec::new();
        if let Some(changes) = &mut self.changes {
            changes.flush_pending(&mut flushed);
        }
        if !flushed.is_empty() {
            self.fence_with_values(flushed, streamed)?;
        }
        self.end_changes_sync();
        Ok(())
    }

    pub(crate) fn end_changes_sync(&mut self) {
        if let Some(changes) = &self.changes {
            changes.end_sync(self.next_seq - 1);
            self.proved_seq = self.said_seq;
        }
    }

    /// Notes that the records of all writes so far are durable.
    fn note_durable(&mut self) {
        self.durable_seq = self.next_seq - 1;
        if self.changes.is_none() {
            self.proved_seq = self.said_seq;
        }
    }

    fn add_pending(&mut self, pending: Pending) {
        if !self.pending.last_mut().is_some_and(|last| last.extend(&pending)) {
            self.pending.push(pending);
        }
    }

    /// Flushes and fences all that is pending, behind `flushed`, whose proofs come first, and with it the
    /// values that were streamed.
    #[track_caller]
    pub(crate) fn sync_pending(
        &mut self,
        mut flushed: Vec<Flushed>,
        streamed: Streamed,
    ) -> Result<Vec<Fenced>> {
        let given = flushed.len();
        let waits_in_log = self.flush_pending(&mut flushed);
        let appended = flushed.len();
        if let Some(changes) = &mut self.changes {
            changes.flush_pending(&mut flushed);
        }
        let proofs = self.fence_with_values(flushed, streamed)?;
        // All that was ever appended is durable now, so every proof of appended bytes will do.
        let last = appended.checked_sub(1).and_then(|last| proofs.get(last));
        debug_assert!(waits_in_log == (appended > given));
        self.end_sync(last, waits_in_log);
        Ok(proofs)
    }

    /// Starts the write-back of the records that were appended and are pending. Returns whether there were any:
    /// the last of them is in the log's current block.
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
        self.note_durable();
        self.end_changes_sync();
        let Some(proof) = last else { return };
        for (block, used) in std::mem::take(&mut self.unsealed) {
            self.seal(block, used, proof);
        }
        if waits_in_log {
            self.log.proof = Some(proof.clone());
        }
    }

    /// Starts the write-back of the values that were written through the cache.
    #[track_caller]
    pub(crate) fn flush_values(&mut self, flushed: &mut Vec<Flushed>) {
        flushed.extend(self.pending_values.iter().map(Pending::flush));
        self.pending_values.clear();
    }

    /// Fences `flushed` together with all values that wait, and the words of the map. Readers may read the streamed
    /// values then.
    #[track_caller]
    fn fence_with_values(
        &mut self,
        mut flushed: Vec<Flushed>,
        streamed: Streamed,
    ) -> Result<Vec<Fenced>> {
        let given = flushed.len();
        let (mut appenders, tokens): (Vec<_>, Vec<_>) = streamed.into_iter().unzip();
        flushed.extend(tokens);
        self.flush_values(&mut flushed);
        let proofs = self.fence_with_map(flushed)?;
        for (appender, proof) in appenders.iter_mut().zip(&proofs[given.min(proofs.len())..]) {
            appender.publish(proof);
        }
        Ok(proofs)
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
    pub(crate) fn leave_block(&mut self) {
        match self.log.close() {
            Some(Closed { block, used, proof: Some(proof) }) => self.seal(block, used, &proof),
            Some(Closed { block, used, proof: None }) => planted!(
                SealedBeforeRecords,
                self.seal(block, used, &halite_pmem::forged(&self.pool)),
                self.unsealed.push((block, used))
            ),
            None => {}
        }
    }

    pub(crate) fn seal(&mut self, block: u32, used: u64, proof: &Fenced) {
        let incarnation = self.blocks.incarnation(block);
        self.map.set(block, Life { state: State::Sealed(used), incarnation }, Some(proof));
        self.blocks.seal(block, used, self.next_seq);
    }

    /// Goes on in another block, whose first record is number `seq`.
    pub(crate) fn enter_block(&mut self, view: &RwLock<View>, seq: u64) -> Result<()> {
        // The map must be able to tell these numbers apart whatever else of the log is collected.
        if seq - self.near.min(seq) > NEAR_MAX {
            self.map.set_near(seq)?;
            self.near = seq;
        }
        let block = self.take_block(view)?;
        let readable = self.log.enter(&self.device, &self.blocks, block, self.salt)?;
        view.write().set_block(block, readable);
        let state = State::Open((seq % u64::from(FIRSTS)) as u32);
        let incarnation = self.blocks.incarnation(block);
        self.map.set(block, Life { state, incarnation }, None);
        Ok(())
    }
}
